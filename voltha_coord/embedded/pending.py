"""
Requests that an agent has taken and not answered yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from ..consul.transport import Response
from .answers import Problem
from .radix import Signal


class Pending:
    """
    A request that waits: for one of some signals, or for its time to be over.

    :param look: called at each signal; gives the answer, or ``None`` to go on
        waiting.
    :param signals: called before waiting, each time; gives the signals.
    :param at_end: gives the answer when the time is over.
    """

    def __init__(
        self,
        clock: IReactorTime,
        seconds: float,
        look: Callable[[], Response | None],
        signals: Callable[[], Sequence[Signal]],
        at_end: Callable[[], Response],
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._look = look
        self._signals = signals
        self._at_end = at_end
        self._waiting_on: Sequence[Signal] = ()
        self._timer: IDelayedCall | None = None
        self._result: Deferred[Response] | None = None
        self._forget: Callable[[Pending], None] = lambda pending: None

    def begin(
        self,
        remember: Callable[[Pending], None],
        forget: Callable[[Pending], None],
    ) -> Deferred[Response]:
        """
        Be remembered until there is an answer.
        """
        self._forget = forget
        self._result = Deferred(lambda _: self._leave())
        self._timer = self._clock.callLater(self._seconds, self.end)
        self._arm()
        remember(self)
        return self._result

    def _arm(self) -> None:
        self._waiting_on = self._signals()
        for signal in self._waiting_on:
            signal.wait(self._wake)

    def _disarm(self) -> None:
        for signal in self._waiting_on:
            signal.forget(self._wake)
        self._waiting_on = ()

    def _leave(self) -> None:
        self._disarm()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._forget(self)

    def _wake(self) -> None:
        self._disarm()
        try:
            response = self._look()
        except Problem as e:
            response = e.response()
        if response is None:
            self._arm()
        else:
            self._give(response)

    def _give(self, response: Response) -> None:
        assert self._result is not None
        self._leave()
        self._result.callback(response)

    def end(self) -> None:
        """
        Answer with what there is now.
        """
        try:
            response = self._at_end()
        except Problem as e:
            response = e.response()
        self._give(response)

    def fail(self, error: Exception) -> None:
        """
        Break off without an answer: the connection is gone.
        """
        assert self._result is not None
        self._leave()
        self._result.errback(error)
