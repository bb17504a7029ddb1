"""
What the contract suite runs on: the embedded Consul in memory and over HTTP,
a real Consul, and a real one with ACLs and TLS.

A backend is made for one test, with a prefix of its own for the keys.
"""

from __future__ import annotations

import itertools
import json
import os
import ssl
import urllib.request
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred, succeed
from twisted.internet.task import Clock, deferLater
from twisted.internet.threads import deferToThread

from voltha_coord._types import Steps
from voltha_coord.consul.address import Address, TLSSettings, parse_address
from voltha_coord.consul.http import HttpTransport
from voltha_coord.consul.tls import TLSContext
from voltha_coord.consul.transport import ITransport, Request, Response
from voltha_coord.embedded.http import listen
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import ConsulState

from ..support.real_consul import RealConsul, shared_consul

if TYPE_CHECKING:
    from twisted.internet.interfaces import IListeningPort

_count = itertools.count(1)

#: Under which the minimal policy lets a member write.
PREFIX = "service/voltha/"


def real_reactor() -> Any:
    """
    Give the reactor the tests run in.
    """
    from twisted.internet import reactor

    return reactor


class Backend:
    """
    A Consul to make requests to.

    :cvar real: whether time is real time there.
    :cvar enforces: whether a token is asked for.
    :cvar knows_tokens: whether a token has to be one that was made there.
    :ivar prefix: for the keys of this test alone; ends with a slash.
    :ivar node: the name of the agent's node.
    :ivar address: the agent's; ``None`` without one.
    :ivar token, weak_token: may do what a member does; may do nothing.
    """

    real: ClassVar[bool] = False
    enforces: ClassVar[bool] = False
    knows_tokens: ClassVar[bool] = False
    transport: ITransport
    node: str
    address: str | None = None
    token: str | None = None
    weak_token: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def __init__(self) -> None:
        self.name = f"t{os.getpid()}-{next(_count)}"
        self.prefix = f"{PREFIX}{self.name}/"

    def request(self, request: Request) -> Deferred[Response]:
        """
        Make a request.
        """
        return self.transport.request(request)

    @inlineCallbacks
    def administer(self, method: str, path: str, body: object) -> Steps[None]:
        """
        Make a request that a member's token may not make.
        """
        response: Response = yield self.request(
            Request(method, path, (), json.dumps(body).encode())
        )
        assert response.status == 200, response

    def put_encoded(self, path: str) -> Deferred[int]:
        """
        Write to a path that is percent-encoded already, and give the status.
        Where nothing is sent, paths are carried decoded.
        """
        request = Request("PUT", unquote(path), (), b"v")
        return self.request(request).addCallback(lambda response: response.status)

    def wait(self, seconds: float) -> Deferred[None]:
        """
        Let so much time pass.
        """
        return deferLater(real_reactor(), seconds, lambda: None)

    def until(self, result: Deferred[Any], seconds: float) -> Deferred[Any]:
        """
        Let time pass until there is a result, so many seconds at most.
        """
        return result.addTimeout(seconds, real_reactor())

    def tear_down(self) -> Deferred[None]:
        """
        Leave nothing behind.
        """
        return self.transport.close()


def _advance(clock: Clock, seconds: float) -> None:
    end = clock.seconds() + seconds
    while clock.seconds() < end:
        clock.advance(min(0.01, end - clock.seconds()))


def _make_state(clock: Clock) -> ConsulState:
    """
    Make an embedded Consul that denies one token everything.
    """
    state = ConsulState(clock)
    state.deny = lambda resource, name, access, token: token == "weak"
    return state


class MemoryBackend(Backend):
    """
    The embedded Consul in memory, on a clock that is advanced by hand.
    """

    enforces = True
    weak_token = "weak"

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.state = _make_state(self.clock)
        self.agent = self.state.agent("test-node")
        self.node = "test-node"
        self.transport = MemoryTransport(self.agent, self.clock)

    def request(self, request: Request) -> Deferred[Response]:
        """
        Make a request, and let it be answered.
        """
        result = self.transport.request(request)
        self.clock.advance(0)
        return result

    def wait(self, seconds: float) -> Deferred[None]:
        """
        Advance the clock, step by step: who acts has to see the time of it.
        """
        _advance(self.clock, seconds)
        return succeed(None)

    def until(self, result: Deferred[Any], seconds: float) -> Deferred[Any]:
        """
        Advance the clock until there is a result.
        """
        end = self.clock.seconds() + seconds
        while not result.called and self.clock.seconds() < end:
            self.clock.advance(0.01)
        return result


class _OverHttp(Backend):
    """
    Any Consul that is reached over HTTP.
    """

    def _connect(self, tls: TLSContext | None = None) -> None:
        assert self.address is not None
        address: Address = parse_address(self.address)
        self.transport = HttpTransport(real_reactor(), address, tls)

    def put_encoded(self, path: str) -> Deferred[int]:
        """
        Write past the transport, which would encode the path again.
        """
        return deferToThread(self._put_encoded, path)

    def _put_encoded(self, path: str) -> int:
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.cert_file is not None:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.load_cert_chain(self.cert_file, self.key_file)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        headers = {"X-Consul-Token": self.token} if self.token else {}
        request = urllib.request.Request(
            f"{self.address}{path}", b"v", headers, method="PUT"
        )
        opener = urllib.request.build_opener(*handlers)
        with opener.open(request, timeout=10) as response:
            status: int = response.status
            return status


class HttpBackend(_OverHttp):
    """
    The embedded Consul over HTTP on loopback; its own time is advanced by hand.
    """

    enforces = True
    weak_token = "weak"

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.state = _make_state(self.clock)
        self.agent = self.state.agent("test-node")
        self.node = "test-node"
        self._port: IListeningPort = listen(real_reactor(), handler=self.agent)
        host: Any = self._port.getHost()
        self.address = f"http://127.0.0.1:{host.port}"
        self._connect()

    @inlineCallbacks
    def wait(self, seconds: float) -> Steps[None]:
        """
        Advance the clock, and let what is under way arrive before and after.
        """
        yield super().wait(0.05)
        _advance(self.clock, seconds)
        yield super().wait(0.05)

    @inlineCallbacks
    def until(self, result: Deferred[Any], seconds: float) -> Steps[Any]:
        """
        Advance the clock until there is a result.
        """
        end = self.clock.seconds() + seconds
        while not result.called and self.clock.seconds() < end:
            yield Backend.wait(self, 0.005)
            self.clock.advance(0.05)
        value = yield result
        return value

    @inlineCallbacks
    def tear_down(self) -> Steps[None]:
        """
        Close the connections and the port.
        """
        yield self.transport.close()
        yield maybeDeferred(self._port.stopListening)


class RealBackend(_OverHttp):
    """
    A real Consul, ``-dev``, shared by all tests of the process.
    """

    real = True
    secure: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.consul: RealConsul = shared_consul(self.secure)
        self.node = self.consul.node
        self.address = self.consul.address
        self._connect(self._tls())

    def _tls(self) -> TLSContext | None:
        return None

    def administer(self, method: str, path: str, body: object) -> Deferred[None]:
        """
        Make a request with all rights.
        """
        self.consul.ask(method, path, body)
        return succeed(None)

    @inlineCallbacks
    def tear_down(self) -> Steps[None]:
        """
        Remove the test's keys and close the connections.
        """
        headers = {"X-Consul-Token": self.token} if self.token else {}
        yield self.request(
            Request(
                "DELETE", f"/v1/kv/{self.prefix}", (("recurse", None),), b"", headers
            )
        )
        yield self.transport.close()


class SecureRealBackend(RealBackend):
    """
    A real Consul with ACLs (default deny), the minimal policy, and TLS with
    client certificates.
    """

    enforces = True
    knows_tokens = True
    secure = True

    def _tls(self) -> TLSContext:
        credentials = self.consul.credentials
        assert credentials is not None
        self.token = credentials.token
        self.weak_token = credentials.weak_token
        self.ca_file = credentials.ca_file
        self.cert_file = credentials.cert_file
        self.key_file = credentials.key_file
        return TLSContext(
            TLSSettings(
                ca_file=self.ca_file, cert_file=self.cert_file, key_file=self.key_file
            )
        )
