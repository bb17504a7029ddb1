"""
The worker: runs what is assigned to this member, and nothing it does not own.

One loop compares three things, and acts on the difference:

    assigned (a watch, after a soak)  ·  owned (our owner records)  ·  here

- assigned, not here: claim it; then start it.  An item that somebody else still
  owns is claimed again as soon as it may be free.
- here, no longer assigned: stop it; when that has finished, release it.
- here, and owned under a lease that is over: confirm it under the new one.
- owned in Consul, not here (we come from an outage, or from an earlier life):
  confirm and start it if it is assigned, else release it.

The parts: what is assigned (:mod:`~voltha_coord.assigned`), what we own by
Consul's account (:mod:`~voltha_coord.stock`), claiming
(:mod:`~voltha_coord.claiming`), giving back (:mod:`~voltha_coord.releasing`), and
how an item runs (:mod:`~voltha_coord.running`).

# Note [Work and the lease]

Each item runs under the lease with which it was claimed, and may go on for as
long as Note [The right to run] of :mod:`~voltha_coord.isolation` says; it is
stopped in time, whatever the loop is waiting for.  The owner records stay.
Under the next lease, on the same session or another one of this process, they
are read.  An item that still runs, and whose record is as we left it, is
confirmed and never stops; one that had to stop is confirmed and starts again;
either way nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from zope.interface import implementer

from ._loops import Tasks, Timer, Wake
from ._types import Steps
from .assigned import Assigned, Assignments
from .awaited import CLAIM_PAUSE, Awaited
from .changes import Changes
from .claiming import Claiming
from .consul.backoff import Backoff
from .descriptions import Descriptions
from .errors import CoordinationError, InvalidSession
from .extras import Extras, is_extra
from .interfaces import IRunner, IWorker
from .isolation import Rights
from .item import Item
from .lease import Lease, LeaseEnd
from .overdue import Overdue
from .ownership import Ownership, Release
from .preparing import Preparing
from .records import PREPARE, RUN, OwnerRecord
from .releasing import Releasing
from .reporting import Collector, StatusWriter
from .runners.complete import complete, does
from .runners.track import TrackRunner
from .running import RunningItems
from .settings import STOP
from .stock import Stock
from .telling import Telling
from .waiters import Waiters

if TYPE_CHECKING:
    from .coordinator import Coordinator


@implementer(IWorker)
class Worker:
    """
    Runs this member's work; see the head of the module.

    :param instance_id: of the member.
    :param coordinator: what it works for.
    :param runner: what running an item means; by default nothing but to be
        in :attr:`my_workload`.
    """

    def __init__(
        self,
        instance_id: str,
        coordinator: Coordinator,
        runner: IRunner | None = None,
    ) -> None:
        self._instance_id = instance_id
        self._coordinator = coordinator
        self._settings = coordinator.settings
        self._session = coordinator.session
        self._random = coordinator.random
        self._log = coordinator.log
        self._tasks = Tasks(self._log)
        self._wake = Wake(coordinator.retry_timers)
        self._drained: Waiters[None] = Waiters()
        self._draining = self._halting = False
        self._watched_under: str | None = None
        self._said_of: Lease | None = None
        self._begun_under: Lease | None = None
        self._rounding: Deferred[float | None] | None = None
        self._interrupted = False
        self._interrupting = Timer(coordinator.steady, self._interrupt)
        self._wire(TrackRunner() if runner is None else complete(runner))

    def _wire(self, runner: IRunner) -> None:
        """
        Make the parts, each with what it needs and nothing else.
        """
        coordinator, log = self._coordinator, self._log
        reactor, api, keys = coordinator.steady, coordinator.api, coordinator.keys
        settings = self._settings
        chance: dict[str, Any] = {"random": self._random, "log": log}
        watching: dict[str, Any] = {"retries": coordinator.retry_timers, **chance}
        ownership = Ownership(api, keys, self._instance_id)
        rights = Rights(
            reactor.seconds,
            lambda: self._session.lease,
            None
            if settings.isolation == STOP
            else lambda: coordinator.emergency.work_goes_on,
        )
        self._rights = rights
        self._assignments = Assignments(
            reactor,
            api,
            settings,
            keys.assignments_of(self._instance_id),
            instance_id=self._instance_id,
            changed=self._assignments_changed,
            tally=coordinator.tally.watch("assignments"),
            **watching,
        )
        self._running = RunningItems(
            reactor,
            runner,
            settings,
            rights=rights,
            may_begin=self._may_begin,
            stopped=self._item_stopped,
            changed=lambda: self._reports.wake(),
            attend=self._wake.set,
            wall_clock=coordinator.wall_clock,
            **chance,
        )
        self._overdue = Overdue(
            reactor,
            rights,
            settings,
            self._running,
            stuck=coordinator.work_stuck,
            log=log,
        )
        self._extras = Extras(self._running, self._wanted_extras)
        self._releasing = Releasing(
            coordinator.retry_timers,
            ownership,
            contact=self._contact,
            released=self._wake.set,
            left_alone=self._doubt,
            **chance,
        )
        self._stock = Stock(
            ownership,
            self._running,
            self._releasing,
            self._session,
            coordinator.succession,
            log,
        )
        self._awaited = Awaited(
            reactor,
            lambda changed: Changes(
                reactor,
                api,
                keys.owners,
                changed,
                name="owners",
                wait=settings.watch_wait,
                pause=CLAIM_PAUSE,
                tally=coordinator.tally.watch("owners"),
                **watching,
            ),
            linger=settings.watch_wait,
            attend=self._wake.set,
            random=self._random,
        )
        self._claiming = Claiming(
            keys,
            ownership,
            self._assignments,
            self._running,
            self._releasing,
            self._stock,
            self._awaited,
            permitted=self._permitted,
            record=self._owner_record,
            log=log,
        )
        self._preparing = Preparing(
            keys, ownership, self._assignments, self._running, self._releasing
        )
        self._descriptions = Descriptions(
            reactor,
            api,
            keys,
            ownership,
            self._running,
            followed=does(runner, "update_work"),
            attend=self._wake.set,
            wait=settings.watch_wait,
            tally=coordinator.tally.watch("work-values"),
            **watching,
        )
        self._telling = Telling(ownership, lost=self._doubt, log=log)
        self._reports = StatusWriter(
            reactor,
            api,
            keys,
            self._session,
            instance_id=self._instance_id,
            collect=Collector(runner, self._running.items, log).collect,
            **watching,
        )

    # What others see.

    @property
    def my_workload(self) -> set[str]:
        """
        The ids of the work items that run here now, and may.
        """
        return self._running.workload

    @property
    def assigned(self) -> frozenset[str]:
        """
        The ids of the work items that are assigned to this member.
        """
        return frozenset(self._assignments.current or ())

    @property
    def states(self) -> dict[str, int]:
        """
        How many of the items that are here are in each state.
        """
        return self._running.states

    @property
    def unstopped(self) -> tuple[str, ...]:
        """
        The ids of the items that may be running here, whether they may or not.
        """
        items = self._running.items
        return tuple(work for work, item in items.items() if item.runs)

    @property
    def stuck(self) -> frozenset[str]:
        """
        The ids of the items that have not stopped although they may run here no
        longer.
        """
        return self._overdue.stuck

    @property
    def errors(self) -> dict[str, str]:
        """
        What is the matter with items that are here, by work id.
        """
        return {w: i.trouble for w, i in self._running.items.items() if i.trouble}

    def start(self) -> None:
        """
        Begin to look after the member's assignments.
        """
        self._assignments.start()
        self._descriptions.start()
        self._reports.start()
        self._releasing.start()
        self._begun_under = self._session.lease
        self._tasks.spawn("worker", self._run)

    def lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended, or we are a member or none
        any more; see Note [Work and the lease].
        """
        self._extras.look()
        self._overdue.look()
        self._say_what_goes_on()
        lease = self._session.lease
        new = lease is not self._begun_under and not self._halting
        if new and self._contact():
            self._begun_under = lease
            # In a turn of its own: who tells us may be called by the loop.
            self._interrupting.set(0.0)
        self._wake.set()
        self._reports.wake()

    def _interrupt(self) -> None:
        """
        Wait for no answer to what was asked before the lease that has begun: it
        may never come, and stock is to be taken anyway.
        """
        self._releasing.interrupt()
        if self._rounding is not None:
            self._interrupted = True
            self._rounding.cancel()

    def emergency_changed(self) -> None:
        """
        An emergency began, is over, or wants something else to run.
        """
        self._extras.look()
        self._overdue.look()
        self._wake.set()

    def _say_what_goes_on(self) -> None:
        lease = self._session.lease
        if lease is None or lease.active or lease is self._said_of:
            return
        self._said_of = lease
        if self.my_workload and lease.ended is LeaseEnd.SESSION:
            self._log.info(
                "work-goes-on",
                items=len(self.my_workload),
                effect="it is confirmed under the next session, or stops in time",
            )

    def drain(self) -> Deferred[None]:
        """
        Take nothing new, and go on with what is here until it is assigned
        elsewhere.

        :return: a Deferred that fires once nothing is assigned to this member
            any more, and all that ran here is released; never fails.
            Cancelling it ends the waiting, and not the draining.
        """
        if not self._draining:
            self._draining, self._claiming.fresh = True, False
            self._log.info("draining-work", items=len(self._running.items))
        drained = self._drained.wait()
        self._wake.set()
        return drained

    @inlineCallbacks
    def halt(self) -> Steps[None]:
        """
        Stop all work, release it, and look after nothing any more.

        What has stopped is released while other items still are stopping.

        :return: a Deferred that fires when everything has stopped and is
            released, as far as Consul answers; never fails.  Cancelled, it
            waits for no item any more: what has not stopped is left to the
            taking-over rule.
        """
        self._halting = True
        self._interrupting.cancel()
        yield self._assignments.stop()
        yield self._descriptions.stop()
        yield self._awaited.stop()
        yield self._tasks.stop()
        self._log.info("stopping-work", items=len(self._running.items))
        self._running.stop_all(release=True)
        try:
            while self._running.items:
                yield self._wake.wait()
            yield self._releasing.finish()
            # What was not as we left it is looked for now.
            yield self._stock.give_back_unknown()
            yield self._releasing.finish()
        except CancelledError:
            yield self._end()
            raise
        yield self._end()

    @inlineCallbacks
    def _end(self) -> Steps[None]:
        self._overdue.cancel()
        yield self._releasing.stop()
        yield self._running.give_up()
        yield self._reports.stop()
        self._drained.fire(None)

    # What may be done now.

    def _contact(self) -> bool:
        lease = self._session.lease
        return lease is not None and lease.active

    def _permitted(self) -> Lease | None:
        """
        Give the lease under which work may begin now, if there is one.
        """
        lease = self._session.lease
        if lease is None or not self._contact() or not self._coordinator.is_member:
            return None
        return lease if lease.remaining > self._settings.grace else None

    def _may_begin(self, item: Item) -> bool:
        if is_extra(item):
            return self._extras.may_begin(item)
        lease = self._permitted()
        return lease is not None and (item.phase == PREPARE or item.lease is lease)

    def _wanted_extras(self) -> Mapping[str, bytes]:
        emergency = self._coordinator.emergency
        if self._contact() or self._halting or not emergency.active:
            return {}
        return emergency.extra

    def _owner_record(self, lease: Lease) -> OwnerRecord:
        return OwnerRecord(
            owner=self._instance_id,
            session=lease.session_id,
            check=self._session.check_id or None,
            node=self._session.node,
            ttl=self._session.session_ttl,
        )

    # What the parts tell.

    def _item_stopped(self, item: Item) -> None:
        self._overdue.item_stopped()
        if item.release:
            served = item.report_index if item.report is None else 0
            self._releasing.add({item.id: Release(item.index, item.handover, served)})
        elif item.lease is not None:
            # Ours in Consul still, or again: the next stock finds it.
            self._stock.doubt()
        self._wake.set()

    def _assignments_changed(self, before: Mapping[str, Assigned]) -> None:
        current = self._assignments.current or {}
        for work in self._running.items:
            old, new = before.get(work), current.get(work)
            if new is not None and (old is None or old.created != new.created):
                # It was somebody else's meanwhile, or the leader reminds us.
                self._stock.doubt()
        # Whatever the loop waits for: others wait for what is to stop.
        self._heed(current)
        self._awaited.hurry()
        self._wake.set()

    def _doubt(self) -> None:
        self._stock.doubt()
        self._wake.set()

    # The loop.

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while True:
            seconds: float | None = None
            lease = self._session.lease
            try:
                if lease is None or not lease.active:
                    # Without a lease, only what needs none.
                    seconds = self._running.try_again()
                else:
                    self._rounding = self._round(lease)
                    seconds = yield self._rounding
                backoff.clear()
            except CancelledError:
                if not self._interrupted:
                    raise
                self._stock.doubt()
                seconds = 0.0
            except InvalidSession:
                self._stock.doubt()
                self._session.suspect()
                seconds = backoff.next()
            except Exception as error:
                # What came of it is not known.  Whatever it was, the loop of a
                # worker goes on, and says what is wrong.
                self._stock.doubt()
                seconds = backoff.next(error)
                self._log.warning(
                    "work-not-updated",
                    retry_in=round(seconds, 3),
                    error=str(error),
                    exc_info=not isinstance(error, CoordinationError),
                )
            finally:
                self._rounding, self._interrupted = None, False
            self._reports.wake()
            yield self._wake.wait(seconds)

    @inlineCallbacks
    def _round(self, lease: Lease) -> Steps[float | None]:
        """
        Act on the difference once.

        :return: a Deferred that fires with the seconds after which to look
            again, or ``None``.  Fails with :class:`ConsulError`.
        """
        if self._watched_under not in (None, lease.session_id):
            # An index that was seen under another session may be of another
            # Consul, too.
            self._assignments.restart()
            self._descriptions.restart()
            self._awaited.restart()
        self._watched_under = lease.session_id
        if self._stock.due(lease):
            yield self._stock.take(lease)
            self._overdue.look()
        current = self._assignments.current
        if current is None or self._permitted() is not lease:
            return None
        self._heed(current)
        waits: list[float | None] = []
        waits.append((yield self._claiming.claim(lease)))
        if not self._draining:
            yield self._preparing.prepare()
        if self._stock.former:
            waits.append((yield self._stock.settle(current)))
        waits.append((yield self._descriptions.refresh()))
        waits.append(self._running.try_again())
        yield self._claiming.forget_reports()
        yield self._telling.tell(lease, self._running.items)
        self._look_whether_drained()
        return min((wait for wait in waits if wait is not None), default=None)

    def _heed(self, current: Mapping[str, Assigned]) -> None:
        """
        Stop what is not to be here any more, and go on with what has changed.
        """
        for work, item in tuple(self._running.items.items()):
            if is_extra(item):
                continue
            assigned = current.get(work)
            if assigned is None or (item.phase == RUN and assigned.phase == PREPARE):
                self._running.stop(item, release=True)
            elif assigned.index != item.assignment:
                item.assignment, item.odd = assigned.index, assigned.odd
                if assigned.item is not None:
                    item.described = None
                    self._running.change(item, assigned.item)
                elif item.described is None:
                    item.described = 0
                    self._descriptions.look()

    def _look_whether_drained(self) -> None:
        left = (
            self._assignments.current,
            self._running.items,
            self._releasing.waiting,
        )
        if self._draining and not any(left):
            self._drained.fire(None)
