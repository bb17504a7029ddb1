"""
Tests for the worker: what becomes of items while Consul is away.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from tests.support.working import KillingRunner, StringRunner
from tests.test_worker import WorkerCase
from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.events import WorkStuck
from voltha_coord.records import OwnerRecord
from voltha_coord.settings import Settings

#: Longer than every lease and every emergency takes to come, in seconds.
LONG = 60.0


class IsolationCase(WorkerCase):
    """
    A test with a member that runs items and is cut off.
    """

    def make_runner(self) -> StringRunner:
        """
        Make a runner that can kill.
        """
        return KillingRunner(self.floor)

    def work(self, *work: str, **kw: Any) -> Coordinator:
        """
        Give a member that runs some items.
        """
        member = self.worker(**kw)
        self.assign("a", *work)
        self.advance(1)
        self.assertEqual(self.workload("a"), set(work))
        self.runners["a"].calls.clear()
        return member

    def cut_off(self, name: str = "a") -> None:
        """
        Let nothing of a member reach Consul.
        """
        self.cluster.network(self.cluster.members[name]).partition()

    def heal(self, name: str = "a") -> None:
        """
        Let it reach Consul again.
        """
        self.cluster.network(self.cluster.members[name]).heal(deliver=False)

    def lose_session(self, name: str = "a") -> None:
        """
        End a member's session by hand.
        """
        session = self.cluster.members[name].session_id or ""
        self.cluster.consul.destroy_session(session)


class SessionTests(IsolationCase):
    """
    Sessions that Consul says are gone.
    """

    def test_lost_reply(self) -> None:
        """
        What was confirmed without our hearing so is ours all the same, and goes
        on.
        """
        member = self.work("w1", "w2", settings=Settings(command_timeout=0.5))
        confirms = self.of_verb("cas", self.keys.owners)
        lost: list[Request] = []

        def loses(request: Request) -> bool:
            if confirms(request) and not lost:
                lost.append(request)
                return True
            return False

        self.cluster.network(member).loses_reply = loses
        self.lose_session()
        self.advance(4)

        self.assertEqual(len(lost), 1)
        self.assertEqual(self.runners["a"].calls, [])
        self.assert_settled("w1", "w2")
        self.assertEqual(self.owner("w1").session, member.session_id)

    def test_landing_late(self) -> None:
        """
        So is what is confirmed by a request that was given up and lands after
        the owner records were read.
        """
        member = self.work("w1", settings=Settings(command_timeout=0.2))
        confirms = self.of_verb("cas", self.keys.owners)
        slow: list[Request] = []

        def latency(request: Request) -> float:
            if confirms(request) and not slow:
                slow.append(request)
                return 0.23
            return 0.0

        network = self.cluster.network(member)
        network.latency, network.lands_late = latency, lambda request: True
        self.lose_session()
        self.advance(5)

        self.assertEqual(len(slow), 1)
        self.assertEqual(self.runners["a"].calls, [])
        self.assert_settled("w1")

    def test_moved_meanwhile(self) -> None:
        """
        An item whose assignment is another member's by then stops, and only it.
        """
        self.work("w1", "w2")
        self.worker("b")
        self.lose_session()
        self.delete(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("b", "w1"))
        self.advance(4)

        self.assertEqual(self.runners["a"].asked("stop"), ["w1"])
        self.assertEqual(self.workload("b"), {"w1"})
        self.assert_settled("w1", "w2")

    def test_changed_meanwhile(self) -> None:
        """
        An item whose assignment has changed by then is confirmed once that was
        read again, which may take its time: it is asked for once.
        """
        member = self.work("w1", settings=Settings(failure_detection=9.0))
        path = f"/v1/kv/{self.keys.assignments_of('a')}"
        network = self.cluster.network(member)
        network.reply_latency = lambda r: 1.0 if r.path == path else 0.0
        self.lose_session()
        self.cluster.until(lambda: not self.workload("a") or member.session_id is None)
        self.put(self.keys.assignment("a", "w1"), b'{"phase": "run"}')
        self.requests["a"].clear()
        self.advance(5)

        self.assertEqual(self.runners["a"].calls, [])
        self.assert_settled("w1")
        self.assertEqual(self.owner("w1").session, member.session_id)
        reads = [r for r in self.requests["a"] if r.path == path]
        self.assertLessEqual(len(reads), 4)

    def test_taken_meanwhile(self) -> None:
        """
        An item whose owner record is not as we left it stops at once, before
        its deadline.
        """
        member = self.work("w1", "w2")
        lease = member.session.lease
        assert lease is not None
        self.lose_session()
        self.put(self.keys.owner("w1"), OwnerRecord("b", "s").encode())
        self.cluster.until(lambda: self.runners["a"].calls, 3.0)

        self.assertEqual(self.runners["a"].calls, [("stop", "w1")])
        self.assertGreater(lease.deadline - member.steady.seconds(), 1.0)

    def test_flapping(self) -> None:
        """
        Sessions that are lost one after the other do not stop work either, nor
        let it go on past the deadline of the lease it was confirmed under.
        """
        member = self.work("w1")
        for _ in range(4):
            self.lose_session()
            self.advance(1.7)
        self.advance(10)

        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(self.owner("w1").session, member.session_id)
        self.assertEqual(self.floor.clashes, [])

    def test_never_confirmed(self) -> None:
        """
        Where it cannot be confirmed for want of our member key, it stops in
        time, and starts again when it can.
        """
        member = self.work("w1")
        deadline = member.session.lease.deadline  # type: ignore[union-attr]
        blocked = self.cluster.result(self.make_blocker())
        self.lose_session()
        self.cluster.result(self.take_member_key(blocked))
        self.cluster.until(lambda: self.runners["a"].asked("stop"), 5.0)
        stopped_at = member.steady.seconds()
        self.cluster.consul.destroy_session(blocked)
        self.advance(10)

        self.assertLess(stopped_at, deadline)
        self.assertEqual(self.runners["a"].calls, [("stop", "w1"), ("start", "w1")])
        self.assert_settled("w1")

    def make_blocker(self) -> Deferred[str]:
        """
        Make a session of somebody else's.
        """
        return self.cluster.api.create_session(SessionSpec("x", 3600.0, 0.0))

    def take_member_key(self, session: str) -> Deferred[bool]:
        """
        Let another session hold our member key.
        """
        self.cluster.consul.kv.forget_delays()
        return self.cluster.api.put(self.keys.member("a"), b"", acquire=session)


class HungTests(IsolationCase):
    """
    What was asked before an outage, and is never answered.
    """

    def test_round(self) -> None:
        """
        A claim that hangs since before the outage does not hold up what is done
        after it.
        """
        member = self.work("w1", settings=Settings(command_timeout=60.0))
        claims = self.of_verb("cas", self.keys.owners)
        network = self.cluster.network(member)
        network.loses_request = claims
        self.assign("a", "w2")
        self.advance(1)
        self.cut_off()
        self.advance(8)
        self.heal()
        network.loses_request = lambda request: False
        took = self.cluster.until(lambda: self.workload("a") == {"w1", "w2"}, 20.0)

        self.assertLess(took, 8.0)
        self.assert_settled("w1", "w2")

    def test_release(self) -> None:
        """
        So it is with a release.
        """
        self.work("w1", settings=Settings(command_timeout=60.0))
        self.worker("b")
        network = self.cluster.network(self.cluster.members["a"])
        network.loses_request = self.of_verb("delete-cas", self.keys.owners)
        self.delete(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("b", "w1"))
        self.advance(1)
        self.cut_off()
        self.advance(8)
        self.heal()
        network.loses_request = lambda request: False
        took = self.cluster.until(lambda: self.workload("b") == {"w1"}, 20.0)

        self.assertLess(took, 8.0)
        self.assert_settled("w1")


class StopTests(IsolationCase):
    """
    G3: stopping has finished before anybody else may begin.
    """

    def stuck(self, member: Coordinator) -> list[tuple[str, ...]]:
        """
        Give the list that what is stuck is added to.
        """
        told: list[tuple[str, ...]] = []

        def listen(event: object) -> None:
            if isinstance(event, WorkStuck):
                told.append(event.items)

        member.listen(listen)
        return told

    def test_killed(self) -> None:
        """
        What does not stop is killed before the lease ends.
        """
        member = self.work("w1", "w2")
        told = self.stuck(member)
        lease = member.session.lease
        assert lease is not None
        killed: list[float] = []
        runner = self.runners["a"]
        assert isinstance(runner, KillingRunner)
        runner.stops["w1"] = Deferred()
        runner.kills["w1"] = lambda: killed.append(lease.remaining)
        self.cut_off()
        self.advance(5)

        (left,) = killed
        self.assertTrue(0 < left <= self.settings.grace / 5 + 0.01, left)
        self.assertEqual((self.workload("a"), told), (set(), []))
        self.assertEqual(self.logged("work-stuck"), [])

    def test_stuck(self) -> None:
        """
        What cannot be killed either is told when the lease is over, once; it
        does not count as running, stays here, and is not started again before it
        has stopped.
        """
        member = self.work("w1", "w2")
        told = self.stuck(member)
        stopping: Deferred[None] = Deferred()
        runner = self.runners["a"]
        assert isinstance(runner, KillingRunner)
        runner.stops["w1"] = stopping
        runner.kills["w1"] = Deferred
        self.cut_off()
        self.advance(10)
        during = self.workload("a"), list(told), self.floor.running.get("w1")
        self.heal()
        self.advance(10)
        after = self.workload("a"), list(runner.asked("start"))
        stopping.callback(None)
        self.advance(3)

        self.assertEqual(during[:2], (set(), [("w1",)]))
        self.assertIs(during[2], runner)
        self.assertEqual(len(self.logged("work-stuck")), 1)
        self.assertEqual(after[1], ["w2"])
        self.assertIn("w2", after[0])
        self.assertEqual(runner.asked("start"), ["w2", "w1"])
        self.assert_settled("w1", "w2")

    def test_moved_stop_over_the_end(self) -> None:
        """
        An item that moves away and does not stop is killed when the lease ends,
        and is released when that is possible.
        """
        self.work("w1")
        self.worker("b")
        self.runners["a"].stops["w1"] = Deferred()
        self.delete(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("b", "w1"))
        self.advance(1)
        self.cut_off()
        self.advance(5)
        killed = self.runners["a"].asked("kill")
        self.heal()
        self.advance(5)

        self.assertEqual(killed, ["w1"])
        self.assertEqual(self.workload("b"), {"w1"})
        self.assert_settled("w1")

    def test_shut_down(self) -> None:
        """
        What has not stopped when a member that shuts down waits no longer is
        killed before its session ends.
        """
        member = self.work("w1", settings=Settings(drain_timeout=4.0))
        ran: list[bool] = []
        runner = self.runners["a"]
        assert isinstance(runner, KillingRunner)
        session = member.session_id or ""
        runner.kills["w1"] = lambda: ran.append(session in self.sessions())
        runner.stops["w1"] = Deferred()
        self.cluster.result(member.shutdown())

        self.assertEqual(ran, [True])
        self.assertNotIn(session, self.sessions())
        self.assertEqual(self.floor.running, {})
        self.assertEqual(self.cluster.left_behind(member), (0, 0))

    def sessions(self) -> set[str]:
        """
        Give the sessions there are.
        """
        return {one.id for one in self.cluster.consul.sessions.all()}

    def test_waiting_start(self) -> None:
        """
        What stands in line when the lease ends is not started, and is when the
        next one has begun.
        """
        self.worker(settings=Settings(concurrent_work=1))
        starts: dict[str, Deferred[None]] = {"w1": Deferred(), "w2": Deferred()}
        self.runners["a"].starts.update(starts)
        self.assign("a", "w1", "w2")
        self.advance(1)
        self.cut_off()
        self.advance(5)
        during = list(self.runners["a"].calls)
        self.runners["a"].starts.clear()
        self.heal()
        self.advance(10)

        self.assertEqual(during, [("start", "w1"), ("stop", "w1")])
        self.assert_settled("w1", "w2")

    def test_late_start(self) -> None:
        """
        A start that ends after its item was stopped for want of a lease has
        not started it.
        """
        self.worker()
        starting: Deferred[None] = Deferred()
        self.runners["a"].starts["w1"] = starting
        self.assign("a", "w1")
        self.advance(1)
        self.cut_off()
        self.advance(5)
        starting.callback(None)
        self.advance(1)

        self.assertEqual(self.workload("a"), set())
        self.assertEqual(self.floor.running, {})

    def test_member_key_deleted(self) -> None:
        """
        That somebody deletes our member key stops nothing: what we own rests on
        the session.
        """
        self.work("w1")
        self.delete(self.keys.member("a"))
        self.advance(5)

        self.assertEqual(self.runners["a"].calls, [])
        self.assert_settled("w1")

    def test_paused(self) -> None:
        """
        A process that stood still stops, and kills, first thing on waking.
        """
        member = self.work("w1", "w2")
        told = self.stuck(member)
        self.runners["a"].stops["w2"] = Deferred()
        self.cluster.pause(member)
        self.advance(LONG)
        self.cluster.resume(member)

        self.assertEqual(self.runners["a"].asked("kill"), ["w2"])
        self.assertEqual(self.floor.running, {})
        self.assertEqual((self.workload("a"), told), (set(), []))


class KeepTests(IsolationCase):
    """
    ``isolation = keep``.
    """

    settings = Settings(isolation="keep")

    def test_goes_on(self) -> None:
        """
        Cut off, work goes on; upon contact it is confirmed, without a stop.
        """
        member = self.work("w1", "w2")
        before = member.session_id
        self.cut_off()
        self.advance(LONG)
        during = self.workload("a"), member.role
        self.heal()
        self.advance(5)

        self.assertEqual(during, ({"w1", "w2"}, "emergency"))
        self.assertEqual(self.runners["a"].calls, [])
        self.assertNotEqual(member.session_id, before)
        self.assertEqual(self.owner("w1").session, member.session_id)
        self.assert_settled("w1", "w2")

    def test_taken_over(self) -> None:
        """
        What another member has taken over stops within seconds of contact.
        """
        self.work("w1", "w2")
        self.cut_off()
        self.advance(LONG)
        self.put(self.keys.owner("w1"), OwnerRecord("b", "s").encode())
        self.delete(self.keys.assignment("a", "w1"))
        self.heal()
        self.cluster.until(lambda: self.runners["a"].calls, 3.0)
        self.advance(3)

        self.assertEqual(self.runners["a"].asked("stop"), ["w1"])
        self.assertEqual(self.workload("a"), {"w2"})
        self.assertEqual(self.cluster.owners(), {"w1": "b", "w2": "a"})

    def test_cleared(self) -> None:
        """
        What the leader has taken from us stops, and starts again if it is still
        to run here.
        """
        self.work("w1")
        self.cut_off()
        self.advance(LONG)
        self.delete(self.keys.owner("w1"))
        self.heal()
        self.advance(5)

        self.assertEqual(self.runners["a"].calls, [("stop", "w1"), ("start", "w1")])
        self.assert_settled("w1")

    def test_nothing_new(self) -> None:
        """
        Cut off, nothing is begun: neither what waits, nor what failed.
        """
        self.worker()
        self.runners["a"].starts["w1"] = ValueError("bad")
        self.assign("a", "w1", "w2")
        self.advance(1)
        self.cut_off()
        self.advance(4)
        tried = len(self.runners["a"].asked("start"))
        self.runners["a"].starts.clear()
        self.advance(LONG)
        during = self.workload("a"), len(self.runners["a"].asked("start"))
        self.heal()
        self.advance(10)

        self.assertEqual(during, ({"w2"}, tried))
        self.assertEqual(self.workload("a"), {"w1", "w2"})
        self.assertEqual(self.runners["a"].asked("stop"), [])

    def test_updates_and_stops_go_on(self) -> None:
        """
        A stop that is under way when contact is lost is finished, and its item
        released upon contact.
        """
        self.work("w1")
        self.worker("b")
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        self.delete(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("b", "w1"))
        self.advance(1)
        self.cut_off()
        self.advance(10)
        stopping.callback(None)
        self.advance(10)
        during = self.workload("a"), self.cluster.owners()
        self.heal()
        self.advance(5)

        self.assertEqual(during, (set(), {"w1": "a"}))
        self.assertEqual(self.runners["a"].asked("kill"), [])
        self.assert_settled("w1")

    def test_contact_flaps(self) -> None:
        """
        Contact that comes and goes neither stops work nor runs it twice.
        """
        self.work("w1", "w2")
        for seconds in (8.0, 0.3, 1.0, 2.0, 5.0):
            self.cut_off()
            self.advance(12.0)
            self.heal()
            self.advance(seconds)
        self.advance(10.0)

        self.assertEqual(self.runners["a"].calls, [])
        self.assert_settled("w1", "w2")

    def test_contact_without_membership(self) -> None:
        """
        Upon contact the owner records are read although somebody else holds our
        member key: what is not ours any more stops.
        """
        self.work("w1", "w2")
        self.cut_off()
        self.advance(LONG)
        self.delete(self.keys.owner("w1"))
        session = self.cluster.result(
            self.cluster.api.create_session(SessionSpec("x", 3600.0, 0.0))
        )
        self.cluster.result(
            self.cluster.api.put(self.keys.member("a"), b"", acquire=session)
        )
        self.heal()
        self.advance(5)

        self.assertFalse(self.cluster.members["a"].is_member)
        self.assertEqual(self.runners["a"].calls, [("stop", "w1")])
        self.assertEqual(self.workload("a"), {"w2"})

    def test_shutdown(self) -> None:
        """
        Shutting down stops it all the same.
        """
        member = self.work("w1")
        self.cut_off()
        self.advance(LONG)
        self.cluster.result(member.shutdown(), 30.0)

        self.assertEqual(self.runners["a"].calls, [("stop", "w1")])
        self.assertEqual(self.floor.running, {})

    def test_refused(self) -> None:
        """
        Where Consul answers, and gives no session, it is no isolation: what
        went on stops.
        """
        self.work("w1")
        self.cut_off()
        self.advance(20)
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "session"
        )
        self.heal()
        self.advance(LONG)

        self.assertEqual(self.workload("a"), set())
        self.assertEqual(self.floor.running, {})


class TakeoverTests(IsolationCase):
    """
    ``isolation = takeover``.
    """

    settings = Settings(isolation="takeover", node_recover_timeout=20.0)

    def lose_the_others(self) -> None:
        """
        Give two members work, and cut one of them off.
        """
        self.member("a")
        self.member("b")
        self.cluster.put_work("w1", "w2", "w3", "w4")
        self.advance(15)
        self.assertEqual(len(self.workload("a")), 2)
        self.mine = self.workload("a")
        for runner in self.runners.values():
            runner.calls.clear()
        self.cut_off("a")

    def test_extra(self) -> None:
        """
        In an emergency the items of lost members run here too, without owner
        records; upon contact they stop at once, and what was ours goes on.
        """
        self.lose_the_others()
        self.advance(35)
        during = self.workload("a")
        started = list(self.runners["a"].asked("start"))
        owners = self.cluster.owners()
        self.heal("a")
        self.advance(1)
        contact = self.workload("a")
        self.advance(20)

        self.assertEqual(during, {"w1", "w2", "w3", "w4"})
        self.assertEqual(set(started), during - self.mine)
        self.assertNotIn("a", owners.values())
        self.assertFalse(contact - self.mine)

    def test_failing_extra(self) -> None:
        """
        One that will not start is tried again while the emergency lasts.
        """
        self.lose_the_others()
        (first, _) = sorted({"w1", "w2", "w3", "w4"} - self.mine)
        self.runners["a"].starts[first] = ValueError("bad")
        self.advance(30)
        failing = self.workload("a")
        self.runners["a"].starts.clear()
        self.advance(10)

        self.assertNotIn(first, failing)
        self.assertIn(first, self.workload("a"))

    def test_shutdown(self) -> None:
        """
        Shutting down stops them as well, and nothing is released in their name.
        """
        self.lose_the_others()
        self.advance(35)
        self.cluster.result(self.cluster.members["a"].shutdown(), 30.0)

        running = {w for w, r in self.floor.running.items() if r is self.runners["a"]}
        self.assertEqual(running, set())
