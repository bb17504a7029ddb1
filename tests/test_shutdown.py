"""
Tests for shutting down: at every stage, in order, within its bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structlog.testing import capture_logs
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord._loops import sleep
from voltha_coord.coordinator import Coordinator
from voltha_coord.interfaces import ILeader
from voltha_coord.records import TermRecord
from voltha_coord.runners.track import TrackRunner
from voltha_coord.settings import Settings
from voltha_coord.shutdown import (
    BRIEF_SECONDS,
    CONSUL_SECONDS,
    LOCAL_SECONDS,
    RESERVED_SECONDS,
    ShutdownSteps,
)

from .support.embedded import ClusterTestCase, writes

#: Without Consul a shutdown is over by then, in seconds.
BOUND = 5.0


class StepsTests(SynchronousTestCase):
    """
    One step after the other.
    """

    def setUp(self) -> None:
        """
        Have a clock, and remember what is logged.
        """
        self.clock = Clock()
        capturing = capture_logs()
        self.logs = capturing.__enter__()
        self.addCleanup(capturing.__exit__, None, None, None)

    def steps(self, answering: bool = True, budget: float = 10.0) -> ShutdownSteps:
        """
        Make the steps.
        """
        import structlog

        return ShutdownSteps(
            self.clock,
            structlog.get_logger(),
            answering=answering,
            leased=lambda: answering,
            budget=budget,
        )

    def took(self, step: Deferred[bool]) -> float:
        """
        Let a step that hangs be given up, and give the seconds that took.
        """
        self.assertNoResult(step)
        began = self.clock.seconds()
        for _ in range(2000):
            if step.called:
                break
            self.clock.advance(0.01)
        self.assertEqual(self.successResultOf(step), False)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        return self.clock.seconds() - began

    def test_done(self) -> None:
        """
        A step that is done says so.
        """
        steps = self.steps()

        for make in (steps.local, steps.consul, steps.work):
            self.assertEqual(self.successResultOf(make("x", lambda: None)), True)
            self.assertEqual(self.successResultOf(make("x", lambda: succeed(1))), True)
        self.assertEqual(self.logs, [])

    def test_fails(self) -> None:
        """
        A step that fails, or raises, is logged by its name; the next ones go on.
        """
        steps = self.steps()

        def raising() -> None:
            raise ValueError("no")

        for call in (raising, lambda: fail(ValueError("no"))):
            self.assertEqual(self.successResultOf(steps.local("it", call)), False)
        self.assertEqual(
            [(one["event"], one["step"], one["error"]) for one in self.logs],
            [("shutdown-step-failed", "it", "no")] * 2,
        )
        self.assertEqual(self.successResultOf(steps.local("next", lambda: None)), True)

    def test_bounds(self) -> None:
        """
        Each kind of step has its bound.
        """
        never: Callable[[], Deferred[None]] = Deferred
        steps = self.steps()

        self.assertAlmostEqual(self.took(steps.local("x", never)), LOCAL_SECONDS, 1)
        self.assertAlmostEqual(self.took(steps.consul("x", never)), CONSUL_SECONDS, 1)

    def test_brief(self) -> None:
        """
        Once Consul has left a step unanswered the next ones are brief, until
        one is answered.
        """
        steps = self.steps()
        self.took(steps.consul("x", Deferred))

        self.assertAlmostEqual(self.took(steps.consul("x", Deferred)), BRIEF_SECONDS, 1)
        self.successResultOf(steps.consul("x", lambda: None))
        self.assertAlmostEqual(
            self.took(steps.consul("x", Deferred)), CONSUL_SECONDS, 1
        )

    def test_work(self) -> None:
        """
        Work has what is left of the budget but for what the steps after it
        need, and never nothing.
        """
        steps = self.steps(budget=7.0)
        self.clock.advance(3.0)
        work = self.took(steps.work("x", Deferred))
        self.assertAlmostEqual(work, 4.0 - RESERVED_SECONDS, 1)
        self.took(steps.consul("x", Deferred))
        self.assertAlmostEqual(self.took(steps.work("x", Deferred)), BRIEF_SECONDS, 1)

    def test_work_without_consul(self) -> None:
        """
        Without Consul the lease ends soon: work has no more than that.
        """
        steps = self.steps(answering=False)

        self.assertLess(self.took(steps.work("x", Deferred)), CONSUL_SECONDS + 0.1)

    def test_cancelled(self) -> None:
        """
        A step that is cancelled from outside ends as such.
        """
        step = self.steps().local("x", Deferred)

        step.cancel()

        self.failureResultOf(step, CancelledError)


@implementer(ILeader)
class StuckLeader:
    """
    Never comes to rest.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator

    def start(self) -> Deferred[None]:
        """
        Never come to an end.
        """
        return Deferred()

    def halt(self) -> Deferred[None]:
        """
        Never come to an end, nor be cancelled.
        """
        return Deferred(lambda d: None if d.called else d.callback(None))


class ShutdownTestCase(ClusterTestCase):
    """
    Can tell what is left behind.
    """

    def shut_down(self, member: Coordinator, bound: float = BOUND) -> float:
        """
        Shut down, and give the seconds that took.
        """
        done = member.shutdown()
        ended: list[float] = []
        done.addCallback(lambda _: ended.append(self.cluster.clock.seconds()))
        began = self.cluster.clock.seconds()
        self.cluster.until(lambda: ended, bound)
        self.assertEqual(member.role, "stopped")
        self.cluster.advance(0.02)
        self.assertEqual(self.cluster.left_behind(member), (0, 0))
        return ended[0] - began

    def in_consul(self) -> tuple[list[str], list[str], list[str]]:
        """
        Give what Consul has of members: held keys, sessions, services.
        """
        consul = self.cluster.consul
        return (
            [entry.key for entry in consul.kv.walk("") if entry.session],
            [session.id for session in consul.sessions.all()],
            [key[1] for key in consul.catalog.services if "voltha" in key[1]],
        )


class StageTests(ShutdownTestCase):
    """
    A shutdown at every stage of a life.
    """

    def test_before_start(self) -> None:
        """
        Before it started there is nothing to be given back, and it never starts.
        """
        a = self.cluster.add("a")

        self.assertLess(self.shut_down(a), 0.1)
        self.cluster.advance(2)

        self.assertEqual(self.in_consul(), ([], [], []))

    def test_any_moment(self) -> None:
        """
        Field report 62: at any moment of the start, with every request on the
        way once, nothing is left behind and it is over at once.
        """
        for number in range(60):
            a = self.cluster.add("a")
            network = self.cluster.network(a)
            network.latency = network.reply_latency = lambda request: 0.02
            self.cluster.advance(number * 0.01)

            self.assertLess(self.shut_down(a), 1.0, number)
            self.cluster.advance(0.1)

            self.assertEqual(self.in_consul(), ([], [], []), number)
            self.cluster.crash(a)

    def test_leading(self) -> None:
        """
        A leader with work gives everything back.
        """
        a = self.lead()
        self.cluster.put_work("x", "y")
        self.cluster.until(lambda: len(a.worker.my_workload) == 2)
        self.cluster.advance(2)

        self.assertLess(self.shut_down(a), 0.5)

        self.assertEqual(self.in_consul(), ([], [], []))
        self.assertEqual(self.cluster.owners(), {})
        entry = self.cluster.entry(self.cluster.keys.term)
        assert entry is not None
        self.assertTrue(TermRecord.from_entry(entry).released)
        self.assertEqual(self.cluster.entry(self.cluster.keys.leader), None)

    def test_following(self) -> None:
        """
        A follower leaves the leader and its key alone.
        """
        a = self.lead("a")
        b = self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        token = a.lease.token

        self.assertLess(self.shut_down(b), 0.5)

        self.assertEqual(a.lease.token, token)
        self.assertEqual(
            [e.key for e in self.cluster.entries(self.cluster.keys.members)],
            [self.cluster.keys.member("a")],
        )

    def test_while_taking_office(self) -> None:
        """
        While the term record is being written, or its reply is lost: nobody
        need wait for a session that has gone.
        """
        for lost in (False, True):
            a = self.cluster.add("a")
            network = self.cluster.network(a)
            met: list[float] = []
            wanted = writes(self.cluster.keys.term)

            def slow(request: Any, met: list[float] = met, w: Any = wanted) -> float:
                if not met and w(request):
                    met.append(1.0)
                    return 0.1
                return 0.0

            network.reply_latency = slow
            self.cluster.until(lambda m=met: m)  # type: ignore[misc]  # a lambda's default
            if lost:
                network.loses_reply = wanted

            self.shut_down(a)
            self.cluster.crash(a)
            b = self.cluster.add("b")
            took = self.cluster.until(lambda m=b: m.is_leader)  # type: ignore[misc]  # a lambda's default

            self.assertLess(took, 16.0 if lost else 1.0)
            self.shut_down(b)
            self.cluster.crash(b)

    def test_while_establishing(self) -> None:
        """
        While its leader is still starting.
        """
        a = self.cluster.add("a", leader_class=StuckLeader)
        self.cluster.until(lambda: a.is_leader)

        self.assertLess(self.shut_down(a), 2.5)

        self.assertEqual(self.in_consul(), ([], [], []))

    def test_consul_hangs(self) -> None:
        """
        V1: without an answer it is over within its bound, at any stage.
        """
        for stage in (0.0, 0.01, 0.1, 1.0, 8.0):
            a = self.cluster.add("a")
            self.cluster.put_work("x")
            self.cluster.advance(stage)
            self.cluster.network(a).partition()

            bound = a.settings.drain_timeout
            self.assertLess(self.shut_down(a, bound), bound, stage)

            self.cluster.crash(a)
            self.cluster.advance(40)

    def test_consul_hung_for_long(self) -> None:
        """
        Once cut off for long it is over even sooner.
        """
        a = self.lead()
        self.cluster.network(a).partition()
        self.cluster.advance(20)

        self.assertLess(self.shut_down(a), 3.0)

    def test_consul_refuses(self) -> None:
        """
        V1: with nobody there it is over at once, from the first connect on.
        """
        for stage in (0.0, 0.01, 3.0):
            a = self.cluster.add("a")
            self.cluster.network(a).refuses = True
            self.cluster.advance(stage)

            self.assertLess(self.shut_down(a), 1.0, stage)
            self.cluster.crash(a)

    def test_consul_has_no_leader(self) -> None:
        """
        Servers without a leader are no reason to stay.
        """
        a = self.lead()
        self.cluster.consul.lose_leader()

        self.assertLess(self.shut_down(a), BOUND)

    def test_denied(self) -> None:
        """
        A token that may do nothing any more is none either.
        """
        a = self.lead()
        self.cluster.consul.deny = lambda *what: True

        self.assertLess(self.shut_down(a), 1.0)

    def test_twice(self) -> None:
        """
        Shutting down again, meanwhile and afterwards, ends with the first.
        """
        a = self.lead()

        first, second = a.shutdown(), a.shutdown()
        self.assertNoResult(second)
        self.cluster.result(first)
        self.successResultOf(second)
        self.successResultOf(a.shutdown())

        self.assertEqual(len(self.logged("shutting-down")), 1)

    def test_cancelled(self) -> None:
        """
        Who does not wait any more does not end the shutdown.
        """
        a = self.lead()
        waiting = a.shutdown()

        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.cluster.advance(1)

        self.assertEqual(a.role, "stopped")
        self.assertEqual(self.in_consul(), ([], [], []))

    def test_asleep(self) -> None:
        """
        A member whose lease ran out in its sleep shuts down as any other.
        """
        a = self.lead()
        self.cluster.pause(a)
        self.cluster.advance(30)
        self.cluster.resume(a)

        self.assertLess(self.shut_down(a), BOUND)

        self.assertEqual(self.in_consul()[:2], ([], []))

    def test_from_within_its_work(self) -> None:
        """
        Work may shut down the very member that is starting it.
        """
        ended: list[object] = []

        class Last(TrackRunner):
            def start_work(self, item: Any, report: Any) -> None:
                a.shutdown().addCallback(ended.append)

        a = self.cluster.add("a", runner=Last())
        self.cluster.put_work("x")

        self.cluster.until(lambda: a.shutting_down)
        took = self.cluster.until(lambda: ended, 8)

        self.assertLess(took, 0.5)
        self.assertEqual(self.logged("shutdown-step-failed"), [])
        self.assertEqual(self.in_consul(), ([], [], []))
        self.assertEqual(self.cluster.owners(), {})

    def test_nothing_goes_on(self) -> None:
        """
        V9: after a shutdown no session and no record is ever made again.
        """
        a = self.lead()
        self.shut_down(a)
        index = self.cluster.consul.index

        self.cluster.advance(60)

        self.assertLess(self.cluster.consul.index - index, 3)
        self.assertEqual(self.in_consul(), ([], [], []))


class OrderTests(ShutdownTestCase):
    """
    What comes before what.
    """

    def test_order(self) -> None:
        """
        V2: the leader is halted and office left, the leader key given back, work
        stopped and released, the member key given back; then the session is
        destroyed, and the service deregistered.
        """
        order: list[str] = []
        clock = self.cluster.clock

        @implementer(ILeader)
        class Saying(StuckLeader):
            def start(self) -> Deferred[None]:
                return succeed(None)

            def halt(self) -> Deferred[None]:
                order.append(f"halt leader, leading {self.coordinator.is_leader}")
                halted = sleep(clock, 0.3)
                return halted.addCallback(lambda _: order.append("leader at rest"))

        class Worker:
            my_workload: frozenset[str] = frozenset()

            def __init__(self, instance_id: str, coordinator: Coordinator) -> None:
                pass

            def start(self) -> None:
                pass

            def halt(self) -> None:
                order.append("halt worker")

        a = self.cluster.add("a", leader_class=Saying, worker_class=Worker)
        self.cluster.until(lambda: a.is_leader)
        self.cluster.advance(1)
        keys = self.cluster.keys

        def see(request: Any) -> float:
            for name, wanted in (
                ("leave office", writes(keys.term)),
                ("free leader key", writes(keys.leader)),
                ("free member key", writes(keys.member("a"))),
            ):
                if wanted(request):
                    order.append(name)
            for part in ("session/destroy", "service/deregister"):
                if part in request.path:
                    order.append(part)
            return 0.0

        self.cluster.network(a).latency = see
        self.shut_down(a)

        self.assertEqual(
            order,
            [
                "halt leader, leading False",
                "leader at rest",
                "leave office",
                "free leader key",
                "free leader key",
                "halt worker",
                "free member key",
                "session/destroy",
                "service/deregister",
            ],
        )

    def test_leads_no_more_at_once(self) -> None:
        """
        From the very call on it leads no more.
        """
        a = self.lead()

        a.shutdown()

        self.assertEqual((a.is_leader, a.lease.token), (False, None))

    def test_leader_hangs(self) -> None:
        """
        Field reports 48, 55: a leader that does not halt holds nobody up.
        """
        a = self.cluster.add("a", leader_class=StuckLeader)
        self.cluster.until(lambda: a.is_leader)
        b = self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)

        self.assertLess(self.shut_down(a), 3.0)

        self.assertLess(self.cluster.until(lambda: b.is_leader, 5), 1.0)

    def test_deposed_leader_hangs(self) -> None:
        """
        Field report 48: so it is at a step-down; the key is free at once, and
        after a while this member may stand again.
        """
        a = self.cluster.add("a", leader_class=StuckLeader)
        self.cluster.until(lambda: a.is_leader)
        self.cluster.advance(2)

        a._election.give_up("test")
        self.cluster.advance(0.1)
        self.assertEqual(self.cluster.entry(self.cluster.keys.leader), None)
        took = self.cluster.until(lambda: a.is_leader, 12)

        self.assertLess(took, 6.0)

    def test_next_leader_at_once(self) -> None:
        """
        V3, field report 140: at an orderly end another leads within a fraction
        of a second; no lock-delay, no TTL is waited.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.advance(2)

        a.shutdown()
        took = self.cluster.until(lambda: b.is_leader, 5)

        self.assertLess(took, 0.3)

    def test_restart(self) -> None:
        """
        V3: one alone that is restarted leads again within a second of its end.
        """
        a = self.lead()
        self.shut_down(a)
        self.cluster.crash(a)

        again = self.cluster.add("a")

        self.assertLess(self.cluster.until(lambda: again.is_leader, 5), 1.0)

    def test_release_fails(self) -> None:
        """
        Field report 54: when giving back fails, the end of the session gives
        back all the same, and it is said.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.network(a).loses_request = lambda r: r.path == "/v1/txn"

        self.assertLess(self.shut_down(a), 8.0)
        self.cluster.until(lambda: b.is_leader, 20)

        self.assertTrue(self.logged("shutdown-step-failed", step="release-leadership"))
        self.assertEqual(len(self.in_consul()[1]), 1)

    def test_says_that_it_leaves(self) -> None:
        """
        A member whose work takes its time to stop says that it leaves: what it
        has is given to others meanwhile, and they wait for it to stop.
        """

        class Slow(TrackRunner):
            def __init__(self) -> None:
                self.stopping: list[Deferred[None]] = []

            def stop_work(self, item: Any) -> Any:
                self.stopping.append(Deferred())
                return self.stopping[-1]

        a, runner = self.lead("a"), Slow()
        b = self.cluster.add("b", runner=runner)
        self.cluster.put_work("x", "y")
        self.cluster.until(lambda: b.worker.my_workload)

        ended = b.shutdown()
        self.cluster.advance(5)
        self.assertEqual(set(self.cluster.assignments()), {"a"})
        self.assertEqual(len(a.worker.my_workload), 1)
        for one in runner.stopping:
            one.callback(None)
        self.cluster.result(ended)
        self.cluster.advance(1)

        self.assertEqual(a.worker.my_workload, {"x", "y"})

    def test_worker_hangs(self) -> None:
        """
        A worker that does not halt is given up when the budget is spent.
        """

        class Stuck:
            my_workload: frozenset[str] = frozenset()

            def __init__(self, instance_id: str, coordinator: Coordinator) -> None:
                pass

            def start(self) -> None:
                pass

            def halt(self) -> Deferred[None]:
                return Deferred()

        settings = Settings(drain_timeout=3.0)
        a = self.cluster.add("a", worker_class=Stuck, settings=settings)
        self.cluster.until(lambda: a.is_leader)

        took = self.shut_down(a)

        self.assertGreater(took, settings.drain_timeout - RESERVED_SECONDS - 0.1)
        self.assertLess(took, settings.drain_timeout)
        self.assertEqual(self.in_consul(), ([], [], []))
