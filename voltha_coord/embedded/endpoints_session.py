"""
``/v1/session/`` of the embedded Consul.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from ..consul.transport import Response
from .answers import Fields, Problem, answer_json, parse_json
from .call import Call, Found, Routes
from .catalog import SERF_HEALTH
from .durations import SECOND
from .sessions import Session, check_ttl, read_lock_delay


def create(call: Call) -> Response:
    """
    Let a session begin.
    """
    body = call.request.body
    fields = Fields(parse_json(body, "Request decode failed") if body else None)
    node_checks: tuple[str, ...] | None = (SERF_HEALTH,)
    old_checks: tuple[str, ...] = ()
    if fields.has("NodeChecks"):
        # Whoever names node checks loses those under the field's old name.
        node_checks = fields.texts("NodeChecks")
    if fields.has("Checks"):
        old_checks = fields.texts("Checks") or ()
        if not old_checks or fields.has("NodeChecks"):
            node_checks, old_checks = (), ()
    lock_delay = fields.raw("LockDelay")
    session = Session(
        id="",
        node=fields.text("Node") or call.agent.node,
        name=fields.text("Name"),
        behavior=fields.text("Behavior") or "release",
        lock_delay=15 * SECOND if lock_delay is None else read_lock_delay(lock_delay),
        ttl=fields.text("TTL"),
        node_checks=node_checks,
        service_checks=_service_checks(fields),
        old_checks=old_checks,
    )
    call.demand("session", session.node, "write")
    check_ttl(session.ttl)
    return answer_json({"ID": call.state.create_session(session)})


def _service_checks(fields: Fields) -> tuple[tuple[str, str], ...] | None:
    rows = fields.items("ServiceChecks")
    if rows is None:
        return None
    checks = [Fields(row) for row in rows]
    return tuple((check.text("ID"), check.text("Namespace")) for check in checks)


def _id(call: Call) -> str:
    if not call.name:
        raise Problem(400, "Missing session")
    return call.name


def destroy(call: Call) -> Response:
    """
    End a session; one that is not there is well ended.
    """
    session = call.state.sessions.get(_id(call))
    if session is not None:
        call.demand("session", session.node, "write")
        call.state.destroy_session(session.id)
    return answer_json(True)


def renew(call: Call) -> Response:
    """
    Let a session's TTL run anew.
    """
    session = call.state.sessions.get(_id(call))
    if session is None:
        raise Problem(404, f"Session id '{call.name}' not found")
    call.demand("session", session.node, "write")
    call.state.sessions.renew(session)
    return answer_json([session.to_json()])


def info(call: Call) -> Response | Deferred[Response]:
    """
    Show one session.
    """
    session_id, state = _id(call), call.state

    def find() -> Found:
        session = state.sessions.get(session_id)
        visible = session is not None and not call.denied(
            "session", session.node, "read"
        )
        found = [session.to_json()] if session is not None and visible else []
        return state.sessions.index, answer_json(found)

    return call.read(find, lambda: [state.watch_sessions()])


def _list(call: Call, node: str | None) -> Response | Deferred[Response]:
    state = call.state

    def find() -> Found:
        shown: list[dict[str, Any]] = [
            session.to_json()
            for session in state.sessions.all(node)
            if not call.denied("session", session.node, "read")
        ]
        return state.sessions.index, answer_json(shown)

    return call.read(find, lambda: [state.watch_sessions()])


def list_all(call: Call) -> Response | Deferred[Response]:
    """
    Show all sessions.
    """
    return _list(call, None)


def list_node(call: Call) -> Response | Deferred[Response]:
    """
    Show the sessions of a node.
    """
    if not call.name:
        raise Problem(400, "Missing node name")
    return _list(call, call.name)


ROUTES: Routes = {
    "/v1/session/create": {"PUT": create},
    "/v1/session/destroy/": {"PUT": destroy},
    "/v1/session/renew/": {"PUT": renew},
    "/v1/session/info/": {"GET": info},
    "/v1/session/list": {"GET": list_all},
    "/v1/session/node/": {"GET": list_node},
}
