"""
A relay in front of a Consul, whose connections can be disturbed.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.protocols.portforward import ProxyFactory, ProxyServer
from twisted.python.failure import Failure

HOST = "127.0.0.1"


class _Connection(ProxyServer):
    """
    One connection, passed on to Consul.
    """

    factory: Relay

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's name)
        """
        Count it.
        """
        self.factory.connections.add(self)
        self.factory.made += 1
        super().connectionMade()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """
        Count it no more.
        """
        self.factory.connections.discard(self)
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """
        Pass something on, or keep silent.
        """
        if not self.factory.silent and self.peer is not None:
            super().dataReceived(data)


class Relay(ProxyFactory):
    """
    Passes connections on to a Consul.

    :ivar connections: those that are open.
    :ivar made: how many there have been.
    :ivar silent: whether what is asked gets no answer.

    :param reactor: a whole reactor.
    :param port: where Consul listens.
    """

    protocol = _Connection
    noisy = False

    def __init__(self, reactor: Any, port: int) -> None:
        super().__init__(HOST, port)
        self.connections: set[_Connection] = set()
        self.made = 0
        self.silent = False
        self._reactor = reactor
        self._listening = reactor.listenTCP(0, self, interface=HOST)
        self._port: int = self._listening.getHost().port

    @property
    def address(self) -> str:
        """
        Where it listens.
        """
        return f"{HOST}:{self._port}"

    def cut(self) -> None:
        """
        Reset every connection.
        """
        for connection in tuple(self.connections):
            ITCPTransport(connection.transport).abortConnection()

    def refuse(self) -> Deferred[Any]:
        """
        Take no connections any more; fires when it is so.
        """
        return maybeDeferred(self._listening.stopListening)

    def accept(self) -> None:
        """
        Take connections again.
        """
        self._listening = self._reactor.listenTCP(self._port, self, interface=HOST)
