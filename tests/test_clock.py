"""
Time that no step of the wall clock fools.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as threads
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.internet.task import Clock, LoopingCall, deferLater
from twisted.trial.unittest import SkipTest, SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from voltha_coord.clock import STEP_SECONDS, SteadyReactor, StepWatch, boot_time

ROOT = Path(__file__).resolve().parent.parent

DAY = 86_400


class SteppingReactor(Clock):
    """
    A reactor on a wall clock that can be set, beside true time.

    Like a real reactor it fires what is due by its own clock.

    :ivar true: seconds that no setting of the clock touches.
    """

    def __init__(self) -> None:
        super().__init__()
        self.true = 0.0

    def pass_time(self, seconds: float) -> None:
        """
        Let time go by, in small moves, so that re-armed timers are seen.
        """
        moves = 100
        for _ in range(moves):
            self.true += seconds / moves
            self.advance(seconds / moves)

    def step(self, seconds: float) -> None:
        """
        Set the wall clock ahead or back; what became due fires.
        """
        self.rightNow += seconds
        self.advance(0)


class SteadyReactorTestCase(SynchronousTestCase):
    """
    A steady reactor over one whose clock steps.
    """

    def setUp(self) -> None:
        """
        Make both, and lists of what was called and which steps were seen.
        """
        self.under = SteppingReactor()
        self.under.rightNow = 1_000_000.0
        self.steps: list[float] = []
        self.steady = SteadyReactor(
            self.under, lambda: self.under.true, self.steps.append
        )
        self.called: list[float] = []

    def tearDown(self) -> None:
        """
        Nothing is left waiting, here or below.
        """
        self.assertEqual(list(self.steady.getDelayedCalls()), [])
        self.assertEqual(self.under.getDelayedCalls(), [])

    def call(self, *tags: object, kind: str = "") -> None:
        """
        Note when this was called.
        """
        self.called.append(round(self.under.true, 6))


class SteadyTimeTests(SteadyReactorTestCase):
    """
    Without steps it is a reactor's clock like any other.
    """

    def test_provides_reactor_time(self) -> None:
        """
        It can stand wherever ``IReactorTime`` is asked for.
        """
        self.assertTrue(verifyObject(IReactorTime, self.steady))

    def test_seconds(self) -> None:
        """
        Its time is the lease clock's, not the reactor's.
        """
        self.under.pass_time(2)

        self.assertAlmostEqual(self.steady.seconds(), 2)

    def test_without_a_clock_of_its_own(self) -> None:
        """
        Over a reactor whose clock is steady it takes that one.
        """
        clock = Clock()
        steady = SteadyReactor(clock)
        steady.callLater(1, self.call)
        clock.advance(1)

        self.assertEqual(steady.seconds(), 1)
        self.assertEqual(len(self.called), 1)

    def test_calls_with_arguments(self) -> None:
        """
        Arguments reach what is called.
        """
        got: list[object] = []
        self.steady.callLater(1, lambda *a, **k: got.extend([a, k]), 1, 2, x=3)
        self.under.pass_time(2)

        self.assertEqual(got, [(1, 2), {"x": 3}])

    def test_negative_delay(self) -> None:
        """
        What should have been called already is refused, as by every reactor.
        """
        self.assertRaises(AssertionError, self.steady.callLater, -1, self.call)

    def test_delayed_calls(self) -> None:
        """
        What waits is listed until it was called.
        """
        call = self.steady.callLater(1, self.call)

        self.assertEqual(list(self.steady.getDelayedCalls()), [call])
        self.under.pass_time(1.1)
        self.assertEqual(list(self.steady.getDelayedCalls()), [])

    def test_call_from_a_call(self) -> None:
        """
        What is called may schedule again.
        """
        self.steady.callLater(1, lambda: self.steady.callLater(1, self.call))
        self.under.pass_time(2.2)

        self.assertEqual(len(self.called), 1)

    def test_an_error_ends_nothing_else(self) -> None:
        """
        A call that raises is over; others are still called.
        """

        def fail() -> None:
            raise ZeroDivisionError

        self.steady.callLater(1, fail)
        self.steady.callLater(2, self.call)
        self.assertRaises(ZeroDivisionError, self.under.pass_time, 1.1)
        self.under.pass_time(2)

        self.assertEqual(len(self.called), 1)


class StepTests(SteadyReactorTestCase):
    """
    The wall clock is set while timers wait.
    """

    def test_step_ahead_fires_nothing_early(self) -> None:
        """
        A step ahead, unnoticed, makes the reactor fire early; the timer waits
        on and is called in its time.
        """
        self.steady.callLater(10, self.call)
        self.under.pass_time(1)
        self.under.step(3600)

        self.assertEqual(self.called, [])
        self.under.pass_time(9.1)
        self.assertEqual(len(self.called), 1)
        self.assertApproximates(self.called[0], 10, 0.1)

    def test_step_back_is_made_good_by_resync(self) -> None:
        """
        After a step back, the first look at the clocks arms the timers again;
        they are called in their time.
        """
        self.steady.callLater(10, self.call)
        self.under.pass_time(1)
        self.under.step(-3600)
        self.steady.resync()
        self.under.pass_time(9.2)

        self.assertEqual(len(self.called), 1)
        self.assertApproximates(self.called[0], 10, 0.1)

    def test_step_back_without_resync_is_late(self) -> None:
        """
        Why looking is needed: the reactor alone holds the timer back.
        """
        call = self.steady.callLater(10, self.call)
        self.under.step(-3600)
        self.under.pass_time(20)

        self.assertEqual(self.called, [])
        call.cancel()

    def test_overdue_after_a_step_back(self) -> None:
        """
        What became overdue is called as soon as the step is noticed.
        """
        self.steady.callLater(10, self.call)
        self.under.step(-3600)
        self.under.pass_time(20)
        self.steady.resync()
        self.under.advance(0)

        self.assertEqual(self.called, [20.0])

    def test_steps_are_told(self) -> None:
        """
        Each step is told once, with its sign.
        """
        self.under.step(60)
        self.steady.resync()
        self.steady.resync()
        self.under.step(-30)
        self.steady.resync()

        self.assertEqual([round(s, 6) for s in self.steps], [60, -30])

    def test_machine_sleep_is_a_step_back(self) -> None:
        """
        Time that only the lease clock saw counts: what is overdue is called
        when the clocks are compared (Note [Machine sleep]).
        """
        self.steady.callLater(10, self.call)
        self.under.true += 60
        self.steady.resync()
        self.under.advance(0)

        self.assertEqual(self.called, [60.0])
        self.assertEqual([round(s, 6) for s in self.steps], [-60])

    def test_small_differences_are_no_step(self) -> None:
        """
        A clock that is slewed is no clock that stepped.
        """
        self.under.step(STEP_SECONDS * 0.9)
        self.steady.resync()

        self.assertEqual(self.steps, [])

    def test_slewing_adds_up(self) -> None:
        """
        Many small differences are noticed once they add up to a step.
        """
        for _ in range(3):
            self.under.step(STEP_SECONDS * 0.4)
            self.steady.resync()

        self.assertEqual(len(self.steps), 1)


class DelayedCallTests(SteadyReactorTestCase):
    """
    A timer can be moved and taken back, and says so when it cannot.
    """

    def test_cancel(self) -> None:
        """
        What was cancelled is not called.
        """
        call = self.steady.callLater(1, self.call)
        call.cancel()
        self.under.pass_time(2)

        self.assertFalse(call.active())
        self.assertEqual(self.called, [])

    def test_reset(self) -> None:
        """
        A reset counts from now.
        """
        call = self.steady.callLater(5, self.call)
        self.under.pass_time(4)
        call.reset(5)

        self.assertAlmostEqual(call.getTime(), 9)
        self.under.pass_time(4.9)
        self.assertEqual(self.called, [])
        self.under.pass_time(0.2)
        self.assertEqual(len(self.called), 1)

    def test_reset_to_earlier(self) -> None:
        """
        A reset may also bring a timer forward.
        """
        self.steady.callLater(50, self.call).reset(1)
        self.under.pass_time(1.1)

        self.assertEqual(len(self.called), 1)

    def test_delay(self) -> None:
        """
        A delay adds to when it was due.
        """
        call = self.steady.callLater(5, self.call)
        self.under.pass_time(4)
        call.delay(5)

        self.assertAlmostEqual(call.getTime(), 10)
        self.under.pass_time(6.1)
        self.assertEqual(len(self.called), 1)

    def test_over_after_the_call(self) -> None:
        """
        A timer that was called can be neither cancelled nor called again.
        """
        call = self.steady.callLater(1, self.call)
        self.under.pass_time(1.1)

        self.assertRaises(AlreadyCalled, call.cancel)
        self.assertRaises(AlreadyCalled, call.reset, 1)
        self.assertRaises(AlreadyCalled, call.delay, 1)
        self.under.pass_time(2)
        self.assertEqual(len(self.called), 1)

    def test_over_after_cancel(self) -> None:
        """
        A timer that was cancelled does not come back.
        """
        call = self.steady.callLater(1, self.call)
        call.cancel()

        self.assertRaises(AlreadyCancelled, call.cancel)
        self.assertRaises(AlreadyCancelled, call.reset, 1)
        self.assertRaises(AlreadyCancelled, call.delay, 1)

    def test_not_active_while_called(self) -> None:
        """
        While it is being called a timer counts as called.
        """
        seen: list[bool] = []
        call = self.steady.callLater(1, lambda: seen.append(call.active()))
        self.under.pass_time(1.1)

        self.assertEqual(seen, [False])

    def test_cancel_after_early_firing(self) -> None:
        """
        A timer that the reactor fired too early can still be cancelled.
        """
        call = self.steady.callLater(10, self.call)
        self.under.step(3600)
        call.cancel()
        self.under.pass_time(11)

        self.assertEqual(self.called, [])


class TwistedUsesTests(SteadyReactorTestCase):
    """
    Twisted's own tools run on it.
    """

    def test_looping_call(self) -> None:
        """
        A LoopingCall keeps its period over steps both ways.
        """
        loop = LoopingCall(self.call)
        loop.clock = self.steady
        done = loop.start(3)
        self.under.pass_time(7)
        self.under.step(1000)
        self.steady.resync()
        self.under.pass_time(6)
        self.under.step(-1000)
        self.steady.resync()
        self.under.pass_time(6)
        loop.stop()

        self.successResultOf(done)
        self.assertEqual(len(self.called), 7)
        for number, when in enumerate(self.called):
            self.assertApproximates(when, 3 * number, 0.1)

    def test_defer_later(self) -> None:
        """
        A cancelled ``deferLater`` leaves no timer.
        """
        waiting: Deferred[None] = deferLater(self.steady, 5)
        waiting.addErrback(lambda failure: None)
        waiting.cancel()

        self.assertEqual(list(self.steady.getDelayedCalls()), [])

    def test_timeout(self) -> None:
        """
        A timeout of a Deferred runs on the lease clock.
        """
        waiting: Deferred[None] = deferLater(self.steady, 50)
        waiting.addTimeout(5, self.steady)
        self.under.step(3600)
        self.assertNoResult(waiting)
        self.under.pass_time(5.1)

        self.failureResultOf(waiting)


class Offsets:
    """
    A wall clock that is ahead of another by one amount after the other, one a
    look; then by the last.

    :ivar seen: set once the last amount was.
    """

    def __init__(self, *ahead: float) -> None:
        self._ahead = list(ahead)
        self.seen = Event()

    def __call__(self) -> float:
        """
        Give the wall clock; the other one stands still.
        """
        if len(self._ahead) > 1:
            return self._ahead.pop(0)
        self.seen.set()
        return self._ahead[0]


@implementer(IReactorFromThreads)
class ThreadedReactor(SteppingReactor):
    """
    One that takes calls from threads.

    :ivar taken: what it was called with.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Any] = []

    def callFromThread(self, callable: Any, *args: Any, **kw: Any) -> None:  # noqa: N802 (Twisted's name)
        """
        Note a call, and make none.
        """
        self.taken.append(callable)


class StepWatchTests(SynchronousTestCase):
    """
    The thread that notices steps.
    """

    def steps(self, *ahead: float) -> int:
        """
        Count the steps that are noticed.
        """
        noticed: list[None] = []
        wall = Offsets(*ahead, ahead[-1])
        watch = StepWatch(lambda: noticed.append(None), wall, lambda: 0.0, 0.001)
        watch.start()
        self.assertTrue(wall.seen.wait(10.0))
        watch.stop()
        return len(noticed)

    def running(self) -> set[Thread]:
        """
        Give the threads that run; those of other tests may be about to end.
        """
        return {thread for thread in threads() if thread.name == "wall-clock"}

    def test_steps(self) -> None:
        """
        A step in either direction is noticed, once.
        """
        self.assertEqual(self.steps(0.0, 0.0, 3600.0, 3600.0, 3600.0), 1)
        self.assertEqual(self.steps(0.0, -3600.0, -3600.0, 0.0), 2)

    def test_slewing_is_no_step(self) -> None:
        """
        A clock that is set right little by little is left alone.
        """
        self.assertEqual(self.steps(*(0.1 * number for number in range(50))), 0)

    def test_ends(self) -> None:
        """
        Stopped before or after its start, it leaves no thread.
        """
        before = self.running()
        stopped, started = (
            StepWatch(lambda: None, interval=interval) for interval in (60.0, 60.0)
        )
        stopped.stop()
        stopped.start()
        started.start()
        started.stop()
        for thread in self.running() - before:
            thread.join(10.0)

        self.assertEqual(self.running() - before, set())

    def test_on_the_wall_clock(self) -> None:
        """
        Beside a reactor on the wall clock there is one; it is ended with it.
        """
        reactor = ThreadedReactor()
        reactor.rightNow = time.time()
        steady = SteadyReactor(reactor, lambda: 0.0)
        before = self.running()
        steady.watch()
        (started,) = self.running() - before

        steady.unwatch()
        steady.unwatch()

        started.join(10.0)
        self.assertFalse(started.is_alive())

    def test_wakes_the_reactor(self) -> None:
        """
        What the thread notices has the reactor's timers set anew, in the
        reactor's own thread.
        """
        reactor = ThreadedReactor()
        reactor.rightNow = time.time()
        steady = SteadyReactor(reactor, lambda: 0.0)
        told: list[Callable[[], object]] = []

        def make(stepped: Callable[[], object]) -> StepWatch:
            told.append(stepped)
            return StepWatch(stepped, interval=60.0)

        steady.watch(make)
        told[0]()
        steady.unwatch()

        self.assertEqual(reactor.taken, [steady.resync])

    def test_on_a_steady_clock(self) -> None:
        """
        Where nobody can set the reactor's clock, or no thread can reach it, there
        is none.
        """
        monotonic = ThreadedReactor()
        pure = SteppingReactor()
        pure.rightNow = time.time()
        before = self.running()
        for reactor in (monotonic, pure):
            SteadyReactor(reactor, lambda: 0.0).watch()

        self.assertEqual(self.running() - before, set())


class BootTimeTests(SynchronousTestCase):
    """
    The clock a lease is measured on.
    """

    def test_goes_on(self) -> None:
        """
        It never goes back.
        """
        before = boot_time()

        self.assertGreaterEqual(boot_time(), before)

    def test_not_behind_the_monotonic_clock(self) -> None:
        """
        It has seen at least the time the monotonic clock has.
        """
        monotonic = time.monotonic()

        self.assertGreaterEqual(boot_time(), monotonic)

    def test_goes_on_in_sleep(self) -> None:
        """
        On a machine that has slept for a day it is a day ahead of the monotonic
        clock, which stands still in sleep.
        """
        code = (
            "import time; from voltha_coord.clock import boot_time; "
            "print(boot_time() - time.monotonic())"
        )
        slept = ["unshare", "--time", "--boottime", str(DAY), "--fork"]
        try:
            told = subprocess.run(
                [*slept, sys.executable, "-c", code],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise SkipTest(f"no clock of its own may be given: {error}") from error

        self.assertGreater(float(told), DAY - 1.0)
