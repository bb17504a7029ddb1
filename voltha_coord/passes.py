"""
A pass of the leader: one snapshot, one plan, and what is written behind the
term's fence.

When passes are made is told in :mod:`~voltha_coord.pass_loop`.

# Note [After an outage]

A leader whose own lease is young has made its session anew, or has just come:
so have others, or they are about to.  As long as that lease is younger than
``soak``, no pass is made while members are missing that have work: they come
back, and go on with it.  A leader that has been there all the while does not
wait for anybody.

# Note [Work of members that are gone]

An item of a vanished member may still run there, for the rest of that member's
lease.  Its owner record says under which session.  Until that lease must be
over (see :mod:`~voltha_coord.succession`) the item stays where it is; then one
transaction moves it and clears the owner record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .apply import Application, prepare
from .consul.api import ConsulApi
from .consul.transaction import TransactionOutcome
from .interfaces import IPlanner, ISteppedPlanner
from .keys import Keys, is_work_id, shown
from .ownership import lease_over
from .pace import Pace
from .pass_report import PassReport
from .planning.operations import Plan
from .planning.state import ClusterState
from .recollection import Recollection
from .records import OwnerRecord
from .remarks import Remarks
from .reminding import Reminders
from .settings import Settings
from .snapshot import Look, take_look
from .stretch import Stretch
from .succession import Succession
from .tally import PassTally
from .term import Term


class Passes:
    """
    Makes the passes of one term; see the head of the module.

    :ivar last: what the last pass came to.

    :param now: the lease clock, in seconds.
    :param term: behind whose fence is written.
    :param planner: decides where work goes.
    :param succession: judges whose lease is over.
    :param recollection: what is remembered from pass to pass, where the planner
        plans by resources; ``None`` where it does not.
    :param pace: told of each look, and of the pass that is to follow.
    :param stretch: takes what is long step by step.
    :param tally: counts what they come to.
    """

    def __init__(
        self,
        now: Callable[[], float],
        api: ConsulApi,
        keys: Keys,
        settings: Settings,
        term: Term,
        *,
        planner: IPlanner,
        succession: Succession,
        recollection: Recollection | None = None,
        pace: Pace,
        stretch: Stretch,
        tally: PassTally,
        log: Any,
    ) -> None:
        self._now = now
        self._api = api
        self._keys = keys
        self._term = term
        self._planner = planner
        self._succession = succession
        self._recollection = recollection
        self._pace = pace
        self._stretch = stretch
        self._tally = tally
        self._log = log
        self._remarks = Remarks(keys.freeze, log)
        self._reminders = Reminders(keys, settings.resync_interval)
        self._calm_until = term.lease.began + settings.soak
        self._waiting: tuple[OwnerRecord, ...] = ()
        self._moving = False
        self._former: ClusterState | None = None
        self._ended_at = now()
        self.last = PassReport()

    @property
    def age(self) -> float:
        """
        Seconds since the last pass ended; before the first, since the term
        began.
        """
        return self._now() - self._ended_at

    @property
    def waits(self) -> bool:
        """
        Whether there is work that cannot be moved before a lease is over; see
        Note [Work of members that are gone].
        """
        return bool(self._waiting)

    @property
    def moving(self) -> bool:
        """
        Whether members are making ready what is to be moved to them.
        """
        return self._moving

    @inlineCallbacks
    def any_over(self) -> Steps[bool]:
        """
        See whether a lease that is waited for is over; then none is waited for
        until the next pass.

        :return: a Deferred that fires with that, or fails with
            :class:`ConsulError`.
        """
        for owner in self._waiting:
            over: bool = yield lease_over(self._succession, owner)
            if over:
                self._waiting = ()
                return True
        return False

    @inlineCallbacks
    def look(self, *, consistent: bool, thorough: bool = False) -> Steps[Look]:
        """
        Read one snapshot.

        :param thorough: see :func:`~.snapshot.take_look`.
        :return: a Deferred that fires with it, or fails with
            :class:`ConsulError`.
        """
        now = self._now()
        look: Look = yield take_look(
            self._api,
            self._keys,
            now,
            consistent=consistent,
            thorough=thorough,
            reports=self._recollection is not None,
        )
        if consistent:
            self._pace.looked(now)
        return look

    def state_of(self, look: Look) -> ClusterState:
        """
        Give what is planned on, and say what lies about it.
        """
        state = ClusterState.from_snapshot(look.snapshot, self._former)
        start = len(self._keys.errors)
        odd = (e.key for e in look.errors if not is_work_id(e.key[start:]))
        state = evolve(state, stray=(*state.stray, *map(shown, odd)))
        self._remarks.of(state)
        if self._recollection is not None:
            self._former = state
            state = self._recollection.recall(state)
        return state

    @inlineCallbacks
    def plan(self, state: ClusterState) -> Steps[Plan]:
        """
        Plan, and let others have their turn where that takes long.

        :return: a Deferred that fires with the plan, or fails with whatever the
            planner raises.
        """
        planner = self._planner
        if not ISteppedPlanner.providedBy(planner):
            return planner.plan(state)
        steps = planner.steps(state)
        plan: Plan = yield self._stretch.do(steps, len(state.work))
        return plan

    @inlineCallbacks
    def make(self, *, consistent: bool) -> Steps[None]:
        """
        Make one pass.

        :param consistent: whether on a consistent snapshot.
        :return: a Deferred that fires when done.  It fails with
            :class:`CoordinationError` when it could not be, and with whatever
            the planner raises.
        """
        began = self._now()
        self._pace.begin()
        look: Look = yield self.look(consistent=consistent)
        state = self.state_of(look)
        if state.frozen:
            self._waiting = ()
            self._report(began, state, Application())
            return
        if began < self._calm_until and self._members_missing(state):
            self._pace.want_by(self._calm_until)
            return
        plan: Plan = yield self.plan(state)
        application: Application = yield prepare(
            self._keys, state, plan, self._succession, look.errors
        )
        self._waiting = application.waiting
        reminders = self._reminders.due(state, {o.work for o in plan.operations})
        groups = (*application.groups, *reminders.values())
        if self._recollection is not None:
            self._recollection.heed(plan)
            groups += (*self._recollection.writes(state),)
        if groups:
            outcome: TransactionOutcome = yield self._term.write(groups)
            self._tally.applied(application.done(outcome.applied))
            if outcome.error is not None:
                # What is not applied is in the difference the next pass sees.
                raise outcome.error
        if reminders:
            self._reminders.made(reminders)
            self._remarks.reminded(work for _, work in reminders)
        self._remarks.planned(plan, self.last.number + 1)
        self._moving = bool(plan.moving)
        if plan.unfinished and application.operations:
            # Where nothing could be done the next plan would be the same one.
            self._pace.want_by(self._now())
        self._report(began, state, application)

    def _members_missing(self, state: ClusterState) -> bool:
        """
        Whether members that have work are not there; see Note [After an
        outage].
        """
        missing = state.missing
        self._remarks.missing(missing, self._calm_until - self._now())
        return bool(missing)

    def _report(
        self, began: float, state: ClusterState, application: Application
    ) -> None:
        before = self.last
        self.last = PassReport(
            number=before.number + 1,
            items=len(state.work),
            members=len(state.members),
            operations=application.operations,
            held=application.held,
            seconds=self._now() - began,
            frozen=state.frozen,
            stray=state.stray,
            problems=dict(state.problems),
            errors=dict(application.errors),
            assignments=state.assignments,
        )
        self._ended_at = self._now()
        self._tally.made(self.last.seconds, frozen=state.frozen)
        if application.operations or application.held != before.held:
            self._log.info(
                "reassigned-work",
                number=self.last.number,
                items=len(state.work),
                members=len(state.members),
                operations=application.operations,
                held=application.held,
            )
