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
from .errors import AccessDenied, ConsulUnavailable
from .keys import Keys, probe
from .planning.state import Snapshot

#: Listings whose emptiness has consequences: they are believed only if the
#: token may read what lies under them.
VITAL = ("members", "work", "assignments", "owners")


class DeniedListing(AccessDenied):
    """
    A listing came back empty because the token may not read it.

    Consul answers a denied listing like an empty one.  Only a GET of a single
    key under it tells the two apart.
    """


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
    api: ConsulApi, keys: Keys, now: float, *, consistent: bool, thorough: bool = False
) -> Steps[Look]:
    """
    Read all prefixes in one transaction.

    :param now: when, on the lease clock, in seconds.
    :param consistent: whether the servers confirm that they are up to date.
    :param thorough: whether to doubt empty listings also where nothing at all
        follows from them: no work, nothing assigned, nothing owned.
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
    entries: tuple[Entry, ...] = yield api.txn(
        tuple(Op.get_tree(prefix) for prefix in prefixes.values()),
        consistent=consistent,
    )
    found = _divided(entries, prefixes)
    empty = [part for part in VITAL if not found[part]]
    if thorough or len(empty) < len(VITAL) - 1:
        for part in empty:
            prefix = prefixes[part]
            denied: bool = yield api.denied(probe(prefix))
            if denied:
                raise DeniedListing(
                    f"the token may not read {prefix}: an empty listing of it means "
                    f'nothing; grant key_prefix "{keys.prefix}/" the policy "write"'
                )
    errors = found.pop("errors")
    return Look(Snapshot(keys=keys, now=now, **found), errors)


@inlineCallbacks
def read_snapshot(
    api: ConsulApi, keys: Keys, now: float, *, consistent: bool
) -> Steps[Snapshot]:
    """
    Read what is planned on, and nothing beside it.

    :return: as :func:`take_look`, but with the :class:`Snapshot` alone.
    """
    look: Look = yield take_look(api, keys, now, consistent=consistent, thorough=True)
    return look.snapshot


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
