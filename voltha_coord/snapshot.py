"""
Reading everything a leader's pass looks at, at one moment.
"""

from __future__ import annotations

from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op
from .errors import AccessDenied
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


@inlineCallbacks
def read_snapshot(
    api: ConsulApi, keys: Keys, now: float, *, consistent: bool
) -> Steps[Snapshot]:
    """
    Read all prefixes in one transaction.

    :param now: when, on the lease clock, in seconds.
    :param consistent: whether the servers confirm that they are up to date.
    :return: a Deferred that fires with the snapshot, or fails with
        :class:`DeniedListing` when an empty listing is a denied one, or with
        another :class:`ConsulError`.
    """
    prefixes = {
        "members": keys.members,
        "work": keys.work,
        "assignments": keys.assignments,
        "owners": keys.owners,
        "intent": keys.intent,
    }
    entries: tuple[Entry, ...] = yield api.txn(
        tuple(Op.get_tree(prefix) for prefix in prefixes.values()),
        consistent=consistent,
    )
    found = {
        part: tuple([entry for entry in entries if entry.key.startswith(prefix)])
        for part, prefix in prefixes.items()
    }
    for part in VITAL:
        prefix = prefixes[part]
        if not found[part] and (yield api.denied(probe(prefix))):
            raise DeniedListing(
                f"the token may not read {prefix}: an empty listing of it means "
                f'nothing; grant key_prefix "{keys.prefix}/" the policy "write"'
            )
    return Snapshot(keys=keys, now=now, **found)
