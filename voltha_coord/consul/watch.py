"""
Following a key or a prefix: one blocking query after the other.
"""

# Note [The states of a watch]
#
#   idle      start()           -> resting
#   resting   a token is there  -> reading    no time at all, unless it spins
#   reading   an answer         -> resting
#   reading   an error          -> backing    the next read is from 0
#   backing   the pause is over -> resting
#   any       restart()         -> resting    the next read is from 0
#   any       stop()            -> idle
#
# A read from 0 is consistent and answers at once; one from an index blocks
# until something may have changed, or for ``wait``.  The first read is from 0,
# and so is one after an error, after a restart, after an index that went
# backwards, and when the last was ``resync`` ago.
#
# ``restart`` and ``stop`` end whatever is under way: a request is cancelled
# and its result dropped.  Called from within ``changed``, ``failed`` or
# ``recovered`` they take effect when that returns.
#
# Note [What a wake means]
#
# Nothing: Consul wakes watchers on writes to neighbouring keys, at the end of
# the wait, and on snapshot restores.  ``changed`` is called when the content
# is not what it accepted last.  If it raises, it has not accepted, and gets
# the content again after a back-off.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import structlog
from attrs import define
from twisted.internet.defer import (
    Deferred,
    inlineCallbacks,
    maybeDeferred,
    succeed,
)
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from .._types import Steps
from ..errors import ConsulError
from .backoff import Backoff
from .history import History, Sign
from .model import Entry, KeyNames, Reading
from .throttle import TokenBucket

_log = structlog.get_logger(__name__)

_R = TypeVar("_R", Reading, KeyNames)
_T = TypeVar("_T")

#: So many seconds after the last read from 0, the next cycle begins with one.
RESYNC_SECONDS = 300.0

#: A watch that is woken again and again reads this often at once …
BURST = 2

#: … and then once in so many seconds.
REFILL_SECONDS = 0.5


class _Interrupted(Exception):
    """
    ``stop`` or ``restart`` ended this step.  Never leaves this module.
    """


def _content(reading: Reading | KeyNames) -> tuple[Entry, ...] | tuple[str, ...]:
    return reading.entries if isinstance(reading, Reading) else reading.names


@define
class WatchTally:
    """
    What one watch, or one after the other of the same name, came to.

    :ivar wakes: reads that were answered.
    :ivar unchanged: those of them that found nothing new.
    :ivar failures: reads that failed, or whose content was not accepted.
    """

    wakes: int = 0
    unchanged: int = 0
    failures: int = 0


class Watch(Generic[_R]):
    """
    Reads again and again, and tells when what it finds is different.

    :param reactor: measures time and waits.
    :param read: makes one read: ``read(index, wait, consistent)``.
    :param changed: told of each different content, the first included.
    :param name: what is watched, for the log.
    :param wait: seconds one blocking query waits at most.
    :param random: a number in [0, 1), for jitter.
    :param failed: told of a failure when the back-off reaches a new step: a
        long outage is a handful of calls, not one a retry.
    :param recovered: told of the first success after ``failed``.
    :param rewound: told when Consul may be in an older state than it was, or is;
        see Note [A Consul that was restored] of
        :mod:`~voltha_coord.consul.history`.
    :param resync: seconds between reads from index 0, consistent.
    :param burst: how many reads may follow each other at once.
    :param refill: seconds until one more may.
    :param tally: counts what it comes to; by default one of its own.
    :param retries: waits out the back-offs; see Note [One answer ends all
        back-offs] of :mod:`~voltha_coord.consul.retries`.
    :param log: whose fields its events have.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        read: Callable[[int, float, bool], Deferred[_R]],
        changed: Callable[[_R], None],
        *,
        name: str,
        wait: float,
        random: Callable[[], float],
        failed: Callable[[Exception], None] | None = None,
        recovered: Callable[[], None] | None = None,
        rewound: Callable[[Sign], None] | None = None,
        resync: float = RESYNC_SECONDS,
        burst: int = BURST,
        refill: float = REFILL_SECONDS,
        tally: WatchTally | None = None,
        retries: IReactorTime | None = None,
        log: Any = None,
    ) -> None:
        self._reactor = reactor
        self._retries = reactor if retries is None else retries
        self._read: Callable[[int, float, bool], Deferred[_R]] = read
        self._changed: Callable[[_R], None] = changed
        self._failed = failed
        self._recovered = recovered
        self._rewound = rewound
        self._wait = wait
        self._resync = resync
        self._backoff = Backoff(random)
        self._bucket = TokenBucket(reactor.seconds, burst, refill)
        self._tally = WatchTally() if tally is None else tally
        self._log = (_log if log is None else log).bind(watch=name)
        self._reading: _R | None = None
        self._answered = 0.0
        self._accepted: tuple[Entry, ...] | tuple[str, ...] | None = None
        self._index = 0
        self._history = History(wait)
        self._asked_at = 0.0
        self._fresh_at = 0.0
        self._failing = False
        self._running = False
        self._restart_wanted = False
        self._stop_wanted = False
        self._step: tuple[Deferred[Any], Deferred[Any]] | None = None
        self._waiters: list[Deferred[None]] = []

    @property
    def reading(self) -> _R | None:
        """
        What was read last, ``None`` before the first answer.
        """
        return self._reading

    @property
    def age(self) -> float | None:
        """
        Seconds since the last answer, ``None`` before the first.
        """
        if self._reading is None:
            return None
        return self._reactor.seconds() - self._answered

    @property
    def running(self) -> bool:
        """
        Whether it was started and has not ended.
        """
        return self._running

    def start(self) -> Deferred[None]:
        """
        Begin.  Fires with ``None`` once the watch has stopped; never fails.
        """
        if self._running:
            raise RuntimeError("this watch runs already")
        self._running = True
        self._stop_wanted = False
        self._restart_wanted = False
        self._index = 0
        self._accepted = None
        ended = self._when_ended()
        self._follow().addErrback(self._died).addCallback(self._ended)
        return ended

    def stop(self) -> Deferred[None]:
        """
        End; the request under way is cancelled.  Fires when nothing is under
        way any more; never fails, and may be called at any time.
        """
        if not self._running:
            return succeed(None)
        self._stop_wanted = True
        ended = self._when_ended()
        self._interrupt()
        return ended

    def restart(self) -> None:
        """
        Read from index 0 now: the index is not to be trusted any more.
        """
        if self._running:
            self._restart_wanted = True
            self._interrupt()

    def _when_ended(self) -> Deferred[None]:
        waiter: Deferred[None] = Deferred(lambda _: self._waiters.remove(waiter))
        self._waiters.append(waiter)
        return waiter

    def _died(self, failure: Failure) -> None:
        self._log.critical("watch-died", error=failure.getErrorMessage())

    def _ended(self, _: object) -> None:
        self._running = False
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.callback(None)

    @inlineCallbacks
    def _follow(self) -> Steps[None]:
        while not self._stop_wanted:
            if self._restart_wanted:
                self._restart_wanted = False
                self._index = 0
            try:
                yield from self._rest(self._reactor, self._bucket.delay())
                pause = yield from self._once()
                yield from self._rest(self._retries, pause)
            except _Interrupted:
                continue

    def _rest(self, clock: IReactorTime, seconds: float) -> Steps[None]:
        if self._stop_wanted or self._restart_wanted:
            raise _Interrupted
        if seconds > 0:
            yield self._awaited(deferLater(clock, seconds))

    def _once(self) -> Steps[float]:
        """
        Read once; give the seconds to pause before the next time.
        """
        self._bucket.take()
        index = self._index
        self._asked_at = self._reactor.seconds()
        try:
            reading: _R = yield self._awaited(
                maybeDeferred(self._read, index, self._wait, index == 0)
            )
            self._take(reading, index)
        except _Interrupted:
            raise
        except Exception as error:
            # Also a CancelledError: it is the read's own affair, nobody has
            # cancelled us.
            self._index = 0
            return self._note_failure(error)
        self._note_success()
        return 0.0

    def _take(self, reading: _R, index: int) -> None:
        self._reading = reading
        self._tally.wakes += 1
        self._answered = now = self._reactor.seconds()
        if index == 0:
            self._fresh_at = now
        found = max(1, reading.index)
        sign = self._history.note(index, found, now - self._asked_at)
        old = now - self._fresh_at >= self._resync
        stale = old or sign is not Sign.NONE
        self._index = 0 if stale else found
        content = _content(reading)
        if content == self._accepted:
            self._tally.unchanged += 1
        else:
            self._changed(reading)
            self._accepted = content
        if sign is not Sign.NONE and self._rewound is not None:
            self._tell(self._rewound, sign)

    def _note_failure(self, error: Exception) -> float:
        self._tally.failures += 1
        pause = self._backoff.next(error)
        if self._backoff.grew:
            self._failing = True
            # Consul that is away is told by whoever makes the session; what a
            # retry cannot mend is told here.
            away = isinstance(error, ConsulError) and error.retryable
            log = self._log.debug if away else self._log.warning
            log(
                "watch-failed",
                error=str(error) or repr(error),
                pause=round(pause, 3),
                exc_info=None if isinstance(error, ConsulError) else error,
            )
            if self._failed is not None:
                self._tell(self._failed, error)
        return pause

    def _note_success(self) -> None:
        self._backoff.clear()
        if self._failing:
            self._failing = False
            self._log.debug("watch-recovered")
            if self._recovered is not None:
                self._tell(self._recovered)

    def _tell(self, observer: Callable[..., None], *args: object) -> None:
        try:
            observer(*args)
        except Exception as error:
            self._log.error("watch-observer-failed", exc_info=error)

    def _awaited(self, inner: Deferred[_T]) -> Deferred[_T]:
        """
        Wait for ``inner`` or for an interruption, whichever is first.
        """
        outer: Deferred[_T] = Deferred()

        def deliver(result: _T | Failure) -> None:
            if self._step is not None and self._step[0] is outer:
                self._step = None
                outer.callback(result)

        self._step = (outer, inner)
        inner.addBoth(deliver)
        return outer

    def _interrupt(self) -> None:
        if self._step is None:
            return
        (outer, inner), self._step = self._step, None
        inner.cancel()
        outer.errback(_Interrupted())
