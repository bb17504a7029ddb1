"""
Tests for the commands about named locks.
"""

from __future__ import annotations

from typing import Any

from voltha_coord._lock import LockRecord, LockTrace
from voltha_coord.consul.model import Entry
from voltha_coord.lock_holding import TAKEN_AWAY

from .support.commands import ClusterCommandTestCase, CommandTestCase
from .support.keyspace import KEYS, member

SESSION = "1b3f8a52-3f5e-4d2c-8f16-c4d6c9f1c001"


class ListTests(CommandTestCase):
    """
    ``lock list``.
    """

    def locks(self) -> dict[str, Any]:
        """
        Give the rows of the document, by name.
        """
        return {row["name"]: row for row in self.document("lock", "list")["locks"]}

    def put_some(self) -> None:
        """
        Have locks of all kinds.
        """
        free = LockTrace("m1", "x", SESSION, released=True)
        self.put(
            member("m1"),
            Entry(KEYS.lock("a"), LockRecord("m1", "x").encode(), session=SESSION),
            Entry(KEYS.lock("b"), LockRecord("m2", "y", 30.0, 4711).encode()),
            Entry(KEYS.lock("c"), b"\xff"),
            Entry(KEYS.lock_trace("d"), LockTrace("m3", "z", SESSION).encode()),
            Entry(KEYS.lock_trace("e"), free.encode()),
            Entry(KEYS.lock_trace("a"), LockTrace("m1", "x", SESSION).encode()),
            Entry(f"{KEYS.locks}f/odd\x1b", b"?"),
        )

    def test_kinds(self) -> None:
        """
        Of each lock it is told who holds it, its token, and what it is bound to;
        what is free is left out, and what cannot be read is not.
        """
        self.put_some()
        rows = self.locks()

        self.assertEqual(list(rows), ["a", "b", "c", "d", "f/odd%1B"])
        a, b, d = rows["a"], rows["b"], rows["d"]
        self.assertEqual(
            (a["state"], a["owner"], a["owner_is_member"], a["bound_to"]),
            ("held", "m1", True, "session"),
        )
        self.assertEqual((a["session_id"], a["valid_for"]), (SESSION, None))
        self.assertGreater(a["fencing_token"], 0)
        self.assertEqual(
            (b["owner"], b["owner_is_member"], b["fencing_token"], b["valid_for"]),
            ("m2", False, 4711, 30.0),
        )
        self.assertEqual((d["state"], d["owner"]), ("waiting", "m3"))
        self.assertEqual(rows["c"]["state"], "unreadable")
        self.assertNotIn("owner_token", a)

    def test_shown(self) -> None:
        """
        People are told the same; of a term it is not told when it ends, for
        nobody knows.
        """
        self.put_some()
        shown = self.done("lock", "list")

        self.assertRegex(shown, r"a +held +m1 +\d+ +its session ends")
        self.assertRegex(
            shown, r"b +held +m2 \(no member\) +4711 +30 s after its last renewal"
        )
        self.assertNotIn("\x1b", shown)

    def test_none(self) -> None:
        """
        Where none is held, that is said.
        """
        self.assertEqual(self.done("lock", "list"), "no lock is held\n")

    def test_denied(self) -> None:
        """
        A listing that is empty because it may not be read is no empty one.
        """
        self.consul.state.deny = lambda resource, *_: resource == "key"

        self.assertIn("may not read", self.refused("lock", "list"))
        for args in (("create", "x", "--valid-for", "9"), ("delete", "x", "--force")):
            self.assertIn("denied", self.refused("lock", *args))


class CreateTests(CommandTestCase):
    """
    ``lock create``.
    """

    def test_created(self) -> None:
        """
        It is held by nobody's session, and its owner token is told.
        """
        document = self.document("lock", "create", "backup", "--valid-for", "30")
        record = LockRecord.from_entry(Entry("x", self.values(KEYS.locks)["backup"]))

        self.assertEqual(record, LockRecord("operator", document["owner_token"], 30.0))
        self.assertEqual(self.consul.state.sessions.all(), [])
        self.assertGreater(document["fencing_token"], 0)

    def test_shown(self) -> None:
        """
        People are told how it is freed again.
        """
        shown = self.done("lock", "create", "backup", "--valid-for", "30")
        self.assertIn("lock backup is held for 30 s; fencing token", shown)
        self.assertRegex(shown, r"owner token: [0-9a-f]{32}\n")

    def test_held(self) -> None:
        """
        One that is held is refused, and stays as it is.
        """
        for record, session, why in (
            (LockRecord("m1", "x"), SESSION, "held by m1, bound to its session"),
            (LockRecord("m1", "x", 9.0), None, "held by m1, for 9 s from its last"),
        ):
            entry = Entry(KEYS.lock("backup"), record.encode(), session=session)
            self.put(entry)
            refused = self.refused("lock", "create", "backup", "--valid-for", "30")
            self.assertIn(why, refused)
            self.assertEqual(self.values(KEYS.locks), {"backup": record.encode()})

    def test_last_holder(self) -> None:
        """
        Whoever held it last under a lease that may last is waited for.
        """
        trace = LockTrace("m1", "x", SESSION)
        self.put(Entry(KEYS.lock_trace("backup"), trace.encode()))
        refused = self.refused("lock", "create", "backup", "--valid-for", "30")
        self.assertIn("may act yet", refused)

    def test_garbage(self) -> None:
        """
        What is no lock is not written over.
        """
        self.put(Entry(KEYS.lock("backup"), b"hello"))
        self.assertIn(
            "no lock", self.refused("lock", "create", "backup", "--valid-for", "30")
        )

    def test_usage(self) -> None:
        """
        Names that cannot be keys, and terms that cannot be, are wrong usage.
        """
        for name in ("a/b", ".x", "", "a b", "ä"):
            refused = self.refused(
                "lock", "create", name, "--valid-for", "30", status=2
            )
            self.assertIn("NAME", refused)
        for seconds in ("0", "-1", "nan", "inf", "1e99", "x"):
            refused = self.refused(
                "lock", "create", "x", "--valid-for", seconds, status=2
            )
            self.assertIn("--valid-for", refused)
        self.refused("lock", "create", "x", status=2)
        self.assertEqual(self.values(KEYS.locks), {})


class DeleteTests(CommandTestCase):
    """
    ``lock delete``.
    """

    def create(self) -> str:
        """
        Have one, and give its owner token.
        """
        document = self.document("lock", "create", "backup", "--valid-for", "30")
        token: str = document["owner_token"]
        return token

    def test_by_its_owner(self) -> None:
        """
        Who knows the owner token frees it.
        """
        token = self.create()
        document = self.document("lock", "delete", "backup", "--owner-token", token)

        self.assertEqual((document["deleted"], document["owner"]), (True, "operator"))
        self.create()

    def test_another_owner(self) -> None:
        """
        Who does not is refused.
        """
        self.create()
        refused = self.refused("lock", "delete", "backup", "--owner-token", "x")

        self.assertIn("under another owner token", refused)
        self.assertIn("backup", self.values(KEYS.locks))

    def test_force(self) -> None:
        """
        An operator may free any, and what is no lock, and what waits for a lease.
        """
        self.create()
        self.assertEqual(
            self.done("lock", "delete", "backup", "--force"),
            "lock backup is free; it was held by operator\n",
        )
        self.put(Entry(KEYS.lock("backup"), b"hello"))
        self.done("lock", "delete", "backup", "--force")
        trace = LockTrace("m1", "x", SESSION)
        self.put(Entry(KEYS.lock_trace("backup"), trace.encode()))
        self.done("lock", "delete", "backup", "--force")

        self.create()

    def test_not_there(self) -> None:
        """
        One that nobody holds is no error.
        """
        for how in (("--force",), ("--owner-token", "x")):
            self.assertEqual(
                self.done("lock", "delete", "backup", *how),
                "lock backup is not held\n",
            )

    def test_usage(self) -> None:
        """
        Either the token or force: neither and both are wrong usage.
        """
        self.refused("lock", "delete", "x", status=2)
        both = ("--force", "--owner-token", "x")
        self.refused("lock", "delete", "x", *both, status=2)


class BesideMembersTests(ClusterCommandTestCase):
    """
    The commands, beside members that hold locks.
    """

    def test_force(self) -> None:
        """
        A holder is told that its lock was taken away, and whoever waits has it.
        """
        a, b = self.add("a", "b")
        first, second = a.lock("backup"), b.lock("backup")
        self.cluster.result(first.acquire())
        lost: list[str] = []
        first.when_lost().addCallback(lost.append)
        got: list[Any] = []
        second.acquire().addBoth(got.append)
        self.cluster.advance(1)
        self.done("lock", "delete", "backup", "--force")
        self.cluster.advance(1)

        self.assertEqual(lost, [TAKEN_AWAY])
        self.assertEqual(second.held, got[0])

    def test_expires(self) -> None:
        """
        An operator's lock keeps members out, and expires.
        """
        (a,) = self.add("a")
        self.done("lock", "create", "backup", "--valid-for", "30")
        got: list[Any] = []
        a.lock("backup").acquire().addBoth(got.append)
        self.cluster.advance(29)
        self.assertEqual(got, [])
        self.cluster.advance(2)

        self.assertEqual(len(got), 1)
