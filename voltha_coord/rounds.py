"""
The loop of a worker.

# Note [A round]

Whatever has happened, the loop does the same: it takes stock of the owner
records if they may be something else than is known, stops what is not to be
here any more, confirms and takes what is to be, makes ready what is to come,
gives back what is ours in name only, has changed descriptions handed over, tries
again what has failed, and tells what is the matter.  Stopping and giving back
wait for no round: others wait for them.

What a round asked in an outage, and is never answered, holds nothing up: see Note
[Lost in an outage] of :mod:`~voltha_coord.consul.requester`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks

from ._loops import Tasks, Wake
from ._types import Steps
from .assigned import Assigned
from .consul.backoff import Backoff
from .errors import CoordinationError, InvalidSession
from .interfaces import IRunner
from .item import Item, is_extra
from .lease import Lease
from .ownership import Release
from .parts import Parts, put_together
from .records import PREPARE, RUN
from .waiters import Waiters

if TYPE_CHECKING:
    from .coordinator import Coordinator


class Rounds:
    """
    Makes one round after the other; see Note [A round].

    :ivar parts: what the rounds are made with.
    :ivar wake: wakes the loop.
    :ivar draining: whether nothing new is to be taken.
    :ivar drained: those who wait until nothing is here any more.
    """

    def __init__(
        self, coordinator: Coordinator, instance_id: str, runner: IRunner
    ) -> None:
        self._session = coordinator.session
        self._log = coordinator.log
        self._backoff = Backoff(coordinator.random)
        self._tasks = Tasks(self._log)
        self._watched_under: str | None = None
        self.wake = Wake(coordinator.retry_timers)
        self.draining = False
        self.drained: Waiters[None] = Waiters()
        self.parts: Parts = put_together(coordinator, instance_id, runner, self)

    def start(self) -> None:
        """
        Begin.
        """
        self._tasks.spawn("worker", self._run)

    def stop(self) -> Deferred[None]:
        """
        Make no more rounds.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._tasks.stop()

    # What the parts tell.

    def attend(self) -> None:
        """
        There is something to do.
        """
        self.wake.set()

    def doubt(self) -> None:
        """
        What we own may be something else than we know.
        """
        self.parts.stock.doubt()
        self.wake.set()

    def item_stopped(self, item: Item) -> None:
        """
        An item has stopped: release it if that is wanted.
        """
        self.parts.overdue.item_stopped()
        if item.stays:
            pass
        elif item.release:
            served = item.report_index if item.report is None else 0
            release = Release(item.index, item.handover, served)
            self.parts.releasing.add({item.id: release})
        elif item.lease is not None:
            # Ours in Consul still, or again: the next stock finds it.
            self.parts.stock.doubt()
        self.wake.set()

    def assignments_changed(self, before: Mapping[str, Assigned]) -> None:
        """
        Something else is assigned: stop at once what is not to be here.
        """
        current = self.parts.assignments.current or {}
        for work in self.parts.running.items:
            old, new = before.get(work), current.get(work)
            if new is not None and (old is None or old.created != new.created):
                # It was somebody else's meanwhile, or the leader reminds us.
                self.parts.stock.doubt()
        self._heed(current)
        self.parts.awaited.hurry()
        self.wake.set()

    # The loop.

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        while True:
            seconds: float | None = None
            lease = self.parts.standing.lease
            try:
                if lease is None:
                    # Without a lease, only what needs none.
                    seconds = self.parts.running.try_again()
                else:
                    seconds = yield self._make(lease)
                self._backoff.clear()
            except CancelledError:
                raise
            except InvalidSession:
                self.parts.stock.doubt()
                self._session.suspect()
                seconds = self._backoff.next()
            except Exception as error:
                # What came of it is not known.  Whatever it was, the loop of a
                # worker goes on, and says what is wrong.
                self.parts.stock.doubt()
                seconds = self._backoff.next(error)
                self._log.warning(
                    "work-not-updated",
                    retry_in=round(seconds, 3),
                    error=str(error),
                    exc_info=not isinstance(error, CoordinationError),
                )
            self.parts.reports.wake()
            yield self.wake.wait(seconds)

    @inlineCallbacks
    def _make(self, lease: Lease) -> Steps[float | None]:
        """
        Make one round.

        :return: a Deferred that fires with the seconds after which to make the
            next one, or ``None``.  Fails with :class:`ConsulError`.
        """
        parts = self.parts
        self._watch_under(lease.session_id)
        if parts.stock.due(lease):
            yield parts.stock.take(lease)
            parts.overdue.look()
        current = parts.assignments.current
        if current is None or parts.standing.permitted is not lease:
            return None
        self._heed(current)
        waits: list[float | None] = []
        waits.append((yield parts.claiming.claim(lease)))
        if not self.draining:
            yield parts.preparing.prepare()
        if parts.stock.former:
            waits.append((yield parts.stock.settle(current)))
        waits.append((yield parts.descriptions.refresh()))
        waits.append(parts.running.try_again())
        yield parts.claiming.forget_reports()
        yield parts.telling.tell(lease, parts.running.items)
        self._look_whether_drained()
        return min((wait for wait in waits if wait is not None), default=None)

    def look_again(self) -> None:
        """
        Read everything anew: what was read is not to be trusted any more.
        """
        self.parts.assignments.restart()
        self.parts.descriptions.restart()
        self.parts.awaited.restart()
        self.doubt()

    def _watch_under(self, session: str) -> None:
        """
        An index that was seen under another session may be of another Consul,
        too.
        """
        if self._watched_under not in (None, session):
            self.parts.assignments.restart()
            self.parts.descriptions.restart()
            self.parts.awaited.restart()
        self._watched_under = session

    def _heed(self, current: Mapping[str, Assigned]) -> None:
        """
        Stop what is not to be here any more, and go on with what has changed.
        """
        running, descriptions = self.parts.running, self.parts.descriptions
        for work, item in tuple(running.items.items()):
            if is_extra(item):
                continue
            assigned = current.get(work)
            if assigned is None or (item.phase == RUN and assigned.phase == PREPARE):
                running.stop(item, release=True)
            elif assigned.index != item.assignment:
                item.assignment, item.odd = assigned.index, assigned.odd
                if assigned.item is not None:
                    item.described = None
                elif item.described is None:
                    item.described = 0
                    descriptions.look()
                if assigned.index:
                    # Else Consul has forgotten, and what is here is as it was.
                    running.change(item, assigned.item, assigned.restart)
                    self.parts.assignments.learn(work, item.newest)

    def _look_whether_drained(self) -> None:
        parts = self.parts
        left = (
            parts.assignments.current,
            parts.running.items,
            parts.releasing.waiting,
        )
        if self.draining and not any(left):
            self.drained.fire(None)
