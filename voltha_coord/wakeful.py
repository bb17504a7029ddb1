"""
A timer that concludes nothing from having slept.

# Note [A process that slept]

A timer that fires late was set in a process that stood still, or on a machine
that slept.  Consul may be there all the while and has not been asked yet.  So
nothing is concluded from such a timer: it is set once more.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from ._loops import Timer

#: A timer that fires so many seconds late tells of a process that slept …
SLEPT_SECONDS = 1.0

#: … and is set once more, so that Consul can answer first: the longest pause
#: between two attempts, and twice the time that one may take.
FIRST_CHANCE_SECONDS = 10.0


class WakefulTimer:
    """
    One timer with an owner; see Note [A process that slept].

    :ivar due: when it fires, on the clock; ``None`` while it is not set.
    """

    def __init__(self, reactor: IReactorTime, call: Callable[[], None]) -> None:
        self._reactor = reactor
        self._call = call
        self._timer = Timer(reactor, self._fire)
        self.due: float | None = None

    def at(self, when: float) -> None:
        """
        Call at that time, and not at the one set before.  A time that is past is
        now; one that is long past was slept through.
        """
        now = self._reactor.seconds()
        slept = now > when + SLEPT_SECONDS
        self.due = now + FIRST_CHANCE_SECONDS if slept else max(when, now)
        self._timer.set(self.due - now)

    def cancel(self) -> None:
        """
        Call no more.
        """
        self.due = None
        self._timer.cancel()

    def _fire(self) -> None:
        due, self.due = self.due, None
        assert due is not None
        if self._reactor.seconds() > due + SLEPT_SECONDS:
            self.at(due)
        else:
            self._call()
