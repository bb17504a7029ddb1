"""
The leader: looks at the whole cluster, plans, and applies the difference.

One :class:`Leader` leads one term.  It never reacts to an event: watches and
timers only say *when* to look (:mod:`~voltha_coord.lookout`,
:mod:`~voltha_coord.pass_loop`); each pass reads one snapshot, asks a planner (a
pure function), and writes what it gave behind the term's fence
(:mod:`~voltha_coord.passes`).  One pass at a time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks
from zope.interface import implementer

from ._loops import Tasks
from ._types import Steps
from .errors import LeaseOverError
from .interfaces import ILeader, IPlanner
from .lock_clearing import LockClearing
from .lookout import Lookout
from .pace import Pace
from .pass_loop import PassLoop
from .pass_report import PassReport
from .passes import Passes
from .planning.balanced import BalancedPlanner
from .planning.state import plans_by_resources
from .recollection import Recollection
from .snapshot import Look
from .stretch import Stretch
from .transfers import Transfers

if TYPE_CHECKING:
    from .coordinator import Coordinator


@implementer(ILeader)
class Leader:
    """
    Leads one term; see the head of the module.

    :param coordinator: whose term it is.
    :param planner: decides where work goes; balanced by default.

    :raises LeaseOverError: when there is no term to lead.
    """

    def __init__(
        self, coordinator: Coordinator, planner: IPlanner | None = None
    ) -> None:
        term = coordinator.term
        if term is None:
            raise LeaseOverError("there is no term to lead")
        settings = coordinator.settings
        log = coordinator.log.bind(fencing_token=term.token)
        self._settings = settings
        self._planner = BalancedPlanner() if planner is None else planner
        self._vacancy = coordinator.election.key.vacancy
        self._tasks = Tasks(log)
        self._looking: Deferred[Any] | None = None
        self._transfers = Transfers(
            coordinator.retry_timers,
            term,
            instance_id=coordinator.instance_id,
            transfer=coordinator.hand_over.transfer,
            random=coordinator.random,
            log=log,
        )
        by_resources = plans_by_resources(self._planner)
        now = coordinator.steady.seconds
        interval = settings.sync_interval if by_resources else math.inf
        pace = Pace(now, settings.resync_interval, interval)
        recollection = None
        if by_resources:
            recollection = Recollection(
                now, coordinator.wall_clock, coordinator.keys, settings
            )
        self._passes = Passes(
            now,
            coordinator.api,
            coordinator.keys,
            settings,
            term,
            planner=self._planner,
            succession=coordinator.succession,
            recollection=recollection,
            pace=pace,
            stretch=Stretch(coordinator.steady),
            tally=coordinator.tally.passes,
            log=log,
        )
        self._loop = PassLoop(
            coordinator.steady,
            coordinator.retry_timers,
            term,
            self._passes,
            pace,
            patience=settings.resync_interval,
            give_up=coordinator.give_up_leadership,
            tally=coordinator.tally.passes,
            random=coordinator.random,
            log=log,
        )
        self._lookout = Lookout(
            coordinator.steady,
            coordinator.api,
            coordinator.keys,
            settings,
            want_pass=self._loop.want,
            transfer=self._transfers.seen,
            moving=(lambda: self._passes.moving) if by_resources else None,
            random=coordinator.random,
            tally=coordinator.tally.watch,
            retries=coordinator.retry_timers,
            log=log,
        )
        self._clearing = LockClearing(
            coordinator.steady,
            coordinator.api,
            coordinator.keys,
            term,
            succession=coordinator.succession,
            random=coordinator.random,
            log=log,
        )

    @property
    def last_pass(self) -> PassReport:
        """
        What the last pass came to.
        """
        return self._passes.last

    @property
    def pass_age(self) -> float:
        """
        Seconds since the last pass ended; before the first, since the term
        began.
        """
        return self._passes.age

    @inlineCallbacks
    def start(self) -> Steps[None]:
        """
        Look at the cluster, and go on making passes until :meth:`halt`.

        :return: a Deferred that fires once the cluster could be read and
            planned.  It fails with :class:`ConsulError` when Consul refuses to
            let it be read, and with whatever the planner raises.
        """
        self._looking = self._loop.first_look()
        look: Look = yield self._looking
        state = self._passes.state_of(look)
        # Only to see that it can be.
        self._looking = self._passes.plan(state)
        yield self._looking
        self._looking = None
        departed = max(0.0, self._settings.departed_soak - self._vacancy)
        self._loop.want(departed if state.assignments else self._settings.soak)
        self._lookout.start(state)
        self._tasks.spawn("leader", self._loop.run)
        self._tasks.spawn("clear-locks", self._clearing.run)

    @inlineCallbacks
    def halt(self) -> Steps[None]:
        """
        Plan and write nothing any more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        if self._looking is not None:
            self._looking.cancel()
        yield self._tasks.stop()
        yield self._transfers.stop()
        yield self._lookout.stop()
