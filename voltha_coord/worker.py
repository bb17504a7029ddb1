"""
The worker: runs what is assigned to this member, and nothing it does not own.

One loop compares three things, and acts on the difference:

    assigned (the watch, after a soak)  ·  owned (our owner records)  ·  running

- assigned, not owned: claim it; then start it.  An item that somebody else
  still owns is claimed again, with a back-off, until its owner has stopped it.
- running, no longer assigned: stop it; when that has finished, release it.
- owned in Consul, not running here (we come from an outage, or from an earlier
  life): confirm and start it if it is assigned, else release it.

# Note [Work and the lease]

Each item runs under the lease with which it was claimed.  ``Settings.grace``
seconds before that lease ends, and at once when it is lost, every item is
stopped, whatever the loop is waiting for.  The owner records stay: they are
confirmed under the next lease, on the same session or another one of this
process, and the items start again where they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    inlineCallbacks,
    maybeDeferred,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from ._loops import Tasks, Timer, Wake
from ._types import Steps
from .apply import predecessor_of
from .consul.backoff import Backoff
from .consul.model import Reading
from .consul.watch import Watch
from .errors import ConsulError, InvalidSession
from .interfaces import IRunner, IWorker
from .keys import is_work_id, probe
from .lease import Lease
from .ownership import Claim, Claims, Ownership, OwnRecord
from .records import OwnerRecord, StatusReport, WorkItem, WorkStatus
from .reporting import StatusWriter
from .runners.track import TrackRunner

if TYPE_CHECKING:
    from .coordinator import Coordinator

#: The first and the longest pause before an item somebody owns is claimed
#: again, in seconds.
CLAIM_RETRY = (0.05, 0.5)

#: Between two looks at an earlier life's lease, in seconds.
FORMER_LIFE_RETRY = 0.25

STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
FAILED = "failed"


@define(eq=False)
class _Item:
    """
    One item that we own.

    :ivar index: the ModifyIndex of our owner record.
    :ivar lease: the lease it runs under.
    :ivar release: whether to release it once it has stopped.
    :ivar starting: the runner's Deferred, to be cancelled by a stop.
    """

    item: WorkItem
    index: int
    lease: Lease
    state: str = STARTING
    since: float = 0.0
    error: str = ""
    release: bool = True
    retry_at: float = 0.0
    starting: Deferred[Any] | None = None
    backoff: Backoff | None = field(default=None)


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
        self._runner = TrackRunner() if runner is None else runner
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
        self._running = Tasks(self._log)
        self._wake = Wake(self._reactor)
        self._soaking = Timer(self._reactor, self._update_assignments)
        self._watch: Watch[Reading] = Watch(
            self._reactor,
            self._read_assignments,
            self._assignments_seen,
            name="assignments",
            wait=self._settings.watch_wait,
            random=self._random,
        )
        self._reports = StatusWriter(
            self._reactor,
            self._api,
            self._keys,
            self._session,
            instance_id=instance_id,
            collect=self._collect,
            random=self._random,
            log=self._log,
        )
        self._candidate: dict[str, int] | None = None
        self._assigned: dict[str, int] | None = None
        self._items: dict[str, _Item] = {}
        self._to_release: dict[str, int] = {}
        self._former: dict[str, OwnRecord] = {}
        self._over_now: dict[str, bool] = {}
        self._stock_of: Lease | None = None
        self._claim_pause = CLAIM_RETRY[0]
        self._halting = False
        self._all_stopped: Deferred[None] | None = None

    # What others see.

    @property
    def my_workload(self) -> set[str]:
        """
        The ids of the work items that run here now.
        """
        return {
            work
            for work, item in self._items.items()
            if item.lease.active and item.state != FAILED
        }

    @property
    def assigned(self) -> frozenset[str]:
        """
        The ids of the work items that are assigned to this member.
        """
        return frozenset(self._assigned or ())

    @property
    def errors(self) -> dict[str, str]:
        """
        Why items that we own do not run, by work id.
        """
        return {w: item.error for w, item in self._items.items() if item.error}

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
        if self._permitted() is None:
            self._stop_everything(release=False)
        self._wake.set()
        self._reports.wake()

    @inlineCallbacks
    def halt(self) -> Steps[None]:
        """
        Stop all work, release it, and look after nothing any more.

        :return: a Deferred that fires when everything has stopped and is
            released, as far as Consul answers; never fails.
        """
        self._halting = True
        self._soaking.cancel()
        yield self._watch.stop()
        yield self._tasks.stop()
        self._stop_everything(release=True)
        if self._items:
            self._all_stopped = Deferred()
            yield self._all_stopped
        yield self._reports.stop()
        yield self._running.stop()
        try:
            yield self._ownership.release(self._to_release)
        except ConsulError as error:
            self._log.warning(
                "work-not-released",
                items=len(self._to_release),
                error=str(error),
                effect="others take it over once our lease must be over",
            )
        else:
            self._to_release.clear()

    def _permitted(self) -> Lease | None:
        """
        Give the lease under which work may run now, if there is one.
        """
        lease = self._session.lease
        if self._halting or lease is None or not lease.active:
            return None
        if not self._coordinator.is_member:
            return None
        if lease.remaining <= self._settings.grace:
            return None
        return lease

    # Assignments.

    def _read_assignments(
        self, index: int, wait: float, consistent: bool
    ) -> Deferred[Reading]:
        return self._api.list(
            self._prefix, index=index, wait=wait, consistent=consistent
        )

    def _assignments_seen(self, reading: Reading) -> None:
        start = len(self._prefix)
        found = {
            entry.key[start:]: entry.modify_index
            for entry in reading.entries
            if is_work_id(entry.key[start:])
        }
        if self._assigned is None:
            self._candidate = found
            self._update_assignments()
        elif found == self._assigned:
            # Back where we were within the soak: nothing happened.
            self._candidate = None
            self._soaking.cancel()
        else:
            self._candidate = found
            self._soaking.set(self._settings.worker_soak)

    def _update_assignments(self) -> None:
        if self._candidate is None:
            return
        before = len(self._assigned or ())
        self._assigned, self._candidate = self._candidate, None
        if before or self._assigned:
            self._log.info(
                "my-assignments-changed", old=before, new=len(self._assigned)
            )
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
                except InvalidSession:
                    self._stock_of = None
                    self._session.suspect()
                    seconds = backoff.next()
                except ConsulError as error:
                    # What came of it is not known: take stock again.
                    self._stock_of = None
                    seconds = backoff.next()
                    self._log.warning(
                        "work-not-updated", retry_in=round(seconds, 3), error=str(error)
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
        if self._stock_of is not lease:
            yield self._take_stock(lease)
        if not self._assigned and self._items:
            denied: bool = yield self._api.denied(probe(self._prefix))
            if denied:
                self._log.error("assignments-denied", key=self._prefix)
                return 5.0
        for work, item in tuple(self._items.items()):
            if work not in self._assigned:
                self._stop(item, release=True)
        yield self._release_stopped()
        waits = [self._start_failed_again()]
        waits.append((yield self._claim(lease)))
        if self._former:
            waits.append((yield self._settle_former_life()))
        return min((wait for wait in waits if wait is not None), default=None)

    @inlineCallbacks
    def _take_stock(self, lease: Lease) -> Steps[None]:
        """
        Find the owner records in our name that nothing here runs under.
        """
        records: dict[str, OwnRecord] = yield self._ownership.records()
        self._former = {
            work: found for work, found in records.items() if work not in self._items
        }
        for work in self._to_release:
            self._former.pop(work, None)
        self._stock_of = lease

    @inlineCallbacks
    def _settle_former_life(self) -> Steps[float | None]:
        """
        Release what we own in name only and are not to run any more.
        """
        assert self._assigned is not None
        done = {}
        waiting = False
        for work, found in self._former.items():
            if work in self._assigned:
                waiting = True
            elif (yield self._is_ours(found)):
                done[work] = found.index
            else:
                waiting = True
        yield self._ownership.release(done)
        for work in done:
            del self._former[work]
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
            self._over_now[session] = yield self._coordinator.succession.is_over(
                predecessor_of(found.record)
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
        for work, index in self._assigned.items():
            if work in self._items or work in self._to_release:
                continue
            former = self._former.get(work)
            if former is None:
                claims.append(Claim(work, index))
            elif (yield self._is_ours(former)):
                claims.append(Claim(work, index, former.index))
        if not claims:
            return None
        result: Claims = yield self._ownership.claim(
            lease, self._owner_record(lease), claims
        )
        for work in (*result.owned, *result.held, *result.unassigned):
            self._former.pop(work, None)
        yield self._start_owned(lease, dict(result.owned))
        if result.unassigned:
            self._watch.restart()
        if not result.held:
            self._claim_pause = CLAIM_RETRY[0]
            return None
        pause = self._claim_pause
        self._claim_pause = min(2 * pause, CLAIM_RETRY[1])
        return pause * (0.5 + 0.5 * self._random())

    def _owner_record(self, lease: Lease) -> OwnerRecord:
        return OwnerRecord(
            owner=self._instance_id,
            session=lease.session_id,
            check=self._session.check_id or None,
            node=self._session.node,
            ttl=self._session.session_ttl,
        )

    @inlineCallbacks
    def _start_owned(self, lease: Lease, owned: dict[str, int]) -> Steps[None]:
        """
        Start items that are ours now.
        """
        values: dict[str, bytes] = {}
        for work, index in owned.items():
            # Ours from here on, whatever happens to the reads that follow.
            self._to_release[work] = index
        if owned:
            values = yield self._ownership.read_work(tuple(owned))
        for work, index in owned.items():
            if work not in self._to_release:
                continue
            del self._to_release[work]
            item = WorkItem.from_value(work, values.get(work, b""))
            self._items[work] = _Item(item, index, lease)
            if lease is self._permitted():
                self._start(self._items[work])
            else:
                self._stop(self._items[work], release=False)

    def _start(self, item: _Item) -> None:
        item.state = STARTING
        item.since = self._coordinator.wall_clock()
        self._running.spawn("start-work", self._start_one, item)

    @inlineCallbacks
    def _start_one(self, item: _Item) -> Steps[None]:
        item.starting = maybeDeferred(self._runner.start_work, item.item, None)
        try:
            yield item.starting
        except Exception as error:
            # A start that is cancelled by a stop is in another state by then.
            if item.state == STARTING:
                self._could_not_start(item, error)
        else:
            if item.state == STARTING:
                item.state = RUNNING
                item.error = ""
                item.backoff = None
        finally:
            item.starting = None
            self._reports.wake()

    def _could_not_start(self, item: _Item, error: Exception) -> None:
        if item.backoff is None:
            item.backoff = Backoff(self._random)
        seconds = item.backoff.next()
        item.state = FAILED
        item.error = f"{type(error).__name__}: {error}"
        item.retry_at = self._reactor.seconds() + seconds
        self._log.error(
            "work-not-started",
            work=item.item.id,
            retry_in=round(seconds, 3),
            error=item.error,
        )
        self._wake.set()

    def _start_failed_again(self) -> float | None:
        """
        Start again what could not be started and has waited long enough.
        """
        now = self._reactor.seconds()
        waits = []
        for item in tuple(self._items.values()):
            if item.state != FAILED:
                continue
            if item.retry_at <= now:
                self._start(item)
            else:
                waits.append(item.retry_at - now)
        return min(waits, default=None)

    # Stopping and releasing.

    def _stop_everything(self, release: bool) -> None:
        for item in tuple(self._items.values()):
            self._stop(item, release)

    def _stop(self, item: _Item, release: bool) -> None:
        """
        Stop an item; what follows is done when that has finished.
        """
        item.release = item.release and release
        if item.state == STOPPING:
            return
        item.state = STOPPING
        item.since = self._coordinator.wall_clock()
        self._running.spawn("stop-work", self._stop_one, item)

    @inlineCallbacks
    def _stop_one(self, item: _Item) -> Steps[None]:
        if item.starting is not None:
            item.starting.cancel()
        try:
            yield maybeDeferred(self._runner.stop_work, item.item)
        except CancelledError:
            # Given up: nobody may take it before our lease must be over.
            return
        except Exception as error:
            # It cannot be told from a stop that worked, and is not tried again:
            # the runner was asked, and nothing more can be done here.
            self._log.error(
                "work-not-stopped", work=item.item.id, error=str(Failure(error).value)
            )
        self._items.pop(item.item.id, None)
        if item.release:
            self._to_release[item.item.id] = item.index
        else:
            # Still ours in Consul: the next stock finds it.
            self._stock_of = None
        self._wake.set()
        self._reports.wake()
        if not self._items and self._all_stopped is not None:
            done, self._all_stopped = self._all_stopped, None
            done.callback(None)

    @inlineCallbacks
    def _release_stopped(self) -> Steps[None]:
        releasing = dict(self._to_release)
        yield self._ownership.release(releasing)
        for work in releasing:
            self._to_release.pop(work, None)

    # Reporting.

    def _collect(self) -> StatusReport:
        """
        Give the status report as it is now.
        """
        return StatusReport(
            {
                work: WorkStatus(
                    state=item.state,
                    usage=self._usage(item),
                    since=item.since,
                    digest=item.item.digest,
                    error=item.error,
                )
                for work, item in self._items.items()
            }
        )

    def _usage(self, item: _Item) -> Any:
        return self._runner.usage(item.item) if item.state == RUNNING else {}


#: What makes a worker for a Coordinator.
MakeWorker = Callable[[str, "Coordinator"], IWorker]
