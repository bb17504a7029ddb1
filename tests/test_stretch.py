"""
Tests for :mod:`voltha_coord.stretch`.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord._collector import MANY
from voltha_coord.stretch import LONGEST_SECONDS, Stretch


class StretchTests(SynchronousTestCase):
    """
    Some steps, each of which takes its time.
    """

    def setUp(self) -> None:
        """
        Nothing is done yet.
        """
        self.clock = Clock()
        self.stretch = Stretch(self.clock)
        self.done: list[float] = []

    def steps(self, *seconds: float) -> Generator[None, None, str]:
        """
        Take so many seconds for each step.
        """
        for taken in seconds:
            self.clock.rightNow += taken
            self.done.append(taken)
            yield
        return "all"

    def test_at_once(self) -> None:
        """
        What does not take long is done in one go.
        """
        doing = self.stretch.do(self.steps(0.01, 0.01, 0.01))

        self.assertEqual(self.successResultOf(doing), "all")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_others_have_their_turn(self) -> None:
        """
        What takes long is interrupted as often as it has been long.
        """
        long = LONGEST_SECONDS
        doing = self.stretch.do(self.steps(long, 0.01, long, 0.01))
        self.assertEqual(self.done, [long])

        self.clock.callLater(0, self.done.append, 0)
        self.clock.advance(0)

        self.assertEqual(self.successResultOf(doing), "all")
        self.assertEqual(self.done, [long, 0.01, long, 0, 0.01])

    def test_time_in_between(self) -> None:
        """
        What was done before, and what others do meanwhile, does not count.
        """
        self.clock.advance(9)
        doing = self.stretch.do(self.steps(LONGEST_SECONDS, 0.01, 0.01))
        self.clock.advance(9)

        self.assertEqual(self.successResultOf(doing), "all")

    def test_failing(self) -> None:
        """
        What a step raises is what it comes to.
        """

        def steps() -> Generator[None, None, None]:
            yield
            raise ZeroDivisionError

        self.failureResultOf(self.stretch.do(steps()), ZeroDivisionError)

    def test_cancelled(self) -> None:
        """
        Cancelled, no further step is done, and no timer is left.
        """
        doing = self.stretch.do(self.steps(LONGEST_SECONDS, 0.01))

        doing.cancel()

        self.failureResultOf(doing, CancelledError)
        self.assertEqual(len(self.done), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_collector(self) -> None:
        """
        Where a step makes very many values the collector rests meanwhile, and
        only then.
        """
        seen = []

        def steps() -> Generator[None, None, None]:
            seen.append(gc.isenabled())
            self.clock.rightNow += LONGEST_SECONDS
            yield
            seen.append(gc.isenabled())

        doing = self.stretch.do(steps(), MANY)
        self.assertTrue(gc.isenabled())
        self.clock.advance(0)

        self.successResultOf(doing)
        self.assertEqual(seen, [False, False])
        self.assertTrue(gc.isenabled())
