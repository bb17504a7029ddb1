"""
Named locks, as an operator sees them, takes one, and takes one away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import uuid4

from attrs import evolve, frozen
from twisted.internet.defer import inlineCallbacks

from .._lock import LockRecord, LockTrace
from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry, Op
from ..consul.transaction import reply_lost
from ..errors import AccessDenied, ConsulError, CoordinationError, TransactionRefused
from ..keys import Keys, shown
from ..lock_expiry import lease_ended
from ..lock_store import ATTEMPTS, Found, LockStore, Taken, given_back, locks_in
from ..succession import Succession
from .documents import Document
from .findings import one_line

#: Who holds a lock that an operator made.
OPERATOR = "operator"


def _store(api: ConsulApi, keys: Keys) -> LockStore:
    return LockStore(api, keys, lambda: uuid4().hex)


# Which there are.


@inlineCallbacks
def locks(api: ConsulApi, keys: Keys) -> Steps[Document]:
    """
    Read the locks that are held, or are not free yet.

    :return: a Deferred that fires with the document, or fails with
        :class:`ConsulError`.
    """
    entries: tuple[Entry, ...] = yield api.txn(
        (Op.get_tree(keys.locks), Op.get_tree(keys.members))
    )
    if not any(entry.key.startswith(keys.locks) for entry in entries):
        denied: bool = yield api.denied(keys.probe("locks"))
        if denied:
            raise AccessDenied(f"this token may not read {keys.locks}")
    return {"locks": list(_rows(keys, entries))}


def _rows(keys: Keys, entries: Iterable[Entry]) -> Iterator[Document]:
    listed = [entry for entry in entries if entry.key.startswith(keys.locks)]
    there = {
        entry.key.removeprefix(keys.members)
        for entry in entries
        if entry.key.startswith(keys.members) and entry.session is not None
    }
    known = locks_in(keys, listed)
    for name, found in sorted(known.items()):
        row = _row(name, found, there)
        if row is not None:
            yield row
    ours = {keys.lock(name) for name in known}
    for entry in listed:
        if entry.key.removesuffix("/last") not in ours:
            name = shown(entry.key.removeprefix(keys.locks))
            yield {**_NOTHING, "name": name, "problem": "no name of a lock"}


_NOTHING: Document = {
    "name": None,
    "state": "unreadable",
    "owner": None,
    "owner_is_member": None,
    "fencing_token": None,
    "bound_to": None,
    "session_id": None,
    "valid_for": None,
    "problem": None,
}


def _row(name: str, found: Found, there: set[str]) -> Document | None:
    """
    Give what there is to say of a lock, ``None`` when it is free.
    """
    entry, record, trace = found.entry, found.record, found.trace
    if entry is not None and record is None:
        problem = "its value is no lock; --force deletes it"
        return {**_NOTHING, "name": name, "problem": problem}
    if entry is not None and record is not None:
        term = record.valid_for is not None
        return {
            "name": name,
            "state": "held",
            "owner": record.owner,
            "owner_is_member": record.owner in there,
            "fencing_token": found.token,
            "bound_to": "term" if term else "session",
            "session_id": entry.session,
            "valid_for": record.valid_for,
            "problem": None if term or entry.session else "its session is gone",
        }
    if trace is None or trace.released or trace.session is None:
        return None
    return {
        **_NOTHING,
        "name": name,
        "state": "waiting",
        "owner": trace.owner,
        "owner_is_member": trace.owner in there,
        "bound_to": "session",
        "session_id": trace.session,
        "problem": "its holder is gone, and may act until its lease must be over",
    }


# Making one.


@inlineCallbacks
def create(api: ConsulApi, keys: Keys, name: str, valid_for: float) -> Steps[Document]:
    """
    Take a lock with a term, for nobody to renew.

    :return: a Deferred that fires with the document, or fails with
        :class:`CoordinationError` when it cannot be had now.
    """
    store = _store(api, keys)
    found: Found = yield store.look(name, consistent=True)
    why = _not_free(name, found)
    if not why:
        judge = Succession(lambda: 0.0, api, 0.0)
        over: bool = yield lease_ended(judge, name, found)
        if not over:
            why = (
                f"lock {name}: whoever held it last may act yet; it is free at the "
                "latest when the leader has cleared it, or with lock delete --force"
            )
    if why:
        raise CoordinationError(why)
    record = LockRecord(OPERATOR, store.unique(), valid_for)
    trace = LockTrace(OPERATOR, record.owner_token, attempt=store.unique())
    try:
        taken: Taken | None = yield store.take(name, found, record, trace)
    except TransactionRefused:
        taken = None
    except ConsulError as error:
        if not reply_lost(error):
            raise
        taken = yield store.settle(name, found, record)
    if taken is None:
        raise CoordinationError(f"lock {name}: somebody else takes it at this moment")
    return {
        "name": name,
        "owner": OPERATOR,
        "owner_token": record.owner_token,
        "fencing_token": taken.index,
        "valid_for": valid_for,
    }


def _not_free(name: str, found: Found) -> str:
    if found.entry is None:
        return ""
    if found.record is None:
        return f"lock {name}: what stands there is no lock; lock delete --force"
    owner = one_line(found.record.owner)
    if found.record.valid_for is None:
        return f"lock {name}: held by {owner}, bound to its session"
    return (
        f"lock {name}: held by {owner}, for {found.record.valid_for:g} s from its "
        "last renewal; the leader clears it when that has passed"
    )


# Taking one away.


@frozen
class Deleted:
    """
    What came of taking a lock away.

    :ivar owner: who held it; ``None`` when nobody did.
    :ivar token: its fencing token.
    :ivar deleted: whether anything was.
    """

    name: str
    owner: str | None
    token: int
    deleted: bool

    def to_json(self) -> Document:
        """
        Give it as the ``--json`` document has it.
        """
        return {
            "name": self.name,
            "deleted": self.deleted,
            "owner": self.owner,
            "fencing_token": self.token or None,
        }


@inlineCallbacks
def delete(
    api: ConsulApi, keys: Keys, name: str, owner_token: str | None
) -> Steps[Deleted]:
    """
    Take a lock away; one that is free is no error.

    :param owner_token: under which it is held; ``None`` for whoever holds it.
    :return: a Deferred that fires with what was taken away, or fails with
        :class:`CoordinationError`.
    """
    store = _store(api, keys)
    for _ in range(ATTEMPTS):
        found: Found = yield store.look(name, consistent=True)
        held = found.entry is not None
        if owner_token is not None:
            if held and not found.held_by(owner_token):
                owner = one_line(found.record.owner) if found.record else "somebody"
                raise CoordinationError(
                    f"lock {name}: held by {owner} under another owner token; "
                    "--force if it is to go nevertheless"
                )
            if not held and not found.left_by(owner_token):
                return Deleted(name, None, 0, deleted=False)
            if not found.left_by(owner_token):
                found = evolve(found, trace=None)
        ops = given_back(keys, name, found)
        if not ops:
            return Deleted(name, None, 0, deleted=False)
        try:
            yield api.txn(ops)
        except TransactionRefused:
            continue
        record = found.record or found.trace
        return Deleted(
            name, None if record is None else record.owner, found.token, deleted=True
        )
    raise CoordinationError(f"lock {name}: it changes again and again; try again")
