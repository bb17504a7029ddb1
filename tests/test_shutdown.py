"""
Tests for shutting down: at every stage, in order, within its bound.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import structlog
from attrs import evolve
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
    DRAIN_SHARE,
    LEAST_SECONDS,
    LOCAL_SECONDS,
    PRESS_SHARE,
    RESERVED_SECONDS,
    Kind,
    Shutdown,
    Step,
)

from .support.embedded import ClusterTestCase, writes
from .support.working import KillingRunner

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
        self.remaining = 3.0
        self.ended: list[float] = []
        capturing = capture_logs()
        self.logs = capturing.__enter__()
        self.addCleanup(capturing.__exit__, None, None, None)

    def shut_down(
        self, *steps: Step, answering: bool = True, budget: float = 10.0
    ) -> list[float]:
        """
        Make steps, and give the seconds after which each ended.
        """
        began: list[float] = []

        def timed(step: Step) -> Step:
            def needed() -> Any:
                began.append(self.clock.seconds())
                return step.needed()

            return evolve(step, needed=needed)

        self.shutdown = Shutdown(
            self.clock,
            structlog.get_logger(),
            budget=budget,
            at_once=lambda: None,
            steps=lambda: map(timed, steps),
            ended=lambda: self.ended.append(self.clock.seconds()),
            answering=lambda: answering,
            lease_remaining=lambda: self.remaining,
        )
        over = self.shutdown.ask()
        for _ in range(4000):
            if over.called:
                break
            self.clock.advance(0.01)
        self.successResultOf(over)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        times = [*began, self.clock.seconds()]
        return [round(after - before, 1) for before, after in pairwise(times)]

    def failed(self) -> list[tuple[str, str, str]]:
        """
        Give what was said of steps that failed.
        """
        return [
            (one["log_level"], one["step"], one["error"])
            for one in self.logs
            if one["event"] == "shutdown-step-failed"
        ]

    def test_in_order(self) -> None:
        """
        The steps are made in order, each once the one before has ended, and
        those alone that are needed when their turn comes.
        """
        made: list[str] = []
        there = [1]

        def make(name: str, kind: Kind, needed: Callable[[], Any]) -> Step:
            def call() -> Deferred[None]:
                made.append(f"{name} begins")
                there.clear()
                done = sleep(self.clock, 0.2)
                return done.addCallback(lambda _: made.append(f"{name} ends"))

            return Step(kind, name, call, needed)

        self.shut_down(
            make("a", Kind.LOCAL, lambda: True),
            make("b", Kind.CONSUL, lambda: there),
            make("c", Kind.WORK, lambda: not there),
        )

        self.assertEqual(made, ["a begins", "a ends", "c begins", "c ends"])
        self.assertEqual(self.failed(), [])
        self.assertEqual(len(self.ended), 1)

    def test_fails(self) -> None:
        """
        A step that fails, raises, is cancelled by itself or cannot say whether
        it is needed is logged by its name; the next ones are made.
        """
        made: list[int] = []

        def raising() -> None:
            raise ValueError("no")

        for kind in Kind:
            self.shut_down(
                Step(kind, "raises", raising),
                Step(kind, "fails", lambda: fail(ValueError("no"))),
                Step(kind, "is-cancelled", lambda: fail(CancelledError())),
                Step(kind, "knows-not", lambda: None, raising),
                Step(Kind.LOCAL, "next", lambda: made.append(1)),
            )

        levels = [level for level, _, _ in self.failed()]
        self.assertEqual(
            [what for _, *what in self.failed()],
            [
                ["raises", "no"],
                ["fails", "no"],
                ["is-cancelled", "CancelledError"],
                ["knows-not", "no"],
            ]
            * len(Kind),
        )
        self.assertEqual(made, [1] * len(Kind))
        # After the first, that Consul does not do what it is asked is known.
        self.assertEqual(levels, [*["warning"] * 5, *["info"] * 3, *["warning"] * 4])

    def test_steps_fail(self) -> None:
        """
        When the steps cannot even be told it is over all the same.
        """

        def no_steps() -> list[Step]:
            raise ValueError("none")

        shutdown = Shutdown(
            self.clock,
            structlog.get_logger(),
            budget=1.0,
            at_once=lambda: None,
            steps=no_steps,
            ended=lambda: None,
            answering=lambda: True,
            lease_remaining=lambda: 3.0,
        )
        over = shutdown.ask()
        self.clock.advance(0)

        self.successResultOf(over)

        self.assertIn("shutdown-failed", [one["event"] for one in self.logs])

    def test_bounds(self) -> None:
        """
        Each kind of step has its bound.
        """
        took = self.shut_down(
            Step(Kind.LOCAL, "x", Deferred),
            Step(Kind.CONSUL, "x", Deferred),
            Step(Kind.WORK, "x", Deferred),
            budget=7.0,
        )
        self.assertEqual(took[:2], [LOCAL_SECONDS, CONSUL_SECONDS])

        took = self.shut_down(Step(Kind.WORK, "x", Deferred), budget=7.0)

        self.assertEqual(took, [7.0 - RESERVED_SECONDS])

    def test_brief(self) -> None:
        """
        Once Consul has left a step unanswered the next ones are brief, until
        one is answered.
        """
        hangs = Step(Kind.CONSUL, "x", Deferred)
        answers = Step(Kind.CONSUL, "x", lambda: None)

        took = self.shut_down(hangs, hangs, answers, hangs)

        self.assertEqual(took, [CONSUL_SECONDS, BRIEF_SECONDS, 0.0, CONSUL_SECONDS])

    def test_not_needed_says_nothing(self) -> None:
        """
        A step that is not needed says nothing about Consul.
        """
        hangs = Step(Kind.CONSUL, "x", Deferred)
        spared = Step(Kind.CONSUL, "x", lambda: None, lambda: False)

        took = self.shut_down(hangs, spared, hangs)

        self.assertEqual(took, [CONSUL_SECONDS, 0.0, BRIEF_SECONDS])

    def test_budget(self) -> None:
        """
        When the budget is used up no step is given more than a moment.
        """
        hangs = [Step(kind, "x", Deferred) for kind in (*Kind, *Kind)]

        took = self.shut_down(*hangs, budget=3.0)

        self.assertEqual(
            took,
            [
                LOCAL_SECONDS,
                CONSUL_SECONDS,
                BRIEF_SECONDS,
                LEAST_SECONDS,
                BRIEF_SECONDS,
                BRIEF_SECONDS,
            ],
        )

    def test_work_without_consul(self) -> None:
        """
        Without a lease others may begin, and where Consul does not answer it
        ends: work has no more than that, and a moment.
        """
        for remaining, answering in ((0.0, True), (0.0, False), (2.5, False)):
            self.remaining = remaining

            took = self.shut_down(Step(Kind.WORK, "x", Deferred), answering=answering)

            self.assertEqual(took, [remaining + CONSUL_SECONDS])

    def test_pressed(self) -> None:
        """
        A step that does not end is pressed when most of its time is over, one that
        has ended is not; that it cannot be pressed is said, and the rest goes on.
        """
        pressed: list[float] = []
        hanging: Deferred[None] = Deferred()

        def press() -> None:
            pressed.append(round(self.clock.seconds(), 1))
            hanging.callback(None)

        def fails() -> None:
            raise ValueError("no")

        took = self.shut_down(
            Step(Kind.WORK, "x", lambda: None, press=press),
            Step(Kind.WORK, "x", lambda: hanging, press=press),
            Step(Kind.CONSUL, "y", Deferred, press=fails),
            budget=5.5,
        )

        self.assertEqual(pressed, [PRESS_SHARE * (5.5 - RESERVED_SECONDS)])
        self.assertEqual(took[:2], [0.0, pressed[0]])
        said = [one for one in self.logs if one["event"] == "shutdown-step-not-pressed"]
        self.assertEqual([(one["step"], one["error"]) for one in said], [("y", "no")])

    def test_time_to_drain(self) -> None:
        """
        To be moved away work has a part of what is left, so that the rest
        suffices to stop it and for the steps after that; never less than none.
        """
        left: list[float] = []

        def look() -> None:
            left.append(self.shutdown.drain_seconds)

        slow = Step(Kind.WORK, "x", lambda: sleep(self.clock, 4.0))
        self.shut_down(
            Step(Kind.LOCAL, "x", look), slow, slow, Step(Kind.LOCAL, "x", look)
        )

        self.assertAlmostEqual(left[0], DRAIN_SHARE * (10.0 - RESERVED_SECONDS), 1)
        self.assertAlmostEqual(left[1], DRAIN_SHARE * (2.0 - RESERVED_SECONDS), 1)

    def test_asked_twice(self) -> None:
        """
        Who asks again waits for the same end, and who asks later need not wait.
        """
        self.shut_down(Step(Kind.LOCAL, "x", lambda: sleep(self.clock, 0.1)))

        self.successResultOf(self.shutdown.ask())

        self.assertEqual(len(self.ended), 1)


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
        stopped and released, the member key given back; then the session is destroyed,
        and the service deregistered (field report 123).
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
                # Lest it was handed to us meanwhile.
                "free leader key",
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

        a.election.give_up("test")
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

    def test_work_that_does_not_stop(self) -> None:
        """
        Work that does not stop is killed before the time is over, and given back.
        """
        runner = KillingRunner()
        runner.stops["x"] = Deferred()
        settings = Settings(drain_timeout=3.0)
        a = self.cluster.add("a", runner=runner, settings=settings)
        self.cluster.until(lambda: a.is_leader)
        self.cluster.put_work("x")
        self.cluster.until(lambda: "x" in a.worker.my_workload)

        took = self.shut_down(a)

        self.assertEqual(runner.calls[-1], ("kill", "x"))
        self.assertLess(took, settings.drain_timeout - RESERVED_SECONDS)
        self.assertEqual(self.in_consul(), ([], [], []))
        self.assertIsNone(self.cluster.entry(a.keys.owner("x")))

    def test_everything_hangs(self) -> None:
        """
        G8: if each of a member's steps hangs, that takes its budget and no more
        than three seconds beside it.
        """
        steps = [
            evolve(s, call=Deferred, needed=lambda: True)
            for s in self.lead()._last_steps()
        ]
        budget = Settings().drain_timeout
        clock = Clock()
        ended: list[float] = []
        shutdown = Shutdown(
            clock,
            structlog.get_logger(),
            budget=budget,
            at_once=lambda: None,
            steps=lambda: steps,
            ended=lambda: ended.append(clock.seconds()),
            answering=lambda: True,
            lease_remaining=lambda: 3.0,
        )

        shutdown.ask()
        clock.pump([0.05] * 600)

        (took,) = ended
        self.assertTrue(budget < took < budget + 3.0, took)
