"""
What may happen where the leader places items by resources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ..cast import MIB, RESOURCE
from .fault import End, Fault, MemberFault, choice, drawn, kind, seconds
from .operators import _ITEMS

if TYPE_CHECKING:
    from random import Random

    from ..cast import Cast
    from ..life import Life
    from ..world import World

#: What an item may use that says nothing of it.
_LIMITS = {"cpu": 10, "memory": 100 * MIB}


def _draw_place(random: Random, cast: Cast) -> str:
    """
    Draw where an item is wanted: on a member, on any other, or on none there is.
    """
    return random.choice((*cast.names, *cast.names, "", "nobody"))


def _write(world: World, item: str, changes: Mapping[str, Any]) -> None:
    """
    Write an item with some of it changed; what is ``None`` is left out.
    """
    key = world.keys.work_item(item)
    entry = world.consul.kv.get(key)
    try:
        value = json.loads(b"{}" if entry is None else entry.value)
    except ValueError:
        value = {}
    if not isinstance(value, dict):
        value = {}
    value = {"limits": _LIMITS, **value, **changes}
    kept = {name: one for name, one in value.items() if one is not None}
    world.by_hand(world.api.put(key, json.dumps(kept).encode()))


@kind("relocate", weight=3, leader=RESOURCE)
@frozen(kw_only=True)
class Relocate(Fault):
    """
    An operator wants an item elsewhere.

    :ivar to: on which member; empty for any other.
    """

    item: str = choice(*_ITEMS)
    to: str = drawn(_draw_place, "")

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        key = world.keys.relocation(self.item)
        world.by_hand(world.api.put(key, self.to.encode()))


@kind("order", weight=2, leader=RESOURCE)
@frozen(kw_only=True)
class Order(Fault):
    """
    An item is ordered to stop, or to start.
    """

    item: str = choice(*_ITEMS)
    order: str | None = choice("stop", None, "start")

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        _write(world, self.item, {"order": self.order})


@kind("stop-and-go", weight=1.5, leader=RESOURCE)
@frozen(kw_only=True)
class StopAndGo(Fault):
    """
    An item is ordered to stop, and to start a while later.
    """

    lasts: float = seconds(0.05, 8)
    item: str = choice(*_ITEMS)

    def strike(self, world: World) -> End:
        """
        Let it happen.
        """
        _write(world, self.item, {"order": "stop"})
        return lambda: _write(world, self.item, {"order": None})


@kind("start-anew", weight=2, leader=RESOURCE)
@frozen(kw_only=True)
class StartAnew(Fault):
    """
    An item is to be stopped and started.
    """

    item: str = choice(*_ITEMS)

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        _write(world, self.item, {"force": True})


@kind("change", weight=2, leader=RESOURCE)
@frozen(kw_only=True)
class Change(Fault):
    """
    An item becomes another one, that may use more or less.
    """

    item: str = choice(*_ITEMS)
    config: int = choice(1, 2, 3)
    cpu: int = choice(5, 10, 20)
    reference: str | None = choice(None, "r", "s")

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        changes = {
            "config": self.config,
            "limits": {**_LIMITS, "cpu": self.cpu},
            "reference": self.reference,
        }
        _write(world, self.item, changes)


@kind("outgrow", weight=1, leader=RESOURCE)
@frozen(kw_only=True)
class Outgrow(Fault):
    """
    For a while an item may use more than any member has.
    """

    lasts: float = seconds(0.5, 20)
    item: str = choice(*_ITEMS)

    def strike(self, world: World) -> End:
        """
        Let it happen.
        """
        _write(world, self.item, {"limits": {**_LIMITS, "cpu": 500}})
        return lambda: _write(world, self.item, {"limits": _LIMITS})


@kind("replace", weight=1.5, leader=RESOURCE)
@frozen(kw_only=True)
class Replace(Fault):
    """
    An item is removed, and added again a while later.
    """

    lasts: float = seconds(0.02, 10)
    item: str = choice(*_ITEMS)

    def strike(self, world: World) -> End:
        """
        Let it happen.
        """
        world.by_hand(world.api.delete(world.keys.work_item(self.item)))
        return lambda: _write(world, self.item, {"config": self.number})


@kind("busy", weight=1.5, leader=RESOURCE)
@frozen(kw_only=True)
class Busy(MemberFault):
    """
    Its machine has a lot to do, or nobody can tell.

    :ivar cpu: in percent of one core, of 400; ``None`` when it cannot be told.
    """

    lasts: float = seconds(1, 25)
    cpu: float | None = choice(420.0, 390.0, 300.0, None)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        uses = life.meter.uses
        if self.cpu is None:
            uses["error"] = "nobody can tell"
        else:
            uses["cpu"] = self.cpu

        def end() -> None:
            uses.pop("error", None)
            uses["cpu"] = 0.0

        return end
