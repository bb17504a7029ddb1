"""
Tests for pauses between attempts, and what is said of them.
"""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.backoff import Backoff
from voltha_coord.pausing import SAY_AGAIN, Pausing

from .support.keeping import RecordingLog


class PausingTests(SynchronousTestCase):
    """
    One outage after the other.
    """

    def setUp(self) -> None:
        """
        Draw no jitter.
        """
        self.clock = Clock()
        self.log = RecordingLog()
        self.pausing = Pausing(self.clock.seconds, self.clock, self.log)
        self.backoff = Backoff(lambda: 1.0, (1.0, 2.0))

    def pause(self, patience: float = 0.0) -> float:
        """
        Wait out one pause, and give how long it took.
        """
        began = self.clock.seconds()
        waiting = self.pausing.pause(self.backoff, "away", ValueError("no"), patience)
        while not waiting.called:
            self.clock.advance(0.5)
        self.successResultOf(waiting)
        return self.clock.seconds() - began

    def test_steps(self) -> None:
        """
        Each step is waited out, and the last one again and again; each is said
        aloud once.
        """
        self.assertEqual([self.pause() for _ in range(4)], [1.0, 2.0, 2.0, 2.0])

        self.assertEqual(
            [level for level, *_ in self.log.said], 2 * ["error"] + 2 * ["debug"]
        )
        self.assertEqual(self.log.said[0][2], {"retry_in": 1.0, "error": "no"})

    def test_said_again(self) -> None:
        """
        An outage that lasts is said aloud again.
        """
        for _ in range(round(SAY_AGAIN / 2) + 2):
            self.pause()

        self.assertEqual(len(self.log.of("away", "error")), 3)

    def test_patience(self) -> None:
        """
        A pause that is no longer than usual is not said aloud.
        """
        self.pause(patience=1.5)
        self.pause(patience=1.5)

        self.assertEqual([level for level, *_ in self.log.said], ["debug", "error"])

    def test_cancelled(self) -> None:
        """
        A pause that is cancelled leaves no timer.
        """
        waiting = self.pausing.pause(self.backoff, "away", ValueError("no"))

        waiting.cancel()

        self.failureResultOf(waiting)
        self.assertEqual(self.clock.getDelayedCalls(), [])
