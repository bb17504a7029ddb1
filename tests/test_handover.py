"""
Tests for handing leadership over, with whole members.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from voltha_coord._types import Steps
from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.consul.transaction import Transaction
from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.embedded.timeline import ProcessClock
from voltha_coord.errors import (
    AccessDenied,
    ConsulError,
    ConsulUnavailable,
    LeaseOverError,
    NotLeading,
    ShutDownError,
    TransferRefused,
)
from voltha_coord.events import Event, LeaderChanged, RoleChanged
from voltha_coord.heir import HEIR_SECONDS
from voltha_coord.passing import ATTEMPTS, WRITE_SECONDS
from voltha_coord.records import Member, TermRecord
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster

from .contract.backends import real_reactor
from .support.embedded import ClusterTestCase, Once, to, writes
from .support.real_consul import shared_consul
from .support.working import operations

#: Histories of a minute or so.
SEEDS = 5


def hands_over(request: Request) -> bool:
    """
    Whether it is the transaction of a hand-over.
    """
    verbs = [op.verb for op in operations(request)]
    return "unlock" in verbs and "lock" in verbs


def looks(request: Request) -> bool:
    """
    Whether it is the read that comes before a hand-over.
    """
    ops = operations(request)
    return bool(ops) and all(op.verb == "get-tree" for op in ops) and len(ops) == 3


def no_request(request: Request) -> bool:
    """
    Let nothing happen to any request.
    """
    return False


class HandOverCase(ClusterTestCase):
    """
    Has a leader ``a`` and other members, and checks at every moment that at
    most one leads.
    """

    settings = Settings(resync_interval=3600.0)

    def setUp(self) -> None:
        """
        Make the cluster.
        """
        super().setUp()
        self.watch_over()

    def watch_over(self) -> None:
        """
        From now on look at every moment who leads.
        """
        heap = self.cluster.clock.heap
        step = heap.step

        def watched(until: float) -> ProcessClock | None:
            happened = step(until)
            leaders = [m.instance_id for m in self.cluster.leaders]
            self.assertLess(len(leaders), 2, "G1: two lead")
            return happened

        heap.step = watched  # type: ignore[method-assign]  # seen from here

    def members(self, *others: str, **kw: Any) -> list[Coordinator]:
        """
        Let ``a`` lead, and others follow.
        """
        leader = self.lead("a")
        followers = [self.cluster.add(name, **kw) for name in others]
        self.cluster.until(lambda: all(m.is_ready for m in followers))
        self.cluster.advance(1.5)
        return [leader, *followers]

    def transfer(self, leader: Coordinator, to: str | None = None) -> float:
        """
        Hand leadership over, and give the seconds until somebody else leads.
        """
        began = self.cluster.clock.seconds()
        self.cluster.result(leader.transfer_leadership(to))
        self.assertFalse(leader.is_leader)
        self.cluster.until(lambda: bool(self.cluster.leaders), 10)
        return self.cluster.clock.seconds() - began

    def refused(
        self, leader: Coordinator, to: str | None = None, error: type = TransferRefused
    ) -> str:
        """
        Have a hand-over refused, check that the leader leads on in the same
        term, and give the reason.
        """
        token = leader.lease.token
        with self.assertRaises(error) as told:
            self.cluster.result(leader.transfer_leadership(to), 30)
        self.assertEqual((leader.is_leader, leader.lease.token), (True, token))
        return str(told.exception)

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

    def record(self) -> TermRecord:
        """
        Read the term record.
        """
        entry = self.cluster.entry(self.cluster.keys.term)
        assert entry is not None
        return TermRecord.from_entry(entry)

    def put(self, key: str, value: bytes, **kw: Any) -> None:
        """
        Write a key as anybody could.
        """
        self.cluster.result(self.cluster.api.put(key, value, **kw))

    def stranger(self) -> str:
        """
        Give the session of somebody who is no member.
        """
        spec = SessionSpec("stranger", ttl=3600, lock_delay=0)
        session: str = self.cluster.result(self.cluster.api.create_session(spec))
        return session

    def assert_quiet(self, member: Coordinator) -> None:
        """
        Check that nothing is left under way once a member has shut down.
        """
        self.cluster.result(member.shutdown())
        self.cluster.advance(0.02)
        self.assertEqual(self.cluster.left_behind(member), (0, 0))


class NamedTests(HandOverCase):
    """
    To a member that is named.
    """

    def test_leads_next(self) -> None:
        """
        The member that is named leads at once, with a higher token; the one
        before follows it, and everybody knows.
        """
        a, b, c = self.members("b", "c")
        token = a.lease.token or 0

        took = self.transfer(a, "c")

        self.assertLess(took, 0.1)
        self.assertEqual([m.instance_id for m in self.cluster.leaders], ["c"])
        self.assertGreater(c.lease.token or 0, token)
        self.cluster.advance(1)
        self.assertEqual(
            [m.role for m in (a, b, c)], ["follower", "follower", "leader"]
        )
        self.assertEqual({m.leader_id for m in (a, b, c)}, {"c"})

    def test_never_nobody(self) -> None:
        """
        Nobody sees a moment without a leader: the key passes from hand to hand.
        """
        a, b, c = self.members("b", "c")
        told: list[Event] = []
        for member in (a, b, c):
            member.listen(told.append)

        self.transfer(a, "b")
        self.cluster.advance(1)

        changes = [event for event in told if isinstance(event, LeaderChanged)]
        self.assertEqual(changes, [LeaderChanged("b", "a")] * 3)

    def test_back_again(self) -> None:
        """
        Who handed over is a candidate like any other: it may be handed
        leadership the next moment.
        """
        a, b = self.members("b")
        self.transfer(a, "b")
        self.cluster.advance(1.5)

        took = self.transfer(b, "a")

        self.assertLess(took, 0.2)
        self.assertTrue(a.is_leader)

    def test_takes_over_when_the_heir_dies(self) -> None:
        """
        Who handed over does not pause: when the heir dies it leads again.
        """
        a, b = self.members("b")
        self.transfer(a, "b")

        self.cluster.crash(b)
        took = self.cluster.until(lambda: a.is_leader, 10)

        settings = Settings()
        self.assertLess(took, settings.failure_detection + settings.lock_delay + 0.3)

    def test_roles(self) -> None:
        """
        Listeners are told of the new roles, and of nothing that was not so.
        """
        a, b = self.members("b")
        roles: dict[str, list[str]] = {"a": [], "b": []}

        def told(name: str, event: Event) -> None:
            if isinstance(event, RoleChanged):
                roles[name].append(event.role)

        for member in (a, b):
            member.listen(partial(told, member.instance_id))

        self.transfer(a, "b")
        self.cluster.advance(1)

        self.assertEqual(roles["a"][-1], "follower")
        self.assertNotIn("leader", roles["a"])
        self.assertEqual(roles["b"][-1], "leader")
        self.assertEqual(roles["b"].count("leader"), 1)

    def test_said(self) -> None:
        """
        Each side says once what happened, and nobody warns of anything.
        """
        a, _ = self.members("b")
        del self.logs[:]

        self.transfer(a, "b")
        self.cluster.advance(1)

        (begun,) = self.logged("handing-over-leadership")
        (done,) = self.logged("leadership-handed-over")
        (lost,) = self.logged("lost-leadership")
        self.assertEqual((begun["target"], done["target"]), ("b", "b"))
        self.assertEqual(lost["reason"], "handed-over")
        self.assertEqual(len(self.logged("became-leader", instance_id="b")), 1)
        loud = [
            e["event"] for e in self.logs if e["log_level"] not in ("info", "debug")
        ]
        self.assertEqual(loud, [])

    def test_work_stays(self) -> None:
        """
        No item is stopped or moved because leadership is handed over.
        """
        a, b = self.members("b")
        self.cluster.put_work("x", "y")
        self.cluster.until(lambda: len(b.worker.my_workload) == 1)
        self.cluster.advance(1)
        before = {e.key: e.modify_index for e in self.cluster.entries("")}

        self.transfer(a, "b")
        self.cluster.advance(5)

        after = {e.key: e.modify_index for e in self.cluster.entries("")}
        moved = {key for key in after if after[key] != before.get(key)}
        keys = self.cluster.keys
        self.assertEqual(moved, {keys.leader, keys.term})

    def test_to_oneself(self) -> None:
        """
        To hand over to oneself is a success that does nothing.
        """
        a, _ = self.members("b")
        sent = self.sent(a, lambda request: request.path == "/v1/txn")

        self.assertEqual(self.successResultOf(a.transfer_leadership("a")), None)

        self.assertEqual((a.is_leader, sent), (True, []))

    def test_one_transaction(self) -> None:
        """
        One transaction checks the key, our record and the heir's, releases the
        term, and passes the key on.
        """
        a, b = self.members("b")
        sent = self.sent(a, hands_over)
        self.transfer(a, "b")

        (ops,) = sent
        keys = self.cluster.keys
        self.assertEqual(
            [(op.verb, op.key) for op in ops],
            [
                ("check-session", keys.leader),
                ("cas", keys.term),
                ("check-index", keys.leader),
                ("check-index", keys.member("b")),
                ("unlock", keys.leader),
                ("lock", keys.leader),
            ],
        )
        self.assertTrue(json.loads(ops[1].value)["released"])
        self.assertEqual((ops[5].value, ops[5].session), (b"b", b.session_id))


class AnyTests(HandOverCase):
    """
    To any member.
    """

    def test_round(self) -> None:
        """
        Those who hand over one after the other give everybody the same turn, in
        the order of the ids.
        """
        members = {m.instance_id: m for m in self.members("c", "b")}
        led = []

        for _ in range(6):
            (leader,) = self.cluster.leaders
            led.append(leader.instance_id)
            self.transfer(members[leader.instance_id])
            self.cluster.advance(1.5)

        self.assertEqual(led, ["a", "b", "c"] * 2)

    def test_next_that_can(self) -> None:
        """
        Who cannot lead is passed over.
        """
        a, _ = self.members("b", can_lead=False)
        c = self.cluster.add("c")
        self.cluster.until(lambda: c.is_ready)

        self.transfer(a)

        self.assertTrue(c.is_leader)

    def test_nobody(self) -> None:
        """
        Where no other member can lead it is refused.
        """
        (a,) = self.members()

        self.assertEqual(self.refused(a), "no other member can lead")

    def test_another_one(self) -> None:
        """
        When the session of the one that was chosen has just ended, another one
        is tried.
        """
        a, b, c = self.members("b", "c")
        session = b.session_id
        assert session is not None

        def end(request: Request) -> float:
            if hands_over(request):
                self.cluster.consul.destroy_session(session)
            return 0.0

        self.cluster.network(a).latency = end
        self.transfer(a)

        self.assertTrue(c.is_leader)

    def test_nobody_in_the_end(self) -> None:
        """
        When all that were tried could not take over it is refused, and said
        who was tried.
        """
        a, b, c = self.members("b", "c")
        sessions = [b.session_id, c.session_id]

        def end(request: Request) -> float:
            if hands_over(request) and sessions:
                session = sessions.pop(0)
                assert session is not None
                self.cluster.consul.destroy_session(session)
            return 0.0

        self.cluster.network(a).latency = end

        self.assertEqual(
            self.refused(a), "no other member can lead; tried in vain: b, c"
        )


class RefusedTests(HandOverCase):
    """
    Who cannot be handed leadership.
    """

    def assert_refused(self, to: str, reason: str) -> None:
        """
        Check that a hand-over is refused, for a reason, and nothing written.
        """
        a = self.cluster.members["a"]
        sent = self.sent(a, hands_over)
        del self.logs[:]

        self.assertEqual(self.refused(a, to), f"{to!r} {reason}")

        self.assertEqual(sent, [])
        (said,) = self.logged("hand-over-refused")
        self.assertEqual((said["target"], said["log_level"]), (to, "warning"))
        self.assertEqual(self.logged("handing-over-leadership"), [])

    def test_unknown(self) -> None:
        """
        A member that is not there.
        """
        self.members("b")

        self.assert_refused("zz", "is no living member")
        self.assert_refused("", "is no living member")

    def test_not_alive(self) -> None:
        """
        A key that no session holds is no living member's.
        """
        self.members("b")
        self.put(self.cluster.keys.member("old"), b"alive")

        self.assert_refused("old", "is no living member")

    def test_original(self) -> None:
        """
        An original coordinator, of any age, does not notice what it is handed.
        """
        self.members()
        for name, value in (("c", b"alive"), ("d", b'{"status":"alive"}')):
            key = self.cluster.keys.member(name)
            self.put(key, value, acquire=self.stranger())

            self.assert_refused(
                name, "is an original coordinator, which nobody can hand leadership to"
            )

    def test_cannot_lead(self) -> None:
        """
        A member that takes no part in the election.
        """
        self.members("b", can_lead=False)

        self.assert_refused("b", "never leads: its can_lead is false")

    def test_leaving(self) -> None:
        """
        A member that says that it leaves.
        """
        self.members()
        record = Member("b", leaving=True, version="1").encode()
        self.put(self.cluster.keys.member("b"), record, acquire=self.stranger())

        self.assert_refused("b", "is leaving")

    def test_wanted_away(self) -> None:
        """
        A member that an operator wants away; one in maintenance may lead.
        """
        a, b = self.members("b")
        intent = self.cluster.keys.node_intent("b")
        self.put(intent, b"leave\n")
        self.assert_refused("b", "is wanted away by an operator")
        self.put(intent, b"maintenance")
        self.cluster.network(a).latency = lambda request: 0.0

        self.transfer(a, "b")

        self.assertTrue(b.is_leader)

    def test_not_leading(self) -> None:
        """
        Who does not lead can hand nothing over, not even to itself, and says
        who does.
        """
        _, b = self.members("b")

        for name in ("b", "a", None):
            failure = self.failureResultOf(b.transfer_leadership(name), NotLeading)
            self.assertEqual(failure.getErrorMessage(), "'b' does not lead: 'a' does")

    def test_nobody_leads(self) -> None:
        """
        So does who stands alone, and does not lead yet.
        """
        a = self.cluster.add("a")

        failure = self.failureResultOf(a.transfer_leadership(), NotLeading)

        self.assertEqual(failure.getErrorMessage(), "'a' does not lead")

    def test_denied(self) -> None:
        """
        A token that may not read the members, or not write the key: the error
        says so, and the leader leads on.
        """
        a, _ = self.members("b")
        consul, keys = self.cluster.consul, self.cluster.keys

        consul.deny = lambda resource, name, access, token: (
            name.startswith(keys.members) and access == "read"
        )
        self.assertIn(keys.members, self.refused(a, "b", AccessDenied))
        consul.deny = lambda resource, name, access, token: (
            name == keys.leader and access == "write"
        )
        self.refused(a, "b", AccessDenied)
        self.assertEqual(len(self.logged("hand-over-refused")), 2)

    def test_consul_away(self) -> None:
        """
        When the members cannot be read nothing is sent, and it is no reason to
        lead no more.
        """
        a, _ = self.members("b")
        self.cluster.network(a).loses_request = looks

        self.refused(a, "b", ConsulError)

        self.assertEqual(self.logged("hand-over-refused", log_level="warning"), [])


class MeanwhileTests(HandOverCase):
    """
    What happens between the look and the transaction, or the reply.
    """

    def test_dies(self) -> None:
        """
        A member whose session ends just before the transaction is refused.
        """
        a, b = self.members("b")
        session = b.session_id
        assert session is not None

        def end(request: Request) -> float:
            if hands_over(request):
                self.cluster.consul.destroy_session(session)
            return 0.0

        self.cluster.network(a).latency = end

        self.assertIn("'b' is ", self.refused(a, "b"))
        self.assertFalse(self.record().released)

    def test_leaves(self) -> None:
        """
        A member that says it leaves just before the transaction is not handed
        leadership.
        """
        a, b = self.members("b")

        def leave(request: Request) -> float:
            if hands_over(request):
                b.shutdown()
                return 0.3
            return 0.0

        self.cluster.network(a).latency = leave

        self.assertIn("'b' is ", self.refused(a, "b"))
        self.assertEqual(b.role, "stopped")

    def test_record_changes(self) -> None:
        """
        A member whose record is written anew just before is tried again.
        """
        a, b = self.members("b")
        sent: list[Request] = []

        def change(request: Request) -> float:
            if hands_over(request):
                sent.append(request)
                if len(sent) == 1:
                    b.set_weight(2.0)
                    return 0.3
            return 0.0

        self.cluster.network(a).latency = change
        self.transfer(a, "b")

        self.assertEqual((len(sent), b.is_leader), (2, True))

    def test_record_keeps_changing(self) -> None:
        """
        After three attempts it is refused.
        """
        a, b = self.members("b")
        sent: list[Request] = []

        def change(request: Request) -> float:
            if hands_over(request):
                sent.append(request)
                b.set_weight(1.0 + len(sent))
                return 0.3
            return 0.0

        self.cluster.network(a).latency = change

        self.assertIn("its record has just changed", self.refused(a, "b"))
        self.assertEqual(len(sent), ATTEMPTS)

    def test_key_overwritten(self) -> None:
        """
        A leader key that somebody writes meanwhile is read again.
        """
        a, b = self.members("b")
        once = Once(hands_over)

        def overwrite(request: Request) -> float:
            if once(request):
                self.cluster.api.put(self.cluster.keys.leader, b"who?")
                return 0.05
            return 0.0

        self.cluster.network(a).latency = overwrite
        self.transfer(a, "b")

        self.assertEqual((once.met, b.is_leader), (2, True))

    def test_term_ends(self) -> None:
        """
        When the leader key is lost before anything is sent, it is no leader any
        more that is asked.
        """
        a, _ = self.members("b")
        transfer = a.transfer_leadership("b")
        self.cluster.consul.destroy_session(a.session_id or "")

        with self.assertRaises(NotLeading):
            self.cluster.result(transfer)

    def test_lease_ends(self) -> None:
        """
        When the lease ends before it is known what came of the transaction,
        leadership is gone: whoever asked is told, and need not ask Consul.
        """
        a, b = self.members("b")
        self.cluster.network(a).loses_request = hands_over
        transfer = a.transfer_leadership("b")
        self.cluster.advance(0.1)
        self.cluster.network(a).partition()
        self.assertFalse(a.is_leader)
        self.assertNoResult(transfer)

        self.cluster.result(transfer, 4)

        self.assertEqual(a.lease.remaining, 0)
        self.cluster.until(lambda: b.is_leader, 6)

    def test_paused(self) -> None:
        """
        A process that stands still once it has sent the transaction leads no
        more when it goes on, whether it was applied or not.
        """
        for applied in (True, False):
            a, b = self.members("b")
            network = self.cluster.network(a)
            network.loses_request = Once(hands_over) if not applied else no_request
            network.reply_latency = lambda r: 0.5 if hands_over(r) else 0.0
            transfer = a.transfer_leadership("b")
            self.cluster.advance(0.02)

            self.cluster.pause(a)
            took = self.cluster.until(lambda m=b: m.is_leader, 10)  # type: ignore[misc]  # a lambda's default
            self.cluster.advance(5)
            self.cluster.resume(a)

            self.assertLess(took, 0.1 if applied else 4.5)
            self.cluster.result(transfer)
            self.assertFalse(a.is_leader)
            self.cluster.advance(3)
            self.assertEqual(self.cluster.leaders, [b])
            self.end()

    def end(self) -> None:
        """
        Let all members go, so that the next can come.
        """
        for member in tuple(self.cluster.members.values()):
            self.assert_quiet(member)
            self.cluster.crash(member)

    # Lost requests and replies.

    def test_reply_lost(self) -> None:
        """
        The reply to the transaction is lost: the key itself tells, at once, and
        the heir leads.
        """
        a, b = self.members("b")
        self.cluster.network(a).loses_reply = hands_over

        took = self.transfer(a, "b")

        self.assertLess(took, 0.1)
        self.assertTrue(b.is_leader)
        self.assertEqual(len(self.logged("leadership-handed-over")), 1)
        self.cluster.advance(5)
        self.assertEqual((a.role, self.cluster.leaders), ("follower", [b]))

    def test_reply_and_watch_lost(self) -> None:
        """
        When the key does not tell either, because its watch hangs, the term
        record does; until then nobody leads but the heir.
        """
        a, b = self.members("b")
        network = self.cluster.network(a)
        leader = f"/v1/kv/{self.cluster.keys.leader}"
        network.loses_reply = lambda r: (
            hands_over(r) or (r.path == leader and "index" in dict(r.params))
        )

        took = self.transfer(a, "b")

        self.assertLess(took, 3.0)
        self.assertTrue(b.is_leader)
        self.assertEqual(len(self.logged("leadership-handed-over")), 1)
        self.assertEqual(self.logged("lost-leadership", log_level="warning"), [])

    def test_request_lost(self) -> None:
        """
        The transaction never arrives: it is shut out, and made again.
        """
        a, b = self.members("b")
        lost = Once(hands_over)
        self.cluster.network(a).loses_request = lost
        transfer = a.transfer_leadership("b")
        self.cluster.advance(1.0)
        self.assertEqual(self.cluster.leaders, [])

        self.cluster.result(transfer)

        self.assertEqual(lost.met, 2)
        self.cluster.until(lambda: b.is_leader, 0.1)

    def test_requests_lost(self) -> None:
        """
        Once that has happened three times it is refused, and the leader leads
        on in the same term.
        """
        a, _ = self.members("b")
        lost = Once(hands_over, times=9)
        self.cluster.network(a).loses_request = lost

        self.assertIn("got lost", self.refused(a, "b"))

        self.assertEqual(lost.met, ATTEMPTS)
        self.cluster.put_work("x")
        self.cluster.until(lambda: a.worker.my_workload or self.owned("x"), 6)

    def owned(self, work: str) -> bool:
        """
        Whether somebody owns an item.
        """
        return work in self.cluster.owners()

    def test_lands_late(self) -> None:
        """
        Transactions that were given up and land once the leader leads on
        change nothing.
        """
        a, _ = self.members("b")
        network = self.cluster.network(a)
        network.latency = lambda r: 15.0 if hands_over(r) else 0.0
        network.lands_late = hands_over
        self.refused(a, "b")
        token = a.lease.token

        self.cluster.advance(20)

        self.assertEqual((a.is_leader, a.lease.token), (True, token))
        self.assertFalse(self.record().released)

    def test_no_answer_afterwards(self) -> None:
        """
        As long as nobody says what became of the transaction this member does
        not lead, and hands over to nobody else.
        """
        a, b, _ = self.members("b", "c")
        network = self.cluster.network(a)
        sent: list[Request] = []

        def away(request: Request) -> bool:
            if hands_over(request):
                sent.append(request)
            return (
                bool(sent)
                and "/session/" not in request.path
                and ("/check/" not in request.path)
            )

        network.loses_request = away
        transfer = a.transfer_leadership("b")
        self.cluster.advance(8)

        self.assertNoResult(transfer)
        self.assertEqual((a.is_leader, a.lease.token, len(sent)), (False, None, 1))
        self.assertGreater(a.lease.remaining, 0)
        sent.clear()
        network.loses_request = no_request
        self.cluster.result(transfer, 30)
        self.cluster.until(lambda: b.is_leader, 1)

    def test_no_answer_to_the_last(self) -> None:
        """
        Also what became of the last attempt is found out, however often it has
        to be asked: then the leader leads on.
        """
        a, _ = self.members("b")
        lost = Once(hands_over, times=9)
        questions: list[Request] = []
        asks = to(f"kv/{self.cluster.keys.term}", "GET")

        def every_other(request: Request) -> bool:
            if asks(request):
                questions.append(request)
            return asks(request) and len(questions) % 2 == 1

        self.cluster.network(a).loses_request = lost
        self.cluster.network(a).loses_reply = every_other

        self.assertIn("got lost", self.refused(a, "b"))

        self.assertEqual((lost.met, len(questions)), (ATTEMPTS, 2 * ATTEMPTS))

    def test_key_lost_unnoticed(self) -> None:
        """
        A leader whose watch hangs finds out, when it is to hand over, that it
        has nothing to hand over any more.
        """
        a, _ = self.members("b")
        token = a.lease.token or 0
        hung = f"/v1/kv/{self.cluster.keys.leader}"
        self.cluster.network(a).loses_reply = lambda r: r.path == hung
        self.cluster.result(self.cluster.api.delete(self.cluster.keys.leader))

        with self.assertRaises(NotLeading):
            self.cluster.result(a.transfer_leadership("b"))

        self.cluster.until(lambda: self.cluster.leaders, 5)
        self.assertGreater(self.cluster.leaders[0].lease.token or 0, token)

    def test_key_not_mended(self) -> None:
        """
        As long as it is not known who leads, a leader key that somebody
        overwrites is not mended.
        """
        a, b = self.members("b")
        keys = self.cluster.keys
        lost = Once(hands_over)
        asks = to(f"kv/{keys.term}", "GET")
        self.cluster.network(a).loses_request = lambda r: lost(r) or asks(r)
        transfer = a.transfer_leadership("b")
        self.cluster.advance(0.1)
        sent = self.sent(a, writes(keys.leader))

        self.put(keys.leader, b"who?")
        self.cluster.advance(5)

        self.assertEqual((a.leader_id, sent), ("who?", []))
        self.cluster.network(a).loses_request = no_request
        self.cluster.result(transfer, 20)
        self.cluster.until(lambda: b.is_leader, 1)

    # Other hand-overs, cancelling, shutting down.

    def test_two_at_once(self) -> None:
        """
        A second hand-over waits for the first, and then it is no leader that
        is asked.
        """
        a, _, c = self.members("b", "c")
        first, second = a.transfer_leadership("c"), a.transfer_leadership("b")

        self.cluster.result(first)

        with self.assertRaises(NotLeading):
            self.cluster.result(second)
        self.cluster.until(lambda: c.is_leader, 1)

    def test_one_at_a_time(self) -> None:
        """
        A second one says nothing about leadership as long as it is not known
        what becomes of the first.
        """
        a, b = self.members("b")
        self.cluster.network(a).latency = lambda r: 0.1 if hands_over(r) else 0.0
        self.cluster.network(a).loses_reply = hands_over
        first = a.transfer_leadership("b")
        self.cluster.advance(0.05)
        second = a.transfer_leadership("zz")
        self.cluster.advance(0.04)
        self.assertNoResult(second)

        self.cluster.result(first, 0.1)

        with self.assertRaises(NotLeading):
            self.cluster.result(second)
        self.assertTrue(b.is_leader)

    def test_second_has_its_turn(self) -> None:
        """
        When the first is refused the second has its turn.
        """
        a, b = self.members("b")
        first, second = a.transfer_leadership("zz"), a.transfer_leadership("b")

        with self.assertRaises(TransferRefused):
            self.cluster.result(first)

        self.cluster.result(second)
        self.cluster.until(lambda: b.is_leader, 1)

    def test_cancelled(self) -> None:
        """
        A hand-over that is cancelled before it was sent is called off, waiting
        for its turn or for the members.
        """
        a = self.members("b", "c")[0]
        self.cluster.network(a).reply_latency = lambda r: 0.1 if looks(r) else 0.0
        sent = self.sent(a, hands_over)
        first, second = a.transfer_leadership("b"), a.transfer_leadership("c")
        self.cluster.advance(0.05)

        for one in (second, first):
            one.cancel()
            self.failureResultOf(one, CancelledError)
        self.cluster.advance(1)

        self.assertEqual((a.is_leader, sent), (True, []))
        self.assertEqual(self.logged("hand-over-refused"), [])

    def test_cancelled_too_late(self) -> None:
        """
        One that was sent goes on: it is known what becomes of it.
        """
        a, b = self.members("b")
        self.cluster.network(a).latency = lambda r: 0.1 if hands_over(r) else 0.0
        transfer = a.transfer_leadership("b")
        self.cluster.advance(0.05)

        transfer.cancel()
        self.failureResultOf(transfer, CancelledError)
        self.cluster.advance(1)

        self.assertEqual(self.cluster.leaders, [b])
        self.assertEqual(len(self.logged("leadership-handed-over")), 1)
        self.assertEqual(self.logged("lost-leadership", log_level="warning"), [])

    def test_shut_down_before(self) -> None:
        """
        A hand-over that was not sent when the member shuts down fails as such;
        none is begun any more.
        """
        a, b = self.members("b")
        waiting = [a.transfer_leadership("b"), a.transfer_leadership("b")]

        self.assert_quiet(a)

        for one in (*waiting, a.transfer_leadership("b")):
            self.failureResultOf(one, ShutDownError)
        self.cluster.until(lambda: b.is_leader, 1)

    def test_shut_down_meanwhile(self) -> None:
        """
        A shutdown while it is under way ends both, whichever arrives first; the
        other member leads at once.
        """
        for latency, lost in ((0.05, no_request), (0.5, no_request), (0.0, hands_over)):
            a, b = self.members("b")
            network = self.cluster.network(a)
            network.latency = lambda r, s=latency: s if hands_over(r) else 0.0  # type: ignore[misc]  # a lambda's default
            network.loses_request = lost
            transfer = a.transfer_leadership("b")
            self.cluster.advance(0.02)

            ended = a.shutdown()
            self.successResultOf(transfer)
            took = self.cluster.until(lambda m=b: m.is_leader, 5)  # type: ignore[misc]  # a lambda's default

            self.assertLess(took, 0.3)
            self.cluster.result(ended)
            self.end()

    # The leader's own writes.

    def test_pass_hangs(self) -> None:
        """
        It does not wait for a pass that hangs.
        """
        a, _ = self.members("b")
        self.cluster.network(a).loses_request = lambda r: (
            b'"get-tree"' in r.body and not looks(r)
        )
        self.cluster.put_work("x")
        self.cluster.advance(3.5)

        took = self.transfer(a, "b")

        self.assertLess(took, 0.1)

    def test_write_hangs(self) -> None:
        """
        A write that hangs is given up after a second; whether it was applied is
        found out first.
        """
        for reply in (True, False):
            a, _ = self.members("b")
            network = self.cluster.network(a)
            lost = Once(writes(self.cluster.keys.assignment("a", "x")))
            network.loses_reply = lost if reply else no_request
            network.loses_request = no_request if reply else lost
            self.cluster.put_work("x")
            self.cluster.until(lambda one=lost: one.met, 5)  # type: ignore[misc]  # a lambda's default

            took = self.transfer(a, "b")

            self.assertLess(took, WRITE_SECONDS + 0.2)
            self.cluster.until(lambda: self.owned("x"), 6)
            self.assertEqual(self.logged("task-failed"), [])
            self.cluster.remove_work("x")
            self.end()

    def test_write_in_line(self) -> None:
        """
        A write that stands in line behind one that hangs is not sent before the
        leadership is with another, and so never.
        """
        a, _ = self.members("b")
        lost = Once(writes("p/x"), times=9)
        self.cluster.network(a).loses_request = lost
        term = a.term
        assert term is not None
        writing = [term.write([Op.set("p/x", b"")]) for _ in range(2)]
        self.cluster.advance(0.2)

        took = self.transfer(a, "b")

        self.assertLess(took, WRITE_SECONDS + 0.2)
        self.failureResultOf(writing[0], ConsulUnavailable)
        self.failureResultOf(writing[1], LeaseOverError)
        self.assertEqual(lost.met, 1)

    def test_bulk_write(self) -> None:
        """
        In the middle of writing ten thousand assignments it waits for one
        transaction and not for the rest, which the heir writes.
        """
        names = [f"w{number}" for number in range(10_000)]
        a, _ = self.members("b")
        for start in range(0, len(names), 1000):
            self.put_many(names[start : start + 1000])
        network = self.cluster.network(a)
        network.latency = lambda r: 0.05 if b"/assignments/" in r.body else 0.0
        self.cluster.until(lambda: self.placed() > 500, 30)

        took = self.transfer(a, "b")

        self.assertLess(took, 0.3)
        self.assertLess(self.placed(), 9_000)
        self.cluster.until(lambda: self.placed() == len(names), 60)
        self.assertEqual(self.logged("task-failed"), [])

    def put_many(self, names: list[str]) -> None:
        """
        Add work, many items at a time.
        """
        ops = [Op.set(self.cluster.keys.work_item(name), b"") for name in names]
        self.cluster.result(Transaction(self.cluster.api, ops).run(), 60)

    def placed(self) -> int:
        """
        Count the assignments.
        """
        return sum(map(len, self.cluster.assignments().values()))

    def test_writes_wait(self) -> None:
        """
        While it is not known who leads nothing is written as leader; when the
        leader leads on, its passes do.
        """
        a, _ = self.members("b")
        sent = self.sent(a, writes(self.cluster.keys.assignment("a", "x")))
        lost = Once(hands_over, times=9)
        self.cluster.network(a).loses_request = lost
        self.cluster.put_work("x")
        self.cluster.advance(2.5)
        transfer = a.transfer_leadership("b")
        self.cluster.advance(1.9)
        self.assertEqual((sent, lost.met), ([], 1))

        with self.assertRaises(TransferRefused):
            self.cluster.result(transfer, 20)
        took = self.cluster.until(lambda: self.owned("x"), 5)

        self.assertLess(took, 1.0)
        self.assertEqual(self.logged("failed-reassignment"), [])


class HeirTests(HandOverCase):
    """
    A member that finds the leader key in its hands.
    """

    def hand(self, member: Coordinator) -> None:
        """
        Put the leader key into the hands of a member, as a hand-over does, and
        without asking whether it wants it.
        """
        session = member.session_id
        assert session is not None
        keys, api = self.cluster.keys, self.cluster.api
        entry = self.cluster.entry(keys.leader)
        assert entry is not None and entry.session is not None
        released = json.loads(self.record().encode())
        released["released"] = True
        self.cluster.result(
            api.txn(
                (
                    Op.set(keys.term, json.dumps(released).encode()),
                    Op.unlock(keys.leader, b"", entry.session),
                    Op.lock(keys.leader, member.instance_id.encode(), session),
                )
            )
        )

    def test_gives_back(self) -> None:
        """
        A member that cannot lead gives the key back at once, and another one
        leads.
        """
        a, b = self.members("b", can_lead=False)
        self.hand(b)

        took = self.cluster.until(lambda: a.is_leader, 5)

        self.assertLess(took, 0.5)
        self.cluster.until(lambda: b.role == "follower", 1)

    def test_pauses(self) -> None:
        """
        So does one that is no candidate for the time being.
        """
        a, b = self.members("b")
        b.election.give_up("test")
        self.hand(b)

        took = self.cluster.until(lambda: a.is_leader, 5)

        self.assertLess(took, 0.5)

    def test_drains(self) -> None:
        """
        And one that is on its way out: handed leadership at the last moment, it
        gives the key back and does not keep it while its work moves.
        """
        a, b = self.members("b")
        self.cluster.put_work("x", "y")
        self.cluster.until(lambda: b.worker.my_workload, 6)
        self.cluster.advance(1)
        self.cluster.network(a).latency = lambda r: 0.01 if hands_over(r) else 0.0
        stops = to(f"kv/{self.cluster.keys.leader}", "GET")
        self.cluster.network(b).reply_latency = lambda r: 0.02 if stops(r) else 0.0
        transfer = a.transfer_leadership("b")
        self.cluster.advance(0.005)
        says = writes(self.cluster.keys.member("b"))
        self.cluster.network(b).latency = lambda r: 0.01 if says(r) else 0.0

        ended = b.shutdown()
        self.cluster.result(transfer)
        took = self.cluster.until(lambda: a.is_leader, 5)

        self.assertLess(took, 0.2)
        self.assertTrue(b.worker.my_workload)
        self.cluster.result(ended)

    def test_does_not_begin(self) -> None:
        """
        An heir that is alive and does not take office, because what should tell
        it hangs, is not waited for: the key is free again after two seconds.
        """
        a, b, c = self.members("b", "c")
        hung = f"/v1/kv/{self.cluster.keys.leader}"
        self.cluster.network(b).loses_reply = lambda r: r.path == hung
        self.cluster.result(a.transfer_leadership("b"))

        took = self.cluster.until(lambda: self.cluster.leaders, 10)

        self.assertLess(took, HEIR_SECONDS + 0.2)
        self.assertFalse(b.is_leader)
        self.assertEqual({a.leader_id, c.leader_id}, {self.leader().instance_id})
        (said,) = self.logged("heir-did-not-begin")
        self.assertEqual((said["instance_id"], said["heir"]), ("a", "b"))

    def test_begins_late(self) -> None:
        """
        An heir that takes office in the last moment is left alone, and so is
        one that began and handed over in its turn.
        """
        a, b, c = self.members("b", "c")
        slow = to(f"kv/{self.cluster.keys.leader}", "GET")
        self.cluster.network(b).reply_latency = lambda r: 1.9 if slow(r) else 0.0
        self.cluster.result(a.transfer_leadership("b"))
        self.cluster.until(lambda: b.is_leader, 2.0)
        self.transfer(b, "c")
        token = c.lease.token

        self.cluster.advance(10)

        self.assertEqual((c.is_leader, c.lease.token), (True, token))
        self.assertEqual(self.logged("heir-did-not-begin"), [])

    def leader(self) -> Coordinator:
        """
        Give the one that leads.
        """
        (leader,) = self.cluster.leaders
        return leader

    def test_never_stands(self) -> None:
        """
        A member that may not lead leaves the leader key alone, even where there
        is no leader.
        """
        b = self.cluster.add("b", can_lead=False)
        sent = self.sent(b, writes(self.cluster.keys.leader))

        self.cluster.advance(70)

        self.assertTrue(b.is_member)
        self.assertEqual((b.leader_id, sent), (None, []))


class ManyFaultsTests(HandOverCase):
    """
    G1 under faults: leadership is handed about among three members, while
    requests and replies are lost or late, sessions end, and members come and
    go.  (:meth:`HandOverCase.setUp` checks G1 at every moment.)
    """

    def disturb(self, random: Random) -> None:
        """
        Let something happen.
        """
        cluster = self.cluster
        member = cluster.members[random.choice(sorted(cluster.members))]
        network = cluster.network(member)
        fault = random.choice(
            ("reply", "request", "late", "session", "pause", "part", "key", "none")
        )
        until = cluster.clock.seconds() + random.uniform(0.1, 4.0)

        def now(request: Request) -> bool:
            return cluster.clock.seconds() < until and random.random() < 0.5

        if fault == "reply":
            network.loses_reply = now
        elif fault == "request":
            network.loses_request = now
        elif fault == "late":
            network.latency = lambda r: random.uniform(0, 3) if now(r) else 0.0
            network.lands_late = lambda r: True
        elif fault == "session" and member.session_id is not None:
            cluster.consul.destroy_session(member.session_id)
        elif fault == "pause" and member in cluster.awake:
            cluster.pause(member)
            self.sleeping[member] = until
        elif fault == "part":
            network.partition()
            self.parted[member] = until
        elif fault == "key":
            cluster.result(cluster.api.delete(cluster.keys.leader))

    def mend(self, all_of_it: bool = False) -> None:
        """
        End what was to last until now.
        """
        now = self.cluster.clock.seconds()
        for member, until in tuple(self.sleeping.items()):
            if all_of_it or now >= until:
                del self.sleeping[member]
                self.cluster.resume(member)
        for member, until in tuple(self.parted.items()):
            if all_of_it or now >= until:
                del self.parted[member]
                self.cluster.network(member).heal()

    def test_one_leader(self) -> None:
        """
        At no moment do two members lead; every hand-over ends, and when all is
        quiet again one leads, with a token that has risen all the time.
        """
        for seed in range(SEEDS):
            self.cluster.close()
            self.cluster = EmbeddedCluster(seed, self.settings)
            self.addCleanup(self.cluster.close)
            self.watch_over()
            self.hand_about(Random(seed))

    def hand_about(self, random: Random) -> None:
        """
        Hand leadership about under faults, for a minute.
        """
        self.sleeping: dict[Coordinator, float] = {}
        self.parted: dict[Coordinator, float] = {}
        for name in "abc":
            self.cluster.add(name)
        self.cluster.put_work(*(f"w{n}" for n in range(6)))
        pending: list[Deferred[None]] = []
        ended: list[object] = []
        tokens: list[int] = []
        for _ in range(60):
            self.cluster.advance(random.uniform(0.2, 1.8))
            self.mend()
            for leader in self.cluster.leaders:
                tokens.append(leader.lease.token or 0)
                to = random.choice(("a", "b", "c", None))
                asked = leader.transfer_leadership(to)
                pending.append(asked.addBoth(ended.append))
                self.cluster.advance(random.choice((0.0, 0.01, 0.02)))
            if random.random() < 0.6:
                self.disturb(random)
        self.mend(all_of_it=True)
        for member in self.cluster.members.values():
            network = self.cluster.network(member)
            network.loses_reply = network.loses_request = no_request
            network.latency = lambda r: 0.0

        # Whoever succeeds a session that was ended by hand waits for its TTL; a
        # watch whose answer was lost, for its deadline.
        self.cluster.until(lambda: self.cluster.leaders, 40)
        self.cluster.advance(40)

        self.assertEqual(len(ended), len(pending))
        (leader,) = self.cluster.leaders
        self.assertEqual(tokens, sorted(tokens))
        self.assertEqual(self.logged("task-failed"), [])
        for member in self.cluster.members.values():
            self.assertEqual(member.leader_id, leader.instance_id)


class RealConsulTests(TestCase):
    """
    On a real Consul, in real time.
    """

    timeout = 60

    def setUp(self) -> Deferred[None]:  # type: ignore[override]  # trial waits
        """
        Let three members agree on a leader.
        """
        return self.begin()

    @inlineCallbacks
    def begin(self) -> Steps[None]:
        """
        Begin, and wait for a leader.
        """
        consul, reactor = shared_consul(), real_reactor()
        prefix = f"service/hand-over-{os.getpid()}-{id(self)}"
        self.members: list[Coordinator] = []
        for name in "abc":
            member = Coordinator(
                "127.0.0.1",
                "127.0.0.1",
                name,
                8880,
                consul.address,
                settings=Settings(prefix=prefix),
                reactor=reactor,
            )
            self.addCleanup(member.shutdown)
            self.members.append(member)
        for member in self.members:
            yield member.when_ready()
        yield self.until(lambda: len(self.leaders) == 1)

    @property
    def leaders(self) -> list[Coordinator]:
        """
        The members that lead.
        """
        return [member for member in self.members if member.is_leader]

    @inlineCallbacks
    def until(self, holds: Callable[[], object]) -> Steps[None]:
        """
        Wait for something to come true.
        """
        while not holds():
            self.assertLess(len(self.leaders), 2)
            yield deferLater(real_reactor(), 0.002)

    @inlineCallbacks
    def test_handed_about(self) -> Steps[None]:
        """
        Leadership goes round, token by token, and nobody is a leader beside
        another.
        """
        tokens = []
        for _ in range(3):
            (leader,) = self.leaders
            tokens.append(leader.lease.token)
            yield leader.transfer_leadership()
            self.assertFalse(leader.is_leader)
            yield self.until(lambda: self.leaders)
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertEqual(len({m.leader_id for m in self.members if m.is_leader}), 1)

    @inlineCallbacks
    def test_dead_heir(self) -> Steps[None]:
        """
        An heir whose session is destroyed is refused, and the leader leads on.
        """
        (leader,) = self.leaders
        token = leader.lease.token
        heir = next(member for member in self.members if member is not leader)
        yield heir.api.destroy_session(heir.session_id or "")

        yield self.assertFailure(
            leader.transfer_leadership(heir.instance_id), TransferRefused
        )

        self.assertEqual((leader.is_leader, leader.lease.token), (True, token))

    @inlineCallbacks
    def test_shut_down(self) -> Steps[None]:
        """
        When the leader shuts down another one leads; meanwhile nobody does
        beside it.
        """
        (leader,) = self.leaders

        ending = leader.shutdown()
        self.assertEqual(self.leaders, [])
        yield self.until(lambda: self.leaders)
        yield ending

        self.assertEqual(leader.role, "stopped")
