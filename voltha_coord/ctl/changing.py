"""
Writing work items: adding many, and changing what is there by what is there.

Each takes the verbs and the keys, and gives a Deferred that fails with
:class:`~voltha_coord.errors.CoordinationError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry, Op, Reading
from ..errors import CoordinationError, TransactionRefused
from ..keys import Keys
from .actions import OPERATIONS_AT_ONCE, refuse_denied
from .findings import named

#: The bytes of values in one transaction: it has to stay below 512 KiB, and
#: values grow by a third in it.
VALUE_BYTES_AT_ONCE = 256 * 1024

#: How often a race for keys is run again.
ATTEMPTS = 5

#: So many ids are named that may have been meant.
NEAR = 3


@frozen
class Written:
    """
    What came of writing work.

    :ivar added: the ids that were not there before.
    :ivar changed: the ids that were there; they have the new value.
    :ivar unchanged: the ids that were there and are as they were.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


@inlineCallbacks
def add_work(
    api: ConsulApi, keys: Keys, values: Mapping[str, bytes], if_absent: bool = False
) -> Steps[Written]:
    """
    Write work items, many in one transaction.

    :param values: what they are to hold, by valid work id.
    :param if_absent: leave the items that are there already as they are.
    """
    there: dict[str, Entry] = yield _entries(api, keys)
    new = {id: value for id, value in values.items() if id not in there}
    if if_absent:
        yield _add_absent(api, keys, new)
        return Written(tuple(new), unchanged=tuple(v for v in values if v in there))
    changed = {
        id: value
        for id, value in values.items()
        if id in there and there[id].value != value
    }
    for batch in _batches({**new, **changed}):
        yield _send(api, [Op.set(keys.work_item(id), v) for id, v in batch.items()])
    return _written(values, new, changed)


def _written(
    ids: Mapping[str, bytes] | Sequence[str],
    new: Mapping[str, bytes],
    changed: Mapping[str, bytes],
) -> Written:
    return Written(
        added=tuple(id for id in ids if id in new),
        changed=tuple(id for id in ids if id in changed),
        unchanged=tuple(id for id in ids if id not in new and id not in changed),
    )


@inlineCallbacks
def _add_absent(api: ConsulApi, keys: Keys, new: Mapping[str, bytes]) -> Steps[None]:
    # Somebody may add the same items in this moment: theirs stay.
    for attempt in range(1, ATTEMPTS + 1):
        refused: dict[str, bytes] = {}
        for batch in _batches(new):
            ops = [Op.cas(keys.work_item(id), v, 0) for id, v in batch.items()]
            if not (yield _send(api, ops)):
                refused |= batch
        if not refused:
            return
        if attempt < ATTEMPTS:
            there: dict[str, Entry] = yield _entries(api, keys)
            new = {id: value for id, value in refused.items() if id not in there}
    raise CoordinationError(f"others add {named(refused)} too; nothing is lost by it")


@inlineCallbacks
def change_work(
    api: ConsulApi,
    keys: Keys,
    ids: Sequence[str],
    change: Callable[[str, bytes], bytes],
) -> Steps[Written]:
    """
    Change work items by what they hold, whoever else changes them.

    :param change: gives what an item is to hold, from its id and what it holds;
        called for all of them before any is written, and again for those that
        somebody has changed meanwhile.
    :return: a Deferred that fails also with what ``change`` raises, and when one
        of the items is not there.
    """
    changed: dict[str, bytes] = {}
    pending: Sequence[str] = ids
    for _ in range(ATTEMPTS):
        there: dict[str, Entry] = yield _entries(api, keys)
        refuse_missing(pending, there)
        made = {id: change(id, there[id].value) for id in pending}
        made = {id: v for id, v in made.items() if v != there[id].value}
        refused: list[str] = []
        for batch in _batches(made):
            ops = [
                Op.cas(keys.work_item(id), v, there[id].modify_index)
                for id, v in batch.items()
            ]
            if (yield _send(api, ops)):
                changed |= batch
            else:
                refused += batch
        if not refused:
            return _written(ids, {}, changed)
        pending = refused
    raise CoordinationError(
        f"others change {named(pending)} at the same time: not changed here; try again"
    )


def refuse_missing(ids: Sequence[str], there: Mapping[str, object]) -> None:
    """
    Go on only if all the ids are those of work items.

    :raises CoordinationError: naming those that are not, and what may be meant.
    """
    missing = [id for id in ids if id not in there]
    if not missing:
        return
    if len(missing) > 1:
        raise CoordinationError(
            f"{len(missing)} of {len(ids)} are no work items: {named(missing)}"
        )
    raise CoordinationError(f"no work item {missing[0]} ({near(missing[0], there)})")


def near(id: str, there: Mapping[str, object]) -> str:
    """
    Say which of the names that are there may be meant.
    """
    if not there:
        return "there is none"
    meant = get_close_matches(id, there, NEAR) or get_close_matches(
        id.casefold(), there, NEAR
    )
    names = meant or list(there)
    return f"there is {names[0]}" if len(names) == 1 else f"there are {named(names)}"


@inlineCallbacks
def _entries(api: ConsulApi, keys: Keys) -> Steps[dict[str, Entry]]:
    found: Reading = yield api.list(keys.work)
    if not found.entries:
        yield from refuse_denied(api, keys.work)
    return {entry.key.removeprefix(keys.work): entry for entry in found.entries}


@inlineCallbacks
def _send(api: ConsulApi, ops: Sequence[Op]) -> Steps[bool]:
    """
    Write some keys, all or none.

    :return: a Deferred that fires with whether that was done; it is not where
        an index is another by now.
    """
    only = ops[0]
    if len(ops) == 1 and only.value and len(only.value) > VALUE_BYTES_AT_ONCE:
        # There is room for it in a request of its own, and in no transaction.
        cas = only.index if only.verb == "cas" else None
        done: bool = yield api.put(only.key, only.value, cas=cas)
        return done
    try:
        yield api.txn(ops)
    except TransactionRefused:
        if all(op.verb == "cas" for op in ops):
            return False
        raise
    return True


def _batches(values: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    batch: dict[str, bytes] = {}
    size = 0
    for id, value in values.items():
        full = size + len(value) > VALUE_BYTES_AT_ONCE
        if batch and (full or len(batch) == OPERATIONS_AT_ONCE):
            yield batch
            batch, size = {}, 0
        batch[id] = value
        size += len(value)
    if batch:
        yield batch
