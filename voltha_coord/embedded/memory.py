"""
The transport onto the embedded Consul in memory, and the network in between.

Every answer, and every failure, arrives in a later turn of the reactor.  On the
clock of a process (:mod:`~.timeline`) what is under way takes the world's time:
a request arrives though its sender stands still by then, and its answer waits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure
from zope.interface import implementer

from ..consul.transport import ITransport, NotConnected, Request, Response
from ..errors import ConsulUnavailable, RequestTimedOut
from .timeline import ProcessClock

#: Lets something happen after so many seconds.
_Later = Callable[[float, Callable[[], None]], IDelayedCall]


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


def _nothing(request: Request) -> None:
    return None


def _ignore(failure: Failure) -> None:
    failure.trap(ConsulUnavailable, CancelledError)


class Way(Enum):
    """
    A direction.
    """

    #: To Consul: requests.
    OUT = "out"
    #: Back: answers.
    HOME = "home"


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
    :ivar instead: what comes back in place of its being done: an answer of
        somebody in between, or an error; ``None`` where it is done.
    :ivar garbled: the same in place of the answer, though it was done.
    :ivar refuses: whether connections are refused.
    """

    def __init__(self) -> None:
        self.latency: Callable[[Request], float] = _at_once
        self.reply_latency: Callable[[Request], float] = _at_once
        self.loses_request: Callable[[Request], bool] = _never
        self.loses_reply: Callable[[Request], bool] = _never
        self.lands_late: Callable[[Request], bool] = _never
        self.instead: Callable[[Request], Response | Exception | None] = _nothing
        self.garbled: Callable[[Request], Response | Exception | None] = _nothing
        self.refuses = False
        self._parted: frozenset[Way] = frozenset()
        self._held: list[Callable[[], None]] = []

    @property
    def parted(self) -> bool:
        """
        Whether something does not pass.
        """
        return bool(self._parted)

    def partition(self, *ways: Way) -> None:
        """
        Let nothing pass until healed.

        :param ways: in which direction; by default in either.
        """
        self._parted = frozenset(ways or Way)

    def heal(self, deliver: bool = True) -> None:
        """
        Let everything pass.

        :param deliver: whether what was sent meanwhile arrives now, as TCP
            would repeat it, or is lost.
        """
        self._parted = frozenset()
        held, self._held = self._held, []
        if deliver:
            for passage in held:
                passage()

    def holds(self, way: Way, passage: Callable[[], None]) -> bool:
        """
        Whether nothing passes that way; then the passage is made when healed.
        """
        if way not in self._parted:
            return False
        self._held.append(passage)
        return True


class _Exchange:
    """
    One request on its way there and back.
    """

    def __init__(self, transport: MemoryTransport, request: Request) -> None:
        self._transport = transport
        self._network = transport.network
        self._request = request
        self._moving: IDelayedCall | None = None
        self._handling: Deferred[Response] | None = None
        self._arrived = False
        self._over = False
        self.result: Deferred[Response] = Deferred(lambda _: self.give_up())
        self._deadline = transport.clock.callLater(request.deadline, self._time_out)

    def begin(self) -> None:
        """
        Set out.
        """
        network, request = self._network, self._request
        seconds = network.latency(request)
        if network.refuses:
            error = NotConnected("embedded Consul: connection refused")
            self._moving = self._transport.home(seconds, partial(self.fail, error))
        else:
            self._moving = self._transport.out(seconds, self._pass)

    def _pass(self) -> None:
        if self._network.loses_request(self._request):
            return
        if not self._network.holds(Way.OUT, self._arrive):
            self._arrive()

    def _arrive(self) -> None:
        if self._over and not self._network.lands_late(self._request):
            return
        self._arrived = True
        instead = self._network.instead(self._request)
        if instead is not None:
            self._return(instead)
            return
        answering = self._transport.handler.handle(self._request)
        if self._over:
            # Nobody waits for this answer; a read has nothing else to do.
            answering.addErrback(_ignore)
            answering.cancel()
            return
        self._handling = answering
        answering.addCallbacks(self._return, self._return)

    def _return(self, outcome: Response | Exception | Failure) -> None:
        self._handling = None
        network, request = self._network, self._request
        if self._over or network.loses_reply(request):
            return
        if not isinstance(outcome, Exception):
            outcome = network.garbled(request) or outcome
        self._moving = self._transport.home(
            network.reply_latency(request), partial(self._come_home, outcome)
        )

    def _come_home(self, outcome: Response | Exception | Failure) -> None:
        def passage() -> None:
            self._moving = self._transport.home(0.0, partial(self._deliver, outcome))

        if not self._network.holds(Way.HOME, passage):
            self._deliver(outcome)

    def _deliver(self, outcome: Response | Exception | Failure) -> None:
        if not self._over:
            self._end()
            if isinstance(outcome, Response):
                self.result.callback(outcome)
            else:
                self.result.errback(outcome)

    def _time_out(self) -> None:
        request = self._request
        self.give_up()
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
            self.give_up()
            self.result.errback(error)

    def give_up(self) -> None:
        """
        Wait no more: what has not arrived yet does not, unless it lands late.
        """
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

    :ivar out, home: let something happen after so many seconds: at the agent's
        end, and at this one.

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
        self.out: _Later = clock.callLater
        self.home: _Later = clock.callLater
        if isinstance(clock, ProcessClock):
            self.out, self.home = clock.leave_later, clock.arrive_later
        self._exchanges: dict[_Exchange, None] = {}
        self._closed = False

    def __str__(self) -> str:
        return "embedded Consul"

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

    def sever(self) -> None:
        """
        The process is gone: nobody waits for an answer, nor does the agent
        hold one.  A request on its way arrives if it lands late.
        """
        for exchange in tuple(self._exchanges):
            exchange.give_up()

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
