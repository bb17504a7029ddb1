"""
Tests for following a key or a prefix.
"""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.history import Sign
from voltha_coord.consul.model import Entry, KeyNames, Reading
from voltha_coord.consul.watch import (
    BURST,
    REFILL_SECONDS,
    RESYNC_SECONDS,
    Watch,
    WatchTally,
)
from voltha_coord.errors import ConsulUnavailable
from voltha_coord.settings import RETRY_STEPS

WAIT = 30.0


def entry(value: bytes, modified: int = 1) -> Entry:
    """
    Make an entry.
    """
    return Entry("k", value, modify_index=modified)


class WatchTests(SynchronousTestCase):
    """
    One blocking query after the other.
    """

    def setUp(self) -> None:
        """
        Make a watch whose reads are answered by hand.
        """
        self.clock = Clock()
        self.reads: list[tuple[int, bool]] = []
        self.pending: Deferred[Any] | None = None
        self.cancelled = 0
        self.changes: list[Any] = []
        self.failures: list[Exception] = []
        self.recoveries = 0
        self.on_change = self.changes.append
        self.watch: Watch[Any] = Watch(
            self.clock,
            self.read,
            lambda reading: self.on_change(reading),
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            failed=self.failures.append,
            recovered=self.recover,
        )

    def tearDown(self) -> None:
        """
        A stopped watch leaves nothing behind.
        """
        self.successResultOf(self.watch.stop())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def read(self, index: int, wait: float, consistent: bool) -> Deferred[Any]:
        """
        Note a read, and leave it open.
        """
        self.assertEqual(wait, WAIT)
        self.assertIsNone(self.pending, "two reads at once")

        def cancel(_: object) -> None:
            self.cancelled += 1
            self.pending = None

        self.reads.append((index, consistent))
        self.pending = Deferred(cancel)
        return self.pending

    def recover(self) -> None:
        """
        Note a recovery.
        """
        self.recoveries += 1

    def answer(self, result: Any) -> None:
        """
        Answer the read under way.
        """
        pending, self.pending = self.pending, None
        assert pending is not None, "no read under way"
        if isinstance(result, Exception):
            pending.errback(result)
        else:
            pending.callback(result)

    def block_and_answer(self, result: Any) -> None:
        """
        Answer after a whole wait.
        """
        self.clock.advance(WAIT)
        self.answer(result)

    def test_first_reads(self) -> None:
        """
        The first read is from 0 and consistent; the next ones block from the
        index that was found.
        """
        self.watch.start()
        self.answer(Reading(7, (entry(b"a"),)))
        self.block_and_answer(Reading(9, (entry(b"b", 9),)))

        self.assertEqual(self.reads, [(0, True), (7, False), (9, False)])
        self.assertEqual([r.index for r in self.changes], [7, 9])

    def test_wake_is_no_change(self) -> None:
        """
        Waking up to the same content tells nobody, but is remembered.
        """
        self.watch.start()
        self.answer(Reading(7, (entry(b"a"),)))
        self.block_and_answer(Reading(12, (entry(b"a"),)))

        self.assertEqual(len(self.changes), 1)
        self.assertEqual(self.watch.reading, Reading(12, (entry(b"a"),)))

    def test_same_value_written_again(self) -> None:
        """
        A value that went away and came back is a change: the index tells.
        """
        self.watch.start()
        self.answer(Reading(7, (entry(b"a", 7),)))
        self.block_and_answer(Reading(9, (entry(b"a", 9),)))

        self.assertEqual(len(self.changes), 2)

    def test_empty_is_told(self) -> None:
        """
        That there is nothing is told, once.
        """
        self.watch.start()
        self.answer(Reading(7))
        self.block_and_answer(Reading(8))

        self.assertEqual(self.changes, [Reading(7)])

    def test_key_names(self) -> None:
        """
        A watch of names compares names.
        """
        self.watch.start()
        self.answer(KeyNames(7, ("a",)))
        self.block_and_answer(KeyNames(8, ("a",)))
        self.block_and_answer(KeyNames(9, ("a", "b")))

        self.assertEqual([c.names for c in self.changes], [("a",), ("a", "b")])

    def test_index_backwards(self) -> None:
        """
        An index that goes backwards is not followed: read from 0 (V14; field report
        82).
        """
        self.watch.start()
        self.answer(Reading(50))
        self.block_and_answer(Reading(20))
        self.answer(Reading(20))

        self.assertEqual(self.reads, [(0, True), (50, False), (0, True), (20, False)])

    def test_older_state_is_told(self) -> None:
        """
        That Consul is in an older state, or may be, is told after what is under
        the key now, and the next read is from 0.
        """
        told: list[object] = []
        watch: Watch[Any] = Watch(
            self.clock,
            self.read,
            told.append,
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            rewound=told.append,
        )
        watch.start()
        newer, older = Reading(9, (entry(b"b"),)), Reading(7, (entry(b"a"),))
        self.answer(newer)
        self.clock.advance(1.0)
        self.answer(newer)
        self.clock.advance(REFILL_SECONDS)
        self.answer(older)

        self.assertEqual(told, [newer, Sign.EARLY, older, Sign.LOWER])
        self.assertEqual([index for index, _ in self.reads], [0, 9, 0, 0])
        self.successResultOf(watch.stop())
        self.pending = None

    def test_index_lower_after_a_failure(self) -> None:
        """
        What was read before a failure is compared with what is read after it.
        """
        told: list[object] = []
        watch: Watch[Any] = Watch(
            self.clock,
            self.read,
            lambda reading: None,
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            rewound=told.append,
        )
        watch.start()
        self.answer(Reading(9))
        self.answer(ConsulUnavailable("gone"))
        self.clock.advance(RETRY_STEPS[0] + REFILL_SECONDS)
        self.answer(Reading(7))

        self.assertEqual(told, [Sign.LOWER])
        self.successResultOf(watch.stop())
        self.pending = None

    def test_index_zero(self) -> None:
        """
        An index below 1 is 1: from 0 the read would not block (field report 84).
        """
        self.watch.start()
        self.answer(Reading(0))

        self.assertEqual(self.reads, [(0, True), (1, False)])

    def test_never_spins(self) -> None:
        """
        A server that answers at once is asked twice at once, and then once in a refill,
        with or without an index that moves (field report 93).
        """
        for moving in (0, 1):
            self.setUp()
            self.watch.start()
            index = 5
            for _ in range(BURST):
                self.answer(Reading(index))
                index += moving
            self.assertEqual(len(self.reads), BURST)
            for _ in range(200):
                if self.pending is not None:
                    self.answer(Reading(index))
                    index += moving
                self.clock.advance(REFILL_SECONDS / 4)

            self.assertLessEqual(len(self.reads), BURST + 50 + 1)
            self.assertGreaterEqual(len(self.reads), BURST + 49)
            self.successResultOf(self.watch.stop())

    def test_failure(self) -> None:
        """
        After a failure comes a pause, and a read from 0; the failure is told,
        and so is the recovery.
        """
        self.watch.start()
        self.answer(Reading(7))
        self.clock.advance(WAIT)
        self.answer(ConsulUnavailable("gone"))
        self.assertEqual(len(self.reads), 2)
        self.clock.advance(RETRY_STEPS[0])

        self.assertEqual(self.reads[2:], [(0, True)])
        self.assertEqual([str(e) for e in self.failures], ["gone"])
        self.assertEqual(self.recoveries, 0)
        self.answer(Reading(7))
        self.assertEqual(self.recoveries, 1)

    def test_back_off_on_another_clock(self) -> None:
        """
        Back-offs are waited out by the timers that are given for that, which may
        fire early, and nothing else is.
        """
        retries = Clock()
        watch: Watch[Any] = Watch(
            self.clock,
            self.read,
            self.changes.append,
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            retries=retries,
        )
        watch.start()
        self.answer(ConsulUnavailable("gone"))
        self.clock.advance(100.0)
        self.assertEqual(len(self.reads), 1)

        retries.advance(RETRY_STEPS[0])

        self.assertEqual(self.reads, [(0, True), (0, True)])
        for index in range(BURST):
            self.answer(Reading(7 + index))
        self.clock.advance(REFILL_SECONDS)
        self.assertEqual(retries.getDelayedCalls(), [])
        self.successResultOf(watch.stop())

    def test_counted(self) -> None:
        """
        Answers are counted, those without a change apart, and so are failures;
        a watch that begins anew goes on counting.
        """
        tally = WatchTally()
        watch: Watch[Any] = Watch(
            self.clock,
            self.read,
            self.changes.append,
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            tally=tally,
        )
        for _ in range(2):
            watch.start()
            self.answer(Reading(7, (entry(b"a"),)))
            self.block_and_answer(Reading(9, (entry(b"a"),)))
            self.clock.advance(WAIT)
            self.answer(ConsulUnavailable("gone"))
            self.successResultOf(watch.stop())

        self.assertEqual(tally, WatchTally(wakes=4, unchanged=2, failures=2))

    def test_long_outage(self) -> None:
        """
        A long outage is told once a step, and asked every five seconds.
        """
        self.watch.start()
        with capture_logs() as logs:
            for _ in range(1000):
                if self.pending is not None:
                    self.answer(ConsulUnavailable("gone"))
                self.clock.advance(0.05)
            while self.pending is None:
                self.clock.advance(0.05)
            reads = len(self.reads)
            for _ in range(5):
                self.answer(ConsulUnavailable("gone"))
                self.clock.advance(RETRY_STEPS[-1] - 0.01)
                self.assertEqual(self.pending, None)
                self.clock.advance(0.01)

        self.assertEqual(len(self.failures), len(RETRY_STEPS))
        self.assertEqual(len(logs), len(RETRY_STEPS))
        self.assertEqual(len(self.reads), reads + 5)

    def test_forgetful_backoff(self) -> None:
        """
        Each outage begins with the first step.
        """
        self.watch.start()
        for _ in range(2):
            self.answer(ConsulUnavailable("gone"))
            self.clock.advance(RETRY_STEPS[0])
            self.answer(Reading(5))
            self.clock.advance(WAIT)

        self.assertEqual(len(self.failures), 2)
        self.assertEqual(self.recoveries, 2)

    def test_any_error_of_a_read(self) -> None:
        """
        No type of error ends a watch, raised or by Deferred (field report
        11).
        """
        for error in (ValueError("x"), CancelledError(), KeyError("x")):
            self.setUp()
            self.watch.start()
            with capture_logs():
                self.answer(error)
            self.clock.advance(REFILL_SECONDS)
            self.answer(Reading(3))
            self.assertEqual(self.changes, [Reading(3)])
            self.successResultOf(self.watch.stop())

    def test_read_raises(self) -> None:
        """
        A read that raises is a read that fails.
        """

        def read(index: int, wait: float, consistent: bool) -> Deferred[Reading]:
            raise ZeroDivisionError

        watch = Watch(
            self.clock,
            read,
            self.changes.append,
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            failed=self.failures.append,
        )
        with capture_logs():
            watch.start()

        self.assertIsInstance(self.failures[0], ZeroDivisionError)
        self.successResultOf(watch.stop())

    def test_change_not_accepted(self) -> None:
        """
        Content that made ``changed`` raise is given again, after a pause.
        """
        refusing = [True]

        def on_change(reading: Any) -> None:
            if refusing:
                refusing.pop()
                raise ValueError("not now")
            self.changes.append(reading)

        self.on_change = on_change
        self.watch.start()
        with capture_logs() as logs:
            self.answer(Reading(3))
        self.clock.advance(RETRY_STEPS[0])
        self.answer(Reading(3))

        self.assertEqual(self.changes, [Reading(3)])
        self.assertEqual([e["event"] for e in logs], ["watch-failed"])

    def test_observer_raises(self) -> None:
        """
        Whoever is told of failures cannot end the watch either.
        """

        def fall_over(error: Exception) -> None:
            raise ValueError("x")

        watch: Watch[Any] = Watch(
            self.clock,
            self.read,
            self.changes.append,
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            failed=fall_over,
        )
        watch.start()
        with capture_logs() as logs:
            self.answer(ConsulUnavailable("gone"))
        self.clock.advance(REFILL_SECONDS)
        self.answer(Reading(3))

        self.assertEqual(self.changes, [Reading(3)])
        self.assertIn("watch-observer-failed", [e["event"] for e in logs])
        self.successResultOf(watch.stop())

    def test_resync(self) -> None:
        """
        From time to time a cycle begins with a consistent read from 0 (field report
        107).
        """
        self.watch.start()
        self.answer(Reading(5))
        while len(self.reads) < 2 or self.reads[-1] != (0, True):
            self.block_and_answer(Reading(5))

        self.assertEqual(self.clock.seconds(), RESYNC_SECONDS)
        self.answer(Reading(5))
        self.assertEqual(self.reads[-1], (5, False))

    def test_idle_cost(self) -> None:
        """
        An idle watch costs about two requests a minute.
        """
        self.watch.start()
        self.answer(Reading(5))
        self.reads.clear()
        began = self.clock.seconds()
        while self.clock.seconds() - began < 3600:
            if self.reads and self.reads[-1][0] == 0:
                self.answer(Reading(5))
            else:
                self.block_and_answer(Reading(5))

        self.assertLessEqual(len(self.reads) / 60, 2.3)

    def test_restart(self) -> None:
        """
        A restart gives up the read under way, and reads from 0 at once.
        """
        self.watch.start()
        self.answer(Reading(5))
        self.clock.advance(WAIT)

        self.watch.restart()

        self.assertEqual(self.cancelled, 1)
        self.assertEqual(self.reads, [(0, True), (5, False), (0, True)])
        self.assertEqual(self.failures, [])

    def test_restart_while_backing_off(self) -> None:
        """
        A restart ends a pause.
        """
        self.watch.start()
        self.answer(ConsulUnavailable("gone"))

        self.watch.restart()

        self.assertEqual(len(self.reads), 2)

    def test_restarts_do_not_spin(self) -> None:
        """
        Not even restarts make it ask without end.
        """
        self.watch.start()
        for _ in range(50):
            self.watch.restart()

        self.assertEqual(len(self.reads), BURST)

    def test_restart_of_an_idle_one(self) -> None:
        """
        There is nothing to restart in a watch that does not run.
        """
        self.watch.restart()
        self.assertEqual(self.reads, [])

    def test_stop(self) -> None:
        """
        Stopping cancels the read and tells whoever started it; doing it again
        changes nothing.
        """
        started = self.watch.start()
        self.assertTrue(self.watch.running)

        self.assertIsNone(self.successResultOf(self.watch.stop()))

        self.assertIsNone(self.successResultOf(started))
        self.assertIsNone(self.successResultOf(self.watch.stop()))
        self.assertEqual(self.cancelled, 1)
        self.assertFalse(self.watch.running)
        self.assertEqual(self.failures, [])

    def test_stop_while_backing_off(self) -> None:
        """
        Stopping ends a pause, and nothing is asked any more.
        """
        self.watch.start()
        self.answer(ConsulUnavailable("gone"))

        self.successResultOf(self.watch.stop())
        self.clock.advance(100)

        self.assertEqual(len(self.reads), 1)

    def test_stop_from_within(self) -> None:
        """
        It may be stopped by what it calls.
        """
        stopped: list[Deferred[None]] = []
        self.on_change = lambda reading: stopped.append(self.watch.stop())
        started = self.watch.start()
        self.answer(Reading(3))

        self.assertIsNone(self.successResultOf(stopped[0]))
        self.assertIsNone(self.successResultOf(started))
        self.assertEqual(len(self.reads), 1)

    def test_stop_from_a_failure(self) -> None:
        """
        It may be stopped by what it tells of a failure, and does not first
        wait.
        """
        stopped: list[Deferred[None]] = []
        watch: Watch[Any] = Watch(
            self.clock,
            self.read,
            self.changes.append,
            name="k",
            wait=WAIT,
            random=lambda: 1.0,
            failed=lambda error: stopped.append(watch.stop()),
        )
        watch.start()
        self.answer(ConsulUnavailable("gone"))

        self.assertIsNone(self.successResultOf(stopped[0]))

    def test_start_again(self) -> None:
        """
        A stopped watch may be started again, and tells what it finds again.
        """
        self.watch.start()
        self.answer(Reading(3))
        self.successResultOf(self.watch.stop())

        self.watch.start()
        self.clock.advance(REFILL_SECONDS)
        self.answer(Reading(3))

        self.assertEqual(self.changes, [Reading(3), Reading(3)])

    def test_start_twice(self) -> None:
        """
        A watch that runs is not started.
        """
        self.watch.start()
        self.assertRaises(RuntimeError, self.watch.start)

    def test_start_cancelled(self) -> None:
        """
        Whoever stops waiting for the end does not end it.
        """
        started = self.watch.start()
        started.cancel()

        self.failureResultOf(started, CancelledError)
        self.assertTrue(self.watch.running)

    def test_age(self) -> None:
        """
        It knows how old its knowledge is.
        """
        self.assertIsNone(self.watch.age)
        self.assertIsNone(self.watch.reading)
        self.watch.start()
        self.answer(Reading(3))
        self.clock.advance(12)

        self.assertEqual(self.watch.age, 12)
