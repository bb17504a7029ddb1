"""
Tests for listings from which Consul has left something out.
"""

from __future__ import annotations

from collections.abc import Mapping

from structlog.testing import capture_logs
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord.consul.filtered import SAID, Filtered
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transport import ITransport, Request, Response

WORK = Request("GET", "/v1/kv/service/voltha/work/", (("recurse", None),))
HEADER = "x-consul-results-filtered-by-acls"
LEFT_OUT = {"x-consul-index": "7", HEADER: "true"}
WHOLE = {"x-consul-index": "7"}


def answer(headers: Mapping[str, str], status: int = 200) -> Response:
    """
    Give an answer with those headers.
    """
    return Response(status, headers, b"[]")


@implementer(ITransport)
class Answering:
    """
    Answers everything in one way.
    """

    def __init__(self, response: Response) -> None:
        self._response = response

    def request(self, request: Request) -> Deferred[Response]:
        """
        Give the answer.
        """
        return succeed(self._response)

    def close(self) -> Deferred[None]:
        """
        There is nothing to close.
        """
        return succeed(None)


class FilteredTests(SynchronousTestCase):
    """
    What is counted, and what is said.
    """

    def setUp(self) -> None:
        """
        Begin without any.
        """
        self.logs = self.enterContext(capture_logs())
        self.filtered = Filtered()

    def said(self) -> list[str]:
        """
        Give the prefixes that were said to be filtered.
        """
        return [e["prefix"] for e in self.logs if e["event"] == "listing-filtered"]

    def test_said_once(self) -> None:
        """
        Each is counted; each prefix is said once, loudly, with what to do
        (field report 106).
        """
        for _ in range(3):
            self.filtered.look(WORK, answer(LEFT_OUT))

        self.assertEqual(self.filtered.count, 3)
        self.assertEqual(self.said(), ["service/voltha/work/"])
        self.assertEqual(self.logs[0]["log_level"], "warning")
        self.assertIn("action", self.logs[0])

    def test_said_again(self) -> None:
        """
        A prefix that was listed whole in between is said again.
        """
        for headers in (LEFT_OUT, WHOLE, LEFT_OUT):
            self.filtered.look(WORK, answer(headers))

        self.assertEqual(len(self.said()), 2)

    def test_nothing_is_left(self) -> None:
        """
        A listing that looks empty since nothing of it may be read counts too.
        """
        self.filtered.look(WORK, answer(LEFT_OUT, 404))

        self.assertEqual(self.filtered.count, 1)

    def test_whole(self) -> None:
        """
        What is whole, by a Consul that says so and by one that does not know the
        header, is neither counted nor said.
        """
        for headers in (WHOLE, {**LEFT_OUT, HEADER: "false"}):
            self.filtered.look(WORK, answer(headers))

        self.assertEqual((self.filtered.count, self.logs), (0, []))

    def test_checks_of_a_node(self) -> None:
        """
        Other people's services are left out of a node's checks as a rule.
        """
        self.filtered.look(Request("GET", "/v1/health/node/n1"), answer(LEFT_OUT))

        self.assertEqual((self.filtered.count, self.logs), (0, []))

    def test_bounded(self) -> None:
        """
        However many prefixes are filtered, only so many are remembered.
        """
        for number in range(3 * SAID):
            path = f"/v1/kv/service/voltha/{number}/"
            self.filtered.look(Request("GET", path), answer(LEFT_OUT))

        self.assertEqual(len(self.said()), 3 * SAID)
        self.assertEqual(len(self.filtered._said), SAID)

    def test_every_answer_is_looked_at(self) -> None:
        """
        A requester counts the filtered listings among all its answers.
        """
        requester = Requester([Answering(answer(LEFT_OUT))])
        self.successResultOf(requester.request(WORK))

        self.assertEqual(requester.filtered.count, 1)
