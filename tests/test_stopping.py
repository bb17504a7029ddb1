"""
Tests for :mod:`voltha_coord.stopping`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from tests.support.running import RunningCase, deaf
from tests.support.working import StringRunner
from voltha_coord.item import RUNNING, STOPPING, WAITING, Item
from voltha_coord.ownership import REPORT_BYTES
from voltha_coord.settings import RETRY_STEPS


class StoppingTests(RunningCase):
    """
    Items that are stopped.
    """

    def test_stop(self) -> None:
        """
        An item counts as running until its stop has finished; then its report
        is asked for.
        """
        stopping: Deferred[None] = Deferred()
        self.runner.stops["w1"] = stopping
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")

        self.stop(item)

        self.assertEqual((item.state, self.items.workload), (STOPPING, {"w1"}))
        self.assertEqual(self.runner.asked("report"), [])
        stopping.callback(None)
        self.assertEqual(self.items.items, {})
        self.assertEqual((self.stopped, item.handover), ([item], b"state"))

    def test_stopped_once(self) -> None:
        """
        An item that is stopping is not stopped again; it is released only if
        that was always meant.
        """
        self.runner.stops["w1"] = Deferred()
        item = self.start("w1")

        self.stop(item)
        self.stop(item, release=False)
        self.stop(item)

        self.assertEqual(self.runner.asked("stop"), ["w1"])
        self.assertFalse(item.release)

    def test_kept_item_reports_nothing(self) -> None:
        """
        An item that stays ours hands nothing over.
        """
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")

        self.stop(item, release=False)

        self.assertEqual((self.runner.asked("report"), item.handover), ([], None))

    def test_stop_while_starting(self) -> None:
        """
        A start that has not finished is cancelled by a stop, and is no failure.
        """
        cancelled: list[object] = []
        self.runner.starts["w1"] = Deferred(cancelled.append)
        item = self.start("w1")

        self.stop(item)

        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.runner.calls[:2], [("start", "w1"), ("stop", "w1")])
        self.assertEqual((self.stopped, item.error), ([item], ""))
        self.assertEqual(self.logs, [])

    def test_start_that_fails_when_cancelled(self) -> None:
        """
        Nor is one that fails in its own way when it is cancelled.
        """
        self.runner.starts["w1"] = Deferred(lambda d: d.errback(ValueError("bad")))
        item = self.start("w1")

        self.stop(item)

        self.assertEqual((self.stopped, self.logs), ([item], []))

    def test_start_that_ends_well_when_cancelled(self) -> None:
        """
        A start that a stop cannot cancel, and that ends well, does not make a
        stopping item a running one.
        """
        self.runner.starts["w1"] = Deferred(lambda d: d.callback(None))
        self.runner.stops["w1"] = Deferred()
        item = self.start("w1")

        self.stop(item)

        self.assertEqual(item.state, STOPPING)

    def test_start_that_goes_on(self) -> None:
        """
        A start that goes on although it was cancelled may yet bring the item
        up: it has stopped only when that start has ended, and it was stopped
        once more.
        """
        until: Deferred[None] = Deferred()
        self.runner.starts["w1"] = lambda: deaf(until)
        item = self.start("w1")
        self.stop(item)
        before = list(self.runner.calls), self.items.workload, item.trouble
        until.callback(None)

        self.assertEqual(before[0], [("start", "w1"), ("stop", "w1")])
        self.assertEqual(before[1], {"w1"})
        self.assertIn("goes on although it was cancelled", before[2])
        self.assertEqual(self.runner.asked("stop"), ["w1", "w1"])
        self.assertEqual(self.stopped, [item])

    def test_failing_stop(self) -> None:
        """
        A stop that fails is said, and tried again with a back-off: the item may
        still run.
        """
        for failing in (ValueError("bad"), lambda: 1 / 0, CancelledError()):
            with self.subTest(failing=failing):
                self.stopped.clear()
                self.runner.stops["w1"] = failing
                self.runner.reports["w1"] = b"state"
                item = self.start("w1")
                self.stop(item)
                before = (item.state, self.items.workload, bool(item.trouble))
                tried = len(self.runner.asked("stop"))
                self.runner.stops.clear()
                self.clock.advance(RETRY_STEPS[0])

                self.assertEqual(before, (STOPPING, {"w1"}, True))
                self.assertEqual((self.stopped, item.handover), ([item], b"state"))
                self.assertEqual(len(self.runner.asked("stop")), tried + 1)
        self.assertEqual(len(self.events("work-not-stopped")), 3)

    def test_bad_reports(self) -> None:
        """
        A report that fails, is no bytes, or is too large hands over nothing.
        """
        for bad in (ValueError("bad"), lambda: "text", b"x" * (REPORT_BYTES + 1)):
            self.runner.reports["w1"] = bad
            item = self.start("w1")

            self.stop(item)

            self.assertIsNone(item.handover)
        self.assertEqual(len(self.stopped), 3)
        self.assertEqual(len(self.events("nothing-handed-over")), 3)

    def test_report_that_never_ends(self) -> None:
        """
        A report that never ends hands over nothing after ``work_timeout``.
        """
        for never in (lambda: Deferred(), lambda: deaf(Deferred())):
            self.stopped.clear()
            self.runner.reports["w1"] = never
            item = self.start("w1")
            self.stop(item)
            self.clock.advance(self.settings.work_timeout - 1)
            before = list(self.stopped)
            self.clock.advance(1)

            self.assertEqual((before, self.stopped), ([], [item]))
            self.assertIsNone(item.handover)

    def test_gives_no_timer_away(self) -> None:
        """
        When an item has stopped no timer is left.
        """
        self.runner.stops["w1"] = ValueError("bad")
        item = self.start("w1")
        self.stop(item)
        self.runner.stops.clear()
        self.clock.advance(RETRY_STEPS[0])

        self.assertEqual(self.clock.getDelayedCalls(), [])


class KillingTests(RunningCase):
    """
    Items that do not stop.
    """

    def setUp(self) -> None:
        """
        Begin with an item whose stop never ends.
        """
        super().setUp()
        self.stops: list[Deferred[Any]] = []
        self.runner.stops["w1"] = lambda: self.never()
        self.item1 = self.start("w1")

    def never(self) -> Deferred[Any]:
        """
        Give a Deferred that never fires of itself.
        """
        self.stops.append(Deferred())
        return self.stops[-1]

    def pass_stop_timeout(self) -> None:
        """
        Let ``stop_timeout`` pass.
        """
        self.clock.advance(self.settings.stop_timeout)

    def kill(self) -> None:
        """
        Kill the item, as is done when the lease ends.
        """
        assert self.item1.stopping is not None
        self.item1.stopping.kill()

    def test_killed(self) -> None:
        """
        An item whose stop takes longer than ``stop_timeout`` is killed, and has
        stopped then; it hands over nothing.
        """
        self.runner.reports["w1"] = b"state"
        self.stop(self.item1)
        self.clock.advance(self.settings.stop_timeout - 0.1)
        before = self.runner.asked("kill")
        self.clock.advance(0.2)

        self.assertEqual((before, self.runner.asked("kill")), ([], ["w1"]))
        self.assertEqual((self.stopped, self.item1.handover), ([self.item1], None))
        self.assertEqual(self.runner.asked("report"), [])
        self.assertEqual(len(self.events("work-killed")), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_killed_while_its_stop_goes_on(self) -> None:
        """
        A stop that goes on after the item was killed is waited for no more.
        """
        self.runner.stops["w1"] = lambda: deaf(Deferred())
        self.stop(self.item1)
        self.pass_stop_timeout()

        self.assertEqual(self.stopped, [self.item1])

    def test_back_while_its_stop_goes_on(self) -> None:
        """
        Should it come back, it is not started before that stop has ended, which
        might be taken for its own; it says so, and other items start.
        """
        until: Deferred[None] = Deferred()
        self.runner.stops["w1"] = lambda: deaf(until)
        self.stop(self.item1)
        self.pass_stop_timeout()
        self.runner.calls.clear()
        item = self.start("w1")
        self.start("w2")
        self.pass_time(10.0)
        before = list(self.runner.calls), item.state, item.trouble
        until.callback(None)
        self.items.try_again()

        self.assertEqual(before[:2], ([("start", "w2")], WAITING))
        self.assertIn("goes on", before[2])
        self.assertEqual(self.runner.asked("start"), ["w2", "w1"])
        self.assertEqual((item.state, item.trouble), (RUNNING, ""))
        self.stop(self.start("w1"))

    def test_told(self) -> None:
        """
        What does not stop, and cannot be killed, stays here, counts, and says
        so.
        """
        self.runner.kills["w1"] = Deferred()
        self.stop(self.item1)
        quiet = self.attended
        self.pass_stop_timeout()

        self.assertEqual(self.items.workload, {"w1"})
        self.assertIn("not done in 30 s", self.item1.trouble)
        self.assertEqual(self.attended, quiet + 1)
        self.assertEqual(self.stopped, [])

    def test_failing_kill(self) -> None:
        """
        A kill that fails, or never ends, is said, and tried again.
        """
        failures: tuple[Any, ...] = (ValueError("bad"), Deferred)
        for failing in failures:
            with self.subTest(failing=failing):
                self.runner.kills["w1"] = failing
                self.runner.calls.clear()
                self.stopped.clear()
                item = self.start("w1")
                self.stop(item)
                self.clock.pump([1.0] * int(self.settings.work_timeout + 31))
                tried = len(self.runner.asked("kill"))
                self.runner.kills.clear()
                self.clock.pump([1.0] * int(self.settings.work_timeout + 31))

                self.assertGreaterEqual(tried, 1)
                self.assertEqual(self.stopped, [item])
        self.assertTrue(self.events("work-not-killed"))

    def test_stops_after_all(self) -> None:
        """
        A stop that ends while the kill is under way is as good.
        """
        self.runner.kills["w1"] = Deferred()
        self.runner.reports["w1"] = b"state"
        self.stop(self.item1)
        self.pass_stop_timeout()
        self.stops[0].callback(None)

        self.assertEqual((self.stopped, self.item1.handover), ([self.item1], b"state"))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_killed_once(self) -> None:
        """
        Killing again what is being killed does nothing.
        """
        self.runner.kills["w1"] = Deferred()
        self.stop(self.item1)
        self.kill()
        self.kill()

        self.assertEqual(self.runner.asked("kill"), ["w1"])

    def test_killed_between_two_stops(self) -> None:
        """
        What is killed is not asked to stop again.
        """
        self.runner.stops["w1"] = ValueError("bad")
        self.stop(self.item1)
        self.kill()
        self.clock.advance(60.0)

        self.assertEqual(self.runner.asked("stop"), ["w1"])
        self.assertEqual(self.stopped, [self.item1])

    def test_late_start(self) -> None:
        """
        What was killed while a start of it went on is stopped once more when
        that start has ended.
        """
        until: Deferred[None] = Deferred()
        self.runner.starts["w2"] = lambda: deaf(until)
        self.runner.stops["w2"] = Deferred()
        item = self.start("w2")
        self.stop(item)
        assert item.stopping is not None
        item.stopping.kill()
        before = list(self.stopped)
        self.runner.stops.clear()
        until.callback(None)

        self.assertEqual((before, self.stopped), ([], [item]))
        self.assertEqual(self.runner.asked("stop"), ["w2", "w2"])

    def test_report_given_up(self) -> None:
        """
        Of an item that has stopped and is yet to hand over, a kill ends only
        that.
        """
        self.runner.stops.clear()
        self.runner.reports["w1"] = Deferred()
        self.stop(self.item1)
        self.kill()

        self.assertEqual((self.stopped, self.item1.handover), ([self.item1], None))
        self.assertEqual(self.runner.asked("kill"), [])

    def test_waiting_no_more(self) -> None:
        """
        Whoever gives up waiting leaves no timer, and nothing is said to have
        stopped; what is being killed is killed all the same.
        """
        taken_back: list[object] = []
        self.runner.kills["w1"] = lambda: Deferred(taken_back.append)
        self.stop(self.item1)
        self.items.kill_all()
        self.successResultOf(self.items.give_up())

        self.assertEqual(self.runner.asked("kill"), ["w1"])
        self.assertEqual((self.stopped, taken_back), ([], []))
        self.assertEqual(self.clock.getDelayedCalls(), [])


class UnkillableTests(RunningCase):
    """
    A runner that cannot kill.
    """

    def make_runner(self) -> Any:
        """
        Make the runner.
        """
        return StringRunner()

    def test_waited_for(self) -> None:
        """
        An item that does not stop is waited for, and others are not held up.
        """
        stopping: Deferred[None] = Deferred()
        self.runner.stops["w1"] = stopping
        item: Item = self.start("w1")
        self.stop(item)
        self.clock.advance(3600.0)
        other = self.start("w2")
        self.stop(self.start("w3"))
        before = [one.id for one in self.stopped]
        stopping.callback(None)

        self.assertEqual(before, ["w3"])
        self.assertEqual(other.state, RUNNING)
        self.assertEqual([one.id for one in self.stopped], ["w3", "w1"])
        self.assertIn("no kill_work", item.trouble)
        self.assertEqual(len(self.events("work-not-stopped")), 1)
