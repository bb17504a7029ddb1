"""
Tests of the embedded Consul's HTTP face, its command, and the real ``consul``
command line against it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.internet.utils import getProcessOutputAndValue
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from voltha_coord._types import Steps
from voltha_coord.consul.transport import Lane, Request
from voltha_coord.embedded.http import check_loopback, listen
from voltha_coord.embedded.state import ConsulState
from voltha_coord.errors import ConfigurationError, ConsulUnavailable

from .contract.backends import HttpBackend, real_reactor
from .support.real_consul import require_binary


def _pause() -> Deferred[None]:
    return deferLater(real_reactor(), 0.05, lambda: None)


class LoopbackTests(SynchronousTestCase):
    """
    Where it may listen.
    """

    def test_loopback(self) -> None:
        """
        Loopback addresses are taken, ``localhost`` among them.
        """
        found = [check_loopback(host) for host in ("127.0.0.1", "::1", "localhost")]

        self.assertEqual(found, ["127.0.0.1", "::1", "127.0.0.1"])

    def test_others(self) -> None:
        """
        Anything others could reach, or that is no address, is refused by name.
        """
        for host in ("0.0.0.0", "192.0.2.1", "::", "example.org", ""):
            error = self.assertRaises(ConfigurationError, check_loopback, host)
            self.assertIn(repr(host), str(error))
            self.assertRaises(ConfigurationError, listen, real_reactor(), 0, host)


class HttpTests(TestCase):
    """
    The face itself.
    """

    timeout = 30

    def setUp(self) -> None:
        """
        Listen on loopback.
        """
        self.backend = HttpBackend()
        self.addCleanup(self.backend.tear_down)

    def _watch(self) -> Any:
        return self.backend.request(
            Request(
                "GET",
                "/v1/kv/a",
                (("index", "1000"), ("wait", "5m")),
                deadline=60.0,
                lane=Lane.WATCH,
            )
        )

    @inlineCallbacks
    def test_client_gone(self) -> Steps[None]:
        """
        A blocking query whose client went away is forgotten.
        """
        watch = self._watch()
        yield _pause()
        waiting = self.backend.agent.waiting
        watch.cancel()
        yield self.assertFailure(watch, CancelledError)
        yield _pause()

        self.assertEqual((waiting, self.backend.agent.waiting), (1, 0))
        self.assertEqual(self.backend.clock.getDelayedCalls(), [])

    @inlineCallbacks
    def test_agent_gone(self) -> Steps[None]:
        """
        When the agent goes away, connections break without an answer.
        """
        watch = self._watch()
        yield _pause()
        self.backend.agent.kill()
        yield self.assertFailure(watch, ConsulUnavailable)
        refused = self.backend.request(Request("GET", "/v1/kv/a"))

        yield self.assertFailure(refused, ConsulUnavailable)

    @inlineCallbacks
    def test_odd_keys(self) -> Steps[None]:
        """
        Keys with spaces, plus signs, percent signs and other letters are what
        they were.
        """
        key = "a b+c%25é?&=#"
        yield self.backend.request(Request("PUT", f"/v1/kv/{key}", body=b"v"))

        self.assertEqual([e.key for e in self.backend.state.kv.walk("")], [key])

    @inlineCallbacks
    def test_port_in_use(self) -> Steps[None]:
        """
        A port that is in use is an error, and port 0 picks one.
        """
        first: Any = listen(real_reactor())
        port = first.getHost().port
        self.assertRaises(CannotListenError, listen, real_reactor(), port)
        yield first.stopListening()

        self.assertGreater(port, 0)


class _Running(ProcessProtocol):
    """
    A process that runs until it has said something, and is stopped then.
    """

    def __init__(self, until: bytes) -> None:
        self._until = until
        self.output = b""
        self.said: Deferred[bytes] = Deferred()
        self.ended: Deferred[None] = Deferred()

    def outReceived(self, data: bytes) -> None:
        """
        Keep what is said.
        """
        self.output += data
        if self._until in self.output and not self.said.called:
            self.said.callback(self.output)

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        """
        Tell that it has ended.
        """
        if not self.said.called:
            self.said.errback(AssertionError(f"ended: {self.output!r}"))
        self.ended.callback(None)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Stop it, as Ctrl-C would.
        """
        transport: Any = self.transport
        if transport.pid:
            transport.signalProcess("TERM")
        yield self.ended


def _module_environment() -> dict[str, str]:
    """
    Let another Python find what this one has found.
    """
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


class CommandTests(TestCase):
    """
    ``python -m voltha_coord.embedded``.
    """

    timeout = 60
    _module = ("-m", "voltha_coord.embedded")

    def _command(self, *arguments: str) -> Deferred[Any]:
        result: Deferred[Any] = getProcessOutputAndValue(
            sys.executable, [*self._module, *arguments], _module_environment()
        )
        return result

    @inlineCallbacks
    def test_serves(self) -> Steps[None]:
        """
        It says where it listens, that it keeps nothing on disk and is for
        development, then answers, and with ``--verbose`` says every request.
        """
        running = _Running(b"disk")
        real_reactor().spawnProcess(
            running,
            sys.executable,
            [sys.executable, *self._module, "--port", "0", "--verbose"],
            _module_environment(),
        )
        self.addCleanup(running.stop)
        output = (yield running.said).decode()
        line = output.splitlines()[0]
        port = int(line.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET /v1/status/leader HTTP/1.0\r\n\r\n")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
        yield _pause()

        self.assertTrue(line.startswith("embedded Consul on http://127.0.0.1:"), line)
        self.assertIn("keeps nothing on disk", output)
        self.assertIn("For development", output)
        self.assertIn(b"200 OK", answer)
        self.assertIn(b"GET /v1/status/leader", running.output)

    @inlineCallbacks
    def test_not_loopback(self) -> Steps[None]:
        """
        Another address than a loopback one is a usage error.
        """
        _, errors, status = yield self._command("--host", "0.0.0.0")

        self.assertEqual(status, 2)
        self.assertIn(b"--host", errors)
        self.assertIn(b"not a loopback address", errors)

    @inlineCallbacks
    def test_bad_port(self) -> Steps[None]:
        """
        A port that cannot be is a usage error.
        """
        _, errors, status = yield self._command("--port", "65536")

        self.assertEqual(status, 2)
        self.assertIn(b"--port", errors)

    @inlineCallbacks
    def test_port_in_use(self) -> Steps[None]:
        """
        A port in use is said in one line, with exit status 1.
        """
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            output, errors, status = yield self._command("--port", port)

        self.assertEqual((status, output), (1, b""))
        (line,) = errors.decode().splitlines()
        self.assertIn(f"cannot listen on 127.0.0.1:{port}", line)


class CommandLineTests(TestCase):
    """
    The real ``consul`` command line against the embedded Consul.
    """

    timeout = 60

    def setUp(self) -> None:
        """
        Listen on loopback, in real time.
        """
        self.binary = require_binary()
        self.state = ConsulState(real_reactor())
        agent = self.state.agent()
        port: Any = listen(real_reactor(), handler=agent)
        self.addCleanup(self._end_sessions)
        self.addCleanup(port.stopListening)
        self.environment = {
            "CONSUL_HTTP_ADDR": f"127.0.0.1:{port.getHost().port}",
            "PATH": os.environ.get("PATH", ""),
            "HOME": tempfile.gettempdir(),
        }

    def _end_sessions(self) -> None:
        for session in self.state.sessions.all():
            self.state.destroy_session(session.id)

    @inlineCallbacks
    def _consul(self, *arguments: str) -> Steps[str]:
        output, errors, status = yield getProcessOutputAndValue(
            self.binary, arguments, self.environment
        )
        self.assertEqual(status, 0, output + errors)
        text = output.decode()
        assert isinstance(text, str)
        return text

    @inlineCallbacks
    def test_kv(self) -> Steps[None]:
        """
        ``kv put``, ``get``, ``delete``, ``export`` and ``import`` work.
        """
        yield self._consul("kv", "put", "a/1", "one")
        yield self._consul("kv", "put", "-flags=7", "a/2", "two")
        read = yield self._consul("kv", "get", "a/1")
        exported = yield self._consul("kv", "export", "a")
        yield self._consul("kv", "delete", "-recurse", "a")
        gone = len(self.state.kv)
        path = Path(self.mktemp())
        path.write_text(exported)
        yield self._consul("kv", "import", f"@{path}")
        everything = yield self._consul("kv", "get", "-recurse", "a")

        self.assertEqual(read, "one\n")
        self.assertEqual([row["key"] for row in json.loads(exported)], ["a/1", "a/2"])
        self.assertEqual(gone, 0)
        self.assertEqual(everything, "a/1:one\na/2:two\n")
        entry = self.state.kv.get("a/2")
        assert entry is not None
        self.assertEqual(entry.flags, 7)

    @inlineCallbacks
    def test_lock(self) -> Steps[None]:
        """
        ``consul lock`` runs its child and cleans up.
        """
        output = yield self._consul("lock", "locks/x", "echo", "locked")

        self.assertIn("locked", output)
        self.assertEqual(len(self.state.kv), 0)
        self.assertEqual(self.state.sessions.all(), [])

    @inlineCallbacks
    def test_watch(self) -> Steps[None]:
        """
        ``consul watch -type=key`` tells of a change.
        """
        yield self._consul("kv", "put", "a", "before")
        running = _Running(b"YWZ0ZXI=")
        arguments = ["watch", "-type=key", "-key=a", "cat"]
        real_reactor().spawnProcess(
            running, self.binary, [self.binary, *arguments], self.environment
        )
        self.addCleanup(running.stop)
        while not running.output:
            yield _pause()
        yield self._consul("kv", "put", "a", "after")
        output = yield running.said

        self.assertIn(b'"Key":"a"', output)
