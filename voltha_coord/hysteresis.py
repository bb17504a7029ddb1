"""
What is told of what is measured: rounded, and told anew only when it has changed.

Each report is a write, and wakes the leader.  What a process uses is never twice
the same, and where it goes does not depend on a percent.  Pure.

# Note [When a figure is told anew]

- When it has departed from what was told by more than a share of that, and by
  more than the least that counts.
- When it is at its limit or beyond and was not, or the other way round: that
  decides whether anything may be started.
- When it is nothing at all and was something: that has ended.

What is told is rounded, but never to the other side of the limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from attrs import frozen


@frozen
class Measure:
    """
    How exactly something is told.

    :ivar step: what it is rounded to.
    :ivar least: by how much it has to have changed at least.
    :ivar share: and by which share of what was told.
    """

    step: int
    least: float
    share: float

    def settle(
        self, told: object, measured: float, limit: float = math.inf
    ) -> int | float:
        """
        Give what is to be told now; see Note [When a figure is told anew].

        :param told: what was told last; anything but a number for nothing.
        """
        if measured <= 0:
            return 0
        rounded = self._rounded(measured, limit)
        if not is_number(told):
            return rounded
        if (told >= limit) != (measured >= limit):
            return rounded
        if abs(measured - told) > max(self.least, self.share * abs(told)):
            return rounded
        return told

    def _rounded(self, measured: float, limit: float) -> int | float:
        rounded = round(measured / self.step) * self.step
        return measured if (rounded >= limit) != (measured >= limit) else rounded


#: Of CPU in percent of one core, and what a GPU does in percent.
PERCENT = Measure(1, 2.0, 0.05)

MIB = 1024 * 1024

#: Of memory, in bytes.
BYTES = Measure(MIB, 4.0 * MIB, 0.02)

_MEASURES = {
    "cpu": PERCENT,
    "memory": BYTES,
    "usage": PERCENT,
    "encoder": PERCENT,
    "decoder": PERCENT,
}

#: Beyond it a number is no figure of a machine, and rounding may fail.
_MOST = 1e18


def is_number(value: object) -> TypeGuard[int | float]:
    """
    Whether a value is a number that can be reckoned with.
    """
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -_MOST < value < _MOST
    )


def settle(
    told: Mapping[str, Any], measured: Mapping[str, Any], limits: Mapping[str, Any]
) -> dict[str, Any]:
    """
    Give what is to be told of a member or an item.  What is no figure known here
    is told as it is.

    :param told: what was told last, empty for nothing.
    :param measured: ``cpu``, ``memory``, and ``gpu`` or ``gpus``.
    :param limits: the limits, by the names of the figures.
    """
    return {
        name: _settled(name, told.get(name), value, limits.get(name))
        for name, value in measured.items()
    }


def _settled(name: str, told: Any, value: Any, limit: Any) -> Any:
    if isinstance(value, Mapping):
        return settle(_mapping(told), value, _mapping(limit))
    if isinstance(value, list | tuple):
        before, limits = _rows(told, len(value)), _rows(limit, len(value))
        return [_settled(name, *row) for row in zip(before, value, limits, strict=True)]
    measure = _MEASURES.get(name)
    if measure is None or not is_number(value):
        return value
    return measure.settle(told, value, limit if is_number(limit) else math.inf)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rows(value: Any, count: int) -> list[Any]:
    rows = [*value] if isinstance(value, list | tuple) else []
    return rows[:count] + [None] * (count - len(rows))
