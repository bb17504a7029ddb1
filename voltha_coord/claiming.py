"""
Taking what is assigned to this member, and going on with what it has.

Items that run here, and whose lease is over, are *confirmed*: their owner
records are replaced by ones that name the new session, and they go on as if
nothing had been.  What is assigned and not here is *taken*: claimed, read, and
started.  Both are written a transaction at a time, and each takes effect as soon
as it is answered.

# Note [Looking before claiming]

A claim that is refused is an entry in Consul's log; to read an owner record is
none.  So where many items are waited for, and where nothing has woken us (see
Note [Waiting for an owner] of :mod:`~voltha_coord.awaited`), their owner records
are read first, and only what has become free is claimed.  That look also finds
a record in our own name: a claim of ours that was given up and landed late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .assigned import Assigned, Assignments
from .awaited import Awaited
from .consul.model import Entry
from .item import STOPPING, Item
from .keys import Keys
from .lease import Lease
from .ownership import Claim, Claims, Ownership, Release
from .records import RUN
from .releasing import Releasing
from .running import RunningItems
from .standing import Standing
from .stock import Stock

_T = TypeVar("_T")

#: So many items are taken at a time: as many as fit into one transaction, with
#: a description and a report read of each.
TAKEN_AT_ONCE = 15

#: What could not be confirmed is tried again after so many seconds.
CONFIRM_RETRY = 0.25

#: So many are confirmed at a time: of them nothing is read.
CONFIRMED_AT_ONCE = 31


class Claiming:
    """
    Takes and confirms items; see the head of the module.

    :ivar fresh: whether items that are not here may be taken.
    """

    def __init__(
        self,
        keys: Keys,
        ownership: Ownership,
        standing: Standing,
        assignments: Assignments,
        running: RunningItems,
        releasing: Releasing,
        stock: Stock,
        awaited: Awaited,
        log: Any,
    ) -> None:
        self._keys = keys
        self._ownership = ownership
        self._standing = standing
        self._assignments = assignments
        self._running = running
        self._releasing = releasing
        self._stock = stock
        self._awaited = awaited
        self._log = log
        self._counts: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self.fresh = True

    @inlineCallbacks
    def claim(self, lease: Lease) -> Steps[float | None]:
        """
        Confirm what runs here, and take what is assigned.

        :return: a Deferred that fires with the seconds after which to come back,
            ``None`` for never; or fails with :class:`ConsulError`, and then more
            may be owned than is known.
        """
        try:
            yield self._confirm(lease)
            if self.fresh:
                yield self._take(lease)
            elif self._awaited.items:
                self._awaited.tried({})
        finally:
            counts, self._counts = self._counts, {}
            for event, items in counts.items():
                self._log.info(event, items=items)
        waits = [
            self._awaited.wait,
            CONFIRM_RETRY if self._to_confirm(lease) else None,
            self._assignments.pause or None,
        ]
        return min((wait for wait in waits if wait is not None), default=None)

    def _count(self, event: str) -> None:
        self._counts[event] = self._counts.get(event, 0) + 1

    @inlineCallbacks
    def _claim(self, lease: Lease, claims: Sequence[Claim]) -> Steps[Claims]:
        """
        Make claims, and note what is known from the answer.
        """
        stock = self._stock
        stock.asking = True
        record = self._standing.owner_record(lease)
        result: Claims = yield self._ownership.claim(lease, record, claims)
        stock.asking = False
        if result.owned:
            self._assignments.claimed(max(result.owned.values()), result.term)
        # What is not assigned to us any more is still ours in name.
        stock.is_known((*result.owned, *result.held))
        if any(claim.owner and claim.work in result.held for claim in claims):
            # A record of ours is another than we knew.
            stock.doubt()
        self._heed_refusals({c.work: c.assignment for c in claims}, result.unassigned)
        return result

    def _heed_refusals(
        self, asked: Mapping[str, int], unassigned: Sequence[str]
    ) -> None:
        """
        Consul knows better than what was last read of these assignments: have
        them read again, once for each.
        """
        refused = {work: asked[work] for work in unassigned}
        news = any(self._refused.get(work) != i for work, i in refused.items())
        self._refused = {
            work: index
            for work, index in {**self._refused, **refused}.items()
            if work not in asked or work in refused
        }
        if news:
            self._assignments.restart()

    # Confirming.

    def _to_confirm(self, lease: Lease) -> list[Claim]:
        """
        Find what is here, ours, and not under that lease, or lost.
        """
        current = self._assignments.current or {}
        return [
            Claim(
                work,
                current[work].index,
                0 if item.lost else item.index,
                described=False,
                reported=False,
            )
            for work, item in self._running.items.items()
            if item.index
            and (item.lost or item.lease is not lease)
            and work in current
            and current[work].phase == RUN
        ]

    @inlineCallbacks
    def _confirm(self, lease: Lease) -> Steps[None]:
        for batch in _batches(self._to_confirm(lease), CONFIRMED_AT_ONCE):
            for claim in batch:
                item = self._running.items.get(claim.work)
                if item is not None:
                    item.asked = lease
            result: Claims = yield self._claim(lease, batch)
            for work, index in result.owned.items():
                item = self._running.items.get(work)
                if item is None or not item.index:
                    # It has stopped meanwhile, and is to be given back.
                    self._stock.doubt()
                    continue
                item.index, item.lease, item.asked = index, lease, None
                item.lost = False
                self._assignments.own(work, item.newest)
                self._count("work-confirmed")

    # Taking.

    @inlineCallbacks
    def _take(self, lease: Lease) -> Steps[None]:
        due = self._awaited.due
        claims: list[Claim] = yield self._to_take(due)
        held = {}
        if due:
            claims, held = yield self._look_first(claims)
        else:
            held.update(self._still_awaited())
        for batch in _batches(claims, TAKEN_AT_ONCE):
            if self._standing.permitted is not lease:
                return
            result: Claims = yield self._claim(lease, batch)
            self._start(lease, batch, result)
            held.update((c.work, c.assignment) for c in batch if c.work in result.held)
            for claim in batch:
                if claim.work in result.unassigned:
                    self._assignments.forget(claim.work, claim.assignment)
        if due:
            self._awaited.tried(held)
        elif held != self._awaited.items:
            self._awaited.keep(held)

    @inlineCallbacks
    def _to_take(self, due: bool) -> Steps[list[Claim]]:
        """
        Find what is assigned and neither here nor certainly somebody else's.
        """
        claims = []
        for work, assigned in tuple((self._assignments.current or {}).items()):
            if not self._wanted(work, assigned):
                continue
            if self._awaited.items.get(work) == assigned.index and not due:
                continue
            claim = Claim(work, assigned.index, described=assigned.item is None)
            former = self._stock.former.get(work)
            if former is None:
                claims.append(claim)
            elif (yield self._stock.is_ours(former)):
                claims.append(evolve(claim, owner=former.index))
        return claims

    def _wanted(self, work: str, assigned: Assigned) -> bool:
        if assigned.phase != RUN or work in self._releasing.waiting:
            return False
        if not assigned.index and self._assignments.pause:
            return False
        item = self._running.items.get(work)
        # One that is only made ready here is to be taken.
        return item is None or (item.phase != RUN and item.state != STOPPING)

    def _still_awaited(self) -> Iterator[tuple[str, int]]:
        current = self._assignments.current or {}
        for work, index in self._awaited.items.items():
            assigned = current.get(work)
            if assigned is not None and assigned.index == index:
                yield work, index

    @inlineCallbacks
    def _look_first(
        self, claims: list[Claim]
    ) -> Steps[tuple[list[Claim], dict[str, int]]]:
        """
        See Note [Looking before claiming].

        :return: a Deferred that fires with what is to be claimed now, and with
            what is still held by others.
        """
        awaited = {
            claim.work: claim.assignment
            for claim in claims
            if not claim.owner and claim.work in self._awaited.items
        }
        if not awaited or (self._awaited.woken and len(awaited) <= TAKEN_AT_ONCE):
            return claims, {}
        ours, free = yield self._ownership.look_up(tuple(awaited))
        if ours:
            self._stock.former.update(ours)
            self._stock.doubt()
        for work in (*free, *ours):
            del awaited[work]
        return [claim for claim in claims if claim.work not in awaited], awaited

    def _start(self, lease: Lease, claims: Sequence[Claim], result: Claims) -> None:
        """
        Start what is ours now.
        """
        current = self._assignments.current or {}
        for claim in claims:
            index = result.owned.get(claim.work)
            if index is None:
                continue
            assigned = current.get(claim.work)
            if assigned is None or assigned.phase != RUN or not self.fresh:
                self._releasing.add({claim.work: Release(index)})
            elif self._standing.permitted is not lease:
                # Ours in name: it is confirmed under the next lease.
                self._stock.doubt()
            else:
                self._run(lease, assigned, claim.work, index, result)
                self._count("work-resumed" if claim.owner else "work-started")

    def _run(
        self, lease: Lease, assigned: Assigned, work: str, index: int, result: Claims
    ) -> None:
        entry: Entry | None = result.read.get(self._keys.work_item(work))
        report: Entry | None = result.read.get(self._keys.report(work))
        description, described = assigned.describe(work, entry)
        item = self._running.items.get(work)
        if item is None:
            item = Item(description)
        elif description != item.description:
            item.wanted = description
        item.index, item.lease, item.described = index, lease, described
        item.assignment, item.odd = assigned.index, assigned.odd
        item.restart = assigned.restart
        if report is not None:
            item.report, item.report_index = report.value, report.modify_index
        self._assignments.own(work, description)
        self._running.start(item)

    @inlineCallbacks
    def forget_reports(self) -> Steps[None]:
        """
        Remove the reports of items that have started.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        served = {
            work: (item, item.report_index)
            for work, item in self._running.items.items()
            if item.report_index and item.report is None
        }
        if served:
            yield self._ownership.forget_reports(
                {work: index for work, (_, index) in served.items()}
            )
        for item, _ in served.values():
            item.report_index = 0


def _batches(these: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for begin in range(0, len(these), size):
        yield these[begin : begin + size]
