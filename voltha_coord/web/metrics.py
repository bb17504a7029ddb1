"""
``/metrics``: what a member counts and how it stands, for Prometheus.

:data:`METRICS` is the one table of them.  Nothing is kept here: each scrape asks
the parts themselves, at that instant, and nobody else, so that a leader whose
lease is over says so at once (field report 51), and an outage of Consul holds up
no scrape.

# Note [Whose metrics]

Every sample is labelled with the prefix of its cluster and the id of its member.
So the members of a cluster can be told from those of another whatever scrapes
them, and one process may run several Coordinators, in one registry: hand them
all to one :class:`MemberCollector`.

What only the leader knows, the state of the whole cluster, only the leader
tells, and only while it leads and has made a pass: no sample is better than an
old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ..events import Connection
from ..outage import longest_takeover
from ..role import CANDIDATE, DRAINING, EMERGENCY, FOLLOWER, LEADER, STOPPED
from ..tally import Durations

if TYPE_CHECKING:
    from ..coordinator import Coordinator
    from ..leader import PassReport

#: What every metric's name begins with.
PREFIX = "voltha_coord_"

#: What every sample is labelled with; see Note [Whose metrics].
WHOSE = ("prefix", "instance_id")

#: The roles a member may have.
ROLES = (CANDIDATE, FOLLOWER, LEADER, EMERGENCY, DRAINING, STOPPED)

#: The values of one metric: by label value, or by several of them.
Values = Mapping[Any, Any]

Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily


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


_FAMILIES: dict[str, type[Family]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _add(family: Family, labels: tuple[str, ...], value: Any) -> None:
    if isinstance(family, HistogramMetricFamily):
        spread: Durations = value
        buckets = [(_bound(bound), count) for bound, count in spread.cumulated()]
        family.add_metric(labels, buckets, spread.total)
    else:
        family.add_metric(labels, float(value))


def _bound(seconds: float) -> str:
    return "+Inf" if seconds == float("inf") else str(seconds)


# How values are read.


def _one(read: Callable[[Coordinator], Any]) -> Callable[[Coordinator], Values]:
    """
    Read one value; ``None`` is no sample.
    """

    def values(member: Coordinator) -> Values:
        value = read(member)
        return {} if value is None else {(): value}

    return values


def _which(
    choices: tuple[str, ...], read: Callable[[Coordinator], str]
) -> Callable[[Coordinator], Values]:
    """
    Read a word: 1 for the one it is, 0 for all the others.
    """

    def values(member: Coordinator) -> Values:
        is_now = read(member)
        return {choice: choice == is_now for choice in choices}

    return values


def _of_pass(read: Callable[[PassReport], Any]) -> Callable[[Coordinator], Values]:
    """
    Read the last pass of a member that leads, if it has made one.
    """

    def values(member: Coordinator) -> Values:
        report: PassReport | None = getattr(member.leader, "last_pass", None)
        if not member.is_leader or report is None or not report.number:
            return {}
        return {(): read(report)}

    return values


def _pass_age(member: Coordinator) -> float | None:
    age: float | None = getattr(member.leader, "pass_age", None)
    return age if member.is_leader else None


def _of_watches(what: str) -> Callable[[Coordinator], Values]:
    """
    Read one of the counts of every watch.
    """
    return lambda member: {
        name: getattr(tally, what) for name, tally in member.tally.watches.items()
    }


def _gauge(name: str, doc: str, read: Any, *labels: str) -> Metric:
    return Metric("gauge", name, doc, read if labels else _one(read), labels)


def _counter(name: str, doc: str, read: Any, *labels: str) -> Metric:
    return Metric("counter", name, doc, read if labels else _one(read), labels)


def _histogram(name: str, doc: str, read: Any, *labels: str) -> Metric:
    return Metric("histogram", name, doc, read if labels else _one(read), labels)


def _of_leader(name: str, doc: str, read: Callable[[PassReport], Any]) -> Metric:
    return Metric("gauge", name, f"{doc}; told by the leader", _of_pass(read))


#: Every metric, in the order in which they are told.
METRICS: tuple[Metric, ...] = (
    _gauge(
        "build_info",
        "always 1; the version that runs",
        lambda member: {member.version: 1},
        "version",
    ),
    _gauge(
        "uptime_seconds",
        "since this member's Coordinator was made",
        lambda member: member.uptime,
    ),
    # The member.
    _gauge(
        "ready",
        "1 while this is a member that knows a leader, as /ready says",
        lambda member: member.is_ready,
    ),
    _gauge(
        "role",
        "1 for the role this member has, 0 for the others",
        _which(ROLES, lambda member: member.role),
        "role",
    ),
    _gauge(
        "is_leader",
        "1 while this member may act as leader; 0 from the very end of its lease on",
        lambda member: member.is_leader,
    ),
    _gauge(
        "fencing_token",
        "of the term this member leads; no sample while it does not",
        lambda member: member.lease.token,
    ),
    _counter(
        "terms_begun",
        "terms this member has led",
        lambda member: member.election.terms_begun,
    ),
    _counter(
        "terms_ended",
        "terms of this member that are over, by what ended them",
        lambda member: member.election.terms_ended.counts,
        "reason",
    ),
    _gauge(
        "leaderless_for_seconds",
        "since this member has known of no leader; 0 while it knows of one",
        lambda member: member.election.leaderless_for,
    ),
    _counter(
        "leaderless_seconds",
        "time in which this member knew of no leader, all together",
        lambda member: member.election.leaderless_seconds,
    ),
    _gauge(
        "longest_takeover_seconds",
        "within this time another leads, by this member's settings, whatever dies",
        lambda member: longest_takeover(member.settings, member.session.session_ttl),
    ),
    # The lease.
    _gauge(
        "lease_remaining_seconds",
        "how long this member may go on without another answer; 0 without a lease",
        lambda member: member.lease.remaining,
    ),
    _counter(
        "leases_ended",
        "leases that are over, by what ended them; work stops with each",
        lambda member: member.session.leasing.ended.counts,
        "reason",
    ),
    _counter(
        "leases_ending",
        "how often a lease was about to end, and work was being stopped; it may "
        "have been extended after all",
        lambda member: member.session.leasing.endings,
    ),
    _counter(
        "sessions_begun",
        "sessions this member has had",
        lambda member: member.session.begun,
    ),
    _counter(
        "sessions_lost",
        "of those, such that were lost, by reason",
        lambda member: member.session.lost.counts,
        "reason",
    ),
    _gauge(
        "liveness_check",
        "1 if the liveness check tells of this process's death, "
        "0 if only the session's TTL does",
        lambda member: member.session.liveness == "check",
    ),
    _gauge(
        "emergency",
        "1 during an emergency: work goes on although Consul is out of reach",
        lambda member: member.emergency.active,
    ),
    _gauge(
        "emergency_items",
        "items of lost members that run here as well until it is over",
        lambda member: len(member.emergency.extra),
    ),
    # Consul.
    _gauge(
        "connection",
        "1 for how it stands with Consul, 0 for the others; "
        "suspended is without an answer, lost without a lease too",
        _which(
            tuple(one.value for one in Connection),
            lambda member: member.connection.value,
        ),
        "connection",
    ),
    _gauge(
        "consul_last_answer_age_seconds",
        "since Consul last answered anything; no sample before it ever did",
        lambda member: member.link.last_answer_age,
    ),
    _gauge(
        "consul_unanswered_requests",
        "requests in a row that Consul did not answer",
        lambda member: member.link.unanswered,
    ),
    _counter(
        "consul_reconnects",
        "how often Consul answered again after it had not",
        lambda member: member.link.reconnects,
    ),
    _counter(
        "consul_agent_switches",
        "how often another of several agents was taken",
        lambda member: member.api.requester.switches,
    ),
    _counter(
        "consul_requests",
        "requests to Consul, by what they were for and what they came to",
        lambda member: {
            (lane.value, outcome): count
            for (lane, outcome), count in member.tally.requests.outcomes.items()
        },
        "lane",
        "outcome",
    ),
    _histogram(
        "consul_request_duration_seconds",
        "how long Consul took to answer; blocking queries are left out",
        lambda member: {
            lane.value: spread
            for lane, spread in member.tally.requests.durations.items()
        },
        "lane",
    ),
    _counter(
        "watch_wakes",
        "answers to blocking queries, by what is watched",
        _of_watches("wakes"),
        "watch",
    ),
    _counter(
        "watch_unchanged",
        "of those, such that brought nothing new",
        _of_watches("unchanged"),
        "watch",
    ),
    _counter(
        "watch_failures",
        "blocking queries that failed",
        _of_watches("failures"),
        "watch",
    ),
    # The work.
    _gauge(
        "items",
        "work items this member owns, by state",
        lambda member: getattr(member.worker, "states", {}),
        "state",
    ),
    _gauge(
        "items_running",
        "work items that run here now; with a lease that is over none does",
        lambda member: len(member.worker.my_workload),
    ),
    _gauge(
        "items_assigned",
        "work items that are assigned to this member",
        lambda member: len(getattr(member.worker, "assigned", ())),
    ),
    # The cluster.
    _of_leader("cluster_members", "live members", lambda found: found.members),
    _of_leader("cluster_items", "work items", lambda found: found.items),
    _of_leader(
        "cluster_items_held",
        "items that wait until the lease of a member that is gone must be over",
        lambda found: found.held,
    ),
    _of_leader(
        "cluster_items_unplaced",
        "items that have no place, or cannot be taken over, for a reason that is "
        "under errors/",
        lambda found: len(found.errors),
    ),
    _of_leader(
        "cluster_stray_keys",
        "keys under the prefix that cannot be of this cluster",
        lambda found: len(found.stray),
    ),
    _of_leader(
        "cluster_unreadable_values",
        "values under the prefix that cannot be used",
        lambda found: len(found.problems),
    ),
    _of_leader(
        "planning_frozen",
        "1 while an operator wants nothing to be planned",
        lambda found: found.frozen,
    ),
    _of_leader(
        "placement_fingerprint",
        "a number for who is to run what: another number, another placement",
        lambda found: found.fingerprint,
    ),
    # The passes of the leader.
    _gauge(
        "pass_age_seconds",
        "since the last pass, or since the term began; told by the leader",
        _pass_age,
    ),
    _counter(
        "passes",
        "passes this member made as leader, by what they came to",
        lambda member: member.tally.passes.outcomes.counts,
        "outcome",
    ),
    _histogram(
        "pass_duration_seconds",
        "how long those took that did not fail",
        lambda member: member.tally.passes.durations,
    ),
    _counter(
        "operations",
        "what this member did to assignments as leader",
        lambda member: member.tally.passes.operations,
        "operation",
    ),
)


class MemberCollector(Collector):
    """
    Tells the metrics of some Coordinators, for a registry of one's own::

        REGISTRY.register(MemberCollector(coordinator))

    A registry takes one of them: give it all Coordinators of the process.

    :param coordinators: whose metrics.
    """

    def __init__(self, *coordinators: Coordinator) -> None:
        self._coordinators = coordinators

    def members(self) -> Iterable[Coordinator]:
        """
        Give those there are at the moment.
        """
        return self._coordinators

    def describe(self) -> Iterator[Family]:
        """
        Give every metric without its samples: its name is taken.
        """
        return (metric.family(()) for metric in METRICS)

    def collect(self) -> Iterator[Family]:
        """
        Give every metric as it is now.
        """
        members = tuple(self.members())
        return (metric.family(members) for metric in METRICS)


class _ServedMember(MemberCollector):
    """
    Tells the metrics of the Coordinator a service runs, while there is one.
    """

    def __init__(self, served: Callable[[], Coordinator | None]) -> None:
        super().__init__()
        self._served = served

    def members(self) -> Iterable[Coordinator]:
        """
        Give the one there is, or none.
        """
        member = self._served()
        return () if member is None else (member,)


def service_registry(served: Callable[[], Coordinator | None]) -> CollectorRegistry:
    """
    Make the registry of a service: its member, and its process.

    :param served: gives the Coordinator, ``None`` while there is none.
    """
    registry = CollectorRegistry()
    registry.register(_ServedMember(served))
    ProcessCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry, accepted: str) -> tuple[bytes, str]:
    """
    Write down what a registry holds at this moment.

    :param accepted: the ``Accept`` header of whoever asks.
    :return: the text, and its content type.
    """
    encode, content_type = choose_encoder(accepted)
    return encode(registry), content_type
