"""
The status report: what this member says of its work, in Consul.

A :class:`.Collector` makes it of the items that are here.  One loop writes the
report when it says something new, at most once in ``REPORT_INTERVAL`` seconds.
The keys are held by the member's session, so that they vanish with it.  An
unchanged report writes nothing.

# Note [How often usage is told]

What is used changes all the time.  So it is looked at every
``Settings.sync_interval`` seconds only, by the same loop, and what was seen then
stands in every report until the next look: a report that is written for another
reason says nothing new of it.  However many items there are, what they use costs
one write in that time; none when all has stayed as it was, or nearly so
(:mod:`~voltha_coord.hysteresis`).  Where nothing can be seen, nobody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Wake, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import Op
from .consul.transaction import pack
from .errors import CoordinationError, TransactionRefused
from .keys import Keys
from .records import StatusReport, encode_status
from .session import SessionKeeper
from .usages import Sampling

#: A report is written at most once in so many seconds.
REPORT_INTERVAL = 0.2


class StatusWriter:
    """
    Writes one member's status report; see the head of the module.

    :param collect: gives the report as it is now.
    :param sampling: looks what is used; ``None`` where nothing can be seen.
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
        sampling: Sampling | None = None,
        retries: IReactorTime | None = None,
        log: Any = None,
    ) -> None:
        self._reactor = reactor
        self._retries = reactor if retries is None else retries
        self._api = api
        self._keys = keys
        self._session = session
        self._instance_id = instance_id
        self._collect = collect
        self._random = random
        self._sampling = sampling
        self._look_at = reactor.seconds()
        self._due = False
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
        self._due = True
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
            yield self._wake.wait(self._until_look())
            try:
                self._look()
                lease = self._session.lease
                if not self._due or lease is None or not lease.active:
                    continue
                self._due = False
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
                self.wake()
                self._say(error, pause)
            yield sleep(self._retries, pause)

    def _until_look(self) -> float | None:
        """
        Give the seconds until the next look at what is used, ``None`` for none.
        """
        if self._sampling is None:
            return None
        return max(0.0, self._look_at - self._reactor.seconds())

    def _look(self) -> None:
        """
        Look what is used, if it is time; see Note [How often usage is told].
        """
        now = self._reactor.seconds()
        if self._sampling is None or now < self._look_at:
            return
        self._due = self._sampling.take() or self._due
        self._look_at = now + self._sampling.pause

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
        Write the chunks that differ from what this session wrote last, in one
        transaction if Consul takes them in one: so nobody reads half a report.
        """
        chunks = tuple(encode_status(self._collect()))
        before: tuple[bytes, ...] = ()
        if self._written is not None and self._written[0] == session:
            before = self._written[1]
        # The first chunk is what makes a report of them, so it comes last.
        ops = [
            Op.lock(self._key(number), chunks[number], session)
            for number in reversed(range(len(chunks)))
            if number >= len(before) or chunks[number] != before[number]
        ]
        ops += [Op.delete(self._key(n)) for n in range(len(chunks), len(before))]
        for some in pack(ops):
            yield self._api.txn(some)
        self._written = (session, chunks)

    def _key(self, number: int) -> str:
        return self._keys.status(self._instance_id, number)
