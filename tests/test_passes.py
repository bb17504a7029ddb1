"""
Tests for one pass of the leader, apart from when it is made.

What passes make of whole clusters is in :mod:`tests.test_leader`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, cast

from attrs import Factory, define
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.consul.transaction import TransactionOutcome
from voltha_coord.errors import TransactionRefused
from voltha_coord.interfaces import IPlanner, ISteppedPlanner
from voltha_coord.keys import Keys
from voltha_coord.lease import Lease
from voltha_coord.pace import Pace
from voltha_coord.passes import Passes
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.operations import Plan
from voltha_coord.planning.placing import PLAN_BUDGET, ResourcePlanner
from voltha_coord.planning.state import ClusterState
from voltha_coord.planning.synchronize import COST
from voltha_coord.recollection import Recollection
from voltha_coord.records import (
    Assignment,
    Member,
    OwnerRecord,
    StatusReport,
    encode_status,
)
from voltha_coord.settings import Settings
from voltha_coord.stretch import Stretch
from voltha_coord.succession import Succession
from voltha_coord.tally import PassTally
from voltha_coord.term import Term

from .support.keeping import Bench
from .support.resourceful import CAPACITY, item

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
            stretch=Stretch(bench.clock),
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


class ResourcePassesTests(SynchronousTestCase):
    """
    Passes that plan by resources.
    """

    def setUp(self) -> None:
        """
        Begin a term with members that have told what they use.
        """
        self.bench = bench = Bench()
        self.now = now = bench.clock.seconds
        for name in ("m1", "m2"):
            self.join(name)
        for work in ("w1", "w2"):
            self.put(KEYS.work_item(work), item(work).encode())
        bench.advance(10)
        lease = Lease(now, "s", session_ttl=3600.0, renewed=now())
        self.term = FakeTerm(lease)
        self.pace = Pace(now, 100.0, SETTINGS.sync_interval)
        self.passes = self.make_passes(ResourcePlanner())
        bench.advance(SETTINGS.soak)

    def make_passes(self, planner: IPlanner) -> Passes:
        """
        Plan so from now on.
        """
        return Passes(
            self.now,
            self.bench.api,
            KEYS,
            SETTINGS,
            cast(Term, self.term),
            planner=planner,
            succession=Succession(self.now, self.bench.api, SETTINGS.session_ttl),
            recollection=Recollection(self.now, self.now, KEYS, SETTINGS),
            pace=self.pace,
            stretch=Stretch(self.bench.clock),
            tally=PassTally(),
            log=self.bench.log,
        )

    def put(self, key: str, value: bytes = b"") -> None:
        """
        Write a key.
        """
        self.bench.result(self.bench.api.put(key, value))

    def join(self, name: str) -> None:
        """
        Let a member come, and report.
        """
        session: str = self.bench.result(
            self.bench.api.create_session(SessionSpec(name, 3600.0, 0.0))
        )
        member = Member(name, version="1", resources=CAPACITY)
        (report,) = encode_status(StatusReport({}, {"cpu": 1, "memory": 1}))
        for key, value in (
            (KEYS.member(name), member.encode()),
            (KEYS.status(name, 0), report),
        ):
            self.bench.result(self.bench.api.txn((Op.lock(key, value, session),)))

    def make(self) -> list[Op]:
        """
        Make a pass, and carry out what it writes.
        """
        self.term.written.clear()
        self.bench.result(self.passes.make(consistent=True))
        ops = [op for group in self.term.written for part in group for op in part]
        if ops:
            self.bench.result(self.bench.api.txn(tuple(ops)))
        return ops

    def placed(self, work: str, member: str) -> None:
        """
        Assign an item, owned by a session that is no more.
        """
        value = Assignment(member, work, item=item(work)).encode()
        self.put(KEYS.assignment(member, work), value)
        self.put(KEYS.owner(work), OwnerRecord(member, "gone").encode())

    def test_by_reports(self) -> None:
        """
        What the members report is read, and items are placed by it.
        """
        self.make()

        self.assertEqual(self.passes.last.operations, 2)
        self.assertEqual(self.passes.last.errors, {})

    def test_lost(self) -> None:
        """
        Items of a member that is gone are kept for it, and that is written down;
        after ``node_recover_timeout`` they are placed anew, and the record goes.
        """
        self.placed("w1", "m9")
        self.make()
        self.assertIn("m9 is gone", self.passes.last.errors["w1"])
        self.assertTrue(self.bench.result(self.bench.api.get(KEYS.lost_member("m9"))))

        self.bench.advance(SETTINGS.node_recover_timeout + 1, step=5.0)
        ops = self.make()
        self.make()

        self.assertIn(Op.delete(KEYS.assignment("m9", "w1")), ops)
        lost = self.bench.result(self.bench.api.get(KEYS.lost_member("m9")))
        self.assertIsNone(lost.entry)

    def test_calm(self) -> None:
        """
        While nothing changes nothing is written: items run, one is kept for a
        member that is gone, one has no room, one cannot be read, and a wish
        cannot be fulfilled.
        """
        for work, value in (
            ("gone", item("gone").encode()),
            ("huge", item("huge", limits={"cpu": 1000, "memory": 1}).encode()),
            ("odd", b'{"limits":3}'),
        ):
            self.put(KEYS.work_item(work), value)
        self.placed("gone", "m9")
        self.make()
        for work in ("w1", "w2"):
            session = self.bench.result(self.bench.api.get(KEYS.member("m1")))
            owner = OwnerRecord("m1", session.entry.session)
            self.put(KEYS.owner(work), owner.encode())
        self.put(KEYS.relocation("w1"), b"m8")
        self.put(KEYS.node_intent("m2"), b"maintenance")

        self.make()
        self.bench.advance(20, step=5.0)

        self.assertEqual(set(self.passes.last.errors), {"gone", "huge", "odd"})
        self.assertEqual(self.make(), [])
        self.assertEqual(len(self.bench.log.of("work-not-moved")), 1)
        self.assertEqual(len(self.bench.log.of("work-kept")), 1)

    def test_moving(self) -> None:
        """
        While a member makes something ready that is known, so that its report is
        waited for.
        """
        self.placed("w1", "m1")
        self.put(KEYS.relocation("w1"), b"m2")
        self.assertFalse(self.passes.moving)

        self.make()

        self.assertTrue(self.passes.moving)
        self.assertEqual(len(self.bench.log.of("work-moves")), 1)

    def test_step_by_step(self) -> None:
        """
        Where planning takes long others have their turn, and nothing is written
        before it is done.
        """
        clock = self.bench.clock

        @implementer(ISteppedPlanner)
        class Slow(ResourcePlanner):
            def steps(self, state: ClusterState) -> Generator[None, None, Plan]:
                clock.rightNow += 1
                yield
                return ResourcePlanner().plan(state)

        self.passes = self.make_passes(Slow())
        making = self.passes.make(consistent=True)
        self.bench.advance(0)
        self.assertEqual(self.term.written, [])

        self.bench.result(making)

        self.assertEqual(len(self.term.written), 1)

    def test_reports_as_before(self) -> None:
        """
        What is reported as it was a pass ago is not read again.
        """
        look = self.bench.result(self.passes.look(consistent=True))
        first = self.passes.state_of(look)
        look = self.bench.result(self.passes.look(consistent=True))
        second = self.passes.state_of(look)

        self.assertEqual(set(second.statuses), {"m1", "m2"})
        self.assertIs(second.statuses["m1"], first.statuses["m1"])

    def test_more_to_do(self) -> None:
        """
        What is left over of a plan is planned at once, in another pass.
        """
        for n in range(PLAN_BUDGET // COST):
            small = item(f"x{n}", limits={"cpu": 0.001, "memory": 0.001})
            self.put(KEYS.work_item(small.id), small.encode())

        self.bench.result(self.passes.make(consistent=True))

        self.assertLessEqual(self.pace.due, self.now())

    def test_more_to_do_later(self) -> None:
        """
        Where nothing of a plan can be done yet the next one waits, as ever.
        """
        for n in range(PLAN_BUDGET // COST + 2):
            small = item(f"x{n}", limits={"cpu": 0.001, "memory": 0.001})
            self.put(KEYS.work_item(small.id), small.encode())
            self.put(KEYS.owner(small.id), OwnerRecord("m9", "gone").encode())
        for work in ("w1", "w2"):
            self.placed(work, "m1")

        self.bench.result(self.passes.make(consistent=True))

        self.assertEqual(self.passes.last.operations, 0)
        self.assertGreater(self.pace.due, self.now())

    def test_regular(self) -> None:
        """
        Otherwise the next one comes after ``sync_interval``.
        """
        began = self.now()
        self.make()

        self.assertGreaterEqual(self.pace.due, began + SETTINGS.sync_interval)
        self.assertLess(self.pace.due, self.now() + SETTINGS.sync_interval)
