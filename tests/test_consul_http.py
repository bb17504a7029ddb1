"""
Tests for the transport of production, against a real server on loopback.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet import reactor as _reactor
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    gatherResults,
    inlineCallbacks,
)
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Protocol, ServerFactory, connectionDone
from twisted.internet.task import deferLater
from twisted.internet.tcp import Client
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from tests.test_consul_requester import GET
from voltha_coord._types import Steps
from voltha_coord.consul.address import Address
from voltha_coord.consul.http import CONNECTIONS, HttpTransport
from voltha_coord.consul.transport import (
    ITransport,
    Lane,
    LaneBusy,
    NotConnected,
    Request,
    Response,
)
from voltha_coord.errors import ConsulUnavailable, RequestTimedOut

#: Typed as what it is not declared to be: all the reactor interfaces at once.
reactor: Any = _reactor

#: What a handler is given: the connection, and the request as it came.
Handler = Callable[["Connection", str, str, dict[str, str], bytes], None]


def reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """
    Make an HTTP answer.
    """
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


class Connection(Protocol):
    """
    One connection of the test server.  It reads whole requests, and leaves the
    answer to the server's handler.
    """

    factory: Server

    def __init__(self) -> None:
        self._buffer = b""

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's name)
        """
        Count it.
        """
        self.factory.open.add(self)
        self.factory.accepted += 1
        self.factory.most = max(self.factory.most, len(self.factory.open))

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """
        Count it no more.
        """
        self.factory.open.discard(self)
        waiting, self.factory.waiting = self.factory.waiting, []
        for waiter in waiting:
            waiter.callback(None)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """
        Read requests.
        """
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value
                for name, value in (line.split(": ", 1) for line in lines)
            }
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            method, target, _ = first.split(" ")
            self.factory.requests.append((method, target))
            self.factory.handler(self, method, target, headers, rest[:length])

    def send(self, data: bytes) -> None:
        """
        Answer.
        """
        assert self.transport is not None
        self.transport.write(data)

    def deaf(self) -> None:
        """
        Read no more.
        """
        transport: Any = self.transport
        transport.pauseProducing()

    def close(self) -> None:
        """
        Close after what was sent.
        """
        assert self.transport is not None
        self.transport.loseConnection()

    def reset(self) -> None:
        """
        Close at once.
        """
        ITCPTransport(self.transport).abortConnection()


class Server(ServerFactory[Connection]):
    """
    Counts connections.
    """

    protocol = Connection

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.open: set[Connection] = set()
        self.accepted = 0
        self.most = 0
        self.requests: list[tuple[str, str]] = []
        self.waiting: list[Deferred[None]] = []

    @inlineCallbacks
    def when_empty(self) -> Steps[None]:
        """
        Fire when no connection is open.
        """
        while self.open:
            waiter: Deferred[None] = Deferred()
            self.waiting.append(waiter)
            yield waiter


def hang(connection: Connection, *request: object) -> None:
    """
    Never answer.
    """


class HttpTransportTests(TestCase):
    """
    HTTP over TCP.
    """

    timeout = 10

    def serve(self, handler: Handler, **settings: Any) -> HttpTransport:
        """
        Start a server, and make a transport to it.
        """
        self.server = Server(handler)
        port = reactor.listenTCP(0, self.server, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        address = Address("http", "127.0.0.1", port.getHost().port)
        transport = HttpTransport(reactor, address, **settings)
        # Cleanups run in reverse order: the transport closes first.
        self.addCleanup(self.server.when_empty)
        self.addCleanup(transport.close)
        return transport

    def sleep(self, seconds: float) -> Deferred[None]:
        """
        Let the network do its work.
        """
        return deferLater(reactor, seconds)

    def test_provides(self) -> None:
        """
        It is a transport, and names its agent.
        """
        transport = self.serve(hang)

        self.assertTrue(verifyObject(ITransport, transport))
        self.assertTrue(str(transport).startswith("http://127.0.0.1:"))

    @inlineCallbacks
    def test_get(self) -> Steps[None]:
        """
        Status, headers and body come back; nothing asks for compression.
        """
        seen: dict[str, str] = {}

        def handler(connection: Connection, *request: Any) -> None:
            seen.update(request[2])
            connection.send(reply(b"[]", "200 OK", "X-Consul-Index: 7"))

        transport = self.serve(handler)

        response: Response = yield transport.request(
            Request("GET", "/v1/kv/x", headers={"X-Consul-Token": "t"})
        )

        self.assertEqual((response.status, response.body), (200, b"[]"))
        self.assertEqual(response.headers["x-consul-index"], "7")
        self.assertEqual(seen["x-consul-token"], "t")
        self.assertNotIn("accept-encoding", seen)

    @inlineCallbacks
    def test_encoding(self) -> Steps[None]:
        """
        A path is percent-encoded once, whatever it is made of, and is not
        cleaned; a parameter without value is a bare flag.
        """
        transport = self.serve(lambda c, *_: c.send(reply(b"")))

        yield transport.request(
            Request(
                "GET",
                "/v1/kv/a b%2F/\u00fc?#//../+@1",
                (("consistent", None), ("note", "a b&c=d+\u00fc")),
            )
        )

        (request,) = self.server.requests
        self.assertEqual(
            request[1],
            "/v1/kv/a%20b%252F/%C3%BC%3F%23//../%2B@1"
            "?consistent&note=a+b%26c%3Dd%2B%C3%BC",
        )

    @inlineCallbacks
    def test_bodies(self) -> Steps[None]:
        """
        A body goes out and comes back whole, also a large one and none.
        """
        transport = self.serve(lambda c, m, t, h, body: c.send(reply(body)))

        for body in (b"", b"\x00\xff\r\n", b"x" * 3_000_000):
            for method in ("PUT", "DELETE", "POST"):
                response = yield transport.request(Request(method, "/v1/x", body=body))
                self.assertEqual(response.body, body)

    @inlineCallbacks
    def test_chunked(self) -> Steps[None]:
        """
        A chunked answer is put together.
        """
        transport = self.serve(
            lambda c, *_: c.send(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
            )
        )

        response = yield transport.request(GET)

        self.assertEqual(response.body, b"abcde")

    @inlineCallbacks
    def test_any_status_is_an_answer(self) -> Steps[None]:
        """
        Errors, HTML and redirects are answers; no redirect is followed, and
        nothing is asked twice.
        """
        for status in (
            "301 Moved",
            "307 Temporary Redirect",
            "401 No",
            "403 No",
            "404 No",
            "429 Many",
            "500 Internal",
            "502 Bad Gateway",
            "503 Busy",
        ):
            transport = self.serve(
                lambda c, *_, status=status: c.send(
                    reply(b"<html>", status, "Location: /elsewhere")
                )
            )

            response = yield transport.request(GET)

            self.assertEqual(response.status, int(status[:3]))
            self.assertEqual(response.body, b"<html>")
            self.assertEqual(len(self.server.requests), 1)

    @inlineCallbacks
    def test_connection_kept(self) -> Steps[None]:
        """
        Requests one after the other share a connection (field report 143).
        """
        transport = self.serve(lambda c, *_: c.send(reply(b"")))

        for _ in range(5):
            yield transport.request(GET)
            yield transport.request(Request("PUT", "/v1/x", body=b"v"))

        self.assertEqual(self.server.accepted, 1)

    @inlineCallbacks
    def test_deadline(self) -> Steps[None]:
        """
        Without an answer in time the request fails, and its connection is closed (field
        report 98).
        """
        transport = self.serve(hang)

        yield self.assertFailure(
            transport.request(Request("GET", "/v1/x", deadline=0.05)), RequestTimedOut
        )

        yield self.server.when_empty()
        self.assertEqual(self.server.accepted, 1)

    @inlineCallbacks
    def test_deadline_within_the_body(self) -> Steps[None]:
        """
        The deadline holds until the last byte.
        """
        transport = self.serve(
            lambda c, *_: c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        )

        yield self.assertFailure(
            transport.request(Request("GET", "/v1/x", deadline=0.05)), RequestTimedOut
        )

        yield self.server.when_empty()

    @inlineCallbacks
    def test_cancel(self) -> Steps[None]:
        """
        A cancelled request fails with CancelledError at once, and leaves no open
        connection: before the answer, and within it (field report 143).
        """
        for begin in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"):
            transport = self.serve(lambda c, *_, begin=begin: c.send(begin))
            request = transport.request(GET)
            yield self.sleep(0.05)
            self.assertEqual(len(self.server.open), 1)

            request.cancel()

            self.failureResultOf(request, CancelledError)
            yield self.server.when_empty()

    @inlineCallbacks
    def test_cancel_before_connecting(self) -> Steps[None]:
        """
        A request cancelled before its connection is made makes none.
        """
        transport = self.serve(hang)

        request = transport.request(GET)
        request.cancel()

        self.failureResultOf(request, CancelledError)
        yield self.sleep(0.05)
        self.assertEqual(len(self.server.open), 0)
        self.assertEqual(self.server.requests, [])

    @inlineCallbacks
    def test_no_answer(self) -> Steps[None]:
        """
        Closed, reset, cut short, without an end, or not HTTP: no answer.
        """

        def cut(connection: Connection, *_: Any) -> None:
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
            connection.close()

        def endless(connection: Connection, *_: Any) -> None:
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n[]")
            connection.close()

        def cut_chunk(connection: Connection, *_: Any) -> None:
            connection.send(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
            )
            connection.close()

        def foreign(connection: Connection, *_: Any) -> None:
            connection.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
            connection.close()

        handlers: tuple[Handler, ...] = (
            lambda c, *_: c.close(),
            lambda c, *_: c.reset(),
            cut,
            cut_chunk,
            endless,
            foreign,
        )
        for handler in handlers:
            transport = self.serve(handler)
            for method in ("GET", "PUT"):
                error = yield self.assertFailure(
                    transport.request(Request(method, "/v1/x")), ConsulUnavailable
                )
                self.assertIs(type(error), ConsulUnavailable)
                self.assertIn(f"{method} /v1/x", str(error))
            yield self.server.when_empty()

    @inlineCallbacks
    def test_closed_without_an_answer(self) -> Steps[None]:
        """
        An agent with too many connections says nothing and closes: the error
        names the limit (field report 95); one after half an answer does not.
        """

        def half(connection: Connection, *_: Any) -> None:
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
            connection.close()

        hints = []
        for handler in (lambda c, *_: c.close(), lambda c, *_: c.reset(), half):
            transport = self.serve(handler)
            error = yield self.assertFailure(
                transport.request(Request("PUT", "/v1/x")), ConsulUnavailable
            )
            hints.append("http_max_conns_per_client" in str(error))

        self.assertEqual(hints, [True, True, False])

    @inlineCallbacks
    def test_endless_body(self) -> Steps[None]:
        """
        An answer that is too long is given up at once, its connection closed,
        and the next request is sent on another.
        """
        starts = (
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n",
        )
        for start in starts:
            transport = self.serve(
                lambda c, method, *_, start=start: c.send(
                    start + b"x" * 5000 if method == "GET" else reply(b"true")
                ),
                most=4000,
            )

            error = yield self.assertFailure(
                transport.request(Request("GET", "/v1/x")), ConsulUnavailable
            )
            after = yield transport.request(Request("PUT", "/v1/x"))

            self.assertNotIsInstance(error, RequestTimedOut)
            self.assertIn("more than 4000 bytes", str(error))
            self.assertEqual(after.body, b"true")
            self.assertEqual(len(self.server.open), 1)

    @inlineCallbacks
    def test_long_body(self) -> Steps[None]:
        """
        One that is just not too long is taken.
        """
        transport = self.serve(lambda c, *_: c.send(reply(b"x" * 4000)), most=4000)

        response = yield transport.request(GET)

        self.assertEqual(len(response.body), 4000)

    @inlineCallbacks
    def test_nobody_at_the_other_end(self) -> Steps[None]:
        """
        When idle connections have died without a word, one request finds out,
        and the next goes over a new one.
        """
        dead: set[Connection] = set()

        def handler(connection: Connection, *_: Any) -> None:
            if connection not in dead:
                connection.send(reply(b"[]"))

        transport = self.serve(handler)
        held = [transport.request(GET) for _ in range(CONNECTIONS[Lane.COMMAND])]
        yield gatherResults(held)
        dead.update(self.server.open)
        self.assertEqual(len(dead), CONNECTIONS[Lane.COMMAND])
        late = transport.request(evolve(GET, deadline=0.1))
        yield self.assertFailure(late, RequestTimedOut)

        response = yield transport.request(evolve(GET, deadline=1.0))

        self.assertEqual(response.body, b"[]")
        self.assertEqual(dead & self.server.open, set())

    @inlineCallbacks
    def test_found_dead_by_tcp(self) -> Steps[None]:
        """
        Connections are asked by TCP whether anybody is still there: a blocking
        query on one that died without a word ends long before its deadline.
        """
        transport = self.serve(lambda c, *_: c.send(reply(b"[]")))
        yield transport.request(GET)
        ours = [r for r in reactor.getReaders() if isinstance(r, Client)]
        (handle,) = [client.getHandle() for client in ours]

        alive = handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        paces = [
            handle.getsockopt(socket.IPPROTO_TCP, option)
            for option in (
                socket.TCP_KEEPIDLE,
                socket.TCP_KEEPINTVL,
                socket.TCP_KEEPCNT,
            )
        ]

        self.assertEqual(alive, 1)
        idle, interval, probes = paces
        self.assertLessEqual(idle + interval * probes, 12)

    @inlineCallbacks
    def test_refused(self) -> Steps[None]:
        """
        Where nobody listens, nothing was sent.
        """
        port = reactor.listenTCP(0, Server(hang), interface="127.0.0.1")
        number = port.getHost().port
        yield port.stopListening()
        transport = HttpTransport(reactor, Address("http", "127.0.0.1", number))

        error = yield self.assertFailure(transport.request(GET), NotConnected)

        self.assertIn(f"127.0.0.1:{number}", str(error))
        yield transport.close()

    @inlineCallbacks
    def test_lane_is_bounded(self) -> Steps[None]:
        """
        A lane has no more connections than its own; requests beyond wait, and are sent
        when one is free (field report 102).
        """
        held: list[Connection] = []
        transport = self.serve(lambda c, *_: held.append(c))
        requests = [transport.request(GET) for _ in range(10)]

        answered = 0
        while answered < 10:
            yield self.sleep(0.02)
            self.assertLessEqual(len(held), CONNECTIONS[Lane.COMMAND])
            while held:
                held.pop().send(reply(b""))
                answered += 1
        yield gatherResults(requests)

        self.assertEqual(self.server.most, CONNECTIONS[Lane.COMMAND])

    @inlineCallbacks
    def test_lane_busy(self) -> Steps[None]:
        """
        A request that never got a connection was not sent, and says so: the
        agent is not to blame.
        """
        transport = self.serve(lambda *_: None, connections={lane: 1 for lane in Lane})
        taken = transport.request(GET)
        waiting = transport.request(evolve(GET, deadline=0.1))

        with self.assertRaises(LaneBusy):
            yield waiting

        self.assertEqual(self.server.most, 1)
        taken.cancel()
        yield self.assertFailure(taken, CancelledError)

    @inlineCallbacks
    def test_lanes_apart(self) -> Steps[None]:
        """
        However many watches and commands hang, a renewal goes through; all lanes
        together have at most 16 connections (field report 90).
        """

        def handler(connection: Connection, method: str, *_: Any) -> None:
            if method == "PUT":
                connection.send(reply(b"true"))

        transport = self.serve(handler)
        hanging = [
            transport.request(Request("GET", "/v1/x", lane=lane))
            for lane in (Lane.WATCH, Lane.COMMAND)
            for _ in range(30)
        ]
        yield self.sleep(0.1)

        renewals = [
            transport.request(
                Request("PUT", "/v1/renew", lane=Lane.SESSION, deadline=1)
            )
            for _ in range(10)
        ]
        yield gatherResults(renewals)

        self.assertLessEqual(self.server.most, 16)
        for request in hanging:
            request.cancel()
            self.failureResultOf(request, CancelledError)
        yield transport.close()

    @inlineCallbacks
    def test_waiting_counts(self) -> Steps[None]:
        """
        Waiting for a connection counts within the deadline; a request that
        never got one was never sent, and takes no place.
        """
        transport = self.serve(hang, connections={lane: 1 for lane in Lane})
        first = transport.request(GET)

        yield self.assertFailure(
            transport.request(Request("GET", "/v1/second", deadline=0.05)),
            RequestTimedOut,
        )
        third = transport.request(Request("GET", "/v1/third"))
        cancelled = transport.request(Request("GET", "/v1/fourth"))
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        yield self.sleep(0.05)

        self.assertEqual(
            [t for _, t in self.server.requests], ["/v1/kv/x", "/v1/third"]
        )
        third.cancel()
        self.failureResultOf(third, CancelledError)

    @inlineCallbacks
    def test_stale_connection(self) -> Steps[None]:
        """
        When the server closes a kept connection just as a request is sent, a GET is
        sent again on a new one, and anything else is not: whether it was applied is not
        known (field report 143).
        """

        def handler(connection: Connection, method: str, target: str, *_: Any) -> None:
            if self.server.accepted == 1 and target != "/v1/first":
                connection.reset()
            else:
                connection.send(reply(b"ok"))

        for method, outcome in (("GET", 2), ("PUT", 1), ("DELETE", 1), ("POST", 1)):
            transport = self.serve(handler)
            yield transport.request(Request("GET", "/v1/first"))

            again = transport.request(Request(method, "/v1/second"))

            if method == "GET":
                response = yield again
                self.assertEqual(response.body, b"ok")
            else:
                yield self.assertFailure(again, ConsulUnavailable)
            seconds = [r for r in self.server.requests if r[1] == "/v1/second"]
            self.assertEqual(len(seconds), outcome, method)

    @inlineCallbacks
    def test_close(self) -> Steps[None]:
        """
        Closing ends requests under way and waiting, refuses later ones, and
        closes idle connections.
        """
        transport = self.serve(
            lambda c, method, *_: c.send(reply(b"")) if method == "PUT" else None
        )
        yield transport.request(Request("PUT", "/v1/x", lane=Lane.SESSION))
        under_way = [transport.request(GET) for _ in range(8)]
        yield self.sleep(0.05)

        yield transport.close()
        ours = [r for r in reactor.getReaders() if isinstance(r, Client)]

        self.assertEqual(ours, [])
        for request in under_way:
            self.failureResultOf(request, ConsulUnavailable)
        self.failureResultOf(transport.request(GET), ConsulUnavailable)
        yield transport.close()
        yield self.server.when_empty()

    @inlineCallbacks
    def test_unix(self) -> Steps[None]:
        """
        A Unix socket serves as well.
        """
        # Not in trial's folder: the path of a socket is limited to about a
        # hundred bytes.
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "s")
        self.addCleanup(os.rmdir, folder)
        server = Server(lambda c, *_: c.send(reply(b"here")))
        port = reactor.listenUNIX(path, server)
        self.addCleanup(port.stopListening)
        transport = HttpTransport(reactor, Address("unix", "", 0, path))
        self.addCleanup(server.when_empty)
        self.addCleanup(transport.close)

        response = yield transport.request(GET)

        self.assertEqual(response.body, b"here")
        self.assertEqual(str(transport), f"unix://{path}")

    @inlineCallbacks
    def test_unix_missing(self) -> Steps[None]:
        """
        A socket that is not there is no connection.
        """
        transport = HttpTransport(reactor, Address("unix", "", 0, "/no/socket"))

        error = yield self.assertFailure(transport.request(GET), NotConnected)

        self.assertIn("unix:///no/socket", str(error))
        yield transport.close()

    @inlineCallbacks
    def test_by_name(self) -> Steps[None]:
        """
        A name is resolved.
        """
        transport = self.serve(lambda c, *_: c.send(reply(b"named")))
        number = int(str(transport).rpartition(":")[2])
        named = HttpTransport(reactor, Address("http", "localhost", number))
        self.addCleanup(named.close)

        response = yield named.request(GET)

        self.assertEqual(response.body, b"named")

    @inlineCallbacks
    def test_headers_that_cannot_be_sent(self) -> Steps[None]:
        """
        What cannot be written as HTTP is no stray error.
        """
        transport = self.serve(lambda c, *_: c.send(reply(b"")))

        yield self.assertFailure(
            transport.request(Request("GET", "/v1/x", headers={"X\u20ac": "v"})),
            ConsulUnavailable,
        )
        self.assertEqual(self.server.requests, [])
