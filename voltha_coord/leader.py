"""
The leader: looks at the whole cluster, plans, and applies the difference.

One :class:`Leader` leads one term.  It never reacts to an event: watches and
timers only say *when* to look; each pass reads one snapshot, asks a planner
(a pure function), and writes what it gave behind the term's fence.  One pass
at a time.

# Note [When a pass is made]

A term begins with a look at a consistent snapshot; that it can be read and
planned is what :meth:`Leader.start` waits for.  The first pass that writes
comes ``departed_soak`` seconds after the last leader left where work was
assigned before, so that a takeover is quick: at once, after a lock-delay that
long.  In a new cluster it comes ``soak`` seconds later, so that all members are
there.  Members that joined and work that changed are given ``soak``
seconds to settle, a member that left or leaves ``departed_soak``; more changes
meanwhile begin the time anew, but hold a pass off for no longer than
``MOST_SOAKS`` times that.  Every ``resync_interval`` there is a pass on a
consistent snapshot.  A pass that failed is made again after a back-off.

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

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from zope.interface import implementer

from ._loops import Tasks, Wake, sleep
from ._types import Steps
from .apply import Application, prepare
from .consul.backoff import Backoff
from .consul.model import Entry, KeyNames, Reading
from .consul.transaction import TransactionOutcome
from .consul.watch import Watch
from .errors import (
    AccessDenied,
    ConsulError,
    CoordinationError,
    LeaseOverError,
)
from .interfaces import ILeader, IPlanner
from .keys import is_work_id, shown
from .ownership import lease_over
from .pace import Pace
from .planning.balanced import BalancedPlanner
from .planning.fingerprint import fingerprint
from .planning.state import ClusterState
from .records import Member, OwnerRecord, RecordError
from .remarks import Remarks
from .reminding import Reminders
from .snapshot import Look, take_look
from .transfers import Transfers

if TYPE_CHECKING:
    from .coordinator import Coordinator

#: Between two looks at predecessors whose leases may not be over, in seconds.
PREDECESSOR_RETRY = 0.25


@define
class PassReport:
    """
    What the last pass came to, for a status page and for the log.

    :ivar held: operations that wait for the lease of somebody who is gone.
    :ivar seconds: how long it took.
    :ivar frozen: whether operators wanted nothing to be planned.
    :ivar assignments: who was to run what when it began, by member and work id.
    :ivar stray: keys that cannot be ours, as they may be shown.
    :ivar problems: what is wrong with values, by key as it may be shown.
    :ivar errors: why items are not placed or cannot run, by work id.
    """

    number: int = 0
    items: int = 0
    members: int = 0
    operations: int = 0
    held: int = 0
    seconds: float = 0.0
    frozen: bool = False
    stray: tuple[str, ...] = ()
    problems: dict[str, str] = field(factory=dict)
    errors: dict[str, str] = field(factory=dict)
    assignments: Mapping[str, Mapping[str, bytes]] = field(factory=dict, repr=False)

    @cached_property
    def fingerprint(self) -> int:
        """
        The number of the placement that it found; see
        :mod:`~voltha_coord.planning.fingerprint`.
        """
        return fingerprint(self.assignments)


@implementer(ILeader)
class Leader:
    """
    Leads one term; see the head of the module.

    :param coordinator: whose term it is.
    :param planner: decides where work goes; balanced by default.
    """

    def __init__(
        self, coordinator: Coordinator, planner: IPlanner | None = None
    ) -> None:
        term = coordinator.term
        if term is None:
            raise LeaseOverError("there is no term to lead")
        self._term = term
        self._planner = BalancedPlanner() if planner is None else planner
        self._reactor = coordinator.steady
        self._retries = coordinator.retry_timers
        self._api = coordinator.api
        self._keys = coordinator.keys
        self._settings = coordinator.settings
        self._succession = coordinator.succession
        self._random = coordinator.random
        self._log = coordinator.log.bind(fencing_token=term.token)
        self._tasks = Tasks(self._log)
        self._wake = Wake(self._reactor)
        self._staying: frozenset[str] = frozenset()
        self._work: frozenset[str] = frozenset()
        self._looking: Deferred[Look] | None = None
        self._pace = Pace(self._reactor.seconds, self._settings.resync_interval)
        self._vacancy = coordinator.election.key.vacancy
        self._calm_until = term.lease.began + self._settings.soak
        self._waiting: tuple[OwnerRecord, ...] = ()
        self._remarks = Remarks(self._keys.freeze, self._log)
        self._intent: list[Entry] | None = None
        self._denied_since: float | None = None
        self._give_up = coordinator.give_up_leadership
        self._transfers = Transfers(
            self._retries,
            term,
            instance_id=coordinator.instance_id,
            transfer=coordinator.hand_over.transfer,
            random=self._random,
            log=self._log,
        )
        self._reminders = Reminders(self._keys, self._settings.resync_interval)
        self._watch_tally = coordinator.tally.watch
        self._watches: tuple[Watch[Any], ...] = (
            self._watch("members", self._read_members, self._members_seen),
            self._watch("work", self._read_work, self._work_seen),
            self._watch("intent", self._read_intent, self._intent_seen),
        )
        self._tally = coordinator.tally.passes
        self._passed_at = self._reactor.seconds()
        #: What the last pass came to.
        self.last_pass = PassReport()

    @property
    def pass_age(self) -> float:
        """
        Seconds since the last pass ended; before the first, since the term
        began.
        """
        return self._reactor.seconds() - self._passed_at

    @inlineCallbacks
    def start(self) -> Steps[None]:
        """
        Look at the cluster, and go on making passes until :meth:`halt`.

        :return: a Deferred that fires once the cluster could be read and
            planned.  It fails with :class:`ConsulError` when Consul refuses to
            let it be read, and with whatever the planner raises.
        """
        self._looking = self._first_look()
        look: Look = yield self._looking
        self._looking = None
        state = self._state_of(look)
        self._planner.plan(state)
        self._note_members(state.members.values())
        self._work = frozenset(state.work)
        departed = max(0.0, self._settings.departed_soak - self._vacancy)
        self._want_pass(departed if state.assignments else self._settings.soak)
        for watch in self._watches:
            watch.start()
        self._tasks.spawn("leader", self._run)

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
        for watch in self._watches:
            yield watch.stop()

    # When.

    def _watch(self, name: str, read: Any, seen: Any) -> Watch[Any]:
        return Watch(
            self._reactor,
            read,
            seen,
            name=name,
            wait=self._settings.watch_wait,
            random=self._random,
            tally=self._watch_tally(name),
            retries=self._retries,
            log=self._log,
        )

    def _read_members(
        self, index: int, wait: float, consistent: bool
    ) -> Deferred[Reading]:
        return self._api.list(
            self._keys.members, index=index, wait=wait, consistent=consistent
        )

    def _read_work(
        self, index: int, wait: float, consistent: bool
    ) -> Deferred[KeyNames]:
        return self._api.keys(
            self._keys.work, index=index, wait=wait, consistent=consistent
        )

    def _members_seen(self, reading: Reading) -> None:
        """
        A member came, left or changed: a pass is due.
        """
        staying = self._staying
        self._note_members(self._members_in(reading))
        self._want_pass(
            self._settings.departed_soak
            if staying - self._staying
            else self._settings.soak
        )

    def _members_in(self, reading: Reading) -> Iterable[Member]:
        for entry in reading.entries:
            try:
                member = Member.from_entry(entry, self._keys)
            except RecordError:
                continue
            if member.live:
                yield member

    def _note_members(self, members: Iterable[Member]) -> None:
        """
        Remember who is there to stay: who leaves is as good as gone.
        """
        self._staying = frozenset(m.id for m in members if not m.leaving)

    def _work_seen(self, reading: KeyNames) -> None:
        """
        Work came or went: a pass is due.
        """
        start = len(self._keys.work)
        work = frozenset(filter(is_work_id, (name[start:] for name in reading.names)))
        if work != self._work:
            self._work = work
            self._want_pass(self._settings.soak)

    def _read_intent(
        self, index: int, wait: float, consistent: bool
    ) -> Deferred[Reading]:
        return self._api.list(
            self._keys.intent, index=index, wait=wait, consistent=consistent
        )

    def _intent_seen(self, reading: Reading) -> None:
        """
        An operator wants something, or wants it no more: a pass is due, unless
        it is that somebody else should lead.
        """
        planned = []
        request = None
        for entry in reading.entries:
            if entry.key == self._keys.transfer:
                request = entry
            else:
                planned.append(entry)
        changed = self._intent is not None and self._intent != planned
        self._intent = planned
        if changed:
            self._want_pass(self._settings.departed_soak)
        self._transfers.seen(request)

    def _want_pass(self, soak: float) -> None:
        """
        Make a pass after so many seconds of quiet, or sooner if one is wanted
        sooner; see Note [When a pass is made].
        """
        self._pace.want(soak)
        self._wake.set()

    @inlineCallbacks
    def _first_look(self) -> Steps[Look]:
        """
        Read the cluster, through outages as long as the term.
        """
        backoff = Backoff(self._random)
        while True:
            try:
                look: Look = yield self._look(consistent=True, thorough=True)
            except ConsulError as error:
                if not error.retryable:
                    raise
                seconds = backoff.next(error)
                self._log.warning(
                    "first-look-failed", retry_in=round(seconds, 3), error=str(error)
                )
                yield sleep(self._retries, seconds)
            else:
                return look

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while not self._term.over:
            try:
                passed: bool = yield self._step()
                if passed:
                    backoff.clear()
                    self._denied_since = None
            except CancelledError:
                raise
            except LeaseOverError:
                return
            except Exception as error:
                if self._term.over:
                    # The write that showed it has said so.
                    return
                # Whatever a planner or a snapshot comes up with: the loop of a
                # leader goes on, and says what is wrong.
                if isinstance(error, AccessDenied) and self._denied_for_long():
                    self._give_up("denied")
                    return
                seconds = backoff.next(error)
                self._tally.failed()
                self._say_failed(error, seconds, loud=backoff.grew)
                yield sleep(self._retries, seconds)
                self._pace.want_by(self._reactor.seconds())

    def _denied_for_long(self) -> bool:
        """
        Whether the token may not do what a pass does, and another member's may:
        at once for a leader that never made a pass, else once it lasts.
        """
        now = self._reactor.seconds()
        if self._denied_since is None:
            self._denied_since = now
        patience = self._settings.resync_interval if self.last_pass.number else 0.0
        return now >= self._denied_since + patience

    def _say_failed(self, error: Exception, seconds: float, *, loud: bool) -> None:
        # Consul that is away is told by whoever makes the session.
        away = isinstance(error, ConsulError) and error.retryable
        log = self._log.error if loud and not away else self._log.debug
        log(
            "failed-reassignment",
            retry_in=round(seconds, 3),
            error=str(error),
            exc_info=not isinstance(error, CoordinationError),
        )

    @inlineCallbacks
    def _step(self) -> Steps[bool]:
        """
        Make the pass that is due, or wait for one to be.

        :return: a Deferred that fires with whether it was made.
        """
        now = self._reactor.seconds()
        if now >= self._pace.due:
            yield self._pass(consistent=now >= self._pace.resync)
            return True
        wait = self._pace.due - now
        if self._waiting:
            wait = min(wait, PREDECESSOR_RETRY * (0.5 + self._random()))
        yield self._wake.wait(wait)
        for owner in self._waiting:
            over: bool = yield lease_over(self._succession, owner)
            if over:
                self._waiting = ()
                self._pace.want_by(self._reactor.seconds())
                break
        return False

    # A pass.

    @inlineCallbacks
    def _look(self, *, consistent: bool, thorough: bool = False) -> Steps[Look]:
        now = self._reactor.seconds()
        look: Look = yield take_look(
            self._api, self._keys, now, consistent=consistent, thorough=thorough
        )
        if consistent:
            self._pace.looked(now)
        return look

    def _state_of(self, look: Look) -> ClusterState:
        """
        Give what is planned on, and say what lies about it.
        """
        state = ClusterState.from_snapshot(look.snapshot)
        start = len(self._keys.errors)
        odd = (e.key for e in look.errors if not is_work_id(e.key[start:]))
        state = evolve(state, stray=(*state.stray, *map(shown, odd)))
        self._remarks.of(state)
        return state

    @inlineCallbacks
    def _pass(self, *, consistent: bool) -> Steps[None]:
        began = self._reactor.seconds()
        self._pace.begin()
        look: Look = yield self._look(consistent=consistent)
        state = self._state_of(look)
        if state.frozen:
            self._waiting = ()
            self._report(began, state, Application())
            return
        if began < self._calm_until and self._members_missing(state):
            self._pace.want_by(self._calm_until)
            return
        plan = self._planner.plan(state)
        application: Application = yield prepare(
            self._keys, state, plan, self._succession, look.errors
        )
        self._waiting = application.waiting
        reminders = self._reminders.due(state, {o.work for o in plan.operations})
        groups = (*application.groups, *reminders.values())
        if groups:
            outcome: TransactionOutcome = yield self._term.write(groups)
            self._tally.applied(application.done(outcome.applied))
            if outcome.error is not None:
                # What is not applied is in the difference the next pass sees.
                raise outcome.error
        if reminders:
            self._reminders.made(reminders)
            self._remarks.reminded(work for _, work in reminders)
        self._report(began, state, application)

    def _members_missing(self, state: ClusterState) -> bool:
        """
        Whether members that have work are not there; see Note [After an
        outage].
        """
        missing = [
            name
            for name, items in state.assignments.items()
            if name not in state.members and not state.work.keys().isdisjoint(items)
        ]
        self._remarks.missing(missing, self._calm_until - self._reactor.seconds())
        return bool(missing)

    def _report(
        self, began: float, state: ClusterState, application: Application
    ) -> None:
        last = self.last_pass
        self.last_pass = PassReport(
            number=last.number + 1,
            items=len(state.work),
            members=len(state.members),
            operations=application.operations,
            held=application.held,
            seconds=self._reactor.seconds() - began,
            frozen=state.frozen,
            stray=state.stray,
            problems=dict(state.problems),
            errors=dict(application.errors),
            assignments=state.assignments,
        )
        self._passed_at = self._reactor.seconds()
        self._tally.made(self.last_pass.seconds, frozen=state.frozen)
        if application.operations or application.held != last.held:
            self._log.info(
                "reassigned-work",
                number=self.last_pass.number,
                items=len(state.work),
                members=len(state.members),
                operations=application.operations,
                held=application.held,
            )
