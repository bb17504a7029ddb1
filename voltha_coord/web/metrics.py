"""
Every metric: what a member counts and how it stands, for Prometheus.

Each scrape asks the parts themselves, at that instant, and nobody else, so that a
leader whose lease is over says so at once (field report 51), and an outage of
Consul holds up no scrape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..events import Connection
from ..outage import longest_takeover
from ..role import CANDIDATE, DRAINING, EMERGENCY, FOLLOWER, LEADER, STOPPED
from .families import Metric, Values, counter, gauge, histogram, of_leader, which

if TYPE_CHECKING:
    from ..coordinator import Coordinator

#: The roles a member may have.
ROLES = (CANDIDATE, FOLLOWER, LEADER, EMERGENCY, DRAINING, STOPPED)


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


#: Every metric, in the order in which they are told.
METRICS: tuple[Metric, ...] = (
    gauge(
        "build_info",
        "always 1; the version that runs",
        lambda member: {member.version: 1},
        "version",
    ),
    gauge(
        "uptime_seconds",
        "since this member's Coordinator was made",
        lambda member: member.uptime,
    ),
    # The member.
    gauge(
        "ready",
        "1 while this is a member that knows a leader, as /ready says",
        lambda member: member.is_ready,
    ),
    gauge(
        "role",
        "1 for the role this member has, 0 for the others",
        which(ROLES, lambda member: member.role),
        "role",
    ),
    gauge(
        "is_leader",
        "1 while this member may act as leader; 0 from the very end of its lease on",
        lambda member: member.is_leader,
    ),
    gauge(
        "fencing_token",
        "of the term this member leads; no sample while it does not",
        lambda member: member.lease.token,
    ),
    counter(
        "terms_begun",
        "terms this member has led",
        lambda member: member.election.terms.begun,
    ),
    counter(
        "terms_ended",
        "terms of this member that are over, by what ended them",
        lambda member: member.election.terms.ended.counts,
        "reason",
    ),
    gauge(
        "leaderless_for_seconds",
        "since this member has known of no leader; 0 while it knows of one",
        lambda member: member.election.key.leaderless_for,
    ),
    counter(
        "leaderless_seconds",
        "time in which this member knew of no leader, all together",
        lambda member: member.election.key.leaderless_seconds,
    ),
    gauge(
        "longest_takeover_seconds",
        "within this time another leads, by this member's settings, whatever dies",
        lambda member: longest_takeover(member.settings, member.session.session_ttl),
    ),
    # The lease.
    gauge(
        "lease_remaining_seconds",
        "how long this member may go on without another answer; 0 without a lease",
        lambda member: member.lease.remaining,
    ),
    counter(
        "leases_ended",
        "leases that are over, by what ended them",
        lambda member: member.session.leasing.ended.counts,
        "reason",
    ),
    counter(
        "leases_ending",
        "how often a lease was about to end, and work was being stopped; it may "
        "have been extended after all",
        lambda member: member.session.leasing.endings,
    ),
    counter(
        "sessions_begun",
        "sessions this member has had",
        lambda member: member.session.begun,
    ),
    counter(
        "sessions_lost",
        "of those, such that were lost, by reason",
        lambda member: member.session.lost.counts,
        "reason",
    ),
    gauge(
        "liveness_check",
        "1 if the liveness check tells of this process's death, "
        "0 if only the session's TTL does",
        lambda member: member.session.liveness == "check",
    ),
    gauge(
        "emergency",
        "1 during an emergency: work goes on although Consul is out of reach",
        lambda member: member.emergency.active,
    ),
    gauge(
        "emergency_items",
        "items of lost members that run here as well until it is over",
        lambda member: len(member.emergency.extra),
    ),
    # Consul.
    gauge(
        "connection",
        "1 for how it stands with Consul, 0 for the others; "
        "suspended is without an answer, lost without a lease too",
        which(
            tuple(one.value for one in Connection),
            lambda member: member.connection.value,
        ),
        "connection",
    ),
    gauge(
        "consul_last_answer_age_seconds",
        "since Consul last answered anything; no sample before it ever did",
        lambda member: member.link.last_answer_age,
    ),
    gauge(
        "consul_unanswered_requests",
        "requests in a row that Consul did not answer",
        lambda member: member.link.unanswered,
    ),
    counter(
        "consul_reconnects",
        "how often Consul answered again after it had not",
        lambda member: member.link.reconnects,
    ),
    counter(
        "consul_agent_switches",
        "how often another of several agents was taken",
        lambda member: member.api.requester.switches,
    ),
    counter(
        "consul_filtered_listings",
        "listings of keys from which Consul left out what the token may not read",
        lambda member: member.api.requester.filtered.count,
    ),
    counter(
        "consul_requests",
        "requests to Consul, by what they were for and what they came to",
        lambda member: {
            (lane.value, outcome): count
            for (lane, outcome), count in member.tally.requests.outcomes.items()
        },
        "lane",
        "outcome",
    ),
    histogram(
        "consul_request_duration_seconds",
        "how long Consul took to answer; blocking queries are left out",
        lambda member: {
            lane.value: spread
            for lane, spread in member.tally.requests.durations.items()
        },
        "lane",
    ),
    counter(
        "watch_wakes",
        "answers to blocking queries, by what is watched",
        _of_watches("wakes"),
        "watch",
    ),
    counter(
        "watch_unchanged",
        "of those, such that brought nothing new",
        _of_watches("unchanged"),
        "watch",
    ),
    counter(
        "watch_failures",
        "blocking queries that failed",
        _of_watches("failures"),
        "watch",
    ),
    # The machine.
    gauge(
        "cpu_percent",
        "CPU in use, in percent of one core, as measured last; no sample, as for all "
        "of the machine, where nothing is measured",
        lambda member: member.load.figure("cpu"),
    ),
    gauge(
        "cpu_limit_percent",
        "so much CPU may be in use, in percent of one core",
        lambda member: member.load.figure("cpu_limit"),
    ),
    gauge(
        "memory_bytes",
        "memory in use, as measured last",
        lambda member: member.load.figure("memory"),
    ),
    gauge(
        "memory_limit_bytes",
        "so much memory may be in use",
        lambda member: member.load.figure("memory_limit"),
    ),
    gauge(
        "throttling",
        "1 while this member is at a limit of its CPU or memory: it is given no work",
        lambda member: member.load.throttling,
    ),
    # The work.
    gauge(
        "items",
        "work items that are here, by state; failed until it is tried with success",
        lambda member: getattr(member.worker, "states", {}),
        "state",
    ),
    gauge(
        "items_running",
        "work items that run here now, and may",
        lambda member: len(member.worker.my_workload),
    ),
    gauge(
        "items_stuck",
        "of those, such that have not stopped although their lease is over: another "
        "member may run them as well",
        lambda member: len(getattr(member.worker, "stuck", ())),
    ),
    gauge(
        "items_assigned",
        "work items that are assigned to this member",
        lambda member: len(getattr(member.worker, "assigned", ())),
    ),
    # The cluster.
    of_leader("cluster_members", "live members", lambda found: found.members),
    of_leader("cluster_items", "work items", lambda found: found.items),
    of_leader(
        "cluster_items_held",
        "items that wait until the lease of a member that is gone must be over",
        lambda found: found.held,
    ),
    of_leader(
        "cluster_items_unplaced",
        "items that have no place, or cannot be taken over, for a reason that is "
        "under errors/",
        lambda found: len(found.errors),
    ),
    of_leader(
        "cluster_stray_keys",
        "keys under the prefix that cannot be of this cluster",
        lambda found: len(found.stray),
    ),
    of_leader(
        "cluster_unreadable_values",
        "values under the prefix that cannot be used",
        lambda found: len(found.problems),
    ),
    of_leader(
        "planning_frozen",
        "1 while an operator wants nothing to be planned",
        lambda found: found.frozen,
    ),
    of_leader(
        "placement_fingerprint",
        "a number for who is to run what: another number, another placement",
        lambda found: found.fingerprint,
    ),
    # The passes of the leader.
    gauge(
        "pass_age_seconds",
        "since the last pass, or since the term began; told by the leader",
        _pass_age,
    ),
    counter(
        "passes",
        "passes this member made as leader, by what they came to",
        lambda member: member.tally.passes.outcomes.counts,
        "outcome",
    ),
    histogram(
        "pass_duration_seconds",
        "how long those took that did not fail",
        lambda member: member.tally.passes.durations,
    ),
    counter(
        "operations",
        "what this member did to assignments as leader",
        lambda member: member.tally.passes.operations,
        "operation",
    ),
)
