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

The loop is :mod:`~voltha_coord.rounds`; its parts are what is assigned
(:mod:`~voltha_coord.assigned`), what we own by Consul's account
(:mod:`~voltha_coord.stock`), claiming (:mod:`~voltha_coord.claiming`), giving back
(:mod:`~voltha_coord.releasing`), how an item runs (:mod:`~voltha_coord.running`),
and for how long it may (:mod:`~voltha_coord.overdue`).

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

from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from zope.interface import implementer

from ._types import Steps
from .interfaces import IRunner, IWorker
from .lease import Lease, LeaseEnd
from .rounds import Rounds
from .runners.complete import complete
from .runners.track import TrackRunner

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
        self._session = coordinator.session
        self._log = coordinator.log
        self._said_of: Lease | None = None
        self._rounds = Rounds(
            coordinator,
            instance_id,
            TrackRunner() if runner is None else complete(runner),
        )
        self._parts = self._rounds.parts

    # What others see.

    @property
    def my_workload(self) -> set[str]:
        """
        The ids of the work items that run here now, and may.
        """
        return self._parts.running.workload

    @property
    def assigned(self) -> frozenset[str]:
        """
        The ids of the work items that are assigned to this member.
        """
        return frozenset(self._parts.assignments.current or ())

    @property
    def states(self) -> dict[str, int]:
        """
        How many of the items that are here are in each state.
        """
        return self._parts.running.states

    @property
    def unstopped(self) -> tuple[str, ...]:
        """
        The ids of the items that may be running here, whether they may or not.
        """
        items = self._parts.running.items
        return tuple(work for work, item in items.items() if item.runs)

    @property
    def stuck(self) -> frozenset[str]:
        """
        The ids of the items that have not stopped although they may run here no
        longer.
        """
        return self._parts.overdue.stuck

    @property
    def errors(self) -> dict[str, str]:
        """
        What is the matter with items that are here, by work id.
        """
        return {w: i.trouble for w, i in self._parts.running.items.items() if i.trouble}

    def start(self) -> None:
        """
        Begin to look after the member's assignments.
        """
        self._parts.running.listen()
        self._parts.assignments.start()
        self._parts.releasing.start()
        self._parts.reports.start()
        self._rounds.start()

    def look_again(self) -> None:
        """
        Consul may be in an older state than it was: read everything anew.
        """
        self._rounds.look_again()

    def lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended, or we are a member or none
        any more; see Note [Work and the lease].
        """
        self._parts.extras.look()
        self._parts.overdue.look()
        self._say_what_goes_on()
        self._rounds.attend()
        self._parts.reports.wake()

    def emergency_changed(self) -> None:
        """
        An emergency began, is over, or wants something else to run.
        """
        self._parts.extras.look()
        self._parts.overdue.look()
        self._rounds.attend()

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
        if not self._rounds.draining:
            self._rounds.draining, self._parts.claiming.fresh = True, False
            self._log.info("draining-work", items=len(self._parts.running.items))
        drained = self._rounds.drained.wait()
        self._rounds.attend()
        return drained

    @inlineCallbacks
    def halt(self) -> Steps[None]:
        """
        Stop all work, release it, and look after nothing any more.

        What has stopped is released while other items still are stopping.

        :return: a Deferred that fires when everything has stopped and is
            released, as far as Consul answers; never fails.  Cancelled, it
            waits for no item any more: what has not stopped is killed, and left
            to the taking-over rule.
        """
        parts = self._parts
        parts.standing.halting = True
        yield parts.assignments.stop()
        yield parts.descriptions.stop()
        yield parts.awaited.stop()
        yield self._rounds.stop()
        self._log.info("stopping-work", items=len(parts.running.items))
        parts.running.stop_all(release=True)
        try:
            while parts.running.items:
                yield self._rounds.wake.wait()
            yield parts.releasing.finish()
            # What was not as we left it is looked for now.
            yield parts.stock.give_back_unknown()
            yield parts.releasing.finish()
        except CancelledError:
            parts.running.kill_all()
            yield self._end()
            raise
        yield self._end()

    def press(self) -> None:
        """
        Kill what is being stopped, as far as the runner can: while halting there is
        no time for more patience.
        """
        self._parts.running.kill_all()

    @inlineCallbacks
    def _end(self) -> Steps[None]:
        parts = self._parts
        parts.overdue.cancel()
        yield parts.releasing.stop()
        yield parts.running.give_up()
        yield parts.reports.stop()
        self._rounds.drained.fire(None)
