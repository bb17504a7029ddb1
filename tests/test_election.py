"""
Tests for the election and for taking office, with whole members.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from zope.interface import implementer

from voltha_coord.consul.model import SessionSpec
from voltha_coord.coordinator import Coordinator
from voltha_coord.election_loop import LEADERLESS_SECONDS
from voltha_coord.interfaces import ILeader
from voltha_coord.leading import HALT_SECONDS
from voltha_coord.records import TermRecord
from voltha_coord.settings import Settings

from .support.embedded import ClusterTestCase, Once, to, writes


class ElectionTestCase(ClusterTestCase):
    """
    Knows the term record, and can act as a stranger.
    """

    def record(self) -> TermRecord:
        """
        Read the term record.
        """
        entry = self.cluster.entry(self.cluster.keys.term)
        assert entry is not None
        return TermRecord.from_entry(entry)

    def put(self, key: str, value: bytes, **kw: Any) -> bool:
        """
        Write a key as anybody could.
        """
        done: bool = self.cluster.result(self.cluster.api.put(key, value, **kw))
        return done

    def delete(self, key: str) -> None:
        """
        Delete a key as anybody could.
        """
        self.cluster.result(self.cluster.api.delete(key))

    def stranger(self) -> str:
        """
        Give the session of somebody who is no member.
        """
        spec = SessionSpec("stranger", ttl=3600, lock_delay=0)
        session: str = self.cluster.result(self.cluster.api.create_session(spec))
        return session

    def begins_once(self, member: Coordinator) -> int:
        """
        Count the terms that a member began.
        """
        return len(self.logged("became-leader", instance_id=member.instance_id))


class KeyTests(ElectionTestCase):
    """
    The leader key.
    """

    def test_alone(self) -> None:
        """
        One alone leads; key and record say so, and the token is the key's index.
        """
        a = self.lead()

        key = self.cluster.entry(self.cluster.keys.leader)
        assert key is not None
        record = self.record()
        self.assertEqual((key.value, key.session), (b"a", a.session_id))
        self.assertEqual((record.holder, record.session), ("a", a.session_id))
        self.assertEqual((record.check, record.node), (a.session.check_id, "node-of-a"))
        self.assertEqual(record.ttl, 15.0)
        self.assertEqual({record.token, a.lease.token}, {key.modify_index})
        self.assertFalse(record.released)

    def test_one_of_many(self) -> None:
        """
        Of many that start together exactly one leads, and all know who.
        """
        members = self.add(*"abcde")

        (leader,) = self.cluster.leaders
        self.assertEqual({m.leader_id for m in members}, {leader.instance_id})

    def test_acquire_reply_lost(self) -> None:
        """
        Field report 66: the reply to the acquisition is lost, and it leads all
        the same, in one term.
        """
        a = self.cluster.add("a")
        self.cluster.network(a).loses_reply = Once(writes(self.cluster.keys.leader))

        self.cluster.until(lambda: a.is_leader)
        self.cluster.advance(15)

        self.assertEqual((self.begins_once(a), a.is_leader), (1, True))

    def test_office_reply_lost(self) -> None:
        """
        The reply to taking office is lost: it is found out, in the same term.
        """
        a = self.cluster.add("a")
        lost = Once(writes(self.cluster.keys.term))
        self.cluster.network(a).loses_reply = lost

        self.cluster.until(lambda: a.is_leader)

        self.assertEqual((lost.met, self.record().seq), (1, 0))

    def test_office_reply_and_key_lost(self) -> None:
        """
        The reply to taking office is lost, and the key before that is found
        out: it leaves the office it did not know it had, so that others need
        not wait for its session, which lives.
        """
        a, b = self.cluster.add("a"), self.cluster.add("b", can_lead=False)
        lost = Once(writes(self.cluster.keys.term))
        self.cluster.network(a).loses_reply = lost
        self.cluster.until(lambda: lost.met)
        stranger = self.stranger()
        self.delete(self.cluster.keys.leader)
        self.assertTrue(self.put(self.cluster.keys.leader, b"x", acquire=stranger))

        self.cluster.until(lambda: self.record().released)

        self.assertEqual((a.leader_id, b.leader_id), ("x", "x"))

    def test_office_lands_late(self) -> None:
        """
        A request for office that was given up, and lands once the term has
        begun by another one, is refused: the term record stays as it is.
        """
        a = self.cluster.add("a")
        network = self.cluster.network(a)
        slow = Once(writes(self.cluster.keys.term))
        network.lands_late = writes(self.cluster.keys.term)
        network.latency = lambda request: (
            1.5 * request.deadline if slow(request) else 0.0
        )
        self.cluster.until(lambda: a.is_leader, 15)
        self.cluster.put_work("x")
        self.cluster.until(lambda: self.record().seq, 15)
        token = a.lease.token

        self.cluster.advance(10)

        self.assertTrue(slow.met)
        self.assertEqual((a.lease.token, a.election.terms.begun), (token, 1))
        self.assertGreater(self.record().seq, 0)

    def test_release_reply_lost(self) -> None:
        """
        The reply to leaving is lost: it leads again, with a higher token.
        """
        a = self.lead()
        token = a.lease.token
        assert token is not None
        lost = Once(writes(self.cluster.keys.leader), times=2)
        self.cluster.network(a).loses_reply = lost

        a.election.give_up("test")
        self.cluster.until(lambda: a.is_leader, 40)

        self.assertEqual(lost.met > 0, True)
        self.assertGreater(a.lease.token or 0, token)

    def test_deleted(self) -> None:
        """
        A key deleted by an operator ends the term at once; it is led again
        within a second or so, with a higher token.
        """
        self.add("a", "b")
        (leader,) = self.cluster.leaders
        token = leader.lease.token or 0

        self.delete(self.cluster.keys.leader)
        self.cluster.until(lambda: not leader.is_leader, 0.1)
        took = self.cluster.until(lambda: self.cluster.leaders)

        self.assertLess(took, 1.5)
        self.assertGreater(self.cluster.leaders[0].lease.token or 0, token)

    def test_deleted_before_it_was_read(self) -> None:
        """
        A key that is acquired, and deleted before the watch has read it, is no
        news to the watch: its loss is noticed all the same.
        """
        a = self.cluster.add("a")
        network = self.cluster.network(a)
        watch = to(f"kv/{self.cluster.keys.leader}", "GET")
        network.reply_latency = lambda request: 0.5 if watch(request) else 0.0
        self.cluster.until(lambda: a.is_leader)
        token = a.lease.token

        self.delete(self.cluster.keys.leader)
        network.reply_latency = lambda request: 0.0
        self.cluster.until(lambda: a.lease.token not in (None, token), 10)

        key = self.cluster.entry(self.cluster.keys.leader)
        assert key is not None
        self.assertEqual(key.session, a.session_id)

    def test_overtaken_read(self) -> None:
        """
        A read of the key that our own acquisition overtook deposes nobody.
        """
        a = self.cluster.add("a")
        network = self.cluster.network(a)
        watch = to(f"kv/{self.cluster.keys.leader}", "GET")
        session = self.stranger()
        self.put(self.cluster.keys.leader, b"x", acquire=session)
        self.cluster.until(lambda: a.leader_id == "x")
        network.reply_latency = lambda request: 2.0 if watch(request) else 0.0

        self.delete(self.cluster.keys.leader)
        self.cluster.advance(0.5)
        self.put(self.cluster.keys.leader, b"y", acquire=session)
        self.delete(self.cluster.keys.leader)
        self.cluster.advance(20)

        self.assertEqual(self.begins_once(a), 1)
        self.assertEqual(self.logged("lost-leadership"), [])

    def test_overwritten(self) -> None:
        """
        A key whose value is overwritten gets the leader's name again; the term
        goes on.
        """
        a = self.lead()
        token = a.lease.token

        self.put(self.cluster.keys.leader, b"\xff\x00")
        self.cluster.advance(1)

        key = self.cluster.entry(self.cluster.keys.leader)
        assert key is not None
        self.assertEqual((key.value, key.session), (b"a", a.session_id))
        self.assertEqual((a.lease.token, a.leader_id), (token, "a"))

    def test_overwritten_then_given_up(self) -> None:
        """
        Mending the key does not make it a new acquisition: the next term has
        one of its own.
        """
        a = self.lead()
        self.put(self.cluster.keys.leader, b"x")
        self.cluster.advance(1)
        mended = self.cluster.entry(self.cluster.keys.leader)
        assert mended is not None

        a.election.terms.end("test")
        a.election.wake()
        self.cluster.until(lambda: a.is_leader)

        self.assertGreater(a.lease.token or 0, mended.modify_index)

    def test_plain_value_in_the_way(self) -> None:
        """
        B13: a value that somebody put under the key without a lock is nobody's
        leadership.
        """
        self.put(self.cluster.keys.leader, b"junk")

        a = self.lead()

        self.assertEqual(a.leader_id, "a")
        self.assertEqual(self.logged("leader-changed", leader_id="junk"), [])

    def test_held_by_a_stranger(self) -> None:
        """
        A key that a stranger holds is waited for, as long as it takes.
        """
        session = self.stranger()
        self.put(self.cluster.keys.leader, b"x", acquire=session)
        a = self.cluster.add("a")

        self.cluster.advance(30)
        self.assertEqual((a.is_leader, a.leader_id, a.role), (False, "x", "follower"))
        self.cluster.consul.destroy_session(session)
        self.cluster.until(lambda: a.is_leader, 2)

        self.assertEqual(a.role, "leader")

    def test_not_standing(self) -> None:
        """
        Who may not lead never does.
        """
        a = self.cluster.add("a", can_lead=False)

        self.cluster.advance(5)

        self.assertEqual((a.is_leader, a.leader_id), (False, None))
        self.assertEqual(self.cluster.entry(self.cluster.keys.leader), None)

    def test_lock_delay(self) -> None:
        """
        Field reports 36, 40: after a session's violent end the key is led again as soon
        as the lock-delay is over, and meanwhile the status says why not.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)

        self.cluster.crash(a)
        self.cluster.until(lambda: b.leader_id is None, 4)
        self.cluster.advance(0.3)
        self.assertIn("lock-delay", b.status()["waiting_for"])
        took = self.cluster.until(lambda: b.is_leader, 2)

        self.assertLess(took, 1.0)
        self.assertEqual(b.status()["waiting_for"], None)

    def test_who_did_not_win_waits_for_nothing(self) -> None:
        """
        Candidates that were kept waiting, by the lock-delay or for their
        predecessor's lease, wait for nothing any more once another one leads.
        """
        a = self.lead("a")
        others = self.add("b", "c")

        self.cluster.crash(a)
        waited = []
        for _ in range(500):
            self.cluster.advance(0.01)
            waited += [other.status()["waiting_for"] for other in others]
        leaders = [other.is_leader for other in others]

        self.assertEqual(sum(leaders), 1)
        self.assertIn("the lock-delay of the leader key to be over", waited)
        self.assertEqual(
            [other.status()["waiting_for"] for other in others], [None] * 2
        )

    def test_who_waits_for_the_predecessor(self) -> None:
        """
        While the predecessor's lease may last, whoever holds the leader key
        says that it waits for that; the others say nothing of the kind.
        """
        a = self.lead("a")
        others = self.add("b", "c")
        former = a.session_id or ""

        self.cluster.crash(a)
        self.cluster.consul.agent("node-of-a").leave()
        self.cluster.advance(5)
        waiting = {o.instance_id: o.status()["waiting_for"] for o in others}

        holder = others[0].leader_id
        self.assertIn(former, waiting.pop(holder or "") or "")
        self.assertEqual([*waiting.values()], [None])

    def test_fault_of_ours(self) -> None:
        """
        Field report 11, for this loop: a step that raises what no step should
        is logged, and made again.
        """
        a = self.cluster.add("a")
        faults = iter([ValueError("one"), KeyError("two")])
        standing = a.election._standing

        def fault() -> bool:
            for error in faults:
                raise error
            return standing()

        a.election._standing = fault

        self.cluster.until(lambda: a.is_leader)

        self.assertEqual(len(self.logged("election-step-failed")), 2)

    def test_nobody_leads_for_long(self) -> None:
        """
        Field report 64: that nobody leads is said, and looked at anew.
        """
        a = self.cluster.add("a", can_lead=False)
        self.cluster.until(lambda: a.is_member)
        self.cluster.advance(2)
        read = to(f"kv/{self.cluster.keys.leader}", "GET")
        reads = Once(lambda r: read(r) and ("consistent", None) in r.params)
        self.cluster.network(a).loses_request = lambda request: reads(request) and False

        reads.met = 0
        self.cluster.advance(LEADERLESS_SECONDS + 2)

        self.assertEqual(reads.met, 1)
        (said,) = self.logged("no-leader")
        self.assertGreater(said["seconds"], LEADERLESS_SECONDS - 5)


class LossTests(ElectionTestCase):
    """
    How a term ends.
    """

    def test_cut_off(self) -> None:
        """
        V4, field reports 41, 63: a leader that is cut off leads no more from its
        own deadline on, and knows no leader.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)

        self.cluster.network(a).partition()
        self.cluster.until(lambda: not a.is_leader, 3)
        self.assertEqual(self.cluster.leaders, [])
        self.cluster.until(lambda: b.is_leader, 5)

        self.assertEqual((a.leader_id, a.role), (None, "candidate"))
        (said,) = self.logged("lost-leadership")
        self.assertEqual(said["reason"], "check-not-acknowledged")

    def test_cut_off_follower(self) -> None:
        """
        B15: a follower that is cut off knows no leader either, until it can
        read again who leads.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)

        self.cluster.network(b).partition()
        self.cluster.advance(5)
        self.assertEqual((b.leader_id, b.role), (None, "candidate"))
        self.cluster.network(b).heal()
        self.cluster.until(lambda: b.leader_id == "a", 8)

        self.assertTrue(a.is_leader)

    def test_paused(self) -> None:
        """
        Field report 74: a leader that was stopped and goes on is none from its
        first instant, and nothing it had in mind is written.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.put_work("x")
        self.cluster.advance(5)
        self.cluster.pause(a)
        self.cluster.until(lambda: b.is_leader, 10)
        self.cluster.advance(5)
        before = self.cluster.entries(self.cluster.keys.assignments)
        record = self.record()

        self.cluster.resume(a)
        self.assertFalse(a.is_leader)
        self.cluster.advance(0.05)

        self.assertEqual(self.cluster.leaders, [b])
        self.assertEqual(self.record(), record)
        self.assertEqual(self.cluster.entries(self.cluster.keys.assignments), before)

    def test_session_destroyed(self) -> None:
        """
        Field reports 8, 12, 16: a session ended by hand ends the term at once;
        a new session and a new candidacy follow.
        """
        a = self.lead()
        old = a.session_id
        assert old is not None

        self.cluster.consul.destroy_session(old)
        self.cluster.until(lambda: not a.is_leader, 0.1)
        self.cluster.until(lambda: a.is_leader, 5)

        self.assertNotEqual(a.session_id, old)

    def test_agent_stopped(self) -> None:
        """
        Field report 16: an agent that leaves in good order takes the session
        with it; the leader is none before anybody else is.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)

        self.cluster.consul.agent("node-of-a").leave()
        self.cluster.until(lambda: self.cluster.leaders != [a], 4)
        self.assertEqual(self.cluster.leaders, [])
        self.cluster.until(lambda: b.is_leader, 20)

        self.assertFalse(a.is_leader)

    def test_consul_elects(self) -> None:
        """
        Field reports 43, 44: while Consul elects a leader of its own, and when
        watches time out, ours leads on.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        token = a.lease.token

        self.cluster.consul.lose_leader(1.5)
        self.cluster.advance(120)

        self.assertEqual(a.lease.token, token)
        self.assertEqual(self.logged("lost-leadership"), [])

    def test_seen_at_the_leader_key(self) -> None:
        """
        Field report 16: a leader key that vanished makes it ask after its
        session, also while nothing else tells of its end.
        """
        self.cluster.settings = Settings(failure_detection=0)
        a = self.lead()
        old = a.session_id or ""
        member = to(f"kv/{self.cluster.keys.member('a')}", "GET")
        renewal = to(f"session/renew/{old}")
        self.cluster.network(a).loses_request = lambda r: member(r) or renewal(r)
        self.cluster.network(a).loses_reply = member

        self.cluster.consul.destroy_session(old)
        self.cluster.until(lambda: a.session_id not in (old, None), 3)

        self.assertEqual(
            self.logged("lost-consul-session")[0]["reason"], "session-gone"
        )

    def test_paused_while_taking_office(self) -> None:
        """
        A term whose lease ran out before it could begin never begins; the
        record says so.
        """
        a = self.cluster.add("a")
        office = Once(writes(self.cluster.keys.term))
        self.cluster.network(a).reply_latency = lambda r: 1.0 if office(r) else 0.0
        self.cluster.until(lambda: office.met)
        token = self.record().token

        self.cluster.pause(a)
        self.cluster.advance(10)
        self.cluster.resume(a)
        self.assertFalse(a.is_leader)
        self.cluster.until(lambda: a.is_leader)

        began = [one["fencing_token"] for one in self.logged("became-leader")]
        self.assertEqual(began, [a.lease.token])
        self.assertGreater(began[0], token)

    def test_waits_for_its_own_leader(self) -> None:
        """
        No term begins here while the leader of the last one is not at rest.
        """
        a = self.lead("a", leader_class=RestlessLeader)

        self.delete(self.cluster.keys.leader)
        self.cluster.until(lambda: not a.is_leader, 1)
        took = self.cluster.until(lambda: a.is_leader, 10)

        self.assertGreater(took, HALT_SECONDS - 0.1)
        self.assertEqual(self.logged("election-step-failed"), [])

    def test_two_failures(self) -> None:
        """
        Field report 38: the leader dies, and Consul's dies in the lock-delay
        that follows; somebody leads when Consul is back.
        """
        a, b, c = self.lead("a"), self.cluster.add("b"), self.cluster.add("c")
        self.cluster.until(lambda: b.is_ready and c.is_ready)

        self.cluster.crash(a)
        self.cluster.until(lambda: b.leader_id is None, 4)
        self.cluster.advance(0.3)
        self.cluster.consul.lose_leader(2)
        self.cluster.until(lambda: self.cluster.leaders, 12)

        self.assertEqual(len(self.cluster.leaders), 1)

    def test_candidate_again(self) -> None:
        """
        Field report 46: after a loss a member is a candidate like any other,
        and can lead again, as often as it likes.
        """
        a = self.lead()
        tokens = [a.lease.token or 0]

        for _ in range(4):
            self.delete(self.cluster.keys.leader)
            self.cluster.until(lambda: a.lease.token not in (None, tokens[-1]))
            tokens.append(a.lease.token or 0)

        self.assertEqual(tokens, sorted(set(tokens)))

    def test_same_session(self) -> None:
        """
        Field report 61: a lease that ran out with its session alive is found
        again on that session; its own key is not in the way.
        """
        self.cluster.settings = Settings(failure_detection=0)
        a = self.lead()
        session, token = a.session_id, a.lease.token
        renewals = to(f"session/renew/{session}")
        self.cluster.network(a).loses_request = renewals
        self.cluster.until(lambda: not a.is_leader, 16)

        self.cluster.network(a).loses_request = lambda request: False
        self.cluster.until(lambda: a.is_leader, 10)

        self.assertEqual(a.session_id, session)
        self.assertGreater(a.lease.token or 0, token or 0)

    def test_said_why(self) -> None:
        """
        Field report 50: each loss is logged with the token and the reason.
        """
        a = self.lead()
        token = a.lease.token

        self.delete(self.cluster.keys.leader)
        self.cluster.advance(0.1)

        (said,) = self.logged("lost-leadership")
        self.assertEqual(
            (said["fencing_token"], said["reason"]), (token, "leader-key-lost")
        )

    def test_counted(self) -> None:
        """
        Field reports 23, 50: terms are counted, and their ends by reason.
        """
        a = self.lead()
        self.delete(self.cluster.keys.leader)
        self.cluster.advance(0.1)
        self.cluster.until(lambda: a.is_leader)
        a.give_up_leadership("of-my-own")
        self.cluster.until(lambda: a.is_leader)

        election = a.election
        ended = {reason: n for reason, n in election.terms.ended.counts.items() if n}
        self.assertEqual(election.terms.begun, 3)
        self.assertEqual(ended, {"leader-key-lost": 1, "of-my-own": 1})

    def test_time_without_a_leader(self) -> None:
        """
        Field report 64: how long nobody has led is known at every moment, and
        so is how long that was altogether.
        """
        a = self.cluster.add("a", can_lead=False)
        self.cluster.advance(7)
        self.assertEqual(round(a.election.key.leaderless_for), 7)

        b = self.lead("b")
        before = a.election.key.leaderless_seconds
        self.assertGreater(before, 7)
        self.cluster.advance(5)
        self.assertEqual(a.election.key.leaderless_for, 0)
        self.assertEqual(a.election.key.leaderless_seconds, before)

        self.cluster.crash(b)
        self.cluster.advance(10)
        self.assertTrue(6.5 < a.election.key.leaderless_for < 8)
        self.assertAlmostEqual(
            a.election.key.leaderless_seconds,
            before + a.election.key.leaderless_for,
            places=6,
        )

    def test_no_flapping(self) -> None:
        """
        Field reports 5, 23: in a quiet cluster nobody else comes to lead.
        """
        self.add("a", "b", "c")

        self.cluster.advance(20 * 15.0)

        self.assertEqual(len(self.logged("became-leader")), 1)
        self.assertEqual(self.logged("lost-leadership"), [])


class SuccessionTests(ElectionTestCase):
    """
    When a term may begin.
    """

    def setUp(self) -> None:
        """
        Have a cluster that somebody led before.
        """
        super().setUp()
        self.former = TermRecord("z", "no-such-session", token=3, ttl=15.0)

    def write(self, **fields: Any) -> None:
        """
        Write the former leader's term record.
        """
        record = evolve(self.former, **fields)
        self.put(self.cluster.keys.term, record.encode())

    def test_released(self) -> None:
        """
        Whoever released is succeeded at once, its session living or not.
        """
        self.write(released=True, session=self.stranger())
        a = self.cluster.add("a")

        self.assertLess(self.cluster.until(lambda: a.is_leader), 1.0)

    def test_session_lives(self) -> None:
        """
        A session that lives is waited for, whatever became of the key; the
        status names it, and the term of its TTL begins when it is gone.
        """
        session = self.stranger()
        self.write(session=session)
        a = self.cluster.add("a")

        self.cluster.advance(40)
        self.assertFalse(a.is_leader)
        self.assertIn(session, a.status()["waiting_for"])
        self.cluster.consul.destroy_session(session)
        took = self.cluster.until(lambda: a.is_leader)

        self.assertGreater(took, 15.0)
        self.assertLess(took, 16.0)

    def test_session_gone(self) -> None:
        """
        A session that is gone without its check's word is waited for one TTL:
        that of the record, not our own (field report 57).
        """
        self.write(ttl=20.0)
        a = self.cluster.add("a")

        took = self.cluster.until(lambda: a.is_leader)

        self.assertGreater(took, 20.0)
        self.assertLess(took, 21.5)

    def test_timer_fired(self) -> None:
        """
        A leader whose check ran out is succeeded within detection and
        lock-delay, and no TTL is waited for.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)

        self.cluster.crash(a)
        took = self.cluster.until(lambda: b.is_leader)

        self.assertLess(took, 3.0 + 1.0 + 0.5)

    def test_destroyed_by_hand(self) -> None:
        """
        A leader that is cut off, its session destroyed, acts on for the rest of
        its lease: nobody begins before that is over.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.network(a).partition()

        self.cluster.consul.destroy_session(a.session_id or "")
        self.cluster.advance(1.5)
        self.assertEqual((a.is_leader, b.is_leader), (True, False))
        self.cluster.until(lambda: not a.is_leader, 2)
        self.assertFalse(b.is_leader)
        self.cluster.until(lambda: b.is_leader, 20)

        self.assertFalse(a.is_leader)

    def test_destroyed_by_hand_without_check(self) -> None:
        """
        Without a check's word the TTL of the session is waited, from when it
        was first seen to be gone.
        """
        self.cluster.settings = Settings(failure_detection=0)
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.network(a).partition()

        self.cluster.consul.destroy_session(a.session_id or "")
        took = self.cluster.until(lambda: b.is_leader, 20)

        self.assertGreater(took, 15.0)

    def test_wait_begins_in_the_lock_delay(self) -> None:
        """
        The time to be waited begins when the session is first seen to be gone,
        not when the lock-delay is over.
        """
        self.cluster.settings = Settings(failure_detection=0, lock_delay=10.0)
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.network(a).partition()

        self.cluster.consul.destroy_session(a.session_id or "")
        took = self.cluster.until(lambda: b.is_leader, 30)

        self.assertLess(took, 17.0)

    def test_own_former_session(self) -> None:
        """
        What an earlier session of this very process held needs no waiting.
        """
        a = self.lead()

        self.cluster.consul.destroy_session(a.session_id or "")
        self.cluster.until(lambda: not a.is_leader)

        self.assertLess(self.cluster.until(lambda: a.is_leader), 3.0)

    def test_record_deleted(self) -> None:
        """
        Without a term record nobody is waited for; the leader it was taken
        from finds out at its next write.
        """
        a = self.lead()
        self.delete(self.cluster.keys.term)

        self.cluster.put_work("x")
        self.cluster.until(lambda: not a.is_leader, 10)
        self.cluster.until(lambda: a.is_leader)

        (said,) = self.logged("lost-leadership")
        self.assertEqual(said["reason"], "term-record-changed")

    def test_record_garbled(self) -> None:
        """
        A record that cannot be read may have named anybody: one TTL is waited,
        and it is said.
        """
        for junk in (b"\xff\x00", b"[]", b'{"holder": 1}', b""):
            self.setUp()
            self.put(self.cluster.keys.term, junk)
            a = self.cluster.add("a")

            took = self.cluster.until(lambda m=a: m.is_leader)  # type: ignore[misc]  # a lambda's default

            self.assertGreater(took, 15.0, junk)
            self.assertLess(took, 16.5, junk)
            self.assertEqual(len(self.logged("term-record-unreadable")), 1, junk)
            self.cluster.close()

    def test_record_garbled_shows(self) -> None:
        """
        While it is waited the status says for what.
        """
        self.put(self.cluster.keys.term, b"junk")
        a = self.cluster.add("a")
        self.cluster.advance(5)

        self.assertIn("the term record does not say", a.status()["waiting_for"])

    def test_record_missing(self) -> None:
        """
        A record that was there and is not any more is told loudly: who led
        before is not waited for.
        """
        a, b = self.cluster.add("a"), self.cluster.add("b")
        self.cluster.until(lambda: bool(self.cluster.leaders))
        self.cluster.advance(5)
        (leader,) = self.cluster.leaders
        other = b if leader is a else a
        self.cluster.crash(leader)
        self.cluster.until(lambda: other.is_leader)
        self.delete(self.cluster.keys.term)
        self.delete(self.cluster.keys.leader)

        self.cluster.until(lambda: other.is_leader, 30)

        self.assertEqual(len(self.logged("term-record-missing")), 1)

    def test_newer_record(self) -> None:
        """
        A record of a newer version is understood, and what is unknown in it
        stays when its leader leaves.
        """
        a = self.lead()
        record = json.loads(self.record().encode())
        self.put(
            self.cluster.keys.term, json.dumps({**record, "mood": "fine"}).encode()
        )

        self.cluster.result(a.shutdown())

        entry = self.cluster.entry(self.cluster.keys.term)
        assert entry is not None
        left = json.loads(entry.value)
        self.assertEqual((left["mood"], left["released"]), ("fine", True))

    def test_indexes_went_back(self) -> None:
        """
        A Consul that was emptied is led again, and that tokens went back is
        said loudly.
        """
        a = self.lead()
        self.cluster.put_work(*(f"x{number}" for number in range(20)))
        self.delete(self.cluster.keys.leader)
        self.cluster.advance(5)
        token = a.lease.token or 0

        self.cluster.consul.empty()
        self.cluster.advance(30)

        self.assertTrue(a.is_leader)
        self.assertLess(a.lease.token or 0, token)
        self.assertEqual(len(self.logged("fencing-token-went-back")), 1)

    def test_acquired_anew_unnoticed(self) -> None:
        """
        Office is taken with the token of the acquisition that stands, and with
        no other.
        """
        self.write(released=True)
        a = self.cluster.add("a")
        network = self.cluster.network(a)
        slow = Once(writes(self.cluster.keys.term))
        network.latency = lambda request: 1.0 if slow(request) else 0.0
        self.cluster.until(lambda: slow.met)
        session = a.session_id

        self.delete(self.cluster.keys.leader)
        self.put(self.cluster.keys.leader, b"a", acquire=session)
        self.cluster.until(lambda: a.is_leader)

        key = self.cluster.entry(self.cluster.keys.leader)
        assert key is not None
        self.assertEqual(a.lease.token, key.modify_index)


@implementer(ILeader)
class FailingLeader:
    """
    Cannot establish itself.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self.halted = 0

    def start(self) -> None:
        """
        Fail.
        """
        raise ValueError("no plan")

    def halt(self) -> None:
        """
        Halt.
        """
        self.halted += 1


@implementer(ILeader)
class RestlessLeader(FailingLeader):
    """
    Starts, and does not come to rest.
    """

    def start(self) -> None:
        """
        Start.
        """

    def halt(self) -> Any:
        """
        Never come to an end.
        """
        return Deferred()


class GivingUpTests(ElectionTestCase):
    """
    A leader that cannot establish itself.
    """

    def test_start_fails(self) -> None:
        """
        It gives up at once, another takes over, and it is no candidate for five
        seconds.
        """
        a = self.cluster.add("a", leader_class=FailingLeader)
        self.cluster.until(lambda: self.logged("became-leader"))
        self.cluster.until(lambda: not a.is_leader, 1)
        b = self.cluster.add("b")

        took = self.cluster.until(lambda: b.is_leader)

        self.assertLess(took, 2.0)
        self.assertEqual(len(self.logged("could-not-establish-leadership")), 1)

    def test_alone(self) -> None:
        """
        Alone, it tries again every five seconds, and no sooner.
        """
        a = self.cluster.add("a", leader_class=FailingLeader)
        self.cluster.until(lambda: self.logged("became-leader"))

        self.cluster.advance(14)

        self.assertEqual(self.begins_once(a), 3)

    def test_cannot_be_made(self) -> None:
        """
        A leader that cannot even be made is no other case.
        """

        def broken(coordinator: Coordinator) -> ILeader:
            raise TypeError("not made")

        self.cluster.add("a", leader_class=broken)
        b = self.cluster.add("b")

        self.cluster.until(lambda: b.is_leader, 15)

        self.assertEqual(b.role, "leader")

    def test_office_denied(self) -> None:
        """
        Who may not write the term record does not sit on the leader key.
        """
        key = self.cluster.keys.term
        a = self.cluster.add("a")
        agent = self.cluster.consul.agent("node-of-a")
        handle = agent.handle

        def deny(request: Any) -> Any:
            self.cluster.consul.deny = lambda resource, name, access, token: (
                resource == "key" and name == key
            )
            answer = handle(request)
            self.cluster.consul.deny = lambda *what: False
            return answer

        agent.handle = deny  # type: ignore[method-assign]  # this agent's token may less
        self.cluster.until(lambda: self.logged("could-not-take-office"), 5)
        b = self.cluster.add("b")

        self.cluster.until(lambda: b.is_leader, 5)

        self.assertFalse(a.is_leader)

    def test_leaving_denied(self) -> None:
        """
        Who may not even read the term record any more gives back the key.
        """
        a = self.lead()
        key = self.cluster.keys.term
        self.cluster.consul.deny = lambda resource, name, access, token: name == key

        a.election.give_up("test")
        self.cluster.advance(1)

        self.assertEqual(self.cluster.entry(self.cluster.keys.leader), None)
        self.assertTrue(self.logged("could-not-leave-office"))

    def test_reading_denied(self) -> None:
        """
        A leader that may not read the cluster gives up.
        """
        prefix = self.cluster.keys.work
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(prefix)
        )
        a = self.cluster.add("a")

        self.cluster.until(lambda: self.logged("could-not-establish-leadership"), 5)
        self.cluster.advance(1)

        self.assertFalse(a.is_leader)
        self.assertEqual(self.cluster.entry(self.cluster.keys.leader), None)
