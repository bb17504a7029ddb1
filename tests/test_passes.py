"""
Tests for one pass of the leader, apart from when it is made.

What passes make of whole clusters is in :mod:`tests.test_leader`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from attrs import Factory, define
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.consul.transaction import TransactionOutcome
from voltha_coord.errors import TransactionRefused
from voltha_coord.keys import Keys
from voltha_coord.lease import Lease
from voltha_coord.pace import Pace
from voltha_coord.passes import Passes
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.records import Member, OwnerRecord
from voltha_coord.settings import Settings
from voltha_coord.succession import Succession
from voltha_coord.tally import PassTally
from voltha_coord.term import Term

from .support.keeping import Bench

KEYS = Keys("p")
SETTINGS = Settings()


@define
class FakeTerm:
    """
    A term that keeps what is written in it.
    """

    lease: Lease
    written: list[Sequence[Any]] = Factory(list)
    outcome: TransactionOutcome = Factory(lambda: TransactionOutcome(1, 1))

    def write(self, ops: Sequence[Any]) -> Deferred[TransactionOutcome]:
        """
        Write.
        """
        self.written.append(ops)
        return succeed(self.outcome)


class PassesTests(SynchronousTestCase):
    """
    A cluster of one member and one work item.
    """

    def setUp(self) -> None:
        """
        Begin a term.
        """
        self.bench = bench = Bench()
        now = bench.clock.seconds
        self.join("m1")
        self.put(f"{KEYS.work}w1")
        self.term = FakeTerm(Lease(now, "s", session_ttl=3600.0, renewed=now()))
        self.tally = PassTally()
        self.pace = Pace(now, 100.0)
        self.passes = Passes(
            now,
            bench.api,
            KEYS,
            SETTINGS,
            cast(Term, self.term),
            planner=BalancedPlanner(),
            succession=Succession(now, bench.api, SETTINGS.session_ttl),
            pace=self.pace,
            tally=self.tally,
            log=bench.log,
        )

    def put(self, key: str, value: bytes = b"") -> None:
        """
        Write a key.
        """
        self.bench.result(self.bench.api.put(key, value))

    def make_session(self, name: str) -> str:
        """
        Make a session.
        """
        session: str = self.bench.result(
            self.bench.api.create_session(SessionSpec(name, 3600.0, 0.0))
        )
        return session

    def join(self, name: str) -> None:
        """
        Let a member come.
        """
        record = Member(name, version="1").encode()
        session = self.make_session(name)
        self.bench.result(
            self.bench.api.txn((Op.lock(KEYS.member(name), record, session),))
        )

    def make(self, consistent: bool = False) -> None:
        """
        Make a pass.
        """
        self.bench.result(self.passes.make(consistent=consistent))

    def test_made(self) -> None:
        """
        What the planner gives is written, and reported.
        """
        self.bench.advance(2)
        self.make()

        self.assertEqual(len(self.term.written), 1)
        last = self.passes.last
        self.assertEqual((last.number, last.items, last.members), (1, 1, 1))
        self.assertEqual(last.operations, 1)
        self.assertEqual(self.tally.outcomes.counts["made"], 1)
        self.assertLess(self.passes.age, 1.0)

    def test_consistent(self) -> None:
        """
        After a pass on a consistent snapshot the next one of those is due later.
        """
        self.make()
        self.assertLess(self.pace.resync, 0)

        self.make(consistent=True)

        self.assertGreater(self.pace.resync, 99.0)

    def test_nothing_to_do(self) -> None:
        """
        Where all is as planned nothing is written.
        """
        self.put(KEYS.assignment("m1", "w1"))

        self.make()

        self.assertEqual((self.term.written, self.passes.last.number), ([], 1))

    def test_frozen(self) -> None:
        """
        Nothing is planned while operators want so.
        """
        self.put(KEYS.freeze)

        self.make()

        self.assertEqual(self.term.written, [])
        self.assertTrue(self.passes.last.frozen)
        self.assertEqual(self.tally.outcomes.counts["frozen"], 1)

    def test_refused(self) -> None:
        """
        A pass whose write is refused fails, and is not reported as made.
        """
        self.term.outcome = TransactionOutcome(0, 1, error=TransactionRefused(()))

        with self.assertRaises(TransactionRefused):
            self.make()

        self.assertEqual(self.passes.last.number, 0)

    def test_after_an_outage(self) -> None:
        """
        A leader whose own lease is young waits for members that have work, but
        not for ever.
        """
        self.put(KEYS.assignment("gone", "w1"))

        self.make(consistent=True)
        self.assertEqual((self.term.written, self.passes.last.number), ([], 0))
        self.assertEqual(self.pace.due, self.term.lease.began + SETTINGS.soak)

        self.bench.advance(SETTINGS.soak)
        self.make()
        self.assertEqual((len(self.term.written), self.passes.last.number), (1, 1))

    def test_work_of_the_gone(self) -> None:
        """
        An item stays where it is as long as the session that owned it may be
        there; then nothing is waited for any more.
        """
        session = self.make_session("gone")
        self.put(KEYS.assignment("gone", "w1"))
        self.put(KEYS.owner("w1"), OwnerRecord("gone", session).encode())
        self.bench.advance(SETTINGS.soak)

        self.make()
        self.assertEqual((self.term.written, self.passes.last.held), ([], 1))
        self.assertTrue(self.passes.waits)
        self.assertFalse(self.bench.result(self.passes.any_over()))

        self.bench.consul.destroy_session(session)
        self.bench.result(self.passes.any_over())
        self.bench.advance(SETTINGS.session_ttl + 1)
        self.assertTrue(self.bench.result(self.passes.any_over()))
        self.assertFalse(self.passes.waits)
