"""
Timers for whoever waits to try again.

# Note [One answer ends all back-offs]

An outage leaves each activity of a process in a back-off of its own, and in the
end each asks once in several seconds.  Whichever asks first when Consul is back
finds that out, and none of the others has a reason to wait any longer.  Their
timers are therefore set to fire soon, at random moments of a short while, so
that neither a process nor the members of a cluster, which often notice
together, ask everything at once.

Consul may answer one request and not the next.  Hastening whoever waits once
for each answer would make one storm of all the back-offs; it is done once in a
second at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

#: Who waits to try again does so within so many seconds once Consul answers.
SPREAD_SECONDS = 0.25

#: That is done no more often than once in so many seconds.
REST_SECONDS = 1.0

#: Timers that were cancelled are swept once there are so many of them.
_SWEEP = 32


@implementer(IReactorTime)
class RetryTimers:
    """
    An ``IReactorTime`` whose timers may be made to fire early; see Note [One
    answer ends all back-offs].

    :param reactor: does the waiting.
    :param random: for jitter, in [0, 1).
    """

    def __init__(self, reactor: IReactorTime, random: Callable[[], float]) -> None:
        self._reactor = reactor
        self._random = random
        self._calls: dict[IDelayedCall, None] = {}
        self._sweep_at = _SWEEP
        self._rested_at = reactor.seconds()

    def seconds(self) -> float:
        """
        Give the time, in seconds.
        """
        return self._reactor.seconds()

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> IDelayedCall:
        """
        Call ``callable`` after ``delay`` seconds, or earlier.
        """
        call = self._reactor.callLater(delay, callable, *args, **kw)
        if len(self._calls) >= self._sweep_at:
            self._sweep()
        self._calls[call] = None
        return call

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        """
        Give the timers that are still to fire.
        """
        self._sweep()
        return tuple(self._calls)

    def _sweep(self) -> None:
        self._calls = {call: None for call in self._calls if call.active()}
        self._sweep_at = 2 * len(self._calls) + _SWEEP

    def hasten(self) -> None:
        """
        Consul answers again: whoever waits, waits no longer than a moment.
        """
        now = self._reactor.seconds()
        if now < self._rested_at:
            return
        self._rested_at = now + REST_SECONDS
        for call in self.getDelayedCalls():
            soon = SPREAD_SECONDS * self._random()
            if now + soon < call.getTime():
                call.reset(soon)
