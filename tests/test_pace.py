"""
Tests for when a pass of the leader is due.
"""

from __future__ import annotations

import math

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.pace import Pace
from voltha_coord.settings import MOST_SOAKS


class PaceTests(SynchronousTestCase):
    """
    Wanting passes.
    """

    def setUp(self) -> None:
        """
        Have looked just now.
        """
        self.clock = Clock()
        self.pace = Pace(self.clock.seconds, 100.0)
        self.pace.looked(0.0)

    def test_nothing_wanted(self) -> None:
        """
        Where nobody wants one, the next pass is the one on a consistent
        snapshot; before the first of those it is due at once.
        """
        self.assertEqual((self.pace.due, self.pace.resync), (100.0, 100.0))
        self.assertEqual(Pace(self.clock.seconds, 100.0).due, -math.inf)

    def test_interval(self) -> None:
        """
        Where passes are regular one is due so many seconds after the last one
        began, whatever it looked at.
        """
        pace = Pace(self.clock.seconds, 100.0, 5.0)
        pace.looked(0.0)
        self.assertEqual(pace.due, 5.0)

        self.clock.advance(7.0)
        pace.begin()

        self.assertEqual((pace.due, pace.resync), (12.0, 100.0))

    def test_quiet(self) -> None:
        """
        A pass comes after a time of quiet: another change begins it anew.
        """
        self.pace.want(3.0)
        self.clock.advance(2.0)
        self.assertEqual(self.pace.due, 3.0)

        self.pace.want(3.0)

        self.assertEqual(self.pace.due, 5.0)

    def test_never_quiet(self) -> None:
        """
        Ever new changes hold it off for so many times that at most.
        """
        for _ in range(20):
            self.pace.want(3.0)
            self.clock.advance(2.0)

        self.assertEqual(self.pace.due, 3.0 * MOST_SOAKS)

    def test_sooner(self) -> None:
        """
        What is urgent is not held up by what is not, nor is it by what comes
        after it.
        """
        self.pace.want(3.0)
        self.pace.want(0.5)
        self.assertEqual(self.pace.due, 0.5)
        self.clock.advance(0.25)

        self.pace.want(3.0)

        self.assertEqual(self.pace.due, 0.75)

    def test_by_then(self) -> None:
        """
        A pass that is wanted by a time comes no later, whatever changes, and
        sooner if one is wanted sooner.
        """
        self.pace.want_by(2.0)
        self.clock.advance(1.5)
        self.pace.want(3.0)
        self.assertEqual(self.pace.due, 2.0)

        self.pace.want(0.25)

        self.assertEqual(self.pace.due, 1.75)

    def test_begins(self) -> None:
        """
        What was wanted before a pass began is in what it looks at.
        """
        self.pace.want(0.5)
        self.pace.want_by(1.0)

        self.pace.begin()

        self.assertEqual(self.pace.due, 100.0)
