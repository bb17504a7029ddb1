"""
What this member owns, by Consul's own account.

# Note [Taking stock]

What this process owns is known from what it wrote.  Where the fate of a write
is not known (no answer, or given up at shutdown), at the beginning of a lease,
and when an item that is here is assigned to us anew (see Note [Reminding] of
:mod:`~voltha_coord.reminding`), the owner records are read.  A write that lands
later still is noticed by its effect: an item of ours is held by ourselves.

An item that is here and whose record is as we left it goes on.  So does one
whose record names the session under which we claimed it last, though we never
heard that we have it: nobody but this process could have written that.  Any
other record is not ours, and the item stops at once.

Records in our name that nothing here runs under are left from an outage, or
from an earlier life of this instance.  They are confirmed when the item is
assigned to us, else given back; those of an earlier life, or of a double, once
its lease must be over.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from ._types import Steps
from .errors import ConsulError
from .item import Item
from .lease import Lease
from .ownership import Judge, Ownership, OwnRecord, Release, lease_over
from .releasing import Releasing
from .running import RunningItems
from .session import SessionKeeper

#: Between two looks at an earlier life's lease, in seconds.
FORMER_LIFE_RETRY = 0.25


class Stock:
    """
    Takes stock; see Note [Taking stock].

    :ivar former: owner records in our name that nothing here runs under, by
        work id.
    :ivar asking: whether a question is under way that decides what we own.

    :param forgot: finds out whether Consul has forgotten what we own: it has no
        record in our name.
    """

    def __init__(
        self,
        ownership: Ownership,
        running: RunningItems,
        releasing: Releasing,
        session: SessionKeeper,
        judge: Judge,
        forgot: Callable[[], Deferred[bool]],
        log: Any,
    ) -> None:
        self._ownership = ownership
        self._running = running
        self._releasing = releasing
        self._session = session
        self._judge = judge
        self._forgot = forgot
        self._log = log
        self._taken_under: Lease | None = None
        self._unsure = False
        self._over_now: dict[str, bool] = {}
        self.former: dict[str, OwnRecord] = {}
        self.asking = False

    def doubt(self) -> None:
        """
        What we own may be something else than we know.
        """
        self._unsure = True

    def due(self, lease: Lease) -> bool:
        """
        Whether stock is to be taken under that lease.
        """
        return self._unsure or self._taken_under is not lease

    @inlineCallbacks
    def take(self, lease: Lease) -> Steps[None]:
        """
        Compare the owner records in our name with what is here.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        self.asking, self._unsure = True, False
        self._over_now.clear()
        records: dict[str, OwnRecord] = yield self._ownership.records()
        forgotten = not records and (yield self._forgot())
        self.asking = False
        self._taken_under = lease
        if forgotten:
            # What is here is claimed anew, and goes on.
            for item in self._running.items.values():
                item.lost = item.index > 0
            self.former = {}
            return
        for work, item in tuple(self._running.items.items()):
            if not item.index:
                continue
            found = records.get(work)
            if found is not None and _ours(item, found):
                item.index = found.index
                del records[work]
            else:
                # Somebody took the record away, or wrote over it.
                item.index = 0
                self._running.stop(item, release=False)
        for work in self._releasing.waiting:
            records.pop(work, None)
        self.former = records

    @inlineCallbacks
    def is_ours(self, found: OwnRecord) -> Steps[bool]:
        """
        Whether nobody can still be running an item under that record.

        Sessions of this very process ran nothing that we would not know of.

        :return: a Deferred that fires with the answer, or fails with
            :class:`ConsulError`.
        """
        session = found.record.session
        if session in self._session.own_sessions:
            return True
        if session not in self._over_now:
            # Asked once a round, for all the items of that life.
            self._over_now[session] = yield lease_over(self._judge, found.record)
        return self._over_now[session]

    @inlineCallbacks
    def settle(self, assigned: Container[str]) -> Steps[float | None]:
        """
        Give back what we own in name only and are not to run any more.

        :return: a Deferred that fires with the seconds after which to come back,
            ``None`` for never; or fails with :class:`ConsulError`.
        """
        done: dict[str, Release] = {}
        waiting = False
        for work, found in tuple(self.former.items()):
            over = work not in assigned and work not in self._running.items
            if over and (yield self.is_ours(found)):
                done[work] = Release(found.index)
            else:
                waiting = True
        for work in done:
            self.former.pop(work, None)
        self._releasing.add(done)
        self._over_now.clear()
        return FORMER_LIFE_RETRY if waiting else None

    def is_known(self, works: Iterable[str]) -> None:
        """
        What became of these is known now.
        """
        for work in works:
            self.former.pop(work, None)

    @inlineCallbacks
    def give_back_unknown(self) -> Steps[None]:
        """
        Have everything released that this process owns without knowing.

        :return: a Deferred that fires when that was found out, as far as Consul
            answers; does not fail.
        """
        if not (self._unsure or self.asking or self.former):
            return
        try:
            records: Mapping[str, OwnRecord] = yield self._ownership.records()
        except ConsulError as error:
            self._log.warning("owner-records-not-read", error=str(error))
            return
        self._releasing.add(
            {
                work: Release(found.index)
                for work, found in records.items()
                if found.record.session in self._session.own_sessions
                and work not in self._releasing.waiting
                and work not in self._running.items
            }
        )


def _ours(item: Item, found: OwnRecord) -> bool:
    """
    Whether an item's owner record is one that we wrote.
    """
    if found.index == item.index:
        return True
    asked = item.asked
    return asked is not None and found.record.session == asked.session_id
