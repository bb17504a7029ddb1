"""
Tests for the thread that watches over the reactor.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Any, cast

from structlog.testing import capture_logs
from twisted.internet.interfaces import IReactorFromThreads
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.watchdog import (
    ASKED_AGAIN_SECONDS,
    ASKED_BEFORE_SECONDS,
    LATE_SECONDS,
    PATIENCE_SECONDS,
    SILENT_SECONDS,
    Watchdog,
)

IDLE = 0.5


class Reactor:
    """
    A reactor that is alive, or is not.

    :ivar blocked: whether it calls nothing.
    :ivar asked: how often it was asked for something.
    """

    def __init__(self) -> None:
        self.blocked = False
        self.asked = 0

    def callFromThread(  # noqa: N802 (Twisted's name)
        self, callable: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        """
        Call at once, or never.
        """
        self.asked += 1
        if not self.blocked:
            callable(*args, **kw)


class LookTests(SynchronousTestCase):
    """
    Tests of :meth:`Watchdog.look`, on a clock of the test's.
    """

    def setUp(self) -> None:
        """
        Have work under a lease that ends in three seconds.
        """
        self.logs: list[Any] = self.enterContext(capture_logs())
        self.reactor = Reactor()
        self.now = 1000.0
        self.deadline: float | None = 1003.0
        self.here: Collection[str] = ("x", "w")
        self.ended_at: list[float] = []
        self.looks = 0
        self.watchdog = Watchdog(
            cast(IReactorFromThreads, self.reactor),
            lambda: self.now,
            lambda: self.deadline,
            lambda: self.unstopped(),
            IDLE,
            self.end,
        )
        self.watchdog._due = self.now

    def unstopped(self) -> Collection[str]:
        """
        Give what has not stopped.
        """
        return self.here

    def end(self, last_words: Callable[[], object]) -> None:
        """
        End the process, as it were.
        """
        last_words()
        self.ended_at.append(self.now)

    def run_until(self, until: float) -> None:
        """
        Look as often as the thread would, up to that time or the end.
        """
        while not self.ended_at:
            wait = self.watchdog.look()
            self.looks += 1
            self.assertGreater(wait, 0.0)
            if self.now + wait > until:
                break
            self.now += wait

    def test_blocked(self) -> None:
        """
        A blocked reactor with work that has not stopped ends with the lease, no
        sooner, and says what is still here.
        """
        self.reactor.blocked = True

        self.run_until(1010.0)

        (ended_at,) = self.ended_at
        self.assertGreaterEqual(ended_at, 1003.0)
        self.assertLess(ended_at, 1003.0 + SILENT_SECONDS)
        (said,) = self.logs
        self.assertEqual(
            (said["event"], said["log_level"]), ("reactor-blocked", "critical")
        )
        self.assertEqual((said["items"], said["some"]), (2, ["w", "x"]))

    def test_blocked_soon_after_a_sign(self) -> None:
        """
        A reactor that is blocked right after a sign of life ends as soon as it
        is known to be.
        """
        self.run_until(1002.99)
        self.reactor.blocked = True

        self.run_until(1010.0)

        (ended_at,) = self.ended_at
        self.assertLess(ended_at, 1003.0 + SILENT_SECONDS + 2 * ASKED_AGAIN_SECONDS)

    def test_alive(self) -> None:
        """
        A reactor that is alive is left alone, whatever becomes of the work.
        """
        self.run_until(1010.0)

        self.assertEqual((self.ended_at, self.logs), ([], []))

    def test_blocked_for_a_moment(self) -> None:
        """
        A reactor that gives its sign in time is alive.
        """
        self.reactor.blocked = True
        self.run_until(1002.99)
        self.watchdog._sign.set()
        self.reactor.blocked = False

        self.run_until(1010.0)

        self.assertEqual(self.ended_at, [])

    def test_asked_late(self) -> None:
        """
        A reactor that is first asked after the deadline has a moment to answer
        too.
        """
        self.reactor.blocked = True
        self.now = self.watchdog._due = 1003.0
        for _ in range(2):
            self.now += self.watchdog.look()
        self.watchdog._sign.set()
        self.reactor.blocked = False

        self.run_until(1010.0)

        self.assertEqual(self.ended_at, [])

    def test_extended(self) -> None:
        """
        While the lease is extended it sleeps until it would end, and nobody is
        asked anything.
        """
        self.reactor.blocked = True
        for _ in range(10):
            self.assertAlmostEqual(
                self.watchdog.look(), self.deadline_left() - ASKED_BEFORE_SECONDS
            )
            self.now += 2.5
            self.watchdog._due = self.now
            assert self.deadline is not None
            self.deadline += 2.5

        self.assertEqual((self.ended_at, self.reactor.asked), ([], 0))

    def deadline_left(self) -> float:
        """
        Give the seconds left of the lease.
        """
        assert self.deadline is not None
        return self.deadline - self.now

    def test_extended_at_the_last_moment(self) -> None:
        """
        A lease that is extended once the reactor has been asked is no end, and
        what was unanswered then does not count later.
        """
        self.reactor.blocked = True
        self.run_until(1002.98)
        self.deadline = 1006.0
        self.reactor.blocked = False

        self.run_until(1006.5)

        self.assertEqual(self.ended_at, [])

    def test_nothing_here(self) -> None:
        """
        Without work, a blocked reactor is nobody's danger.
        """
        self.reactor.blocked = True
        self.here = ()

        self.run_until(1010.0)

        self.assertEqual((self.ended_at, self.reactor.asked), ([], 0))

    def test_no_lease(self) -> None:
        """
        Before there is a lease it looks for one now and then.
        """
        self.deadline = None

        self.assertEqual(self.watchdog.look(), IDLE)

    def test_work_changes_meanwhile(self) -> None:
        """
        Work that changes while it is looked at proves the reactor alive.
        """

        def changes() -> Collection[str]:
            raise RuntimeError("dictionary changed size during iteration")

        self.reactor.blocked = True
        self.unstopped = changes  # type: ignore[method-assign]  # for this test

        self.run_until(1010.0)

        self.assertEqual(self.ended_at, [])

    def test_wakes_late(self) -> None:
        """
        After a pause of the whole process the reactor is given time to wake up
        too; Note [A thread that wakes late].
        """
        self.reactor.blocked = True
        self.run_until(1002.0)
        self.now = 1010.0

        self.run_until(1010.0 + PATIENCE_SECONDS - 0.01)
        self.assertEqual(self.ended_at, [])
        self.run_until(1020.0)

        self.assertEqual(len(self.ended_at), 1)
        self.assertAlmostEqual(self.ended_at[0], 1010.0 + PATIENCE_SECONDS)

    def test_wakes_late_and_well(self) -> None:
        """
        A reactor that gives a sign after a pause is left alone.
        """
        self.run_until(1002.0)
        self.now = 1010.0

        self.run_until(1020.0)

        self.assertEqual(self.ended_at, [])

    def test_a_little_late(self) -> None:
        """
        The usual delays of a busy machine are no pause.
        """
        self.reactor.blocked = True
        self.run_until(1002.0)
        self.now = self.watchdog._due + 0.9 * LATE_SECONDS

        self.run_until(1020.0)

        self.assertLess(self.ended_at[0], 1003.0 + 2 * SILENT_SECONDS)

    def test_looks_seldom(self) -> None:
        """
        When all is well it looks about once for each lease.
        """
        for _ in range(20):
            self.run_until(self.now + 1.0)
            self.deadline = self.now + 3.0

        self.assertLess(self.looks, 60)


class ThreadTests(SynchronousTestCase):
    """
    Tests of the thread itself.
    """

    def setUp(self) -> None:
        """
        Have a reactor that is blocked, and no lease.
        """
        self.logs: list[Any] = self.enterContext(capture_logs())
        self.reactor = Reactor()
        self.reactor.blocked = True
        self.deadline: float | None = None
        self.ended = threading.Event()
        self.watchdog = Watchdog(
            cast(IReactorFromThreads, self.reactor),
            time.monotonic,
            lambda: self.deadline,
            lambda: ("x",),
            0.005,
            self.end,
        )

    def end(self, last_words: Callable[[], object]) -> None:
        """
        End the process, as it were.
        """
        if not self.ended.is_set():
            last_words()
            self.ended.set()

    def watchdogs(self) -> list[threading.Thread]:
        """
        Give the threads there are.
        """
        return [t for t in threading.enumerate() if t.name == "voltha-coord-watchdog"]

    def test_ends(self) -> None:
        """
        The thread finds the end of a lease, and tells where the thread that
        started it is blocked.
        """
        self.watchdog.startService()
        self.addCleanup(self.watchdog.stopService)
        self.deadline = time.monotonic()

        self.assertTrue(self.ended.wait(30))

        (said,) = self.logs
        self.assertRegex(" ".join(said["blocked_in"]), r"threading\.py:\d+ in wait")

    def test_stopped(self) -> None:
        """
        Stopped, at once and twice, and started again, it leaves no thread.
        """
        self.watchdog.stopService()
        for _ in range(2):
            self.watchdog.startService()
            self.assertEqual(len(self.watchdogs()), 1)
            self.watchdog.stopService()
            self.watchdog.stopService()
            self.assertEqual(self.watchdogs(), [])
