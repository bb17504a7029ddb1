"""
Tests for asking the leader to hand leadership over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from voltha_coord.consul.model import Entry
from voltha_coord.consul.transport import Request
from voltha_coord.records import TermRecord, TransferRequest

from .support.commands import ClusterCommandTestCase, CommandTestCase
from .support.keyspace import KEYS, leads, member, original


class TransferTestCase(CommandTestCase):
    """
    Three members as keys alone; the test is the leader that is asked.
    """

    def setUp(self) -> None:
        """
        Let the first member lead.
        """
        super().setUp()
        self.put(*(member(f"m{n}") for n in (1, 2, 3)), *leads("m1"))
        #: What the leader does with the request once it sees it.
        self.leader: Callable[[Entry, TransferRequest], None] | None = None
        self.asked: list[TransferRequest] = []

    def request(self) -> Entry | None:
        """
        Give the key of the request.
        """
        found = self.consul.state.kv.walk(KEYS.transfer)
        return next(iter(found), None)

    def passed(self) -> None:
        """
        Let the leader act on a request, once.
        """
        entry = self.request()
        if entry is None:
            return
        request = TransferRequest.from_entry(entry)
        if request.refused is None and request not in self.asked:
            self.asked.append(request)
            if self.leader is not None:
                self.leader(entry, request)

    def hands_to(self, id: str, token: int = 5000) -> None:
        """
        Let leadership pass to a member, and the request be gone with it.
        """
        self.remove(KEYS.transfer)
        self.put(*leads(id, token))

    def refuses(self, why: str) -> Callable[[Entry, TransferRequest], None]:
        """
        Give a leader that refuses.
        """

        def answer(entry: Entry, request: TransferRequest) -> None:
            value = evolve(request, refused=why).encode()
            self.put(Entry(entry.key, value))

        return answer


class TransferTests(TransferTestCase):
    """
    ``transfer``, and each answer there may be.
    """

    def test_done(self) -> None:
        """
        The leader of the term is asked by its token; it is done once the target
        leads, in a term of its own.
        """
        self.leader = lambda entry, request: self.hands_to("m2")
        document = self.document("transfer", "m2")

        self.assertEqual([(r.target, r.token) for r in self.asked], [("m2", 4711)])
        self.assertLess(document.pop("seconds"), 0.5)
        self.assertEqual(
            document,
            {
                "leader_id": "m2",
                "fencing_token": 5000,
                "before": "m1",
                "asked": True,
            },
        )
        self.assertIsNone(self.request())

    def test_shown(self) -> None:
        """
        People are told who leads, who did, and how long it took.
        """
        self.leader = lambda entry, request: self.hands_to("m3")

        self.assertRegex(
            self.done("transfer"),
            r"^m3 leads after 0\.\d s, as m1 did; fencing token 5000\n$",
        )
        self.assertEqual(self.asked[0].target, "")

    def test_each_request_is_its_own(self) -> None:
        """
        No two requests have one id.
        """
        self.leader = lambda entry, request: self.hands_to("m2")
        self.done("transfer", "m2")
        self.leader = lambda entry, request: self.hands_to("m1", 5001)
        self.done("transfer", "m1")

        self.assertEqual(len({request.id for request in self.asked}), 2)

    def test_not_before_its_term(self) -> None:
        """
        Holding the leader key is not yet leading: the term record is waited
        for.
        """

        def hand_over(entry: Entry, request: TransferRequest) -> None:
            self.remove(KEYS.transfer)
            self.put(leads("m2")[0])

        self.leader = hand_over
        refused = self.refused("transfer", "m2", "--timeout", "2")

        self.assertEqual(
            refused, "m2 holds the leader key, but has not begun to lead within 2 s"
        )

    def test_leads_already(self) -> None:
        """
        To the one that leads already it is done, and nothing is written.
        """
        before = self.writes()

        self.assertEqual(self.done("transfer", "m1"), "m1 leads already\n")
        self.assertFalse(self.document("transfer", "m1")["asked"])
        self.assertEqual(self.writes(), before)

    def test_refused_at_once(self) -> None:
        """
        Who cannot lead is refused at once, with the reason, and nothing is
        written.
        """
        self.put(
            member("m2", can_lead=False),
            member("m3", leaving=True),
            member("m4", session=None),
            original("m5"),
            member("m6"),
            Entry(KEYS.node_intent("m6"), b"leave"),
        )
        before = self.writes()
        for target, words in (
            ("m2", "m2 never leads"),
            ("m3", "m3 is leaving"),
            ("m4", "m4 is no living member"),
            ("m5", "m5 is an original"),
            ("m6", "m6 is wanted away"),
            ("m9", "m9 is no living member (there are m1, m2, m3 and 2 more)"),
        ):
            self.assertIn(words, self.refused("transfer", target))
        self.assertEqual(self.refused("transfer"), "no other member can lead")
        self.assertEqual(self.writes(), before)
        self.assertLess(self.clock.seconds(), 1.0)

    def test_nobody_to_ask(self) -> None:
        """
        Without a leader that can be asked it is refused at once.
        """
        key, term = leads("m1")
        other = leads("m2")[1]
        for entries, words in (
            ((), "nobody leads"),
            ((Entry(KEYS.leader, b"m1"),), "nobody leads"),
            ((key,), "m1 leads without a term record"),
            ((original("m1"), key, term), "m1, which leads, is an original"),
            ((member("m1"), key, other), "m1 has not begun its term yet"),
            (
                (Entry(KEYS.leader, b"x\x1b", session="s"), term),
                "x, which holds the leader key, is no member",
            ),
        ):
            self.remove(KEYS.leader, KEYS.term)
            self.put(*entries)
            before = self.writes()
            self.assertIn(words, self.refused("transfer", "m3"))
            self.assertEqual(self.writes(), before)

    def test_maintenance(self) -> None:
        """
        A member in maintenance can lead.
        """
        self.put(Entry(KEYS.node_intent("m2"), b"maintenance"))
        self.leader = lambda entry, request: self.hands_to("m2")

        self.assertEqual(self.document("transfer", "m2")["leader_id"], "m2")

    def test_leader_refuses(self) -> None:
        """
        What the leader says why not is told, and the request is deleted.
        """
        self.leader = self.refuses("m2 is not\x1b[2J ready")

        self.assertEqual(self.refused("transfer", "m2"), "m2 is not [2J ready")
        self.assertIsNone(self.request())
        self.assertLess(self.clock.seconds(), 1.0)

    def test_no_answer(self) -> None:
        """
        When the time is over the request is taken back.
        """
        self.assertEqual(
            self.refused("transfer", "m2"),
            "m1 has not answered within 10 s; the request is taken back",
        )
        self.assertEqual(len(self.asked), 1)
        self.assertIsNone(self.request())
        self.assertLess(self.clock.seconds(), 10.5)

    def test_last_moment(self) -> None:
        """
        A leader that hands over just when the time is over has done it.
        """

        def hand_over(entry: Entry, request: TransferRequest) -> None:
            self.clock.callLater(0.5, self.hands_to, "m2")

        self.leader = hand_over
        self.assertEqual(
            self.document("transfer", "m2", "--timeout", "0.5")["leader_id"], "m2"
        )

    def test_dropped(self) -> None:
        """
        A request that is gone while the leader leads on was not acted upon.
        """
        self.leader = lambda entry, request: self.remove(KEYS.transfer)

        self.assertEqual(
            self.refused("transfer", "m2", "--timeout", "1"),
            "the request is gone, but m1 still leads after 1 s",
        )

    def test_nobody_follows(self) -> None:
        """
        A leader that is gone meanwhile, without another, is told so.
        """
        self.leader = lambda entry, request: self.remove(KEYS.leader, KEYS.transfer)

        self.assertEqual(
            self.refused("transfer", "m2", "--timeout", "1"),
            "m1 leads no more, but nobody else has begun to within 1 s",
        )

    def test_somebody_else(self) -> None:
        """
        When another member than the target comes to lead, or the same one
        anew, that is no success.
        """
        self.leader = lambda entry, request: self.hands_to("m3")
        self.assertEqual(self.refused("transfer", "m2"), "m3 leads now, not m2")

        def begin_anew(entry: Entry, request: TransferRequest) -> None:
            key, term = leads("m3", 6000)
            record = evolve(TermRecord.from_entry(term), session="another")
            self.put(
                key._replace(session="another"), term._replace(value=record.encode())
            )

        self.leader = begin_anew
        self.assertEqual(self.refused("transfer"), "m3 has begun to lead anew")
        self.assertIsNone(self.request())


class PendingTests(TransferTestCase):
    """
    Something stands under the key already.
    """

    def test_pending(self) -> None:
        """
        While another request waits for its answer there is no second one; how
        to be rid of it is said.
        """
        for target, words in (("m3", "to m3"), ("", "to any other")):
            pending = Entry(KEYS.transfer, TransferRequest(target, 4711, "x").encode())
            self.put(pending)
            refused = self.refused("transfer", "m2")

            self.assertIn(
                f"m1 is asked already to hand leadership over {words}", refused
            )
            self.assertIn(f"consul kv delete {KEYS.transfer}", refused)
            entry = self.request()
            assert entry is not None
            self.assertEqual(entry.value, pending.value)

    def test_left_over(self) -> None:
        """
        What nobody waits for any more is written over: a refusal, a request to
        an earlier leader, what is no request.
        """
        for value in (
            TransferRequest("m3", 4711, "x", "no").encode(),
            TransferRequest("m3", 4710, "x").encode(),
            b"junk",
        ):
            self.put(Entry(KEYS.transfer, value), *leads("m1"))
            self.leader = lambda entry, request: self.hands_to("m2")
            self.passed_over = value
            self.assertEqual(self.document("transfer", "m2")["leader_id"], "m2")

    def passed(self) -> None:
        """
        Let the leader act on a request of this test alone.
        """
        entry = self.request()
        if entry is not None and entry.value != getattr(self, "passed_over", b""):
            super().passed()

    def test_answer_to_another(self) -> None:
        """
        What is answered to somebody else is no answer to us, and stays.
        """
        other = TransferRequest("m3", 4711, "other", "no").encode()
        self.leader = lambda entry, request: self.put(Entry(KEYS.transfer, other))

        self.assertEqual(
            self.refused("transfer", "m2", "--timeout", "1"),
            "the request is gone, but m1 still leads after 1 s",
        )
        entry = self.request()
        assert entry is not None
        self.assertEqual(entry.value, other)

    def test_race_in_the_end(self) -> None:
        """
        A request is taken back by its index: what comes in its place just then
        stays.
        """
        other = TransferRequest("m3", 4711, "other").encode()

        def ask_first(request: Request) -> None:
            if request.method == "DELETE":
                self.put(Entry(KEYS.transfer, other))

        self.consul.transport.sending = ask_first
        self.refused("transfer", "m2", "--timeout", "1")
        entry = self.request()
        assert entry is not None
        self.assertEqual(entry.value, other)

    def test_race(self) -> None:
        """
        Of two that ask at one moment one is refused, and the other's request
        stays.
        """
        theirs = Entry(KEYS.transfer, TransferRequest("m3", 4711, "x").encode())

        def ask_first(request: Request) -> None:
            if request.method == "PUT" and request.path == f"/v1/kv/{KEYS.transfer}":
                self.put(theirs)

        self.consul.transport.sending = ask_first
        self.assertIn("somebody else asks", self.refused("transfer", "m2"))
        entry = self.request()
        assert entry is not None
        self.assertEqual(entry.value, theirs.value)


class InterruptedTests(TransferTestCase):
    """
    Whoever asked waits no longer.
    """

    def run_action(self, target: Any, action: Any) -> Any:
        """
        Do an action until a signal comes, and let it put things in order, as
        the real command does.
        """
        results: list[Any] = []
        doing: Deferred[Any] = action(self.consul.api(), KEYS)
        doing.addBoth(results.append)
        while not self.asked and not results:
            self.clock.advance(0.01)
            self.passed()
        doing.cancel()
        while not results:
            self.clock.advance(0.01)
        if isinstance(results[0], Failure) and results[0].check(CancelledError):
            raise KeyboardInterrupt
        return results[0]

    def test_taken_back(self) -> None:
        """
        The request is taken back.
        """
        result = self.call("transfer", "m2")

        self.assertEqual((result.exit_code, result.stdout), (1, ""))
        self.assertIn("Aborted!", result.stderr)
        self.assertEqual(len(self.asked), 1)
        self.assertIsNone(self.request())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_consul_away(self) -> None:
        """
        When Consul does not answer then, it is not waited for long.
        """
        self.leader = lambda entry, request: self.consul.state.lose_leader()
        before = self.clock.seconds()
        result = self.call("transfer", "m2")

        self.assertEqual((result.exit_code, result.stderr), (1, "Aborted!\n"))
        self.assertLess(self.clock.seconds() - before, 2.5)


class ClusterTests(ClusterCommandTestCase):
    """
    Leaders that are asked.
    """

    def test_transfer(self) -> None:
        """
        The leader hands over to the member that is named, at once, and work
        goes on where it runs.
        """
        self.add("a", "b", "c")
        self.cluster.put_work("x", "y", "z")
        self.cluster.advance(6)
        owners = self.cluster.owners()
        (before,) = self.cluster.leaders
        target = "b" if before.instance_id != "b" else "c"
        document = self.document("transfer", target)

        (after,) = self.cluster.leaders
        self.assertEqual(after.instance_id, target)
        self.assertEqual(document["fencing_token"], after.lease.token)
        self.assertLess(document["seconds"], 1.0)
        self.assertIsNone(self.cluster.entry(KEYS.transfer))
        self.cluster.advance(5)
        self.assertEqual(self.cluster.owners(), owners)

    def test_any(self) -> None:
        """
        Without a target another member leads.
        """
        self.add("a", "b")
        (before,) = self.cluster.leaders
        document = json.loads(self.call("--json", "transfer").stdout)

        (after,) = self.cluster.leaders
        self.assertEqual(document["before"], before.instance_id)
        self.assertEqual(document["leader_id"], after.instance_id)
        self.assertIsNot(after, before)

    def test_paused(self) -> None:
        """
        A leader that stands still does not answer; the request is taken back,
        and it leads on once it goes on.
        """
        self.add("a", "b")
        (before,) = self.cluster.leaders
        self.cluster.pause(before)
        refused = self.refused("transfer", "--timeout", "0.5")
        self.cluster.resume(before)
        self.cluster.advance(3)

        self.assertIn(f"{before.instance_id} has not answered within 0.5 s", refused)
        self.assertEqual(self.cluster.leaders, [before])
