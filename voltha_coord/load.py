"""
What this member has, and how much of it is in use, as others are told.

Only a leader that plans by resources wants to know: without one there is no
meter, nothing is measured, and nothing written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .call import told
from .hysteresis import is_number, settle
from .interfaces import IMeter

#: What a member may measure: its machine, or what its own items use.
MACHINE, WORK = MEASURED = ("machine", "work")

#: Of what there is, so much may be in use by default, in percent.
MAX_PERCENT = 90.0


class Load:
    """
    Asks the meter of this member.

    :ivar measures: whether there is one.
    :ivar latest: what it measured last, and whether it is at its limit; empty
        before it has.
    :ivar told: the same as others are told, see :mod:`.hysteresis`.

    :param meter: ``None`` for none.
    :param limit_wait: for so many seconds it has to be at a limit.
    :param now: the lease clock.
    """

    def __init__(
        self,
        meter: IMeter | None,
        limit_wait: float,
        now: Callable[[], float],
        log: Any,
    ) -> None:
        self._meter = meter
        self._limit_wait = limit_wait
        self._now = now
        self._log = log
        self._capacity: Mapping[str, Any] = {}
        self._reached: float | None = None
        self._said: set[str] = set()
        self.measures = meter is not None
        self.latest: Mapping[str, Any] = {}
        self.told: Mapping[str, Any] = {}

    @property
    def capacity(self) -> Mapping[str, Any]:
        """
        What there is and how much of it may be used; empty when that is not
        known.  Asked until it is, and then kept.
        """
        if self._meter is not None and not self._capacity:
            try:
                self._capacity = _sound(self._meter.capacity())
            except Exception as error:
                # A meter is anybody's code, and what it fails with must not keep
                # this from being a member.
                self._say("capacity", told(error))
            else:
                self._said.discard("capacity")
        return self._capacity

    @property
    def complete(self) -> bool:
        """
        Whether all is told that is to be.
        """
        return not self.measures or {"cpu", "memory"} <= self.latest.keys()

    def figure(self, name: str) -> float | None:
        """
        Give a number as it was measured last, or a limit; ``None`` when it is not
        known.
        """
        value = self.latest.get(name, self.capacity.get(name))
        return value if is_number(value) else None

    @property
    def throttling(self) -> bool | None:
        """
        Whether it is at a limit, ``None`` while that is not known.
        """
        return self.latest["throttling"] is True if self.latest else None

    def describe(self) -> dict[str, Any] | None:
        """
        Give it as a status page shows it; ``None`` where nothing is measured.
        """
        if not self.measures:
            return None
        names = ("cpu", "cpu_limit", "memory", "memory_limit")
        return {
            **{name: self.figure(name) for name in names},
            "throttling": self.throttling or False,
            "error": str(self.latest.get("error") or ""),
        }

    def follow(self, used: Callable[[], Mapping[str, Any]]) -> None:
        """
        Have a meter that counts what the items use ask this.
        """
        follow = getattr(self._meter, "follow", None)
        if follow is not None:
            follow(used)

    def sample(self) -> bool:
        """
        Measure.

        :return: whether others are to be told something new.
        """
        if self._meter is None:
            return False
        try:
            measured = _sound(self._meter.measure())
        except Exception as error:
            # As above.
            measured = {"error": told(error)}
        if measured.get("error"):
            self._say("usage", str(measured["error"]))
        else:
            self._said.discard("usage")
        limits = _limits(self.capacity)
        measured.setdefault("throttling", self._throttling(measured, limits))
        before, self.latest = self.told, measured
        self.told = settle(before, measured, limits)
        return self.told != before

    def _throttling(self, used: Mapping[str, Any], limits: Mapping[str, Any]) -> bool:
        """
        Whether it has been at a limit for long enough.
        """
        if not any(_at_limit(used, limits)):
            self._reached = None
            return False
        if self._reached is None:
            self._reached = self._now()
        return self._now() - self._reached >= self._limit_wait

    def _say(self, what: str, error: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._log.error(
                "resources-unknown",
                what=what,
                error=error,
                effect="this member is given no new work by a leader that plans by "
                "resources",
            )


def _sound(values: Any) -> dict[str, Any]:
    """
    Take what a meter says, if JSON has words for it.
    """
    found = dict(values)
    json.dumps(found)
    return found


def _limits(capacity: Mapping[str, Any]) -> dict[str, Any]:
    """
    Give the limits of a member by the names of what they limit.
    """
    limits = {name: capacity.get(f"{name}_limit") for name in ("cpu", "memory")}
    return {**limits, "gpus": [_limits_of_gpu(gpu) for gpu in _rows(capacity)]}


def _limits_of_gpu(gpu: Mapping[str, Any]) -> dict[str, Any]:
    each = dict.fromkeys(("usage", "encoder", "decoder"), gpu.get("usage_limit"))
    return {"memory": gpu.get("memory_limit"), **each}


def _at_limit(used: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[bool]:
    for name, limit in limits.items():
        value = used.get(name)
        if is_number(value) and is_number(limit):
            yield value >= limit
    for one, limit in zip(_rows(used), limits.get("gpus", ()), strict=False):
        yield from _at_limit(one, limit)


def _rows(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """
    Give what is said of each GPU.
    """
    gpus = values.get("gpus")
    rows = gpus if isinstance(gpus, list | tuple) else ()
    return [row if isinstance(row, Mapping) else {} for row in rows]
