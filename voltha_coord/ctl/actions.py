"""
What the commands do with Consul: read a cluster, add work, remove work.

Each takes the verbs and the keys, and gives a Deferred that fails with
:class:`~voltha_coord.errors.CoordinationError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry, KeyNames, Op
from ..errors import AccessDenied, TransactionRefused
from ..keys import Keys, probe
from .reading import snapshot, view
from .view import View

#: What one transaction may hold with every version of Consul.
OPERATIONS_AT_ONCE = 64

#: The bytes of values in one transaction: it has to stay below 512 KiB, and
#: values grow by a third in it.
VALUE_BYTES_AT_ONCE = 256 * 1024

#: How often a race for new keys is run again.
ATTEMPTS = 5

#: What must be readable before an empty listing is believed.
_LISTED = ("members", "work", "assignments", "owners", "status", "errors")


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
            yield from _refuse_denied(api, prefix)
    return view(keys, entries)


def _refuse_denied(api: ConsulApi, prefix: str) -> Steps[None]:
    if (yield api.denied(probe(prefix))):
        raise AccessDenied(f"this token may not read {prefix}")


@frozen
class Added:
    """
    What came of adding work.

    :ivar added: the ids that were not there before.
    :ivar changed: the ids that were there; they have the new value.
    :ivar kept: the ids that were there and were left as they are.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@inlineCallbacks
def add_work(
    api: ConsulApi,
    keys: Keys,
    ids: Sequence[str],
    value: bytes = b"",
    if_absent: bool = False,
) -> Steps[Added]:
    """
    Write work items, many in one transaction.

    :param ids: valid work ids.
    :param if_absent: leave the items that are there already as they are.
    """
    there: set[str] = yield _work_ids(api, keys)
    before = tuple(id for id in ids if id in there)
    new = tuple(id for id in ids if id not in there)
    if not if_absent:
        for batch in _batches(ids, value):
            yield api.txn([Op.set(keys.work_item(id), value) for id in batch])
        return Added(added=new, changed=before)
    for batch in _batches(new, value):
        yield _add_absent(api, keys, batch, value)
    return Added(added=new, kept=before)


@inlineCallbacks
def _add_absent(
    api: ConsulApi, keys: Keys, batch: Sequence[str], value: bytes
) -> Steps[None]:
    # Somebody may add the same items in this moment: theirs stay.
    for attempt in range(1, ATTEMPTS + 1):
        try:
            yield api.txn([Op.cas(keys.work_item(id), value, 0) for id in batch])
            return
        except TransactionRefused:
            if attempt == ATTEMPTS:
                raise
        there: set[str] = yield _work_ids(api, keys)
        batch = [id for id in batch if id not in there]
        if not batch:
            return


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
    for batch in _batches([id for id in ids if id in there]):
        yield api.txn([Op.delete(keys.work_item(id)) for id in batch])
    return Removed(
        removed=tuple(id for id in ids if id in there),
        missing=tuple(id for id in ids if id not in there),
    )


@inlineCallbacks
def all_work(api: ConsulApi, keys: Keys) -> Steps[tuple[str, ...]]:
    """
    Give the ids of all work items, keys that are no valid ids included.
    """
    ids: set[str] = yield _work_ids(api, keys)
    return tuple(sorted(ids))


@inlineCallbacks
def _work_ids(api: ConsulApi, keys: Keys) -> Steps[set[str]]:
    found: KeyNames = yield api.keys(keys.work)
    if not found.names:
        yield from _refuse_denied(api, keys.work)
    return {name.removeprefix(keys.work) for name in found.names}


def _batches(ids: Iterable[str], value: bytes = b"") -> Iterator[list[str]]:
    size = OPERATIONS_AT_ONCE
    if value:
        size = max(1, min(size, VALUE_BYTES_AT_ONCE // len(value)))
    batch: list[str] = []
    for id in ids:
        batch.append(id)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
