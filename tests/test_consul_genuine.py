"""
Tests for whether Consul itself has answered.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.genuine import Genuine
from voltha_coord.consul.transport import Request, Response

PASS = Request("PUT", "/v1/agent/check/pass/x")
READ = Request("GET", "/v1/kv/x")
RENEW = Request("PUT", "/v1/session/renew/x")


class GenuineTests(SynchronousTestCase):
    """
    Answers that may be Consul's, and answers that are not.
    """

    def setUp(self) -> None:
        """
        Know nothing yet.
        """
        self.genuine = Genuine()

    def fault(self, request: Request, body: bytes = b"", **headers: str) -> str:
        """
        Say what is wrong with a success; nothing for all is well.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.genuine.fault(request, Response(200, named, body)) or ""

    def test_empty_where_consul_is_not(self) -> None:
        """
        Where Consul answers with content an empty answer is not its own.
        """
        for path in (
            "kv/x",
            "txn",
            "session/renew/x",
            "health/node/x",
            "status/leader",
        ):
            self.assertIn("nothing", self.fault(Request("PUT", f"/v1/{path}")), path)
        self.assertEqual(self.fault(RENEW, b"[]"), "")

    def test_empty_key(self) -> None:
        """
        A raw key without content has an index all the same.
        """
        self.assertEqual(self.fault(READ, x_consul_index="7"), "")

    def test_empty_acknowledgement(self) -> None:
        """
        An agent acknowledges a pass with nothing at all.
        """
        self.assertEqual(self.fault(PASS), "")
        self.assertEqual(self.fault(PASS, vary="Accept-Encoding"), "")

    def test_html(self) -> None:
        """
        A page is a proxy's, unless it lies under a key.
        """
        self.assertIn("HTML", self.fault(PASS, b"<html>welcome"))
        self.assertIn("HTML", self.fault(RENEW, b"ok", content_type="text/html"))
        self.assertEqual(self.fault(READ, b"<html>"), "")

    def test_another_voice(self) -> None:
        """
        Once an agent's reads have named what they vary by, an empty answer
        that does not is somebody else's.
        """
        self.fault(READ, b"[]", x_consul_index="7", vary="Accept-Encoding")

        self.assertEqual(self.fault(PASS, vary="Accept-Encoding"), "")
        self.assertIn("not in the way", self.fault(PASS))
        self.assertIn("not in the way", self.fault(PASS, vary="Origin"))

    def test_a_proxy_that_adds_to_the_voice(self) -> None:
        """
        A proxy may let what it packs vary by more, and empty answers not.
        """
        for added in ("Accept-Encoding, Accept-Encoding", "accept-encoding,Origin"):
            self.fault(READ, b"[]", x_consul_index="7", vary=added)

            self.assertEqual(self.fault(PASS, vary="Accept-Encoding"), "", added)
            self.assertIn("not in the way", self.fault(PASS, vary="*"), added)

    def test_an_agent_that_changed_its_voice(self) -> None:
        """
        What counts is how it answered last: an agent may be replaced by one of
        another version.
        """
        self.fault(READ, b"[]", x_consul_index="7", vary="Accept-Encoding")
        self.fault(READ, b"[]", x_consul_index="8")

        self.assertEqual(self.fault(PASS), "")

    def test_errors_are_judged_elsewhere(self) -> None:
        """
        An answer that is no success is taken by its status.
        """
        answer = Response(500, {}, b"<html>")

        self.assertIsNone(self.genuine.fault(PASS, answer))
