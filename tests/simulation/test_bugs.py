"""
Deliberate bugs are found, and found because they are there.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.term import Term

from .bugs import BUGS, Bug
from .findings import SEEDS
from .play import play
from .schedule import Schedule


class BugTests(SynchronousTestCase):
    """
    The finding seed of each bug.
    """

    def assert_found(self, name: str) -> None:
        """
        Check that its seed finds a bug, and holds without it.
        """
        schedule = Schedule.of(SEEDS[name])
        with BUGS[name].planted():
            with_it = play(schedule)
        without = play(schedule)

        self.assertIsNotNone(with_it.breach, f"seed {schedule.seed} misses {name}")
        self.assertIsNone(without.breach)

    def test_no_session_fence(self) -> None:
        """
        A leader that writes without holding the leader key is found (G2).
        """
        self.assert_found("no-session-fence")

    def test_no_term_cas(self) -> None:
        """
        A write that lands out of its turn is found (G2).
        """
        self.assert_found("no-term-cas")


class PlantedTests(SynchronousTestCase):
    """
    Planting bugs.
    """

    def test_seeds_are_of_bugs(self) -> None:
        """
        There are nine bugs, and every seed that is kept is of one of them.
        """
        self.assertEqual(len(BUGS), 9)
        self.assertLessEqual(set(SEEDS), set(BUGS))

    def test_taken_out(self) -> None:
        """
        A bug is there as long as its context lasts, also if that ends badly.
        """
        healthy = Term.over
        bug = Bug("x", "", lambda: ((Term, "over", True),))
        with self.assertRaises(ZeroDivisionError), bug.planted():
            planted = Term.over
            raise ZeroDivisionError

        self.assertEqual((planted, Term.over), (True, healthy))

    def test_nothing_to_change(self) -> None:
        """
        A bug that would change what is not there is an error.
        """
        bug = Bug("x", "", lambda: ((Term, "no_such_thing", True),))

        with self.assertRaises(KeyError), bug.planted():
            pass
