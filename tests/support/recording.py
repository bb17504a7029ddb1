"""
An embedded Consul on a Clock that remembers what it was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transport import ITransport, Request, Response
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import ConsulState


@implementer(ITransport)
class RecordingTransport:
    """
    Passes requests on, and remembers them.

    :ivar requests: every request that was sent.
    :ivar sending: called with each request before it is sent.
    """

    def __init__(self, inner: ITransport, name: str) -> None:
        self._inner = inner
        self._name = name
        self.requests: list[Request] = []
        self.sending: Callable[[Request], None] = lambda request: None

    def __str__(self) -> str:
        return self._name

    def request(self, request: Request) -> Deferred[Response]:
        """
        Send a request.
        """
        self.requests.append(request)
        self.sending(request)
        return self._inner.request(request)

    def close(self) -> Deferred[None]:
        """
        Close what the requests went through.
        """
        return self._inner.close()


class RecordedConsul:
    """
    An embedded Consul of one agent.

    :ivar state: what it knows, and its levers.
    :ivar agent: the agent that is asked.
    :ivar transport: what the verbs it gives go through.
    :ivar requests: every request that was sent through those.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.state = ConsulState(clock)
        self.agent = self.state.agent()
        self.transport = RecordingTransport(
            MemoryTransport(self.agent, clock), "memory:8500"
        )
        self.requests = self.transport.requests

    def api(self) -> ConsulApi:
        """
        Give the verbs.
        """
        return ConsulApi(Requester([self.transport]))

    def run(self, d: Deferred[Any]) -> list[Any]:
        """
        Let the clock stand, but all that is due happen, until a Deferred fires;
        give its result or failure in a list.
        """
        results: list[Any] = []
        d.addBoth(results.append)
        for _ in range(10_000):
            if results:
                break
            self.clock.advance(0)
        return results

    def stop(self) -> None:
        """
        Let no timer of it run.
        """
        self.agent.kill()
        self.state.lose_leader()
