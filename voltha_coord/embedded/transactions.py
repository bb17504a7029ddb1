"""
Transactions of the embedded Consul: all operations, or none.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import frozen

from ..consul.model import Entry
from .answers import Fields, Problem, parse_json
from .kv import Draft

if TYPE_CHECKING:
    from .call import Call
    from .state import ConsulState

#: How many operations a transaction may have; 128 from Consul 1.14 on.
MAX_OPERATIONS = 64

_PREFIX = "Failed to parse body"


@frozen
class Operation:
    """
    One operation, as it was sent.
    """

    verb: str
    key: str
    value: bytes
    flags: int
    index: int
    session: str


@frozen
class Outcome:
    """
    What became of a transaction.

    :ivar results: entries, each with whether its value is shown.
    :ivar errors: positions and reasons; if there are any, nothing was done.
    :ivar read_only: whether it had only reads, and was no entry of the log.
    """

    results: tuple[tuple[Entry, bool], ...]
    errors: tuple[tuple[int, str], ...]
    read_only: bool


class _Refused(Exception):
    """
    An operation cannot be done; the text says why.
    """


_Result = list[tuple[Entry, bool]]
_Verb = Callable[["ConsulState", Draft, Operation], _Result]


def _wrote(entry: Entry | None, complaint: str) -> _Result:
    if entry is None:
        raise _Refused(complaint)
    return [(entry, False)]


def _stale(action: str, op: Operation) -> str:
    return f'failed to {action} key "{op.key}", index is stale'


def _set(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    return [(draft.set(op.key, op.value, op.flags), False)]


def _cas(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    entry = draft.cas(op.key, op.value, op.flags, op.index)
    return _wrote(entry, _stale("set", op))


def _lock(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    state.sessions.require(op.session)
    entry = draft.lock(op.key, op.value, op.flags, op.session)
    return _wrote(entry, f'failed to lock key "{op.key}", lock is already held')


def _unlock(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    if not op.session:
        raise _Refused("missing session")
    entry = draft.unlock(op.key, op.value, op.flags, op.session)
    return _wrote(
        entry,
        f'failed to unlock key "{op.key}", lock isn\'t held, or is held by another '
        f"session",
    )


def _get(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    entry = draft.get(op.key)
    if entry is None:
        raise _Refused(f'key "{op.key}" doesn\'t exist')
    return [(entry, True)]


def _get_tree(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    return [(entry, True) for entry in draft.tree(op.key)]


def _check_index(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    entry = draft.get(op.key)
    if entry is None:
        raise _Refused(f'failed to check index, key "{op.key}" doesn\'t exist')
    if entry.modify_index != op.index:
        raise _Refused(
            f'failed index check for key "{op.key}", current modify index '
            f"{entry.modify_index} != {op.index}"
        )
    return [(entry, False)]


def _check_session(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    entry = draft.get(op.key)
    if entry is None:
        raise _Refused(f'failed to check session, key "{op.key}" doesn\'t exist')
    if (entry.session or "") != op.session:
        raise _Refused(
            f'failed session check for key "{op.key}", current session '
            f'"{entry.session or ""}" != "{op.session}"'
        )
    return [(entry, False)]


def _check_not_exists(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    if draft.get(op.key) is not None:
        raise _Refused(f'key "{op.key}" exists')
    return []


def _delete(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    draft.delete(op.key)
    return []


def _delete_cas(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    if not draft.delete_cas(op.key, op.index):
        raise _Refused(_stale("delete", op))
    return []


def _delete_tree(state: ConsulState, draft: Draft, op: Operation) -> _Result:
    draft.delete_tree(op.key)
    return []


_READS: dict[str, _Verb] = {
    "get": _get,
    "get-tree": _get_tree,
    "check-index": _check_index,
    "check-session": _check_session,
    "check-not-exists": _check_not_exists,
}
_WRITES: dict[str, _Verb] = {
    "set": _set,
    "cas": _cas,
    "lock": _lock,
    "unlock": _unlock,
    "delete": _delete,
    "delete-cas": _delete_cas,
    "delete-tree": _delete_tree,
}
_VERBS = _READS | _WRITES


def parse_operations(body: bytes) -> list[Operation]:
    """
    Take a transaction's body apart.

    :raises Problem: 400 or 413, in Consul's words.
    """
    rows = parse_json(body, _PREFIX)
    if rows is None:
        rows = []
    if not isinstance(rows, list):
        raise Problem(
            400,
            f"{_PREFIX}: json: cannot unmarshal object into Go value of type "
            f"api.TxnOps",
        )
    if len(rows) > MAX_OPERATIONS:
        raise Problem(
            413,
            f"Transaction contains too many operations "
            f"({len(rows)} > {MAX_OPERATIONS})",
        )
    return [op for row in rows for op in _parse_operation(row)]


def _parse_operation(row: object) -> list[Operation]:
    outer = Fields(row, _PREFIX)
    for name in row if isinstance(row, dict) else ():
        if name.lower() != "kv":
            raise Problem(400, f'{_PREFIX}: json: unknown field "{name}"')
    if outer.raw("KV") is None:
        return []
    fields = Fields(outer.raw("KV"), _PREFIX)
    key, text = fields.text("Key"), fields.text("Value")
    if "\x00" in key:
        # The tree ends its keys with one; no path can hold one either.
        raise Problem(400, f"{_PREFIX}: a key cannot hold a NUL")
    try:
        value = binascii.a2b_base64(text, strict_mode=True) if text else b""
    except (binascii.Error, ValueError):
        raise Problem(400, f"{_PREFIX}: illegal base64 data at input byte 0") from None
    return [
        Operation(
            fields.text("Verb"),
            key,
            value,
            fields.number("Flags"),
            fields.number("Index"),
            fields.text("Session"),
        )
    ]


def transact(call: Call) -> Outcome:
    """
    Do what the body of a request asks for.

    :raises Problem: 400, 403 or 413, in Consul's words.
    """
    operations = parse_operations(call.request.body)
    read_only = not any(op.verb in _WRITES for op in operations)
    errors = _precheck(call, operations)
    if errors:
        return Outcome((), tuple(errors), read_only)
    state = call.state
    if read_only:
        draft = Draft(state.kv, state.index)
        results, errors = _run(call, draft, operations)
    else:
        with state.draft(call.request) as draft:
            results, errors = _run(call, draft, operations)
            if errors:
                draft.changes.clear()
    return Outcome(tuple(results), tuple(errors), read_only)


def _precheck(call: Call, operations: list[Operation]) -> list[tuple[int, str]]:
    """
    Find what the servers' leader refuses before the log sees it.
    """
    errors = []
    for i, op in enumerate(operations):
        if not op.key and op.verb not in ("get-tree", "delete-tree"):
            errors.append((i, "Must provide key"))
        elif _forbidden(call, op):
            errors.append((i, "Permission denied"))
        elif op.verb == "lock" and call.state.kv.delayed(op.key):
            errors.append((i, f'failed to lock key "{op.key}" due to lock delay'))
    return errors


def _forbidden(call: Call, op: Operation) -> bool:
    if op.verb in _WRITES:
        return call.denied("key", op.key, "write")
    return op.verb != "get-tree" and call.denied("key", op.key, "read")


def _run(
    call: Call, draft: Draft, operations: list[Operation]
) -> tuple[_Result, list[tuple[int, str]]]:
    results: _Result = []
    errors: list[tuple[int, str]] = []
    for i, op in enumerate(operations):
        verb = _VERBS.get(op.verb)
        try:
            if verb is None:
                raise _Refused(f'unknown KV verb "{op.verb}"')
            results += verb(call.state, draft, op)
        except (_Refused, Problem) as e:
            errors.append((i, str(e)))
    return [
        (e, shown) for e, shown in results if not call.denied("key", e.key, "read")
    ], errors
