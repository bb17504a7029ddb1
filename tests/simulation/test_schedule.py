"""
Schedules as data: drawn, written down, shortened.
"""

from __future__ import annotations

import json
from random import Random

from attrs import evolve, fields
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.records import WorkItem

from .cast import LEADERS, RESOURCE, Cast
from .faults import KINDS, from_json
from .faults.fault import draw_fault
from .laws import Breach
from .play import Outcome
from .schedule import TROUBLE_SECONDS, Schedule
from .shorten import Shortener


class ScheduleTests(SynchronousTestCase):
    """
    What a seed gives.
    """

    def test_seed(self) -> None:
        """
        A seed gives one schedule, and another one another.
        """
        self.assertEqual(Schedule.of(5), Schedule.of(5))
        self.assertNotEqual(Schedule.of(5).faults, Schedule.of(6).faults)

    def test_order(self) -> None:
        """
        Faults come in the order of time, numbered, before the trouble is over.
        """
        for number in range(50):
            faults = Schedule.of(number, LEADERS[number % 2]).faults

            self.assertEqual([f.number for f in faults], [*range(len(faults))])
            self.assertEqual(sorted(f.at for f in faults), [f.at for f in faults])
            self.assertLess(faults[-1].at, TROUBLE_SECONDS)

    def test_every_kind(self) -> None:
        """
        Every kind of fault is drawn.
        """
        for leader in LEADERS:
            schedules = [Schedule.of(seed, leader) for seed in range(200)]
            drawn = {f.kind for schedule in schedules for f in schedule.faults}
            kinds = {n for n, cls in KINDS.items() if cls.leader in ("", leader)}

            self.assertEqual(drawn, kinds)

    def test_written_down(self) -> None:
        """
        What is written down is read back as it was, and named in full.
        """
        for seed in range(50):
            schedule = Schedule.of(seed, LEADERS[seed % 2])

            self.assertEqual(Schedule.from_json(schedule.to_json()), schedule)

    def test_written_down_before(self) -> None:
        """
        What was written down before there was more than one leader is read.
        """
        schedule = Schedule.of(5)
        data = json.loads(schedule.to_json())
        del data["leader"], data["cast"]["values"]

        self.assertEqual(Schedule.from_json(json.dumps(data)), schedule)

    def test_by_resources(self) -> None:
        """
        Under the leader that looks at resources all that is drawn otherwise happens
        as well, and every item says what it may use.
        """
        plain, more = Schedule.of(5), Schedule.of(5, RESOURCE)
        kept = [f for f in more.faults if f.leader != RESOURCE]

        self.assertEqual(
            [evolve(f, number=n) for n, f in enumerate(kept)], list(plain.faults)
        )
        self.assertGreater(len(more.faults), len(kept))
        self.assertEqual(set(more.cast.values), set(more.cast.work))
        for item, value in more.cast.values.items():
            limits = WorkItem.from_value(item, value.encode()).limits
            self.assertEqual(set(limits), {"cpu", "memory"})

    def test_left_out(self) -> None:
        """
        Some faults can be left out; the others are as they were.
        """
        schedule = Schedule.of(5)
        third = schedule.faults[2]

        self.assertEqual(schedule.only([2]).faults, (third,))
        self.assertEqual(schedule.before(third.at).faults[-1], third)

    def test_lines(self) -> None:
        """
        A schedule is told in words: everybody, and every fault.
        """
        schedule = Schedule.of(5)
        text = "\n".join(schedule.lines)

        for word in (*schedule.cast.names, *(str(f) for f in schedule.faults)):
            self.assertIn(word, text)


class FaultTests(SynchronousTestCase):
    """
    Kinds of faults.
    """

    def test_each(self) -> None:
        """
        Each kind is drawn, told with all its details, written and read back.
        """
        random = Random(1)
        cast = Cast.draw(random)
        for name, cls in KINDS.items():
            fault = draw_fault(cls, random, cast, 7, 12.5, "b")

            self.assertEqual(from_json(fault.to_json()), fault)
            self.assertTrue(str(fault).startswith(name))
            for one in fields(cls):
                if one.name not in ("number", "at", "lasts"):
                    self.assertIn(f"{one.name}={getattr(fault, one.name)}", str(fault))


class ShortenerTests(SynchronousTestCase):
    """
    Shortening a schedule that fails.
    """

    def play(self, schedule: Schedule) -> Outcome:
        """
        Fail by the third and the tenth fault together; by the fifth otherwise.
        """
        self.played += 1
        numbers = schedule.numbers
        breach = None
        if 3 in numbers and 10 in numbers:
            breach = Breach(schedule.faults[-1].at, "G1", "two lead")
        elif 5 in numbers:
            breach = Breach(1.0, "G7", "nobody leads")
        return Outcome(schedule, breach, None, 1e6, 0.0)  # type: ignore[arg-type]

    def setUp(self) -> None:
        """
        Take a schedule with many faults.
        """
        self.played = 0
        seeds = map(Schedule.of, range(100))
        self.schedule = next(s for s in seeds if len(s.faults) > 60)
        self.failed = evolve(self.play(self.schedule), seconds=self.schedule.trouble)

    def test_shortest(self) -> None:
        """
        What is left is what it takes to break the same law.
        """
        short = Shortener(self.play).shorten(self.failed)

        self.assertEqual(short.schedule.numbers, (3, 10))
        assert short.breach is not None
        self.assertEqual(short.breach.law, "G1")

    def test_enough(self) -> None:
        """
        It is given up after so many tries, with the best there is.
        """
        self.played = 0
        shortener = Shortener(self.play, most=5)
        short = shortener.shorten(self.failed)

        self.assertEqual((self.played, shortener.plays), (5, 5))
        self.assertLess(len(short.schedule.faults), len(self.schedule.faults))

    def test_after_the_breach(self) -> None:
        """
        What happened after the breach is left out first.
        """
        at = self.schedule.faults[20].at
        early = evolve(self.failed, seconds=at)
        short = Shortener(self.play, most=1).shorten(early)

        self.assertEqual(short.schedule.numbers[-1], 20)
