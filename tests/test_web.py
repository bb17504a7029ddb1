"""
Tests of ``/health``, ``/ready``, ``/status`` and ``/metrics``.
"""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from structlog.testing import capture_logs
from treq.testing import StubTreq
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.coordinators import RecordingCoordinator
from voltha_coord.events import Connection
from voltha_coord.web.face import ANSWER_SECONDS, Face, unready_reason
from voltha_coord.web.listening import listen


class FaceTests(SynchronousTestCase):
    """
    Tests of :class:`Face`.
    """

    def setUp(self) -> None:
        """
        Have a face of a recording Coordinator.
        """
        self.clock = Clock()
        self.shown: RecordingCoordinator | None = RecordingCoordinator()
        self.coordinator = self.shown
        self.registry = CollectorRegistry()
        self.face = Face(self.clock, lambda: self.shown, self.registry)
        self.treq: Any = StubTreq(self.face.app.resource())

    def ask(self, path: str, method: str = "GET", **kw: Any) -> Deferred[Any]:
        """
        Ask, without waiting for the answer.
        """
        asked: Deferred[Any] = self.treq.request(method, f"http://m1{path}", **kw)
        return asked

    def answer(self, asked: Deferred[Any]) -> tuple[int, Any]:
        """
        Give status and JSON of an answer.
        """
        self.treq.flush()
        response = self.successResultOf(asked)
        (kind,) = response.headers.getRawHeaders("content-type")
        self.assertEqual(kind, "application/json; charset=utf-8")
        body = self.successResultOf(self.treq.content(response))
        return response.code, json.loads(body) if body else None

    def get(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """
        Ask and give the answer.
        """
        return self.answer(self.ask(path, method))

    def test_health(self) -> None:
        """
        The process is healthy while it serves, whatever becomes of Consul.
        """
        self.assertEqual(self.get("/health"), (200, {"healthy": True}))
        self.shown = None
        self.assertEqual(self.get("/health"), (200, {"healthy": True}))
        self.assertEqual(self.coordinator.events, [])

    def test_ready(self) -> None:
        """
        A member with a leader known is ready, without a question to Consul.
        """
        self.coordinator.is_ready = True
        self.coordinator.told["leader_id"] = "m2"

        self.assertEqual(self.get("/ready"), (200, {"ready": True, "leader_id": "m2"}))
        self.assertEqual(self.coordinator.events, [])

    def test_not_ready(self) -> None:
        """
        Anything else is not ready, with the reason.
        """
        self.assertEqual(
            self.get("/ready"),
            (503, {"ready": False, "reason": "no Consul session yet"}),
        )
        self.shown = None
        self.assertEqual(
            self.get("/ready"), (503, {"ready": False, "reason": "starting"})
        )

    def test_reasons(self) -> None:
        """
        The reason is the first thing that stands in the way.
        """
        status: dict[str, Any] = {
            "role": "stopped",
            "consul": {"address": "http://c:8500", "connection": "lost"},
        }
        self.assertEqual(unready_reason(status), "shutting down")
        status["role"] = "emergency"
        self.assertEqual(
            unready_reason(status),
            "in an emergency: Consul does not answer at http://c:8500",
        )
        status["role"] = "candidate"
        self.assertEqual(
            unready_reason(status), "Consul does not answer at http://c:8500"
        )
        status["consul"]["connection"] = "connected"
        self.assertEqual(unready_reason(status), "no Consul session yet")
        status["session_id"] = "s"
        self.assertEqual(unready_reason(status), "no leader is known")
        status["leader_id"] = "m2"
        self.assertIn("member record", unready_reason(status))
        self.assertIn("Consul", unready_reason({}))

    def test_status(self) -> None:
        """
        The status is the Coordinator's, fresh.
        """
        code, status = self.get("/status")

        self.assertEqual(code, 200)
        self.assertEqual(status, self.coordinator.told)
        self.assertEqual(self.coordinator.events, ["refresh"])

    def test_status_while_consul_is_silent(self) -> None:
        """
        A silent Consul holds an answer up for half a second; then it is what
        was known, and the question is given up.
        """
        cancelled: list[Any] = []
        self.coordinator.refreshed = Deferred(cancelled.append)

        asked = self.ask("/status")
        self.clock.advance(ANSWER_SECONDS - 0.1)
        self.treq.flush()
        self.assertNoResult(asked)
        self.clock.advance(0.1)
        self.assertLessEqual(ANSWER_SECONDS, 0.5)

        code, status = self.answer(asked)
        self.assertEqual((code, status), (200, self.coordinator.told))
        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_status_in_an_outage(self) -> None:
        """
        Field report 104: while Consul does not answer anyhow, the answer is
        what was last known, at once.
        """
        for connection in (Connection.SUSPENDED, Connection.LOST):
            self.coordinator.connection = connection

            self.assertEqual(self.get("/status"), (200, self.coordinator.told))

        self.assertEqual(self.coordinator.events, [])

    def metrics(self, **headers: str) -> tuple[str, str]:
        """
        Give what ``/metrics`` tells, and as what.
        """
        asked = self.ask("/metrics", headers=headers)
        self.treq.flush()
        response = self.successResultOf(asked)
        self.assertEqual(response.code, 200)
        (kind,) = response.headers.getRawHeaders("content-type")
        return self.successResultOf(self.treq.content(response)).decode(), kind

    def test_metrics(self) -> None:
        """
        The metrics are those of the registry as they are now, and nobody is
        asked for them.
        """
        answers = Gauge("answers", "How many.", registry=self.registry)
        for value in (41, 42):
            answers.set(value)
            text, kind = self.metrics()

            self.assertIn(f"\nanswers {value}.0\n", text)
            self.assertTrue(kind.startswith("text/plain; version=0.0.4"), kind)

        self.assertEqual(self.coordinator.events, [])

    def test_open_metrics(self) -> None:
        """
        Prometheus is given the form it prefers.
        """
        text, kind = self.metrics(
            Accept="application/openmetrics-text;version=1.0.0;q=0.9,text/plain;q=0.1"
        )

        self.assertTrue(kind.startswith("application/openmetrics-text"), kind)
        self.assertEqual(text, "# EOF\n")

    def test_status_before_the_start(self) -> None:
        """
        Without a Coordinator there is no status yet.
        """
        self.shown = None

        self.assertEqual(self.get("/status"), (503, {"error": "starting"}))

    def test_head(self) -> None:
        """
        HEAD answers as GET does, without a body.
        """
        self.assertEqual(self.get("/health", "HEAD"), (200, None))

    def test_unknown_path(self) -> None:
        """
        An unknown path is answered in JSON, with what there is.
        """
        for path in ("/", "/nothing", "/status/m1"):
            code, told = self.get(path)
            self.assertEqual(code, 404)
            self.assertIn("/status", told["paths"])
            self.assertIn("/metrics", told["paths"])

    def test_other_methods(self) -> None:
        """
        All of it is for reading only.
        """
        for method in ("POST", "PUT", "DELETE"):
            code, told = self.get("/status", method)
            self.assertEqual((code, told), (405, {"error": "method not allowed"}))
        response = self.successResultOf(self.ask("/status", "POST"))
        self.assertEqual(response.headers.getRawHeaders("allow"), ["GET, HEAD"])
        self.assertEqual(self.coordinator.events, [])

    def test_own_errors(self) -> None:
        """
        An error of our own is logged, and shows nothing of itself.
        """
        self.coordinator.status = None  # type: ignore[assignment,method-assign]  # raises

        with capture_logs() as logs:
            code, told = self.get("/ready")

        self.assertEqual((code, told), (500, {"error": "internal error"}))
        self.coordinator.refreshed = fail(ZeroDivisionError("on purpose"))
        with capture_logs() as more:
            self.assertEqual(self.get("/status")[0], 500)
        events = [e["event"] for e in [*logs, *more]]
        self.assertEqual(events, ["web-request-failed"] * 2)

    def test_asker_gone(self) -> None:
        """
        An asker that goes away takes its question to Consul with it.
        """
        cancelled: list[Any] = []
        self.coordinator.refreshed = Deferred(cancelled.append)
        asked = self.ask("/status")
        asked.cancel()
        self.treq.flush()

        self.failureResultOf(asked)
        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.flushLoggedErrors(), [])


class ListenTests(SynchronousTestCase):
    """
    Tests of :func:`listen`.
    """

    def test_listen(self) -> None:
        """
        It listens where it is told to, and keeps its questions out of the log.
        """
        reactor = MemoryReactorClock()

        listen(reactor, "127.0.0.2", 8881, lambda: None)

        (served,) = reactor.tcpServers
        port, interface = served[0], served[3]
        site: Any = served[1]
        self.assertEqual((port, interface), (8881, "127.0.0.2"))
        with capture_logs() as logs:
            site.log(None)
        self.assertEqual(logs, [])
        self.assertFalse(site.displayTracebacks)
