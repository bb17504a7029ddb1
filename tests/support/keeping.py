"""
One process and its Consul, each on a clock of its own: what the tests of the
session and of the member record stand on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import Entry
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transport import ITransport, Request, Response
from voltha_coord.embedded.memory import MemoryTransport, Network
from voltha_coord.embedded.state import ConsulState
from voltha_coord.session import SessionKeeper, service_for
from voltha_coord.settings import Settings

STEP_SECONDS = 0.01

#: What a hook makes of a request: an answer, a failure, or nothing.
Hook = Callable[[Request], Response | Exception | None]


class RecordingLog:
    """
    A logger that keeps what it is told.

    :ivar said: level, event and fields of each line.
    """

    def __init__(self) -> None:
        self.said: list[tuple[str, str, dict[str, Any]]] = []

    def __getattr__(self, level: str) -> Callable[..., None]:
        if level.startswith("_"):
            raise AttributeError(level)

        def say(event: str, **fields: Any) -> None:
            self.said.append((level, event, fields))

        return say

    def bind(self, **fields: Any) -> RecordingLog:
        """
        Give itself: what is bound is not kept.
        """
        return self

    def of(self, event: str, *levels: str) -> list[dict[str, Any]]:
        """
        Give the fields of the lines of an event, of some levels or of all.
        """
        return [
            fields
            for level, found, fields in self.said
            if found == event and (not levels or level in levels)
        ]


@frozen
class Sent:
    """
    A request, and when it was sent.
    """

    at: float
    request: Request


@implementer(ITransport)
class HookedTransport:
    """
    Passes requests on, unless a hook has an answer of its own.
    """

    def __init__(self, bench: Bench, inner: MemoryTransport, name: str) -> None:
        self._bench = bench
        self._name = name
        self.inner = inner

    def __str__(self) -> str:
        return self._name

    def request(self, request: Request) -> Deferred[Response]:
        """
        Note a request, and send it.
        """
        bench = self._bench
        bench.sent.append(Sent(bench.clock.seconds(), request))
        answer = bench.hook(request)
        if answer is None:
            return self.inner.request(request)
        waiting: Deferred[Response] = Deferred(lambda _: timer.cancel())

        def tell() -> None:
            if isinstance(answer, Exception):
                waiting.errback(answer)
            else:
                waiting.callback(answer)

        timer = bench.clock.callLater(0, tell)
        return waiting

    def close(self) -> Deferred[None]:
        """
        Close what requests go through.
        """
        return self.inner.close()


@implementer(ITransport)
class Balancer:
    """
    Sends each request to the next of several agents, as a load balancer does.
    """

    def __init__(self, transports: Sequence[ITransport]) -> None:
        self._transports = transports
        self._turn = 0

    def __str__(self) -> str:
        return "http://balancer:8500"

    def request(self, request: Request) -> Deferred[Response]:
        """
        Send a request.
        """
        self._turn += 1
        sent: Deferred[Response] = self._transports[
            self._turn % len(self._transports)
        ].request(request)
        return sent

    def close(self) -> Deferred[None]:
        """
        Close all.
        """
        closing = DeferredList([transport.close() for transport in self._transports])
        return closing.addCallback(lambda _: None)


class Bench:
    """
    A process, its agents and the servers.

    :ivar clock: the process's; advance through :meth:`advance`.
    :ivar consul: the servers, with their levers; they are on another clock.
    :ivar networks: what lies between the process and each agent.
    :ivar sent: every request, in order.
    :ivar hook: may answer in Consul's place.
    :ivar paused: whether the process stands still.

    :param nodes: an agent on each, tried in turn.
    :param balanced: whether a load balancer stands before them.
    """

    def __init__(self, *nodes: str, balanced: bool = False) -> None:
        self._time = Clock()
        self.clock = Clock()
        self.consul = ConsulState(self._time, random=Random(1))
        self.random = Random(2).random
        self.networks: list[Network] = []
        self.transports: list[HookedTransport] = []
        self.sent: list[Sent] = []
        self.hook: Hook = lambda request: None
        self.log = RecordingLog()
        self.paused = False
        self._missed = 0.0
        for node in nodes or ("n1",):
            network = Network()
            memory = MemoryTransport(self.consul.agent(node), self.clock, network)
            self.networks.append(network)
            self.transports.append(HookedTransport(self, memory, f"http://{node}:8500"))
        ways: list[ITransport] = list(self.transports)
        if balanced:
            ways = [Balancer(ways)]
        self.requester = Requester(ways, now=self.clock.seconds)
        self.api = ConsulApi(self.requester, command_timeout=10.0, session_timeout=2.0)

    @property
    def network(self) -> Network:
        """
        What lies before the first agent.
        """
        return self.networks[0]

    def advance(self, seconds: float, step: float = STEP_SECONDS) -> None:
        """
        Let time pass, in small steps.
        """
        left = seconds
        while left > 1e-9:
            now = min(step, left)
            left -= now
            self._time.advance(now)
            self._missed += now
            if not self.paused:
                missed, self._missed = self._missed, 0.0
                self.clock.advance(missed)

    def until(self, holds: Callable[[], object], seconds: float = 60.0) -> float:
        """
        Let time pass until something holds; give how long that took.

        :raises AssertionError: when it does not in so many seconds.
        """
        begun = self._time.seconds()
        while not holds():
            assert self._time.seconds() - begun < seconds, "it never came"
            self.advance(STEP_SECONDS)
        return self._time.seconds() - begun

    def result(self, deferred: Deferred[Any], seconds: float = 20.0) -> Any:
        """
        Let time pass until a Deferred fires, and give its result.

        :raises Exception: what it fails with.
        """
        results: list[Any] = []
        deferred.addBoth(results.append)
        self.until(lambda: results, seconds)
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def requests(self, path: str = "", since: float = 0.0) -> list[Request]:
        """
        Give the requests whose path holds a text.
        """
        return [
            s.request for s in self.sent if s.at >= since and path in s.request.path
        ]

    def bodies(self, path: str) -> list[Any]:
        """
        Give what was sent to a path, decoded.
        """
        return [json.loads(request.body) for request in self.requests(path)]

    def rate(self, seconds: float = 60.0) -> Counter[str]:
        """
        Let time pass, and count the requests by the first words of their path.
        """
        since = self.clock.seconds()
        self.advance(seconds)
        return Counter(
            "/".join(s.request.path.split("/")[2:5]) for s in self.sent if s.at > since
        )

    @property
    def silent(self) -> bool:
        """
        Whether the process waits for nothing: no timer, no request.
        """
        under_way = sum(transport.inner.under_way for transport in self.transports)
        return not under_way and not self.clock.getDelayedCalls()

    def keeper(
        self,
        settings: Settings | None = None,
        held_keys: tuple[str, ...] = ("leader", "members/m1"),
        changed: Callable[[], None] = lambda: None,
    ) -> SessionKeeper:
        """
        Make the keeper of the process's session.
        """
        settings = Settings() if settings is None else settings
        return SessionKeeper(
            self.clock,
            self.api,
            settings,
            service=lambda unique: service_for(
                "m1", unique, settings, "10.0.0.1", 8880
            ),
            session_name="voltha-coord m1",
            held_keys=held_keys,
            changed=changed,
            random=self.random,
            log=self.log,
        )

    @property
    def alive(self) -> list[str]:
        """
        The sessions that are alive, in Consul's eyes.
        """
        return [session.id for session in self.consul.sessions.all()]

    def consul_entry(self, key: str) -> Entry | None:
        """
        Give a key as the servers have it, without asking over the network.
        """
        for entry in self.consul.snapshot().entries:
            if entry.key == key:
                return Entry(
                    key,
                    entry.value,
                    modify_index=entry.modify_index,
                    session=entry.session or None,
                )
        return None
