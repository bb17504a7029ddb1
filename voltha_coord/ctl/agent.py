"""
What the doctor thinks of Consul itself, and of this machine's clock.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import evolve, frozen

from ..clock import STEP_SECONDS
from ..consul.model import SessionInfo
from ..outage import HEARTBEAT_SECONDS, election_seconds, ridden_out
from ..settings import CONSUL_TTL_MULTIPLIER, Settings, guard_seconds
from .findings import Finding, named, ok, warn, wrong

#: Service checks can be bound to sessions from this version on.
OLDEST_VERSION = (1, 7, 0)

#: Clocks of two machines this far apart confuse people who read logs.
APART_SECONDS = 5.0

#: What a member does to Consul, beside reading and writing keys.
SERVICE = "service"
SESSION = "session"
KEYS = "keys"


#: What a token is that Consul does not know.
UNKNOWN_TOKEN = "this token is unknown or expired"


@frozen(kw_only=True)
class Facts:
    """
    What was found out about Consul, by reading only.

    :ivar address: of the agent that was asked.
    :ivar cluster_leader: address of the servers' leader, empty for none.
    :ivar version: of the agent; ``None`` where ``agent/self`` is denied, as
        are the next three.
    :ivar node: the agent's node.
    :ivar server: whether it is a server.
    :ivar heartbeat: its Raft heartbeat timeout, in seconds.
    :ivar token_unknown: whether Consul says so of our token.
    :ivar denied: the names under the prefix that may not be listed.
    :ivar rights: whether this token may do what a member does, by name;
        ``None`` when Consul does not say.
    :ivar rights_from: how that was found out.
    :ivar sessions: of the live members, by member; ``None`` when they may not be
        read.
    :ivar step: by how much the wall clock was stepped meanwhile, in seconds.
    :ivar watched: for how long it was watched, in seconds.
    :ivar apart: the agent's wall clock less ours; ``None`` when not told.
    """

    address: str
    cluster_leader: str = ""
    version: str | None = None
    node: str | None = None
    server: bool | None = None
    heartbeat: float | None = None
    token_unknown: bool = False
    denied: tuple[str, ...] = ()
    rights: Mapping[str, bool] | None = None
    rights_from: str = ""
    sessions: Mapping[str, SessionInfo] | None = None
    step: float = 0.0
    watched: float = 0.0
    apart: float | None = None


def numbers(version: str) -> tuple[int, ...]:
    """
    Give the three numbers of a version; fewer when it has fewer.
    """
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def is_unknown_token(error: Exception) -> bool:
    """
    Whether Consul refused the token itself, and not what was done with it.
    """
    return "acl not found" in str(error).lower()


def of_agent(facts: Facts, settings: Settings) -> Iterator[Finding]:
    """
    Give the findings about the agent, its servers, and what they allow.
    """
    yield ok("reachable", f"agent at {facts.address} answers")
    if facts.token_unknown:
        # Whatever else is asked, the answer is that.
        yield _cluster_leader(facts)
        yield wrong(
            "acl",
            f"{UNKNOWN_TOKEN}: nothing is allowed",
            "give another one (--token-file, CONSUL_HTTP_TOKEN, "
            "CONSUL_HTTP_TOKEN_FILE), or none for the anonymous one",
        )
        yield from _clock(facts)
        return
    yield _version(facts)
    yield _cluster_leader(facts)
    yield from _acl(facts, settings)
    yield from _liveness(facts, settings)
    yield _raft(facts, settings)
    yield from _clock(facts)


def _version(facts: Facts) -> Finding:
    if facts.version is None:
        return warn(
            "version",
            "unknown: this token may not read agent/self",
            "grant agent:read to see the version and the Raft settings",
        )
    if (0,) < numbers(facts.version) < OLDEST_VERSION:
        return wrong(
            "version",
            f"Consul {facts.version} binds no service checks to sessions",
            "upgrade Consul to 1.7 or newer, or set failure_detection to 0",
        )
    return ok("version", f"Consul {facts.version}")


def _cluster_leader(facts: Facts) -> Finding:
    if facts.cluster_leader:
        return ok("cluster leader", f"servers are led by {facts.cluster_leader}")
    return wrong(
        "cluster leader",
        "the Consul servers have no leader: nothing can be read or written",
        "see `consul operator raft list-peers`; a majority of servers must be up",
    )


def _acl(facts: Facts, settings: Settings) -> Iterator[Finding]:
    if facts.denied:
        yield wrong(
            "acl",
            f"this token may not list {named(facts.denied)}: they look empty",
            f'grant key_prefix "{settings.prefix}/" read (members: write) to the token',
        )
        return
    rights = facts.rights
    if rights is None:
        yield ok("acl", f"listing is allowed; writing unknown ({facts.rights_from})")
    elif not (rights[KEYS] and rights[SESSION]):
        lacking = [name for name in (KEYS, SESSION) if not rights[name]]
        yield warn(
            "acl",
            f"this token may list, but not write {' and '.join(lacking)}",
            "enough to look; a member's needs key:write on the prefix "
            "and session:write on its node",
        )
    else:
        yield ok("acl", f"listing and writing are allowed ({facts.rights_from})")


def _liveness(facts: Facts, settings: Settings) -> Iterator[Finding]:
    quick = f"death of a process is noticed in {settings.detection_bound:g} s"
    if facts.rights is None:
        yield ok("liveness", f"whether a check may be registered: {facts.rights_from}")
    elif facts.rights[SERVICE]:
        yield ok("liveness", f"check possible: {quick} ({facts.rights_from})")
    else:
        slow = CONSUL_TTL_MULTIPLIER * settings.session_ttl
        yield warn(
            "liveness",
            f"no check for this token: death is noticed in {slow:g} s only "
            f"({facts.rights_from})",
            'grant service "voltha-coord" write to the members\' token',
        )
    by_ttl = [
        id
        for id, session in (facts.sessions or {}).items()
        if not session.service_checks
    ]
    if by_ttl:
        yield warn(
            "liveness",
            f"living by session TTL alone: {named(by_ttl)}",
            "see their log for liveness-check-denied; an original always does",
        )


def _raft(facts: Facts, settings: Settings) -> Finding:
    told = [session.ttl for session in (facts.sessions or {}).values() if session.ttl]
    ttl = min(told, default=settings.session_ttl)
    settings = evolve(settings, session_ttl=max(ttl, settings.session_ttl))
    rides = ridden_out(settings, ttl)
    lease = f"session_ttl {ttl:g} s rides out {rides:.1f} s of silence"
    if facts.heartbeat is None:
        return ok("raft", f"{lease}; the agent's Raft settings may not be read")
    multiplier = facts.heartbeat / HEARTBEAT_SECONDS
    election = election_seconds(facts.heartbeat)
    whose = "servers" if facts.server else "this client agent; the servers may differ"
    found = f"{lease}; raft_multiplier {multiplier:.2g} ({whose}): election ≤ "
    found += f"{election:.1f} s"
    if election <= rides:
        return ok("raft", found)
    need = election + settings.renew_interval
    return warn(
        "raft",
        found,
        "an election may end every lease: set performance.raft_multiplier 1 on the "
        f"servers, or session_ttl {need + guard_seconds(need):.0f}",
    )


def _clock(facts: Facts) -> Iterator[Finding]:
    if abs(facts.step) >= STEP_SECONDS:
        yield warn(
            "clock",
            f"the wall clock was stepped by {facts.step:+.2f} s while watched",
            "let the clock be slewed (chrony, systemd-timesyncd); leases here do "
            "not use it, applications may",
        )
    else:
        yield ok("clock", f"no step of the wall clock in {facts.watched:.1f} s")
    if facts.apart is not None and abs(facts.apart) > APART_SECONDS:
        yield warn(
            "clock",
            f"the agent's wall clock is {facts.apart:+.0f} s from this machine's",
            "harmless to leases; times in records and logs will not agree",
        )
