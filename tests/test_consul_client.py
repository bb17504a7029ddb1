"""
Tests for what is mended in python-consul2's endpoints, over a scripted
transport.
"""

from __future__ import annotations

import json
from typing import Any

import consul as python_consul
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from tests.test_consul_requester import Scripted, ScriptedTransport, ok, said
from voltha_coord.consul.client import DEFAULT_WAIT, MAX_WAIT, Consul
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.token import TokenSource
from voltha_coord.consul.transport import Lane, Request
from voltha_coord.errors import (
    AccessDenied,
    BadRequest,
    ConsulUnavailable,
    KeyNotFound,
    NoClusterLeader,
    RequestTimedOut,
    TransactionRefused,
)


class ClientTests(SynchronousTestCase):
    """
    What goes out, and what errors come back.
    """

    def client(self, *script: Scripted, **settings: Any) -> Consul:
        """
        Make a client over a script.
        """
        self.transport = ScriptedTransport(*script)
        return Consul(
            Requester([self.transport], **settings),
            command_timeout=10.0,
            watch_margin=5.0,
        )

    @property
    def sent(self) -> Request:
        """
        The only request that was sent.
        """
        (request,) = self.transport.requests
        return request

    def result(self, result: Deferred[Any]) -> Any:
        """
        Give what it fired with.
        """
        return self.successResultOf(result)

    def test_is_python_consul(self) -> None:
        """
        It is python-consul2's class, with all of its endpoints.
        """
        client = self.client()

        self.assertIsInstance(client, python_consul.base.Consul)
        self.assertIsInstance(client.session, python_consul.base.Consul.Session)

    def test_parameters_once(self) -> None:
        """
        A read's parameters go out once.
        """
        client = self.client(ok([], 3))

        self.result(client.kv.get("k", index="2", wait="10s", recurse=True))

        self.assertEqual(
            self.sent.params, (("index", "2"), ("wait", "10s"), ("recurse", "1"))
        )

    def test_datacenter_once(self) -> None:
        """
        A datacenter goes out once, also with a renewal and a listing.
        """
        client = self.client(ok([{"ID": "s"}]))
        self.result(client.session.renew("s", dc="east"))
        self.assertEqual(self.sent.params, (("dc", "east"),))
        client = self.client(ok([], 3), datacenter="east")
        self.result(client.session.list())
        self.assertEqual(self.sent.params, (("dc", "east"),))
        client = self.client(ok({"ID": "s"}), datacenter="east")
        self.result(client.session.create(dc="west"))
        self.assertEqual(self.sent.params, (("dc", "west"),))

    def test_repeated_parameters(self) -> None:
        """
        Parameters that are meant to repeat do.
        """
        client = self.client(ok([], 3))

        self.result(client.catalog.nodes(node_meta={"a": "1", "b": "2"}))

        self.assertEqual(self.sent.params, (("node-meta", "a:1"), ("node-meta", "b:2")))

    def test_default_wait(self) -> None:
        """
        A blocking read that does not say how long to wait does not wait for
        Consul's five minutes (B10, V7).
        """
        client = self.client(ok([], 3))

        self.result(client.kv.get("k", index=2))

        self.assertEqual(self.sent.params, (("index", "2"), ("wait", "30s")))
        self.assertEqual(self.sent.deadline, DEFAULT_WAIT * 17 / 16 + 5.0)
        self.assertIs(self.sent.lane, Lane.APPLICATION)

    def test_given_wait(self) -> None:
        """
        The deadline follows the wait, up to the longest there is.
        """
        for wait, seconds in (("5m", 300), ("1h", MAX_WAIT), ("-1s", MAX_WAIT)):
            client = self.client(ok([], 3))
            self.result(client.kv.get("k", index=2, wait=wait))
            self.assertEqual(self.sent.deadline, seconds * 17 / 16 + 5.0)

    def test_bad_wait(self) -> None:
        """
        A wait without a unit is refused, as Consul does, but at once.
        """
        client = self.client()

        self.failureResultOf(client.kv.get("k", index=2, wait="10"), BadRequest)

        self.assertEqual(self.transport.requests, [])

    def test_not_blocking(self) -> None:
        """
        Without an index, or with 0, a read does not block.
        """
        for index in (None, 0, "0"):
            client = self.client(ok([], 3))
            self.result(client.kv.get("k", index=index))
            self.assertIs(self.sent.lane, Lane.COMMAND)
            self.assertEqual(self.sent.deadline, 10.0)

    def test_session_lane(self) -> None:
        """
        What keeps a session alive goes where nothing holds it up.
        """
        client = self.client(ok([{"ID": "s"}]))
        self.result(client.session.renew("s"))
        self.assertIs(self.sent.lane, Lane.SESSION)
        client = self.client(said(200))
        self.result(client.agent.check.ttl_pass("c"))
        self.assertIs(self.sent.lane, Lane.SESSION)

    def test_session_create(self) -> None:
        """
        A session says all it means: lock-delay and no checks, or these alone.
        """
        for arguments, body in (
            (
                {},
                {
                    "LockDelay": "15s",
                    "Behavior": "release",
                    "NodeChecks": [],
                    "ServiceChecks": [],
                },
            ),
            (
                {
                    "name": "n",
                    "node": "here",
                    "checks": ["c"],
                    "lock_delay": 0,
                    "behavior": "delete",
                    "ttl": 10,
                },
                {
                    "Name": "n",
                    "Node": "here",
                    "LockDelay": "0s",
                    "Behavior": "delete",
                    "TTL": "10s",
                    "NodeChecks": ["c"],
                    "ServiceChecks": [],
                },
            ),
        ):
            keywords: Any = arguments
            client = self.client(ok({"ID": "s"}))
            session_id = self.result(client.session.create(**keywords))
            self.assertEqual(session_id, "s")
            self.assertEqual(json.loads(self.sent.body), body)

    def test_token(self) -> None:
        """
        The requester's token goes out, unless the call has one.
        """
        client = self.client(
            ok(True), ok(True), ok({"ID": "s"}), token=TokenSource("t0")
        )

        self.result(client.kv.put("k", "v"))
        self.result(client.kv.put("k", "v", token="t1"))
        self.result(client.session.create(token="t2"))

        self.assertEqual(
            [r.headers["X-Consul-Token"] for r in self.transport.requests],
            ["t0", "t1", "t2"],
        )

    def test_errors(self) -> None:
        """
        Whatever python-consul2 would raise is ours, and still its own.
        """
        for answer, kind, theirs in (
            (said(500, "No cluster leader"), NoClusterLeader, None),
            (said(403), AccessDenied, python_consul.ACLPermissionDenied),
            (said(400), BadRequest, python_consul.base.BadRequest),
            (said(409, '{"Errors": []}'), TransactionRefused, None),
            (RequestTimedOut("late"), RequestTimedOut, python_consul.Timeout),
        ):
            failure = self.failureResultOf(self.client(answer).kv.get("k"), kind)
            self.assertIsInstance(failure.value, python_consul.ConsulException)
            if theirs is not None:
                self.assertIsInstance(failure.value, theirs)

    def test_missing_session(self) -> None:
        """
        A renewal of a session that is gone is python-consul's NotFound.
        """
        client = self.client(said(404, "Session id 's' not found"))

        failure = self.failureResultOf(client.session.renew("s"), KeyNotFound)

        self.assertIsInstance(failure.value, python_consul.NotFound)
        self.assertIn("not found", str(failure.value))

    def test_unknown_answers(self) -> None:
        """
        No answer makes a stray error (field report 97).
        """
        for body in ("", "[", "<html>", "17", '{"a": 1}', "[17]", '[{"Value": 3}]'):
            for headers in ({}, {"x-consul-index": "3"}):
                client = self.client(said(200, body, headers))
                self.failureResultOf(client.kv.get("k"), ConsulUnavailable)
        self.failureResultOf(
            self.client(said(200, "{}")).session.create(), ConsulUnavailable
        )

    def test_binary(self) -> None:
        """
        An answer that is no text is handed over as it is.
        """
        client = self.client(ok(None))
        self.transport.script = [
            type(ok(None))(200, {}, b"\x1f\x8b\xff"),
        ]

        self.assertEqual(self.result(client.snapshot.get()), b"\x1f\x8b\xff")

    def test_post(self) -> None:
        """
        Endpoints that POST do.
        """
        client = self.client(ok({"ID": "q"}))

        self.result(client.query.create("service"))

        self.assertEqual((self.sent.method, self.sent.path), ("POST", "/v1/query"))
