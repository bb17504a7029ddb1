"""
What the items that are here use, as their runner tells, now and then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from .call import told
from .hysteresis import is_number, settle
from .interfaces import IRunner
from .item import RUNNING, Item
from .load import Load

#: A member that has not told yet what it uses looks again so soon, in seconds.
SOON = 1.0


@frozen
class _Sample:
    """
    What one item used when it was asked about last.

    :ivar since: of the life it was in.
    :ivar told: what others are told of ``latest``.
    """

    since: float
    latest: Mapping[str, Any]
    told: Mapping[str, Any]


class Usages:
    """
    Asks the runner.

    :param items: the items that are here, by work id.
    """

    def __init__(self, runner: IRunner, items: Mapping[str, Item], log: Any) -> None:
        self._runner = runner
        self._items = items
        self._log = log
        self._unknown: set[str] = set()
        self._samples: dict[str, _Sample] = {}

    def of(self, item: Item) -> Mapping[str, Any]:
        """
        Give what others are told that an item uses; empty before it was asked
        about, so that a leader counts with its limits at first.
        """
        sample = self._samples.get(item.id)
        if sample is None or item.state != RUNNING or sample.since != item.since:
            return {}
        return sample.told

    @property
    def total(self) -> dict[str, float]:
        """
        What all of them used when they were asked about last.
        """
        return {
            name: sum(
                value
                for sample in self._samples.values()
                if is_number(value := sample.latest.get(name, 0))
            )
            for name in ("cpu", "memory")
        }

    def sample(self) -> bool:
        """
        Ask about all that run.

        :return: whether others are to be told something new.
        """
        self._unknown &= self._items.keys()
        before, self._samples = self._samples, {}
        changed = False
        # What a runner does when it is asked may change what is here.
        for work, item in tuple(self._items.items()):
            if item.state != RUNNING:
                continue
            latest = self._ask(item)
            known = before.get(work)
            if known is None or known.since != item.since:
                known = _Sample(item.since, {}, {})
            now = settle(known.told, latest, item.description.limits)
            changed = changed or now != known.told
            self._samples[work] = _Sample(item.since, latest, now)
        return changed

    def _ask(self, item: Item) -> Mapping[str, Any]:
        """
        Ask the runner what an item uses; whatever it says must not keep the
        others from being reported.
        """
        try:
            usage = self._runner.usage(item.description)
            if usage:
                json.dumps(usage := dict(usage))
        except Exception as error:
            if item.id not in self._unknown:
                self._unknown.add(item.id)
                self._log.error("usage-unknown", work=item.id, error=told(error))
            return {}
        self._unknown.discard(item.id)
        return usage or {}


class Sampling:
    """
    Looks what is used, every so often.

    :param interval: the seconds between two looks.
    """

    def __init__(self, load: Load, usages: Usages, interval: float) -> None:
        self._load = load
        self._usages = usages
        self._interval = interval
        load.follow(lambda: usages.total)

    def take(self) -> bool:
        """
        Look.

        :return: whether a report would say something new.
        """
        usages = self._usages.sample()
        return self._load.sample() or usages

    @property
    def pause(self) -> float:
        """
        The seconds until the next look.
        """
        return self._interval if self._load.complete else min(SOON, self._interval)
