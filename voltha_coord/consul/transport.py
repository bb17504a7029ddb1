"""
The one seam to Consul: a request goes in, a response or a typed error comes out.

Whatever provides :class:`ITransport` may sit below everything else: treq over
TCP, TLS or a Unix socket in production, the embedded Consul in memory in tests
and in the simulator, where latency, loss and partition are injected.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from attrs import field, frozen
from twisted.internet.defer import Deferred
from zope.interface import Interface

from ..errors import ConsulUnavailable, RequestTimedOut


class NotConnected(ConsulUnavailable):
    """
    There was no connection to the agent, so nothing was sent: refused, not
    resolvable, not trusted.  Unlike its siblings this one says that Consul
    did not apply the request.
    """


class Lane(Enum):
    """
    What a request is for.  Lanes share no connections, so that nothing can
    hold up a renewal.
    """

    #: The session's own: create, renew, pass, register, destroy.
    SESSION = "session"
    #: Reads and writes that answer at once.
    COMMAND = "command"
    #: Our own blocking queries.
    WATCH = "watch"
    #: Blocking queries of the application.
    APPLICATION = "application"


@frozen
class Request:
    """
    One HTTP request to a Consul agent.

    :ivar method: GET, PUT, POST or DELETE.
    :ivar path: from ``/v1/`` on, not percent-encoded.
    :ivar params: the query, in order; a value of ``None`` is a bare flag
        (``?consistent``).
    :ivar body: what is sent.
    :ivar headers: further headers (the token).
    :ivar deadline: total seconds, from sending to the last byte of the body.
    :ivar lane: which connections it may use.
    """

    method: str
    path: str
    params: tuple[tuple[str, str | None], ...] = ()
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)
    deadline: float = 10.0
    lane: Lane = Lane.COMMAND

    @property
    def of_agent(self) -> bool:
        """
        Whether the agent answers by itself, without asking the servers.
        """
        return self.path.startswith("/v1/agent/")


@frozen
class Response:
    """
    What came back, whole.

    :ivar status: the HTTP status.
    :ivar headers: by lower-case name.
    :ivar body: all of it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class LaneBusy(RequestTimedOut):
    """
    Nothing was sent: all connections of the lane were taken until the deadline.
    Says nothing of Consul.  Worth a retry.
    """


class Overtaken(RequestTimedOut):
    """
    It was sent when Consul did not answer, later ones are answered by now, and it
    is not: it was lost on the way, or its answer was.  Given up before its
    deadline.  Worth a retry.
    """


class ITransport(Interface):
    """
    Carries requests to one Consul agent, which ``str`` of it names.
    """

    def request(request: Request) -> Deferred[Response]:
        """
        Send a request.

        The Deferred fires with the :class:`Response`, whatever its status, or
        fails with ``NotConnected`` (nothing was sent),
        ``ConsulUnavailable`` (no complete HTTP answer),
        ``RequestTimedOut`` (``deadline`` seconds passed) or, when it is
        cancelled, ``CancelledError``.  Nothing else.  A request that failed or
        was cancelled leaves no open connection behind; whether Consul applied
        it is not known.
        """

    def close() -> Deferred[None]:
        """
        Close every connection.  Requests under way fail with
        ``ConsulUnavailable``, later ones at once.  Fires when all is closed;
        never fails.
        """
