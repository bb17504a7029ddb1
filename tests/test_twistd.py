"""
Tests of ``twistd voltha_coord`` as a process: ready, not ready, and its end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from typing import Any

import treq
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.protocol import Factory, ProcessProtocol, Protocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent

from voltha_coord._types import Steps

#: Typed loosely: the global reactor is whatever trial installed.
reactor: Any = _reactor

#: The longest an end may take after SIGTERM, in seconds.
END_SECONDS = 5.0


class Twistd(ProcessProtocol):
    """
    One twistd process, in a directory of its own.

    :param modules: a directory in which it finds further modules.
    :param environ: further environment variables.
    :ivar said: its standard output and error up to now.
    :ivar ended: fires with how it ended: ``ProcessDone`` or ``ProcessTerminated``.
    """

    def __init__(
        self, directory: str, *options: str, modules: str = "", **environ: str
    ) -> None:
        os.makedirs(directory)
        self.said = ""
        self.ended: Deferred[Any] = Deferred()
        kept = ("PATH", "HOME", "TMPDIR", "LANG")
        environ |= {k: os.environ[k] for k in kept if k in os.environ}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [modules, *sys.path]))
        code = "from twisted.scripts.twistd import run; run()"
        self.transport: Any = reactor.spawnProcess(
            self,
            sys.executable,
            [sys.executable, "-c", code, "-n", "voltha_coord", *options],
            env=environ,
            path=directory,
        )

    def outReceived(self, data: bytes) -> None:
        """
        Keep what it says.
        """
        self.said += data.decode()

    def errReceived(self, data: bytes) -> None:
        """
        Keep what it says.
        """
        self.said += data.decode()

    def processEnded(self, reason: Failure) -> None:
        """
        It is over.
        """
        self.ended.callback(reason.value)

    def send(self, number: signal.Signals) -> None:
        """
        Send a signal, if it still runs.
        """
        if self.transport.pid is not None:
            self.transport.signalProcess(int(number))


class TwistdTests(TestCase):
    """
    Tests of the process.
    """

    timeout = 60

    def run_twistd(self, *options: str) -> Twistd:
        """
        Run one, which ends with the test at the latest.
        """
        twistd = Twistd(os.path.abspath(self.mktemp()), *options)

        def end() -> Deferred[Any] | None:
            if twistd.ended.called:
                return None
            twistd.send(signal.SIGKILL)
            return twistd.ended

        self.addCleanup(end)
        return twistd

    @inlineCallbacks
    def until(self, what: str, found: Any, seconds: float = 20.0) -> Steps[Any]:
        """
        Look again and again, until something is found.
        """
        end = reactor.seconds() + seconds
        while True:
            result = found()
            if isinstance(result, Deferred):
                result = yield result
            if result:
                return result
            if reactor.seconds() > end:
                self.fail(f"not within {seconds} s: {what}")
            yield deferLater(reactor, 0.05, lambda: None)

    @inlineCallbacks
    def port_of(self, twistd: Twistd, event: str) -> Steps[int]:
        """
        Give the port that a log event tells of.
        """
        pattern = re.compile(rf"{event} host=127\.0\.0\.1 port=(\d+)")
        match = yield self.until(event, lambda: pattern.search(twistd.said))
        return int(match[1])

    @inlineCallbacks
    def get(self, port: int, path: str) -> Steps[tuple[int, Any]]:
        """
        Ask the web face; give JSON read, and anything else as text.
        """
        agent = Agent(reactor, connectTimeout=5)
        url = f"http://127.0.0.1:{port}{path}"
        response = yield treq.get(url, agent=agent, timeout=5)
        (kind,) = response.headers.getRawHeaders("content-type")
        read = treq.json_content if "json" in kind else treq.text_content
        told = yield read(response)
        return response.code, told

    @inlineCallbacks
    def end(self, twistd: Twistd) -> Steps[float]:
        """
        End it as an init system does; give the seconds that took.
        """
        begun = reactor.seconds()
        twistd.send(signal.SIGTERM)
        how = yield twistd.ended
        self.assertIn((how.exitCode, how.signal), [(0, None), (None, signal.SIGTERM)])
        self.assertNotIn("Traceback", twistd.said)
        self.assertNotIn("Unhandled", twistd.said)
        return float(reactor.seconds() - begun)

    @inlineCallbacks
    def test_a_cluster_of_one(self) -> Steps[None]:
        """
        With an embedded Consul it becomes ready, shows its status and its
        metrics, reads its configuration again on SIGHUP, and ends in order.
        """
        config = os.path.abspath(self.mktemp())
        with open(config, "w") as file:
            file.write("weight: 1\n")
        twistd = self.run_twistd(
            "--consul=embedded:0",
            "--rest-port=0",
            "--instance-id=m1",
            f"--config={config}",
        )
        port = yield self.port_of(twistd, "rest-listening")

        def ready() -> Deferred[bool]:
            asking: Deferred[Any] = self.get(port, "/ready")
            return asking.addCallback(lambda answer: answer[0] == 200)

        yield self.until("ready", ready)

        code, status = yield self.get(port, "/status")
        self.assertEqual(code, 200)
        self.assertEqual((status["leader_id"], status["is_leader"]), ("m1", True))
        self.assertEqual([m["id"] for m in status["members"]], ["m1"])
        self.assertEqual(status["members"][0]["rest_port"], port)
        code, metrics = yield self.get(port, "/metrics")
        self.assertEqual(code, 200)
        whose = 'instance_id="m1",prefix="service/voltha"'
        self.assertIn(f"voltha_coord_is_leader{{{whose}}} 1.0\n", metrics)
        self.assertIn("\nprocess_open_fds ", metrics)

        with open(config, "w") as file:
            file.write("weight: 3\n")
        twistd.send(signal.SIGHUP)

        def reweighted() -> Deferred[bool]:
            asking: Deferred[Any] = self.get(port, "/status")
            return asking.addCallback(lambda a: a[1]["members"][0]["weight"] == 3)

        yield self.until("the new weight", reweighted)
        took = yield self.end(twistd)
        self.assertLess(took, END_SECONDS)
        self.assertIn("shut-down", twistd.said)

    @inlineCallbacks
    def test_no_consul(self) -> Steps[None]:
        """
        Without a Consul it goes on: healthy, not ready, with the reason; the
        log says so now and then; SIGTERM ends it.
        """
        twistd = self.run_twistd(
            "--consul=127.0.0.1:1", "--rest-port=0", "--instance-id=m1"
        )
        port = yield self.port_of(twistd, "rest-listening")
        yield self.until("a word on it", lambda: "127.0.0.1:1" in twistd.said)
        yield deferLater(reactor, 2.0, lambda: None)

        health = yield self.get(port, "/health")
        code, told = yield self.get(port, "/ready")
        shown, _ = yield self.get(port, "/status")
        scraped, metrics = yield self.get(port, "/metrics")

        self.assertEqual(health[0], 200)
        self.assertEqual((code, told["ready"]), (503, False))
        self.assertIn("Consul does not answer", told["reason"])
        self.assertEqual((shown, scraped), (200, 200))
        self.assertRegex(metrics, r'"session",outcome="not-connected",.*\} [1-9]')
        # One word for each back-off step, from a few activities at most.
        self.assertLess(len(twistd.said.splitlines()), 40, twistd.said)
        took = yield self.end(twistd)
        self.assertLess(took, END_SECONDS)

    @inlineCallbacks
    def test_silent_consul(self) -> Steps[None]:
        """
        A Consul that accepts connections and says nothing holds up neither an
        answer nor the end.
        """
        silent = Factory.forProtocol(Protocol)
        port = reactor.listenTCP(0, silent, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        twistd = self.run_twistd(
            f"--consul=127.0.0.1:{port.getHost().port}",
            "--rest-port=0",
            "--instance-id=m1",
        )
        rest = yield self.port_of(twistd, "rest-listening")
        yield deferLater(reactor, 0.5, lambda: None)

        begun = reactor.seconds()
        code, _ = yield self.get(rest, "/status")

        self.assertEqual(code, 200)
        self.assertLess(reactor.seconds() - begun, 3.0)
        took = yield self.end(twistd)
        self.assertLess(took, END_SECONDS)

    @inlineCallbacks
    def test_sigterm_at_any_point_of_the_start(self) -> Steps[None]:
        """
        SIGTERM ends it whenever it comes, during the first connect too (field report
        148).
        """
        for word in ("rest-listening", "initialized-coordinator", "created-consul"):
            twistd = self.run_twistd(
                "--consul=embedded:0", "--rest-port=0", "--instance-id=m1"
            )
            yield self.until(word, lambda t=twistd, w=word: w in t.said)

            took = yield self.end(twistd)

            self.assertLess(took, END_SECONDS, word)

    @inlineCallbacks
    def test_impatient(self) -> Steps[None]:
        """
        More signals while it stops change nothing: it ends in order, and no traceback
        is left (field report 148).
        """
        silent = Factory.forProtocol(Protocol)
        port = reactor.listenTCP(0, silent, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        twistd = self.run_twistd(
            f"--consul=127.0.0.1:{port.getHost().port}",
            "--rest-port=0",
            "--instance-id=m1",
            "--drain-timeout=2",
        )
        yield self.until("initialized", lambda: "initialized" in twistd.said)
        twistd.send(signal.SIGTERM)
        yield self.until("shutting down", lambda: "shutting-down" in twistd.said)
        twistd.send(signal.SIGINT)
        yield self.until("a word on it", lambda: "already-stopping" in twistd.said)

        took = yield self.end(twistd)

        self.assertLess(took, END_SECONDS)

    @inlineCallbacks
    def test_no_such_host(self) -> Steps[None]:
        """
        An address for the web face that does not exist is told of its option.
        """
        twistd = self.run_twistd("--consul=127.0.0.1:1", "--rest-host=nohost.invalid")

        how = yield twistd.ended

        self.assertEqual(how.exitCode, 1)
        self.assertIn("cannot-listen option=--rest-host", twistd.said)
        self.assertNotIn("Traceback", twistd.said)

    @inlineCallbacks
    def test_port_in_use(self) -> Steps[None]:
        """
        A REST port in use ends it with exit code 1, and a log line that names
        the option; no traceback, no pid file left.
        """
        port = reactor.listenTCP(0, Factory(), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        twistd = self.run_twistd(
            "--consul=embedded:0", f"--rest-port={port.getHost().port}"
        )

        how = yield twistd.ended

        self.assertEqual(how.exitCode, 1)
        self.assertIn("cannot-listen option=--rest-port", twistd.said)
        self.assertNotIn("Traceback", twistd.said)

    @inlineCallbacks
    def test_usage(self) -> Steps[None]:
        """
        A bad value is a usage error: exit code 1, and the option at the end.
        """
        twistd = self.run_twistd("--session-ttl=5")

        how = yield twistd.ended

        self.assertEqual(how.exitCode, 1)
        self.assertIn("--session-ttl", twistd.said.splitlines()[-1])
        self.assertNotIn("Traceback", twistd.said)

    @inlineCallbacks
    def test_json_log(self) -> Steps[None]:
        """
        With ``--log-format json`` every line from the first to the last is one
        JSON object with the stable names.
        """
        twistd = self.run_twistd(
            "--consul=embedded:0", "--rest-port=off", "--log-format=json"
        )
        yield self.until("a leader", lambda: "became-leader" in twistd.said)
        yield self.end(twistd)

        for line in twistd.said.splitlines():
            self.assertLessEqual(
                {"time", "level", "event", "logger"}, set(json.loads(line)), line
            )
