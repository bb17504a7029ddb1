"""
The contract of TTL checks and the sessions bound to them: specs 4.2.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from voltha_coord._types import Steps

from .base import ContractBase


def _status(wanted: str) -> Any:
    return lambda check: check is not None and check["Status"] == wanted


class CheckContract(ContractBase):
    """
    A service with a TTL check, its life in agent and catalog, and what it does
    to sessions.
    """

    @inlineCallbacks
    def test_lapse_ends_session(self) -> Steps[None]:
        """
        4.2: a check that is not passed in time turns critical, with an output
        that begins "TTL expired", and ends its session at once.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id, TTL="300ms")
        session_id = yield self.bound_session(check_id, Behavior="delete")
        yield self.calls.put(self.key("a"), b"v", acquire=session_id)
        yield self.calls.report("pass", check_id)
        before = yield self.calls.alive(session_id)
        after = yield self.eventually(
            lambda: self.calls.alive(session_id), lambda alive: not alive
        )
        check = yield self.calls.check(check_id)
        key = yield self.calls.get(self.key("a"))

        self.assertEqual((before, after), (True, False))
        assert check is not None
        self.assertEqual(check["Status"], "critical")
        self.assertTrue(check["Output"].startswith("TTL expired"), check)
        self.assertEqual(key.status, 404)
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_pass_keeps_session(self) -> Steps[None]:
        """
        4.2: a check that is passed in time keeps its session.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id, TTL="400ms")
        session_id = yield self.bound_session(check_id)
        for _ in range(4):
            yield self.backend.wait(0.15)
            passed = yield self.calls.report("pass", check_id)
            self.assertEqual(passed.status, 200)
        alive = yield self.calls.alive(session_id)

        self.assertTrue(alive)
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_warning_is_fine_and_failing_is_not(self) -> Steps[None]:
        """
        4.2: a warning leaves the session, a failure ends it; the output is the
        note.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id)
        session_id = yield self.bound_session(check_id)
        yield self.calls.report("warn", check_id, note="so so")
        check = yield self.eventually(
            lambda: self.calls.check(check_id), _status("warning")
        )
        warned = yield self.calls.alive(session_id)
        yield self.calls.report("fail", check_id)
        yield self.eventually(lambda: self.calls.alive(session_id), lambda x: not x)
        failed = yield self.calls.check(check_id)

        self.assertTrue(warned)
        self.assertEqual(check["Output"], "so so")
        assert failed is not None
        self.assertEqual((failed["Status"], failed["Output"]), ("critical", ""))
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_update(self) -> Steps[None]:
        """
        4.2: update sets status and output together.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id)
        yield self.calls.ask(
            "PUT",
            f"/v1/agent/check/update/{check_id}",
            {"Status": "warning", "Output": "text"},
        )
        check = yield self.eventually(
            lambda: self.calls.check(check_id), _status("warning")
        )

        self.assertEqual(check["Output"], "text")
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_deregistering_ends_session(self) -> Steps[None]:
        """
        4.2: a bound check that is deregistered ends the session.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id)
        session_id = yield self.bound_session(check_id)
        gone = yield self.calls.deregister(check_id)
        yield self.eventually(lambda: self.calls.alive(session_id), lambda x: not x)
        check = yield self.calls.check(check_id)

        self.assertEqual(gone.status, 200)
        self.assertIsNone(check)

    @inlineCallbacks
    def test_critical_check_cannot_be_bound(self) -> Steps[None]:
        """
        4.2: a TTL check registered without a status starts critical, and a
        session cannot be bound to a critical check.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id, Status=None)
        yield self.eventually(lambda: self.calls.check(check_id), _status("critical"))
        answer = yield self.calls.try_session(ServiceChecks=[{"ID": check_id}])

        self.assertEqual(
            (answer.status, answer.text),
            (500, f"Check '{check_id}' is in critical state"),
        )
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_service_check_among_node_checks(self) -> Steps[None]:
        """
        4.2: NodeChecks take the id of a service check too; a session may be
        bound to one check alone.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id)
        answer = yield self.eventually(
            lambda: self.calls.try_session(NodeChecks=[check_id]),
            lambda answer: answer.status == 200,
        )
        info = yield self.calls.ask("GET", f"/v1/session/info/{answer.json['ID']}")

        self.assertEqual(info.json[0]["NodeChecks"], [check_id])
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_check_of_the_node(self) -> Steps[None]:
        """
        4.2: a check registered by itself is one of the node, and NodeChecks
        bind a session to it.  It needs node:write, which a member does not
        have.
        """
        check_id = self.check_id()
        path = "/v1/agent/check"

        def administer(name: str, body: object = None) -> Deferred[None]:
            return self.backend.administer("PUT", f"{path}/{name}", body)

        yield administer(
            "register",
            {"ID": check_id, "Name": "m1", "TTL": "30s", "Status": "passing"},
        )
        self.addCleanup(administer, f"deregister/{check_id}")
        answer = yield self.eventually(
            lambda: self.calls.try_session(NodeChecks=[check_id]),
            lambda answer: answer.status == 200,
        )
        session_id = answer.json["ID"]
        checks = yield self.calls.ask("GET", f"/v1/health/node/{self.backend.node}")
        yield administer(f"warn/{check_id}")
        warned = yield self.calls.alive(session_id)
        yield administer(f"fail/{check_id}")
        yield self.eventually(lambda: self.calls.alive(session_id), lambda x: not x)

        (check,) = (c for c in checks.json if c["CheckID"] == check_id)
        self.assertEqual((check["Name"], check["ServiceID"]), ("m1", ""))
        self.assertTrue(warned)

    @inlineCallbacks
    def test_unknown_check(self) -> Steps[None]:
        """
        4.2: passing a check the agent does not know answers 500, and 404 in
        newer versions.
        """
        answer = yield self.calls.report("pass", self.check_id("none"))

        # An ACL is asked first, of the node: newer versions say so with 403.
        self.assertIn(answer.status, (403, 404, 500))
        self.assertIn(self.check_id("none"), answer.text)

    @inlineCallbacks
    def test_registering_again_keeps_status(self) -> Steps[None]:
        """
        4.2: registering a service again keeps its check's status, whatever is
        asked for: the session survives, and a critical check stays critical
        until it is passed.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id)
        session_id = yield self.bound_session(check_id)
        yield self.calls.register(check_id, Status=None)
        yield self.backend.wait(0.1)
        survived = yield self.calls.alive(session_id)
        yield self.calls.report("fail", check_id)
        yield self.eventually(lambda: self.calls.check(check_id), _status("critical"))
        yield self.calls.register(check_id, Status="passing")
        yield self.backend.wait(0.1)
        still = yield self.calls.check(check_id)
        yield self.calls.report("pass", check_id)
        yield self.eventually(lambda: self.calls.check(check_id), _status("passing"))

        self.assertTrue(survived)
        assert still is not None
        self.assertEqual(still["Status"], "critical")
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_late_pass(self) -> Steps[None]:
        """
        Measured later: a pass after the lapse is answered 200 though the
        session is over.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id, TTL="300ms")
        session_id = yield self.bound_session(check_id)
        yield self.eventually(
            lambda: self.calls.alive(session_id), lambda alive: not alive
        )
        passed = yield self.calls.report("pass", check_id)
        check = yield self.eventually(
            lambda: self.calls.check(check_id), _status("passing")
        )
        alive = yield self.calls.alive(session_id)

        self.assertEqual((passed.status, alive), (200, False))
        self.assertEqual(check["CheckID"], check_id)
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_service_in_health(self) -> Steps[None]:
        """
        4.6: ``health/service`` shows the service with node and checks, and
        with ``passing`` only while all its checks pass.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id)
        yield self.eventually(lambda: self.calls.check(check_id), _status("passing"))
        path = "/v1/health/service/voltha-coord"
        everything = yield self.calls.ask("GET", path)
        well = yield self.calls.ask("GET", path, passing=True)
        yield self.calls.report("fail", check_id)
        yield self.eventually(lambda: self.calls.check(check_id), _status("critical"))
        ill = yield self.calls.ask("GET", path, passing=True)

        def ids(answer: Any) -> list[str]:
            return [row["Service"]["ID"] for row in answer.json]

        (row,) = (r for r in everything.json if r["Service"]["ID"] == check_id)
        self.assertEqual(row["Node"]["Node"], self.backend.node)
        self.assertIn(check_id, [check["CheckID"] for check in row["Checks"]])
        self.assertIn(check_id, ids(well))
        self.assertNotIn(check_id, ids(ill))
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def test_health_of_node(self) -> Steps[None]:
        """
        4.6: ``health/node`` shows the checks of a node, serfHealth among them.
        """
        answer = yield self.calls.ask("GET", f"/v1/health/node/{self.backend.node}")

        found = {check["CheckID"]: check["Status"] for check in answer.json}
        self.assertEqual(found["serfHealth"], "passing")

    @inlineCallbacks
    def test_acknowledged_with_nothing(self) -> Steps[None]:
        """
        A pass is acknowledged with an empty answer.  Like every answer, of a
        read and of an error too, it names what it varies by: nothing else tells
        it from what a proxy may say.
        """
        yield self.calls.register(self.check_id())
        passed = yield self.calls.report("pass", self.check_id())
        read = yield self.calls.get(self.key("none"))
        wrong = yield self.calls.report("pass", self.check_id("other"))

        self.assertEqual((passed.status, passed.body), (200, b""))
        self.assertNotEqual(wrong.status, 200)
        for answer in (passed, read, wrong):
            self.assertEqual(answer.headers["vary"], "Accept-Encoding")

    @inlineCallbacks
    def test_agent_self(self) -> Steps[None]:
        """
        4.6: ``agent/self`` shows the node's name, the version and the raft
        timing.
        """
        answer = yield self.calls.ask("GET", "/v1/agent/self")

        self.assertEqual(answer.json["Config"]["NodeName"], self.backend.node)
        self.assertRegex(answer.json["Config"]["Version"], r"^\d+\.\d+\.\d+")
        self.assertIn("SessionTTLMin", answer.json["DebugConfig"])
        self.assertIn("ConsulRaftElectionTimeout", answer.json["DebugConfig"])

    @inlineCallbacks
    def test_status_leader(self) -> Steps[None]:
        """
        4.6: ``status/leader`` names where the leader is.
        """
        answer = yield self.calls.ask("GET", "/v1/status/leader")

        self.assertRegex(answer.json, r"^127\.0\.0\.1:\d+$")
