"""
Tests for whether Consul is in an older state than it was.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.history import History, Sign

WAIT = 30.0


class HistoryTests(SynchronousTestCase):
    """
    The indexes of one watch.
    """

    def setUp(self) -> None:
        """
        Begin with an answer at index 7.
        """
        self.history = History(WAIT)
        self.assertIs(self.history.note(0, 7, 0.01), Sign.NONE)

    def test_higher(self) -> None:
        """
        An index that rises is as it should be, however soon.
        """
        self.assertIs(self.history.note(7, 8, 0.0), Sign.NONE)

    def test_lower(self) -> None:
        """
        One that falls is of another history, whatever was asked for.
        """
        self.assertIs(self.history.note(7, 6, 40.0), Sign.LOWER)
        self.assertIs(self.history.note(0, 5, 0.01), Sign.LOWER)
        self.assertIs(self.history.note(5, 5, 31.0), Sign.NONE)

    def test_no_news_in_time(self) -> None:
        """
        The end of a wait is no sign; Consul adds up to a sixteenth to it.
        """
        for waited in (WAIT, WAIT * 17 / 16, WAIT):
            self.assertIs(self.history.note(7, 7, waited), Sign.NONE)

    def test_no_news_early(self) -> None:
        """
        The index asked for before the wait is over is a sign that Consul's state
        was replaced.
        """
        self.assertIs(self.history.note(7, 7, 2.0), Sign.EARLY)

    def test_read_from_the_beginning(self) -> None:
        """
        A read that does not wait is never early.
        """
        self.assertIs(self.history.note(0, 7, 0.0), Sign.NONE)

    def test_agent_with_a_limit(self) -> None:
        """
        What an agent cuts short is early once, and then usual; what is shorter
        still is early again.
        """
        signs = [self.history.note(7, 7, waited) for waited in (10.0, 10.5, 10.0, 3.0)]

        self.assertEqual(signs, [Sign.EARLY, Sign.NONE, Sign.NONE, Sign.EARLY])
