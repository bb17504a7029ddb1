"""
What a metric is, and how its values are read of a member.

Nothing is kept here: a value is read when somebody asks for it, of the part that
knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from ..tally import Durations

if TYPE_CHECKING:
    from ..coordinator import Coordinator
    from ..pass_report import PassReport

#: What every metric's name begins with.
PREFIX = "voltha_coord_"

#: What every sample is labelled with; see Note [Whose metrics].
WHOSE = ("prefix", "instance_id")

#: The values of one metric: by label value, or by several of them.
Values = Mapping[Any, Any]

Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily

_FAMILIES: dict[str, type[Family]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


@frozen
class Metric:
    """
    One metric, of any member.

    :ivar kind: ``gauge``, ``counter`` or ``histogram``.
    :ivar name: without :data:`PREFIX`, and without what Prometheus appends.
    :ivar doc: what it says, for people.
    :ivar read: gives its values for one member: none, or as many as there are
        values of its labels.
    :ivar labels: beside :data:`WHOSE`.
    """

    kind: str
    name: str
    doc: str
    read: Callable[[Coordinator], Values]
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """
        The name as one asks for it.
        """
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")

    def family(self, members: Iterable[Coordinator]) -> Family:
        """
        Give it with the samples of these members.
        """
        name, labels = PREFIX + self.name, (*WHOSE, *self.labels)
        family: Family = _FAMILIES[self.kind](name, self.doc, labels=labels)
        for member in members:
            whose = (member.keys.prefix, member.instance_id)
            for label, value in self.read(member).items():
                told = label if isinstance(label, tuple) else (label,)
                _add(family, (*whose, *told), value)
        return family


def _add(family: Family, labels: tuple[str, ...], value: Any) -> None:
    if isinstance(family, HistogramMetricFamily):
        spread: Durations = value
        buckets = [(_bound(bound), count) for bound, count in spread.cumulated()]
        family.add_metric(labels, buckets, spread.total)
    else:
        family.add_metric(labels, float(value))


def _bound(seconds: float) -> str:
    return "+Inf" if seconds == float("inf") else str(seconds)


# The kinds.


def gauge(name: str, doc: str, read: Any, *labels: str) -> Metric:
    """
    Make a metric that goes up and down.

    :param read: gives its value, ``None`` for no sample; with labels, its
        values.
    """
    return Metric("gauge", name, doc, read if labels else _one(read), labels)


def counter(name: str, doc: str, read: Any, *labels: str) -> Metric:
    """
    Make a metric that only goes up; otherwise as :func:`gauge`.
    """
    return Metric("counter", name, doc, read if labels else _one(read), labels)


def histogram(name: str, doc: str, read: Any, *labels: str) -> Metric:
    """
    Make a metric of :class:`~voltha_coord.tally.Durations`; otherwise as
    :func:`gauge`.
    """
    return Metric("histogram", name, doc, read if labels else _one(read), labels)


def of_leader(name: str, doc: str, read: Callable[[PassReport], Any]) -> Metric:
    """
    Make a gauge of what the last pass found, told only by a member that leads
    and has made one.
    """

    def value(member: Coordinator) -> Any:
        report: PassReport | None = getattr(member.leader, "last_pass", None)
        if not member.is_leader or report is None or not report.number:
            return None
        return read(report)

    return gauge(name, f"{doc}; told by the leader", value)


# How values are read.


def _one(read: Callable[[Coordinator], Any]) -> Callable[[Coordinator], Values]:
    def values(member: Coordinator) -> Values:
        value = read(member)
        return {} if value is None else {(): value}

    return values


def which(
    choices: tuple[str, ...], read: Callable[[Coordinator], str]
) -> Callable[[Coordinator], Values]:
    """
    Read a word: 1 for the one it is, 0 for all the others.
    """

    def values(member: Coordinator) -> Values:
        is_now = read(member)
        return {choice: choice == is_now for choice in choices}

    return values
