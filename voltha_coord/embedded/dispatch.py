"""
Which endpoint of the embedded Consul answers which path.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from ..consul.transport import Request, Response
from . import endpoints_agent, endpoints_catalog, endpoints_kv, endpoints_session
from .answers import Problem, answer_nothing
from .call import Call, Endpoint, Routes
from .pending import Pending

if TYPE_CHECKING:
    from .agent import Agent

#: Every path that is answered.
ROUTES: Routes = {
    **endpoints_kv.ROUTES,
    **endpoints_session.ROUTES,
    **endpoints_agent.ROUTES,
    **endpoints_catalog.ROUTES,
}

#: What an agent answers without asking the servers.
LOCAL = "/v1/agent/"

#: What names its datacenter in the body, and not among the parameters.
CATALOG = "/v1/catalog/"

#: How long an agent holds a request while no leader is known, in seconds.
RPC_HOLD_SECONDS = 7.0


#: Paths that others begin with, the longest first.
_PREFIXES = sorted((r for r in ROUTES if r.endswith("/")), key=len, reverse=True)


@lru_cache(maxsize=4096)
def _find(path: str) -> tuple[dict[str, Endpoint], str] | None:
    methods = ROUTES.get(path)
    if methods is not None:
        return methods, ""
    for prefix in _PREFIXES:
        if path.startswith(prefix):
            return ROUTES[prefix], path[len(prefix) :]
    return None


@lru_cache(maxsize=4096)
def _cleaned(path: str) -> str:
    clean = posixpath.normpath("/" + path.lstrip("/"))
    return clean + "/" if path.endswith("/") and clean != "/" else clean


def dispatch(agent: Agent, request: Request) -> Response | Deferred[Response]:
    """
    Answer a request.

    :raises Problem: if it ends with an error status.
    """
    if not request.path.isprintable():
        return answer_nothing(400)
    clean = _cleaned(request.path)
    if clean != request.path:
        moved = f'<a href="{clean}">Moved Permanently</a>.\n\n'.encode()
        headers = {"location": clean, "content-type": "text/html; charset=utf-8"}
        return Response(301, headers, moved if request.method == "GET" else b"")
    found = _find(request.path)
    if found is None:
        return answer_nothing(404)
    methods, name = found
    endpoint = methods.get(request.method)
    if endpoint is None:
        return _other_method(request.method, methods)
    call = Call(agent, request, name)
    if request.method != "GET" and not request.path.startswith((LOCAL, CATALOG)):
        # A read judges its other parameters first.
        call.demand_datacenter()
    if request.path.startswith(LOCAL) or call.stale or agent.reaches_leader:
        return endpoint(call)
    return _held(agent, call, endpoint)


def _other_method(method: str, methods: dict[str, Endpoint]) -> Response:
    allowed = {"allow": ",".join(("OPTIONS", *methods))}
    if method == "OPTIONS":
        return answer_nothing(200, allowed)
    raise Problem(405, f"method {method} not allowed", allowed)


def _held(
    agent: Agent, call: Call, endpoint: Endpoint
) -> Response | Deferred[Response]:
    """
    Hold a request until there is a leader, and refuse it after a while.
    """
    go_on = Response(0, {}, b"")

    def look() -> Response | None:
        return go_on if agent.reaches_leader else None

    def refuse() -> Response:
        if not agent.connected:
            raise Problem(500, "No known Consul servers")
        raise Problem(500, "No cluster leader")

    held = agent.wait(
        Pending(
            agent.state.clock,
            RPC_HOLD_SECONDS,
            look,
            lambda: [agent.state.watch_leader()],
            refuse,
        )
    )

    def proceed(response: Response) -> Response | Deferred[Response]:
        return endpoint(call) if response is go_on else response

    def refused(failure: Failure) -> Response:
        failure.trap(Problem)
        problem = failure.value
        assert isinstance(problem, Problem)
        return problem.response()

    held.addCallback(proceed)
    return held.addErrback(refused)
