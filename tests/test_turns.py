"""
Tests for :mod:`voltha_coord.turns`.
"""

from __future__ import annotations

import sys
from functools import partial

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.turns import Turns


class TurnsTests(SynchronousTestCase):
    """
    So many at a time.
    """

    def setUp(self) -> None:
        """
        Let two go ahead at a time.
        """
        self.turns = Turns(2)

    def test_so_many(self) -> None:
        """
        So many go ahead at once, and the next one when one of them is done.
        """
        first, second, third = (self.turns.take() for _ in range(3))

        self.successResultOf(first)
        self.successResultOf(second)
        self.assertNoResult(third)
        self.turns.give_back()
        self.successResultOf(third)

    @staticmethod
    def note(served: list[int], number: int, _: None) -> None:
        """
        Note who was served.
        """
        served.append(number)

    def test_first_come(self) -> None:
        """
        Who came first is served first.
        """
        served: list[int] = []
        for number in range(6):
            self.turns.take().addCallback(partial(self.note, served, number))
        for _ in range(4):
            self.turns.give_back()

        self.assertEqual(served, [0, 1, 2, 3, 4, 5])

    def test_leaving_the_line(self) -> None:
        """
        Who is cancelled while waiting leaves the line, and takes no turn.
        """
        for _ in range(2):
            self.turns.take()
        leaving, staying = self.turns.take(), self.turns.take()

        leaving.cancel()
        self.failureResultOf(leaving, CancelledError)
        self.turns.give_back()

        self.successResultOf(staying)
        self.assertEqual(len(self.turns), 0)

    def test_many_done_at_once(self) -> None:
        """
        Any number that are done as soon as they go ahead is no deep recursion,
        as it would be with Twisted's semaphore.
        """
        many = 3 * sys.getrecursionlimit()
        held: list[Deferred[None]] = [self.turns.take() for _ in range(2)]
        done: list[None] = []
        for _ in range(many):
            self.turns.take().addCallback(done.append).addCallback(
                lambda _: self.turns.give_back()
            )

        self.turns.give_back()

        self.assertEqual((len(held), len(done)), (2, many))
