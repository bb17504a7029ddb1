"""
What outage of Consul's servers a member rides out, and what an election takes.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .consul.durations import from_json
from .settings import Settings, guard_seconds

#: From the last renewal that was answered to the next, for each unit of
#: ``raft_multiplier``: 3.2 s were measured with 1 and 22 s with 5.
ELECTION_SECONDS = 4.4

#: Consul's Raft heartbeat with a ``raft_multiplier`` of 1, in seconds.
HEARTBEAT_SECONDS = 1.0


def ridden_out(settings: Settings, session_ttl: float) -> float:
    """
    Give for how many seconds Consul may be silent before a lease is over.
    """
    return session_ttl - settings.renew_interval - guard_seconds(session_ttl)


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
