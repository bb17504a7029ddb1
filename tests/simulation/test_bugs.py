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
        schedule = Schedule.of(SEEDS[name], BUGS[name].leader)
        with BUGS[name].planted():
            with_it = play(schedule)
        without = play(schedule)

        assert with_it.breach is not None, f"seed {schedule.seed} misses {name}"
        self.assertNotEqual(with_it.breach.law, "defect")
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

    def test_reply_clock(self) -> None:
        """
        A lease that is counted from the reply is found: it lasts longer than Consul
        waits (G1).
        """
        self.assert_found("reply-clock")

    def test_release_first(self) -> None:
        """
        An owner record that is given back before the work has stopped is found (G3).
        """
        self.assert_found("release-first")

    def test_index_not_reset(self) -> None:
        """
        A watch that keeps an index from before Consul went back is found: it hears
        nothing any more (G7).
        """
        self.assert_found("index-not-reset")

    def test_no_demotion(self) -> None:
        """
        A leader that goes on when its session is made again is found (G1).
        """
        self.assert_found("no-demotion")

    def test_no_taking_over_rule(self) -> None:
        """
        Items that are taken over before their owner's lease is over are found (G3).
        """
        self.assert_found("no-taking-over-rule")

    def test_timer_on_key(self) -> None:
        """
        A wait for a predecessor that begins with the loss of its key, and not of its
        session, is found (G3).
        """
        self.assert_found("timer-on-key")

    def test_late_pass(self) -> None:
        """
        A lease that a late pass revives is found (G1).
        """
        self.assert_found("late-pass")

    def test_prepare_runs(self) -> None:
        """
        An item that is moved to a member which has not made it ready is found.
        """
        self.assert_found("prepare-runs")

    def test_kept_forgotten(self) -> None:
        """
        An item that is taken from a member that may come back is found.
        """
        self.assert_found("kept-forgotten")

    def test_order_unheard(self) -> None:
        """
        An item that runs although it is ordered to stop is found.
        """
        self.assert_found("order-unheard")


class PlantedTests(SynchronousTestCase):
    """
    Planting bugs.
    """

    def test_seeds_are_of_bugs(self) -> None:
        """
        There are twelve bugs, and a seed is kept, and a test is there, for each.
        """
        tests = {
            name.removeprefix("test_").replace("_", "-")
            for name in vars(BugTests)
            if name.startswith("test_")
        }

        self.assertEqual(len(BUGS), 12)
        self.assertEqual(set(SEEDS), set(BUGS))
        self.assertEqual(tests, set(BUGS))

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
