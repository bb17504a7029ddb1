"""
The doctor: looks at Consul and at the cluster's keys, and changes nothing.

No session is opened and no key written, not even to find out whether it could
be (field report 25): what a token may do is asked of Consul's own judge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, inlineCallbacks

from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.classify import decode
from ..consul.model import KeyNames, SessionInfo
from ..consul.transport import Request, Response
from ..errors import AccessDenied, ConsulError, ConsulUnavailable, NoClusterLeader
from ..keys import Keys, probe
from ..outage import raft_heartbeat
from ..settings import Settings
from .agent import KEYS, SERVICE, SESSION, Facts, is_unknown_token, of_agent
from .cluster import of_cluster
from .findings import Finding, wrong
from .reading import snapshot, view
from .view import View

#: What members list, and must be allowed to list.
LISTED = ("members", "work", "assignments", "owners", "status", "intent")

#: For how long the clocks are watched at least, in seconds.
WATCH_SECONDS = 1.0

#: Where Consul's own interface asks what a token may do.
AUTHORIZE = "/v1/internal/acl/authorize"


class Doctor:
    """
    Examines one cluster.

    :param now: a clock that no step can fool, in seconds.
    :param wall: the wall clock, in seconds since 1970.
    :param wait: gives a Deferred that fires after so many seconds.
    """

    def __init__(
        self,
        api: ConsulApi,
        keys: Keys,
        settings: Settings,
        *,
        now: Callable[[], float],
        wall: Callable[[], float],
        wait: Callable[[float], Deferred[None]],
    ) -> None:
        self._api = api
        self._keys = keys
        self._settings = settings
        self._now = now
        self._wall = wall
        self._wait = wait

    @inlineCallbacks
    def examine(self) -> Steps[tuple[Finding, ...]]:
        """
        Look at everything.

        :return: a Deferred of the findings; it never fails, as what cannot be
            looked at is a finding too.
        """
        started, offset = self._now(), self._wall() - self._now()
        try:
            facts: Facts = yield self._facts()
        except ConsulError as error:
            return (_unreachable(self._api.requester.address, error),)
        findings: list[Finding] = []
        try:
            if not facts.token_unknown:
                cluster: View = yield self._view()
                names: KeyNames = yield self._api.keys(self._keys.prefix + "/")
                facts = evolve(facts, sessions=(yield self._sessions(cluster)))
        except ConsulError as error:
            findings.append(
                wrong("keys", f"could not be read: {error}", "see the lines above")
            )
        else:
            # What may not be listed looks empty: nothing can be said of it.
            if not (facts.denied or facts.token_unknown):
                findings.extend(of_cluster(cluster, names.names, facts.version))
        yield self._wait(max(0.0, WATCH_SECONDS - (self._now() - started)))
        facts = evolve(
            facts,
            watched=self._now() - started,
            step=self._wall() - self._now() - offset,
        )
        return (*of_agent(facts, self._settings), *findings)

    @inlineCallbacks
    def _facts(self) -> Steps[Facts]:
        facts = Facts(address=self._api.requester.address)
        request = Request(
            "GET", "/v1/status/leader", deadline=self._api.command_timeout
        )
        try:
            response: Response = yield self._api.requester.request(request)
        except NoClusterLeader:
            # A client agent that knows no server says it so.
            pass
        else:
            facts = evolve(
                facts,
                cluster_leader=str(decode(response)),
                apart=self._apart(response),
            )
        facts = yield from self._agent(facts)
        if facts.token_unknown:
            return facts
        if not facts.cluster_leader:
            if facts.rights is None:
                facts = evolve(facts, rights_from="the servers have no leader")
            return facts
        denied = []
        for name in LISTED:
            if (yield self._api.denied(probe(f"{self._keys.prefix}/{name}/"))):
                denied.append(name)
        facts = evolve(facts, denied=tuple(denied))
        if facts.rights is None:
            facts = yield from self._rights(facts)
        return facts

    def _apart(self, response: Response) -> float | None:
        try:
            date = parsedate_to_datetime(response.headers["date"])
        except (KeyError, ValueError):
            return None
        return date.timestamp() - self._wall()

    def _agent(self, facts: Facts) -> Steps[Facts]:
        try:
            told: dict[str, Any] = yield self._api.agent_self()
        except AccessDenied as error:
            return evolve(facts, token_unknown=is_unknown_token(error))
        config = told.get("Config") or {}
        debug = told.get("DebugConfig") or {}
        server = config.get("Server")
        return evolve(
            facts,
            version=str(config["Version"]) if config.get("Version") else None,
            node=str(config["NodeName"]) if config.get("NodeName") else None,
            server=server if isinstance(server, bool) else None,
            heartbeat=raft_heartbeat(told),
            **_unrestricted(debug),
        )

    def _rights(self, facts: Facts) -> Steps[Facts]:
        asked = {
            KEYS: ("key", f"{self._keys.prefix}/"),
            SESSION: ("session", facts.node or ""),
            SERVICE: ("service", "voltha-coord"),
        }
        body = [
            {"Resource": resource, "Segment": segment, "Access": "write"}
            for resource, segment in asked.values()
        ]
        request = Request(
            "POST",
            AUTHORIZE,
            body=json.dumps(body).encode(),
            deadline=self._api.command_timeout,
        )
        try:
            response: Response = yield self._api.requester.request(request)
        except AccessDenied as error:
            if "disabled" in str(error):
                allowed = dict.fromkeys(asked, True)
                return evolve(facts, rights=allowed, rights_from="ACLs are off")
            return evolve(facts, rights_from=f"Consul does not say: {error}")
        except ConsulError as error:
            return evolve(facts, rights_from=f"Consul does not say: {error}")
        try:
            answers = [bool(row["Allow"]) for row in decode(response)]
            rights = dict(zip(asked, answers, strict=True))
        except (ConsulUnavailable, KeyError, TypeError, ValueError):
            return evolve(facts, rights_from="this Consul cannot be asked")
        return evolve(facts, rights=rights, rights_from="asked of Consul's ACLs")

    @inlineCallbacks
    def _view(self) -> Steps[View]:
        entries = yield self._api.txn(snapshot(self._keys))
        return view(self._keys, entries)

    @inlineCallbacks
    def _sessions(self, cluster: View) -> Steps[dict[str, SessionInfo] | None]:
        try:
            found: tuple[SessionInfo, ...] = yield self._api.sessions(consistent=False)
        except AccessDenied:
            return None
        by_id = {session.id: session for session in found}
        return {
            id: by_id[member.session]
            for id, member in cluster.live.items()
            if member.session in by_id
        }


def _unrestricted(debug: Mapping[str, Any]) -> dict[str, Any]:
    if debug.get("ACLsEnabled") is not False:
        return {}
    allowed = dict.fromkeys((KEYS, SESSION, SERVICE), True)
    return {"rights": allowed, "rights_from": "ACLs are off"}


def _unreachable(address: str, error: ConsulError) -> Finding:
    told = str(error)
    return wrong(
        "reachable",
        told if told.startswith(address) else f"{address}: {told}",
        "is the agent up, and is --consul (CONSUL, CONSUL_HTTP_ADDR) right?",
    )
