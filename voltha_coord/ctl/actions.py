"""
What the commands do with Consul: read a cluster, remove work.

Each takes the verbs and the keys, and gives a Deferred that fails with
:class:`~voltha_coord.errors.CoordinationError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry, KeyNames, Op
from ..errors import AccessDenied
from ..keys import Keys, probe
from .reading import snapshot, view
from .view import View

#: What one transaction may hold with every version of Consul.
OPERATIONS_AT_ONCE = 64

#: What must be readable before an empty listing is believed.
_LISTED = ("members", "work", "assignments", "owners", "status", "errors", "intent")


@inlineCallbacks
def look(api: ConsulApi, keys: Keys) -> Steps[View]:
    """
    Read the whole cluster at one moment.

    :raises AccessDenied: when what looks empty may not be listed.
    """
    entries: tuple[Entry, ...] = yield api.txn(snapshot(keys))
    for name in _LISTED:
        prefix = f"{keys.prefix}/{name}/"
        if not any(entry.key.startswith(prefix) for entry in entries):
            yield from refuse_denied(api, prefix)
    return view(keys, entries)


def refuse_denied(api: ConsulApi, prefix: str) -> Steps[None]:
    """
    Doubt that nothing is under a prefix; to be yielded from.

    :raises AccessDenied: when it may not be listed.
    """
    if (yield api.denied(probe(prefix))):
        raise AccessDenied(f"this token may not read {prefix}")


@frozen
class Removed:
    """
    What came of removing work.

    :ivar removed: the ids that were there.
    :ivar missing: the ids that were not.
    """

    removed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@inlineCallbacks
def remove_work(api: ConsulApi, keys: Keys, ids: Sequence[str]) -> Steps[Removed]:
    """
    Delete work items, many in one transaction.
    """
    there: set[str] = yield _work_ids(api, keys)
    gone = [id for id in ids if id in there]
    for start in range(0, len(gone), OPERATIONS_AT_ONCE):
        batch = gone[start : start + OPERATIONS_AT_ONCE]
        yield api.txn([Op.delete(keys.work_item(id)) for id in batch])
    return Removed(
        removed=tuple(id for id in ids if id in there),
        missing=tuple(id for id in ids if id not in there),
    )


@inlineCallbacks
def remove_all_work(
    api: ConsulApi, keys: Keys, confirm: Callable[[int], None]
) -> Steps[Removed]:
    """
    Delete all work items there are, keys that are no valid ids included.

    :param confirm: is told how many there are, unless there are none, and
        raises if they are to stay.
    """
    ids: set[str] = yield _work_ids(api, keys)
    if not ids:
        return Removed()
    confirm(len(ids))
    # What came meanwhile was not asked about, and stays.
    removed: Removed = yield remove_work(api, keys, sorted(ids))
    return removed


@inlineCallbacks
def _work_ids(api: ConsulApi, keys: Keys) -> Steps[set[str]]:
    found: KeyNames = yield api.keys(keys.work)
    if not found.names:
        yield from refuse_denied(api, keys.work)
    return {name.removeprefix(keys.work) for name in found.names}
