"""
Tests for what long-running loops are made of.
"""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord._loops import Tasks, Ticker, Timer, Wake, bounded, sleep
from voltha_coord._types import Steps


class SleepTests(SynchronousTestCase):
    """
    ``sleep``.
    """

    def test_fires_after_its_time(self) -> None:
        """
        It fires when so many seconds have passed.
        """
        clock = Clock()
        slept = sleep(clock, 2.0)
        clock.advance(1.9)
        self.assertNoResult(slept)

        clock.advance(0.1)

        self.successResultOf(slept)

    def test_cancelled_leaves_no_timer(self) -> None:
        """
        Cancelled, it fails and leaves no timer behind.
        """
        clock = Clock()
        slept = sleep(clock, 2.0)

        slept.cancel()

        self.failureResultOf(slept, CancelledError)
        self.assertEqual(clock.getDelayedCalls(), [])


class WakeTests(SynchronousTestCase):
    """
    The latch of a loop.
    """

    def setUp(self) -> None:
        """
        Make one.
        """
        self.clock = Clock()
        self.wake = Wake(self.clock)

    def test_set_while_nobody_waits_is_remembered(self) -> None:
        """
        What happens while the loop is busy is not missed.
        """
        self.wake.set()

        waiting = self.wake.wait()
        self.clock.advance(0)

        self.successResultOf(waiting)

    def test_goes_on_in_a_later_turn(self) -> None:
        """
        Whoever sets it is not interrupted by the loop.
        """
        waiting = self.wake.wait()

        self.wake.set()

        self.assertNoResult(waiting)
        self.clock.advance(0)
        self.successResultOf(waiting)

    def test_is_set_once_for_many_calls(self) -> None:
        """
        Many calls are one awakening.
        """
        waiting = self.wake.wait()
        self.wake.set()
        self.wake.set()
        self.clock.advance(0)
        self.successResultOf(waiting)

        again = self.wake.wait()
        self.clock.advance(1000)

        self.assertNoResult(again)

    def test_set_brings_a_timed_wait_forward(self) -> None:
        """
        Woken, it does not sit out its time, and the timer is gone.
        """
        waiting = self.wake.wait(100.0)

        self.wake.set()
        self.clock.advance(0)

        self.successResultOf(waiting)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_wakes_by_itself_after_its_time(self) -> None:
        """
        Unwoken, it fires when the time is over; a negative one is none.
        """
        waiting = self.wake.wait(3.0)
        self.clock.advance(3.0)
        self.successResultOf(waiting)

        late = self.wake.wait(-1.0)
        self.clock.advance(0)

        self.successResultOf(late)

    def test_cancelled_keeps_what_was_set(self) -> None:
        """
        A wait that is cancelled leaves no timer, and loses no awakening.
        """
        waiting = self.wake.wait()
        self.wake.set()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

        again = self.wake.wait()
        self.clock.advance(0)

        self.successResultOf(again)


class TasksTests(SynchronousTestCase):
    """
    The owner of Deferreds.
    """

    def setUp(self) -> None:
        """
        Make one.
        """
        self.log = RecordingLog()
        self.tasks = Tasks(self.log)

    def test_owns_what_it_began_until_it_ends(self) -> None:
        """
        It counts what is under way.
        """
        one: Deferred[None] = Deferred()
        self.tasks.spawn("one", lambda: one)
        self.assertEqual(len(self.tasks), 1)

        one.callback(None)

        self.assertEqual(len(self.tasks), 0)

    def test_logs_what_fails(self) -> None:
        """
        A failure, raised at once or later, is logged with its task's name.
        """
        later: Deferred[None] = Deferred()
        self.tasks.spawn("at-once", lambda: 1 / 0)
        self.tasks.spawn("later", lambda: later)

        later.errback(ValueError("no"))

        names = [fields["task"] for fields in self.log.of("task-failed", "error")]
        self.assertEqual(names, ["at-once", "later"])

    def test_cancellation_is_no_failure(self) -> None:
        """
        What was cancelled is not logged.
        """
        self.tasks.spawn("one", Deferred)

        self.successResultOf(self.tasks.stop())

        self.assertEqual(self.log.said, [])

    def test_stop_waits_for_what_ends_later(self) -> None:
        """
        A task that cleans up when cancelled is waited for.
        """
        cleaning: Deferred[None] = Deferred()

        @inlineCallbacks
        def task() -> Steps[None]:
            try:
                yield Deferred()
            finally:
                yield cleaning

        self.tasks.spawn("one", task)
        stopped = self.tasks.stop()
        self.assertNoResult(stopped)

        cleaning.callback(None)

        self.successResultOf(stopped)

    def test_begins_nothing_after_stop(self) -> None:
        """
        After a stop nothing is even called; stopping twice is no error.
        """
        self.successResultOf(self.tasks.stop())
        called: list[int] = []

        self.assertIsNone(self.tasks.spawn("late", called.append, 1))

        self.assertEqual(called, [])
        self.successResultOf(self.tasks.stop())

    def test_task_that_stops_its_owner_is_cancelled(self) -> None:
        """
        A task that stops its owner before its first pause does not live on.
        """

        @inlineCallbacks
        def task() -> Steps[None]:
            yield self.tasks.stop()
            yield Deferred()

        self.tasks.spawn("one", task)

        self.assertEqual(len(self.tasks), 0)


class BoundedTests(SynchronousTestCase):
    """
    ``bounded``.
    """

    def setUp(self) -> None:
        """
        Make a clock.
        """
        self.clock = Clock()

    def test_gives_the_result(self) -> None:
        """
        What is done in time counts, and no timer is left.
        """
        done = bounded(self.clock, 1.0, lambda: succeed(5))

        self.assertEqual(self.successResultOf(done), 5)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_gives_the_failure(self) -> None:
        """
        It fails as the call does, raised or returned.
        """
        done = bounded(self.clock, 1.0, lambda: 1 // 0)

        self.failureResultOf(done, ZeroDivisionError)

    def test_cancels_what_takes_too_long(self) -> None:
        """
        When the time is over the call is cancelled, and the wait is too.
        """
        cancelled: list[object] = []
        done = bounded(self.clock, 1.0, lambda: Deferred(cancelled.append))

        self.clock.advance(1.0)

        self.failureResultOf(done, TimeoutError)
        self.assertEqual(len(cancelled), 1)

    def test_does_not_wait_for_what_ignores_cancellation(self) -> None:
        """
        A call that goes on after it was cancelled holds nobody up (G8); what
        becomes of it later disturbs nobody.
        """
        endless: Deferred[None] = Deferred()

        @inlineCallbacks
        def stubborn() -> Steps[None]:
            try:
                yield Deferred()
            except CancelledError:
                yield endless

        done = bounded(self.clock, 1.0, stubborn)
        self.clock.advance(1.0)

        self.failureResultOf(done, TimeoutError)
        endless.errback(ValueError("late"))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_cancelled_cancels_the_call(self) -> None:
        """
        Whoever waits may stop waiting; the call is cancelled, no timer is left.
        """
        cancelled: list[object] = []
        done = bounded(self.clock, 1.0, lambda: Deferred(cancelled.append))

        done.cancel()

        self.failureResultOf(done, CancelledError)
        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class TickerTests(SynchronousTestCase):
    """
    What is begun again and again.
    """

    def setUp(self) -> None:
        """
        Make one.
        """
        self.clock = Clock()
        self.log = RecordingLog()
        self.tasks = Tasks(self.log)
        self.begun: list[float] = []

    def ticker(self, call: object = None) -> Ticker:
        """
        Make one that notes when it begins.
        """

        def begin() -> Deferred[None]:
            self.begun.append(self.clock.seconds())
            if isinstance(call, Exception):
                raise call
            return Deferred()

        return Ticker(self.clock, self.tasks, "tick", begin)

    def test_does_not_wait_for_the_last_one(self) -> None:
        """
        A task that hangs does not keep the next one from beginning.
        """
        ticker = self.ticker()
        ticker.start(1.0)

        self.clock.pump([0.5] * 7)

        self.assertEqual(self.begun, [1.0, 2.0, 3.0])
        self.assertEqual(len(self.tasks), 3)

    def test_survives_any_exception(self) -> None:
        """
        A task that raises is logged, and the next one begins (report 11).
        """
        ticker = self.ticker(ValueError("bug"))
        ticker.start(1.0)

        self.clock.pump([1.0] * 3)

        self.assertEqual(self.begun, [1.0, 2.0, 3.0])
        self.assertEqual(len(self.log.of("task-failed")), 3)

    def test_skips_what_was_missed(self) -> None:
        """
        After a pause it begins one, and not all that were due.
        """
        ticker = self.ticker()
        ticker.start(1.0)
        self.clock.advance(1.0)

        self.clock.advance(9.5)
        self.clock.advance(0.5)

        self.assertEqual(self.begun, [1.0, 10.5, 11.0])

    def test_first(self) -> None:
        """
        The first one may be begun at another time; the others follow it.
        """
        ticker = self.ticker()
        ticker.start(1.0, first=0.25)

        self.clock.pump([0.25] * 10)

        self.assertEqual(self.begun, [0.25, 1.25, 2.25])

    def test_another_pace_before_the_first(self) -> None:
        """
        Its pace may be changed before it has begun any.
        """
        ticker = self.ticker()
        ticker.start(1.0, first=0.5)
        ticker.pace(2.0)

        self.clock.pump([0.5] * 10)

        self.assertEqual(self.begun, [0.5, 2.5, 4.5])

    def test_another_pace(self) -> None:
        """
        Its pace may be changed while it runs.
        """
        ticker = self.ticker()
        ticker.start(1.0)
        self.clock.advance(1.0)

        ticker.pace(5.0)
        self.clock.pump([1.0] * 10)

        self.assertEqual(self.begun[0:2], [1.0, 2.0])
        self.assertEqual(len(self.begun), 4)

    def test_stop(self) -> None:
        """
        Stopped it leaves no timer; twice, or before it was started, is no error.
        """
        ticker = self.ticker()
        ticker.stop()
        for passed in (0.0, 1.5):
            ticker.start(1.0)
            self.clock.advance(passed)

            ticker.stop()
            ticker.stop()

            self.assertEqual(self.clock.getDelayedCalls(), [])


class TimerTests(SynchronousTestCase):
    """
    One timer with an owner.
    """

    def setUp(self) -> None:
        """
        Make one.
        """
        self.clock = Clock()
        self.fired: list[float] = []
        self.timer = Timer(self.clock, lambda: self.fired.append(self.clock.seconds()))

    def test_setting_replaces(self) -> None:
        """
        Setting it again forgets the time set before.
        """
        self.timer.set(1.0)
        self.timer.set(5.0)

        self.clock.pump([1.0] * 6)

        self.assertEqual(self.fired, [5.0])

    def test_cancel(self) -> None:
        """
        Cancelled it does not fire; cancelling twice is no error.
        """
        self.timer.set(1.0)
        self.timer.cancel()
        self.timer.cancel()

        self.clock.advance(5.0)

        self.assertEqual(self.fired, [])

    def test_may_be_set_while_it_fires(self) -> None:
        """
        Its call may set it again; a time that is over is now.
        """
        timer = Timer(self.clock, lambda: self.timer.set(-1.0))
        timer.set(1.0)

        self.clock.advance(1.0)
        self.clock.advance(0)

        self.assertEqual(self.fired, [1.0])
