"""
Tests for :mod:`voltha_coord.ownership`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from tests.support.recording import RecordedConsul
from tests.support.working import operations
from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.errors import AccessDenied, InvalidSession
from voltha_coord.keys import Keys
from voltha_coord.lease import Lease
from voltha_coord.ownership import (
    REPORT_BYTES,
    Claim,
    Claims,
    Ownership,
    Release,
    error_mark,
)
from voltha_coord.records import OwnerRecord

KEYS = Keys("service/voltha")


class OwnershipTests(SynchronousTestCase):
    """
    Taking, confirming and releasing.
    """

    def setUp(self) -> None:
        """
        Begin as a member with a session.
        """
        self.clock = Clock()
        self.consul = RecordedConsul(self.clock)
        self.addCleanup(self.consul.stop)
        self.api = self.consul.api()
        self.session: str = self.run_(
            self.api.create_session(SessionSpec("a", 15.0, 0.0))
        )
        self.run_(self.api.put(KEYS.member("a"), b"", acquire=self.session))
        self.lease = Lease(
            self.clock.seconds, self.session, session_ttl=15.0, renewed=0.0
        )
        self.record = OwnerRecord("a", self.session, "check", "node", 15.0)
        self.ownership = Ownership(self.api, KEYS, "a")
        self.consul.requests.clear()

    def run_(self, d: Deferred[Any]) -> Any:
        """
        Give what a Deferred fires with, or raise what it fails with.
        """
        (result,) = self.consul.run(d)
        if isinstance(result, Failure):
            result.raiseException()
        return result

    def put(self, key: str, value: bytes = b"") -> int:
        """
        Write a key, and give its ModifyIndex.
        """
        self.run_(self.api.put(key, value))
        entry = self.entry(key)
        assert entry is not None
        self.consul.requests.clear()
        return entry.modify_index

    def entry(self, key: str) -> Entry | None:
        """
        Read a key.
        """
        entry: Entry | None = self.run_(self.api.get(key)).entry
        return entry

    def reports(self) -> list[str]:
        """
        Give the keys of what was handed over.
        """
        return list(self.run_(self.api.keys(KEYS.reports)).names)

    def assign(self, *work: str, reads: bool = False) -> list[Claim]:
        """
        Assign items, and give the claims of them.
        """
        return [
            Claim(w, self.put(KEYS.assignment("a", w)), 0, reads, reads) for w in work
        ]

    def claim(self, claims: Sequence[Claim]) -> Claims:
        """
        Claim items.
        """
        result = self.run_(self.ownership.claim(self.lease, self.record, claims))
        assert isinstance(result, Claims)
        return result

    def test_claim(self) -> None:
        """
        An item that is assigned and free is owned, at the index of its record.
        """
        result = self.claim(self.assign("w1"))

        entry = self.entry(KEYS.owner("w1"))
        assert entry is not None
        self.assertEqual(result, Claims({"w1": entry.modify_index}))
        self.assertEqual(OwnerRecord.from_entry(entry), self.record)
        self.assertIsNone(entry.session)

    def test_singled_out(self) -> None:
        """
        One held and one assigned no longer: the others of the transaction are
        taken (field report 121).
        """
        claims = self.assign(*(f"w{n}" for n in range(31)))
        theirs = self.put(KEYS.owner("w3"), OwnerRecord("b", "s").encode())
        self.put(KEYS.assignment("a", "w5"), b"again")

        result = self.claim(claims)

        self.assertEqual((result.held, result.unassigned), (("w3",), ("w5",)))
        self.assertEqual(len(result.owned), 29)
        self.assertEqual(len(self.consul.requests), 2)
        entry = self.entry(KEYS.owner("w3"))
        assert entry is not None
        self.assertEqual(entry.modify_index, theirs)

    def test_read(self) -> None:
        """
        What an item is, and what was handed over, comes with the claim; an item
        that nothing describes is taken all the same, and an item whose id goes
        on like another's lends it nothing.
        """
        value = self.put(KEYS.work_item("w1"), b"one")
        self.put(KEYS.report("w1"), b"position 7")
        self.put(KEYS.report("w33"), b"of another")
        claims = self.assign("w1", "w2", "w3", reads=True)
        self.put(KEYS.work_item("w3"), b"three")

        result = self.claim(claims)

        self.assertEqual(list(result.owned), ["w1", "w2", "w3"])
        self.assertEqual(len(self.consul.requests), 3)
        read = {key: entry.value for key, entry in result.read.items()}
        self.assertEqual(result.read[KEYS.work_item("w1")].modify_index, value)
        self.assertEqual(read[KEYS.work_item("w3")], b"three")
        self.assertEqual(read[KEYS.report("w1")], b"position 7")
        self.assertEqual(
            {KEYS.work_item("w2"), KEYS.report("w2"), KEYS.report("w3")} & set(read),
            set(),
        )

    def test_held_without_a_description(self) -> None:
        """
        An item that nothing describes and that is held is held.
        """
        claims = self.assign("w1", reads=True)
        self.put(KEYS.owner("w1"), OwnerRecord("b", "s").encode())

        self.assertEqual(self.claim(claims).held, ("w1",))
        self.assertEqual(len(self.consul.requests), 1)

    def test_held_and_unassigned(self) -> None:
        """
        An item that is both held and assigned no longer is not ours to wait
        for.
        """
        claims = self.assign("w1")
        self.run_(self.api.delete(KEYS.assignment("a", "w1")))
        self.put(KEYS.owner("w1"), OwnerRecord("b", "s").encode())

        self.assertEqual(self.claim(claims), Claims(unassigned=("w1",)))

    def test_assigned_after_all(self) -> None:
        """
        An item that Consul had forgotten is not claimed anew where it is assigned
        by now: what is assigned counts.
        """
        self.assign("w1")

        claims = self.claim([Claim("w1", 0, 0, False, False)])

        self.assertEqual(claims, Claims(unassigned=("w1",)))
        self.assertIsNone(self.entry(KEYS.owner("w1")))

    def test_batches(self) -> None:
        """
        Items are claimed 15 at a time, of which each is read, and 31 where
        nothing is: 60 or 62 operations, after the check of our member key and a
        look at the term record (field report 118).
        """
        for reads, wanted in ((True, [62] * 6 + [42]), (False, [64] * 3 + [16])):
            with self.subTest(reads=reads):
                names = (f"{'wx'[reads]}{n}" for n in range(100))
                claims = self.assign(*names, reads=reads)
                for claim in claims:
                    self.put(KEYS.work_item(claim.work))

                result = self.claim(claims)

                self.assertEqual(len(result.owned), 100)
                sizes = [len(operations(one)) for one in self.consul.requests]
                self.assertEqual(sizes, wanted)

    def test_not_a_member(self) -> None:
        """
        Without our member key nothing is taken, and the session is to blame.
        """
        claims = self.assign("w1")
        self.run_(self.api.delete(KEYS.member("a")))

        self.assertRaises(InvalidSession, self.claim, claims)
        self.assertIsNone(self.entry(KEYS.owner("w1")))

    def test_late_claim(self) -> None:
        """
        A claim that lands after its owner was relieved, or has died, is
        refused.
        """
        claims = self.assign("w1")
        self.run_(self.api.delete(KEYS.assignment("a", "w1")))
        self.claim(claims)
        relieved = self.entry(KEYS.owner("w1"))
        claims = self.assign("w2")
        self.consul.state.destroy_session(self.session)
        self.assertRaises(InvalidSession, self.claim, claims)

        self.assertIsNone(relieved)
        self.assertIsNone(self.entry(KEYS.owner("w2")))

    def test_confirm(self) -> None:
        """
        A record of an earlier session of ours is replaced, if it is as we saw
        it.
        """
        claims = self.assign("w1", "w2")
        former = OwnerRecord("a", "former").encode()
        seen = self.put(KEYS.owner("w1"), former)
        self.put(KEYS.owner("w2"), former)

        result = self.claim(
            [
                Claim("w1", claims[0].assignment, seen),
                Claim("w2", claims[1].assignment, 5),
            ]
        )

        self.assertEqual((list(result.owned), result.held), (["w1"], ("w2",)))

    # Releasing.

    def test_release(self) -> None:
        """
        A record that is as we left it goes; one that is another by now stays,
        and one that is missing is no error.
        """
        owned = dict(self.claim(self.assign("w1", "w2", "w3")).owned)
        self.put(KEYS.owner("w2"), OwnerRecord("b", "s").encode())
        self.run_(self.api.delete(KEYS.owner("w3")))

        self.run_(self.ownership.release({w: Release(i) for w, i in owned.items()}))

        left = [self.entry(KEYS.owner(w)) is not None for w in ("w1", "w2", "w3")]
        self.assertEqual(left, [False, True, False])

    def test_denied(self) -> None:
        """
        What the token may not do is neither held by another nor released: it
        is an error (V15).
        """
        claims = self.assign("w1", "w2")
        owned = self.claim(claims[:1]).owned

        def denied(resource: str, name: str, access: str, token: str) -> bool:
            return name.startswith(KEYS.owners) and access == "write"

        self.consul.state.deny = denied

        self.assertRaises(AccessDenied, self.claim, claims[1:])
        released = self.ownership.release({"w1": Release(owned["w1"])})
        self.assertRaises(AccessDenied, self.run_, released)

    def test_report(self) -> None:
        """
        A report is set in the transaction that releases.
        """
        self.put(KEYS.work_item("w1"))
        owned = self.claim(self.assign("w1")).owned
        self.consul.requests.clear()

        self.run_(self.ownership.release({"w1": Release(owned["w1"], b"\x00state")}))

        entry = self.entry(KEYS.report("w1"))
        assert entry is not None
        self.assertEqual(entry.value, b"\x00state")
        self.assertIsNone(self.entry(KEYS.owner("w1")))
        self.assertEqual(len([r for r in self.consul.requests if r.body]), 1)

    def test_report_once(self) -> None:
        """
        A release that is sent again after a lost reply does not set the report
        again: the next owner may have read and removed it.
        """
        self.put(KEYS.work_item("w1"))
        owned = self.claim(self.assign("w1")).owned
        release = {"w1": Release(owned["w1"], b"state")}
        self.run_(self.ownership.release(release))
        self.run_(self.api.delete(KEYS.report("w1")))

        self.run_(self.ownership.release(release))

        self.assertIsNone(self.entry(KEYS.report("w1")))

    def test_report_that_has_served(self) -> None:
        """
        A report that the owner has started with, and had not removed yet, goes
        with the release, so that nobody starts with it once more; a newer one
        stays.
        """
        owned = self.claim(self.assign("w1", "w2")).owned
        served = self.put(KEYS.report("w1"), b"old")
        self.put(KEYS.report("w2"), b"newer")

        self.run_(
            self.ownership.release(
                {w: Release(i, served=served) for w, i in owned.items()}
            )
        )

        self.assertEqual(self.reports(), [KEYS.report("w2")])
        self.assertIsNone(self.entry(KEYS.owner("w1")))
        self.assertIsNone(self.entry(KEYS.owner("w2")))

    def test_report_of_deleted_item(self) -> None:
        """
        Nothing is left behind of an item that does not exist any more
        (field report 49); the others hand over.
        """
        self.put(KEYS.work_item("w1"))
        owned = self.claim(self.assign("w1", "w2")).owned

        self.run_(
            self.ownership.release({w: Release(i, b"state") for w, i in owned.items()})
        )

        self.assertIsNotNone(self.entry(KEYS.report("w1")))
        self.assertIsNone(self.entry(KEYS.report("w2")))
        self.assertIsNone(self.entry(KEYS.owner("w2")))

    def test_large_reports(self) -> None:
        """
        Reports of any size that is taken are divided by what one body holds
        (field report 119).
        """
        work = [f"w{n}" for n in range(5)]
        for w in work:
            self.put(KEYS.work_item(w))
        owned = self.claim(self.assign(*work)).owned
        self.consul.requests.clear()

        self.run_(
            self.ownership.release(
                {w: Release(i, b"\xff" * REPORT_BYTES) for w, i in owned.items()}
            )
        )

        self.assertEqual(len(self.consul.requests), 5)
        self.assertTrue(all(len(r.body) <= 512 * 1024 for r in self.consul.requests))
        self.assertEqual(len(self.reports()), 5)

    # Reading.

    def test_records(self) -> None:
        """
        The records in our name are found, whatever else lies there (G9).
        """
        mine = self.put(KEYS.owner("w1"), OwnerRecord("a", "s1").encode())
        self.put(KEYS.owner("w2"), OwnerRecord("b", "s2").encode())
        self.put(KEYS.owner("w3"), b"\xff\x00")
        self.put(KEYS.owner("w4"), b"x" * 400 * 1024)
        self.put(KEYS.owner("w5"), json.dumps({"owner": 5, "session": []}).encode())
        self.put(f"{KEYS.owners}deep/er", OwnerRecord("a", "s1").encode())
        self.put(f"{KEYS.owners}a b", OwnerRecord("a", "s1").encode())
        newer = {"owner": "a", "session": "s1", "colour": "red", "version": 9}
        self.put(KEYS.owner("w6"), json.dumps(newer).encode())

        found = self.run_(self.ownership.records())

        self.assertEqual(sorted(found), ["w1", "w6"])
        self.assertEqual(found["w1"].index, mine)

    def test_look_up(self) -> None:
        """
        Of certain items, the records in our name are found, and which items
        have none; those of others are neither.
        """
        mine = self.put(KEYS.owner("w1"), OwnerRecord("a", "s1").encode())
        self.put(KEYS.owner("w2"), OwnerRecord("b", "s2").encode())
        self.put(KEYS.owner("w3"), b"\xff\x00")

        ours, free = self.run_(self.ownership.look_up(["w1", "w2", "w3", "w4"]))

        self.assertEqual({w: found.index for w, found in ours.items()}, {"w1": mine})
        self.assertEqual(free, ["w4"])

    def test_denied_records(self) -> None:
        """
        Owner records that may not be read are not taken for none (V15).
        """
        self.claim(self.assign("w1"))

        def denied(resource: str, name: str, access: str, token: str) -> bool:
            return name.startswith(KEYS.owners)

        self.consul.state.deny = denied

        self.assertRaises(AccessDenied, self.run_, self.ownership.records())

    def test_changed(self) -> None:
        """
        Which keys are not as they were is found out without reading any of
        them: those with another index, that are gone, and that have come.
        """
        index = {w: self.put(KEYS.work_item(w), b"x" * 1000) for w in ("w1", "w2")}
        self.put(KEYS.work_item("w3"))
        known = {KEYS.work_item(w): i for w, i in index.items()}
        known |= {KEYS.work_item("w3"): 0, KEYS.work_item("w4"): 0}
        self.run_(self.api.put(KEYS.work_item("w2"), b"y"))
        gone = {KEYS.work_item("w5"): 5}

        changed = self.run_(self.ownership.changed(known | gone))

        names = [KEYS.work_item(w) for w in ("w2", "w3", "w5")]
        self.assertEqual(sorted(changed), names)

    def test_read_many(self) -> None:
        """
        Many keys are read at once, also where some are missing.
        """
        for n in range(70):
            self.put(KEYS.work_item(f"w{n}"), str(n).encode())

        found = self.run_(
            self.ownership.read(KEYS.work_item(f"w{n}") for n in range(0, 140, 2))
        )

        self.assertEqual(len(found), 35)
        self.assertEqual(found[KEYS.work_item("w68")].value, b"68")
        self.assertEqual(self.run_(self.ownership.read([])), {})

    def test_forget_reports(self) -> None:
        """
        A report that has served is removed, if it is the one that was read.
        """
        read = self.put(KEYS.report("w1"), b"read")
        self.put(KEYS.report("w2"), b"newer")

        self.run_(self.ownership.forget_reports({"w1": read, "w2": 5, "w3": 6}))

        self.assertEqual(self.reports(), [KEYS.report("w2")])

    def test_tell_errors(self) -> None:
        """
        What is the matter with an item is said by its owner only, marked with
        the session, and taken back.
        """
        owned = self.claim(self.assign("w1")).owned
        tell = self.ownership.tell_errors

        lost = self.run_(
            tell(self.session, {"w1": (owned["w1"], "é!"), "w2": (77, "no")})
        )
        entry = self.entry(KEYS.error("w1"))
        self.run_(tell(self.session, {"w1": (owned["w1"], "")}))

        assert entry is not None
        self.assertEqual(
            (entry.value, entry.flags), ("é!".encode(), error_mark(self.session))
        )
        self.assertEqual(lost, ("w2",))
        self.assertIsNone(self.entry(KEYS.error("w2")))
        self.assertIsNone(self.entry(KEYS.error("w1")))

    def test_mark(self) -> None:
        """
        A mark is a number Consul keeps as flags, and not 0.
        """
        mark = error_mark("ffffffff-ffff-ffff-ffff-ffffffffffff")

        self.assertTrue(0 < mark < 2**63)
        self.assertEqual(Op("set", "k", b"", flags=mark).flags, mark)
