"""
Tests for :mod:`voltha_coord.running`.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.testing import capture_logs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.working import StringRunner
from voltha_coord.consul.backoff import Backoff
from voltha_coord.lease import Lease, LeaseEnd
from voltha_coord.ownership import REPORT_BYTES
from voltha_coord.records import WorkItem, encode_status
from voltha_coord.running import FAILED, RUNNING, STARTING, STOPPING, Item, RunningItems
from voltha_coord.settings import RETRY_STEPS


class RunningTests(SynchronousTestCase):
    """
    Items and their runner.
    """

    def setUp(self) -> None:
        """
        Begin with nothing running.
        """
        self.logs = self.enterContext(capture_logs())
        self.clock = Clock()
        self.runner = StringRunner()
        self.stopped: list[Item] = []
        self.attended = 0
        self.items = RunningItems(
            self.clock,
            self.runner,
            stopped=self.stopped.append,
            changed=lambda: None,
            attend=self.attend,
            wall_clock=lambda: 1000.0 + self.clock.seconds(),
            random=lambda: 1.0,
            log=structlog.get_logger(),
        )
        self.lease = self.make_lease()

    def attend(self) -> None:
        """
        Count.
        """
        self.attended += 1

    def make_lease(self) -> Lease:
        """
        Give a lease of 100 seconds.
        """
        return Lease(self.clock.seconds, "s", session_ttl=100.0, renewed=0.0)

    def item(self, work: str, value: bytes = b"", **kw: Any) -> Item:
        """
        Give an item that we own.
        """
        return Item(WorkItem.from_value(work, value), 5, self.lease, **kw)

    def start(self, work: str, value: bytes = b"", **kw: Any) -> Item:
        """
        Start an item.
        """
        item = self.item(work, value, **kw)
        self.items.start(item)
        return item

    def test_start(self) -> None:
        """
        An item counts as running from before its start has finished.
        """
        starting: Deferred[None] = Deferred()
        self.runner.starts["w1"] = starting

        item = self.start("w1", report=b"handed over")

        self.assertEqual((item.state, self.items.workload), (STARTING, {"w1"}))
        self.assertEqual(self.runner.started_with, [b"handed over"])
        starting.callback(None)
        self.assertEqual((item.state, self.items.workload), (RUNNING, {"w1"}))

    def test_states(self) -> None:
        """
        How many items are in each state is counted, also in those that none
        is in.
        """
        self.start("w1")
        self.start("w2")
        self.runner.starts["w3"] = Deferred()
        self.start("w3")

        states = {state: n for state, n in self.items.states.items() if n}
        self.assertEqual(states, {RUNNING: 2, STARTING: 1})
        self.assertEqual(self.items.states[STOPPING], 0)

    def test_lease_over(self) -> None:
        """
        Nothing counts as running once its lease is over.
        """
        self.start("w1")

        self.lease.end(LeaseEnd.SESSION)

        self.assertEqual(self.items.workload, set())

    def test_failing_start(self) -> None:
        """
        An item that will not start does not run, says why, and is tried again
        after a back-off, with what was handed over.
        """
        for failing in (ValueError("bad"), lambda: 1 / 0, CancelledError()):
            with self.subTest(failing=failing):
                self.runner.starts["w1"] = failing
                item = self.start("w1", report=b"state", report_index=3)

                self.assertEqual((item.state, self.items.workload), (FAILED, set()))
                self.assertTrue(item.trouble)
                pause = self.items.start_failed_again()
                assert pause is not None
                self.assertAlmostEqual(pause, RETRY_STEPS[0])

                self.runner.starts.clear()
                self.clock.advance(RETRY_STEPS[0])
                self.assertIsNone(self.items.start_failed_again())
                self.assertEqual((item.state, item.trouble), (RUNNING, ""))
                self.assertEqual(self.runner.started_with[-1], b"state")

    def test_growing_pauses(self) -> None:
        """
        A start that fails again and again is tried ever less often.
        """
        self.runner.starts["w1"] = ValueError("bad")
        self.start("w1")
        pauses = []
        for _ in range(8):
            pause = self.items.start_failed_again()
            assert pause is not None
            pauses.append(round(pause, 3))
            self.clock.advance(pause)
            self.items.start_failed_again()

        self.assertEqual(pauses, [*RETRY_STEPS, RETRY_STEPS[-1]])

    def test_independent(self) -> None:
        """
        A runner that never answers about one item holds up no other, neither
        starting nor stopping.
        """
        self.runner.starts["w1"] = Deferred()
        self.runner.stops["w2"] = Deferred()
        items = [self.start(work) for work in ("w1", "w2", "w3")]
        for item in items[1:]:
            self.items.stop(item, release=True)

        self.assertEqual([i.item.id for i in self.stopped], ["w3"])
        self.assertEqual(self.items.workload, {"w1", "w2"})

    def test_stop(self) -> None:
        """
        An item counts as running until its stop has finished; then its report
        is asked for.
        """
        stopping: Deferred[None] = Deferred()
        self.runner.stops["w1"] = stopping
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")

        self.items.stop(item, release=True)

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

        self.items.stop(item, release=True)
        self.items.stop(item, release=False)
        self.items.stop(item, release=True)

        self.assertEqual(self.runner.asked("stop"), ["w1"])
        self.assertFalse(item.release)

    def test_kept_item_reports_nothing(self) -> None:
        """
        An item that stays ours hands nothing over.
        """
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")

        self.items.stop(item, release=False)

        self.assertEqual((self.runner.asked("report"), item.handover), ([], None))

    def test_stop_while_starting(self) -> None:
        """
        A start that has not finished is cancelled by a stop, and is no failure.
        """
        cancelled: list[object] = []
        self.runner.starts["w1"] = Deferred(cancelled.append)
        item = self.start("w1")

        self.items.stop(item, release=True)

        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.runner.calls[:2], [("start", "w1"), ("stop", "w1")])
        self.assertEqual((self.stopped, item.error), ([item], ""))

    def test_start_that_ends_well_when_cancelled(self) -> None:
        """
        A start that a stop cannot cancel, and that ends well, does not make a
        stopping item a running one.
        """
        self.runner.starts["w1"] = Deferred(lambda d: d.callback(None))
        self.runner.stops["w1"] = Deferred()
        item = self.start("w1")

        self.items.stop(item, release=True)

        self.assertEqual(item.state, STOPPING)

    def test_failing_stop(self) -> None:
        """
        A stop that fails is said, and counts as done: it cannot be repeated.
        """
        for failing in (ValueError("bad"), CancelledError()):
            with self.subTest(failing=failing):
                self.stopped.clear()
                self.runner.stops["w1"] = failing
                self.runner.reports["w1"] = b"state"
                item = self.start("w1")

                self.items.stop(item, release=True)

                self.assertEqual((self.stopped, item.handover), ([item], None))
        events = [entry["event"] for entry in self.logs]
        self.assertEqual(events, ["work-not-stopped"] * 2)

    def test_bad_reports(self) -> None:
        """
        A report that fails, is no bytes, or is too large hands over nothing.
        """
        for bad in (ValueError("bad"), lambda: "text", b"x" * (REPORT_BYTES + 1)):
            self.runner.reports["w1"] = bad
            item = self.start("w1")

            self.items.stop(item, release=True)

            self.assertIsNone(item.handover)
        self.assertEqual(len(self.stopped), 3)
        self.assertEqual(len(self.logs), 3)

    def test_stop_all_but(self) -> None:
        """
        What runs under another lease is stopped.
        """
        self.start("w1")
        self.lease = self.make_lease()
        self.start("w2")

        self.items.stop_all_but(self.lease, release=False)

        self.assertEqual(self.items.workload, {"w2"})

    def test_give_up(self) -> None:
        """
        What has not stopped when the runner is waited for no more is not said
        to have stopped.
        """
        self.runner.stops["w1"] = Deferred()
        self.runner.reports["w2"] = Deferred()
        for work in ("w1", "w2"):
            self.items.stop(self.start(work), release=True)

        self.successResultOf(self.items.give_up())

        self.assertEqual(self.stopped, [])
        self.assertEqual(sorted(self.items.items), ["w1", "w2"])

    def test_trouble(self) -> None:
        """
        What could not be read in an item's description is told although it
        runs (G9).
        """
        item = self.start("w1", b'{"limits": 5}')

        self.assertEqual(item.state, RUNNING)
        self.assertIn("limits", item.trouble)

    def test_attention(self) -> None:
        """
        The worker is needed when a start failed, when one succeeds after that,
        and when a report has served.
        """
        self.start("w1")
        quiet = self.attended
        self.start("w2", report=b"x", report_index=4)
        served = self.attended
        self.runner.starts["w3"] = ValueError("bad")
        item = self.start("w3")
        self.runner.starts.clear()
        self.items.start(item)

        self.assertEqual((quiet, served, self.attended), (0, 1, 3))

    def test_collect(self) -> None:
        """
        The report tells of each item its state, since when, and why not.
        """
        self.runner.starts["w2"] = ValueError("bad")
        self.runner.usages["w1"] = {"cpu": 5}
        self.start("w1")
        self.start("w2")

        report = self.items.collect()

        self.assertEqual(report.items["w1"].state, RUNNING)
        self.assertEqual(report.items["w1"].usage, {"cpu": 5})
        self.assertEqual(report.items["w1"].since, 1000.0)
        self.assertEqual(report.items["w2"].state, FAILED)
        self.assertEqual(report.items["w2"].error, "ValueError: bad")

    def test_bad_usage(self) -> None:
        """
        A usage that fails, or that JSON has no words for, does not keep the
        other items from being reported.
        """
        self.runner.usages.update(
            w1=ValueError("bad"), w2={"cpu": object()}, w3=5, w4={"cpu": float("nan")}
        )
        for work in ("w1", "w2", "w3", "w4", "w5"):
            self.start(work)

        report = self.items.collect()

        self.assertEqual(len(report.items), 5)
        self.assertEqual(len(encode_status(report)), 1)

    def test_backoff_forgotten(self) -> None:
        """
        After a success the first pause is a short one again.
        """
        item = self.start("w1")
        item.backoff = Backoff(lambda: 1.0)
        self.items.start(item)

        self.assertIsNone(item.backoff)
