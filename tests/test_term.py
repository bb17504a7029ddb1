"""
Tests for a term of leadership and its fence.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transaction import TransactionOutcome
from voltha_coord.consul.transport import Request
from voltha_coord.embedded.memory import MemoryTransport, Network
from voltha_coord.embedded.state import ConsulState
from voltha_coord.errors import (
    ConsulUnavailable,
    LeaseOverError,
    RequestTimedOut,
    TransactionRefused,
    ValueTooLarge,
)
from voltha_coord.keys import Keys
from voltha_coord.lease import Lease
from voltha_coord.records import TermRecord
from voltha_coord.term import Term

from .support.embedded import Once, to, writes

#: Deadline of a request here, in seconds.
DEADLINE = 2.0


def never(request: Request) -> bool:
    """
    Let no request be lost.
    """
    return False


class TermTests(SynchronousTestCase):
    """
    A term that has begun, on an embedded Consul.
    """

    def setUp(self) -> None:
        """
        Begin a term.
        """
        self.clock = Clock()
        self.consul = ConsulState(self.clock)
        self.network = Network()
        self.keys = Keys("p")
        agent = self.consul.agent()
        self.api = self.make_api(MemoryTransport(agent, self.clock, self.network))
        self.other = self.make_api(MemoryTransport(agent, self.clock))
        self.session = self.run_(
            self.api.create_session(SessionSpec("a", ttl=15, lock_delay=1))
        )
        key = self.run_(self.api.txn((Op.lock(self.keys.leader, b"a", self.session),)))[
            0
        ]
        self.lease = Lease(
            self.clock.seconds, self.session, session_ttl=86400, renewed=0.0
        )
        self.refused: list[str] = []
        self.record = TermRecord("a", self.session, token=key.modify_index)
        self.term = self.begin(self.record)

    def make_api(self, transport: MemoryTransport) -> ConsulApi:
        """
        Give the verbs over a transport.
        """
        return ConsulApi(
            Requester([transport], now=self.clock.seconds), command_timeout=DEADLINE
        )

    def begin(self, record: TermRecord) -> Term:
        """
        Write the record that begins a term, and give the term.
        """
        self.run_(self.other.put(self.keys.term, record.encode()))
        entry = self.entry(self.keys.term)
        assert entry is not None
        return Term(
            self.api,
            self.keys,
            self.lease,
            TermRecord.from_entry(entry),
            entry.modify_index,
            self.refused.append,
        )

    def run_(self, d: Deferred[Any], seconds: float = 30.0) -> Any:
        """
        Let time pass until a Deferred fires, and give its result.
        """
        results: list[Any] = []
        d.addBoth(results.append)
        self.wait(seconds, lambda: bool(results))
        if not results:
            self.fail("nothing came of it")
        return self.successResultOf(d) if results[0] is None else self._told(results[0])

    def _told(self, result: Any) -> Any:
        if hasattr(result, "raiseException"):
            result.raiseException()
        return result

    def wait(self, seconds: float, until: Any = lambda: False) -> None:
        """
        Let time pass.
        """
        for _ in range(round(seconds / 0.05)):
            if until():
                return
            self.clock.advance(0.05)

    def entry(self, key: str) -> Entry | None:
        """
        Read a key.
        """
        entry: Entry | None = self.run_(self.other.get(key)).entry
        return entry

    def value(self, key: str) -> bytes | None:
        """
        Read the value of a key.
        """
        entry = self.entry(key)
        return None if entry is None else entry.value

    def write(self, value: bytes, key: str = "p/x") -> TransactionOutcome:
        """
        Write as leader, and give the outcome.
        """
        outcome: TransactionOutcome = self.run_(self.term.write([Op.set(key, value)]))
        return outcome

    # The fence.

    def test_leads_every_transaction(self) -> None:
        """
        A write checks the leader key's session, and moves the record on from
        where this term left it.
        """
        index = self.term.fence.index

        self.assertTrue(self.write(b"1").complete)

        record = json.loads(self.value(self.keys.term) or b"")
        self.assertEqual((self.value("p/x"), record["seq"]), (b"1", 1))
        self.assertGreater(self.term.fence.index, index)
        entry = self.entry(self.keys.term)
        assert entry is not None
        self.assertEqual(self.term.fence.index, entry.modify_index)
        self.assertEqual(
            [op.verb for op in self.term.fence.ops()], ["check-session", "cas"]
        )

    def test_large_write(self) -> None:
        """
        A write of many operations has the fence in each of its transactions.
        """
        ops = [Op.set(f"p/x{number}", b"1") for number in range(200)]

        outcome = self.run_(self.term.write(ops))

        self.assertEqual((outcome.applied, self.term.fence.record.seq), (200, 4))

    def test_token(self) -> None:
        """
        The token of a term is the index of its acquisition, whatever it writes.
        """
        token = self.term.token

        self.write(b"1")

        self.assertEqual((self.term.token, token), (self.record.token,) * 2)

    def test_queues(self) -> None:
        """
        Writes are made one after the other, in the order they were asked for.
        """
        self.network.latency = lambda request: 0.5

        writing = [self.term.write([Op.set("p/x", b"%d" % n)]) for n in range(3)]
        self.wait(0.4)
        self.assertEqual(self.value("p/x"), None)
        for one in writing:
            self.run_(one)

        self.assertEqual((self.value("p/x"), self.term.fence.record.seq), (b"2", 3))

    def test_large_writes_do_not_mix(self) -> None:
        """
        A write of several transactions is done before the next one begins.
        """
        self.network.latency = lambda request: 0.5
        large = self.term.write([Op.set("p/x", b"1") for _ in range(100)])
        small = self.term.write([Op.set("p/x", b"2")])

        self.wait(1.4)
        meanwhile = self.value("p/x")
        self.run_(large)
        self.run_(small)

        self.assertEqual((meanwhile, self.value("p/x")), (b"1", b"2"))

    def test_unknown_fields_kept(self) -> None:
        """
        What a newer version wrote into the record stays there.
        """
        self.term = self.begin(evolve(self.record, extra={"mood": "fine"}))

        self.write(b"1")

        record = json.loads(self.value(self.keys.term) or b"")
        self.assertEqual(record["mood"], "fine")

    # When it is over.

    def test_ended(self) -> None:
        """
        A term that was ended writes nothing.
        """
        self.term.end()

        self.assertFalse(self.term.active)
        self.failureResultOf(self.term.write([Op.set("p/x", b"1")]), LeaseOverError)
        self.assertEqual(self.refused, [])

    def test_lease_over(self) -> None:
        """
        V4: from the deadline of the lease on nothing is written, whatever
        Consul would say, also of what waited in the queue.
        """
        self.lease = Lease(self.clock.seconds, self.session, session_ttl=10, renewed=0)
        self.term = self.begin(self.record)
        self.network.latency = lambda request: 1.5
        left = self.lease.remaining
        self.clock.advance(left - 1.0)
        first = self.term.write([Op.set("p/x", b"1")])
        second = self.term.write([Op.set("p/x", b"2")])
        self.assertTrue(self.term.active)

        self.wait(1.1)
        self.assertFalse(self.term.active)

        self.run_(first)
        self.failureResultOf(second, LeaseOverError)

    def test_key_lost(self) -> None:
        """
        Field report 19: the session was ended by hand.  The stale leader's
        transaction is refused whole, and the term is over.
        """
        self.consul.destroy_session(self.session)

        outcome = self.write(b"1")

        self.assertTrue(outcome.fenced_off)
        self.assertFalse(self.term.active)
        self.assertEqual((self.value("p/x"), self.refused), (None, ["leader-key-lost"]))

    def test_key_in_other_hands(self) -> None:
        """
        B9: a leader whose key somebody else holds writes nothing.
        """
        self.run_(self.other.delete(self.keys.leader))
        other = self.run_(
            self.other.create_session(SessionSpec("b", ttl=15, lock_delay=1))
        )
        self.run_(self.other.txn((Op.lock(self.keys.leader, b"b", other),)))

        self.write(b"1")

        self.assertEqual((self.value("p/x"), self.refused), (None, ["leader-key-lost"]))

    def test_record_changed(self) -> None:
        """
        A record that somebody wrote, deleted or garbled ends the term.
        """
        another = evolve(self.record, session="another").encode()
        for spoil in (
            lambda: self.other.put(self.keys.term, b"\xff"),
            lambda: self.other.delete(self.keys.term),
            lambda: self.other.put(self.keys.term, another),
        ):
            self.term = self.begin(self.record)
            self.refused.clear()
            self.run_(spoil())

            self.write(b"1")

            self.assertEqual(self.value("p/x"), None)
            self.assertEqual(self.refused, ["term-record-changed"])
            self.assertFalse(self.term.active)

    def test_refused_once(self) -> None:
        """
        The end of a term is told once.
        """
        self.consul.destroy_session(self.session)
        self.write(b"1")

        self.failureResultOf(self.term.write([Op.set("p/x", b"1")]), LeaseOverError)

        self.assertEqual(len(self.refused), 1)

    def test_own_operation_refused(self) -> None:
        """
        An operation of the write that is refused does not end the term.
        """
        outcome = self.run_(self.term.write([Op.cas("p/x", b"1", 77)]))

        self.assertFalse(outcome.complete)
        self.assertTrue(self.term.active)
        self.assertTrue(self.write(b"2").complete)

    def test_too_large(self) -> None:
        """
        A write that fits into no transaction fails, and the next one is made.
        """
        with self.assertRaises(ValueTooLarge):
            self.write(b"x" * 600_000)

        self.assertTrue(self.write(b"2").complete)

    # Lost replies.

    def test_reply_lost(self) -> None:
        """
        A write whose reply was lost is known to be applied.
        """
        self.network.loses_reply = Once(writes("p/x"))

        outcome = self.write(b"1")

        self.assertTrue(outcome.complete)
        self.assertEqual((self.value("p/x"), self.term.fence.record.seq), (b"1", 1))
        self.assertTrue(self.write(b"2").complete)

    def test_request_lost(self) -> None:
        """
        A write that never arrived is known not to be applied.
        """
        self.network.loses_request = Once(writes("p/x"))

        outcome = self.write(b"1")

        self.assertIsInstance(outcome.error, RequestTimedOut)
        self.assertEqual((outcome.applied, outcome.unknown), (0, 0))
        self.assertEqual(self.value("p/x"), None)
        self.assertTrue(self.write(b"2").complete)

    def test_lands_late(self) -> None:
        """
        A request that was given up and lands late changes nothing: neither
        after another write, nor when there was none.
        """
        for again in (True, False):
            slow = Once(writes("p/x"))
            self.network.latency = lambda request, s=slow: 9.0 if s(request) else 0.0  # type: ignore[misc]  # a lambda's default
            self.network.lands_late = lambda request: True
            before = self.value("p/x")

            outcome = self.write(b"late")
            self.assertFalse(outcome.complete)
            if again:
                before = b"in time"
                self.assertTrue(self.write(b"in time").complete)
            self.wait(10)

            self.assertEqual(self.value("p/x"), before)
            self.assertTrue(self.term.active)

    def test_unanswered_question(self) -> None:
        """
        When the question about a lost write goes unanswered as well, the next
        write settles it first.
        """
        self.network.loses_reply = lambda request: True
        outcome = self.write(b"1")
        self.assertEqual((outcome.applied, outcome.unknown), (0, 1))

        with self.assertRaises(ConsulUnavailable):
            self.write(b"2")
        self.network.loses_reply = lambda request: False
        outcome = self.write(b"3")

        self.assertTrue(outcome.complete)
        self.assertEqual((self.value("p/x"), self.refused), (b"3", []))

    def test_cancelled(self) -> None:
        """
        A write that was cancelled may have been applied; the next one finds
        out, and goes on.
        """
        self.network.loses_reply = Once(writes("p/x"))
        writing = self.term.write([Op.set("p/x", b"1")])
        self.wait(0.2)

        writing.cancel()
        self.failureResultOf(writing, CancelledError)
        outcome = self.write(b"2")

        self.assertTrue(outcome.complete)
        self.assertEqual((self.value("p/x"), self.refused), (b"2", []))

    def test_cancelled_in_the_queue(self) -> None:
        """
        A write that is cancelled before its turn holds nobody up.
        """
        self.network.latency = lambda request: 0.5
        first = self.term.write([Op.set("p/x", b"1")])
        second = self.term.write([Op.set("p/x", b"2")])
        third = self.term.write([Op.set("p/y", b"3")])

        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.run_(first)
        self.run_(third)

        self.assertEqual((self.value("p/x"), self.value("p/y")), (b"1", b"3"))

    def test_barrier_refused(self) -> None:
        """
        A term that finds out, when it asks what became of a write, that its
        key is gone, is over.
        """
        self.network.loses_request = Once(writes("p/x"))
        writing = self.term.write([Op.set("p/x", b"1")])
        self.consul.destroy_session(self.session)

        self.run_(writing)

        self.assertEqual(self.refused, ["leader-key-lost"])

    def test_record_lost_meanwhile(self) -> None:
        """
        A term that finds somebody else's record, when it asks what became of a
        write, is over.
        """
        for spoil in (b"\xff", evolve(self.record, session="b").encode()):
            self.term = self.begin(self.record)
            self.refused.clear()
            self.network.loses_request = Once(writes("p/x"))
            writing = self.term.write([Op.set("p/x", b"1")])
            self.run_(self.other.put(self.keys.term, spoil))

            outcome = self.run_(writing)

            self.assertEqual(outcome.unknown, 1)
            self.assertEqual(self.refused, ["term-record-lost"])

    def test_reading_is_denied_nothing_is_known(self) -> None:
        """
        A question that is refused leaves it open what became of the write.
        """
        self.network.loses_reply = Once(writes("p/x"))
        reads = to(f"kv/{self.keys.term}", "GET")
        self.network.loses_request = Once(reads)

        outcome = self.write(b"1")

        self.assertEqual(outcome.unknown, 1)
        self.assertTrue(self.write(b"2").complete)

    # The last transaction.

    def suspend(self) -> None:
        """
        Suspend the term.
        """
        self.run_(self.term.suspend())

    def heir(self) -> str:
        """
        Give the session of another member.
        """
        session: str = self.run_(
            self.other.create_session(SessionSpec("b", ttl=15, lock_delay=1))
        )
        return session

    def passing_on(self, heir: str) -> tuple[Op, ...]:
        """
        Give what passes the leader key on.
        """
        return (
            Op.unlock(self.keys.leader, b"a", self.session),
            Op.lock(self.keys.leader, b"b", heir),
        )

    def conclude(self, heir: str) -> Any:
        """
        Hand the leader key over, and give what is known of it.
        """
        return self.run_(self.term.conclude(self.passing_on(heir), heir))

    def holder(self) -> str | None:
        """
        Give the session that holds the leader key.
        """
        entry = self.entry(self.keys.leader)
        return None if entry is None else entry.session

    def test_suspended(self) -> None:
        """
        A suspended term is not active, nor over; what is to be written waits,
        and is written when it goes on.
        """
        self.suspend()
        writing = self.term.write([Op.set("p/x", b"1")])
        self.wait(1.0)

        self.assertEqual((self.term.active, self.term.over), (False, False))
        self.assertNoResult(writing)
        self.assertEqual(self.value("p/x"), None)
        self.term.resume()

        self.assertTrue(self.term.active)
        self.assertTrue(self.run_(writing).complete)
        self.assertEqual(self.value("p/x"), b"1")

    def test_suspended_between_transactions(self) -> None:
        """
        A large write makes room after the transaction under way, and goes on
        where it was.
        """
        self.network.latency = lambda request: 0.2
        writing = self.term.write([Op.set(f"p/x{n}", b"1") for n in range(620)])
        self.wait(0.5)

        suspending = self.term.suspend()
        self.assertFalse(self.term.active)
        self.wait(0.3, until=lambda: bool(suspending.called))
        self.successResultOf(suspending)
        done = len(self.run_(self.other.list("p/x")).entries)
        self.wait(2.0)
        self.assertEqual(len(self.run_(self.other.list("p/x")).entries), done)
        self.term.resume()

        self.assertTrue(0 < done < 620, done)
        self.assertEqual(self.run_(writing).applied, 620)

    def test_suspended_behind_what_hangs(self) -> None:
        """
        A write that hangs is given up to make room: it fails as one that got no
        answer, and what became of it is settled first.
        """
        for applied in (True, False):
            self.network.loses_reply = Once(writes("p/x")) if applied else never
            self.network.loses_request = never if applied else Once(writes("p/x"))
            writing = self.term.write([Op.set("p/x", b"%d" % applied)])
            self.wait(0.2)
            suspending = self.term.suspend()
            self.assertNoResult(suspending)

            self.term.interrupt()

            self.successResultOf(suspending)
            self.failureResultOf(writing, ConsulUnavailable)
            self.term.resume()
            self.assertTrue(self.write(b"2", "p/y").complete)
            self.assertEqual(self.refused, [])

    def test_nothing_to_interrupt(self) -> None:
        """
        Where nothing hangs there is nothing to be given up.
        """
        self.term.interrupt()

        self.assertTrue(self.write(b"1").complete)

    def test_suspending_cancelled(self) -> None:
        """
        A term that was to be suspended, but had to wait too long, goes on.
        """
        self.network.latency = lambda request: 0.5
        writing = self.term.write([Op.set("p/x", b"1")])
        suspending = self.term.suspend()

        suspending.cancel()

        self.failureResultOf(suspending, CancelledError)
        self.assertTrue(self.term.active)
        self.assertTrue(self.run_(writing).complete)
        self.assertTrue(self.write(b"2").complete)

    def test_concluded(self) -> None:
        """
        The last transaction hands the leader key over and says, in the same
        step, that the term is released; then the term is over.
        """
        heir = self.heir()
        self.suspend()
        waiting = self.term.write([Op.set("p/x", b"1")])

        self.assertIs(self.conclude(heir), True)

        entry = self.entry(self.keys.term)
        assert entry is not None
        self.assertTrue(TermRecord.from_entry(entry).released)
        self.assertEqual((self.holder(), self.term.heir), (heir, heir))
        self.assertTrue(self.term.over)
        self.term.resume()
        self.failureResultOf(waiting, LeaseOverError)
        self.assertEqual((self.value("p/x"), self.refused), (None, []))

    def test_conclusion_refused(self) -> None:
        """
        Handed to nobody, the key stays: the refusal is told, and the term may
        go on.
        """
        nobody = self.heir()
        self.consul.destroy_session(nobody)
        self.suspend()

        with self.assertRaises(TransactionRefused) as told:
            self.conclude(nobody)

        self.assertTrue(told.exception.session_invalid)
        self.term.resume()
        self.assertEqual((self.holder(), self.term.heir), (self.session, ""))
        self.assertTrue(self.write(b"1").complete)
        self.assertEqual(self.refused, [])

    def test_conclusion_fenced_off(self) -> None:
        """
        A term that finds its fence in other hands, as it hands over, is over.
        """
        for spoil, why in (
            (lambda: self.other.put(self.keys.term, b"?"), "term-record-changed"),
            (lambda: self.other.delete(self.keys.leader), "leader-key-lost"),
        ):
            heir = self.heir()
            self.suspend()
            self.run_(spoil())

            with self.assertRaises(TransactionRefused):
                self.conclude(heir)

            self.assertEqual((self.term.over, self.refused), (True, [why]))
            self.term.resume()
            self.term = self.begin(self.record)
            self.refused.clear()

    def test_conclusion_reply_lost(self) -> None:
        """
        A last transaction whose reply was lost is known to be applied, also
        when the heir has begun by then.
        """
        for begun in (False, True):
            heir = self.heir()
            self.suspend()
            self.network.loses_reply = Once(writes(self.keys.leader))
            concluding = self.term.conclude(self.passing_on(heir), heir)
            self.wait(0.5)
            if begun:
                record = TermRecord("b", heir, token=77)
                self.run_(self.other.put(self.keys.term, record.encode()))

            self.assertIs(self.run_(concluding), True)

            self.assertEqual((self.term.over, self.refused), (True, []))
            self.term.resume()
            self.run_(self.other.txn((Op.delete(self.keys.leader),)))
            self.run_(self.other.txn((Op.lock(self.keys.leader, b"a", self.session),)))
            self.term = self.begin(self.record)

    def test_conclusion_lost(self) -> None:
        """
        A last transaction that never arrived is known not to be applied; one
        that lands late, when the term goes on, changes nothing.
        """
        heir = self.heir()
        self.suspend()
        slow = Once(writes(self.keys.leader))
        self.network.latency = lambda request: 2 * DEADLINE if slow(request) else 0.0
        self.network.lands_late = lambda request: True

        self.assertIs(self.conclude(heir), False)

        self.term.resume()
        self.assertTrue(self.term.active)
        self.wait(3 * DEADLINE)
        self.assertEqual((self.holder(), self.term.heir), (self.session, ""))
        self.assertTrue(self.write(b"1").complete)
        self.assertEqual(self.refused, [])

    def test_conclusion_lands_at_the_last_moment(self) -> None:
        """
        A last transaction that lands while it is being shut out is known to be
        applied: it is the very reason why the term's fence is refused.
        """
        heir = self.heir()
        self.suspend()
        last, barrier = Once(writes(self.keys.leader)), writes(self.keys.leader)

        def slow(request: Request) -> float:
            if last(request):
                return DEADLINE + 0.5
            return 1.0 if barrier(request) else 0.0

        self.network.latency = slow
        self.network.lands_late = lambda request: True

        self.assertIs(self.conclude(heir), True)

        self.assertEqual((self.holder(), self.refused), (heir, []))

    def test_key_lost_at_the_last_moment(self) -> None:
        """
        A term whose key is lost while its last transaction is being shut out is
        over.
        """
        heir = self.heir()
        self.suspend()
        self.network.loses_request = Once(writes(self.keys.leader))
        concluding = self.term.conclude(self.passing_on(heir), heir)
        self.run_(self.other.delete(self.keys.leader))

        self.assertIs(self.run_(concluding), None)

        self.assertEqual((self.term.over, self.refused), (True, ["leader-key-lost"]))

    def test_conclusion_not_known(self) -> None:
        """
        As long as nobody says what became of the last transaction nothing is
        known; then it is.
        """
        heir = self.heir()
        self.suspend()
        self.network.loses_reply = lambda request: True
        self.assertIs(self.conclude(heir), None)
        self.assertIs(self.run_(self.term.concluded()), None)
        self.assertFalse(self.term.over)
        self.network.loses_reply = lambda request: False

        self.assertIs(self.run_(self.term.concluded()), True)

        self.assertTrue(self.term.over)

    def test_conclusion_never_known(self) -> None:
        """
        A term whose last transaction may still be applied does not go on,
        whatever went wrong.
        """
        heir = self.heir()
        self.suspend()
        self.network.loses_reply = lambda request: True
        concluding = self.term.conclude(self.passing_on(heir), heir)
        self.wait(0.1)
        concluding.cancel()
        self.failureResultOf(concluding, CancelledError)

        self.term.resume()

        self.assertFalse(self.term.active)
        self.assertEqual(self.refused, ["hand-over-unsettled"])

    def test_concludes_after_what_was_lost(self) -> None:
        """
        A write whose fate is not known is settled before the last transaction
        is sent; where it cannot be, none is sent, and the term may go on.
        """
        heir = self.heir()
        self.network.loses_reply = lambda request: True
        self.write(b"1")
        self.suspend()
        with self.assertRaises(ConsulUnavailable):
            self.conclude(heir)
        self.assertEqual((self.holder(), self.term.heir), (self.session, ""))
        self.network.loses_reply = lambda request: False

        self.assertIs(self.conclude(heir), True)

        self.assertEqual((self.holder(), self.value("p/x")), (heir, b"1"))

    def test_ended_while_suspended(self) -> None:
        """
        A term that ended while it was suspended hands over nothing.
        """
        heir = self.heir()
        self.suspend()
        self.term.end()

        self.assertIs(self.conclude(heir), None)

        self.term.resume()
        self.assertEqual((self.holder(), self.refused), (self.session, []))
