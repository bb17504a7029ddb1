"""
A Deferred that ends when we say so, and how we say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

_T = TypeVar("_T")


class Guarded(Generic[_T]):
    """
    Watches over a Deferred of somebody else's.

    Cancelling a request of ``twisted.web`` makes it fail with one of half a
    dozen errors, sometimes much later.  ``outer`` fails at once, with exactly
    ``CancelledError`` or with what :meth:`abort` was given; what ``inner``
    says after that is nobody's concern.
    """

    def __init__(self, inner: Deferred[_T]) -> None:
        self._inner: Deferred[_T] = inner
        self.outer: Deferred[_T] = Deferred(lambda _: self.abort(CancelledError()))
        inner.addBoth(self._deliver)

    def _deliver(self, result: _T | Failure) -> None:
        if not self.outer.called:
            self.outer.callback(result)

    def abort(self, error: Exception) -> None:
        """
        Fail now, and cancel what is under way.
        """
        if not self.outer.called:
            self.outer.errback(error)
            self._inner.cancel()


def bounded(
    inner: Deferred[_T],
    seconds: float,
    clock: IReactorTime,
    late: Callable[[], Exception],
) -> Guarded[_T]:
    """
    Guard a Deferred, and abort it with ``late()`` after so many seconds.
    """
    guarded = Guarded(inner)
    if guarded.outer.called:
        return guarded
    timer = clock.callLater(seconds, lambda: guarded.abort(late()))

    def disarm(result: _T | Failure) -> _T | Failure:
        if timer.active():
            timer.cancel()
        return result

    guarded.outer.addBoth(disarm)
    return guarded
