"""
Each known defect of the ancestor, and each public report, that the election and
the Coordinator answer for: what went wrong there does not go wrong here.

Named by the numbers they are known by.  Where another test module shows the case
in more detail, it cites the same number.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.consul.transport import Request, Response
from voltha_coord.coordinator import Coordinator
from voltha_coord.election_loop import LEADERLESS_SECONDS
from voltha_coord.errors import LeaseOverError, ShutDownError
from voltha_coord.events import Event, RoleChanged
from voltha_coord.records import TermRecord
from voltha_coord.settings import Settings

from .support.embedded import ClusterTestCase, Once, to, writes


class DefectTestCase(ClusterTestCase):
    """
    Has a leader and somebody else who can lead.
    """

    def two(self) -> tuple[Coordinator, Coordinator]:
        """
        Give the leader and the other.
        """
        a = self.lead("a")
        b = self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.advance(2)
        return a, b

    def stale_write(self, member: Coordinator) -> Any:
        """
        Prepare a write of a leader, to be made later.
        """
        term = member.term
        assert term is not None
        key = self.cluster.keys.assignment("a", "stale")
        return lambda: term.write([Op.set(key, b"")])

    def written(self) -> set[str]:
        """
        Give the assigned work.
        """
        return {w for items in self.cluster.assignments().values() for w in items}


class AncestorTests(DefectTestCase):
    """
    Defects of the ancestor.
    """

    def test_b1_old_leader_stops_acting(self) -> None:
        """
        B1: a leader whose session ends makes a new one, and acts as leader no
        more: one leads, and the old one's Leader object has been put away.
        """
        a, b = self.two()
        first = a.leader

        self.cluster.consul.destroy_session(a.session_id or "")
        self.cluster.until(lambda: not a.is_leader, 1)
        self.cluster.until(lambda: self.cluster.leaders, 20)
        self.cluster.advance(5)

        self.assertEqual(len(self.cluster.leaders), 1)
        self.assertIsNot(a.leader, first)
        self.assertTrue(a.is_member and b.is_member)

    def test_b9_writes_are_fenced(self) -> None:
        """
        B9: what a deposed leader still has to write is refused whole, even if
        it does not know yet that it was deposed.
        """
        a, b = self.two()
        write = self.stale_write(a)
        network = self.cluster.network(a)
        network.latency = lambda request: 0.5
        self.cluster.consul.destroy_session(a.session_id or "")

        outcome = self.cluster.result(write())

        self.assertTrue(outcome.fenced_off)
        self.assertNotIn("stale", self.written())
        self.assertEqual((a.is_leader, b.is_leader), (False, False))

    def test_b9_halted_leader_writes_nothing(self) -> None:
        """
        B9: a term that is over writes nothing, whoever still holds it.
        """
        a, _ = self.two()
        write = self.stale_write(a)
        a.election.give_up("test")

        with self.assertRaises(LeaseOverError):
            self.cluster.result(write())

    def test_b12_retries_end(self) -> None:
        """
        B12: retries end at a shutdown; each call has a back-off of its own.
        """
        a, _ = self.two()
        self.cluster.network(a).refuses = True
        first = a.kv_get("x")
        self.cluster.advance(20)
        second = a.kv_get("y")
        self.cluster.advance(0.2)
        steps = [one["retry_in"] for one in self.logged("consul-not-up")]
        self.assertLess(steps[-1], 1.0)

        a.shutdown()
        self.cluster.advance(5)

        self.failureResultOf(first, ShutDownError)
        self.failureResultOf(second, ShutDownError)

    def test_b13_keys_without_a_session(self) -> None:
        """
        B13: member and leader keys that somebody wrote without a lock stop
        nothing.
        """
        keys = self.cluster.keys
        for key in (keys.leader, keys.member("a"), keys.member("ghost")):
            self.cluster.result(self.cluster.api.put(key, b"alive"))

        a = self.lead("a")

        self.assertEqual([m.id for m in self.cluster.result(a.get_members())], ["a"])
        self.assertEqual(self.logged("task-failed"), [])

    def test_b13_no_leader_without_a_session(self) -> None:
        """
        B13: whoever a leader key without a session names leads nobody: it is
        neither known nor waited for as the leader.
        """
        leader = self.cluster.keys.leader
        c = self.cluster.add("c", can_lead=False)
        self.cluster.until(lambda: c.is_member)
        waiting = c.wait_for_a_leader()
        for name in (b"ghost", b"c"):
            self.cluster.result(self.cluster.api.put(leader, name))
            self.cluster.advance(2)

            self.assertIsNone(c.leader_id)
            self.assertNoResult(waiting)

        a = self.lead("a")

        self.assertEqual(self.cluster.result(waiting), "a")
        self.assertEqual((a.is_leader, c.leader_id), (True, "a"))

    def test_b14_get_members_with_none(self) -> None:
        """
        B14: without a single member the list is empty, and no error.
        """
        a = self.cluster.add("a")

        self.assertEqual(self.cluster.result(a.get_members(), 0.01), ())

    def test_b15_vacated(self) -> None:
        """
        B15: when leadership is vacated, nobody is known to lead; whoever waits
        for a leader is never given the dead one.
        """
        a, b = self.two()
        self.cluster.crash(a)
        self.cluster.until(lambda: b.leader_id != "a", 4)

        waiting = b.wait_for_a_leader()

        self.assertEqual(b.leader_id, None)
        self.assertEqual(self.cluster.result(waiting), "b")

    def test_b15_cut_off(self) -> None:
        """
        B15: nor is it by a member that cannot know, since it is cut off.
        """
        a, b = self.two()
        self.cluster.network(b).partition()
        self.cluster.advance(4)
        self.cluster.crash(a)
        c = self.cluster.add("c")
        self.cluster.until(lambda: c.is_leader)

        waiting = b.wait_for_a_leader()
        self.assertNoResult(waiting)
        self.cluster.network(b).heal(deliver=False)

        self.assertEqual(self.cluster.result(waiting, 20), "c")

    def test_v2_stop_order(self) -> None:
        """
        V2: the session is destroyed last: by then leader and worker are halted,
        the leader key is free, and so is the member key.
        """
        a, _ = self.two()
        self.cluster.put_work("x", "y")
        self.cluster.advance(6)
        session = a.session_id
        seen: list[Any] = []

        def look(request: Request) -> float:
            if "session/destroy" in request.path:
                held = [
                    entry.key
                    for entry in self.cluster.consul.kv.walk("")
                    if entry.session == session and "/status/" not in entry.key
                ]
                seen.append((a.leader, set(a.worker.my_workload), held))
            return 0.0

        self.cluster.network(a).latency = look
        self.cluster.result(a.shutdown())

        self.assertEqual(seen, [(None, set(), [])])

    def test_v3_restart(self) -> None:
        """
        V3: a clean restart of the leader leaves nobody leaderless for a second.
        """
        a, b = self.two()
        began = self.cluster.clock.seconds()
        gap = 0.0

        a.shutdown()
        while self.cluster.clock.seconds() < began + 3:
            self.cluster.advance(0.01)
            gap += 0.0 if self.cluster.leaders else 0.01

        self.assertLess(gap, 0.3)
        self.assertTrue(b.is_leader)

    def test_v3_restart_alone(self) -> None:
        """
        V3: not even if it is alone.
        """
        a = self.lead("a")
        self.cluster.result(a.shutdown())
        self.cluster.crash(a)

        again = self.cluster.add("a")

        self.assertLess(self.cluster.until(lambda: again.is_leader), 1.0)

    def test_v4_local_deadline(self) -> None:
        """
        V4: with Consul out of reach a leader is none from its own deadline on,
        which is before Consul can have ended its session.
        """
        a, _ = self.two()
        session = a.session_id
        self.cluster.network(a).partition()
        began = self.cluster.clock.seconds()

        self.cluster.until(lambda: not a.is_leader)

        self.assertLess(self.cluster.clock.seconds() - began, 3.0)
        living = [one.id for one in self.cluster.consul.sessions.all()]
        self.assertIn(session, living)

    def test_v8_step_down_without_a_leader(self) -> None:
        """
        V8: giving up without leading, once and again, is nothing at all.
        """
        a, b = self.two()

        for _ in range(2):
            b.election.give_up("test")
            b.election.wake()
        self.cluster.advance(1)

        self.assertEqual((a.is_leader, b.role), (True, "follower"))
        self.assertEqual(self.logged("task-failed"), [])

    def test_v9_nothing_after_shutdown(self) -> None:
        """
        V9: no loop goes on, and no session is made, once it is shut down.
        """
        a, b = self.two()
        for member in (a, b):
            self.cluster.result(member.shutdown())
            self.assertEqual(self.cluster.left_behind(member), (0, 0))

        self.cluster.advance(60)

        self.assertEqual(list(self.cluster.consul.sessions.all()), [])

    def test_v12_addresses(self) -> None:
        """
        V12: an IPv6 address and a URL are addresses.
        """
        from twisted.internet.task import Clock

        for given, shown in (
            ("[::1]:8501", "http://[::1]:8501"),
            ("https://[2001:db8::1]:8501", "https://[2001:db8::1]:8501"),
            ("http://consul.example:80", "http://consul.example:80"),
        ):
            a = Coordinator(
                "h", "h", "a", 0, given, reactor=Clock(), now=lambda: 0.0, registry={}
            )
            self.assertEqual(a.consul_address, shown)

    def test_v13_no_plain_put(self) -> None:
        """
        V13: whatever a leader writes goes in a transaction that begins with the
        fence; it never puts or deletes a key by itself.
        """
        a = self.lead("a")
        plain: list[str] = []
        unfenced: list[bytes] = []

        def look(request: Request) -> float:
            if request.path.startswith("/v1/kv/") and request.method != "GET":
                plain.append(request.path)
            if b'"service/voltha/assignments/a/x"' in request.body:
                start = request.body.index(b"Verb")
                if b"check-session" not in request.body[start : start + 30]:
                    unfenced.append(request.body)
            return 0.0

        self.cluster.network(a).latency = look
        self.cluster.put_work("x")
        self.cluster.until(lambda: "x" in a.worker.my_workload)

        self.assertEqual(plain, [])
        # The worker's own claim is led by its member key's session.
        self.assertEqual(unfenced, [])

    def test_v14_index_goes_back(self) -> None:
        """
        V14: where nothing but Consul's index goes back, a watch begins anew, under the
        same session, and changes are seen as before (field report 82).
        """
        ahead = 1_000_000
        agent = self.cluster.consul.agent("node-of-b")
        answer = agent.handle
        asked: list[int] = []
        path = f"/v1/kv/{self.cluster.keys.leader}"

        def shifted(request: Request) -> Deferred[Response]:
            params = dict(request.params)
            index = params.get("index")
            if request.path == path:
                asked.append(0 if index is None else int(index))
            if index is not None:
                params["index"] = str(max(1, int(index) - ahead))
                request = evolve(request, params=tuple(params.items()))
            return answer(request).addCallback(moved)

        def moved(response: Response) -> Response:
            headers = dict(response.headers)
            if "x-consul-index" in headers:
                headers["x-consul-index"] = str(int(headers["x-consul-index"]) + ahead)
            return evolve(response, headers=headers)

        self.patch(agent, "handle", shifted)
        a, b = self.two()
        session = b.session_id
        self.assertGreater(asked[-1], ahead)

        ahead = 0
        asked.clear()
        agent.answer_waiting()
        self.cluster.advance(1)

        self.assertEqual(asked[0], 0)
        self.cluster.result(a.shutdown())
        self.cluster.until(lambda: b.is_leader, 3)
        self.assertEqual(b.session_id, session)


class ReportTests(DefectTestCase):
    """
    Public reports.
    """

    def test_12_session_not_found(self) -> None:
        """
        Field report 12: "session not found" to a renewal ends leading at once.
        """
        self.cluster.settings = Settings(failure_detection=0)
        a, _ = self.two()
        watch = to(f"kv/{self.cluster.keys.leader}", "GET")
        member = to(f"kv/{self.cluster.keys.member('a')}", "GET")
        self.cluster.network(a).loses_reply = lambda r: watch(r) or member(r)
        self.cluster.consul.destroy_session(a.session_id or "")

        self.cluster.until(lambda: not a.is_leader, 3.1)

        self.assertEqual(self.logged("lost-consul-session")[0]["reason"][:7], "renewal")

    def test_16_agent_stops(self) -> None:
        """
        Field report 16: an agent that stops cleanly ends its sessions at once.
        Nobody else leads before the old leader's own deadline, and it is none
        from the first observation.
        """
        a, b = self.two()

        self.cluster.consul.agent("node-of-a").leave()
        gone = self.cluster.until(lambda: not a.is_leader, 3.1)
        taken = self.cluster.until(lambda: b.is_leader, 20)

        self.assertLess(gone, 3.0)
        self.assertGreater(taken, 0.0)

    def test_19_killed_by_hand(self) -> None:
        """
        Field report 19: a session killed by hand: the stale leader's transaction
        gets its 409, and the next leader has a higher token.
        """
        a, b = self.two()
        token = a.lease.token or 0
        write = self.stale_write(a)
        self.cluster.network(a).latency = lambda request: 0.2
        self.cluster.consul.destroy_session(a.session_id or "")

        outcome = self.cluster.result(write())
        self.assertTrue(outcome.refused)
        self.cluster.until(lambda: self.cluster.leaders, 20)

        self.assertGreater(self.cluster.leaders[0].lease.token or 0, token)
        self.assertNotIn("stale", self.written())
        self.assertTrue(a is not b)

    def test_36_own_lock_delay(self) -> None:
        """
        Field report 36: after a violent end the former leader waits out its own
        lock-delays, somebody else the leader key's; the status says for what.
        """
        self.cluster.settings = Settings(lock_delay=5.0)
        a, b = self.two()

        self.cluster.consul.destroy_session(a.session_id or "")
        self.cluster.until(lambda: "lock-delay" in (b.status()["waiting_for"] or ""), 3)
        self.cluster.advance(1)
        self.assertEqual(a.status()["waiting_for"], "the member key")
        took = self.cluster.until(lambda: self.cluster.leaders)

        self.assertLess(took, 5.5)

    def test_38_two_failures(self) -> None:
        """
        Field report 38: Consul's leader dies within the lock-delay that our
        leader's death left.
        """
        a, b = self.two()
        self.cluster.crash(a)
        self.cluster.until(lambda: b.leader_id is None, 4)

        self.cluster.consul.lose_leader(3)
        self.cluster.until(lambda: b.is_leader, 15)

        self.assertEqual(self.cluster.leaders, [b])

    def test_43_consul_elects(self) -> None:
        """
        Field report 43: an election of Consul's, within what the check rides
        out, changes no leader of ours; with TTL alone not even a long one does.
        """
        for settings, seconds in (
            (Settings(), 1.5),
            (Settings(failure_detection=0), 8.0),
        ):
            self.setUp()
            self.cluster.settings = settings
            a, _ = self.two()
            token = a.lease.token

            self.cluster.consul.lose_leader(seconds)
            self.cluster.advance(40)

            self.assertEqual(
                (a.lease.token, self.logged("lost-leadership")), (token, [])
            )
            self.cluster.close()

    def test_44_watch_times_out(self) -> None:
        """
        Field report 44: a watch that times out means nothing.
        """
        a, _ = self.two()
        token = a.lease.token
        watch = to(f"kv/{self.cluster.keys.leader}", "GET")
        self.cluster.network(a).loses_reply = watch

        self.cluster.advance(120)

        self.assertEqual(a.lease.token, token)

    def test_46_candidate_again(self) -> None:
        """
        Field report 46: nothing of a lost term is in the way of the next one.
        """
        a = self.lead("a")

        for _ in range(5):
            token = a.lease.token
            self.cluster.consul.destroy_session(a.session_id or "")
            self.cluster.until(lambda t=token: a.lease.token not in (None, t))  # type: ignore[misc]  # a lambda's default

        self.assertEqual(len(self.logged("became-leader")), 6)

    def test_47_56_flag_before_callbacks(self) -> None:
        """
        Field reports 47, 56: whoever is told that leading is over, by any way,
        finds that every answer agrees; and nothing was released before.
        """
        a, _ = self.two()
        seen: list[Any] = []

        def look(event: Event) -> None:
            if isinstance(event, RoleChanged):
                key = self.cluster.consul.kv.get(self.cluster.keys.leader)
                seen.append(
                    (
                        a.is_leader,
                        a.status()["is_leader"],
                        a.lease.token,
                        key is not None and key.session == a.session_id,
                    )
                )

        a.listen(look)
        a.election.give_up("test")
        self.assertEqual(seen, [(False, False, None, True)])

        self.cluster.advance(8)
        self.assertEqual(len(seen), 2)

    def test_48_step_down_hangs(self) -> None:
        """
        Field report 48: a leader whose halt hangs keeps nobody from taking over.
        """

        class Hanging:
            def __init__(self, coordinator: Coordinator) -> None:
                pass

            def start(self) -> None:
                pass

            def halt(self) -> Any:
                from twisted.internet.defer import Deferred

                return Deferred()

        a = self.lead("a", leader_class=Hanging)
        b = self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.advance(1)

        a.election.give_up("test")

        self.assertLess(self.cluster.until(lambda: b.is_leader), 1.0)

    def test_51_status_consults_the_deadline(self) -> None:
        """
        Field report 51: a process that nothing has called since its deadline
        does not say that it leads.
        """
        a, _ = self.two()
        lease = a.session.lease
        assert lease is not None

        self.cluster.process(a).clock.skip(lease.remaining + 0.001)

        self.assertEqual((a.is_leader, a.status()["is_leader"]), (False, False))
        self.assertEqual(a.role, "candidate")

    def test_53_terms_do_not_overlap(self) -> None:
        """
        Field report 53: with many candidates, and leadership that moves again
        and again, by Consul's own index no term begins before the last was over.
        """
        members = [self.cluster.add(f"m{number}") for number in range(12)]
        self.cluster.until(lambda: self.cluster.leaders)
        tokens = []

        for round_ in range(12):
            self.cluster.until(lambda: self.cluster.leaders, 40)
            (leader,) = self.cluster.leaders
            tokens.append(leader.lease.token or 0)
            record = self.cluster.entry(self.cluster.keys.term)
            assert record is not None
            self.assertEqual(TermRecord.from_entry(record).token, tokens[-1])
            self.assertGreater(record.modify_index, tokens[-1])
            if round_ % 3 == 0:
                leader.election.give_up("test")
            elif round_ % 3 == 1:
                self.cluster.result(self.cluster.api.delete(self.cluster.keys.leader))
            else:
                self.cluster.consul.destroy_session(leader.session_id or "")
            self.cluster.until(lambda one=leader: not one.is_leader, 4)  # type: ignore[misc]  # a lambda's default

        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertEqual(len(members), 12)

    def test_54_release_is_verified(self) -> None:
        """
        Field report 54: a release whose reply is lost is looked at again; one
        that cannot be made is replaced by the end of the session.
        """
        a, b = self.two()
        lost = Once(writes(self.cluster.keys.leader))
        self.cluster.network(a).loses_reply = lost
        a.election.give_up("test")

        self.cluster.until(lambda: b.is_leader, 3)
        self.cluster.advance(12)

        self.assertEqual(lost.met >= 1, True)
        record = self.cluster.entry(self.cluster.keys.term)
        assert record is not None
        self.assertEqual(TermRecord.from_entry(record).holder, "b")

    def test_55_hooks_cannot_extend(self) -> None:
        """
        Field report 55: a shutdown hook that never ends lets nobody act past the
        end of the lease.
        """

        class Hanging:
            my_workload: frozenset[str] = frozenset()

            def __init__(self, instance_id: str, coordinator: Coordinator) -> None:
                pass

            def start(self) -> None:
                pass

            def halt(self) -> Any:
                from twisted.internet.defer import Deferred

                return Deferred()

        a = self.lead("a", worker_class=Hanging)
        b = self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)

        ended = a.shutdown()
        self.assertFalse(a.is_leader)
        self.cluster.until(lambda: b.is_leader, 1)

        self.cluster.result(ended, 14)
        self.assertEqual(a.role, "stopped")

    def test_59_no_timed_tolerance(self) -> None:
        """
        Field report 59: while the connection is suspended one leads on only as
        long as the session cannot have ended.
        """
        a, b = self.two()
        self.cluster.network(a).partition()
        overlap = 0
        alone = 0

        for _ in range(1000):
            self.cluster.advance(0.01)
            overlap += a.is_leader and b.is_leader
            alone += a.is_leader

        self.assertEqual(overlap, 0)
        self.assertGreater(alone, 100)
        self.assertTrue(b.is_leader)

    def test_61_own_key(self) -> None:
        """
        Field report 61: a leader key that our own living session holds, from an
        acquisition whose reply never came, is recognised.
        """
        a = self.cluster.add("a")
        network = self.cluster.network(a)
        key = writes(self.cluster.keys.leader)
        network.loses_reply = Once(key, times=2)

        self.cluster.until(lambda: a.is_leader, 40)

        self.assertEqual(len(self.logged("became-leader")), 1)

    def test_62_no_orphan(self) -> None:
        """
        Field report 62: a candidate that is shut down with its acquisition under
        way leaves no key behind, wherever that was cut short.
        """
        for delay in (0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.2):
            a = self.cluster.add("a")
            network = self.cluster.network(a)
            wanted = writes(self.cluster.keys.leader)
            network.latency = lambda r, w=wanted: 0.1 if w(r) else 0.01  # type: ignore[misc]  # a lambda's default
            network.lands_late = lambda request: True
            self.cluster.until(lambda m=a: m.is_member)  # type: ignore[misc]  # a lambda's default
            self.cluster.advance(delay)

            self.cluster.result(a.shutdown())
            self.cluster.advance(2)

            self.assertEqual(self.cluster.entry(self.cluster.keys.leader), None, delay)
            self.cluster.crash(a)

    def test_63_connection_lost(self) -> None:
        """
        Field report 63: a leader abdicates when its connection is lost, and says
        that it is lost.
        """
        a, b = self.two()
        self.cluster.network(a).partition()

        self.cluster.until(lambda: b.is_leader, 6)

        self.assertEqual((a.is_leader, a.connection.value), (False, "lost"))

    def test_64_nobody_leads(self) -> None:
        """
        Field report 64: that nobody leads for long is said again and again, for
        how long, and everything is read anew.
        """
        a = self.cluster.add("a", can_lead=False)
        self.cluster.until(lambda: a.is_member)

        self.cluster.advance(2.5 * LEADERLESS_SECONDS)

        said = [one["seconds"] for one in self.logged("no-leader")]
        self.assertEqual(len(said), 2)
        self.assertGreater(said[1], 1.9 * LEADERLESS_SECONDS)

    def test_64_wedged(self) -> None:
        """
        Field report 64: a loop that nothing wakes looks again by itself.
        """
        session = self.cluster.result(
            self.cluster.api.create_session(SessionSpec("x", ttl=3600, lock_delay=0))
        )
        self.cluster.result(
            self.cluster.api.put(self.cluster.keys.leader, b"x", acquire=session)
        )
        a = self.cluster.add("a")
        self.cluster.until(lambda: a.leader_id == "x")
        record = TermRecord("a", a.session_id or "", token=1)
        self.cluster.result(
            self.cluster.api.put(self.cluster.keys.term, record.encode())
        )

        self.cluster.advance(310)

        entry = self.cluster.entry(self.cluster.keys.term)
        assert entry is not None
        self.assertTrue(TermRecord.from_entry(entry).released)

    def test_74_stopped_and_continued(self) -> None:
        """
        Field report 74: a leader stopped by a signal is replaced in time; when
        it goes on, nothing of what it had in mind is written.
        """
        a, b = self.two()
        self.cluster.put_work("w1", "w2")
        self.cluster.advance(6)
        write = self.stale_write(a)
        self.cluster.pause(a)
        took = self.cluster.until(lambda: b.is_leader, 10)
        self.assertLess(took, 3.0 + 1.0 + 0.5)
        self.cluster.advance(3)

        self.cluster.resume(a)
        with self.assertRaises(LeaseOverError):
            self.cluster.result(write())
        self.cluster.advance(10)

        self.assertNotIn("stale", self.written())
        self.assertEqual(self.cluster.leaders, [b])

    def test_140_release_within_a_round_trip(self) -> None:
        """
        Field report 140: a clean stop releases with its very first requests.
        """
        a, b = self.two()
        for member in (a, b):
            network = self.cluster.network(member)
            network.latency = network.reply_latency = lambda request: 0.02
        self.cluster.advance(1)

        a.shutdown()
        took = self.cluster.until(
            lambda: (
                self.cluster.consul.kv.get(self.cluster.keys.leader) is None
                or b.leader_id != "a"
            )
        )

        self.assertLess(took, 0.12)
