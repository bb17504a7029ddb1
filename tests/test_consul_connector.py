"""
Tests of connections: what they leave in the log of an application, and for how long
they are waited for.
"""

from __future__ import annotations

import errno
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase

from voltha_coord._types import Steps
from voltha_coord.consul.address import Address, ConnectionSettings
from voltha_coord.consul.connect import connect
from voltha_coord.consul.connector import Connector
from voltha_coord.consul.transport import NotConnected, Request
from voltha_coord.embedded.http import listen

#: Typed as what it is not declared to be: all the reactor interfaces at once.
reactor: Any = _reactor


class QuietTests(TestCase):
    """
    Connections to an agent, and an embedded Consul's own.
    """

    timeout = 10

    @inlineCallbacks
    def test_factories(self) -> Steps[None]:
        """
        No factory tells the application's log of its start and its end: there is
        one for each connection.
        """
        events: list[Any] = []
        observer: Any = events.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        port: Any = listen(reactor)
        for host in ("127.0.0.1", "localhost"):
            address = Address(host=host, port=port.getHost().port)
            requester = connect(reactor, ConnectionSettings((address,)))
            yield requester.request(Request("GET", "/v1/status/leader"))
            yield requester.close()
        yield port.stopListening()

        told = [event["log_format"] for event in events if "factory" in event]
        self.assertEqual(told, [])


class GoneTests(SynchronousTestCase):
    """
    A connection that is gone before it is used.
    """

    def test_closed(self) -> None:
        """
        What the system will not keep alive is closed, and not left open with
        nobody who knows of it.
        """
        clock = MemoryReactorClock()
        address = Address(host="192.0.2.1", port=8500)
        connecting = Connector(clock, address, None, 2.0, clock).connect(
            Factory.forProtocol(Protocol)
        )
        factory: Any = clock.tcpClients[0][2]
        protocol = factory.buildProtocol(None)
        transport = _Gone()

        protocol.makeConnection(transport)

        error = self.failureResultOf(connecting, NotConnected)
        self.assertIn("Invalid argument", str(error.value))
        self.assertTrue(transport.disconnected)


class _Gone(StringTransport):
    """
    A transport whose socket takes no options.
    """

    def setTcpKeepAlive(self, enabled: object) -> None:  # noqa: N802 (Twisted's name)
        """
        As a socket that was reset answers.
        """
        raise OSError(errno.EINVAL, "Invalid argument")


class PatienceTests(SynchronousTestCase):
    """
    An agent that says nothing, not even that nobody is there.
    """

    def test_no_longer_than_its_deadline(self) -> None:
        """
        A connection has a deadline of its own, on the clock that is given, whatever
        becomes of it (field report 98).
        """
        silent, clock = MemoryReactorClock(), MemoryReactorClock()
        address = Address(host="192.0.2.1", port=8500)
        connector = Connector(silent, address, None, 2.0, clock)

        connecting = connector.connect(Factory())
        clock.advance(1.9)
        self.assertNoResult(connecting)
        clock.advance(0.2)

        error = self.failureResultOf(connecting, NotConnected)
        self.assertIn("192.0.2.1:8500", str(error.value))
        self.assertEqual(silent.connectors[0].stoppedConnecting, True)
