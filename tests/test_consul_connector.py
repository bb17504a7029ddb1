"""
Tests of what connections leave in the log of an application.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import inlineCallbacks
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import TestCase

from voltha_coord._types import Steps
from voltha_coord.consul.address import Address, ConnectionSettings
from voltha_coord.consul.connect import connect
from voltha_coord.consul.transport import Request
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
