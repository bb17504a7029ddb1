"""
Reading everything a leader's pass looks at, at one moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op
from .errors import ConsulUnavailable
from .keys import Keys
from .listing import refuse_denied
from .planning.state import Snapshot

#: Listings whose emptiness has consequences: see Note [Empty or denied] of
#: :mod:`~voltha_coord.listing`.
VITAL = ("members", "work", "assignments", "owners")


@frozen
class Look:
    """
    What a pass looks at.

    :ivar snapshot: what is planned on.
    :ivar errors: what lies under ``errors/``.
    """

    snapshot: Snapshot
    errors: tuple[Entry, ...] = ()


@inlineCallbacks
def take_look(
    api: ConsulApi,
    keys: Keys,
    now: float,
    *,
    consistent: bool,
    thorough: bool = False,
    reports: bool = False,
) -> Steps[Look]:
    """
    Read all prefixes in one transaction.

    :param now: when, on the lease clock, in seconds.
    :param consistent: whether the servers confirm that they are up to date.
    :param thorough: whether to doubt empty listings also where nothing at all
        follows from them: no work, nothing assigned, nothing owned.
    :param reports: whether also to read what the members report of their work,
        and since when members are missed.
    :return: a Deferred that fires with the :class:`Look`, or fails with
        :class:`DeniedListing` when an empty listing is a denied one, or with
        another :class:`ConsulError`.
    """
    prefixes = {
        "members": keys.members,
        "work": keys.work,
        "assignments": keys.assignments,
        "owners": keys.owners,
        "intent": keys.intent,
        "errors": keys.errors,
    }
    if reports:
        prefixes |= {"statuses": keys.statuses, "lost": keys.lost}
    found = yield _read(api, prefixes, consistent)
    empty = _empty(found)
    if thorough or len(empty) < len(VITAL) - 1:
        while empty:
            for part in sorted(empty):
                yield refuse_denied(api, prefixes[part])
            found = yield _read(api, prefixes, consistent)
            # What has become empty only now was not asked about yet.
            empty = _empty(found) - empty
    errors = found.pop("errors")
    return Look(Snapshot(keys=keys, now=now, **found), errors)


@inlineCallbacks
def read_snapshot(
    api: ConsulApi,
    keys: Keys,
    now: float,
    *,
    consistent: bool,
    reports: bool = False,
) -> Steps[Snapshot]:
    """
    Read what is planned on, and nothing beside it.

    :param reports: as of :func:`take_look`.
    :return: as :func:`take_look`, but with the :class:`Snapshot` alone.
    """
    look: Look = yield take_look(
        api, keys, now, consistent=consistent, thorough=True, reports=reports
    )
    return look.snapshot


def _empty(found: Mapping[str, Sequence[Entry]]) -> set[str]:
    return {part for part in VITAL if not found[part]}


@inlineCallbacks
def _read(
    api: ConsulApi, prefixes: Mapping[str, str], consistent: bool
) -> Steps[dict[str, tuple[Entry, ...]]]:
    entries: tuple[Entry, ...] = yield api.txn(
        tuple(Op.get_tree(prefix) for prefix in prefixes.values()),
        consistent=consistent,
    )
    return _divided(entries, prefixes)


def _divided(
    entries: Sequence[Entry], prefixes: Mapping[str, str]
) -> dict[str, tuple[Entry, ...]]:
    """
    Give to each prefix what was found under it: the results come in the order
    of the operations.
    """
    found = {}
    start = 0
    for part, prefix in prefixes.items():
        end = start
        while end < len(entries) and entries[end].key.startswith(prefix):
            end += 1
        found[part] = tuple(entries[start:end])
        start = end
    if start < len(entries):
        raise ConsulUnavailable(f"{entries[start].key!r} came unasked or out of order")
    return found
