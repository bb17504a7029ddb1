"""
Those who wait for the same thing to happen, once each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred

_T = TypeVar("_T")


class Waiters(Generic[_T]):
    """
    A list of Deferreds that fire together.

    The list is emptied before anybody is told, so that whoever waits again
    from within waits for the next time.  A Deferred that is cancelled leaves
    the list.
    """

    def __init__(self) -> None:
        self._waiting: list[Deferred[_T]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self) -> Deferred[_T]:
        """
        Give a Deferred that fires at the next :meth:`fire`.
        """
        waiting: Deferred[_T] = Deferred(self._forget)
        self._waiting.append(waiting)
        return waiting

    def _forget(self, waiting: Deferred[_T]) -> None:
        # One that is about to be told, and cancelled by another, is gone.
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    def fire(self, value: _T) -> None:
        """
        Tell everybody who waits now.
        """
        for one in self._take():
            if not one.called:
                one.callback(value)

    def fail(self, error: Callable[[], Exception]) -> None:
        """
        Tell everybody who waits now that it will not happen.
        """
        for one in self._take():
            if not one.called:
                one.errback(error())

    def _take(self) -> list[Deferred[_T]]:
        waiting, self._waiting[:] = list(self._waiting), []
        return waiting
