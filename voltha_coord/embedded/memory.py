"""
The transport onto the embedded Consul in memory, and the network in between.

Every answer, and every failure, arrives in a later turn of the reactor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from ..consul.transport import ITransport, NotConnected, Request, Response
from ..errors import ConsulUnavailable, RequestTimedOut


class Handler(Protocol):
    """
    What takes requests: an :class:`~.agent.Agent`.
    """

    def handle(self, request: Request) -> Deferred[Response]:
        """
        Answer a request.
        """


def _never(request: Request) -> bool:
    return False


def _at_once(request: Request) -> float:
    return 0.0


def _ignore(failure: Failure) -> None:
    failure.trap(ConsulUnavailable, CancelledError)


class Network:
    """
    What lies between one member and its agent.  A perfect one by default;
    every attribute may be set at any time.

    :ivar latency: seconds a request takes to arrive.
    :ivar reply_latency: seconds its answer takes.
    :ivar loses_request: whether a request never arrives.
    :ivar loses_reply: whether its answer never arrives, though it was done.
    :ivar lands_late: whether a request that was given up on the way (cancelled,
        timed out) arrives nevertheless.
    :ivar refuses: whether connections are refused.
    """

    def __init__(self) -> None:
        self.latency: Callable[[Request], float] = _at_once
        self.reply_latency: Callable[[Request], float] = _at_once
        self.loses_request: Callable[[Request], bool] = _never
        self.loses_reply: Callable[[Request], bool] = _never
        self.lands_late: Callable[[Request], bool] = _never
        self.refuses = False
        self._parted = False
        self._held: list[Callable[[], None]] = []

    @property
    def parted(self) -> bool:
        """
        Whether nothing passes.
        """
        return self._parted

    def partition(self) -> None:
        """
        Let nothing pass, in either direction, until healed.
        """
        self._parted = True

    def heal(self, deliver: bool = True) -> None:
        """
        Let everything pass.

        :param deliver: whether what was sent meanwhile arrives now, as TCP
            would repeat it, or is lost.
        """
        self._parted = False
        held, self._held = self._held, []
        if deliver:
            for passage in held:
                passage()

    def carry(self, passage: Callable[[], None]) -> None:
        """
        Let something arrive, now or when healed.
        """
        if self._parted:
            self._held.append(passage)
        else:
            passage()


class _Exchange:
    """
    One request on its way there and back.
    """

    def __init__(self, transport: MemoryTransport, request: Request) -> None:
        self._transport = transport
        self._network = transport.network
        self._clock = transport.clock
        self._request = request
        self._moving: IDelayedCall | None = None
        self._handling: Deferred[Response] | None = None
        self._arrived = False
        self._over = False
        self.result: Deferred[Response] = Deferred(lambda _: self._give_up())
        self._deadline = self._clock.callLater(request.deadline, self._time_out)

    def begin(self) -> None:
        """
        Set out.
        """
        self._after(
            self._network.latency(self._request),
            self._refuse if self._network.refuses else self._pass,
        )

    def _after(self, seconds: float, step: Callable[[], None]) -> None:
        self._moving = self._clock.callLater(seconds, step)

    def _refuse(self) -> None:
        self.fail(NotConnected("embedded Consul: connection refused"))

    def _pass(self) -> None:
        if not self._network.loses_request(self._request):
            self._network.carry(self._arrive)

    def _arrive(self) -> None:
        if self._over and not self._network.lands_late(self._request):
            return
        self._arrived = True
        answering = self._transport.handler.handle(self._request)
        if self._over:
            # Nobody waits for this answer; a read has nothing else to do.
            answering.addErrback(_ignore)
            answering.cancel()
            return
        self._handling = answering
        answering.addCallbacks(self._return, self._return)

    def _return(self, outcome: Response | Failure) -> None:
        self._handling = None
        if self._over or self._network.loses_reply(self._request):
            return
        self._after(
            self._network.reply_latency(self._request),
            partial(self._network.carry, partial(self._deliver, outcome)),
        )

    def _deliver(self, outcome: Response | Failure) -> None:
        if not self._over:
            self._end()
            if isinstance(outcome, Failure):
                self.result.errback(outcome)
            else:
                self.result.callback(outcome)

    def _time_out(self) -> None:
        request = self._request
        self._give_up()
        self.result.errback(
            RequestTimedOut(
                f"{request.method} {request.path}: no answer in {request.deadline:g} s"
            )
        )

    def fail(self, error: Exception) -> None:
        """
        Let it end without an answer.
        """
        if not self._over:
            self._give_up()
            self.result.errback(error)

    def _give_up(self) -> None:
        moving = self._moving
        late = not self._arrived and self._network.lands_late(self._request)
        self._end()
        if moving is not None and moving.active() and not late:
            moving.cancel()
        if self._handling is not None:
            handling, self._handling = self._handling, None
            handling.cancel()

    def _end(self) -> None:
        self._over = True
        if self._deadline.active():
            self._deadline.cancel()
        self._transport.forget(self)


@implementer(ITransport)
class MemoryTransport:
    """
    Carries requests to an agent of the embedded Consul.

    :param handler: the agent.
    :param clock: tells when deadlines and latencies are over.
    :param network: what may go wrong on the way; nothing by default.
    """

    def __init__(
        self, handler: Handler, clock: IReactorTime, network: Network | None = None
    ) -> None:
        self.handler = handler
        self.clock = clock
        self.network = Network() if network is None else network
        self._exchanges: dict[_Exchange, None] = {}
        self._closed = False

    def request(self, request: Request) -> Deferred[Response]:
        """
        Send a request; see :class:`ITransport`.
        """
        exchange = _Exchange(self, request)
        self._exchanges[exchange] = None
        if self._closed:
            error = ConsulUnavailable("embedded Consul: the transport is closed")
            self.clock.callLater(0, exchange.fail, error)
        else:
            exchange.begin()
        return exchange.result

    def forget(self, exchange: _Exchange) -> None:
        """
        Know nothing more of a request that is over.
        """
        self._exchanges.pop(exchange, None)

    @property
    def under_way(self) -> int:
        """
        How many requests wait for their answer.
        """
        return len(self._exchanges)

    def close(self) -> Deferred[None]:
        """
        Let every request fail, now and later; see :class:`ITransport`.
        """
        self._closed = True
        for exchange in tuple(self._exchanges):
            exchange.fail(ConsulUnavailable("embedded Consul: the transport is closed"))
        return succeed(None)
