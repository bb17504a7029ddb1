"""
Tests for the timer that concludes nothing from having slept.
"""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.wakeful import FIRST_CHANCE_SECONDS, SLEPT_SECONDS, WakefulTimer


class WakefulTimerTests(SynchronousTestCase):
    """
    Note [A process that slept].
    """

    def setUp(self) -> None:
        """
        Have a timer.
        """
        self.clock = Clock()
        self.called_at: list[float] = []
        self.timer = WakefulTimer(
            self.clock, lambda: self.called_at.append(self.clock.seconds())
        )

    def test_on_time(self) -> None:
        """
        It calls at the time it is set to, once; and tells when that will be.
        """
        self.assertIsNone(self.timer.due)
        self.timer.at(3.0)
        self.assertEqual(self.timer.due, 3.0)
        self.clock.pump([1.0] * 5)

        self.assertEqual((self.called_at, self.timer.due), ([3.0], None))

    def test_a_little_late(self) -> None:
        """
        The delays of a busy process are no sleep.
        """
        self.timer.at(3.0)
        self.clock.advance(3.0 + SLEPT_SECONDS)

        self.assertEqual(len(self.called_at), 1)

    def test_slept(self) -> None:
        """
        After a sleep it is set once more, and then calls; or once more after the
        next sleep.
        """
        self.timer.at(3.0)
        for _ in range(2):
            self.clock.advance(100.0)
            self.assertEqual(self.called_at, [])
            self.assertEqual(
                self.timer.due, self.clock.seconds() + FIRST_CHANCE_SECONDS
            )
        self.clock.advance(FIRST_CHANCE_SECONDS)

        self.assertEqual(self.called_at, [200.0 + FIRST_CHANCE_SECONDS])

    def test_past(self) -> None:
        """
        A time that is past is now; one that is long past was slept through.
        """
        self.clock.advance(100.0)
        self.timer.at(100.0 - SLEPT_SECONDS)
        self.assertEqual(self.timer.due, 100.0)
        self.clock.advance(0)
        self.timer.at(50.0)
        self.clock.pump([1.0] * 20)

        self.assertEqual(self.called_at, [100.0, 100.0 + FIRST_CHANCE_SECONDS])

    def test_set_again(self) -> None:
        """
        The time it was last set to counts.
        """
        self.timer.at(3.0)
        self.timer.at(5.0)
        self.clock.pump([1.0] * 9)

        self.assertEqual(self.called_at, [5.0])

    def test_cancelled(self) -> None:
        """
        Cancelled, also twice, it calls nothing and leaves nothing.
        """
        self.timer.at(3.0)
        self.timer.cancel()
        self.timer.cancel()

        self.assertIsNone(self.timer.due)
        self.assertEqual(self.clock.getDelayedCalls(), [])
