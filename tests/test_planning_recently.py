"""
What is kept of one pass for the next, and that it does not grow.
"""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.placing import ResourcePlanner
from voltha_coord.planning.recently import Recent, remembered

from .support.resourceful import item, resourceful


class RecentTests(SynchronousTestCase):
    """
    One memory.
    """

    def setUp(self) -> None:
        """
        Remember nothing.
        """
        self.recent: Recent[int] = Recent()
        self.made: list[int] = []

    def ask(self, number: int) -> int:
        """
        Ask for the square of a number.
        """

        def square(number: int) -> int:
            self.made.append(number)
            return number * number

        return self.recent.get(number, square, number)

    def test_made_once(self) -> None:
        """
        What is asked for again is not made again, in this turn nor in the next
        one.
        """
        answers = [self.ask(3), self.ask(3)]
        self.recent.turn()
        answers += [self.ask(3), self.ask(3)]

        self.assertEqual((answers, self.made), ([9, 9, 9, 9], [3]))
        self.assertEqual(len(self.recent), 1)

    def test_kept_while_it_is_used(self) -> None:
        """
        What is asked for in each turn is made once, for ever.
        """
        for _ in range(5):
            self.ask(3)
            self.recent.turn()

        self.assertEqual(self.made, [3])

    def test_forgotten(self) -> None:
        """
        What is not asked for in two turns is forgotten.
        """
        self.ask(3)
        self.recent.turn()
        self.ask(4)
        self.recent.turn()

        self.assertEqual(len(self.recent), 1)
        self.ask(3)
        self.assertEqual(self.made, [3, 4, 3])


class PlannerTests(SynchronousTestCase):
    """
    What a planner remembers.
    """

    def test_values_that_change(self) -> None:
        """
        Items that change from pass to pass take no more room for it.
        """
        state = resourceful({"m1": (7, 35)}, [item()])
        sizes = []
        for number in range(20):
            work = {"w1": item(metadata={"at": number}).encode()}
            ResourcePlanner().plan(evolve(state, work=work))
            sizes.append(remembered())

        self.assertEqual(len({*sizes[3:]}), 1)
