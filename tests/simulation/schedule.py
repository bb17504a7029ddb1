"""
A schedule: who plays, and what happens to them when.  All of it is data.

A seed gives a schedule.  What is drawn for one fault does not depend on the
others, so that some can be left out, and the rest is as it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from random import Random
from typing import Any

from attrs import evolve, frozen

from .cast import BALANCED, RESOURCE, Cast
from .faults import KINDS, Fault, from_json
from .faults.fault import draw_fault, listed

#: Trouble begins within so many seconds, and is over after so many.
FIRST_SECONDS = (2.0, 8.0)
TROUBLE_SECONDS = 74.0

#: How dense faults are: the mean pause between two, in seconds.
PAUSES = (0.5, 1.0, 1.0, 2.0, 4.0)

#: How many kinds of faults there are in one schedule: few, so that they meet.
VARIETY = (3, 4, 6, 8, 12, 99)

#: The same of the faults that only a leader by resources has to do with.
PLACING_PAUSES = (0.7, 2.0, 5.0)
PLACING_VARIETY = (2, 3, 4, 99)

#: How many schedules have a disaster in them, as a share.
DISASTERS = 0.12


@frozen
class Schedule:
    """
    One run, as it is to be.

    :ivar seed: decides whatever chance decides while it is played.
    :ivar cast: who plays.
    :ivar faults: what happens, in the order of time.
    :ivar trouble: when all that still lasts is over, in seconds.
    :ivar leader: the name of the leader that plays.
    """

    seed: int
    cast: Cast
    faults: tuple[Fault, ...]
    trouble: float = TROUBLE_SECONDS
    leader: str = BALANCED

    @classmethod
    def of(cls, seed: int, leader: str = BALANCED) -> Schedule:
        """
        Draw the schedule of a seed.

        :param leader: the name of the leader.  Under one that places items by
            resources there is more to be drawn; the rest is as it is without.
        """
        random = Random(seed)
        cast = Cast.draw(random)
        faults = tuple(_draw_faults(random, cast))
        if leader == RESOURCE:
            own = Random(f"{seed} {leader}")
            cast = cast.with_resources(own)
            faults = _numbered([*faults, *_draw_placing(own, cast)])
        return cls(seed, cast, faults, leader=leader)

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """
        Read a schedule that was written down.
        """
        data = json.loads(text)
        return cls(
            data["seed"],
            Cast.from_json(data["cast"]),
            tuple(map(from_json, data["faults"])),
            data["trouble"],
            data.get("leader", BALANCED),
        )

    def to_json(self) -> str:
        """
        Write it down, a fault a line.
        """
        faults = ",\n".join(f"    {json.dumps(f.to_json())}" for f in self.faults)
        return (
            f'{{\n  "seed": {self.seed},\n  "trouble": {self.trouble},\n'
            f'  "leader": {json.dumps(self.leader)},\n'
            f'  "cast": {json.dumps(self.cast.to_json())},\n'
            f'  "faults": [\n{faults}\n  ]\n}}\n'
        )

    def only(self, numbers: Collection[int]) -> Schedule:
        """
        Give the schedule with no other faults than those.
        """
        return evolve(self, faults=tuple(f for f in self.faults if f.number in numbers))

    def before(self, at: float) -> Schedule:
        """
        Give the schedule without what happens later than that.
        """
        return evolve(self, faults=tuple(f for f in self.faults if f.at <= at))

    def random(self, what: str) -> Random:
        """
        Give randomness that nothing else draws from.
        """
        return Random(f"{self.seed} {what}")

    @property
    def numbers(self) -> tuple[int, ...]:
        """
        The numbers of its faults.
        """
        return tuple(fault.number for fault in self.faults)

    @property
    def lines(self) -> list[str]:
        """
        The schedule in words, a line each.
        """
        common: dict[str, Any] = dict(self.cast.settings)
        told = ", ".join(f"{name} {value}" for name, value in common.items())
        return [
            f"leader    {self.leader}",
            f"settings  {told or 'the defaults'}",
            *(f"member    {actor}" for actor in self.cast.actors),
            f"work      {' '.join(self.cast.work)}",
            *(f"          {item} {v}" for item, v in self.cast.values.items()),
            *listed(self.faults),
        ]


def _draw_faults(random: Random, cast: Cast) -> Iterator[Fault]:
    """
    Draw faults: some kinds only, each time others, in bursts that are often
    about the same member.
    """
    every = [cls for cls in KINDS.values() if not cls.leader]
    kinds = [cls for cls in every if not cls.disaster]
    kinds = random.sample(kinds, min(random.choice(VARIETY), len(kinds)))
    if random.random() < DISASTERS:
        kinds.append(random.choice([c for c in every if c.disaster]))
    weights = [cls.weight * random.choice((1, 1, 3)) for cls in kinds]
    mean = random.choice(PAUSES)
    at = random.uniform(*FIRST_SECONDS)
    member = random.choice(cast.names)
    disaster = False
    number = 0
    while at < TROUBLE_SECONDS - 0.5:
        cls = random.choices(kinds, weights)[0]
        if random.random() < 0.5:
            member = random.choice((*cast.names, "leader", "leader"))
        fault = draw_fault(cls, random, cast, number, round(at, 3), member)
        # One is enough: what follows is to be seen.
        if not (cls.disaster and disaster):
            yield fault
            number += 1
        disaster = disaster or cls.disaster
        at += random.choice((0.02, 0.3, random.expovariate(0.6 / mean), 2 * mean))


def _draw_placing(random: Random, cast: Cast) -> Iterator[Fault]:
    """
    Draw what happens beside that under a leader that places items by resources.
    """
    kinds = [cls for cls in KINDS.values() if cls.leader == RESOURCE]
    kinds = random.sample(kinds, min(random.choice(PLACING_VARIETY), len(kinds)))
    weights = [cls.weight for cls in kinds]
    mean = random.choice(PLACING_PAUSES)
    at = random.uniform(*FIRST_SECONDS)
    while at < TROUBLE_SECONDS - 0.5:
        member = random.choice((*cast.names, "leader"))
        cls = random.choices(kinds, weights)[0]
        yield draw_fault(cls, random, cast, 0, round(at, 3), member)
        at += random.choice((0.02, random.expovariate(1 / mean), 2 * mean))


def _numbered(faults: list[Fault]) -> tuple[Fault, ...]:
    """
    Give faults in the order of time, with numbers in that order.
    """
    faults.sort(key=lambda fault: fault.at)
    return tuple(evolve(fault, number=n) for n, fault in enumerate(faults))
