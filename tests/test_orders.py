"""
Tests for :mod:`voltha_coord.orders`, and for how orders are carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import Deferred

from tests.support.running import RunningCase, deaf
from voltha_coord.item import (
    FAILED,
    PREPARED,
    PREPARING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    WAITING,
    Item,
)
from voltha_coord.lease import LeaseEnd
from voltha_coord.orders import Demand, demand
from voltha_coord.overdue import Overdue
from voltha_coord.records import WorkItem
from voltha_coord.settings import RETRY_STEPS, Settings

STOP = b'{"order": "stop"}'
START = b"{}"


class DemandTests(RunningCase):
    """
    Note [Orders], as a table.
    """

    def test_stop(self) -> None:
        """
        Ordered to stop: what the runner was asked about is stopped, the rest need
        not be.
        """
        for state, touched, expected in (
            (WAITING, False, Demand.REST),
            (WAITING, True, Demand.STOP),
            (PREPARED, False, Demand.REST),
            (PREPARED, True, Demand.STOP),
            (STARTING, True, Demand.STOP),
            (RUNNING, True, Demand.STOP),
            (FAILED, True, Demand.STOP),
            (STOPPING, True, Demand.NOTHING),
            (STOPPED, False, Demand.NOTHING),
        ):
            with self.subTest(state=state, touched=touched):
                item = self.item("w1", STOP, state=state, touched=touched)

                self.assertIs(demand(item), expected)

    def test_start(self) -> None:
        """
        Ordered to start: only what has stopped is affected.
        """
        for state in (WAITING, PREPARED, STARTING, RUNNING, FAILED, STOPPING):
            self.assertIs(demand(self.item("w1", state=state)), Demand.NOTHING)
        self.assertIs(demand(self.item("w1", state=STOPPED)), Demand.WAIT)

    def test_restart(self) -> None:
        """
        Only what runs is stopped to be started anew.
        """
        for state, expected in (
            (WAITING, Demand.NOTHING),
            (STARTING, Demand.NOTHING),
            (RUNNING, Demand.STOP),
            (FAILED, Demand.NOTHING),
            (STOPPING, Demand.NOTHING),
        ):
            item = self.item("w1", state=state, restart=8, heeded=7)

            self.assertIs(demand(item), expected)

    def test_unknown(self) -> None:
        """
        An order that nobody knows is to run.
        """
        self.assertIs(
            demand(self.item("w1", b'{"order": "halt"}', state=STOPPED)), Demand.WAIT
        )


class OrderCase(RunningCase):
    """
    A test with items whose orders change.
    """

    def order(self, item: Item, value: bytes) -> None:
        """
        Describe an item anew.
        """
        self.items.change(item, WorkItem.from_value(item.id, value))

    def restart(self, item: Item, number: int) -> None:
        """
        Ask for an item to be started anew.
        """
        self.items.change(item, None, number)

    def held_stop(self) -> Deferred[None]:
        """
        Let the next stop of ``w1`` take until what is given back has fired.
        """
        stopping: Deferred[None] = Deferred()
        self.runner.stops["w1"] = stopping
        return stopping

    def steps(self, *but: str) -> list[str]:
        """
        Give what the runner was asked, in order.
        """
        return [verb for verb, _ in self.runner.calls if verb not in but]


class StopOrderTests(OrderCase):
    """
    Items that are to be kept and not run.
    """

    def test_running(self) -> None:
        """
        An item that runs stops; it stays here and ours, and does not count as
        running once it has stopped.
        """
        stopping = self.held_stop()
        item = self.start("w1")
        self.order(item, STOP)
        before = item.state, self.items.workload
        stopping.callback(None)

        self.assertEqual(before, (STOPPING, {"w1"}))
        self.assertEqual((item.state, self.items.workload), (STOPPED, set()))
        self.assertEqual(self.items.items, {"w1": item})
        self.assertEqual((item.index, item.lease), (5, self.lease))
        self.assertEqual(self.items.states[STOPPED], 1)
        self.assertEqual(self.steps(), ["start", "stop", "report"])

    def test_never_started(self) -> None:
        """
        One that is to be stopped from the beginning is, without any call.
        """
        item = self.start("w1", STOP, restart=7)

        self.assertEqual((item.state, self.runner.calls), (STOPPED, []))
        self.assertEqual(item.since, 1000.0)
        self.assertEqual(self.items.workload, set())

    def test_starting(self) -> None:
        """
        A start that has not finished is cancelled, and the item stopped.
        """
        cancelled: list[object] = []
        self.runner.starts["w1"] = Deferred(cancelled.append)
        item = self.start("w1")
        self.order(item, STOP)

        self.assertEqual(len(cancelled), 1)
        self.assertEqual((item.state, item.trouble), (STOPPED, ""))
        self.assertEqual(self.steps("report"), ["start", "stop"])
        self.assertEqual(self.logs, [])

    def test_start_that_goes_on(self) -> None:
        """
        A start that goes on although it was cancelled is waited for, and the item
        stopped once more.
        """
        until: Deferred[None] = Deferred()
        self.runner.starts["w1"] = lambda: deaf(until)
        item = self.start("w1")
        self.order(item, STOP)
        before = item.state
        until.callback(None)

        self.assertEqual((before, item.state), (STOPPING, STOPPED))
        self.assertEqual(self.steps("report"), ["start", "stop", "stop"])

    def test_in_line(self) -> None:
        """
        One that waits for its turn leaves the line, and its turn is another's.
        """
        first: Deferred[None] = Deferred()
        self.runner.starts["w0"] = first
        for n in range(1, self.settings.concurrent_work):
            self.runner.starts[f"x{n}"] = Deferred()
            self.start(f"x{n}")
        self.start("w0")
        item, other = self.start("w1"), self.start("w2")
        self.assertIsNotNone(item.turn)
        self.order(item, STOP)
        turn = item.turn
        first.callback(None)

        self.assertEqual((item.state, turn), (STOPPED, None))
        self.assertEqual(other.state, RUNNING)
        self.assertNotIn(("start", "w1"), self.runner.calls)

    def test_failed(self) -> None:
        """
        One whose start failed may be half up: it is stopped, is not tried again,
        and nothing is the matter with it any more.
        """
        self.runner.starts["w1"] = ValueError("bad")
        item = self.start("w1")
        attended = self.attended
        self.order(item, STOP)
        self.pass_time(30.0)

        self.assertEqual((item.state, item.trouble), (STOPPED, ""))
        self.assertEqual(self.steps("report"), ["start", "stop"])
        self.assertGreater(self.attended, attended)

    def test_waits_to_be_allowed(self) -> None:
        """
        One that may not begin yet is stopped all the same.
        """
        self.beginning = False
        item = self.start("w1")
        self.order(item, STOP)

        self.assertEqual((item.state, self.runner.calls), (STOPPED, []))

    def test_updating(self) -> None:
        """
        A change that has not finished is cancelled; what the item is by then is
        what it is started as next.
        """
        self.runner.updates["w1"] = Deferred()
        item = self.start("w1")
        self.order(item, b'{"config": 2}')
        self.order(item, b'{"config": 3, "order": "stop"}')
        stopped, digest = item.state, item.digest
        expected = WorkItem("w1", order="stop", config=3)
        self.order(item, b'{"config": 3}')

        self.assertEqual((stopped, digest), (STOPPED, expected.digest))
        self.assertEqual(self.steps("report"), ["start", "update", "stop", "start"])
        self.assertEqual(self.runner.items[-1].config, 3)

    def test_changed_while_stopped(self) -> None:
        """
        What changes of a stopped item is noted without a call.
        """
        item = self.start("w1", STOP)
        self.order(item, b'{"config": 3, "order": "stop"}')

        self.assertEqual((item.state, self.runner.calls), (STOPPED, []))
        self.assertEqual(item.description.config, 3)
        self.assertIsNone(item.wanted)

    def test_failing_stop(self) -> None:
        """
        A stop that fails is tried again; meanwhile the item counts as running, and
        says why.
        """
        self.runner.stops["w1"] = ValueError("bad")
        item = self.start("w1")
        self.order(item, STOP)
        before = item.state, self.items.workload, item.trouble
        self.runner.stops.clear()
        self.clock.advance(RETRY_STEPS[0])

        self.assertEqual(before, (STOPPING, {"w1"}, "not stopped: ValueError: bad"))
        self.assertEqual((item.state, item.trouble), (STOPPED, ""))
        self.assertEqual(self.items.workload, set())

    def test_hanging_stop(self) -> None:
        """
        A stop that hangs is ended by a kill after ``stop_timeout``; then the item
        has stopped, and has nothing to hand over.
        """
        self.held_stop()
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")
        self.order(item, STOP)
        self.clock.advance(self.settings.stop_timeout)

        self.assertEqual((item.state, item.trouble), (STOPPED, ""))
        self.assertEqual(self.steps(), ["start", "stop", "kill"])
        self.assertIsNone(item.handover)

    def test_stop_that_goes_on(self) -> None:
        """
        A stop that goes on although the item was killed holds up its next start,
        which says so, and nothing else.
        """
        until: Deferred[None] = Deferred()
        self.runner.stops["w1"] = lambda: deaf(until)
        item = self.start("w1")
        self.order(item, STOP)
        self.clock.advance(self.settings.stop_timeout)
        stopped = item.state, item.trouble
        self.order(item, START)
        waiting = item.state, item.trouble, self.runner.asked("start")
        attended = self.attended
        until.callback(None)
        self.assertGreater(self.attended, attended)
        self.items.try_again()

        self.assertEqual(stopped, (STOPPED, ""))
        self.assertEqual(
            waiting, (WAITING, "an earlier call of the runner goes on", ["w1"])
        )
        self.assertEqual((item.state, item.trouble), (RUNNING, ""))
        self.assertEqual(self.runner.asked("start"), ["w1", "w1"])


class StartOrderTests(OrderCase):
    """
    Items that are to run again.
    """

    def test_stopped(self) -> None:
        """
        A stopped item is started, with what it gave when it stopped.
        """
        self.runner.reports["w1"] = b"state"
        item = self.start("w1", report=b"before")
        self.order(item, STOP)
        self.order(item, START)

        self.assertEqual((item.state, self.items.workload), (RUNNING, {"w1"}))
        self.assertEqual(self.steps("report"), ["start", "stop", "start"])
        self.assertEqual(self.runner.started_with, [b"before", b"state"])
        self.assertIsNone(item.handover)

    def test_never_started(self) -> None:
        """
        One that was stopped from the beginning is started with what its last owner
        handed over.
        """
        item = self.start("w1", STOP, report=b"before", report_index=3)
        self.order(item, START)

        self.assertEqual(self.runner.started_with, [b"before"])
        self.assertEqual((item.state, item.report), (RUNNING, None))

    def test_while_it_stops(self) -> None:
        """
        One that is being stopped is started once it has stopped, and not before.
        """
        stopping = self.held_stop()
        item = self.start("w1")
        self.order(item, STOP)
        self.order(item, START)
        before = item.state, self.steps()
        stopping.callback(None)

        self.assertEqual(before, (STOPPING, ["start", "stop"]))
        self.assertEqual(item.state, RUNNING)
        self.assertEqual(self.steps("report"), ["start", "stop", "start"])

    def test_to_and_fro_while_it_stops(self) -> None:
        """
        What it is to be by the time it has stopped counts.
        """
        stopping = self.held_stop()
        item = self.start("w1")
        for value in (STOP, START, STOP):
            self.order(item, value)
        stopping.callback(None)

        self.assertEqual(item.state, STOPPED)
        self.assertEqual(self.runner.asked("start"), ["w1"])

    def test_may_not_begin(self) -> None:
        """
        One that may not begin waits until it may.
        """
        item = self.start("w1", STOP)
        self.beginning = False
        self.order(item, START)
        before = item.state, list(self.runner.calls)
        self.beginning = True
        self.items.try_again()

        self.assertEqual(before, (WAITING, []))
        self.assertEqual(item.state, RUNNING)

    def test_failing_start(self) -> None:
        """
        What it gave when it stopped is kept until a start has succeeded.
        """
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")
        self.order(item, STOP)
        self.runner.starts["w1"] = ValueError("bad")
        self.order(item, START)
        self.runner.starts.clear()
        self.pass_time(1.0)

        self.assertEqual(self.runner.started_with, [None, b"state", b"state"])
        self.assertEqual(item.state, RUNNING)


class RestartTests(OrderCase):
    """
    Items that are to be started anew.
    """

    def assert_alternating(self, starts: int) -> None:
        """
        Check how often the item was started, always after it had stopped.
        """
        steps = self.steps("report")
        self.assertEqual(steps, (["start", "stop"] * starts)[:-1])

    def test_running(self) -> None:
        """
        An item that runs is stopped once and started once, and stays ours; the same
        number asks for nothing more.
        """
        stopping = self.held_stop()
        item = self.start("w1", restart=7)
        self.restart(item, 8)
        between = item.state, list(self.runner.calls)
        stopping.callback(None)
        self.restart(item, 8)
        self.pass_time(5.0)

        self.assertEqual(between, (STOPPING, [("start", "w1"), ("stop", "w1")]))
        self.assertEqual((item.state, item.index), (RUNNING, 5))
        self.assertEqual((item.lease, self.stopped), (self.lease, [item]))
        self.assert_alternating(2)

    def test_another_number(self) -> None:
        """
        Any other number asks, a smaller one too; none does not.
        """
        item = self.start("w1", restart=7)
        self.restart(item, 0)
        self.assert_alternating(1)
        self.restart(item, 6)
        self.assert_alternating(2)
        self.restart(item, 0)
        self.restart(item, 6)
        self.assert_alternating(2)

    def test_two(self) -> None:
        """
        Two that are asked for quickly are one.
        """
        stopping = self.held_stop()
        item = self.start("w1")
        for number in (7, 8):
            self.restart(item, number)
        stopping.callback(None)

        self.assert_alternating(2)
        self.assertEqual(item.heeded, 8)

    def test_starting(self) -> None:
        """
        One that is being started is not disturbed, and started anew once it has
        come up.
        """
        starting: Deferred[None] = Deferred()
        self.runner.starts["w1"] = starting
        item = self.start("w1")
        for number in (7, 8):
            self.restart(item, number)
        before = item.state, self.steps()
        self.runner.starts.clear()
        starting.callback(None)

        self.assertEqual(before, (STARTING, ["start"]))
        self.assertEqual(item.state, RUNNING)
        self.assert_alternating(2)

    def test_started_after_all(self) -> None:
        """
        So is one whose start was given up and has ended well all the same.
        """
        until: Deferred[None] = Deferred()
        self.runner.starts["w1"] = lambda: deaf(until)
        item = self.start("w1")
        self.pass_time(self.settings.work_timeout + 1.0)
        self.restart(item, 7)
        self.runner.starts.clear()
        until.callback(None)
        self.items.try_again()

        self.assertEqual(item.state, RUNNING)
        self.assert_alternating(2)

    def test_failed(self) -> None:
        """
        One that would not start is tried again at once, which is all that was
        asked for.
        """
        self.runner.starts["w1"] = ValueError("bad")
        item = self.start("w1")
        self.runner.starts.clear()
        self.restart(item, 7)
        self.pass_time(5.0)

        self.assertEqual((item.state, self.steps()), (RUNNING, ["start", "start"]))

    def test_stopped(self) -> None:
        """
        A stopped one stays stopped; once it runs again it was heeded.
        """
        item = self.start("w1", STOP)
        self.restart(item, 7)
        before = item.state, item.heeded, list(self.runner.calls)
        self.order(item, START)

        self.assertEqual(before, (STOPPED, 7, []))
        self.assertEqual(self.steps(), ["start"])

    def test_with_a_change(self) -> None:
        """
        An item that is changed and to be started anew at once is not changed
        first, but started as what it is by then.
        """
        item = self.start("w1")
        self.items.change(item, WorkItem("w1", config=2), 7)

        self.assert_alternating(2)
        self.assertEqual([i.config for i in self.runner.items], [None, 2])

    def test_while_changing(self) -> None:
        """
        A change that has not finished is cancelled.
        """
        cancelled: list[object] = []
        self.runner.updates["w1"] = Deferred(cancelled.append)
        item = self.start("w1")
        self.order(item, b'{"config": 2}')
        self.restart(item, 7)

        self.assertEqual((len(cancelled), item.state), (1, RUNNING))
        self.assertEqual(self.steps("report"), ["start", "update", "stop", "start"])

    def test_ordered_to_stop_meanwhile(self) -> None:
        """
        One that is ordered to stop while it is stopped to be started anew is not
        started.
        """
        stopping = self.held_stop()
        item = self.start("w1")
        self.restart(item, 7)
        self.order(item, STOP)
        stopping.callback(None)

        self.assertEqual(item.state, STOPPED)
        self.assertEqual(self.steps("report"), ["start", "stop"])

    def test_report(self) -> None:
        """
        It is started with what it gave.
        """
        self.runner.reports["w1"] = b"state"
        self.restart(self.start("w1"), 7)

        self.assertEqual(self.runner.started_with, [None, b"state"])


class PreparedOrderTests(OrderCase):
    """
    Items that are only to be made ready, and whose order is to stop.
    """

    def prepare(self, value: bytes = b"") -> Item:
        """
        Have an item made ready.
        """
        item = self.item("w1", value, index=0, lease=None)
        self.items.prepare(item)
        return item

    def run_it(self, item: Item) -> None:
        """
        Let it be ours.
        """
        item.index, item.lease = 5, self.lease
        self.items.start(item)

    def test_stop(self) -> None:
        """
        One is ready without a call; run here it is stopped, or started if it is to
        run by then.
        """
        for value, state, steps in ((STOP, STOPPED, []), (START, RUNNING, ["start"])):
            with self.subTest(state=state):
                item = self.prepare(STOP)
                ready = item.state
                if value == START:
                    item.wanted = WorkItem.from_value("w1", value)
                self.run_it(item)

                self.assertEqual((ready, item.state), (PREPARED, state))
                self.assertEqual(self.steps(), steps)
                self.stop(item)

    def test_ordered_meanwhile(self) -> None:
        """
        One that is to be stopped by the time it is ready, or would not be made
        ready, is ready.
        """
        preparing: Deferred[None] = Deferred()
        endings: tuple[Callable[[], Any], ...] = (
            lambda: preparing.callback(None),
            lambda: None,
        )
        for answer, end in zip((preparing, ValueError("bad")), endings, strict=True):
            with self.subTest(answer=answer):
                self.runner.calls.clear()
                self.runner.prepares["w1"] = answer
                item = self.prepare()
                self.order(item, STOP)
                during = item.state
                end()

                self.assertEqual(during, PREPARING if end is endings[0] else PREPARED)
                self.assertEqual((item.state, item.trouble), (PREPARED, ""))
                self.assertFalse(item.newest.is_to_run)
                self.assertIsNone(item.wanted)
                self.assertEqual(self.steps(), ["prepare"])
                self.stop(item)

    def test_to_run_after_all(self) -> None:
        """
        One that is to run is made ready then.
        """
        item = self.prepare(STOP)
        self.order(item, START)

        self.assertEqual((item.state, self.steps()), (PREPARED, ["prepare"]))

    def test_ready_and_stopped(self) -> None:
        """
        What was made ready of an item that is ours and not to run is undone; it has
        nothing of its own to hand over, and keeps what it was handed.
        """
        self.runner.reports["w1"] = b"nonsense"
        item = self.prepare()
        item.wanted = WorkItem("w1", order="stop")
        item.report, item.report_index = b"before", 3
        self.run_it(item)

        self.assertEqual((item.state, self.steps()), (STOPPED, ["prepare", "stop"]))
        self.assertEqual((item.handover, item.report), (None, b"before"))

    def test_being_made_ready(self) -> None:
        """
        So is what is being made ready.
        """
        self.runner.prepares["w1"] = Deferred()
        item = self.prepare()
        item.wanted = WorkItem("w1", order="stop")
        before = item.state
        self.run_it(item)

        self.assertEqual((before, item.state), (PREPARING, STOPPED))
        self.assertEqual(self.steps(), ["prepare", "stop"])


class LeavingTests(OrderCase):
    """
    Items with an order that are not to be here any more.
    """

    def test_stopped(self) -> None:
        """
        A stopped item is gone without a call, with what it gave when it stopped.
        """
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")
        self.order(item, STOP)
        self.stopped.clear()
        self.runner.calls.clear()
        self.stop(item)

        self.assertEqual((self.items.items, self.runner.calls), ({}, []))
        self.assertEqual((self.stopped, item.release), ([item], True))
        self.assertEqual((item.handover, item.stays), (b"state", False))

    def test_while_it_stops(self) -> None:
        """
        One that is being stopped is gone once it has stopped, by the same stop.
        """
        stopping = self.held_stop()
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")
        self.order(item, STOP)
        self.stop(item)
        self.order(item, START)
        before = list(self.items.items)
        stopping.callback(None)

        self.assertEqual((before, self.items.items), (["w1"], {}))
        self.assertEqual(self.steps(), ["start", "stop", "report"])
        self.assertEqual((item.handover, item.release), (b"state", True))

    def test_while_it_starts_anew(self) -> None:
        """
        One that is stopped to be started anew is not started.
        """
        stopping = self.held_stop()
        item = self.start("w1")
        self.restart(item, 7)
        self.stop(item)
        stopping.callback(None)

        self.assertEqual(self.steps("report"), ["start", "stop"])
        self.assertEqual(self.items.items, {})

    def test_failed_since(self) -> None:
        """
        One that would not start again hands over what it gave before.
        """
        self.runner.reports["w1"] = b"state"
        item = self.start("w1")
        self.order(item, STOP)
        self.runner.starts["w1"] = ValueError("bad")
        self.runner.reports.clear()
        self.order(item, START)
        self.stop(item)

        self.assertEqual(item.handover, b"state")

    def test_given_up(self) -> None:
        """
        When the runner is waited for no more, a stop by order is not said to have
        ended, and nothing is left.
        """
        self.held_stop()
        item = self.start("w1")
        self.order(item, STOP)

        self.successResultOf(self.items.give_up())

        self.assertEqual((item.state, self.stopped), (STOPPING, []))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_started_within_giving_up(self) -> None:
        """
        Nor is one started again then.
        """
        self.held_stop()
        item = self.start("w1")
        self.restart(item, 7)

        self.successResultOf(self.items.give_up())
        self.pass_time(100.0)

        self.assertEqual(self.runner.asked("start"), ["w1"])


class LeaseEndTests(OrderCase):
    """
    Stopped items, and those that stop by order, when the lease ends.
    """

    settings = Settings(failure_detection=60.0, session_ttl=100.0, stop_grace=5.0)

    def setUp(self) -> None:
        """
        Begin with what stops items in time.
        """
        super().setUp()
        self.stuck: list[tuple[str, ...]] = []
        self.overdue = Overdue(
            self.clock,
            self.rights,
            self.settings,
            self.items,
            stuck=self.stuck.append,
            log=structlog.get_logger(),
        )

    def end_lease(self, left: float) -> None:
        """
        Let the lease end in so many seconds.
        """
        self.lease.end(LeaseEnd.SESSION)
        self.clock.advance(self.lease.deadline - self.clock.seconds() - left)
        self.overdue.look()

    def test_stopped(self) -> None:
        """
        A stopped item stays, and nothing is asked of the runner.
        """
        item = self.start("w1", STOP)
        self.end_lease(1.0)
        self.clock.advance(10.0)

        self.assertEqual(self.items.items, {"w1": item})
        self.assertEqual((item.state, self.runner.calls), (STOPPED, []))
        self.assertEqual((self.stuck, self.events("work-stopped")), ([], []))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stopping(self) -> None:
        """
        One that is being stopped is killed in time, and stays.
        """
        self.held_stop()
        item = self.start("w1")
        self.lease.end(LeaseEnd.SESSION)
        self.clock.advance(self.lease.deadline - self.clock.seconds() - 8.0)
        self.order(item, STOP)
        self.overdue.look()
        self.clock.advance(7.5)

        self.assertEqual(self.steps(), ["start", "stop", "kill"])
        self.assertEqual((item.state, self.stuck), (STOPPED, []))
        self.assertEqual(self.items.items, {"w1": item})

    def test_stuck(self) -> None:
        """
        One that cannot be killed is stuck until it has stopped.
        """
        stopping = self.held_stop()
        self.runner.kills["w1"] = ValueError("bad")
        item = self.start("w1")
        self.order(item, STOP)
        self.end_lease(3.0)
        self.clock.advance(4.0)
        stuck = list(self.stuck)
        stopping.callback(None)
        self.overdue.item_stopped()
        self.clock.advance(0.0)

        self.assertEqual(stuck, [("w1",)])
        self.assertEqual(self.overdue.stuck, frozenset())
        self.assertEqual(item.state, STOPPED)
