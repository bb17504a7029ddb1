"""
A reactor on a wall clock that can be set, over one on a steady clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer


@implementer(IReactorTime)
class SteppingReactor:
    """
    Fires what is due by its own clock, as Twisted's reactors do, whatever
    becomes of that clock.

    :param clock: true time; nothing sets it.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._ahead = 1_000_000.0
        #: When each timer is due by the wall clock.
        self._due: dict[IDelayedCall, float] = {}

    def seconds(self) -> float:
        """
        Give the wall clock.
        """
        return self._clock.seconds() + self._ahead

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> IDelayedCall:
        """
        Call once the wall clock says so.
        """
        self._sweep()
        call = self._clock.callLater(delay, callable, *args, **kw)
        self._due[call] = self.seconds() + delay
        return call

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        """
        Give the timers that are still to fire.
        """
        self._sweep()
        return tuple(self._due)

    def _sweep(self) -> None:
        self._due = {call: due for call, due in self._due.items() if call.active()}

    def step(self, seconds: float) -> None:
        """
        Set the wall clock ahead, or back.
        """
        self._sweep()
        self._ahead += seconds
        now = self.seconds()
        for call, due in self._due.items():
            call.reset(max(0.0, due - now))
