"""
``/v1/kv/`` and ``/v1/txn`` of the embedded Consul.
"""

from __future__ import annotations

import base64
from typing import Any

from twisted.internet.defer import Deferred

from ..consul.model import Entry
from ..consul.transport import Response
from .answers import VARY, Problem, answer_json, answer_nothing
from .call import Call, Found, Routes
from .transactions import transact

#: The largest value, and the largest body of a transaction, in bytes.
MAX_VALUE = 512 * 1024


def show(entry: Entry, value: bool = True) -> dict[str, Any]:
    """
    Give an entry as Consul shows it.

    :param value: whether the value is shown.
    """
    shown: dict[str, Any] = {
        "LockIndex": entry.lock_index,
        "Key": entry.key,
        "Flags": entry.flags,
        "Value": base64.b64encode(entry.value).decode("ascii")
        if value and entry.value
        else None,
    }
    if entry.session:
        shown["Session"] = entry.session
    shown["CreateIndex"] = entry.create_index
    shown["ModifyIndex"] = entry.modify_index
    return shown


def check_size(body: bytes, option: str) -> None:
    """
    Refuse a body that is too large.

    :raises Problem: 413.
    """
    if len(body) > MAX_VALUE:
        raise Problem(
            413,
            f"Request body({len(body)} bytes) too large, max size: {MAX_VALUE} bytes. "
            f"See https://www.consul.io/docs/agent/options.html#{option}.",
        )


def get(call: Call) -> Response | Deferred[Response]:
    """
    Read a key, the keys under a prefix, or their names.
    """
    if "keys" in call.params:
        return _get_names(call)
    if "recurse" in call.params:
        return _get_tree(call)
    key, kv = call.name, call.state.kv
    if not key:
        raise Problem(400, "Missing key name")
    call.demand("key", key, "read")

    def find() -> Found:
        entry = call.state.kv.get(key)
        if entry is None:
            return call.state.kv.index, answer_nothing(404)
        if "raw" in call.params:
            headers = {
                "content-type": "text/plain",
                "content-security-policy": "sandbox",
                "x-content-type-options": "nosniff",
                **VARY,
            }
            return entry.modify_index, Response(200, headers, entry.value)
        return entry.modify_index, answer_json([show(entry)])

    return call.read(find, lambda: [kv.watch(key)])


def _readable(call: Call, entries: list[Entry]) -> list[Entry]:
    return [e for e in entries if not call.denied("key", e.key, "read")]


def _get_tree(call: Call) -> Response | Deferred[Response]:
    prefix, state = call.name, call.state

    def find() -> Found:
        entries = list(state.kv.walk(prefix))
        index = state.kv.list_index(prefix, entries)
        entries = _readable(call, entries)
        if not entries:
            return index, answer_nothing(404)
        return index, answer_json([show(e) for e in entries])

    return call.read(find, lambda: [state.kv.watch_prefix(prefix)])


def _get_names(call: Call) -> Response | Deferred[Response]:
    prefix, state = call.name, call.state
    separator = call.params.get("separator", "")

    def find() -> Found:
        entries = list(state.kv.walk(prefix))
        index = state.kv.list_index(prefix, entries)
        names: dict[str, None] = {}
        for entry in _readable(call, entries):
            cut = entry.key.find(separator, len(prefix)) if separator else -1
            name = entry.key if cut < 0 else entry.key[: cut + len(separator)]
            names[name] = None
        if prefix and not names:
            return index, answer_nothing(404)
        return index, answer_json(list(names))

    return call.read(find, lambda: [state.kv.watch_prefix(prefix)])


def put(call: Call) -> Response:
    """
    Write a key: plainly, by its index, with a lock, or with its release.
    """
    key, body = call.name, call.request.body
    if not key:
        raise Problem(400, "Missing key name")
    call.conflicting("cas", "acquire", "release")
    flags = call.number("flags") if "flags" in call.params else 0
    cas = call.number("cas") if "cas" in call.params else 0
    check_size(body, "kv_max_value_size")
    call.demand("key", key, "write")
    state = call.state
    if "acquire" in call.params and state.kv.delayed(key):
        return answer_json(False)
    with state.draft(call.request) as draft:
        done: Entry | None
        if "cas" in call.params:
            done = draft.cas(key, body, flags, cas)
        elif "acquire" in call.params:
            state.sessions.require(call.params["acquire"])
            done = draft.lock(key, body, flags, call.params["acquire"])
        elif "release" in call.params:
            if not call.params["release"]:
                raise Problem(500, "missing session")
            done = draft.unlock(key, body, flags, call.params["release"])
        else:
            done = draft.set(key, body, flags)
    return answer_json(done is not None)


def delete(call: Call) -> Response:
    """
    Delete a key, by its index or not, or all keys under a prefix.
    """
    key = call.name
    call.conflicting("recurse", "cas")
    if not key and "recurse" not in call.params:
        raise Problem(400, "Missing key name")
    cas = call.number("cas") if "cas" in call.params else 0
    call.demand("key", key, "write")
    done = True
    with call.state.draft(call.request) as draft:
        if "recurse" in call.params:
            draft.delete_tree(key)
        elif "cas" in call.params:
            done = draft.delete_cas(key, cas)
        else:
            draft.delete(key)
    return answer_json(done)


def txn(call: Call) -> Response:
    """
    Do several operations, all or none.
    """
    check_size(call.request.body, "txn_max_req_len")
    outcome = transact(call)
    headers = {}
    answer: dict[str, Any] = {
        "Results": None
        if outcome.errors
        else [{"KV": show(e, value)} for e, value in outcome.results],
        "Errors": [{"OpIndex": i, "What": what} for i, what in outcome.errors] or None,
    }
    if outcome.read_only:
        known = call.agent.reaches_leader
        answer |= {"Index": 0, "LastContact": 0, "KnownLeader": known}
        answer["ConsistencyLevel"] = ""
        headers = {
            "x-consul-knownleader": str(known).lower(),
            "x-consul-lastcontact": "0",
        }
    return answer_json(answer, 409 if outcome.errors else 200, headers)


ROUTES: Routes = {
    "/v1/kv/": {"GET": get, "PUT": put, "DELETE": delete},
    "/v1/txn": {"PUT": txn},
}
