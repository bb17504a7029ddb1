"""
Tests for any number of operations in as few transactions as possible.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from tests.test_consul_requester import ScriptedTransport, ok, said
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.encoding import encode_body
from voltha_coord.consul.model import Entry, Op
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transaction import (
    MAX_BODY_BYTES,
    MAX_OPERATIONS,
    IFence,
    Send,
    Transaction,
    TransactionOutcome,
    pack,
)
from voltha_coord.consul.transport import NotConnected, Response
from voltha_coord.errors import (
    AccessDenied,
    ConsulError,
    ConsulUnavailable,
    Refusal,
    RequestTimedOut,
    TransactionRefused,
    ValueTooLarge,
)


def puts(count: int, size: int = 0) -> list[Op]:
    """
    Make writes.
    """
    return [Op.set(f"k{i}", b"x" * size) for i in range(count)]


@implementer(IFence)
class CountingFence:
    """
    A fence whose record moves with each chunk.
    """

    def __init__(self, *known: bool | Exception | None) -> None:
        self.index = 10
        self.known = list(known)
        self.results: list[Sequence[Entry]] = []
        self.turns: list[Deferred[None]] = []

    def turn(self, send: Send) -> Deferred[Any]:
        """
        Let it send, at once or when the test says so.
        """
        if not self.turns:
            return send()
        return self.turns.pop(0).addCallback(lambda _: send())

    def ops(self) -> tuple[Op, ...]:
        """
        Hold the leader key, and write the record.
        """
        return (
            Op.check_session("leader", "s"),
            Op.cas("term", b"{}", self.index),
        )

    def applied(self, results: Sequence[Entry]) -> None:
        """
        Follow the record.
        """
        self.results.append(results)
        self.index = results[1].modify_index

    def resolve(self) -> Deferred[bool | None]:
        """
        Say what the script says.
        """
        known = self.known.pop(0)
        if isinstance(known, Exception):
            return fail(known)
        if known:
            self.index += 100
        return succeed(known)


class PackTests(SynchronousTestCase):
    """
    Dividing operations into chunks.
    """

    def test_none(self) -> None:
        """
        Nothing is no chunk.
        """
        self.assertEqual(pack([]), [])

    def test_operations(self) -> None:
        """
        A chunk has 64 operations, less those reserved.
        """
        self.assertEqual([len(c) for c in pack(puts(130))], [64, 64, 2])
        self.assertEqual(
            [len(c) for c in pack(puts(130), reserved_operations=2)], [62, 62, 6]
        )

    def test_exact_limit(self) -> None:
        """
        A body of exactly 512 KiB is one chunk, a byte more is two.
        """
        fill = Op.set("k", b"x" * 300_000)
        frame = len(encode_body([fill, Op.set("k2", b"")]))
        rest = MAX_BODY_BYTES - frame
        last = Op.set("k2", b"x" * (rest // 4 * 3))
        padded = Op.set("k2" + "y" * (rest % 4), last.value or b"")

        (whole,) = pack([fill, padded])
        more = pack([fill, Op.set(padded.key + "y", padded.value or b"")])

        self.assertEqual(len(encode_body(whole)), MAX_BODY_BYTES)
        self.assertEqual(len(more), 2)

    def test_too_large(self) -> None:
        """
        An operation that fits nowhere is an error naming it.
        """
        error = self.assertRaises(
            ValueTooLarge, pack, [*puts(3), Op.set("huge", b"x" * 400_000)]
        )
        self.assertIn("'huge'", str(error))

    def test_group(self) -> None:
        """
        A group stays in one chunk, and moves to the next one whole.
        """
        group = tuple(puts(10))

        chunks = pack([*puts(60), group, *puts(4)])

        self.assertEqual([len(c) for c in chunks], [60, 14])
        self.assertEqual(chunks[1][:10], group)

    def test_group_too_large(self) -> None:
        """
        A group that fits nowhere is an error.
        """
        self.assertRaises(ValueTooLarge, pack, [tuple(puts(65))])

    def test_empty_group(self) -> None:
        """
        A group of nothing adds nothing.
        """
        self.assertEqual(pack([()]), [])

    @given(
        st.lists(
            st.builds(
                lambda key, size: Op.set(key, b"x" * size),
                st.text(min_size=1, max_size=5),
                st.integers(0, 200_000),
            ),
            max_size=12,
        ),
        st.integers(0, 3),
    )
    @settings(max_examples=40, deadline=None)
    def test_any(self, ops: list[Op], reserved: int) -> None:
        """
        Every chunk fits, order is kept, and no two neighbours would fit into
        one.
        """
        chunks = pack(ops, reserved_operations=reserved)

        self.assertEqual([op for chunk in chunks for op in chunk], ops)
        for chunk in chunks:
            self.assertLessEqual(len(chunk), MAX_OPERATIONS - reserved)
            self.assertLessEqual(len(encode_body(chunk)), MAX_BODY_BYTES)
        for one, other in pairwise(chunks):
            self.assertGreater(len(encode_body([*one, other[0]])), MAX_BODY_BYTES)

    def test_fast(self) -> None:
        """
        10,000 small operations are packed in well under 100 ms.
        """
        ops = [
            Op.set(f"service/voltha/assignments/m{i % 10}/device_group_{i:05d}", b"")
            for i in range(10_000)
        ]

        seconds = []
        for _ in range(3):
            began = perf_counter()
            pack(ops, reserved_operations=2)
            seconds.append(perf_counter() - began)

        self.assertLess(min(seconds), 0.1)


class TransactionTests(SynchronousTestCase):
    """
    Applying chunk by chunk, and saying what was applied.
    """

    def run_over(
        self,
        ops: Sequence[Op | tuple[Op, ...]],
        *script: Response | Exception | Deferred[Response],
        fence: CountingFence | None = None,
    ) -> TransactionOutcome:
        """
        Run over a script.
        """
        self.transport = ScriptedTransport(*script)
        api = ConsulApi(Requester([self.transport]))
        return self.successResultOf(Transaction(api, ops, fence=fence).run())

    def applied(self, *indexes: int) -> Response:
        """
        Make a good answer, with so many results.
        """
        rows = [{"KV": {"Key": "k", "ModifyIndex": index}} for index in indexes]
        return ok({"Results": rows, "Errors": None})

    def refused(self, *positions: int) -> Response:
        """
        Make a refusal.
        """
        errors = [{"OpIndex": p, "What": "no"} for p in positions]
        return said(409, json.dumps({"Results": None, "Errors": errors}))

    def test_fence_is_a_fence(self) -> None:
        """
        The double provides what it says.
        """
        self.assertTrue(verifyObject(IFence, CountingFence()))

    def test_nothing(self) -> None:
        """
        Nothing to do sends nothing, and is complete.
        """
        outcome = self.run_over([])

        self.assertEqual(outcome, TransactionOutcome(0, 0))
        self.assertTrue(outcome.complete)

    def test_all(self) -> None:
        """
        All chunks are sent, each once.
        """
        outcome = self.run_over(puts(130), *[self.applied()] * 3)

        self.assertEqual(outcome, TransactionOutcome(130, 130))
        self.assertEqual(
            [len(json.loads(r.body)) for r in self.transport.requests], [64, 64, 2]
        )

    def test_one_after_the_other(self) -> None:
        """
        A chunk is sent when the one before is answered.
        """
        first: Deferred[Response] = Deferred()
        self.transport = ScriptedTransport(first, self.applied())
        transaction = Transaction(ConsulApi(Requester([self.transport])), puts(100))
        self.assertEqual(transaction.requests, 2)
        run = transaction.run()

        self.assertEqual(len(self.transport.requests), 1)
        first.callback(self.applied())

        self.assertEqual(self.successResultOf(run).applied, 100)

    def test_fenced(self) -> None:
        """
        Every chunk is led by the fence, as it is by then.
        """
        fence = CountingFence()

        outcome = self.run_over(
            puts(100), self.applied(3, 20, 20), self.applied(3, 30, 30), fence=fence
        )

        bodies = [json.loads(r.body) for r in self.transport.requests]
        self.assertEqual([len(b) for b in bodies], [64, 40])
        self.assertEqual([b[1]["KV"]["Index"] for b in bodies], [10, 20])
        self.assertEqual(fence.index, 30)
        self.assertEqual(outcome.applied, 100)

    def test_refused(self) -> None:
        """
        A refused chunk ends the run; positions count in what was given.
        """
        outcome = self.run_over(puts(200), self.applied(), self.refused(1, 5))

        self.assertEqual(
            (outcome.applied, outcome.total, outcome.unknown), (64, 200, 0)
        )
        self.assertEqual(
            outcome.refusals, (Refusal(65, "k65", "no"), Refusal(69, "k69", "no"))
        )
        self.assertTrue(outcome.refused)
        self.assertFalse(outcome.fenced_off)
        self.assertFalse(outcome.complete)

    def test_fenced_off(self) -> None:
        """
        A refused fence is told from a refused operation.
        """
        outcome = self.run_over(
            puts(100), self.applied(3, 20), self.refused(1), fence=CountingFence()
        )

        self.assertEqual(outcome.refusals, (Refusal(-1, "term", "no"),))
        self.assertTrue(outcome.fenced_off)
        self.assertEqual(outcome.applied, 62)

    def test_lost_without_fence(self) -> None:
        """
        A lost reply leaves the chunk unknown.
        """
        outcome = self.run_over(puts(200), self.applied(), RequestTimedOut("late"))

        self.assertEqual((outcome.applied, outcome.unknown), (64, 64))
        self.assertIsInstance(outcome.error, RequestTimedOut)

    def test_not_connected(self) -> None:
        """
        Without a connection nothing was sent, and nothing is unknown.
        """
        outcome = self.run_over(puts(200), self.applied(), NotConnected("refused"))

        self.assertEqual((outcome.applied, outcome.unknown), (64, 0))

    def test_denied(self) -> None:
        """
        A denied chunk is not applied.
        """
        outcome = self.run_over(puts(10), said(403, "Permission denied"))

        self.assertEqual((outcome.applied, outcome.unknown), (0, 0))
        self.assertIsInstance(outcome.error, AccessDenied)
        self.assertFalse(outcome.refused)

    def test_lost_but_applied(self) -> None:
        """
        When the fence finds the lost chunk applied, the run goes on.
        """
        fence = CountingFence(True)

        outcome = self.run_over(
            puts(100), said(500, "rpc error"), self.applied(3, 120), fence=fence
        )

        self.assertEqual(outcome, TransactionOutcome(100, 100))
        self.assertEqual(
            json.loads(self.transport.requests[1].body)[1]["KV"]["Index"], 110
        )
        self.assertEqual(len(fence.results), 1)

    def test_lost_and_not_applied(self) -> None:
        """
        When it finds it not applied, the run ends with that certainty.
        """
        outcome = self.run_over(
            puts(100), RequestTimedOut("late"), fence=CountingFence(False)
        )

        self.assertEqual((outcome.applied, outcome.unknown), (0, 0))
        self.assertIsInstance(outcome.error, RequestTimedOut)

    def test_lost_and_unresolved(self) -> None:
        """
        When it cannot tell, or fails to ask, the chunk is unknown.
        """
        for known in (None, ConsulUnavailable("still gone")):
            outcome = self.run_over(
                puts(100), RequestTimedOut("late"), fence=CountingFence(known)
            )
            self.assertEqual((outcome.applied, outcome.unknown), (0, 62))

    def test_too_large(self) -> None:
        """
        What fits nowhere is found before anything is sent.
        """
        transport = ScriptedTransport()
        ops = [*puts(100), Op.set("huge", b"x" * 500_000)]

        error = self.assertRaises(
            ValueTooLarge, Transaction, ConsulApi(Requester([transport])), ops
        )

        self.assertIsInstance(error, ConsulError)
        self.assertEqual(transport.requests, [])

    def test_room_for_the_fence(self) -> None:
        """
        With its fence a full chunk still fits, when the indexes have grown.
        """
        fence = CountingFence()
        lead = fence.ops()
        value = b"x" * 390_000
        spare = MAX_BODY_BYTES - len(encode_body([*lead, Op.set("", value)]))
        full = Op.set("k" * spare, value)
        self.assertEqual(len(encode_body([*lead, full])), MAX_BODY_BYTES)
        api = ConsulApi(Requester([ScriptedTransport()]))

        self.assertRaises(ValueTooLarge, Transaction, api, [full], fence=fence)
        less = Op.set("k" * (spare - 64), value)
        Transaction(api, [less], fence=fence)
        fence.index = 2**63

        self.assertLess(len(encode_body([*fence.ops(), less])), MAX_BODY_BYTES)

    def test_cancel(self) -> None:
        """
        A cancelled run cancels its request, and sends no more.
        """
        transport = ScriptedTransport(Deferred())
        run = Transaction(ConsulApi(Requester([transport])), puts(100)).run()

        run.cancel()

        self.failureResultOf(run, CancelledError)
        self.assertEqual(len(transport.requests), 1)

    def test_waits_for_its_turn(self) -> None:
        """
        A chunk is made when it is its turn, and led by the fence as it is then.
        """
        fence = CountingFence()
        second: Deferred[None] = Deferred()
        fence.turns = [succeed(None), second]
        self.transport = ScriptedTransport(self.applied(3, 20), self.applied(3, 40))
        api = ConsulApi(Requester([self.transport]))
        run = Transaction(api, puts(100), fence=fence).run()
        self.assertEqual(len(self.transport.requests), 1)
        fence.index = 30

        second.callback(None)

        self.assertEqual(self.successResultOf(run).applied, 100)
        self.assertEqual(
            json.loads(self.transport.requests[1].body)[1]["KV"]["Index"], 30
        )

    def test_no_turn(self) -> None:
        """
        Where the fence gives no turn nothing is sent, and the run fails so.
        """
        fence = CountingFence()
        fence.turns = [fail(ConsulUnavailable("not now"))]
        transport = ScriptedTransport()

        run = Transaction(ConsulApi(Requester([transport])), puts(1), fence=fence).run()

        self.failureResultOf(run, ConsulUnavailable)
        self.assertEqual(transport.requests, [])

    def test_refusal_without_words(self) -> None:
        """
        A refusal that names nothing is still one.
        """
        outcome = self.run_over(puts(1), self.refused())

        self.assertIsInstance(outcome.error, TransactionRefused)
        self.assertEqual(outcome.refusals, ())
