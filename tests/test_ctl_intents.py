"""
Tests for what operators want of members and of planning: said and taken back.
"""

from __future__ import annotations

from voltha_coord.consul.model import Entry
from voltha_coord.planning.state import MAINTENANCE
from voltha_coord.settings import Settings

from .support.commands import ClusterCommandTestCase, CommandTestCase
from .support.keyspace import (
    KEYS,
    assigned,
    leads,
    member,
    original,
    owned,
    running,
    work,
)


class NodeTests(CommandTestCase):
    """
    ``node``: what is wanted of one member.
    """

    def setUp(self) -> None:
        """
        Have two members; the second runs two items.
        """
        super().setUp()
        self.put(member("m1"), member("m2"), *leads("m1"), *running("m2", "x", "y"))

    def intents(self) -> dict[str, bytes]:
        """
        Give what is wanted of members, in Consul.
        """
        return self.values(KEYS.node_intent(""))

    def follows(self, *args: str) -> str:
        """
        Say what is wanted, and give what follows.
        """
        return "; ".join(self.document("node", *args)["follows"])

    def test_each(self) -> None:
        """
        What is wanted is written, and taken back, with what it was before.
        """
        for wish, value, before in (
            ("maintenance", {"m2": b"maintenance"}, None),
            ("leave", {"m2": b"leave"}, "maintenance"),
            ("online", {}, "leave"),
        ):
            document = self.document("node", "m2", wish)
            self.assertEqual(self.intents(), value)
            self.assertEqual(
                (document["before"], document["intent"], document["written"]),
                (before, None if wish == "online" else wish, True),
            )

    def test_only_its_key(self) -> None:
        """
        One key is written, and no session opened.
        """
        before = self.writes()
        self.done("node", "m2", "leave")

        self.assertEqual(self.writes(), before + 1)
        paths = [r.path for r in self.consul.requests if r.method != "GET"]
        self.assertEqual(paths, ["/v1/txn", f"/v1/kv/{KEYS.node_intent('m2')}"])

    def test_again(self) -> None:
        """
        What is wanted already is not written again.
        """
        self.assertIn("m2: online, already", self.done("node", "m2", "online"))
        self.assertIn("m2: leave, was online", self.done("node", "m2", "leave"))
        before = self.writes()

        self.assertIn("m2: leave, already", self.done("node", "m2", "leave"))
        self.assertFalse(self.document("node", "m2", "leave")["written"])
        self.assertEqual(self.writes(), before)

    def test_unreadable(self) -> None:
        """
        Whatever stands there that is no wish is written over, or deleted.
        """
        key = KEYS.node_intent("m2")
        self.put(Entry(key, b"holiday"))
        self.assertIn("was online", self.done("node", "m2", "leave"))
        self.put(Entry(key, b"holiday"))

        self.assertTrue(self.document("node", "m2", "online")["written"])
        self.assertEqual(self.intents(), {})

    def test_unknown(self) -> None:
        """
        A member that nothing is known of is refused, and those that are there
        are named; --force writes even so.
        """
        self.put(member("m3", session=None))
        for wish in ("maintenance", "leave", "online"):
            for name in ("m3", "m9"):
                self.assertEqual(
                    self.refused("node", name, wish),
                    f"no member {name} (there are m1, m2); --force if one is meant "
                    "that is away",
                )
        self.assertEqual(self.intents(), {})

        self.assertIn("no member at the moment", self.follows("m9", "leave", "--force"))
        self.assertEqual(self.intents(), {"m9": b"leave"})

    def test_away(self) -> None:
        """
        A member that is away is known by what is wanted of it, or by the items
        it still has.
        """
        self.put(
            Entry(KEYS.node_intent("m7"), b"leave"),
            Entry(KEYS.node_intent("m6"), b"holiday"),
            assigned("m8", "z"),
            owned("m9", "u"),
        )
        self.remove(KEYS.member("m2"))
        for name in ("m2", "m7", "m8", "m9"):
            self.done("node", name, "maintenance")
        for name in ("m6", "m7"):
            self.done("node", name, "online")

        self.assertEqual(set(self.intents()), {"m2", "m8", "m9"})

    def test_no_members(self) -> None:
        """
        Without any member that is said.
        """
        self.remove(KEYS.member("m1"), KEYS.member("m2"))

        self.assertIn("(there is none)", self.refused("node", "m1", "leave"))

    def test_follows(self) -> None:
        """
        What follows is said: what becomes of its items, and of leadership.
        """
        kept = self.follows("m2", "maintenance")
        self.assertIn("keeps what it has: 2 items", kept)
        self.assertNotIn("transfer", kept)
        moves = self.follows("m2", "leave")
        self.assertIn("moves away: 2 items", moves)
        self.assertEqual(self.follows("m2", "online"), "it is given work again")
        self.assertIn("voltha-coordctl transfer", self.follows("m1", "maintenance"))
        self.assertNotIn("transfer", self.follows("m1", "online"))

    def test_hindered(self) -> None:
        """
        What keeps it from coming to be is said too.
        """
        alone = "no other member can take work: all are in maintenance"
        self.put(Entry(KEYS.node_intent("m1"), b"maintenance"))
        self.assertIn(alone, self.follows("m2", "leave"))
        self.assertIn(
            "no member can take work: all are in maintenance",
            self.follows("m2", "maintenance"),
        )
        self.remove(KEYS.member("m1"))
        self.assertIn(
            "there is no other member to take work", self.follows("m2", "leave")
        )

    def test_nothing_is_planned(self) -> None:
        """
        That nothing is planned is said: frozen, without a leader, or under an
        original.
        """
        self.put(Entry(KEYS.freeze, b"upgrade"))
        for wish in ("leave", "online"):
            found = self.follows("m2", wish)
            self.assertIn(
                "planning is frozen (upgrade): voltha-coordctl unfreeze", found
            )
        self.remove(KEYS.freeze, KEYS.leader)
        self.assertIn("nobody leads at the moment", self.follows("m2", "leave"))
        self.put(original("m1"), leads("m1")[0])
        self.assertIn(
            "m1, which leads, is a member of the 2016 original",
            self.follows("m2", "leave"),
        )

    def test_list(self) -> None:
        """
        Without a wish what is wanted is listed, also of members that are away;
        with an id, that of one.
        """
        self.assertEqual(self.done("node"), "nothing is wanted of any member\n")
        self.put(
            Entry(KEYS.node_intent("m2"), b"leave"),
            Entry(KEYS.node_intent("m9"), b"maintenance"),
        )

        self.assertEqual(
            self.document("node"),
            {
                "nodes": [
                    {"id": "m2", "intent": "leave", "state": "leave", "items": 2},
                    {"id": "m9", "intent": "maintenance", "state": None, "items": 0},
                ]
            },
        )
        shown = self.done("node").splitlines()
        self.assertEqual(shown[1].split(), ["m2", "leave", "leave", "2"])
        self.assertEqual(shown[2].split(), ["m9", "maintenance", "no", "member", "0"])
        self.assertEqual(
            self.document("node", "m1")["nodes"],
            [{"id": "m1", "intent": None, "state": "online", "items": 0}],
        )

    def test_usage(self) -> None:
        """
        An id that can be none, and a wish that is none, are wrong usage.
        """
        self.assertIn("' '", self.refused("node", "a b", "leave", status=2))
        self.assertIn("'gone'", self.refused("node", "m2", "gone", status=2))
        self.assertEqual(self.intents(), {})


class FreezeTests(CommandTestCase):
    """
    ``freeze`` and ``unfreeze``.
    """

    def frozen(self) -> dict[str, bytes]:
        """
        Give the freeze as it is in Consul.
        """
        return self.values(KEYS.freeze)

    def test_freeze(self) -> None:
        """
        The key is written with the reason; that it is, is shown by status,
        plan and doctor.
        """
        self.put(member("m1"), *leads("m1"), work("x"))
        shown = self.done("freeze", "--reason", "upgrade until 15:00")

        self.assertEqual(self.frozen(), {"": b"upgrade until 15:00"})
        self.assertIn("planning is frozen (upgrade until 15:00)\n", shown)
        self.assertIn("voltha-coordctl unfreeze", shown)
        for command in ("status", "plan", "doctor"):
            self.assertIn("frozen (upgrade until 15:00)", self.call(command).stdout)
        for command in ("status", "plan"):
            document = self.document(command)
            self.assertEqual(
                (document["frozen"], document["freeze_reason"]),
                (True, "upgrade until 15:00"),
            )

    def test_without_a_reason(self) -> None:
        """
        No reason has to be given; one that is there stays.
        """
        self.assertIn("planning is frozen\n", self.done("freeze"))
        self.assertEqual(self.frozen(), {"": b""})
        self.done("freeze", "--reason", "why")
        before = self.writes()

        document = self.document("freeze")
        self.assertEqual(
            (document["freeze_reason"], document["written"]), ("why", False)
        )
        self.assertIn("(why), already", self.done("freeze"))
        self.assertEqual(self.writes(), before)

    def test_another_reason(self) -> None:
        """
        Another reason is written over the one that is there, which is told.
        """
        self.done("freeze", "--reason", "one")
        document = self.document("freeze", "--reason", "two")

        self.assertTrue(document["written"])
        self.assertEqual(document["was_freeze_reason"], "one")
        self.assertEqual(self.frozen(), {"": b"two"})
        self.assertIn(
            "planning is frozen (three); it was frozen (two)\n",
            self.done("freeze", "--reason", "three"),
        )

    def test_unfreeze(self) -> None:
        """
        The key is deleted; without one nothing is written.
        """
        self.done("freeze")

        self.assertEqual(self.done("unfreeze"), "planning goes on\n")
        self.assertEqual(self.frozen(), {})
        before = self.writes()
        self.assertEqual(self.done("unfreeze"), "planning was not frozen\n")
        self.assertEqual(self.writes(), before)
        self.assertFalse(self.document("unfreeze")["was_frozen"])

    def test_usage(self) -> None:
        """
        A reason of several lines is wrong usage.
        """
        for text in ("a\nb", "x" * 201):
            self.assertIn(
                "--reason", self.refused("freeze", "--reason", text, status=2)
            )
        self.assertEqual(self.frozen(), {})


class ClusterTests(ClusterCommandTestCase):
    """
    What becomes of it in a cluster.
    """

    settings = Settings(soak=0.5)

    def items(self) -> dict[str, int]:
        """
        Give how many items each member runs.
        """
        return {
            name: len(one.worker.my_workload)
            for name, one in self.cluster.members.items()
        }

    def test_maintenance(self) -> None:
        """
        A member in maintenance keeps what it runs, and new work goes to the
        others; online again it is given its share.
        """
        self.add("a", "b", "c")
        self.cluster.put_work(*(f"w{n}" for n in range(9)))
        self.cluster.advance(5)
        self.done("node", "b", MAINTENANCE)
        self.cluster.put_work(*(f"new{n}" for n in range(6)))
        self.cluster.advance(5)

        self.assertEqual(self.items(), {"a": 6, "b": 3, "c": 6})
        self.done("node", "b", "online")
        self.cluster.advance(5)
        self.assertEqual(self.items(), {"a": 5, "b": 5, "c": 5})

    def test_maintenance_dies(self) -> None:
        """
        When a member in maintenance dies its items run elsewhere, and when it
        is back it is given nothing.
        """
        _, b, _ = self.add("a", "b", "c")
        self.cluster.put_work(*(f"w{n}" for n in range(9)))
        self.cluster.advance(5)
        self.done("node", "b", MAINTENANCE)
        self.cluster.crash(b)
        self.cluster.advance(10)

        self.assertEqual(sum(self.items().values()), 9)
        self.cluster.add("b")
        self.cluster.advance(10)
        self.assertEqual(self.items()["b"], 0)

    def test_frozen(self) -> None:
        """
        While planning is frozen new work waits; leadership goes on.
        """
        a, b = self.add("a", "b")
        self.done("freeze", "--reason", "test")
        self.cluster.put_work("x")
        self.cluster.advance(10)

        self.assertEqual(self.items(), {"a": 0, "b": 0})
        self.cluster.crash(a if a.is_leader else b)
        self.cluster.advance(10)
        self.assertEqual(len(self.cluster.leaders), 1)
        self.done("unfreeze")
        self.cluster.advance(5)
        self.assertEqual(sum(self.items().values()), 1)
