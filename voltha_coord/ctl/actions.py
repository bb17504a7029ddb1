"""
What the commands do with Consul: read a cluster, add work, remove work.

Each takes the verbs and the keys, and gives a Deferred that fails with
:class:`~voltha_coord.errors.CoordinationError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry, KeyNames, Op, Reading
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
    :ivar unchanged: the ids that were there and are as they were.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


@inlineCallbacks
def add_work(
    api: ConsulApi,
    keys: Keys,
    ids: Sequence[str],
    value: bytes | None = None,
    if_absent: bool = False,
) -> Steps[Added]:
    """
    Write work items, many in one transaction.

    :param ids: valid work ids.
    :param value: what they hold; ``None`` adds empty ones, and says nothing
        about items that are there already: they stay as they are.
    :param if_absent: leave the items that are there already as they are.
    """
    content = value or b""
    if value is None or if_absent:
        there: set[str] = yield _work_ids(api, keys)
        new = tuple(id for id in ids if id not in there)
        for batch in _batches(new, content):
            yield _add_absent(api, keys, batch, content)
        return Added(added=new, unchanged=tuple(id for id in ids if id in there))
    before: dict[str, bytes] = yield _work_values(api, keys)
    written = [id for id in ids if before.get(id) != content]
    for batch in _batches(written, content):
        yield api.txn([Op.set(keys.work_item(id), content) for id in batch])
    return _added(ids, before, content)


def _added(ids: Sequence[str], before: Mapping[str, bytes], content: bytes) -> Added:
    return Added(
        added=tuple(id for id in ids if id not in before),
        changed=tuple(id for id in ids if before.get(id, content) != content),
        unchanged=tuple(id for id in ids if before.get(id) == content),
    )


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
        yield from _refuse_denied(api, keys.work)
    return {name.removeprefix(keys.work) for name in found.names}


@inlineCallbacks
def _work_values(api: ConsulApi, keys: Keys) -> Steps[dict[str, bytes]]:
    found: Reading = yield api.list(keys.work)
    if not found.entries:
        yield from _refuse_denied(api, keys.work)
    return {entry.key.removeprefix(keys.work): entry.value for entry in found.entries}


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
