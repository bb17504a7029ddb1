"""
Doing no more at a stretch than the reactor can spare: it has others to serve, a
lease to be renewed among them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.internet.interfaces import IReactorTime

from ._collector import collector_resting
from ._loops import sleep
from ._types import Steps

_T = TypeVar("_T")

#: For so many seconds the reactor may be held.
LONGEST_SECONDS = 0.05


class Stretch:
    """
    Takes long work step by step.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._began = reactor.seconds()

    @inlineCallbacks
    def do(self, steps: Generator[None, None, _T], values: int = 0) -> Steps[_T]:
        """
        Do all steps, and let others have their turn between two of them whenever
        it has been long.

        :param values: about how many values a step makes.
        :return: a Deferred that fires with what they come to, or fails with what
            one of them raises.  Cancelled, there is no further step.
        """
        self._began = self._reactor.seconds()
        while True:
            with collector_resting(values):
                try:
                    next(steps)
                except StopIteration as end:
                    found: _T = end.value
                    return found
            yield self._rest()

    def _rest(self) -> Deferred[None]:
        if self._reactor.seconds() - self._began < LONGEST_SECONDS:
            return succeed(None)
        return sleep(self._reactor, 0.0).addCallback(self._go_on)

    def _go_on(self, _: None) -> None:
        self._began = self._reactor.seconds()
