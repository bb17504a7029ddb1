"""
Tests for those who wait for the same thing.
"""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.waiters import Waiters


class WaitersTests(SynchronousTestCase):
    """
    A list of Deferreds that fire together.
    """

    def setUp(self) -> None:
        """
        Make one.
        """
        self.waiters: Waiters[str] = Waiters()

    def test_all_are_told_once(self) -> None:
        """
        Everybody who waits is told, and nobody twice (V11).
        """
        one, two = self.waiters.wait(), self.waiters.wait()

        self.waiters.fire("a")
        self.waiters.fire("b")

        self.assertEqual(self.successResultOf(one), "a")
        self.assertEqual(self.successResultOf(two), "a")
        self.assertEqual(len(self.waiters), 0)

    def test_fail_gives_each_an_error_of_its_own(self) -> None:
        """
        Everybody who waits is told that it will not happen.
        """
        one, two = self.waiters.wait(), self.waiters.wait()

        self.waiters.fail(lambda: ValueError("no"))

        errors = [self.failureResultOf(d, ValueError).value for d in (one, two)]
        self.assertIsNot(errors[0], errors[1])

    def test_waiting_again_from_within_waits_for_the_next(self) -> None:
        """
        Whoever waits again while being told waits for the next time.
        """
        again = []
        self.waiters.wait().addCallback(lambda _: again.append(self.waiters.wait()))

        self.waiters.fire("a")

        self.assertNoResult(again[0])
        self.assertEqual(len(self.waiters), 1)

    def test_cancelled_leaves(self) -> None:
        """
        Who is cancelled is told no more.
        """
        one = self.waiters.wait()

        one.cancel()
        self.waiters.fire("a")

        self.failureResultOf(one, CancelledError)

    def test_cancelled_by_another_while_being_told(self) -> None:
        """
        Who is cancelled by another that was told first is no error for anyone.
        """
        one, two, three = (self.waiters.wait() for _ in range(3))
        one.addCallback(lambda _: two.cancel())

        self.waiters.fire("a")

        self.successResultOf(one)
        self.failureResultOf(two, CancelledError)
        self.assertEqual(self.successResultOf(three), "a")

    def test_cancelled_by_another_while_failing(self) -> None:
        """
        The same when it will not happen.
        """
        one, two = self.waiters.wait(), self.waiters.wait()
        one.addErrback(lambda _: two.cancel())

        self.waiters.fail(lambda: ValueError("no"))

        self.successResultOf(one)
        self.failureResultOf(two, CancelledError)
