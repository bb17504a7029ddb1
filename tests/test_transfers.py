"""
Tests for requests to hand leadership over, as operators write them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.records import TransferRequest
from voltha_coord.settings import Settings

from .support.embedded import ClusterTestCase, Once, to, writes
from .support.working import operations

#: A request is answered in this time, in seconds.
SOON = 0.2


class TransferTests(ClusterTestCase):
    """
    Requests under ``intent/transfer``.
    """

    settings = Settings(resync_interval=3600.0)

    def setUp(self) -> None:
        """
        Let ``a`` lead, and ``b`` follow.
        """
        super().setUp()
        self.key = self.cluster.keys.transfer
        self.a = self.lead("a")
        self.b = self.cluster.add("b")
        self.cluster.until(lambda: self.b.is_ready)
        self.cluster.advance(5)

    def request(self, target: str = "b", **fields: Any) -> TransferRequest:
        """
        Give a request to the leader.
        """
        token = self.a.lease.token
        assert token is not None
        return evolve(TransferRequest(target, token, "r1"), **fields)

    def ask(self, request: TransferRequest | bytes) -> None:
        """
        Write a request.
        """
        value = request if isinstance(request, bytes) else request.encode()
        self.cluster.result(self.cluster.api.put(self.key, value))

    def found(self) -> TransferRequest | None:
        """
        Read what stands under the key.
        """
        entry = self.cluster.entry(self.key)
        return None if entry is None else TransferRequest.from_entry(entry)

    def refusal(self) -> str:
        """
        Wait for a refusal, and give its reason; the leader leads on.
        """
        self.cluster.until(lambda: self.refused_request() is not None, 3)
        found = self.refused_request()
        assert found is not None and found.refused is not None
        self.assertTrue(self.a.is_leader)
        return found.refused

    def refused_request(self) -> TransferRequest | None:
        """
        Read the request if it was refused.
        """
        found = self.found()
        return None if found is None or found.refused is None else found

    def gone(self) -> float:
        """
        Wait until the key is gone, and give how long that took.
        """
        return self.cluster.until(lambda: self.cluster.entry(self.key) is None, 3)

    def sent(self, member: Coordinator, wanted: Callable[[Request], bool]) -> list[Any]:
        """
        Remember from now on what a member sends of some kind.
        """
        found: list[Any] = []

        def note(request: Request) -> float:
            if wanted(request):
                found.append(operations(request))
            return 0.0

        self.cluster.network(member).latency = note
        return found

    # Carried out.

    def test_named(self) -> None:
        """
        The leader that is asked hands over to the member that is named; the
        request is deleted in the same transaction.
        """
        sent = self.sent(self.a, writes(self.key))
        self.ask(self.request())

        took = self.cluster.until(lambda: self.b.is_leader, 3)

        self.assertLess(took, SOON)
        self.assertEqual(self.found(), None)
        (ops,) = sent
        self.assertEqual(
            [op.verb for op in ops if op.key == self.key], ["check-index", "delete"]
        )
        self.assertIn("lock", [op.verb for op in ops])

    def test_any(self) -> None:
        """
        Without a target any member that can lead is meant.
        """
        self.ask(self.request(""))

        self.cluster.until(lambda: self.b.is_leader, 3)

    def test_to_whoever_leads(self) -> None:
        """
        To hand over to the leader itself is done at once: the request is gone.
        """
        self.ask(self.request("a"))

        self.assertLess(self.gone(), SOON)

        self.assertTrue(self.a.is_leader)

    def test_reply_lost(self) -> None:
        """
        A request is carried out once, whatever becomes of the replies.
        """
        self.cluster.network(self.a).loses_reply = Once(writes(self.key), times=9)
        self.ask(self.request())

        self.cluster.until(lambda: self.b.is_leader, 3)
        self.cluster.advance(10)

        self.assertEqual(self.cluster.leaders, [self.b])
        self.assertEqual(self.found(), None)
        self.assertEqual(len(self.logged("leadership-handed-over")), 1)

    def test_pass_hangs(self) -> None:
        """
        It is carried out beside a pass that hangs.
        """
        self.cluster.network(self.a).loses_request = lambda r: (
            len([op for op in operations(r) if op.verb == "get-tree"]) > 3
        )
        self.cluster.put_work("x")
        self.cluster.advance(3.5)
        self.ask(self.request())

        took = self.cluster.until(lambda: self.b.is_leader, 3)

        self.assertLess(took, SOON)

    def test_no_pass(self) -> None:
        """
        A request is no reason for a pass, nor a stray or unreadable key to one.
        """
        self.ask(self.request("zz"))
        sent = self.sent(self.a, lambda r: len(operations(r)) > 3)
        self.refusal()
        self.cluster.advance(5)

        self.assertEqual(sent, [])
        self.cluster.put_work("x")
        self.cluster.advance(5)
        self.assertEqual(self.logged("stray-keys"), [])
        self.assertEqual(self.logged("unreadable-values"), [])

    # Refused.

    def test_refused(self) -> None:
        """
        A refusal is written back with its reason, behind the fence, for whoever
        asked to read and to delete.
        """
        sent = self.sent(self.a, writes(self.key))
        self.ask(self.request("zz", extra={"by": "op"}))

        self.assertEqual(self.refusal(), "'zz' is no living member")

        found = self.found()
        assert found is not None
        self.assertEqual(
            found,
            self.request("zz", extra={"by": "op"}, refused="'zz' is no living member"),
        )
        (ops,) = sent
        self.assertEqual([op.verb for op in ops], ["check-session", "cas", "cas"])
        self.cluster.advance(5)
        self.assertEqual(self.found(), found)

    def test_asked_again(self) -> None:
        """
        Who was refused may ask again, over the refusal or once it is deleted.
        """
        self.ask(self.request("zz"))
        self.refusal()

        self.ask(self.request(id="r2"))

        self.cluster.until(lambda: self.b.is_leader, 3)

    def test_denied(self) -> None:
        """
        What cannot be read is a reason, too.
        """
        members = self.cluster.keys.members
        self.cluster.consul.deny = lambda resource, name, access, token: (
            name.startswith(members) and access == "read"
        )
        self.ask(self.request())

        self.assertIn(members, self.refusal())

    def test_answer_denied(self) -> None:
        """
        An answer that may not be written is said once.
        """
        self.cluster.network(self.a).latency = lambda request: 0.05
        self.ask(self.request("zz"))
        self.cluster.consul.deny = lambda resource, name, access, token: (
            name == self.key and access == "write"
        )

        self.cluster.advance(5)

        (said,) = self.logged("transfer-request-not-answered")
        self.assertEqual(said["action"], f"delete {self.key}")
        self.assertTrue(self.a.is_leader)

    def test_withdrawn(self) -> None:
        """
        A request that was taken back before it was carried out is not.
        """
        self.cluster.network(self.a).latency = lambda r: (
            0.1 if writes(self.key)(r) else 0.0
        )
        self.ask(self.request())
        self.cluster.advance(0.05)
        self.cluster.result(self.cluster.api.delete(self.key))

        self.cluster.advance(5)

        self.assertEqual((self.a.is_leader, self.found()), (True, None))

    def test_thought_better_of(self) -> None:
        """
        So it is while the members are still being read; the next request has
        its turn at once.
        """
        looks = Once(lambda r: len(operations(r)) == 3)
        self.cluster.network(self.a).loses_reply = looks
        self.ask(self.request(""))
        self.cluster.advance(0.05)
        self.assertEqual(looks.met, 1)
        self.ask(self.request("zz", id="r2"))

        took = self.cluster.until(lambda: self.refused_request(), 3)

        self.assertLess(took, 0.6)
        self.assertTrue(self.a.is_leader)

    def test_consul_away(self) -> None:
        """
        A request that cannot be looked into for the moment is carried out
        later.
        """
        self.cluster.network(self.a).loses_reply = Once(
            lambda r: len(operations(r)) == 3
        )
        self.ask(self.request())

        took = self.cluster.until(lambda: self.b.is_leader, 5)

        self.assertGreater(took, 1.5)

    # Deleted.

    def test_other_leader(self) -> None:
        """
        A request, or a refusal, meant for another leader is deleted, and not
        acted upon.
        """
        for request in (
            self.request(token=3),
            self.request(token=3, refused="no"),
        ):
            del self.logs[:]
            self.ask(request)

            self.assertLess(self.gone(), 1.0)

            self.cluster.advance(1)
            self.assertTrue(self.a.is_leader)
            (said,) = self.logged("transfer-request-dropped")
            self.assertIn("another term", said["reason"])

    def test_next_leader(self) -> None:
        """
        The next leader deletes what an earlier one refused and nobody read.
        """
        self.ask(self.request("zz"))
        self.refusal()
        self.cluster.result(self.a.transfer_leadership())

        self.cluster.until(lambda: self.found() is None, 3)

        self.assertTrue(self.b.is_leader)

    def test_malformed(self) -> None:
        """
        G9: what is no request is deleted, and nothing else comes of it.
        """
        for value in (b"", b"b", b"\xff{", b"[]", b'{"target":"b"}', b'{"id":"x"}'):
            self.ask(value)

            self.assertLess(self.gone(), 1.0)
            self.cluster.advance(1)

        self.assertEqual(len(self.logged("transfer-request-dropped")), 6)
        self.assertTrue(self.a.is_leader)
        self.assertEqual(self.logged("task-failed"), [])

    def test_deleting_tried_again(self) -> None:
        """
        What could not be deleted for the moment is deleted later.
        """
        self.cluster.network(self.a).loses_request = Once(writes(self.key), times=2)
        self.ask(b"?")

        self.cluster.until(lambda: self.cluster.entry(self.key) is None, 60)

    def test_already_there(self) -> None:
        """
        A request that was there before the leader looked is answered as well.
        """
        watch = to(f"kv/{self.cluster.keys.intent}", "GET")
        self.cluster.network(self.b).latency = lambda r: 0.5 if watch(r) else 0.0
        self.cluster.result(self.a.transfer_leadership())
        self.cluster.until(lambda: self.b.is_leader, 1)
        token = self.b.lease.token
        assert token is not None
        self.ask(TransferRequest("a", token, "r2"))

        self.cluster.until(lambda: self.a.is_leader, 3)

    def test_shut_down(self) -> None:
        """
        A leader that shuts down with a request under way leaves nothing behind.
        """
        self.cluster.network(self.a).latency = lambda r: (
            0.1 if len(operations(r)) == 3 else 0.0
        )
        self.ask(self.request())
        self.cluster.advance(0.05)

        self.cluster.result(self.a.shutdown())

        self.cluster.advance(0.02)
        self.assertEqual(self.cluster.left_behind(self.a), (0, 0))
        self.cluster.until(lambda: self.b.is_leader, 1)
