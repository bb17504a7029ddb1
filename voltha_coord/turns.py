"""
So many at a time, first come, first served.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred


class Turns:
    """
    Lets so many go ahead at a time; the others wait in line.

    Unlike Twisted's semaphore it calls nobody from within another's
    :meth:`give_back`: thousands that are done at once are no deep recursion.

    :param count: how many.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: deque[Deferred[None]] = deque()
        self._giving = False

    def __len__(self) -> int:
        return len(self._line)

    def take(self) -> Deferred[None]:
        """
        Wait for a turn.

        :return: a Deferred that fires when it has come; what was given is to
            be given back.  Cancelled before, it leaves the line.
        """
        turn: Deferred[None] = Deferred(self._line.remove)
        self._line.append(turn)
        self._give()
        return turn

    def give_back(self) -> None:
        """
        Let the next one go ahead.
        """
        self._free += 1
        self._give()

    def _give(self) -> None:
        if self._giving:
            return
        self._giving = True
        try:
            while self._free and self._line:
                self._free -= 1
                self._line.popleft().callback(None)
        finally:
            self._giving = False
