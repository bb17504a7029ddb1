"""
The HTTP face of the embedded Consul.

Loopback only: it has no notion of who may do what.
"""

from __future__ import annotations

import ipaddress
import random
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IListeningPort
from twisted.python.failure import Failure
from twisted.web.http import Request as WebRequest
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from ..consul.transport import Request, Response
from ..errors import ConfigurationError, ConsulUnavailable
from .memory import Handler
from .state import ConsulState

log = structlog.get_logger(__name__)


class _QuietSite(Site):
    """
    A site that keeps no access log, and lets a blocking query be silent for as
    long as it takes.
    """

    noisy = False

    def log(self, request: object) -> None:
        """
        Say nothing.
        """


class ConsulResource(Resource):
    """
    Answers HTTP requests from an agent of the embedded Consul.

    :param handler: the agent.
    """

    isLeaf = True  # noqa: N815 - twisted.web's name

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self._handler = handler

    def render(self, request: WebRequest) -> int:
        """
        Answer a request, now or later.
        """
        asked = _read_request(request)
        answering = self._handler.handle(asked)
        if not answering.called:
            # A client that has gone away waits for no answer.
            gone = request.notifyFinish()
            gone.addErrback(lambda _: answering.cancel())
        answering.addCallbacks(
            _write_response,
            _drop_connection,
            callbackArgs=(request,),
            errbackArgs=(request,),
        )
        answering.addErrback(_report, asked)
        return NOT_DONE_YET


def _read_request(request: WebRequest) -> Request:
    path, _, query = request.uri.partition(b"?")
    params: list[tuple[str, str | None]] = []
    for pair in filter(None, query.split(b"&")):
        name, equals, value = pair.partition(b"=")
        params.append((_plain(name), _plain(value) if equals else None))
    headers = {
        name.decode("ascii").lower(): values[0].decode("latin-1")
        for name, values in request.requestHeaders.getAllRawHeaders()
    }
    return Request(
        request.method.decode("ascii"),
        unquote_to_bytes(path).decode("utf-8", "replace"),
        tuple(params),
        request.content.read() if request.content else b"",
        headers,
    )


def _plain(text: bytes) -> str:
    return unquote_to_bytes(text.replace(b"+", b" ")).decode("utf-8", "replace")


def _write_response(response: Response, request: WebRequest) -> None:
    if request.channel is None:
        # The client has gone away meanwhile.
        return
    request.setResponseCode(response.status)
    for name, value in response.headers.items():
        request.setHeader(name, value)
    request.setHeader(b"content-length", str(len(response.body)))
    if request.method != b"HEAD":
        request.write(response.body)
    request.finish()


def _drop_connection(failure: Failure, request: WebRequest) -> None:
    """
    End a request that gets no answer: its client went away, or the agent did.
    """
    if failure.check(ConsulUnavailable) is not None and request.channel is not None:
        request.channel.loseConnection()
    else:
        failure.trap(CancelledError, ConsulUnavailable)


def _report(failure: Failure, request: Request) -> None:
    log.error(
        "embedded-consul-request-failed",
        method=request.method,
        path=request.path,
        failure=failure.getTraceback(),
    )


def check_loopback(host: str) -> str:
    """
    Give the address back if only this machine can reach it.

    :raises ConfigurationError: if others can.
    """
    plain = "127.0.0.1" if host == "localhost" else host
    try:
        loopback = ipaddress.ip_address(plain).is_loopback
    except ValueError:
        raise ConfigurationError(f"{host!r} is not an IP address") from None
    if not loopback:
        raise ConfigurationError(
            f"{host!r} is not a loopback address: the embedded Consul has no access "
            f"control, and is for this machine alone (127.0.0.1, ::1)"
        )
    return plain


def listen(
    reactor: Any,
    port: int = 0,
    interface: str = "127.0.0.1",
    handler: Handler | None = None,
) -> IListeningPort:
    """
    Serve an agent over HTTP.

    :param reactor: a whole reactor.
    :param port: 0 picks a free one; ``getHost().port`` of the result tells it.
    :param handler: the agent; by default the only one of a new Consul.
    :raises ConfigurationError: if the interface is not a loopback one.
    :raises twisted.internet.error.CannotListenError: if the port is in use.
    """
    interface = check_loopback(interface)
    if handler is None:
        handler = ConsulState(reactor, random.Random()).agent("embedded")
    site = _QuietSite(ConsulResource(handler), timeout=None)
    listening: IListeningPort = reactor.listenTCP(port, site, interface=interface)
    return listening
