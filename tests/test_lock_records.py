"""
Tests for the records of named locks, and for judging them.
"""

from __future__ import annotations

import json
import math
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord._lock import (
    LONGEST_TERM,
    SHORTEST_TERM,
    LockRecord,
    LockTrace,
    check_valid_for,
)
from voltha_coord.consul.model import Entry
from voltha_coord.errors import ConfigurationError, InvalidIdError
from voltha_coord.keys import Keys, check_lock_name, is_lock_name
from voltha_coord.lock_expiry import Sightings, lease_ended
from voltha_coord.lock_store import Found, given_back, locks_in
from voltha_coord.records import RecordError
from voltha_coord.succession import Predecessor

KEYS = Keys("p")
SESSION = "1b3f8a52-3f5e-4d2c-8f16-c4d6c9f1c001"


def held(record: LockRecord, index: int = 7, session: str | None = None) -> Found:
    """
    Give a lock that is held.
    """
    value = record.encode()
    entry = Entry(KEYS.lock("x"), value, modify_index=index, session=session)
    return locks_in(KEYS, [entry])["x"]


def left(trace: LockTrace) -> Found:
    """
    Give a lock that was held.
    """
    entry = Entry(KEYS.lock_trace("x"), trace.encode(), modify_index=8)
    return locks_in(KEYS, [entry])["x"]


class RecordTests(SynchronousTestCase):
    """
    Reading and writing.
    """

    def test_round_trip(self) -> None:
        """
        What is written is read, and what this version does not know is kept.
        """
        extra = {"colour": "red"}
        lock = LockRecord("a", "t", 30.0, 4711, 3, extra)
        trace = LockTrace("a", "t", SESSION, "c", "n", 15.0, True, "u", extra)
        for record in (lock, trace):
            entry = Entry("k", record.encode())
            self.assertEqual(type(record).from_entry(entry), record)
        bare = json.loads(LockRecord("a", "t").encode())
        self.assertEqual(bare, {"owner": "a", "owner_token": "t", "seq": 0, "token": 0})

    def test_garbage(self) -> None:
        """
        Anything else is an error that names the key.
        """
        bad: list[bytes] = [
            b"",
            b"\xff",
            b"[]",
            b"{}",
            b'{"owner": "a"}',
            b'{"owner": "a", "owner_token": 1}',
            b'{"owner": "a", "owner_token": "t", "valid_for": -1}',
            b'{"owner": "a", "owner_token": "t", "valid_for": 1e300}',
            b'{"owner": "a", "owner_token": "t", "valid_for": NaN}',
            b'{"owner": "a", "owner_token": "t", "token": "x"}',
        ]
        for value in bad:
            with self.assertRaisesRegex(RecordError, "^k: "):
                LockRecord.from_entry(Entry("k", value))
        with self.assertRaises(RecordError):
            LockTrace.from_entry(Entry("k", b'{"released": 1}'))

    def test_sorted(self) -> None:
        """
        What is listed is sorted by name; what has no name of a lock is left out.
        """
        names = [
            "x",
            "x/last",
            "xy/last",
            "z",
            ".odd",
            "a b",
            "q/other",
            "q/last/r",
            "",
        ]
        entries = [Entry(f"{KEYS.locks}{name}", b"?") for name in names]
        found = locks_in(KEYS, entries)

        self.assertEqual(list(found), ["x", "xy", "z"])
        self.assertEqual(found["x"], Found(entries[0], None, entries[1], None))
        self.assertEqual(found["xy"], Found(last=entries[2]))

    def test_token(self) -> None:
        """
        The fencing token is the record's, and where it has none its ModifyIndex.
        """
        self.assertEqual(held(LockRecord("a", "t")).token, 7)
        self.assertEqual(held(LockRecord("a", "t", 9.0, 5)).token, 5)
        self.assertEqual(Found().token, 0)

    def test_given_back(self) -> None:
        """
        What is free needs nothing; a trace that says so already is left alone.
        """
        self.assertEqual(given_back(KEYS, "x", Found()), ())
        self.assertEqual(given_back(KEYS, "x", left(LockTrace(released=True))), ())
        (op,) = given_back(KEYS, "x", left(LockTrace("a", "t", SESSION)))
        self.assertEqual((op.verb, op.index), ("cas", 8))
        verbs = [op.verb for op in given_back(KEYS, "x", held(LockRecord("a", "t")))]
        self.assertEqual(verbs, ["check-index", "delete"])


class ArgumentTests(SynchronousTestCase):
    """
    Names and terms.
    """

    def test_names(self) -> None:
        """
        Names are like instance ids.
        """
        for name in ("a", "A-b_c.9", "x" * 200):
            self.assertEqual((check_lock_name(name), is_lock_name(name)), (name, True))
        for name in ("", ".a", "a/b", "a@b", "a b", "ä", "x" * 201, "a\n"):
            self.assertFalse(is_lock_name(name), name)
            with self.assertRaisesRegex(InvalidIdError, "^lock name"):
                check_lock_name(name)

    def test_terms(self) -> None:
        """
        A term has bounds, or is none.
        """
        self.assertIsNone(check_valid_for(None))
        for seconds in (SHORTEST_TERM, 30, LONGEST_TERM):
            self.assertEqual(check_valid_for(seconds), seconds)
        bad: list[Any] = [0, -1, 0.99, LONGEST_TERM + 1, math.nan, math.inf, "9", True]
        for seconds in bad:
            with self.assertRaisesRegex(ConfigurationError, "^valid_for: "):
                check_valid_for(seconds)


class SightingTests(SynchronousTestCase):
    """
    When a lock with a term has expired.
    """

    def setUp(self) -> None:
        """
        Have a lock of 10 s, and a clock.
        """
        self.clock = Clock()
        self.sightings = Sightings(self.clock.seconds)
        self.record = LockRecord("a", "t", 10.0)

    def left(self, found: Found) -> float | None:
        """
        Look at the lock.
        """
        return self.sightings.expires_in("x", found)

    def test_unchanged(self) -> None:
        """
        It has expired once it has stood unchanged for its term, and 2 % for
        clocks, since it was first seen.
        """
        self.clock.advance(1000)
        self.assertAlmostEqual(self.left(held(self.record)) or 0, 10.2)
        self.clock.advance(10.1)
        self.assertAlmostEqual(self.left(held(self.record)) or 0, 0.1)
        self.clock.advance(0.2)
        self.assertEqual(self.left(held(self.record)), 0.0)

    def test_changed(self) -> None:
        """
        Any change begins the time anew.
        """
        self.left(held(self.record))
        self.clock.advance(20)
        self.assertAlmostEqual(
            self.left(held(evolve(self.record, seq=1), 8)) or 0, 10.2
        )

    def test_gone(self) -> None:
        """
        What was gone, and is there again, is looked at anew.
        """
        for gone in (Found(), held(LockRecord("b", "u"), 7, SESSION)):
            self.left(held(self.record))
            self.clock.advance(20)
            self.assertIsNone(self.left(gone))
            self.assertAlmostEqual(self.left(held(self.record)) or 0, 10.2)

    def test_held_by_a_session(self) -> None:
        """
        What a session holds has not expired, whatever its record says.
        """
        self.left(held(self.record, 7, SESSION))
        self.clock.advance(20)
        self.assertIsNone(self.left(held(self.record, 7, SESSION)))

    def test_forgotten(self) -> None:
        """
        Locks that are there no more are forgotten.
        """
        self.left(held(self.record))
        self.clock.advance(20)
        self.sightings.keep(["x"])
        self.assertEqual(self.left(held(self.record)), 0.0)
        self.sightings.keep([])
        self.assertAlmostEqual(self.left(held(self.record)) or 0, 10.2)


class Judging:
    """
    A judge that says what it is told to, and remembers what it was asked.
    """

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked: list[object] = []

    def is_over(self, predecessor: Predecessor) -> Deferred[bool]:
        """
        Answer.
        """
        self.asked.append(predecessor)
        return succeed(self.answer)

    def waited(self, name: str) -> bool:
        """
        Answer.
        """
        self.asked.append(name)
        return self.answer


class LeaseTests(SynchronousTestCase):
    """
    Whether the lease must be over that a lock was held under.
    """

    def ended(self, found: Found, judge: Judging) -> bool:
        """
        Ask.
        """
        answer: bool = self.successResultOf(lease_ended(judge, "x", found))
        return answer

    def test_nobody(self) -> None:
        """
        Nobody is waited for who never was, who has released, or who held it for a
        term.
        """
        judge = Judging(False)
        traces = (LockTrace("a", "t", SESSION, released=True), LockTrace("a", "t"))
        for found in (Found(), *map(left, traces)):
            self.assertTrue(self.ended(found, judge))
        self.assertEqual(judge.asked, [])

    def test_somebody(self) -> None:
        """
        Of everybody else it is asked.
        """
        found = left(LockTrace("a", "t", SESSION, "c", "n", 20.0))
        for answer in (False, True):
            judge = Judging(answer)
            self.assertEqual(self.ended(found, judge), answer)
            self.assertEqual(judge.asked, [Predecessor(SESSION, "c", "n", 20.0)])

    def test_unreadable(self) -> None:
        """
        Where it cannot be read who it was, one session TTL is waited.
        """
        entry = Entry(KEYS.lock_trace("x"), b"?", modify_index=8)
        for answer in (False, True):
            judge = Judging(answer)
            self.assertEqual(self.ended(Found(last=entry), judge), answer)
            self.assertEqual(judge.asked, ["lock x"])
