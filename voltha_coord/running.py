"""
The items that run here: started, stopped, and started again when that failed.

# Note [The states of an item]

    starting ──done──▶ running          the runner's ``start_work`` has finished
        │  ▲
      fails │ after a back-off
        ▼  │
      failed
    any of them ──stop──▶ stopping ──done, or failed──▶ gone

An item counts as running from before ``start_work`` is called until after
``stop_work`` has finished.  Each one is a task of its own: a runner that never
answers about one item holds up no other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from attrs import Factory, define, field
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    inlineCallbacks,
    maybeDeferred,
)
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks
from ._types import Steps
from .consul.backoff import Backoff
from .interfaces import IRunner
from .lease import Lease
from .ownership import REPORT_BYTES
from .records import StatusReport, WorkItem, WorkStatus

STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
FAILED = "failed"

#: Every state that an item may be in.
STATES = (STARTING, RUNNING, STOPPING, FAILED)


@define(eq=False)
class Item:
    """
    One item that we own; see Note [The states of an item].

    :ivar index: the ModifyIndex of our owner record.
    :ivar lease: the lease it runs under.
    :ivar report: what its last owner handed over.
    :ivar report_index: the ModifyIndex of that, 0 when there is none to be
        removed (any more).
    :ivar digest: of the item; it does not change while it runs.
    :ivar release: whether to release it once it has stopped.
    :ivar handover: what the next owner is to know.
    :ivar starting: the runner's Deferred, to be cancelled by a stop.
    """

    item: WorkItem
    index: int
    lease: Lease
    report: bytes | None = None
    report_index: int = 0
    digest: str = field(default=Factory(lambda self: self.item.digest, True))
    state: str = STARTING
    since: float = 0.0
    error: str = ""
    release: bool = True
    handover: bytes | None = None
    retry_at: float = 0.0
    starting: Deferred[Any] | None = None
    backoff: Backoff | None = None

    @property
    def trouble(self) -> str:
        """
        What people are to know: why it does not run, or what in its
        description could not be read; empty when all is well.
        """
        return self.error or self.item.problem or ""


class RunningItems:
    """
    Has the runner run items; see the head of the module.

    :param stopped: told of each item that has stopped.
    :param changed: told whenever a status report would say something new.
    :param attend: told whenever the worker has something to do about an item.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        runner: IRunner,
        *,
        stopped: Callable[[Item], None],
        changed: Callable[[], None],
        attend: Callable[[], None],
        wall_clock: Callable[[], float],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._runner = runner
        self._stopped = stopped
        self._changed = changed
        self._attend = attend
        self._wall_clock = wall_clock
        self._random = random
        self._log = log
        self._tasks = Tasks(log)
        self._given_up = False
        self._usage_unknown: set[str] = set()
        #: Every item that we own and that has not stopped, by work id.
        self.items: dict[str, Item] = {}

    @property
    def workload(self) -> set[str]:
        """
        The ids of the items that run now.
        """
        return {
            work
            for work, item in self.items.items()
            if item.state != FAILED and item.lease.active
        }

    @property
    def states(self) -> dict[str, int]:
        """
        How many items are in each state.
        """
        counts = Counter(item.state for item in self.items.values())
        return {state: counts[state] for state in STATES}

    # Starting.

    def start(self, item: Item) -> None:
        """
        Start an item; when that fails, again later.
        """
        self.items[item.item.id] = item
        if item.state != FAILED:
            item.since = self._wall_clock()
        item.state = STARTING
        self._tasks.spawn("start-work", self._start_one, item)

    @inlineCallbacks
    def _start_one(self, item: Item) -> Steps[None]:
        item.starting = maybeDeferred(self._runner.start_work, item.item, item.report)
        try:
            yield item.starting
        except Exception as error:
            # A start that a stop has cancelled is in another state by then.
            if item.state == STARTING:
                self._could_not_start(item, error)
        else:
            if item.state == STARTING:
                if item.error:
                    item.since = self._wall_clock()
                if item.error or item.report_index:
                    self._attend()
                item.state, item.error = RUNNING, ""
                item.report = item.backoff = None
        finally:
            item.starting = None
            self._changed()

    def _could_not_start(self, item: Item, error: Exception) -> None:
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
        self._attend()

    def start_failed_again(self) -> float | None:
        """
        Start again what could not be started and has waited long enough.

        :return: the seconds until the next one is due, ``None`` for none.
        """
        now = self._reactor.seconds()
        waits = []
        for item in tuple(self.items.values()):
            if item.state != FAILED:
                continue
            if item.retry_at <= now:
                self.start(item)
            else:
                waits.append(item.retry_at - now)
        return min(waits, default=None)

    # Stopping.

    def stop(self, item: Item, *, release: bool) -> None:
        """
        Stop an item.  Once it has stopped it is not in :attr:`items` any more.

        :param release: whether it is to be given up then; asked for twice,
            only if both times.
        """
        self.items[item.item.id] = item
        item.release = item.release and release
        if item.state != STOPPING:
            item.state = STOPPING
            item.since = self._wall_clock()
            self._tasks.spawn("stop-work", self._stop_one, item)

    def stop_all_but(self, lease: Lease | None, *, release: bool) -> None:
        """
        Stop whatever runs under another lease than this one.
        """
        for item in tuple(self.items.values()):
            if item.lease is not lease:
                self.stop(item, release=release)

    @inlineCallbacks
    def _stop_one(self, item: Item) -> Steps[None]:
        if item.starting is not None:
            item.starting.cancel()
        try:
            yield maybeDeferred(self._runner.stop_work, item.item)
        except Exception as error:
            if self._given_up:
                # It may run yet: nobody may take it before our lease is over.
                raise
            # It is not tried again: the runner was asked, and nothing more can
            # be done from here.
            self._log.error(
                "work-not-stopped", work=item.item.id, error=_told(error), exc_info=True
            )
        else:
            if item.release:
                item.handover = yield self._report_of(item)
        self.items.pop(item.item.id, None)
        self._stopped(item)
        self._changed()

    @inlineCallbacks
    def _report_of(self, item: Item) -> Steps[bytes | None]:
        """
        Ask the runner what the next owner is to know.
        """
        try:
            report: object = yield maybeDeferred(self._runner.report, item.item)
        except Exception as error:
            if self._given_up:
                raise
            problem = _told(error)
        else:
            if report is None:
                return None
            if not isinstance(report, bytes):
                problem = f"{type(report).__name__} instead of bytes"
            elif len(report) > REPORT_BYTES:
                problem = f"{len(report)} bytes, at most {REPORT_BYTES}"
            else:
                return report
        self._log.error("nothing-handed-over", work=item.item.id, error=problem)
        return None

    @inlineCallbacks
    def give_up(self) -> Steps[None]:
        """
        Wait for the runner no more.  What has not stopped stays in
        :attr:`items`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._given_up = True
        yield self._tasks.stop()

    # Reporting.

    def collect(self) -> StatusReport:
        """
        Give the status report as it is now.
        """
        return StatusReport(
            {
                work: WorkStatus(
                    state=item.state,
                    usage=self._usage(item),
                    since=item.since,
                    digest=item.digest,
                    error=item.trouble,
                )
                for work, item in self.items.items()
            }
        )

    def _usage(self, item: Item) -> Mapping[str, Any]:
        """
        Ask the runner what an item uses; whatever it says must not keep the
        others from being reported.
        """
        if item.state != RUNNING:
            return {}
        try:
            usage = self._runner.usage(item.item)
            if usage:
                json.dumps(usage := dict(usage))
        except Exception as error:
            if item.item.id not in self._usage_unknown:
                self._usage_unknown.add(item.item.id)
                self._log.error("usage-unknown", work=item.item.id, error=_told(error))
            return {}
        self._usage_unknown.discard(item.item.id)
        return usage


def _told(error: Exception) -> str:
    """
    Give an error in words; a cancellation has none of its own.
    """
    if isinstance(error, CancelledError):
        return "cancelled by the runner itself"
    return f"{type(error).__name__}: {error}"
