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
        waiting: Deferred[_T] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        return waiting

    def fire(self, value: _T) -> None:
        """
        Tell everybody who waits now.
        """
        for one in self._take():
            one.callback(value)

    def fail(self, error: Callable[[], Exception]) -> None:
        """
        Tell everybody who waits now that it will not happen.
        """
        for one in self._take():
            one.errback(error())

    def _take(self) -> list[Deferred[_T]]:
        waiting, self._waiting[:] = list(self._waiting), []
        return waiting
