"""
The worker: runs what is assigned to this member, and nothing it does not own.

One loop compares three things, and acts on the difference:

    assigned (the watch, after a soak)  ·  owned (our owner records)  ·  running

- assigned, not owned: claim it; then start it.  An item that somebody else
  still owns is claimed again, with a back-off, until its owner has stopped it.
- running, no longer assigned: stop it; when that has finished, release it.
- owned in Consul, not running here (we come from an outage, or from an earlier
  life): confirm and start it if it is assigned, else release it.

How an item runs is told in :mod:`~voltha_coord.running`.

# Note [Work and the lease]

Each item runs under the lease with which it was claimed.  ``Settings.grace``
seconds before that lease ends, and at once when it is lost, every item is
stopped, whatever the loop is waiting for.  The owner records stay: they are
confirmed under the next lease, on the same session or another one of this
process, and the items start again where they were.

# Note [Taking stock]

What this process owns is known from what it wrote.  Where the fate of a write
is not known (no answer, or given up at shutdown), at the beginning of a lease, and
when an item that runs here is assigned to us anew (see Note [Reminding] of
:mod:`~voltha_coord.reminding`), the owner records are read.  A write that lands
later still is noticed by its effect: an item of ours is held by ourselves.  So
is a record that others wrote in our name: it is not as we left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, inlineCallbacks
from zope.interface import implementer

from ._loops import Tasks, Timer, Wake
from ._status import ERROR_CHARACTERS
from ._types import Steps
from .consul.backoff import Backoff
from .consul.model import Entry, Reading
from .consul.watch import Watch
from .errors import ConsulError, CoordinationError, InvalidSession
from .interfaces import IRunner, IWorker
from .keys import is_work_id
from .lease import Lease
from .listing import list_again
from .ownership import Claim, Claims, Ownership, OwnRecord, Release, lease_over
from .records import OwnerRecord, WorkItem
from .reporting import StatusWriter
from .runners.complete import complete
from .runners.track import TrackRunner
from .running import RUNNING, Item, RunningItems
from .settings import MOST_SOAKS

if TYPE_CHECKING:
    from .coordinator import Coordinator

#: The first and the longest pause before an item somebody owns is claimed
#: again, in seconds.
CLAIM_RETRY = (0.05, 0.5)

#: Between two looks at an earlier life's lease, in seconds.
FORMER_LIFE_RETRY = 0.25


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
        self._reactor = coordinator.steady
        self._api = coordinator.api
        self._keys = coordinator.keys
        self._settings = coordinator.settings
        self._session = coordinator.session
        self._random = coordinator.random
        self._log = coordinator.log
        self._prefix = self._keys.assignments_of(instance_id)
        self._ownership = Ownership(self._api, self._keys, instance_id)
        self._tasks = Tasks(self._log)
        self._wake = Wake(coordinator.retry_timers)
        self._soaking = Timer(self._reactor, self._update_assignments)
        self._watch: Watch[Reading] = Watch(
            self._reactor,
            self._read_assignments,
            self._assignments_seen,
            name="assignments",
            wait=self._settings.watch_wait,
            random=self._random,
            tally=coordinator.tally.watch("assignments"),
            retries=coordinator.retry_timers,
            log=self._log,
        )
        self._running = RunningItems(
            self._reactor,
            TrackRunner() if runner is None else complete(runner),
            stopped=self._item_stopped,
            changed=self._status_changed,
            attend=self._wake.set,
            wall_clock=coordinator.wall_clock,
            random=self._random,
            log=self._log,
        )
        self._reports = StatusWriter(
            self._reactor,
            self._api,
            self._keys,
            self._session,
            instance_id=instance_id,
            collect=self._running.collect,
            random=self._random,
            retries=coordinator.retry_timers,
            log=self._log,
        )
        self._candidate: dict[str, int] | None = None
        self._soaked_by = 0.0
        self._assigned: dict[str, int] | None = None
        self._to_release: dict[str, Release] = {}
        self._former: dict[str, OwnRecord] = {}
        self._over_now: dict[str, bool] = {}
        self._stock_of: Lease | None = None
        #: Whether a question is under way that decides what we own.
        self._asking = False
        self._paused = False
        self._unsure = False
        self._watched_under: str | None = None
        self._claim_pause = CLAIM_RETRY[0]
        self._told: dict[str, str] = {}
        self._told_under = ""

    # What others see.

    @property
    def my_workload(self) -> set[str]:
        """
        The ids of the work items that run here now.
        """
        return self._running.workload

    @property
    def assigned(self) -> frozenset[str]:
        """
        The ids of the work items that are assigned to this member.
        """
        return frozenset(self._assigned or ())

    @property
    def states(self) -> dict[str, int]:
        """
        How many of the items that we own are in each state.
        """
        return self._running.states

    @property
    def errors(self) -> dict[str, str]:
        """
        What is the matter with items that we own, by work id.
        """
        return {w: i.trouble for w, i in self._running.items.items() if i.trouble}

    def start(self) -> None:
        """
        Begin to look after the member's assignments.
        """
        self._watch.start()
        self._reports.start()
        self._tasks.spawn("worker", self._run)

    def lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended; see Note [Work and the
        lease].
        """
        permitted = self._permitted()
        if permitted is None and self._running.items and not self._paused:
            self._paused = True
            self._log.warning(
                "work-stopped",
                items=len(self._running.items),
                effect="it stays ours, and goes on here when Consul allows",
            )
        self._running.stop_all_but(permitted, release=False)
        self._wake.set()
        self._reports.wake()

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
        self._soaking.cancel()
        yield self._watch.stop()
        yield self._tasks.stop()
        self._log.info("stopping-work", items=len(self._running.items))
        self._running.stop_all_but(None, release=True)
        try:
            yield self._give_everything_back()
        except CancelledError:
            yield self._end()
            raise
        yield self._end()

    @inlineCallbacks
    def _end(self) -> Steps[None]:
        yield self._running.give_up()
        yield self._reports.stop()

    @inlineCallbacks
    def _give_everything_back(self) -> Steps[None]:
        """
        Release what stops, until everything has.
        """
        while self._running.items:
            yield self._give_back()
            if self._running.items:
                yield self._wake.wait()
        yield self._give_back()
        if self._unsure or self._asking or self._former:
            yield self._give_back_unknown()

    @inlineCallbacks
    def _give_back(self) -> Steps[None]:
        """
        Release what has stopped, as far as Consul answers.
        """
        try:
            yield self._release_stopped()
        except ConsulError as error:
            self._log.warning(
                "work-not-released",
                items=len(self._to_release),
                error=str(error),
                effect="others take it over once our lease must be over",
            )

    @inlineCallbacks
    def _give_back_unknown(self) -> Steps[None]:
        """
        Release what we may own without knowing; see Note [Taking stock].
        """
        try:
            records: dict[str, OwnRecord] = yield self._ownership.records()
        except ConsulError as error:
            self._log.warning("owner-records-not-read", error=str(error))
            return
        for work, found in records.items():
            if found.record.session in self._session.own_sessions:
                self._to_release.setdefault(work, Release(found.index))
        yield self._give_back()

    def _permitted(self) -> Lease | None:
        """
        Give the lease under which work may run now, if there is one.
        """
        lease = self._session.lease
        if lease is None or not lease.active:
            return None
        if not self._coordinator.is_member:
            return None
        if lease.remaining <= self._settings.grace:
            return None
        return lease

    # What items tell.

    def _item_stopped(self, item: Item) -> None:
        if item.release:
            self._to_release[item.item.id] = Release(item.index, item.handover)
        else:
            # Still ours in Consul: the next stock finds it.
            self._unsure = True
        self._wake.set()

    def _status_changed(self) -> None:
        self._reports.wake()

    # Assignments.

    @inlineCallbacks
    def _read_assignments(
        self, index: int, wait: float, consistent: bool
    ) -> Steps[Reading]:
        reading: Reading = yield self._api.list(
            self._prefix, index=index, wait=wait, consistent=consistent
        )
        if self._assigned and not reading.entries:
            reading = yield list_again(self._api, self._prefix)
        return reading

    def _assignments_seen(self, reading: Reading) -> None:
        start = len(self._prefix)
        found = {
            entry.key[start:]: entry.modify_index
            for entry in reading.entries
            if is_work_id(entry.key[start:])
        }
        if found == self._assigned:
            # Back where we were within the soak: nothing happened.
            self._candidate = None
            self._soaking.cancel()
            return
        now, soak = self._reactor.seconds(), self._settings.worker_soak
        if self._candidate is None:
            self._soaked_by = now + MOST_SOAKS * soak
        self._candidate = found
        if self._assigned is None:
            self._update_assignments()
        else:
            self._soaking.set(min(soak, self._soaked_by - now))

    def _update_assignments(self) -> None:
        if self._candidate is None:
            return
        before = self._assigned or {}
        self._assigned, self._candidate = self._candidate, None
        if before or self._assigned:
            self._log.info(
                "my-assignments-changed", old=len(before), new=len(self._assigned)
            )
        running = self._assigned.keys() & self._running.items.keys()
        if any(self._assigned[work] != before.get(work) for work in running):
            # It was somebody else's meanwhile, or the leader reminds us.
            self._unsure = True
        self._claim_pause = CLAIM_RETRY[0]
        self._wake.set()

    # The loop.

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while True:
            seconds: float | None = None
            lease = self._permitted()
            if lease is not None and self._assigned is not None:
                try:
                    seconds = yield self._round(lease)
                    backoff.clear()
                except CancelledError:
                    raise
                except InvalidSession:
                    self._unsure = True
                    self._session.suspect()
                    seconds = backoff.next()
                except Exception as error:
                    # What came of it is not known.  Whatever it was, the loop
                    # of a worker goes on, and says what is wrong.
                    self._unsure = True
                    seconds = backoff.next(error)
                    self._log.warning(
                        "work-not-updated",
                        retry_in=round(seconds, 3),
                        error=str(error),
                        exc_info=not isinstance(error, CoordinationError),
                    )
            self._reports.wake()
            yield self._wake.wait(seconds)

    @inlineCallbacks
    def _round(self, lease: Lease) -> Steps[float | None]:
        """
        Act on the difference once.

        :return: a Deferred that fires with the seconds after which to look
            again, or ``None``.  Fails with :class:`ConsulError`.
        """
        assert self._assigned is not None
        self._over_now.clear()
        if self._watched_under not in (None, lease.session_id):
            self._watch.restart()
        self._watched_under = lease.session_id
        if self._stock_of is not lease or self._unsure:
            yield self._take_stock(lease)
        items = self._running.items
        for work, item in tuple(items.items()):
            if work not in self._assigned:
                self._running.stop(item, release=True)
        yield self._release_stopped()
        waits = [self._running.start_failed_again()]
        waits.append((yield self._claim(lease)))
        if self._former:
            waits.append((yield self._settle_former_life()))
        yield self._forget_reports()
        yield self._tell_errors(lease)
        return min((wait for wait in waits if wait is not None), default=None)

    @inlineCallbacks
    def _take_stock(self, lease: Lease) -> Steps[None]:
        """
        Compare the owner records in our name with what runs here.
        """
        self._asking, self._unsure = True, False
        records: dict[str, OwnRecord] = yield self._ownership.records()
        self._asking = False
        self._stock_of = lease
        for work, item in tuple(self._running.items.items()):
            found = records.pop(work, None)
            if found is None or found.index != item.index:
                # Somebody took the record away, or wrote over it.
                self._running.stop(item, release=False)
        for work in self._to_release:
            records.pop(work, None)
        self._former = records

    @inlineCallbacks
    def _settle_former_life(self) -> Steps[float | None]:
        """
        Release what we own in name only and are not to run any more.
        """
        assert self._assigned is not None
        done = {}
        waiting = False
        for work, found in tuple(self._former.items()):
            if work in self._assigned:
                waiting = True
            elif (yield self._is_ours(found)):
                done[work] = Release(found.index)
            else:
                waiting = True
        yield self._release(done)
        for work in done:
            self._former.pop(work, None)
        return FORMER_LIFE_RETRY if waiting else None

    @inlineCallbacks
    def _is_ours(self, found: OwnRecord) -> Steps[bool]:
        """
        Whether nobody can still be running an item under that record.

        Sessions of this very process ran nothing that we would not know of.
        An earlier life of this instance, or its double, may still be running.
        """
        session = found.record.session
        if session in self._session.own_sessions:
            return True
        if session not in self._over_now:
            # Asked once a round, for all the items of that life.
            self._over_now[session] = yield lease_over(
                self._coordinator.succession, found.record
            )
        return self._over_now[session]

    # Taking and starting.

    @inlineCallbacks
    def _claim(self, lease: Lease) -> Steps[float | None]:
        """
        Claim what is assigned and not owned yet, and start it.
        """
        assert self._assigned is not None
        claims = []
        for work, index in tuple(self._assigned.items()):
            if work in self._running.items or work in self._to_release:
                continue
            former = self._former.get(work)
            if former is None:
                claims.append(Claim(work, index))
            elif (yield self._is_ours(former)):
                claims.append(Claim(work, index, former.index))
        if not claims:
            return None
        self._asking = True
        result: Claims = yield self._ownership.claim(
            lease, self._owner_record(lease), claims
        )
        # What is not assigned to us any more is still ours in name.
        for work in (*result.owned, *result.held):
            self._former.pop(work, None)
        # Ours from here on, whatever happens to the reads that follow.
        self._to_release.update((w, Release(i)) for w, i in result.owned.items())
        self._asking = False
        if any(claim.owner and claim.work in result.held for claim in claims):
            # A record of ours is another than we knew.
            self._unsure = True
        yield self._start_owned(lease, result.owned)
        if result.unassigned:
            self._forget_assignments(claims, result.unassigned)
        if not result.held:
            self._claim_pause = CLAIM_RETRY[0]
            return None
        pause = self._claim_pause
        self._claim_pause = min(2 * pause, CLAIM_RETRY[1])
        if pause >= CLAIM_RETRY[1]:
            yield self._find_ours_among(result.held)
        return pause * (0.5 + 0.5 * self._random())

    def _forget_assignments(
        self, claims: Sequence[Claim], unassigned: Sequence[str]
    ) -> None:
        """
        Consul knows better than what was last read: go by that until the
        assignments, read again now, have come.
        """
        assert self._assigned is not None
        gone = set(unassigned)
        for claim in claims:
            seen = self._assigned.get(claim.work)
            if claim.work in gone and seen == claim.assignment:
                del self._assigned[claim.work]
        self._watch.restart()

    @inlineCallbacks
    def _find_ours_among(self, held: Sequence[str]) -> Steps[None]:
        """
        See whether a claim of ours that was given up has landed since.
        """
        records: dict[str, OwnRecord] = yield self._ownership.look_up(held)
        self._former.update(records)

    def _owner_record(self, lease: Lease) -> OwnerRecord:
        return OwnerRecord(
            owner=self._instance_id,
            session=lease.session_id,
            check=self._session.check_id or None,
            node=self._session.node,
            ttl=self._session.session_ttl,
        )

    @inlineCallbacks
    def _start_owned(self, lease: Lease, owned: Mapping[str, int]) -> Steps[None]:
        """
        Start items that are ours now.
        """
        if not owned:
            return
        reported: set[str] = yield self._ownership.reported()
        wanted = map(self._keys.work_item, owned)
        reports = reported.intersection(map(self._keys.report, owned))
        found: dict[str, Entry] = yield self._ownership.read((*wanted, *reports))
        for work, index in owned.items():
            if self._to_release.pop(work, None) is None:
                continue
            described = found.get(self._keys.work_item(work))
            report = found.get(self._keys.report(work))
            item = Item(
                WorkItem.from_value(
                    work, b"" if described is None else described.value
                ),
                index,
                lease,
                report=None if report is None else report.value,
                report_index=0 if report is None else report.modify_index,
            )
            if lease is self._permitted():
                self._running.start(item)
            else:
                self._running.stop(item, release=False)
        self._log.info(
            "work-resumed" if self._paused else "work-started", items=len(owned)
        )
        self._paused = False

    # Releasing, and telling.

    @inlineCallbacks
    def _release_stopped(self) -> Steps[None]:
        releasing = dict(self._to_release)
        yield self._release(releasing)
        for work, release in releasing.items():
            if self._to_release.get(work) is release:
                del self._to_release[work]

    @inlineCallbacks
    def _release(self, releases: Mapping[str, Release]) -> Steps[None]:
        left: tuple[str, ...] = yield self._ownership.release(releases)
        if left:
            # Written by others in our name, or not ours at all.
            self._unsure = True
            self._wake.set()

    @inlineCallbacks
    def _forget_reports(self) -> Steps[None]:
        """
        Remove the reports of items that have started.
        """
        served = {
            work: item
            for work, item in self._running.items.items()
            if item.report_index and item.state == RUNNING
        }
        yield self._ownership.forget_reports(
            {work: item.report_index for work, item in served.items()}
        )
        for item in served.values():
            item.report_index = 0

    @inlineCallbacks
    def _tell_errors(self, lease: Lease) -> Steps[None]:
        """
        Say under ``errors/`` what is the matter with items that we own.
        """
        if self._told_under != lease.session_id:
            self._told_under = lease.session_id
            self._told.clear()
        news = {}
        for work, item in self._running.items.items():
            text = item.trouble[:ERROR_CHARACTERS]
            if item.lease is lease and text != self._told.get(work, ""):
                news[work] = (item.index, text)
        for work in self._told.keys() - self._running.items.keys():
            # Whoever owns it next speaks for it, or the leader clears it.
            del self._told[work]
        if not news:
            return
        try:
            lost: tuple[str, ...] = yield self._ownership.tell_errors(
                lease.session_id, news
            )
        except ConsulError as error:
            if error.retryable:
                raise
            # Not told is better than not worked.
            self._log.warning("errors-not-told", items=len(news), error=str(error))
            lost = ()
        self._told.update((work, text) for work, (_, text) in news.items())
        if lost:
            self._unsure = True
            self._wake.set()
