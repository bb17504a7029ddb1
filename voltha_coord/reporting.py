"""
The status report: what this member says of its work, in Consul.

A :class:`Collector` makes it of the items that are here.  One loop writes the
report when it says something new, at most once in ``REPORT_INTERVAL`` seconds.
The keys are held by the member's session, so that they vanish with it.  An
unchanged report writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Wake, sleep
from ._types import Steps
from .call import told
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import Op
from .errors import CoordinationError, TransactionRefused
from .interfaces import IRunner
from .item import RUNNING, Item
from .keys import Keys
from .records import StatusReport, WorkStatus, encode_status
from .session import SessionKeeper

#: A report is written at most once in so many seconds.
REPORT_INTERVAL = 0.2


class Collector:
    """
    Makes the report of how items fare.

    :param items: the items that are here, by work id.
    """

    def __init__(self, runner: IRunner, items: Mapping[str, Item], log: Any) -> None:
        self._runner = runner
        self._items = items
        self._log = log
        self._unknown: set[str] = set()

    def collect(self) -> StatusReport:
        """
        Give the report as it is now.
        """
        self._unknown &= self._items.keys()
        return StatusReport(
            {
                work: WorkStatus(
                    state=item.shown_state,
                    usage=self._usage(item),
                    since=item.since,
                    digest=item.digest,
                    error=item.trouble,
                )
                for work, item in self._items.items()
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
            usage = self._runner.usage(item.description)
            if usage:
                json.dumps(usage := dict(usage))
        except Exception as error:
            if item.id not in self._unknown:
                self._unknown.add(item.id)
                self._log.error("usage-unknown", work=item.id, error=told(error))
            return {}
        self._unknown.discard(item.id)
        return usage


class StatusWriter:
    """
    Writes one member's status report; see the head of the module.

    :param collect: gives the report as it is now.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        session: SessionKeeper,
        *,
        instance_id: str,
        collect: Callable[[], StatusReport],
        random: Callable[[], float],
        retries: IReactorTime | None = None,
        log: Any = None,
    ) -> None:
        self._retries = reactor if retries is None else retries
        self._api = api
        self._keys = keys
        self._session = session
        self._instance_id = instance_id
        self._collect = collect
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        self._tasks = Tasks(self._log)
        self._wake = Wake(reactor)
        self._said = ""
        self._written: tuple[str, tuple[bytes, ...]] | None = None

    def start(self) -> None:
        """
        Begin to report, until :meth:`stop`.
        """
        self._tasks.spawn("status", self._run)

    def wake(self) -> None:
        """
        The report may say something new.
        """
        self._wake.set()

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Report no more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        yield self._tasks.stop()

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while True:
            yield self._wake.wait()
            lease = self._session.lease
            if lease is None or not lease.active:
                continue
            try:
                yield self._write(lease.session_id)
                backoff.clear()
                pause = REPORT_INTERVAL
                self._said = ""
            except CancelledError:
                raise
            except Exception as error:
                # Whatever is in it: the loop goes on, and says what is wrong.
                pause = backoff.next(error)
                self._written = None
                self._wake.set()
                self._say(error, pause)
            yield sleep(self._retries, pause)

    def _say(self, error: Exception, pause: float) -> None:
        if isinstance(error, TransactionRefused):
            if error.lock_delayed:
                # Of our own last session; it passes.
                return
            if error.session_invalid:
                self._session.suspect()
        if str(error) != self._said:
            self._said = str(error)
            self._log.warning(
                "status-not-written",
                retry_in=round(pause, 3),
                error=self._said,
                exc_info=not isinstance(error, CoordinationError),
            )

    @inlineCallbacks
    def _write(self, session: str) -> Steps[None]:
        """
        Write the chunks that differ from what this session wrote last.
        """
        chunks = tuple(encode_status(self._collect()))
        before: tuple[bytes, ...] = ()
        if self._written is not None and self._written[0] == session:
            before = self._written[1]
        # The first chunk is what makes a report of them, so it comes last.
        for number in reversed(range(len(chunks))):
            if number >= len(before) or chunks[number] != before[number]:
                key = self._keys.status(self._instance_id, number)
                yield self._api.txn((Op.lock(key, chunks[number], session),))
        for number in range(len(chunks), len(before)):
            yield self._api.txn(
                (Op.delete(self._keys.status(self._instance_id, number)),)
            )
        self._written = (session, chunks)
