"""
One call of a runner: bounded, and known of until the runner is done with it.

# Note [A call that was given up]

A call that takes too long is cancelled and not waited for: nobody is held up by
a runner that does not answer.  But it may go on, if the runner does not heed
the cancellation, and may yet do what it was asked to.  So whoever calls the
runner about the same item again asks first whether the call has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from ._loops import Timer
from .errors import CoordinationError
from .waiters import Waiters


class Call:
    """
    One call, made once.

    :ivar ended: whether the runner is done with it.

    :param call: what is called; it may return a Deferred.
    """

    def __init__(self, reactor: IReactorTime, call: Callable[[], Any]) -> None:
        self._call = call
        self._bound = Timer(reactor, self._give_up)
        self._late = ""
        self._waiting: Deferred[Any] | None = None
        self._running: Deferred[Any] | None = None
        self._cancelled = False
        self._outcome: Any = None
        self._ends: Waiters[None] = Waiters()
        self.ended = False

    @property
    def succeeded(self) -> bool:
        """
        Whether it has ended well.
        """
        return self.ended and not isinstance(self._outcome, Failure)

    def make(self, seconds: float | None = None) -> Deferred[Any]:
        """
        Call, and wait for the end of it, at most so many seconds.

        :return: a Deferred that fires with what the runner gives, or fails as
            it does, or with :class:`TimeoutError`: then the call is cancelled,
            and may go on.  Cancelling the Deferred cancels the call.
        """
        waiting: Deferred[Any] = Deferred(lambda _: self.cancel())
        self._waiting = waiting
        if seconds is not None:
            self._late = f"not done in {seconds:g} s"
            self._bound.set(seconds)
        running = self._running = maybeDeferred(self._call)
        running.addBoth(self._end)
        if self._cancelled:
            # From within the call itself, when there was nothing to cancel yet.
            running.cancel()
        return waiting

    def cancel(self) -> None:
        """
        Ask the runner to end it, once.
        """
        before, self._cancelled = self._cancelled, True
        if self._running is not None and not self.ended and not before:
            self._running.cancel()

    def leave(self) -> None:
        """
        Let it go on, and wait for it no more.
        """
        self._bound.cancel()
        self._waiting = None

    def when_ended(self) -> Deferred[None]:
        """
        Wait until the runner is done with it, however it ends.
        """
        ended = self._ends.wait()
        if self.ended:
            self._ends.fire(None)
        return ended

    def _give_up(self) -> None:
        waiting, self._waiting = self._waiting, None
        self.cancel()
        if waiting is not None and not waiting.called:
            if self.succeeded:
                waiting.callback(self._outcome)
            else:
                waiting.errback(TimeoutError(self._late))

    def _end(self, outcome: Any) -> None:
        self.ended, self._outcome = True, outcome
        self._bound.cancel()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.called:
            waiting.callback(outcome)
        self._ends.fire(None)


def told(error: BaseException | None) -> str:
    """
    Give an error in words; a cancellation has none of its own.  An error of ours
    says all there is to say, any other one says first what kind it is.
    """
    if isinstance(error, CancelledError):
        return "cancelled by the runner itself"
    if isinstance(error, CoordinationError):
        return str(error)
    return f"{type(error).__name__}: {error}"
