"""
Tests for named locks on a real Consul.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks
from twisted.trial.unittest import TestCase

from voltha_coord._lock import LockRecord, LockTrace
from voltha_coord._types import Steps
from voltha_coord.consul.model import Op
from voltha_coord.coordinator import Coordinator
from voltha_coord.errors import LockNotAcquired, TransactionRefused
from voltha_coord.lock_holding import TAKEN_AWAY, Held
from voltha_coord.lock_store import Found, LockStore
from voltha_coord.settings import Settings

from .contract.backends import real_reactor
from .support.real_consul import shared_consul


class RealConsulTests(TestCase):
    """
    On a real Consul, in real time.
    """

    timeout = 60

    def setUp(self) -> Deferred[None]:  # type: ignore[override]  # trial waits
        """
        Let there be two members.
        """
        return self.begin()

    @inlineCallbacks
    def begin(self) -> Steps[None]:
        """
        Begin, and wait for a leader.
        """
        consul, reactor = shared_consul(), real_reactor()
        settings = Settings(prefix=f"service/locks-{os.getpid()}-{id(self)}")
        self.members: list[Coordinator] = []
        for name in "ab":
            member = Coordinator(
                "127.0.0.1",
                "127.0.0.1",
                name,
                8880,
                consul.address,
                settings=settings,
                reactor=reactor,
            )
            self.addCleanup(member.shutdown)
            self.members.append(member)
        for member in self.members:
            yield member.when_ready()
        self.a, self.b = self.members
        self.key = self.a.keys.lock("x")

    @inlineCallbacks
    def test_handed_about(self) -> Steps[None]:
        """
        A lock of either kind goes from hand to hand, token by token, also between
        two of one member; what begins with the fence of an old holder is refused.
        """
        for valid_for in (None, 30.0):
            tokens, fences = [], []
            locks = [m.lock("x", valid_for) for m in (self.a, self.b, self.a)]
            waiting: list[Deferred[Held]] = [lock.acquire() for lock in locks]
            for _ in locks:
                while not any(lock.held for lock in locks):
                    yield self.a.get_members()
                (lock,) = (lock for lock in locks if lock.held)
                assert lock.held is not None
                tokens.append(lock.held.token)
                fences.append(lock.fence_ops())
                yield lock.renew()
                yield self.a.api.txn((*lock.fence_ops(), Op.set(f"{self.key}-w", b"1")))
                yield lock.release()
            yield gatherResults(waiting)

            self.assertEqual(tokens, sorted(set(tokens)))
            for fence in fences:
                yield self.assertFailure(self.a.api.txn(fence), TransactionRefused)
            entry = (yield self.a.api.get(self.key)).entry
            self.assertIsNone(entry)

    @inlineCallbacks
    def test_session(self) -> Steps[None]:
        """
        The lock is held by the session in Consul's sense, and goes with it; its
        holder is told, and another has it after the lock-delay.
        """
        lock = self.b.lock("x")
        yield lock.acquire()
        entry = (yield self.a.api.get(self.key)).entry
        self.assertEqual(entry.session, self.b.session_id)
        lost = lock.when_lost()
        yield self.a.api.destroy_session(self.b.session_id or "")
        yield lost
        self.assertIsNone(lock.held)
        other = self.a.lock("x")
        yield other.acquire(timeout=10)

        yield other.release()

    @inlineCallbacks
    def test_taken_away(self) -> Steps[None]:
        """
        A key that is deleted is a lock that is lost.
        """
        lock = self.b.lock("x", 30)
        yield lock.acquire()
        lost = lock.when_lost()
        yield self.a.api.delete(self.key)
        why = yield lost

        self.assertEqual(why, TAKEN_AWAY)

    @inlineCallbacks
    def test_expires(self) -> Steps[None]:
        """
        A lock with a term that nobody renews is taken when it has expired, not
        before.
        """
        store = LockStore(self.a.api, self.a.keys, lambda: "unique")
        record = LockRecord("dead", "token", 3.0)
        yield store.take("x", Found(), record, LockTrace("dead", "token"))
        lock = self.b.lock("x", 3)
        yield self.assertFailure(lock.acquire(timeout=1), LockNotAcquired)
        held: Any = yield lock.acquire(timeout=10)

        self.assertEqual(lock.held, held)
        yield lock.release()

    @inlineCallbacks
    def test_shut_out(self) -> Steps[None]:
        """
        A take that got no answer, and was not applied, never is.
        """
        store = LockStore(self.a.api, self.a.keys, lambda: "another")
        record, trace = LockRecord("a", "token", 30.0), LockTrace("a", "token")
        found: Found = yield store.look("x", consistent=True)
        taken = yield store.settle("x", found, record)
        self.assertIsNone(taken)
        yield self.assertFailure(
            store.take("x", found, record, trace), TransactionRefused
        )

        found = yield store.look("x", consistent=True)
        taken = yield store.take("x", found, record, trace)
        again = yield store.settle("x", found, record)
        self.assertEqual(again, taken)
        self.assertTrue((yield store.give_back("x", "token")))
        self.assertFalse((yield store.give_back("x", "token")))
