"""
What outage of Consul's servers a member rides out, what an election takes, and
how long a cluster may be without a leader.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .consul.durations import from_json
from .settings import CONSUL_TTL_MULTIPLIER, Settings, guard_seconds

#: From the last renewal that was answered to the next, for each unit of
#: ``raft_multiplier``: 3.2 s were measured with 1 and 22 s with 5.
ELECTION_SECONDS = 4.4

#: Consul finds a machine dead within so many seconds.
NODE_DEATH_SECONDS = 7.0

#: What remains to be done once a leader may be succeeded takes so many seconds.
TAKING_OVER_SECONDS = 2.0

#: Consul's Raft heartbeat with a ``raft_multiplier`` of 1, in seconds.
HEARTBEAT_SECONDS = 1.0


def ridden_out(settings: Settings, session_ttl: float) -> float:
    """
    Give for how many seconds Consul may be silent before a lease is over.
    """
    return session_ttl - settings.renew_interval - guard_seconds(session_ttl)


def longest_takeover(settings: Settings, session_ttl: float) -> float:
    """
    Give the seconds within which another leads, whatever has died: a process, an
    agent or a machine.

    One session TTL of it is the time in which whoever led may still act, since
    nothing proves that its process is dead.
    """
    noticed = CONSUL_TTL_MULTIPLIER * session_ttl
    if settings.node_health and settings.failure_detection:
        noticed = max(NODE_DEATH_SECONDS, settings.failure_detection)
    return noticed + session_ttl + settings.lock_delay + TAKING_OVER_SECONDS


def raft_heartbeat(agent: Mapping[str, Any]) -> float | None:
    """
    Give the Raft heartbeat timeout in seconds that ``agent/self`` tells;
    ``None`` when it does not.
    """
    told = agent.get("DebugConfig")
    found = told.get("ConsulRaftHeartbeatTimeout") if isinstance(told, dict) else None
    try:
        return from_json(found) or None
    except ValueError:
        return None


def election_seconds(heartbeat: float) -> float:
    """
    Give how long Consul may be silent while its servers elect a leader.
    """
    return ELECTION_SECONDS * heartbeat / HEARTBEAT_SECONDS
