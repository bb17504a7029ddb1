"""
Tests for what is done when Consul is in an older state than it was.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord.consul.history import Sign
from voltha_coord.rewinding import ONCE_SECONDS, Rewinding


class RewindingTests(SynchronousTestCase):
    """
    Signs, and what follows from them.
    """

    def setUp(self) -> None:
        """
        Begin at some time.
        """
        self.now = 100.0
        self.looks = 0
        self.log = RecordingLog()
        self.rewinding = Rewinding(lambda: self.now, self.look_again, self.log)

    def look_again(self) -> None:
        """
        Count.
        """
        self.looks += 1

    @property
    def said(self) -> int:
        """
        How often it was said.
        """
        return len(self.log.of("consul-index-went-back", "warning"))

    def test_certain(self) -> None:
        """
        A lower index has everything read anew, and is said, once for all the
        watches that notice.
        """
        for _ in range(5):
            self.rewinding.noticed(Sign.LOWER)
            self.rewinding.noticed(Sign.EARLY)

        self.assertEqual((self.looks, self.said), (1, 1))

    def test_suspicion(self) -> None:
        """
        An early answer has everything read anew, and nothing is said.
        """
        for _ in range(5):
            self.rewinding.noticed(Sign.EARLY)

        self.assertEqual((self.looks, self.said), (1, 0))

    def test_suspicion_that_proves_right(self) -> None:
        """
        What is read then may show it: that is said, and has everything read once
        more; later suspicions of others are no news.
        """
        self.rewinding.noticed(Sign.EARLY)
        self.rewinding.noticed(Sign.LOWER)
        self.rewinding.noticed(Sign.EARLY)

        self.assertEqual((self.looks, self.said), (2, 1))

    def test_again(self) -> None:
        """
        Another time is another one.
        """
        self.rewinding.noticed(Sign.LOWER)
        self.now += ONCE_SECONDS
        self.rewinding.noticed(Sign.LOWER)

        self.assertEqual((self.looks, self.said), (2, 2))
