"""
Tests for the timers of whoever waits to try again.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from voltha_coord.consul.retries import (
    REST_SECONDS,
    SPREAD_SECONDS,
    RetryTimers,
)


class RetryTimersTests(SynchronousTestCase):
    """
    Timers that may be made to fire early.
    """

    def setUp(self) -> None:
        """
        Make some timers on a clock that has run for a while.
        """
        self.clock = Clock()
        self.clock.advance(100.0)
        self.draws = [0.5]
        self.timers = RetryTimers(self.clock, self.draw)
        self.fired: list[tuple[float, Any]] = []

    def draw(self) -> float:
        """
        Give the next random number, the last one again and again.
        """
        return self.draws.pop(0) if len(self.draws) > 1 else self.draws[0]

    def wait(self, seconds: float, name: str = "a") -> Any:
        """
        Set a timer.
        """
        return self.timers.callLater(seconds, self.fire, name)

    def fire(self, name: str) -> None:
        """
        Note when a timer fires.
        """
        self.fired.append((round(self.clock.seconds() - 100.0, 3), name))

    def pass_time(self, seconds: float) -> None:
        """
        Let time go by in small steps.
        """
        self.clock.pump([0.01] * round(seconds / 0.01))

    def test_provides(self) -> None:
        """
        They are a clock like another, and tell its time.
        """
        self.assertTrue(verifyObject(IReactorTime, self.timers))
        self.assertEqual(self.timers.seconds(), 100.0)

    def test_fire_in_time(self) -> None:
        """
        While nothing happens a timer fires when it is due, with what it was
        given, and not before.
        """
        self.wait(5.0)
        self.pass_time(4.9)
        self.assertEqual(self.fired, [])
        self.pass_time(0.2)

        self.assertEqual(self.fired, [(5.0, "a")])
        self.assertEqual(self.timers.getDelayedCalls(), ())

    def test_hastened(self) -> None:
        """
        Once Consul answers, each fires within the spread, at a moment of its
        own, and once (field report 137).
        """
        self.draws = [0.2, 0.8]
        self.wait(5.0, "a")
        self.wait(3.0, "b")
        self.pass_time(1.0)
        self.timers.hasten()
        self.pass_time(10.0)

        first, second = 1.0 + 0.2 * SPREAD_SECONDS, 1.0 + 0.8 * SPREAD_SECONDS
        self.assertEqual([name for _, name in self.fired], ["a", "b"])
        self.assertAlmostEqual(self.fired[0][0], first, delta=0.011)
        self.assertAlmostEqual(self.fired[1][0], second, delta=0.011)

    def test_never_later(self) -> None:
        """
        A timer that is about to fire is not put off.
        """
        self.wait(0.05)
        self.timers.hasten()
        self.pass_time(1.0)

        self.assertEqual(self.fired, [(0.05, "a")])

    def test_not_for_each_answer(self) -> None:
        """
        One that is set after others were hastened is not, for a while: a Consul
        that answers one request and not the next is not asked in a storm.
        """
        self.timers.hasten()
        self.wait(5.0)
        self.timers.hasten()
        self.pass_time(REST_SECONDS - 0.1)
        self.timers.hasten()
        self.assertEqual(self.fired, [])
        self.pass_time(0.2)
        self.timers.hasten()
        self.pass_time(SPREAD_SECONDS)

        self.assertEqual(len(self.fired), 1)

    def test_cancelled(self) -> None:
        """
        A timer that was cancelled does not fire, hastened or not.
        """
        self.wait(5.0).cancel()
        self.timers.hasten()
        self.pass_time(6.0)

        self.assertEqual(self.fired, [])

    def test_forgets_what_is_over(self) -> None:
        """
        However many were set, it remembers about those that wait.
        """
        self.wait(500.0)
        for _ in range(1000):
            self.wait(1.0).cancel()
            self.wait(0.01)
            self.clock.advance(0.02)

        self.assertLess(len(self.timers._calls), 100)
        self.assertEqual(len(self.timers.getDelayedCalls()), 1)
