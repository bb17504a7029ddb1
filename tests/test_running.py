"""
Tests for :mod:`voltha_coord.running`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from tests.support.running import RunningCase, deaf
from voltha_coord.item import RUNNING, STARTING, STOPPING
from voltha_coord.lease import LeaseEnd


class WorkloadTests(RunningCase):
    """
    What is said to run.
    """

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
        Nothing counts as running once it may not any more.
        """
        self.start("w1")

        self.lease.end(LeaseEnd.RELEASED)

        self.assertEqual(self.items.workload, set())


class EndTests(RunningCase):
    """
    The end of all.
    """

    def test_stop_all(self) -> None:
        """
        Everything is stopped.
        """
        for work in ("w1", "w2"):
            self.start(work)

        self.items.stop_all(release=True)

        self.assertEqual([item.id for item in self.stopped], ["w1", "w2"])

    def test_give_up(self) -> None:
        """
        What has not stopped when the runner is waited for no more is not said
        to have stopped.
        """
        self.runner.stops["w1"] = Deferred()
        self.runner.reports["w2"] = Deferred()
        for work in ("w1", "w2"):
            self.stop(self.start(work))
        self.runner.starts["w3"] = Deferred()
        self.start("w3")

        self.successResultOf(self.items.give_up())

        self.assertEqual(self.stopped, [])
        self.assertEqual(sorted(self.items.items), ["w1", "w2", "w3"])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.logs, [])

    def linger(self) -> Deferred[Any]:
        """
        Kill an item whose stop goes on; give what ends that.
        """
        until: Deferred[Any] = Deferred()
        self.runner.stops["w1"] = lambda: deaf(until)
        self.stop(self.start("w1"))
        self.clock.advance(self.settings.stop_timeout)
        return until

    def start_for_too_long(self) -> Deferred[Any]:
        """
        Start an item, and give the start up, which goes on; give what ends it.
        """
        until: Deferred[Any] = Deferred()
        self.runner.starts["w1"] = lambda: deaf(until)
        self.start("w1")
        self.clock.advance(self.settings.work_timeout)
        return until

    def test_given_up_for_good(self) -> None:
        """
        Once the runner is waited for no more, nobody is called when a call that
        went on ends.
        """
        for begin in (self.linger, self.start_for_too_long):
            with self.subTest(begin=begin.__name__):
                self.setUp()
                until = begin()
                self.successResultOf(self.items.give_up())
                before = self.attended
                until.callback(None)

                self.assertEqual(self.attended, before)

    def test_late_end_fails(self) -> None:
        """
        What goes wrong when such a call ends is logged.
        """
        for begin in (self.linger, self.start_for_too_long):
            with self.subTest(begin=begin.__name__):
                self.setUp()
                until = begin()
                self.failing = ZeroDivisionError()
                until.callback(None)

                self.assertEqual(len(self.events("task-failed")), 1)

    def test_stop_from_within_a_start(self) -> None:
        """
        A runner that has an item stopped while it starts it: the start is
        cancelled, and the item is stopped once more after that.
        """
        cancelled: list[object] = []

        def starts() -> Deferred[None]:
            self.stop(self.items.items["w1"])
            return Deferred(cancelled.append)

        self.runner.starts["w1"] = starts
        self.start("w1")

        self.assertEqual(len(cancelled), 1)
        self.assertEqual(
            self.runner.calls,
            [("start", "w1"), ("stop", "w1"), ("stop", "w1"), ("report", "w1")],
        )
        self.assertEqual([item.id for item in self.stopped], ["w1"])
