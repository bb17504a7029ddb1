"""
Connections to one agent, over TCP, TLS or a Unix socket.
"""

from __future__ import annotations

import socket
from ipaddress import IPv6Address
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
    UNIXClientEndpoint,
    wrapClientTLS,
)
from twisted.internet.interfaces import (
    IHandshakeListener,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from .._types import Steps
from .address import Address
from .guard import bounded
from .names import RememberingResolver, ResolvingReactor
from .tls import TLSContext
from .transport import NotConnected


@implementer(IHandshakeListener)
class _Handshaking(ProtocolWrapper):
    """
    Knows when the handshake is over.  Twisted calls a TLS connection made
    when its TCP connection is, and would wait for the rest without end.
    """

    def __init__(self, factory: WrappingFactory[Any], wrapped: IProtocol) -> None:
        super().__init__(factory, wrapped)
        self.secured: Deferred[None] = Deferred(lambda _: self.abortConnection())

    def handshakeCompleted(self) -> None:  # noqa: N802 (Twisted's name)
        """
        The agent has proven who it is.
        """
        if not self.secured.called:
            self.secured.callback(None)

    def loseConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """
        Close without the farewell of TLS: an agent that hangs would never
        return it, and the connection never close.
        """
        self.abortConnection()

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]  # noqa: N802 (Twisted's name; its default is no Failure)
        """
        Before the handshake: the certificate did not do, ours or theirs.
        """
        if not self.secured.called:
            self.secured.errback(reason)
        super().connectionLost(reason)


class _HandshakingFactory(WrappingFactory):
    noisy = False
    protocol = _Handshaking


@implementer(IStreamClientEndpoint)
class _Secured:
    """
    An endpoint whose connections are handed over after their handshake.
    """

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    @inlineCallbacks
    def connect(self, protocolFactory: IProtocolFactory) -> Steps[IProtocol]:  # noqa: N803 (Twisted's name)
        """
        Connect and shake hands.
        """
        factory = _HandshakingFactory(protocolFactory)
        wrapper: _Handshaking = yield self._endpoint.connect(factory)
        yield wrapper.secured
        return wrapper.wrappedProtocol


#: A connection that has been idle for so many seconds is asked whether anybody
#: is still there, …
KEEPALIVE_IDLE_SECONDS = 5

#: … again after so many seconds without an answer, …
KEEPALIVE_INTERVAL_SECONDS = 2

#: … and is dead after so many questions.
KEEPALIVE_PROBES = 3

_KEEPALIVE = (
    ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
    ("TCP_KEEPCNT", KEEPALIVE_PROBES),
)


def _keep_alive(transport: Any) -> None:
    """
    Let TCP find out when nobody is at the other end any more.
    """
    transport.setTcpKeepAlive(True)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        # Where a system has no such option, its own pace has to do.
        if option is not None:
            transport.getHandle().setsockopt(socket.IPPROTO_TCP, option, value)


@implementer(IStreamClientEndpoint)
class _KeptAlive:
    """
    A TCP endpoint whose connections are found dead when they are.
    """

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    @inlineCallbacks
    def connect(self, protocolFactory: IProtocolFactory) -> Steps[IProtocol]:  # noqa: N803 (Twisted's name)
        """
        Connect.
        """
        protocol: IProtocol = yield self._endpoint.connect(protocolFactory)
        transport: Any = protocol.transport  # type: ignore[attr-defined]  # it has one
        try:
            _keep_alive(transport)
        except OSError:
            # Gone already, or nothing that would be found dead.
            transport.abortConnection()
            raise
        return protocol


def _plain_endpoint(
    reactor: Any, address: Address, timeout: float
) -> IStreamClientEndpoint:
    if address.scheme == "unix":
        return UNIXClientEndpoint(reactor, address.path, timeout=timeout)
    ip = address.ip
    if ip is not None:
        # A literal needs no resolver, and so no thread (field report 144).
        kind = TCP6ClientEndpoint if isinstance(ip, IPv6Address) else TCP4ClientEndpoint
        return _KeptAlive(kind(reactor, address.host, address.port, timeout=timeout))
    resolver = RememberingResolver(reactor, address.port, timeout / 2)
    named = HostnameEndpoint(
        ResolvingReactor(reactor, resolver),
        address.host,
        address.port,
        timeout=timeout,
    )
    return _KeptAlive(named)


@implementer(IStreamClientEndpoint)
class Connector:
    """
    Connects to one agent; name, TCP and TLS all within ``timeout`` seconds.

    :param reactor: a whole reactor.
    :param tls: needed for an https address.
    :param timeout: in seconds.
    :param clock: measures it.
    """

    def __init__(
        self,
        reactor: Any,
        address: Address,
        tls: TLSContext | None,
        timeout: float,
        clock: IReactorTime,
    ) -> None:
        endpoint = _plain_endpoint(reactor, address, timeout)
        if address.scheme == "https":
            if tls is None:
                raise ValueError(f"no TLS context for {address}")
            endpoint = _Secured(wrapClientTLS(tls.creator(address.host), endpoint))
        self._endpoint = endpoint
        self._address = address
        self._timeout = timeout
        self._clock = clock

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803 (Twisted's name)
        """
        Connect.

        :raises NotConnected: whatever stood in the way.
        """
        # Twisted makes a factory for each connection, and each would tell the
        # application's log of its start and its end.
        factory: Any = protocolFactory
        factory.noisy = False
        guarded = bounded(
            self._endpoint.connect(protocolFactory),
            self._timeout,
            self._clock,
            lambda: NotConnected(
                f"{self._address}: no connection within {self._timeout:g} s"
            ),
        )
        return guarded.outer.addErrback(self._explain)

    def _explain(self, failure: Failure) -> Failure:
        if failure.check(CancelledError, NotConnected):
            return failure
        words = str(failure.value) or type(failure.value).__name__
        return Failure(NotConnected(f"{self._address}: {words}"))
