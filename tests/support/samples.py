"""
Samples over time, of targets that are scraped, and choices among them: as
Prometheus keeps them, with series that end as soon as they are told no more.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from attrs import frozen
from prometheus_client import Metric

#: So many seconds after the last sample there is none any more.
LOOK_BACK = 300.0

#: Labels, sorted by name, without the metric's name.
Labels: TypeAlias = tuple[tuple[str, str], ...]

#: Values at one moment.
Vector: TypeAlias = dict[Labels, float]

#: The values of one series, oldest first.
Window: TypeAlias = list[tuple[float, float]]

#: The samples of one series, oldest first; ``None`` says that it has ended.
Series: TypeAlias = list[tuple[float, float | None]]


class Samples:
    """
    What was scraped so far.
    """

    def __init__(self) -> None:
        self._series: dict[str, dict[Labels, Series]] = {}
        self._last: dict[str, dict[tuple[str, Labels], float]] = {}

    def scrape(
        self, at: float, instance: str, families: Iterable[Metric] | None
    ) -> None:
        """
        Take what a target tells; ``None`` when it does not answer.
        """
        found = {("up", _labels({}, instance)): float(families is not None)}
        for family in families or ():
            for sample in family.samples:
                found[sample.name, _labels(sample.labels, instance)] = sample.value
        self._take(at, instance, found)

    def forget(self, at: float, instance: str) -> None:
        """
        Scrape a target no more.
        """
        self._take(at, instance, {})

    def _take(
        self, at: float, instance: str, found: dict[tuple[str, Labels], float]
    ) -> None:
        for name, labels in self._last.get(instance, {}):
            if (name, labels) not in found:
                self._series[name][labels].append((at, None))
        for (name, labels), value in found.items():
            series = self._series.setdefault(name, {})
            series.setdefault(labels, []).append((at, value))
        self._last[instance] = found

    def named(self, name: str) -> Mapping[Labels, Series]:
        """
        Give the series of a metric.
        """
        return self._series.get(name, {})


def _labels(labels: Mapping[str, str], instance: str) -> Labels:
    everything = {**labels, "instance": instance, "job": "voltha_coord"}
    return tuple(sorted(everything.items()))


def _when(sample: tuple[float, float | None]) -> float:
    return sample[0]


@frozen
class Selector:
    """
    A choice of series, at one moment or over a while.

    :ivar matchers: label, ``=`` or ``=~``, and what it is to be.
    :ivar seconds: how long the while is; 0 for one moment.
    """

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()
    seconds: float = 0.0

    def _chosen(self, labels: Labels) -> bool:
        known = dict(labels)
        return all(
            re.fullmatch(wanted if how == "=~" else re.escape(wanted), known[name])
            for name, how, wanted in self.matchers
        )

    def instant(self, samples: Samples, at: float) -> Vector:
        """
        Give the last values.
        """
        vector: Vector = {}
        for labels, series in samples.named(self.name).items():
            last = bisect_right(series, at, key=_when) - 1
            if last >= 0 and self._chosen(labels):
                when, value = series[last]
                if value is not None and when > at - LOOK_BACK:
                    vector[labels] = value
        return vector

    def over(self, samples: Samples, at: float) -> Iterator[tuple[Labels, Window]]:
        """
        Give the values of the while that ends now.
        """
        for labels, series in samples.named(self.name).items():
            begin = bisect_left(series, at - self.seconds, key=_when)
            end = bisect_right(series, at, key=_when)
            window = [(w, value) for w, value in series[begin:end] if value is not None]
            if window and self._chosen(labels):
                yield labels, window
