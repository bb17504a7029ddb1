"""
What a member says, once it is one, about its timing and that of Consul's servers.
"""

from __future__ import annotations

import math
from typing import Any

from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .errors import ConsulError
from .outage import election_seconds, raft_heartbeat, ridden_out
from .settings import Settings


@inlineCallbacks
def compare_timing(
    api: ConsulApi, settings: Settings, session_ttl: float, log: Any
) -> Steps[None]:
    """
    Say what outage of Consul's servers is ridden out, and whether that is
    enough for an election of theirs.

    :param session_ttl: of the session as it was made.
    :return: a Deferred that fires when that is said.
    """
    rides = round(ridden_out(settings, session_ttl), 1)
    try:
        agent: dict[str, Any] = yield api.agent_self()
    except ConsulError:
        # No right to ask is no reason to say anything; doctor does.
        return
    heartbeat = raft_heartbeat(agent)
    election = None if heartbeat is None else round(election_seconds(heartbeat), 1)
    if election is None or election <= rides:
        log.info("outage-ridden-out", seconds=rides, consul_election_seconds=election)
        return
    log.warning(
        "session-ttl-short",
        session_ttl=session_ttl,
        rides_out_seconds=rides,
        consul_election_seconds=election,
        effect="leadership and work may stop while Consul elects a leader",
        action=f"raise session_ttl to {math.ceil(election + session_ttl - rides)}, or "
        "set raft_multiplier 1 on the servers",
    )
