"""
Faults as data: drawn from a seed, written down, played again, left out.

A kind of fault is a frozen class.  Its fields say how they are drawn, so that a
kind is drawn, printed and read back without a word of its own; ``strike`` makes
it happen, and gives what ends it if it lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from attrs import asdict, field, fields, frozen

if TYPE_CHECKING:
    from ..cast import Cast
    from ..life import Life
    from ..world import World

#: What ends a fault.
End = Callable[[], None]

#: How the value of a field is drawn.
Draw = Callable[[Random, "Cast"], Any]

#: Every kind of fault, by its name.
KINDS: dict[str, type[Fault]] = {}

_F = TypeVar("_F", bound="type[Fault]")


def kind(
    name: str, weight: float = 1.0, disaster: bool = False, leader: str = ""
) -> Callable[[_F], _F]:
    """
    Let a class be a kind of fault.

    :param weight: how often it is drawn, beside others.
    :param disaster: whether Consul's memory is touched, so that some guarantees
        are off for a while.
    :param leader: the only leader it is drawn for; empty for every one.
    """

    def register(cls: _F) -> _F:
        cls.kind = name
        cls.weight = weight
        cls.disaster = disaster
        cls.leader = leader
        KINDS[name] = cls
        return cls

    return register


def drawn(draw: Draw, default: Any) -> Any:
    """
    Give a field that is drawn so.
    """
    return field(default=default, metadata={"draw": draw})


def seconds(least: float, most: float) -> Any:
    """
    Give a field of seconds: short ones are as likely as long ones.
    """

    def draw(random: Random, cast: Cast) -> float:
        if random.random() < 0.5:
            return round(random.uniform(least, most), 3)
        spread: float = (most / least) ** random.random()
        return round(least * spread, 3)

    return drawn(draw, 0.0)


def choice(*values: Any) -> Any:
    """
    Give a field that has one of these values.
    """
    return drawn(lambda random, cast: random.choice(values), values[0])


@frozen(kw_only=True)
class Fault:
    """
    Something that happens to the cluster.

    :ivar number: its place in the schedule it was drawn for.
    :ivar at: when, in seconds of the world.
    :ivar lasts: for how long; 0 for what does not last.
    """

    kind: ClassVar[str] = ""
    weight: ClassVar[float] = 1.0
    disaster: ClassVar[bool] = False
    leader: ClassVar[str] = ""

    number: int = 0
    at: float = 0.0
    lasts: float = 0.0

    def strike(self, world: World) -> End | None:
        """
        Let it happen.

        :return: what ends it, if it lasts.
        """
        raise NotImplementedError

    def random(self, world: World) -> Random:
        """
        Give randomness of its own: other faults do not change it.
        """
        return Random(f"{world.schedule.seed} fault {self.number}")

    def to_json(self) -> dict[str, Any]:
        """
        Give it as it is written down: what has its default is left out.
        """
        shown = {
            one.name: getattr(self, one.name)
            for one in fields(type(self))
            if getattr(self, one.name) != one.default
        }
        return {"kind": self.kind, **shown}

    def __str__(self) -> str:
        lasts = f"for {self.lasts:g} s" if self.lasts else ""
        details = asdict(self)
        for name in ("number", "at", "lasts"):
            del details[name]
        told = (f"{name}={value}" for name, value in details.items())
        return " ".join(filter(None, (self.kind, *told, lasts)))


@frozen(kw_only=True)
class MemberFault(Fault):
    """
    Something that happens to one member.

    :ivar member: its instance id, or ``leader`` for whoever leads then.
    """

    member: str = ""

    def strike(self, world: World) -> End | None:
        """
        Let it happen to the member, if its process is there.
        """
        life = world.target(self.member)
        return None if life is None else self.hit(world, life)

    def hit(self, world: World, life: Life) -> End | None:
        """
        Let it happen to this process.
        """
        raise NotImplementedError


def draw_fault(
    cls: type[Fault], random: Random, cast: Cast, number: int, at: float, member: str
) -> Fault:
    """
    Draw a fault of one kind.
    """
    found: dict[str, Any] = {"number": number, "at": at}
    for one in fields(cls):
        draw = one.metadata.get("draw")
        if draw is not None:
            found[one.name] = draw(random, cast)
        elif one.name == "member":
            found["member"] = member
    return cls(**found)


def from_json(data: Mapping[str, Any]) -> Fault:
    """
    Take a fault from what :meth:`Fault.to_json` gave.
    """
    found = dict(data)
    return KINDS[found.pop("kind")](**found)


def listed(faults: Sequence[Fault]) -> list[str]:
    """
    Put faults into words, a line each.
    """
    return [f"{fault.at:8.3f} s  {fault.number:>3}  {fault}" for fault in faults]
