"""
Tests for named locks, with whole members.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.python.failure import Failure

from voltha_coord._lock import LockRecord
from voltha_coord.consul.model import Op
from voltha_coord.consul.transport import Lane
from voltha_coord.coordinator import Coordinator
from voltha_coord.errors import (
    AccessDenied,
    ConfigurationError,
    InvalidIdError,
    LockBusy,
    LockLost,
    LockNotAcquired,
    ShutDownError,
    TransactionRefused,
)
from voltha_coord.lock_holding import (
    EXPIRED,
    LEASE_OVER,
    RELEASED,
    SHUT_DOWN,
    TAKEN_AWAY,
    Held,
)

from .support.embedded import Once, to, writes
from .support.locking import NAME, LocksCase

KEY = "service/voltha/locks/backup"


class SessionBoundTests(LocksCase):
    """
    A lock without a term.
    """

    def test_acquired(self) -> None:
        """
        The key is held by the session of the member, and says who it is; its
        ModifyIndex is the fencing token.
        """
        lock = self.a.lock(NAME)
        held = self.acquired(lock)
        entry = self.entry()

        assert entry is not None
        self.assertEqual(entry.session, self.a.session_id)
        self.assertEqual(held.token, entry.modify_index)
        record = LockRecord.from_entry(entry)
        self.assertEqual((record.owner, record.valid_for), ("a", None))
        self.assertEqual(record.owner_token, held.owner_token)
        self.assertGreater(lock.remaining, 0)
        self.assertEqual(
            [(e["lock"], e["token"]) for e in self.logged("lock-acquired")],
            [(NAME, held.token)],
        )

    def test_excludes(self) -> None:
        """
        Another member waits until it is released, and has it then at once, with a
        higher token.
        """
        first, second = self.a.lock(NAME), self.b.lock(NAME)
        held = self.acquired(first)
        outcome = self.waiting(second)
        self.assertEqual((outcome, second.held), ([], None))
        self.cluster.result(first.release())

        self.assertLess(self.cluster.until(lambda: bool(outcome)), 0.2)
        self.assertGreater(outcome[0].token, held.token)
        self.assertEqual(first.held, None)

    def test_released_before_the_first_reading(self) -> None:
        """
        A lock that is released before the watch has read anything is not missed.
        """
        first = self.a.lock(NAME)
        self.acquired(first)
        slow = Once(to("kv/service/voltha/locks/", "GET"))
        self.cluster.network(self.b).latency = lambda request: (
            3.0 if slow(request) else 0.0
        )
        outcome = self.waiting(self.b.lock(NAME))
        self.cluster.result(first.release())

        self.assertLess(self.cluster.until(lambda: bool(outcome)), 3.1)
        self.assertEqual(slow.met > 0, True)

    def test_excludes_within_a_member(self) -> None:
        """
        Two locks of one member exclude each other, though one session could
        acquire its key twice.
        """
        first, second = self.a.lock(NAME), self.a.lock(NAME)
        self.acquired(first)
        outcome = self.waiting(second)
        self.cluster.advance(60)
        self.assertEqual(outcome, [])
        self.cluster.result(first.release())

        self.cluster.until(lambda: bool(outcome))
        self.assertIsInstance(outcome[0], Held)

    def test_names(self) -> None:
        """
        Locks of different names have nothing to do with each other.
        """
        self.acquired(self.a.lock("backup"))
        self.acquired(self.b.lock("backup2"))
        self.acquired(self.b.lock("back"))

    def test_one_object_one_holder(self) -> None:
        """
        An object that holds its lock, or waits for it, cannot acquire it.
        """
        first, second = self.a.lock(NAME), self.b.lock(NAME)
        self.acquired(first)
        self.waiting(second)

        for lock in (first, second):
            with self.assertRaises(LockBusy):
                self.cluster.result(lock.acquire())

    def test_released_twice(self) -> None:
        """
        Releasing what is not held is no error, and does nothing.
        """
        lock = self.a.lock(NAME)
        self.cluster.result(lock.release())
        self.acquired(lock)
        self.cluster.result(lock.release())
        self.cluster.result(lock.release())

        self.assertIsNone(self.entry())
        self.assertEqual(len(self.logged("lock-released")), 1)

    def test_again(self) -> None:
        """
        It can be acquired again, also while it is being given back.
        """
        lock = self.a.lock(NAME)
        first = self.acquired(lock)
        lock.release()
        second = self.acquired(lock)

        self.assertGreater(second.token, first.token)

    def test_crash(self) -> None:
        """
        The lock of a member that dies is free after detection and lock-delay.
        """
        self.acquired(self.b.lock(NAME))
        outcome = self.waiting(self.a.lock(NAME))
        self.cluster.crash(self.b)
        settings = self.a.settings
        seconds = self.cluster.until(lambda: bool(outcome))

        self.assertGreater(seconds, settings.failure_detection - 1.1)
        self.assertLess(seconds, settings.failure_detection + settings.lock_delay + 0.5)

    def test_lock_delay(self) -> None:
        """
        While a lock-delay stands in the way, it is tried again and again; the
        error says so.
        """
        self.acquired(self.b.lock(NAME))
        session = self.b.session_id
        assert session is not None
        self.cluster.result(self.cluster.api.destroy_session(session))
        self.cluster.advance(0.5)
        lock = self.a.lock(NAME)
        with self.assertRaises(LockNotAcquired) as told:
            self.cluster.result(lock.acquire(0))
        self.assertIn("lock-delay", str(told.exception))

        began = self.cluster.clock.seconds()
        self.acquired(lock)
        self.assertLess(self.cluster.clock.seconds() - began, 1.0)

    def test_pause(self) -> None:
        """
        A member that stood still holds nothing when it wakes, is told so, and
        does not disturb the next holder.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        lost: list[str] = []
        lock.when_lost().addCallback(lost.append)
        outcome = self.waiting(self.a.lock(NAME))
        self.cluster.pause(self.b)
        self.cluster.until(lambda: bool(outcome))
        before = self.entry()
        self.cluster.resume(self.b, arrivals_first=True)

        self.assertIsNone(lock.held)
        self.cluster.advance(30)
        self.assertEqual(lost, [LEASE_OVER])
        self.assertEqual(len(self.logged("lock-lost", lock=NAME)), 1)
        self.assertEqual(self.entry(), before)

    def test_cut_off(self) -> None:
        """
        Without Consul it is held until the lease ends, and no longer.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        self.cluster.network(self.b).loses_request = lambda request: True
        remaining = lock.remaining
        self.cluster.advance(remaining - 0.01)
        self.assertIsNotNone(lock.held)
        self.cluster.advance(0.02)

        self.assertIsNone(lock.held)
        self.assertEqual(lock.remaining, 0.0)

    def test_taken_away(self) -> None:
        """
        Whose key is deleted is told within a moment, and others go on.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        lost: list[str] = []
        lock.when_lost().addCallback(lost.append)
        outcome = self.waiting(self.a.lock(NAME))
        self.cluster.result(self.cluster.api.delete(KEY))
        self.cluster.advance(1.0)

        self.assertEqual(lost, [TAKEN_AWAY])
        self.assertIsNone(lock.held)
        self.assertIsInstance(outcome[0], Held)

    def test_unlocked(self) -> None:
        """
        Who is freed of the lock by Consul's own means has lost it, though the
        record still says otherwise; and gives it back.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        lost: list[str] = []
        lock.when_lost().addCallback(lost.append)
        entry, session = self.entry(), self.b.session_id
        assert entry is not None and session is not None
        unlock = Op.unlock(KEY, entry.value, session)
        self.cluster.result(self.cluster.api.txn((unlock,)))
        self.cluster.advance(1)

        self.assertEqual(lost, [TAKEN_AWAY])
        self.assertTrue(self.at_once(self.a))

    def deleted_unnoticed(self, other: Coordinator) -> None:
        """
        Delete the key of a lock whose holder does not hear of it at once, and let
        another wait for it.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        self.cluster.network(self.b).reply_latency = lambda request: (
            2.0 if request.lane is Lane.WATCH else 0.0
        )
        self.cluster.result(self.cluster.api.delete(KEY))
        outcome = self.waiting(other.lock(NAME))
        self.assertEqual(outcome, [])
        self.cluster.until(lambda: lock.held is None)
        self.cluster.until(lambda: bool(outcome))

    def test_not_before_it_knows(self) -> None:
        """
        Nobody has a lock whose key was deleted before its holder knows of that.
        """
        self.deleted_unnoticed(self.a)

    def test_not_before_it_knows_within_a_member(self) -> None:
        """
        Nor has its own member.
        """
        self.deleted_unnoticed(self.b)

    def test_when_lost(self) -> None:
        """
        Who releases it is told too, and who does not hold it at once.
        """
        lock = self.a.lock(NAME)
        self.acquired(lock)
        told: list[str] = []
        lock.when_lost().addCallback(told.append)
        self.cluster.result(lock.release())
        lock.when_lost().addCallback(told.append)

        self.assertEqual(told, [RELEASED, RELEASED])
        self.assertEqual(self.logged("lock-lost"), [])

    def test_session_lost_while_waiting(self) -> None:
        """
        Who waits goes on with its next session.
        """
        first = self.a.lock(NAME)
        self.acquired(first)
        outcome = self.waiting(self.b.lock(NAME))
        before = self.b.session_id
        assert before is not None
        self.cluster.result(self.cluster.api.destroy_session(before))
        self.cluster.until(lambda: self.b.session_id not in (None, before))
        self.cluster.result(first.release())

        self.cluster.until(lambda: bool(outcome))
        entry = self.entry()
        assert entry is not None
        self.assertEqual(entry.session, self.b.session_id)

    def test_renew(self) -> None:
        """
        There is nothing to renew, unless it is not held.
        """
        lock = self.a.lock(NAME)
        with self.assertRaises(LockLost):
            self.cluster.result(lock.renew())
        self.acquired(lock)
        before = self.entry()
        self.cluster.result(lock.renew())

        self.assertEqual(self.entry(), before)

    def test_a_new_lease_holds_nothing(self) -> None:
        """
        A session that is destroyed loses its locks; the member has them no more
        with the next one.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        session = self.b.session_id
        assert session is not None
        self.cluster.result(self.cluster.api.destroy_session(session))
        self.cluster.until(lambda: self.b.session_id not in (None, session))

        self.assertIsNone(lock.held)
        self.cluster.advance(self.b.settings.lock_delay)
        self.assertTrue(self.at_once(self.b))


class EarlyEndTests(LocksCase):
    """
    Sessions that end before the lease does; see Note [Two keys of a lock].
    """

    def cut_off(self) -> Any:
        """
        Let ``b`` hold the lock, cut off, and its session be destroyed.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        session = self.b.session_id
        assert session is not None
        self.cluster.network(self.b).loses_request = lambda request: True
        self.cluster.result(self.cluster.api.destroy_session(session))
        return lock

    def test_waits_for_the_lease(self) -> None:
        """
        Nobody has the lock while a holder may act whose session was destroyed,
        also who comes when nothing is left of the key.
        """
        lock = self.cut_off()
        self.assertIsNone(self.entry())
        outcome = self.waiting(self.a.lock(NAME))
        self.cluster.until(lambda: bool(outcome) or lock.held is None)
        self.assertEqual(outcome, [])

        self.cluster.until(lambda: bool(outcome), 60)
        self.assertIsInstance(outcome[0], Held)

    def test_noticed(self) -> None:
        """
        A holder that notices says so, and others need not wait.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        outcome = self.waiting(self.a.lock(NAME))
        session = self.b.session_id
        assert session is not None
        self.cluster.result(self.cluster.api.destroy_session(session))

        self.assertLess(self.cluster.until(lambda: bool(outcome)), 4.0)

    def test_unreadable_trace(self) -> None:
        """
        Where it cannot be read who held it last, one session TTL is waited.
        """
        key = self.cluster.keys.lock_trace(NAME)
        self.cluster.result(self.cluster.api.put(key, b"\xff"))
        outcome = self.waiting(self.a.lock(NAME))
        ttl = self.a.settings.session_ttl
        self.cluster.advance(ttl - 1)
        self.assertEqual(outcome, [])
        self.cluster.advance(2.0)

        self.assertIsInstance(outcome[0], Held)


class TermTests(LocksCase):
    """
    A lock with a term.
    """

    def test_outlives_its_member(self) -> None:
        """
        After a crash it is held for its term, counted from the last renewal as
        others saw it, and taken at once then.
        """
        lock = self.b.lock(NAME, 20)
        held = self.acquired(lock)
        outcome = self.waiting(self.a.lock(NAME, 20))
        self.cluster.advance(60)
        self.assertEqual(outcome, [])
        self.assertEqual(lock.held, held)
        self.cluster.crash(self.b)
        seconds = self.cluster.until(lambda: bool(outcome), 60)

        self.assertGreater(seconds, 20 * 1.02 - 20 / 3)
        self.assertLess(seconds, 20 * 1.02 + 0.1)
        self.assertGreater(outcome[0].token, held.token)

    def test_key(self) -> None:
        """
        No session holds its key.  The fencing token stays when it is renewed, and
        stands in the record.
        """
        held = self.acquired(self.b.lock(NAME, 9))
        first = self.found()
        self.cluster.advance(9)
        later = self.found()

        assert first.entry is not None and first.record is not None
        assert later.entry is not None and later.record is not None
        self.assertIsNone(later.entry.session)
        self.assertGreater(later.entry.modify_index, first.entry.modify_index)
        self.assertEqual((first.token, later.token), (held.token, held.token))
        self.assertEqual(later.record.seq, 3)

    def test_taken_by_all_kinds(self) -> None:
        """
        An expired lock may be taken by one that is bound to a session.
        """
        self.acquired(self.b.lock(NAME, 5))
        outcome = self.waiting(self.a.lock(NAME))
        self.cluster.crash(self.b)
        self.cluster.until(lambda: bool(outcome))
        entry = self.entry()

        assert entry is not None
        self.assertEqual(entry.session, self.a.session_id)

    def test_at_once(self) -> None:
        """
        A member that has seen it expire takes it at once.
        """
        self.waiting(self.a.lock("another"))
        self.acquired(self.b.lock(NAME, 30))
        self.cluster.crash(self.b)
        self.cluster.advance(30 * 1.02 - 1)
        self.assertFalse(self.at_once(self.a))
        self.cluster.advance(1.1)

        self.assertTrue(self.at_once(self.a))

    def test_pause(self) -> None:
        """
        A holder that stood still for its term holds nothing when it wakes, be it
        that the answer to its renewal comes first.
        """
        lock = self.b.lock(NAME, 6)
        self.acquired(lock)
        lost: list[str] = []
        lock.when_lost().addCallback(lost.append)
        self.cluster.network(self.b).reply_latency = lambda request: 0.2
        self.cluster.until(lambda: self.cluster.process(self.b).transport.under_way > 2)
        self.cluster.pause(self.b)
        outcome = self.waiting(self.a.lock(NAME))
        self.cluster.until(lambda: bool(outcome))
        self.cluster.resume(self.b, arrivals_first=True)

        self.assertIsNone(lock.held)
        self.cluster.advance(30)
        self.assertEqual(lost, [EXPIRED])
        self.assertTrue(outcome[0].token)
        self.assertIsNotNone(self.entry())

    def test_answer_after_the_term(self) -> None:
        """
        A renewal whose answer is read after the term has ended extends nothing,
        also where that answer is the first thing that is heard.
        """
        lock = self.b.lock(NAME, 6)
        self.acquired(lock)
        renewal = Once(writes(KEY))
        network = self.cluster.network(self.b)
        network.reply_latency = lambda request: 0.5 if renewal(request) else 0.0
        self.cluster.until(lambda: renewal.met)
        self.cluster.pause(self.b)
        self.cluster.advance(5.0)
        self.cluster.resume(self.b, arrivals_first=True)
        held = lock.held
        self.cluster.advance(5)

        self.assertEqual((held, lock.held), (None, None))

    def test_counted_from_when_it_was_sent(self) -> None:
        """
        A slow answer to the acquisition shortens the term.
        """
        lock = self.b.lock(NAME, 10)
        self.cluster.network(self.b).reply_latency = lambda request: (
            4.0 if writes(KEY)(request) else 0.0
        )
        self.acquired(lock)

        self.assertAlmostEqual(lock.remaining, 10 - 0.2 - 4.0, delta=0.2)

    def test_renewal_counted_from_when_it_was_sent(self) -> None:
        """
        So does a slow answer to a renewal.
        """
        lock = self.b.lock(NAME, 10)
        self.acquired(lock)
        self.cluster.network(self.b).reply_latency = lambda request: (
            2.0 if writes(KEY)(request) else 0.0
        )
        renewed = lock.renew()
        self.cluster.result(renewed)

        self.assertAlmostEqual(lock.remaining, 10 - 0.2 - 2.0, delta=0.1)

    def test_lost_renewals(self) -> None:
        """
        A renewal whose answer is lost counts for nothing, and the next one builds
        on it.
        """
        lock = self.b.lock(NAME, 6)
        self.acquired(lock)
        lost = Once(writes(KEY))
        self.cluster.network(self.b).loses_reply = lost
        self.cluster.until(lambda: lost.met)
        until = lock.remaining
        self.cluster.advance(1.0)
        self.assertAlmostEqual(lock.remaining, until - 1.0, places=3)
        self.cluster.advance(60)

        self.assertIsNotNone(lock.held)

    def test_no_renewal_answered(self) -> None:
        """
        When no renewal is acknowledged, it is lost at the end of its term, though
        all were applied.
        """
        lock = self.b.lock(NAME, 6)
        self.acquired(lock)
        lost: list[str] = []
        lock.when_lost().addCallback(lost.append)
        self.cluster.network(self.b).loses_reply = writes(KEY)
        self.cluster.advance(6.0)

        self.assertEqual((lost, lock.held), ([EXPIRED], None))
        self.assertTrue(self.logged("lock-not-renewed"))

    def test_goes_without_a_session(self) -> None:
        """
        It outlives the session of its holder, which goes on to hold it.
        """
        lock = self.b.lock(NAME, 30)
        held = self.acquired(lock)
        session = self.b.session_id
        assert session is not None
        self.cluster.result(self.cluster.api.destroy_session(session))
        self.cluster.until(lambda: self.b.session_id not in (None, session))
        self.cluster.advance(60)

        self.assertEqual(lock.held, held)

    def test_renewed_by_hand(self) -> None:
        """
        Its term begins anew when that is asked for.
        """
        lock = self.b.lock(NAME, 60)
        self.acquired(lock)
        self.cluster.advance(10)
        self.cluster.result(lock.renew())

        self.assertAlmostEqual(lock.remaining, 60 - 1.2, delta=0.1)

    def test_taken_away(self) -> None:
        """
        A holder whose renewal finds another has lost it.
        """
        lock = self.b.lock(NAME, 30)
        self.acquired(lock)
        lost: list[str] = []
        lock.when_lost().addCallback(lost.append)
        record = LockRecord("someone", "else", 30.0)
        self.cluster.result(self.cluster.api.put(KEY, record.encode()))
        self.cluster.advance(1.0)
        with self.assertRaises(LockLost):
            self.cluster.result(lock.renew())

        self.assertEqual(lost, [TAKEN_AWAY])
        found = self.found()
        self.assertEqual(found.record, record)

    def test_survives_all(self) -> None:
        """
        It survives the loss of every member: whoever comes finds it held.
        """
        self.acquired(self.b.lock(NAME, 300))
        self.cluster.crash(self.a)
        self.cluster.crash(self.b)
        self.cluster.advance(100)
        (c,) = self.add("c")

        self.assertFalse(self.at_once(c))


class GivingUpTests(LocksCase):
    """
    Acquiring that comes to nothing.
    """

    def test_timeout(self) -> None:
        """
        The error says who holds it; nothing is left behind.
        """
        first = self.a.lock(NAME)
        self.acquired(first)
        lock = self.b.lock(NAME)
        with self.assertRaises(LockNotAcquired) as told:
            self.cluster.result(lock.acquire(timeout=5))
        self.assertEqual(
            str(told.exception), "lock backup: not acquired in 5 s: held by a"
        )
        self.cluster.result(first.release())
        self.cluster.advance(5)

        self.assertIsNone(self.entry())
        self.acquired(lock)

    def test_tried_once(self) -> None:
        """
        Without any time it is tried once.
        """
        lock = self.a.lock(NAME)
        self.assertIsInstance(self.cluster.result(lock.acquire(0)), Held)
        with self.assertRaises(LockNotAcquired):
            self.cluster.result(self.b.lock(NAME).acquire(0), 0.5)

    def test_no_answer(self) -> None:
        """
        Without Consul, too, the time that was given is over at some time.
        """
        self.cluster.network(self.b).loses_request = lambda request: True
        with self.assertRaises(LockNotAcquired):
            self.cluster.result(self.b.lock(NAME).acquire(0), 2.5)

    def test_cancelled(self) -> None:
        """
        Who waits no more does not get it later.
        """
        first = self.a.lock(NAME)
        self.acquired(first)
        lock = self.b.lock(NAME)
        outcome: list[Any] = []
        acquiring = lock.acquire().addBoth(outcome.append)
        self.cluster.advance(1)
        acquiring.cancel()
        assert isinstance(outcome[0], Failure)
        outcome[0].trap(CancelledError)
        self.cluster.result(first.release())
        self.cluster.advance(5)

        self.assertIsNone(self.entry())
        self.acquired(lock)

    def cancelled_under_way(self) -> None:
        """
        Cancel while the request that takes the lock is under way.
        """
        lock = self.b.lock(NAME)
        outcome: list[Any] = []
        acquiring = lock.acquire().addBoth(outcome.append)
        self.cluster.advance(0.1)
        acquiring.cancel()
        self.assertEqual(len(outcome), 1)

    def test_late_success(self) -> None:
        """
        A lock that is had after all is given back.
        """
        self.cluster.network(self.b).reply_latency = lambda request: (
            1.0 if writes(KEY)(request) else 0.0
        )
        self.cancelled_under_way()
        self.assertIsNotNone(self.entry())
        self.cluster.advance(3)

        self.assertIsNone(self.entry())
        self.assertTrue(self.at_once(self.a))

    def test_late_request(self) -> None:
        """
        A request that was given up and lands late is refused: no lock is left
        that nobody knows of.
        """
        late = Once(writes(KEY))
        network = self.cluster.network(self.b)
        network.latency = lambda request: 15.0 if late(request) else 0.0
        network.lands_late = lambda request: True
        self.cancelled_under_way()
        self.cluster.advance(60)

        self.assertIsNone(self.entry())
        self.assertTrue(self.at_once(self.a))

    def test_answer_after_the_lease(self) -> None:
        """
        A take whose answer is read after the lease it was made under has ended is
        none; it is acquired anew.
        """
        self.cluster.network(self.b).reply_latency = lambda request: (
            0.5 if writes(KEY)(request) else 0.0
        )
        for valid_for in (None, 2.0):
            lock = self.b.lock(NAME, valid_for)
            outcome: list[Any] = []
            lock.acquire().addBoth(outcome.append)
            self.cluster.advance(0.2)
            self.cluster.pause(self.b)
            self.cluster.advance(3.5)
            self.cluster.resume(self.b, arrivals_first=True)
            self.assertEqual(outcome, [])
            self.cluster.until(lambda: bool(outcome))  # noqa: B023 - called at once
            self.assertEqual(lock.held, outcome[0])
            self.cluster.result(lock.release())

    def test_lost_answer(self) -> None:
        """
        A take whose answer is lost is found out about: it is held.
        """
        for valid_for in (None, 60.0):
            lost = Once(writes(KEY))
            self.cluster.network(self.b).loses_reply = lost
            lock = self.b.lock(NAME, valid_for)
            held = self.acquired(lock, 30)
            entry = self.entry()
            assert entry is not None
            self.assertEqual((lost.met, held.token), (1, entry.modify_index))
            self.cluster.result(lock.release())

    def test_denied(self) -> None:
        """
        Where a token may not do it, that is said, and not waited for.
        """
        self.cluster.network(self.b).instead = lambda request: (
            AccessDenied("Permission denied") if writes(KEY)(request) else None
        )
        with self.assertRaises(AccessDenied):
            self.cluster.result(self.b.lock(NAME).acquire())

    def test_garbage(self) -> None:
        """
        What is no lock is never taken, and nothing fails of it.
        """
        for value in (b"\xff", b"[]", b'{"owner": "x"}', b""):
            self.cluster.result(self.cluster.api.put(KEY, value))
            with self.assertRaises(LockNotAcquired) as told:
                self.cluster.result(self.b.lock(NAME).acquire(1))
            self.assertIn("cannot be read", str(told.exception))
        self.cluster.advance(200)
        self.assertIsNotNone(self.entry())

    def test_bad_arguments(self) -> None:
        """
        Names that cannot be keys, and terms that cannot be, are refused at once.
        """
        for name in ("", "a/b", ".x", "a b", "ä", "x" * 201):
            with self.assertRaises(InvalidIdError):
                self.a.lock(name)
        bad: list[Any] = [-1, 0, 0.5, float("nan"), float("inf"), 1e9, "5", True]
        for seconds in bad:
            with self.assertRaises(ConfigurationError):
                self.a.lock(NAME, seconds)


class UseTests(LocksCase):
    """
    ``run``, and the fence.
    """

    def test_run(self) -> None:
        """
        It is held while what is called goes on, and free afterwards.
        """
        lock = self.a.lock(NAME)
        going: Deferred[str] = Deferred()
        outcome: list[Any] = []
        lock.run(lambda word: going.addCallback(lambda _: word), "done").addBoth(
            outcome.append
        )
        self.cluster.advance(1)
        self.assertIsNotNone(lock.held)
        going.callback("")
        self.cluster.advance(1)

        self.assertEqual((outcome, lock.held), (["done"], None))
        self.assertIsNone(self.entry())

    def test_run_fails(self) -> None:
        """
        What it fails with is told, and the lock is free.
        """
        lock = self.a.lock(NAME)
        empty: dict[str, str] = {}
        for call in (lambda: fail(KeyError("x")), lambda: empty["x"]):
            with self.assertRaises(KeyError):
                self.cluster.result(lock.run(call))
        self.cluster.advance(1)

        self.assertIsNone(self.entry())

    def test_run_not_acquired(self) -> None:
        """
        Nothing is called without the lock.
        """
        self.acquired(self.b.lock(NAME))
        called: list[None] = []
        with self.assertRaises(LockNotAcquired):
            self.cluster.result(
                self.a.lock(NAME).run(lambda: called.append(None), timeout=1)
            )
        self.assertEqual(called, [])

    def test_run_loses(self) -> None:
        """
        When the lock is lost, what was called is cancelled, and waited for.
        """
        lock = self.a.lock(NAME)
        going: Deferred[None] = Deferred()
        outcome: list[Any] = []
        lock.run(lambda: going).addBoth(outcome.append)
        self.cluster.advance(1)
        self.cluster.result(self.cluster.api.delete(KEY))
        self.cluster.advance(1)

        self.assertTrue(going.called)
        outcome[0].trap(LockLost)

    def test_run_cancelled(self) -> None:
        """
        Cancelling it cancels what was called, and frees the lock.
        """
        lock = self.a.lock(NAME)
        going: Deferred[None] = Deferred()
        outcome: list[Any] = []
        running = lock.run(lambda: going).addBoth(outcome.append)
        self.cluster.advance(1)
        running.cancel()
        self.cluster.advance(1)

        outcome[0].trap(CancelledError)
        self.assertIsNone(self.entry())

    def test_fence(self) -> None:
        """
        What begins with the fence is applied while the lock is held, through its
        renewals, and refused once another has had it.
        """
        for valid_for in (None, 9.0):
            lock = self.a.lock(NAME, valid_for)
            with self.assertRaises(LockLost):
                lock.fence_ops()
            self.acquired(lock)
            fence = lock.fence_ops()
            self.cluster.advance(20)
            self.assertEqual(lock.fence_ops(), fence)
            write = (*fence, Op.set("elsewhere", b"1"))
            self.cluster.result(self.cluster.api.txn(write))
            self.cluster.result(lock.release())
            other = self.b.lock(NAME, valid_for)
            self.acquired(other)

            with self.assertRaises(TransactionRefused):
                self.cluster.result(self.cluster.api.txn(write))
            self.cluster.result(other.release())

    def test_fence_without_session(self) -> None:
        """
        What begins with the fence is refused once the session is lost, though
        nobody else has the lock yet.
        """
        lock = self.b.lock(NAME)
        self.acquired(lock)
        fence = lock.fence_ops()
        self.cluster.crash(self.b)
        self.cluster.advance(5)

        with self.assertRaises(TransactionRefused):
            self.cluster.result(self.cluster.api.txn(fence))


class ShutdownTests(LocksCase):
    """
    A member that goes in order.
    """

    def test_gives_all_back(self) -> None:
        """
        Locks of both kinds are free at once, and nothing is left of the member.
        """
        self.acquired(self.b.lock(NAME))
        self.acquired(self.b.lock("term", 300))
        outcome = self.waiting(self.a.lock(NAME))
        done = self.b.shutdown()
        seconds = self.cluster.until(lambda: bool(outcome))
        self.cluster.result(done)

        self.assertLess(seconds, 1.0)
        self.assertIsNone(self.entry("term"))
        self.assertEqual(self.cluster.left_behind(self.b), (0, 0))

    def test_who_waits(self) -> None:
        """
        Who waits, and who comes later, is told of the shutdown.
        """
        self.acquired(self.a.lock(NAME))
        outcome = self.waiting(self.b.lock(NAME))
        done = self.b.shutdown()
        self.cluster.result(done)

        outcome[0].trap(ShutDownError)
        with self.assertRaises(ShutDownError):
            self.cluster.result(self.b.lock("other").acquire())
        self.assertEqual(self.cluster.left_behind(self.b), (0, 0))

    def test_without_consul(self) -> None:
        """
        It ends in its bound without Consul, and leaves no timer.
        """
        lock = self.b.lock(NAME, 300)
        self.acquired(lock)
        self.acquired(self.b.lock("other"))
        self.cluster.network(self.b).loses_request = lambda request: True
        told: list[str] = []
        lock.when_lost().addCallback(told.append)
        self.cluster.result(self.b.shutdown(), 60)
        self.assertIsNone(lock.held)
        self.cluster.advance(60)

        self.assertEqual(self.cluster.left_behind(self.b), (0, 0))
        self.assertEqual(told, [RELEASED])

    def test_work_that_does_not_stop(self) -> None:
        """
        A lock is not given back in order while work goes on that may need it; it is
        held no more, and free once the session has ended.
        """

        class Stuck:
            my_workload: frozenset[str] = frozenset()

            def __init__(self, instance_id: str, coordinator: Coordinator) -> None:
                pass

            def start(self) -> None:
                pass

            def halt(self) -> Deferred[None]:
                return Deferred()

        (member,) = self.add("c", worker_class=Stuck)
        lock = member.lock(NAME)
        self.acquired(lock)
        told: list[str] = []
        lock.when_lost().addCallback(told.append)
        done = member.shutdown()
        self.cluster.advance(1)
        self.assertIsNotNone(self.entry())
        self.assertIsNotNone(lock.held)
        self.cluster.result(done, 60)

        self.assertEqual((lock.held, told), (None, [SHUT_DOWN]))
        self.acquired(self.a.lock(NAME), 30)
        self.assertEqual(self.cluster.left_behind(member), (0, 0))

    def test_any_moment(self) -> None:
        """
        Whenever it is shut down while it acquires, it ends, and no lock is left.
        """
        for step in range(8):
            name = f"c{step}"
            (member,) = self.add(name)
            for network in (self.cluster.network(member),):
                network.latency = lambda request: 0.02
                network.reply_latency = lambda request: 0.02
            outcome: list[Any] = []
            member.lock(NAME).acquire().addBoth(outcome.append)
            self.cluster.advance(0.02 * step)
            self.cluster.result(member.shutdown(), 60)

            self.assertEqual(len(outcome), 1)
            self.assertIsNone(self.entry(), step)
            self.assertEqual(self.cluster.left_behind(member), (0, 0))
