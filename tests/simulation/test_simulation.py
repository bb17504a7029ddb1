"""
Many seeds of dense faults, at every run of the tests; and one history a seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import tests

from .cast import BALANCED, RESOURCE
from .play import Outcome, play
from .report import breach_lines
from .schedule import Schedule
from .shorten import Shortener

#: The seeds that every run of the tests plays …
SEEDS = range(200)

#: … and those it plays under the leader that looks at resources.
RESOURCE_SEEDS = range(25)

#: After so many breaches no more are looked for.
MOST_BREACHES = 3

#: Two minutes in the world, near enough.
MINUTES_A_SEED = 1.7


def _told(outcome: Outcome) -> str:
    shortener = Shortener(play)
    short = shortener.shorten(outcome)
    return "\n".join(breach_lines(outcome, short, shortener.plays))


class SimulationTests(SynchronousTestCase):
    """
    Whole clusters under faults.
    """

    timeout = 1800

    def test_holds(self) -> None:
        """
        Whatever happens, everything holds; and the schedules are no walk-over.
        """
        self.assert_holds(
            [Schedule.of(seed) for seed in SEEDS],
            {
                "fault": 20,
                "became-leader": 4,
                "created-consul-session": 8,
                "starts": 20,
            },
        )

    def test_by_resources(self) -> None:
        """
        So it is where items are placed by resources: moves are made ready, items
        are kept for members that are gone, stopped by order and started anew.
        """
        self.assert_holds(
            [Schedule.of(seed, RESOURCE) for seed in RESOURCE_SEEDS],
            {
                "fault": 30,
                "became-leader": 4,
                "starts": 20,
                "prepares": 3,
                "work-moves": 3,
                "work-kept": 1,
            },
        )

    def assert_holds(
        self, schedules: Sequence[Schedule], enough: Mapping[str, float]
    ) -> None:
        """
        Check that everything holds in all of them.

        :param enough: what is to happen more than so often in each, on average.
        """
        happened: Counter[str] = Counter()
        breaches = []
        seconds = cost = 0.0
        for schedule in schedules:
            outcome = play(schedule)
            seconds += outcome.seconds
            cost += outcome.cost
            for one in outcome.world.history:
                happened[one.what] += 1
                if one.what in ("info", "warning"):
                    happened[one.about[0]] += 1
            if outcome.breach is not None:
                breaches.append(outcome)
            if len(breaches) == MOST_BREACHES:
                break
        print(
            f"\n{len(schedules)} seeds: {seconds / 60:.0f} virtual minutes in "
            f"{cost:.0f} CPU seconds, {seconds / 60 / cost:.2f} virtual minutes "
            f"per CPU second",
            file=sys.stderr,
        )

        self.assertEqual("".join(map(_told, breaches)), "")
        self.assertGreater(seconds / 60, MINUTES_A_SEED * len(schedules))
        for what, least in enough.items():
            self.assertGreater(happened[what] / len(schedules), least, what)


class HistoryTests(SynchronousTestCase):
    """
    What one seed comes to.
    """

    def digest(self, seed: int, hash_seed: int, leader: str) -> str:
        """
        Give the digest of a seed's history in a process of its own.
        """
        root = str(Path(tests.__file__).parent.parent)
        path = os.pathsep.join([root, *filter(None, sys.path)])
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONPATH": path,
        }
        return subprocess.run(
            [
                sys.executable,
                *("-m", "tests.simulation", "digest", str(seed)),
                *("--leader", leader),
            ],
            env=environment,
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def test_same(self) -> None:
        """
        One seed gives one history, byte for byte, in processes that hash texts
        differently.
        """
        for seed, leader in ((1, BALANCED), (5, BALANCED), (10, RESOURCE)):
            # Three ways, as two may be alike by chance.
            digests = {self.digest(seed, seed + way, leader) for way in range(3)}
            self.assertEqual(len(digests), 1, seed)

    def test_other(self) -> None:
        """
        Another seed gives another one.
        """
        one, other = (play(Schedule.of(seed)).world.history.digest() for seed in (1, 2))

        self.assertNotEqual(one, other)


class RegressionTests(SynchronousTestCase):
    """
    Schedules in which something did not hold once.
    """

    def test_hold(self) -> None:
        """
        Everything holds in each of them by now.
        """
        found = sorted(Path(__file__).parent.glob("regressions/*.json"))
        self.assertGreater(len(found), 2)
        for path in found:
            outcome = play(Schedule.from_json(path.read_text()))

            self.assertIsNone(outcome.breach, path.name)
