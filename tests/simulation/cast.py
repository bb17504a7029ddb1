"""
Who plays: the members of a simulated cluster, how they are set up, and the work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from attrs import asdict, evolve, field, frozen

from voltha_coord.errors import ConfigurationError
from voltha_coord.settings import Settings

#: The most a clock runs fast or slow, as a share.
APART = 0.01

#: What a setting is drawn from; the first one is the default.
_DRAWN: dict[str, tuple[Any, ...]] = {
    "session_ttl": (15.0, 15.0, 10.0),
    "failure_detection": (3.0, 3.0, 3.0, 1.0, 2.0, 0.0),
    "lock_delay": (1.0, 1.0, 0.0, 0.3),
    "soak": (3.0, 1.0, 0.2),
    "departed_soak": (0.5, 0.5, 0.0),
    "worker_soak": (0.05, 0.05, 0.5),
    "watch_wait": (30.0, 30.0, 5.0),
    "command_timeout": (10.0, 10.0, 3.0),
    "resync_interval": (10.0, 10.0, 3.0),
    "node_health": (False, False, False, True),
}

#: The leaders there are: ``balanced`` plays unless another one is asked for.
BALANCED = "balanced"
RESOURCE = "resource"
LEADERS = (BALANCED, RESOURCE)

#: What is drawn beside that where the leader places items by resources.
_PLACING: dict[str, tuple[Any, ...]] = {
    "node_recover_timeout": (8.0, 4.0, 2.0, 1.0),
    "move_timeout": (10.0, 5.0, 2.0),
    "sync_interval": (5.0, 5.0, 1.0),
}

#: So far apart are the wall clocks of members at most that agree on the time.
AGREEING_SECONDS = 20.0

MIB = 2**20


@frozen
class Actor:
    """
    One member.

    :ivar name: its instance id.
    :ivar weight: its share of the work.
    :ivar can_lead: whether it takes part in the election.
    :ivar rate: how fast its clock runs.
    :ivar ahead: what its clock shows more than the world's.
    :ivar joins: when it comes first, in seconds.
    :ivar settings: what it has set otherwise than the others.
    """

    name: str
    weight: float = 1.0
    can_lead: bool = True
    rate: float = 1.0
    ahead: float = 0.0
    joins: float = 0.0
    settings: Mapping[str, Any] = field(factory=dict)

    def __str__(self) -> str:
        traits = [
            f"weight {self.weight:g}" if self.weight != 1 else "",
            "" if self.can_lead else "never leads",
            f"clock x{self.rate:.4f}",
            ", ".join(f"{name} {value}" for name, value in self.settings.items()),
        ]
        return f"{self.name}: {', '.join(filter(None, traits))}"


@frozen
class Cast:
    """
    Everybody, and what there is to do.

    :ivar actors: the members.
    :ivar work: the ids of the items there are from the start.
    :ivar settings: what all have set.
    :ivar fails: how often starting an item fails, as a share.
    :ivar values: the values of these items, where they have some.
    """

    actors: tuple[Actor, ...]
    work: tuple[str, ...]
    settings: Mapping[str, Any] = field(factory=dict)
    fails: float = 0.0
    values: Mapping[str, str] = field(factory=dict)

    @classmethod
    def draw(cls, random: Random) -> Cast:
        """
        Draw a cast.
        """
        settings = _draw_settings(random, 0.5)
        actors: list[Actor] = []
        for name in "abcde"[: random.choice((3, 3, 3, 4, 5))]:
            actors.append(
                Actor(
                    name,
                    weight=random.choice((1.0, 1.0, 1.0, 2.0, 0.5)),
                    can_lead=len(actors) < 2 or random.random() < 0.8,
                    rate=round(random.uniform(1 - APART, 1 + APART), 5),
                    ahead=round(random.uniform(0, 1e6), 3),
                    joins=round(random.uniform(0, 3), 3),
                    settings=_draw_settings(random, 0.25)
                    if random.random() < 0.2
                    else {},
                )
            )
        work = tuple(f"w{n}" for n in range(random.choice((3, 5, 7))))
        fails = random.choice((0.0, 0.0, 0.1, 0.3))
        return cls(tuple(actors), work, settings, fails)

    def with_resources(self, random: Random) -> Cast:
        """
        Give the cast that plays under a leader that places items by resources: the
        items say what they may use, and all fit on one member.
        """
        placing = {name: random.choice(values) for name, values in _PLACING.items()}
        actors = self.actors
        if random.random() < 0.5:
            now = round(random.uniform(0, 1e6), 3)
            actors = tuple(
                evolve(a, ahead=round(now + random.uniform(0, AGREEING_SECONDS), 3))
                for a in actors
            )
        values = {item: item_value(random) for item in self.work}
        return evolve(
            self,
            actors=actors,
            settings={**self.settings, **placing},
            values=values,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cast:
        """
        Take it from what :meth:`to_json` gave.
        """
        actors = tuple(Actor(**actor) for actor in data["actors"])
        return cls(
            actors,
            tuple(data["work"]),
            data["settings"],
            data["fails"],
            data.get("values", {}),
        )

    def to_json(self) -> dict[str, Any]:
        """
        Give it as it is written down.
        """
        return asdict(self)

    def settings_of(self, actor: Actor) -> Settings:
        """
        Give how a member is set up.
        """
        return Settings(**{**self.settings, **actor.settings})

    @property
    def names(self) -> tuple[str, ...]:
        """
        The instance ids.
        """
        return tuple(actor.name for actor in self.actors)


def item_value(random: Random) -> str:
    """
    Draw the value of an item that says what it may use.
    """
    value: dict[str, Any] = {
        "limits": {
            "cpu": random.choice((5, 10, 20)),
            "memory": random.choice((50, 100, 300)) * MIB,
        }
    }
    if random.random() < 0.3:
        value["reference"] = random.choice(("r", "s"))
    return json.dumps(value)


def _draw_settings(random: Random, share: float) -> dict[str, Any]:
    """
    Draw settings, each with that chance, that leave room for each other.
    """
    while True:
        settings = {
            name: random.choice(values)
            for name, values in _DRAWN.items()
            if random.random() < share
        }
        try:
            Settings(**settings)
        except ConfigurationError:
            continue
        return {
            name: value for name, value in settings.items() if value != _DRAWN[name][0]
        }
