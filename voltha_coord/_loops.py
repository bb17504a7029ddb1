"""
What long-running loops are made of: waking, sleeping, and an owner for each task.

A loop of this package is an ``inlineCallbacks`` function that looks at the
world, acts, and waits on a :class:`Wake`.  Whoever starts one keeps it in a
:class:`Tasks`, which logs what it fails with and ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    inlineCallbacks,
    maybeDeferred,
)
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall, deferLater
from twisted.python.failure import Failure

from ._types import Steps

_T = TypeVar("_T")


def sleep(reactor: IReactorTime, seconds: float) -> Deferred[None]:
    """
    Give a Deferred that fires after so many seconds; it can be cancelled.
    """
    return deferLater(reactor, seconds, lambda: None)


class Wake:
    """
    A latch that one loop waits on.

    :meth:`set` is remembered until the next :meth:`wait`, so that nothing that
    happens while the loop is busy is missed.  The loop goes on in a later turn
    of the reactor, never inside the caller of :meth:`set`.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._set = False
        self._waiter: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None

    def set(self) -> None:
        """
        Wake the loop: now, or as soon as it waits.
        """
        if not self._set:
            self._set = True
            if self._waiter is not None:
                self._arm(0.0)

    def wait(self, seconds: float | None = None) -> Deferred[None]:
        """
        Give a Deferred that fires when woken, or after so many seconds.
        """
        assert self._waiter is None, "one loop waits on one Wake"
        self._waiter = Deferred(self._cancelled)
        if self._set:
            self._arm(0.0)
        elif seconds is not None:
            self._arm(max(0.0, seconds))
        return self._waiter

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self._reactor.callLater(seconds, self._fire)

    def _disarm(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._set = False
        waiter, self._waiter = self._waiter, None
        assert waiter is not None
        waiter.callback(None)

    def _cancelled(self, waiter: Deferred[None]) -> None:
        self._disarm()
        self._waiter = None


class Tasks:
    """
    The owner of Deferreds that nobody yields on.

    What one fails with is logged, but for cancellation.  :meth:`stop` cancels
    all of them and waits for them.
    """

    def __init__(self, log: Any = None) -> None:
        self._log = structlog.get_logger(__name__) if log is None else log
        self._running: dict[Deferred[Any], None] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._running)

    def spawn(
        self, name: str, call: Callable[..., Any], *args: Any, **kw: Any
    ) -> Deferred[Any] | None:
        """
        Call, and own the Deferred that comes back.

        :param name: for the log, should it fail.
        :return: the Deferred; it is owned here and must only be waited on
            through :meth:`stop`.  ``None`` when nothing is started any more.
        """
        if self._stopped:
            return None
        running = maybeDeferred(call, *args, **kw)
        self._running[running] = None

        def done(result: Any) -> None:
            self._running.pop(running, None)
            if isinstance(result, Failure) and not result.check(CancelledError):
                self._log.error(
                    "task-failed",
                    task=name,
                    error=result.getErrorMessage(),
                    exc_info=(result.type, result.value, result.getTracebackObject()),
                )

        running.addBoth(done)
        if self._stopped and running in self._running:
            # It has stopped us itself, before we knew of it.
            running.cancel()
        return running

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Cancel everything, and start nothing any more.

        :return: a Deferred that fires when all of it has ended; never fails.
        """
        self._stopped = True
        while self._running:
            running = list(self._running)
            for one in running:
                one.cancel()
            yield DeferredList(running, consumeErrors=True)


def bounded(
    reactor: IReactorTime, seconds: float, call: Callable[[], Any]
) -> Deferred[Any]:
    """
    Call, and wait for its Deferred at most so many seconds.

    Then it is cancelled, and not waited for: what goes on after a cancellation
    cannot hold up whoever waits here.

    :return: a Deferred that fires with the result, or fails as the call does,
        or with :class:`TimeoutError`.
    """
    running: Deferred[Any] = maybeDeferred(call)
    outcome: Deferred[Any] = Deferred(lambda _: running.cancel())
    late = False

    def deliver(result: Any) -> None:
        if not late and not outcome.called:
            outcome.callback(result)

    def give_up() -> None:
        nonlocal late
        late = True
        running.cancel()
        outcome.errback(TimeoutError(f"not done in {seconds:g} s"))

    def disarm(result: Any) -> Any:
        if timer.active():
            timer.cancel()
        return result

    timer = reactor.callLater(max(0.0, seconds), give_up)
    outcome.addBoth(disarm)
    running.addBoth(deliver)
    return outcome


class Ticker:
    """
    Begins a task every so many seconds, whether the last one has ended or not:
    a request that hangs must not keep the next one from being sent.

    :param tasks: owns what is begun.
    :param name: of the task, for the log.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        tasks: Tasks,
        name: str,
        call: Callable[[], Deferred[None]],
    ) -> None:
        self._loop = LoopingCall(lambda: self._begin(tasks, name, call))
        self._loop.clock = reactor
        self._first = Timer(reactor, self._begin_first)
        self._interval = 0.0

    @staticmethod
    def _begin(tasks: Tasks, name: str, call: Callable[[], Deferred[None]]) -> None:
        tasks.spawn(name, call)

    def _begin_first(self) -> None:
        # Never fails, since beginning a task never does.
        self._loop.start(self._interval)

    def start(self, seconds: float, first: float | None = None) -> None:
        """
        Begin one every so many seconds, and no more at the times there were before.

        :param first: when to begin the first one, in seconds; as long as between
            two others, if not given.
        """
        self.stop()
        self._interval = seconds
        self._first.set(seconds if first is None else first)

    def pace(self, seconds: float) -> None:
        """
        From the next one on, begin one every so many seconds.
        """
        self._interval = self._loop.interval = seconds

    def stop(self) -> None:
        """
        Begin no more; stopping twice is no error.
        """
        self._first.cancel()
        if self._loop.running:
            self._loop.stop()


class Timer:
    """
    One timer with an owner: setting it again replaces it.
    """

    def __init__(self, reactor: IReactorTime, call: Callable[[], None]) -> None:
        self._reactor = reactor
        self._call = call
        self._timer: IDelayedCall | None = None

    def set(self, seconds: float) -> None:
        """
        Call after so many seconds from now, and not at the time set before.
        """
        self.cancel()
        self._timer = self._reactor.callLater(max(0.0, seconds), self._fire)

    def cancel(self) -> None:
        """
        Call no more.
        """
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._call()
