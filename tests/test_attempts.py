"""
Tests for :mod:`voltha_coord.attempts`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from tests.support.running import RunningCase, deaf
from voltha_coord.item import (
    FAILED,
    PREPARED,
    PREPARING,
    RUNNING,
    STARTING,
    STOPPING,
    WAITING,
)
from voltha_coord.records import PREPARE, WorkItem
from voltha_coord.settings import RETRY_STEPS, Settings


class StartingTests(RunningCase):
    """
    Items that are started.
    """

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
                pause = self.items.try_again()
                assert pause is not None
                self.assertAlmostEqual(pause, RETRY_STEPS[0])

                self.runner.starts.clear()
                self.clock.advance(RETRY_STEPS[0])
                self.assertIsNone(self.items.try_again())
                self.assertEqual((item.state, item.trouble), (RUNNING, ""))
                self.assertEqual(self.runner.started_with[-1], b"state")

    def test_said_once(self) -> None:
        """
        What is tried again and fails in the same way is said once; another
        reason is news.
        """
        self.runner.starts["w"] = ValueError("no licence")
        self.start("w")
        for _ in range(3):
            self.runner.starts["w"] = ValueError("no licence")
            self.pass_time(10.0)
        self.runner.starts["w"] = ValueError("no power")
        self.pass_time(10.0)

        loud = [e for e in self.events("work-not-started") if e["log_level"] == "error"]
        self.assertEqual(
            [entry["error"] for entry in loud],
            ["ValueError: no licence", "ValueError: no power"],
        )

    def test_growing_pauses(self) -> None:
        """
        A start that fails again and again is tried ever less often.
        """
        self.runner.starts["w1"] = ValueError("bad")
        self.start("w1")
        pauses = []
        for _ in range(8):
            pause = self.items.try_again()
            assert pause is not None
            pauses.append(round(pause, 3))
            self.clock.advance(pause)
            self.items.try_again()

        self.assertEqual(pauses, [*RETRY_STEPS, RETRY_STEPS[-1]])

    def test_back_to_short_pauses(self) -> None:
        """
        After a success the first pause is a short one again.
        """
        self.runner.starts["w1"] = ValueError("bad")
        item = self.start("w1")
        self.pass_time(20.0)
        self.runner.starts.clear()
        self.pass_time(10.0)

        self.assertEqual((item.state, item.backoff), (RUNNING, None))

    def test_never_ends(self) -> None:
        """
        A start that never ends is cancelled after ``work_timeout``, counts as
        failed, and is tried again.
        """
        cancelled: list[object] = []
        self.runner.starts["w1"] = lambda: Deferred(cancelled.append)
        item = self.start("w1")
        self.pass_time(self.settings.work_timeout)

        self.assertEqual(len(cancelled), 1)
        self.assertEqual(item.error, "TimeoutError: not done in 60 s")
        self.assertEqual(item.state, FAILED)
        self.runner.starts.clear()
        self.pass_time(1.0)
        self.assertEqual((item.state, item.error), (RUNNING, ""))
        self.assertEqual(self.runner.asked("start"), ["w1", "w1"])

    def test_goes_on_although_cancelled(self) -> None:
        """
        A start that goes on although it was cancelled is not followed by
        another one before it has ended.
        """
        until: Deferred[None] = Deferred()
        self.runner.starts["w1"] = lambda: deaf(until)
        item = self.start("w1")
        self.pass_time(self.settings.work_timeout + 30.0)
        tried = self.runner.asked("start")

        self.runner.starts.clear()
        until.errback(ValueError("at last"))
        self.items.try_again()

        self.assertEqual(tried, ["w1"])
        self.assertEqual(self.runner.asked("start"), ["w1", "w1"])
        self.assertEqual(item.state, RUNNING)

    def test_started_after_all(self) -> None:
        """
        A start that ends well after it was given up has started the item.
        """
        until: Deferred[None] = Deferred()
        self.runner.starts["w1"] = lambda: deaf(until)
        item = self.start("w1")
        self.pass_time(self.settings.work_timeout + 1.0)

        until.callback(None)
        self.pass_time(10.0)

        self.assertEqual((item.state, item.error), (RUNNING, ""))
        self.assertEqual(self.runner.asked("start"), ["w1"])

    def test_may_not_begin(self) -> None:
        """
        What may not begin waits, and is begun when it may.
        """
        self.beginning = False
        item = self.start("w1")
        self.pass_time(1.0)
        before = (item.state, self.items.workload, list(self.runner.calls))

        self.beginning = True
        self.items.try_again()

        self.assertEqual(before, (WAITING, set(), []))
        self.assertEqual(item.state, RUNNING)

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
        self.start("w3")
        failed = self.attended
        self.runner.starts.clear()
        self.pass_time(1.0)

        self.assertEqual((quiet, served, failed, self.attended), (0, 1, 2, 3))

    def test_trouble(self) -> None:
        """
        What could not be read in an item's description, or in its assignment,
        is told although it runs (G9).
        """
        item = self.start("w1", b'{"limits": 5}')
        other = self.start("w2", odd="its assignment: no JSON")

        self.assertEqual((item.state, other.state), (RUNNING, RUNNING))
        self.assertIn("limits", item.trouble)
        self.assertEqual(other.trouble, "its assignment: no JSON")

    def test_since(self) -> None:
        """
        An item that is tried again and again has failed since it failed first.
        """
        self.start("w1")
        self.runner.starts["w2"] = ValueError("bad")
        failing = self.start("w2")
        self.pass_time(30.0)
        shown = failing.shown_state, failing.since
        self.runner.starts.clear()
        self.pass_time(10.0)

        self.assertEqual(shown, (FAILED, 1000.0))
        self.assertGreater(failing.since, 1030.0)

    def test_failing_again_shows_the_same(self) -> None:
        """
        While it is being tried again it has failed, for people.
        """
        self.runner.starts["w1"] = ValueError("bad")
        item = self.start("w1")
        self.runner.starts["w1"] = Deferred()
        self.pass_time(1.0)

        self.assertEqual((item.state, item.shown_state), (STARTING, FAILED))
        self.assertEqual(item.since, 1000.0)
        states = self.items.states
        self.assertEqual((states[STARTING], states[FAILED]), (0, 1))


class OrderTests(RunningCase):
    """
    Note [One call at a time].
    """

    settings = Settings(concurrent_work=2)

    def test_independent(self) -> None:
        """
        A runner that never answers about one item holds up no other, neither
        starting nor stopping.
        """
        self.runner.starts["w1"] = Deferred()
        self.runner.stops["w2"] = Deferred()
        items = [self.start(work) for work in ("w1", "w2", "w3")]
        for item in items[1:]:
            self.stop(item)

        self.assertEqual([i.id for i in self.stopped], ["w3"])
        self.assertEqual(self.items.workload, {"w1", "w2"})

    def test_so_many_at_a_time(self) -> None:
        """
        ``concurrent_work`` calls are under way at a time; who came first is
        served first, and who waits does not count as running.
        """
        starts: dict[str, Deferred[None]] = {f"w{n}": Deferred() for n in range(5)}
        self.runner.starts.update(starts)
        for work in starts:
            self.start(work)
        first = self.runner.asked("start")
        workload = self.items.workload
        starts["w1"].callback(None)
        starts["w0"].errback(ValueError("bad"))

        self.assertEqual((first, workload), (["w0", "w1"], {"w0", "w1"}))
        self.assertEqual(self.runner.asked("start"), ["w0", "w1", "w2", "w3"])

    def test_retries_stand_in_line(self) -> None:
        """
        An item that fails stands in line again behind those that wait.
        """
        self.runner.starts["w1"] = Deferred()
        self.runner.starts["w2"] = lambda: Deferred()
        self.runner.starts["w3"] = lambda: Deferred()
        for work in ("w1", "w2", "w3", "w4"):
            self.start(work)
        self.pass_time(self.settings.work_timeout)

        self.assertEqual(self.runner.asked("start")[:4], ["w1", "w2", "w3", "w4"])

    def test_hung_calls_give_up_their_turn(self) -> None:
        """
        Calls that never end, whatever one does, do not hold up the others for
        longer than ``work_timeout``.
        """
        for work in ("w1", "w2"):
            self.runner.starts[work] = lambda: deaf(Deferred())
            self.start(work)
        item = self.start("w3")
        self.pass_time(self.settings.work_timeout)

        self.assertEqual(item.state, RUNNING)

    def test_stops_are_not_held_back(self) -> None:
        """
        An item is stopped at once, however many calls are under way.
        """
        running = self.start("w0")
        for work in ("w1", "w2", "w3"):
            self.runner.starts[work] = Deferred()
            self.start(work)

        self.stop(running)

        self.assertEqual([item.id for item in self.stopped], ["w0"])

    def test_stopped_in_line(self) -> None:
        """
        An item that is stopped while it stands in line is gone at once: the
        runner never hears of it, and others take its turn.
        """
        starts: dict[str, Deferred[None]] = {f"w{n}": Deferred() for n in range(4)}
        self.runner.starts.update(starts)
        items = [self.start(work) for work in starts]

        self.stop(items[2])
        starts["w0"].callback(None)

        self.assertEqual([item.id for item in self.stopped], ["w2"])
        self.assertEqual(
            self.runner.calls, [("start", "w0"), ("start", "w1"), ("start", "w3")]
        )

    def test_many_at_once(self) -> None:
        """
        Thousands of items that start at once behind a slow one do.
        """
        slow: list[Deferred[None]] = [Deferred(), Deferred()]
        self.runner.starts.update(a=slow[0], b=slow[1])
        self.start("a")
        self.start("b")
        for n in range(3000):
            self.start(f"w{n}")
        slow[0].callback(None)

        self.assertEqual(self.items.states[RUNNING], 3001)


class ChangingTests(RunningCase):
    """
    Items whose description changes.
    """

    def change(self, item: Any, value: bytes) -> None:
        """
        Give an item another description.
        """
        self.items.change(item, WorkItem.from_value(item.id, value))

    def configs(self) -> list[Any]:
        """
        Give the ``config`` of every item the runner was given, in order.
        """
        return [item.config for item in self.runner.items]

    def test_update(self) -> None:
        """
        The runner is told of a changed description of an item that runs.
        """
        item = self.start("w1", b'{"config": 1}')
        digest = item.digest

        self.change(item, b'{"config": 2}')

        self.assertEqual(self.runner.calls, [("start", "w1"), ("update", "w1")])
        self.assertEqual(self.configs(), [1, 2])
        self.assertNotEqual(item.digest, digest)

    def test_same(self) -> None:
        """
        One that says the same in other words is no change.
        """
        item = self.start("w1", b'{"config": {"a": 1, "b": 2}}')

        self.change(item, b'{ "config": {"b": 2, "a": 1} }')

        self.assertEqual(self.runner.asked("update"), [])

    def test_superseded(self) -> None:
        """
        A change that waits for an earlier call is superseded by a newer one;
        calls about one item never overlap.
        """
        starting: Deferred[None] = Deferred()
        updating: Deferred[None] = Deferred()
        self.runner.starts["w1"] = starting
        self.runner.updates["w1"] = updating
        item = self.start("w1", b'{"config": 1}')
        self.change(item, b'{"config": 2}')
        self.change(item, b'{"config": 3}')
        during_start = self.configs()
        starting.callback(None)
        self.change(item, b'{"config": 4}')
        self.change(item, b'{"config": 5}')
        during_update = self.configs()
        self.runner.updates.clear()
        updating.callback(None)

        self.assertEqual((during_start, during_update), ([1], [1, 3]))
        self.assertEqual(self.configs(), [1, 3, 5])

    def test_back_and_forth(self) -> None:
        """
        A change that is taken back while another is under way is made and taken
        back.
        """
        updating: Deferred[None] = Deferred()
        self.runner.updates["w1"] = updating
        item = self.start("w1", b'{"config": 1}')
        self.change(item, b'{"config": 2}')
        self.change(item, b'{"config": 1}')
        self.runner.updates.clear()
        updating.callback(None)

        self.assertEqual(self.configs(), [1, 2, 1])

    def test_failing_update(self) -> None:
        """
        An update that fails, or never ends, is told and tried again; the item
        runs on, as it was.
        """
        failures: tuple[Any, ...] = (ValueError("bad"), Deferred)
        for failing in failures:
            with self.subTest(failing=failing):
                self.runner.updates["w1"] = failing
                item = self.start("w1", b'{"config": 1}')
                digest = item.digest
                self.change(item, b'{"config": 2}')
                self.pass_time(self.settings.work_timeout)
                before = (item.state, bool(item.error), item.digest == digest)
                self.runner.updates.clear()
                self.pass_time(10.0)

                self.assertEqual(before, (RUNNING, True, True))
                self.assertEqual((item.error, self.configs()[-1]), ("", 2))
                self.assertNotEqual(item.digest, digest)
        self.assertTrue(self.events("work-not-changed"))

    def test_newer_one_is_tried_at_once(self) -> None:
        """
        A newer description is tried at once, whatever the last one came to.
        """
        self.runner.updates["w1"] = ValueError("bad")
        item = self.start("w1", b'{"config": 1}')
        self.change(item, b'{"config": 2}')
        self.pass_time(20.0)
        tried = len(self.configs())
        self.runner.updates.clear()
        self.change(item, b'{"config": 3}')

        self.assertEqual(self.configs()[tried:], [3])
        self.assertEqual(item.error, "")

    def test_failed_start(self) -> None:
        """
        So is a start that failed: with what the item is by now.
        """
        self.runner.starts["w1"] = ValueError("bad")
        item = self.start("w1", b'{"config": 1}')
        self.pass_time(20.0)
        self.runner.starts.clear()
        self.change(item, b'{"config": 2}')

        self.assertEqual((item.state, self.configs()[-1]), (RUNNING, 2))
        self.assertEqual(self.runner.asked("update"), [])

    def test_stopped_meanwhile(self) -> None:
        """
        An item that is stopping is told of no change; an update under way is
        cancelled, and neither is a failure.
        """
        cancelled: list[object] = []
        self.runner.updates["w1"] = Deferred(cancelled.append)
        item = self.start("w1", b'{"config": 1}')
        self.change(item, b'{"config": 2}')
        self.change(item, b'{"config": 3}')
        self.runner.stops["w1"] = Deferred()
        self.stop(item)
        self.change(item, b'{"config": 4}')
        self.pass_time(10.0)

        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.configs(), [1, 2])
        self.assertEqual((item.state, item.error), (STOPPING, ""))

    def test_update_that_goes_on(self) -> None:
        """
        An update that goes on although it was cancelled, and ends well, has
        changed the item.
        """
        until: Deferred[None] = Deferred()
        self.runner.updates["w1"] = lambda: deaf(until)
        item = self.start("w1", b'{"config": 1}')
        self.change(item, b'{"config": 2}')
        self.pass_time(self.settings.work_timeout + 20.0)
        calls = self.runner.asked("update")
        until.callback(None)
        self.pass_time(10.0)

        self.assertEqual((calls, self.runner.asked("update")), (["w1"], ["w1"]))
        self.assertEqual((item.error, item.description.config), ("", 2))


class PreparingTests(RunningCase):
    """
    Items that are made ready, and may be run after that.
    """

    def prepare(self, work: str, value: bytes = b"") -> Any:
        """
        Make an item ready.
        """
        item = self.item(work, value, index=0, lease=None)
        self.items.prepare(item)
        return item

    def run_it(self, item: Any) -> None:
        """
        Let an item run that is here already.
        """
        item.index, item.lease = 7, self.lease
        self.items.start(item)

    def test_prepare(self) -> None:
        """
        An item that is made ready does not run.
        """
        preparing: Deferred[None] = Deferred()
        self.runner.prepares["w1"] = preparing
        item = self.prepare("w1")
        before = item.state
        preparing.callback(None)

        self.assertEqual((before, item.state), (PREPARING, PREPARED))
        self.assertEqual(self.items.workload, set())
        self.assertEqual(self.runner.calls, [("prepare", "w1")])

    def test_run(self) -> None:
        """
        It is started when it is to run, with what was handed over.
        """
        item = self.prepare("w1")
        item.report = b"position 7"
        self.run_it(item)

        self.assertEqual(self.runner.calls, [("prepare", "w1"), ("start", "w1")])
        self.assertEqual(self.runner.started_with, [b"position 7"])
        self.assertEqual(self.items.workload, {"w1"})

    def test_run_while_preparing(self) -> None:
        """
        What is still being made ready is started when that has ended, however
        it did.
        """
        for outcome in (None, ValueError("bad")):
            with self.subTest(outcome=outcome):
                preparing: Deferred[Any] = Deferred()
                self.runner.prepares["w1"] = preparing
                self.runner.calls.clear()
                item = self.prepare("w1")
                self.run_it(item)
                before = list(self.runner.calls)
                if outcome is None:
                    preparing.callback(None)
                else:
                    preparing.errback(outcome)
                self.pass_time(1.0)

                self.assertEqual(before, [("prepare", "w1")])
                self.assertEqual(self.runner.calls[1:], [("start", "w1")])
                self.assertEqual(item.state, RUNNING)

    def test_run_before_its_turn(self) -> None:
        """
        What is to run before it could be made ready is started straight away.
        """
        self.beginning = False
        item = self.prepare("w1")
        self.beginning = True
        self.run_it(item)

        self.assertEqual(self.runner.calls, [("start", "w1")])

    def test_failing(self) -> None:
        """
        What cannot be made ready, or takes too long, says so, and is tried
        again.
        """
        failures: tuple[Any, ...] = (ValueError("no room"), Deferred)
        for failing in failures:
            with self.subTest(failing=failing):
                self.runner.prepares["w1"] = failing
                item = self.prepare("w1")
                self.pass_time(self.settings.work_timeout)
                before = (item.state, bool(item.trouble))
                self.runner.prepares.clear()
                self.pass_time(6.0)

                self.assertEqual(before, (FAILED, True))
                self.assertEqual((item.state, item.trouble), (PREPARED, ""))
        self.assertTrue(self.events("work-not-prepared"))

    def test_undone(self) -> None:
        """
        What is not to be here any more is undone by ``stop_work``; what was
        never begun needs none.
        """
        self.stop(self.prepare("w1"))
        self.beginning = False
        self.stop(self.prepare("w2"))

        self.assertEqual(self.runner.asked("stop"), ["w1"])
        self.assertEqual([item.id for item in self.stopped], ["w1", "w2"])

    def test_does_not_count_while_undone(self) -> None:
        """
        Nor does it count as running while it is undone.
        """
        self.runner.stops["w1"] = Deferred()
        item = self.prepare("w1")
        self.stop(item)

        self.assertEqual((item.state, item.phase), (STOPPING, PREPARE))
        self.assertEqual(self.items.workload, set())

    def test_changed(self) -> None:
        """
        What has changed is made ready anew.
        """
        item = self.prepare("w1", b'{"config": 1}')
        self.items.change(item, WorkItem.from_value("w1", b'{"config": 2}'))

        self.assertEqual(self.runner.asked("prepare"), ["w1", "w1"])
        self.assertEqual(item.description.config, 2)
