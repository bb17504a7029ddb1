"""
The transport of production: treq, over TCP, TLS or a Unix socket.
"""

# Note [No more than a lane's connections]
#
# ``HTTPConnectionPool`` bounds how many connections it keeps, not how many it
# opens.  A semaphore for each lane bounds the requests, and with them the
# connections: one is given back only when its request's connection is idle
# again or closed.  Waiting for it counts within the request's deadline.
#
# Note [What is sent twice]
#
# The agent may close an idle connection just as we send on it.  Twisted sends
# such a request once more on a new connection if it is a GET, HEAD, OPTIONS,
# DELETE or TRACE, came from the pool, has no body, and nothing of an answer
# was seen.  A DELETE with ``cas`` must not be sent twice, so everything but a
# GET gets a body, if an empty one.

# Note [Connections nobody is at the end of]
#
# A firewall that forgot a connection, or a machine that is gone, answers
# nothing, not even a refusal.  A request on such a connection runs into its
# deadline, and so would the next ones, each on another idle connection: a
# member would lose its lease with a healthy agent one fresh connection away.
# So where one request ran into its deadline, the idle connections of its lane
# are closed.  Blocking queries have no deadline for half a minute; theirs are
# found dead by TCP's own keep-alives (see :mod:`.connector`).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from hyperlink import EncodedURL
from treq.client import HTTPClient
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    DeferredSemaphore,
    fail,
    gatherResults,
    inlineCallbacks,
    succeed,
)
from twisted.internet.interfaces import IConsumer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.client import (
    URI,
    Agent,
    HTTPConnectionPool,
    ResponseDone,
    ResponseNeverReceived,
)
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import (
    IAgent,
    IAgentEndpointFactory,
    IBodyProducer,
    IResponse,
)
from zope.interface import implementer

from .._types import Steps
from ..errors import ConsulUnavailable, RequestTimedOut
from .address import Address
from .connector import Connector
from .guard import Guarded, bounded
from .tls import TLSContext
from .transport import ITransport, Lane, LaneBusy, NotConnected, Request, Response

#: Connections of each lane, 17 together: Consul allows a client 200, and many
#: processes may share one address.  As many for watches as a member ever has at
#: one time, leading, working, waiting for items, with locks and listeners: one that
#: found none would see nothing for as long as another one waits.
CONNECTIONS = {
    Lane.SESSION: 3,
    Lane.COMMAND: 2,
    Lane.WATCH: 10,
    Lane.APPLICATION: 2,
}

#: An idle connection is closed after so many seconds, before a proxy in
#: between would (60 s is common).
IDLE_SECONDS = 50

#: An answer is no longer than this.  Ten thousand keys of four KiB, as Consul
#: writes them, take half of it.
BODY_BYTES = 128 * 1024 * 1024

_PATH_SAFE = "/~:@!$&'()*,;="


@implementer(IBodyProducer)
class _Body:
    """
    A body that is all there.  Twisted's ``FileBodyProducer`` would hand it out
    in pieces, by way of the global reactor.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:  # noqa: N802 (Twisted's name)
        """
        Write it.
        """
        if self._body:
            consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """
        It is written already.
        """

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """
        It is written already.
        """

    def stopProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """
        It is written already.
        """


@implementer(IAgentEndpointFactory)
class _OneAgent:
    """
    Wherever a URL points, the connection is to our agent.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def endpointForURI(self, uri: URI) -> Connector:  # noqa: N802 (Twisted's name)
        """
        Give the one connector.
        """
        return self._connector


@implementer(IAgent)
class _Uncompressed:
    """
    Takes back the ``Accept-Encoding: gzip`` that treq sends: the agent is on
    this machine, and compressing 10,000 rows costs both of us more than
    copying them.
    """

    def __init__(self, agent: IAgent) -> None:
        self._agent = agent

    def request(
        self,
        method: bytes,
        uri: bytes,
        headers: Headers | None = None,
        bodyProducer: IBodyProducer | None = None,  # noqa: N803 (Twisted's name)
    ) -> Deferred[IResponse]:
        """
        Send without it.
        """
        if headers is not None:
            headers.removeHeader(b"accept-encoding")
        return self._agent.request(method, uri, headers, bodyProducer)


class _BodyReader(Protocol):
    """
    Gathers a body.  Cancelling closes the connection, which Twisted's
    ``readBody`` promises but does not do.

    :param most: bytes; a longer one is given up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._pieces: list[bytes] = []
        self.whole: Deferred[bytes] = Deferred(lambda _: self._give_up())

    def _give_up(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """
        Take a piece.
        """
        self._taken += len(data)
        if self._taken <= self._most:
            self._pieces.append(data)
        elif not self.whole.called:
            self._pieces.clear()
            self.whole.errback(
                ConsulUnavailable(f"an answer of more than {self._most} bytes")
            )
            self._give_up()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """
        Hand over the whole, if it is known to be whole.
        """
        if self.whole.called:
            return
        if reason.check(ResponseDone):
            self.whole.callback(b"".join(self._pieces))
        else:
            self.whole.errback(reason)


def _read(answer: IResponse, most: int) -> Deferred[bytes]:
    reader = _BodyReader(most)
    answer.deliverBody(reader)
    return reader.whole


class _Lane:
    """
    The connections of one lane.
    """

    def __init__(self, reactor: Any, connector: Connector, connections: int) -> None:
        self.pool = HTTPConnectionPool(reactor, persistent=True)
        self.pool.maxPersistentPerHost = connections
        self.pool.cachedConnectionTimeout = IDLE_SECONDS
        self.slots = DeferredSemaphore(connections)
        agent = Agent.usingEndpointFactory(reactor, _OneAgent(connector), self.pool)
        self.client = HTTPClient(
            _Uncompressed(agent), data_to_body_producer=lambda body: body
        )

    @inlineCallbacks
    def empty(self) -> Steps[None]:
        """
        Wait for requests that are ending, and close what is idle then.
        """
        taken = [self.slots.acquire() for _ in range(self.slots.limit)]
        yield gatherResults(taken)
        for _ in taken:
            self.slots.release()
        yield self.pool.closeCachedConnections()


@implementer(ITransport)
class HttpTransport:
    """
    Carries requests to one agent over HTTP.

    :param reactor: a whole reactor, never the global one by itself.
    :param address: the agent's.
    :param tls: needed for an https address.
    :param connect_timeout: seconds for name, TCP and TLS together.
    :param clock: measures deadlines, the reactor by default.
    :param connections: how many each lane may have open.
    :param most: bytes of an answer.
    """

    def __init__(
        self,
        reactor: Any,
        address: Address,
        tls: TLSContext | None = None,
        *,
        connect_timeout: float = 2.0,
        clock: IReactorTime | None = None,
        connections: Mapping[Lane, int] = CONNECTIONS,
        most: int = BODY_BYTES,
    ) -> None:
        self._reactor = reactor
        self._clock: IReactorTime = reactor if clock is None else clock
        self._address = address
        self._most = most
        connector = Connector(reactor, address, tls, connect_timeout, self._clock)
        self._lanes = {
            lane: _Lane(reactor, connector, connections[lane]) for lane in Lane
        }
        if address.scheme == "unix":
            self._base = "http://localhost"
        else:
            # A zone means something to this machine only.
            self._base = str(address).replace(f"%{address.host.partition('%')[2]}", "")
        self._under_way: dict[Guarded[Response], None] = {}
        self._closing: dict[Deferred[Any], None] = {}
        self._closed = False

    def __str__(self) -> str:
        return str(self._address)

    def request(self, request: Request) -> Deferred[Response]:
        """
        Send a request; see :class:`~voltha_coord.consul.transport.ITransport`.
        """
        if self._closed:
            return fail(self._closed_error())
        sent: list[Request] = []
        guarded = bounded(
            self._send(request, sent),
            request.deadline,
            self._clock,
            lambda: self._late(request, bool(sent)),
        )
        self._under_way[guarded] = None

        def forget(result: Response | Failure) -> Response | Failure:
            self._under_way.pop(guarded, None)
            return result

        guarded.outer.addBoth(forget)
        return guarded.outer.addErrback(self._distrust, self._lanes[request.lane])

    def _distrust(self, failure: Failure, lane: _Lane) -> Failure:
        """
        After a deadline, close what is idle beside it; see Note [Connections
        nobody is at the end of].
        """
        if failure.check(RequestTimedOut) and not failure.check(LaneBusy):
            closing: Deferred[Any] = lane.pool.closeCachedConnections()
            self._closing[closing] = None
            closing.addBoth(lambda _: self._closing.pop(closing, None))
        return failure

    def _late(self, request: Request, sent: bool) -> ConsulUnavailable:
        what = f"{self._address}: {request.method} {request.path}"
        if sent:
            return RequestTimedOut(f"{what}: no answer within {request.deadline:g} s")
        return LaneBusy(
            f"{what}: no {request.lane.value} connection was free for "
            f"{request.deadline:g} s"
        )

    def _closed_error(self) -> ConsulUnavailable:
        return ConsulUnavailable(f"{self._address}: the transport is closed")

    @inlineCallbacks
    def _send(self, request: Request, sent: list[Request]) -> Steps[Response]:
        lane = self._lanes[request.lane]
        yield lane.slots.acquire()
        sent.append(request)
        try:
            response: Response = yield self._exchange(lane, request)
        except (CancelledError, NotConnected):
            raise
        except Exception as error:
            # twisted.web has a dozen errors, some of them private, and each
            # stands for the same: no complete answer.
            raise ConsulUnavailable(
                f"{self._address}: {request.method} {request.path}: {_words(error)}"
            ) from error
        finally:
            lane.slots.release()
        return response

    @inlineCallbacks
    def _exchange(self, lane: _Lane, request: Request) -> Steps[Response]:
        body = None if request.method == "GET" else _Body(request.body)
        answer = yield lane.client.request(
            request.method,
            EncodedURL.from_text(self._url(request)),
            headers=Headers({k: [v] for k, v in request.headers.items()}),
            data=body,
            allow_redirects=False,
            unbuffered=True,
            reactor=self._reactor,
        )
        content: bytes = yield _read(answer, self._most)
        return Response(answer.code, _flat(answer.headers), content)

    def _url(self, request: Request) -> str:
        url = self._base + quote(request.path, safe=_PATH_SAFE)
        if not request.params:
            return url
        query = "&".join(
            quote_plus(name)
            if value is None
            else f"{quote_plus(name)}={quote_plus(value)}"
            for name, value in request.params
        )
        return f"{url}?{query}"

    @inlineCallbacks
    def close(self) -> Steps[None]:
        """
        Close every connection, and end every request.
        """
        self._closed = True
        for guarded in tuple(self._under_way):
            guarded.abort(self._closed_error())
        lanes = self._lanes.values()
        yield DeferredList([lane.empty() for lane in lanes], consumeErrors=True)
        yield DeferredList(list(self._closing), consumeErrors=True)
        # An aborted connection is closed in the reactor's next turn.
        yield deferLater(self._reactor, 0)


def _flat(headers: Headers) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): values[-1].decode("latin-1")
        for name, values in headers.getAllRawHeaders()
    }


#: What an agent over its limit does says nothing of it (field report 95).
_HINT = (
    "; closed without an answer: if it goes on, see whether this address has more "
    "connections open than http_max_conns_per_client of the agent allows"
)


def _words(error: Exception) -> str:
    """
    Say what an error of ``twisted.web`` is really about.
    """
    if isinstance(error, PotentialDataLoss):
        return "an answer that does not say where it ends"
    reasons = getattr(error, "reasons", None)
    if reasons:
        words = f"{type(error).__name__}: " + ", ".join(
            reason.getErrorMessage() for reason in reasons
        )
        return words + (_HINT if isinstance(error, ResponseNeverReceived) else "")
    return str(error) or type(error).__name__
