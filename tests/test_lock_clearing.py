"""
Tests for the leader's care for locks.
"""

from __future__ import annotations

from attrs import evolve

from voltha_coord._lock import LockRecord, LockTrace
from voltha_coord.lock_clearing import CLEAR_SECONDS
from voltha_coord.lock_store import Found

from .support.embedded import Once, writes
from .support.locking import NAME, LocksCase

KEY = "service/voltha/locks/backup"


class ClearingTests(LocksCase):
    """
    What a leader takes away, and what not.
    """

    def abandoned(self, valid_for: float = 20) -> None:
        """
        Have a lock with a term whose holder is dead.
        """
        self.acquired(self.b.lock(NAME, valid_for))
        self.cluster.crash(self.b)

    def test_expired(self) -> None:
        """
        A lock that has expired is taken away, though nobody wants it, and told of
        once; what it leaves behind goes later.
        """
        self.abandoned()
        self.cluster.advance(19)
        self.assertIsNotNone(self.entry())
        seconds = self.cluster.until(lambda: self.entry() is None, 120)

        self.assertLess(seconds, CLEAR_SECONDS * 1.1 + 20 * 1.02)
        (told,) = self.logged("lock-cleared")
        self.assertEqual((told["lock"], told["owner"]), (NAME, "b"))
        self.assertTrue(self.at_once(self.a))
        self.cluster.advance(3 * CLEAR_SECONDS)
        self.assertEqual(self.found(), Found())

    def test_soon(self) -> None:
        """
        One that the leader knows of goes as soon as it must have expired, and not
        a minute later.
        """
        self.acquired(self.b.lock(NAME, 100))
        self.cluster.advance(2 * CLEAR_SECONDS)
        self.cluster.crash(self.b)
        seconds = self.cluster.until(lambda: self.entry() is None, 300)

        self.assertLess(seconds, 100 * 1.02 + CLEAR_SECONDS * 1.1 + 10)

    def test_renewed(self) -> None:
        """
        One that is renewed stays, however long.
        """
        lock = self.b.lock(NAME, 15)
        held = self.acquired(lock)
        self.cluster.advance(600)

        self.assertEqual(lock.held, held)
        self.assertEqual(self.logged("lock-cleared"), [])

    def test_renewed_at_the_last_moment(self) -> None:
        """
        A renewal that comes before the leader's write saves the lock.
        """
        self.abandoned()
        entry = self.entry()
        assert entry is not None
        late = Once(writes(KEY))
        self.cluster.network(self.a).latency = lambda request: (
            1.0 if late(request) else 0.0
        )
        self.cluster.until(lambda: late.met, 120)
        record = evolve(LockRecord.from_entry(entry), seq=9)
        self.cluster.result(self.cluster.api.put(KEY, record.encode()))
        self.cluster.advance(5)

        self.assertIsNotNone(self.entry())
        self.assertTrue(self.a.is_leader)

    def test_next_leader(self) -> None:
        """
        Another leader counts on its own clock, from when it began.
        """
        self.acquired(self.b.lock(NAME, 30))
        self.cluster.add("c")
        self.cluster.advance(5)
        self.cluster.crash(self.b)
        self.cluster.crash(self.a)
        self.cluster.advance(31)
        self.assertIsNotNone(self.entry())

        self.cluster.until(lambda: self.entry() is None, 60)

    def test_session_bound(self) -> None:
        """
        Locks that are bound to sessions are not its affair; of one whose holder
        died, what is left goes once that lease must be over.
        """
        self.acquired(self.b.lock(NAME))
        kept = self.acquired(self.a.lock("kept"))
        self.cluster.advance(200)
        self.assertIsNotNone(self.entry())
        self.cluster.crash(self.b)
        self.cluster.advance(10)
        self.assertIsNotNone(self.found().last)
        self.cluster.advance(3 * CLEAR_SECONDS)

        self.assertEqual(self.found(), Found())
        self.assertEqual(self.found("kept").token, kept.token)

    def test_somebody_elses_trace(self) -> None:
        """
        With a lock that has expired nothing is said of another one's lease.
        """
        session = self.b.session_id
        assert session is not None
        api, trace = self.cluster.api, LockTrace("b", "x", session)
        key = self.cluster.keys.lock_trace(NAME)
        self.cluster.result(api.put(key, trace.encode()))
        record = LockRecord("a", "y", 5.0)
        self.cluster.result(api.put(KEY, record.encode()))
        self.cluster.until(lambda: self.entry() is None, 120)

        self.assertEqual(self.found().trace, trace)

    def test_taken_meanwhile(self) -> None:
        """
        What is left of a lock stays when somebody takes it just before it is taken
        away.
        """
        self.acquired(self.b.lock(NAME))
        self.cluster.crash(self.b)
        forgets = Once(writes(self.cluster.keys.lock_trace(NAME)))
        self.cluster.network(self.a).latency = lambda request: (
            1.0 if forgets(request) else 0.0
        )
        self.cluster.until(lambda: forgets.met, 300)
        record = LockRecord("x", "y", 300.0)
        self.cluster.result(self.cluster.api.put(KEY, record.encode()))
        self.cluster.advance(3)

        self.assertIsNotNone(self.found().last)

    def test_session_lives(self) -> None:
        """
        What tells of a session that lives stays, though the key is gone.
        """
        session = self.b.session_id
        assert session is not None
        trace = LockTrace("b", "x", session)
        key = self.cluster.keys.lock_trace(NAME)
        self.cluster.result(self.cluster.api.put(key, trace.encode()))
        self.cluster.advance(5 * CLEAR_SECONDS)

        self.assertIsNotNone(self.found().last)

    def test_garbage(self) -> None:
        """
        What cannot be read stays as it is, and the others are cleared.
        """
        api, locks = self.cluster.api, self.cluster.keys.locks
        odd = {
            f"{locks}a": b"\xff",
            f"{locks}b": b"[]",
            f"{locks}c%d": b"x",
            f"{locks}x/y/z": b"x",
            f"{locks}e": b'{"owner":"x","owner_token":"y","valid_for":-3}',
        }
        for key, value in odd.items():
            self.cluster.result(api.put(key, value))
        self.abandoned()
        self.cluster.until(lambda: self.entry() is None, 120)
        self.cluster.advance(200)

        left = {e.key: e.value for e in self.cluster.entries(locks)}
        self.assertEqual(left, odd)
        self.assertEqual(self.logged("locks-not-cleared"), [])

    def test_a_later_version(self) -> None:
        """
        A lock of a later version expires like any other.
        """
        record = LockRecord("x", "y", 5.0, extra={"colour": "red"})
        self.cluster.result(self.cluster.api.put(KEY, record.encode()))
        self.cluster.until(lambda: self.entry() is None, 120)

    def test_at_rest(self) -> None:
        """
        A leader that is halted leaves no timer, and a quiet cluster writes
        nothing.
        """
        before = self.cluster.consul.index
        self.cluster.advance(600)
        self.assertEqual(self.cluster.consul.index, before)
        self.cluster.result(self.a.shutdown())

        self.assertEqual(self.cluster.left_behind(self.a), (0, 0))
