"""
Who plays: the members of a simulated cluster, how they are set up, and the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from attrs import asdict, field, frozen

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
    """

    actors: tuple[Actor, ...]
    work: tuple[str, ...]
    settings: Mapping[str, Any] = field(factory=dict)
    fails: float = 0.0

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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cast:
        """
        Take it from what :meth:`to_json` gave.
        """
        actors = tuple(Actor(**actor) for actor in data["actors"])
        return cls(actors, tuple(data["work"]), data["settings"], data["fails"])

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
