"""
Tests for :mod:`voltha_coord.leader`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

from twisted.internet.task import deferLater
from zope.interface import implementer

from tests.support.working import ClusterCase, operations
from voltha_coord import leader
from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.errors import LeaseOverError
from voltha_coord.interfaces import IPlanner, ISteppedPlanner
from voltha_coord.leader import Leader
from voltha_coord.pass_report import PassReport
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.fingerprint import fingerprint
from voltha_coord.planning.operations import Plan
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import Member, OwnerRecord
from voltha_coord.settings import MOST_SOAKS, Settings
from voltha_coord.stretch import Stretch

SETTINGS = Settings()


def is_snapshot(request: Request) -> bool:
    """
    Whether it reads what a pass looks at.
    """
    return any(op.verb == "get-tree" for op in operations(request))


class LeaderCase(ClusterCase):
    """
    A test with a leader.
    """

    def lead(self, name: str = "a", **kw: Any) -> Coordinator:
        """
        Add a member and wait until it leads.
        """
        member = self.member(name, **kw)
        self.wait_until_leading(member)
        return member

    def wait_until_leading(self, member: Coordinator) -> None:
        """
        Let time pass until a member leads.
        """
        for _ in range(2000):
            if member.is_leader and member.leader is not None:
                return
            self.advance(0.01)
        self.fail("nobody leads")

    def join(self, name: str, lock_delay: float = 0.0, **fields: Any) -> str:
        """
        Put a member's key there, held by a session, without a member behind
        it; give the session.
        """
        session: str = self.cluster.result(
            self.cluster.api.create_session(SessionSpec(name, 3600.0, lock_delay))
        )
        record = Member(name, version="1", **fields)
        self.cluster.result(
            self.cluster.api.put(
                self.keys.member(name), record.encode(), acquire=session
            )
        )
        return session

    def passes(self, name: str = "a") -> int:
        """
        Give how many snapshots a member has asked for.
        """
        return sum(map(is_snapshot, self.requests[name]))

    def last_pass(self, name: str = "a") -> PassReport:
        """
        Give what the last pass of a leader came to.
        """
        return cast(Leader, self.cluster.members[name].leader).last_pass


class SoakTests(LeaderCase):
    """
    Note [When a pass is made].
    """

    settings = Settings(resync_interval=3600.0)

    def assigned_after(self, name: str, seconds: float = 20.0) -> float:
        """
        Give after how many seconds a member has an assignment.
        """
        began = self.cluster.clock.seconds()
        while name not in self.cluster.assignments():
            self.advance(0.05)
            if self.cluster.clock.seconds() > began + seconds:
                self.fail(f"nothing assigned to {name} in {seconds} s")
        return self.cluster.clock.seconds() - began

    def assert_near(self, seconds: float, wanted: float, most: float = 0.15) -> None:
        """
        Check a time, which may be a little longer than wanted.
        """
        self.assertTrue(wanted - 0.01 <= seconds <= wanted + most, seconds)

    def test_new_cluster(self) -> None:
        """
        In a new cluster the first pass waits for all to be there: ``soak``.
        """
        self.cluster.put_work("w1")
        self.lead()

        self.assert_near(self.assigned_after("a"), SETTINGS.soak)

    def test_takeover(self) -> None:
        """
        Where work was assigned before, the first pass comes ``departed_soak``
        after the term began, if the leader has been there for a while.
        """
        a = self.member("a")
        session = self.join("before")
        leader = self.cluster.api.put(self.keys.leader, b"before", acquire=session)
        self.cluster.result(leader)
        self.put(self.keys.assignment("before", "w1"))
        self.cluster.put_work("w1")
        self.advance(10)
        self.cluster.result(self.cluster.api.destroy_session(session))
        self.wait_until_leading(a)

        self.assert_near(self.assigned_after("a"), SETTINGS.departed_soak)

    def test_takeover_after_a_lock_delay(self) -> None:
        """
        The time in which nobody led counts: after a lock-delay that is longer than
        ``departed_soak`` the first pass is made at once.
        """
        a = self.member("a")
        session = self.join("before", lock_delay=SETTINGS.departed_soak + 0.5)
        leader = self.cluster.api.put(self.keys.leader, b"before", acquire=session)
        self.cluster.result(leader)
        self.put(self.keys.assignment("before", "w1"))
        self.cluster.put_work("w1")
        self.advance(10)
        self.cluster.result(self.cluster.api.destroy_session(session))
        self.wait_until_leading(a)

        self.assert_near(self.assigned_after("a"), 0.0)

    def test_after_an_outage(self) -> None:
        """
        A leader whose own lease is young waits for members that have work: so
        long as ``soak``, and no longer.
        """
        self.put(self.keys.assignment("gone", "w1"))
        self.cluster.put_work("w1", "w2")
        self.lead()

        self.assert_near(self.assigned_after("a"), SETTINGS.soak)

        (said,) = self.logged("waiting-for-members")
        self.assertEqual((said["count"], said["some"]), (1, ["gone"]))
        self.assertEqual(self.cluster.assignments(), {"a": {"w1", "w2"}})

    def test_nobody_missing(self) -> None:
        """
        Where all are back, or those that are missing have no work that is still
        there, it waits for nobody.
        """
        self.join("b")
        self.put(self.keys.assignment("b", "w1"))
        self.put(self.keys.assignment("gone", "no-work-any-more"))
        self.cluster.put_work("w1", "w2")
        self.lead()

        self.assert_near(self.assigned_after("a"), SETTINGS.departed_soak)

        self.assertEqual(self.logged("waiting-for-members"), [])

    def test_join(self) -> None:
        """
        A member that joins gets work after ``soak``.
        """
        self.cluster.put_work("w1", "w2")
        self.lead()
        self.advance(10)

        self.join("b")

        self.assert_near(self.assigned_after("b"), SETTINGS.soak)

    def test_new_work(self) -> None:
        """
        Work that is added, or removed, is acted upon after ``soak``; names
        that cannot be work are not waited for.
        """
        self.lead()
        self.advance(10)
        before = self.passes()
        self.put(f"{self.keys.work}no good")
        self.advance(5)
        self.assertEqual(self.passes(), before)
        self.cluster.put_work("w1")

        self.assert_near(self.assigned_after("a"), SETTINGS.soak)
        self.cluster.remove_work("w1")
        self.advance(SETTINGS.soak - 0.1)
        still = self.cluster.assignments()
        self.advance(0.2)
        self.assertEqual((still, self.cluster.assignments()), ({"a": {"w1"}}, {}))

    def test_departed(self) -> None:
        """
        A departed member's work is moved after ``departed_soak``.
        """
        self.cluster.put_work("w1", "w2")
        self.lead()
        session = self.join("b")
        self.advance(10)
        before = self.cluster.assignments()

        self.cluster.result(self.cluster.api.destroy_session(session))
        self.advance(SETTINGS.departed_soak - 0.1)
        early = self.cluster.assignments()
        self.advance(0.25)

        self.assertEqual(set(before), {"a", "b"})
        self.assertEqual(early, before)
        self.assertEqual(self.cluster.assignments(), {"a": {"w1", "w2"}})

    def test_departed_at_the_beginning(self) -> None:
        """
        A member that leaves between the first look and the watch's is missed.
        """
        self.cluster.put_work("w1")
        session = self.join("b")
        member = self.member("a")
        path = f"/v1/kv/{self.keys.members}"
        network = self.cluster.network(member)
        network.reply_latency = lambda r: 0.5 if r.path == path else 0.0
        network.latency = lambda r: 0.5 if r.path == path else 0.0
        self.wait_until_leading(member)

        self.cluster.result(self.cluster.api.destroy_session(session))
        self.advance(1.0 + SETTINGS.departed_soak + 0.2)

        self.assertEqual(self.cluster.assignments(), {"a": {"w1"}})

    def test_leaving(self) -> None:
        """
        A member that says it leaves is as good as gone.
        """
        self.cluster.put_work("w1", "w2")
        self.lead()
        session = self.join("b")
        self.advance(10)
        record = Member("b", version="1", leaving=True)

        self.cluster.result(
            self.cluster.api.put(
                self.keys.member("b"), record.encode(), acquire=session
            )
        )
        self.advance(SETTINGS.departed_soak + 0.15)

        self.assertEqual(self.cluster.assignments(), {"a": {"w1", "w2"}})

    def test_restarted(self) -> None:
        """
        More changes begin the soak anew.
        """
        self.lead()
        self.advance(10)
        for n in range(3):
            self.cluster.put_work(f"w{n}")
            self.advance(2)
            self.assertEqual(self.cluster.assignments(), {})
        self.advance(1.1)

        self.assertEqual(self.cluster.assignments(), {"a": {"w0", "w1", "w2"}})

    def test_cap(self) -> None:
        """
        Ever new changes do not hold a pass off for ever.
        """
        self.lead()
        self.advance(10)
        began = self.cluster.clock.seconds()

        for n in range(30):
            self.cluster.put_work(f"w{n}")
            self.advance(1)
            if self.cluster.assignments():
                break

        taken = self.cluster.clock.seconds() - began
        self.assert_near(taken, MOST_SOAKS * SETTINGS.soak, 1.1)

    def test_departure_is_not_held_up(self) -> None:
        """
        Who joins while a departed member's work waits does not delay it by
        more than ``departed_soak``.
        """
        self.cluster.put_work("w1", "w2")
        self.lead()
        session = self.join("b")
        self.advance(10)

        self.cluster.result(self.cluster.api.destroy_session(session))
        self.advance(0.3)
        self.join("c")
        self.advance(SETTINGS.departed_soak + 0.15)

        self.assertNotIn("b", self.cluster.assignments())


class PassTests(LeaderCase):
    """
    What a pass does.
    """

    def test_consistent(self) -> None:
        """
        A term begins with a consistent snapshot, and every ``resync_interval`` there is
        another (field report 107).
        """
        self.lead()
        first = self.consistent()
        self.advance(5)
        self.requests["a"].clear()
        self.advance(6 * SETTINGS.resync_interval)

        self.assertTrue(first[0])
        self.assertEqual(sum(self.consistent()), 6)

    def consistent(self) -> list[bool]:
        """
        Give of each snapshot whether it was a consistent one.
        """
        found = filter(is_snapshot, self.requests["a"])
        return [("consistent", None) in request.params for request in found]

    def test_calm(self) -> None:
        """
        In an unchanged cluster nothing is written by anybody (G5), and the leader asks
        some 105 times a minute (field report 130).
        """
        for name in ("a", "b", "c"):
            self.member(name)
        self.cluster.put_work(*(f"w{n}" for n in range(20)))
        self.advance(20)
        index = self.cluster.consul.index
        for requests in self.requests.values():
            requests.clear()

        self.advance(120)

        self.assertEqual(self.cluster.consul.index, index)
        rates = {n: len(r) / 2 for n, r in self.requests.items()}
        (leader,) = self.cluster.leaders
        self.assertLessEqual(rates.pop(leader.instance_id), 107)
        self.assertLessEqual(max(rates.values()), 95)

    def test_deleted_owner_records(self) -> None:
        """
        Owner records that somebody deletes are back soon, though the members
        that run the items watch none; and nothing runs on two when it moves.
        """
        for name in ("a", "b"):
            self.member(name)
        work = [f"w{n}" for n in range(6)]
        self.cluster.put_work(*work)
        self.advance(20)
        for item in work:
            self.delete(self.keys.owner(item))
        self.advance(25)

        self.assert_settled(*work)
        (said,) = self.logged("owner-records-missing")
        self.assertEqual((said["items"], said["some"]), (6, work[:5]))
        index = self.cluster.consul.index
        self.advance(30)
        self.assertEqual(self.cluster.consul.index, index)

    def test_calm_without_work(self) -> None:
        """
        A leader of a cluster without work asks no more often.
        """
        self.lead()
        self.advance(20)
        self.requests["a"].clear()

        self.advance(60)

        self.assertLessEqual(len(self.requests["a"]), 105)

    def test_fenced(self) -> None:
        """
        Each transaction of a pass begins with the fence, and holds no more
        than 64 operations (V13, field report 118).
        """
        self.lead()
        self.cluster.put_work(*(f"w{n:03}" for n in range(200)))
        self.advance(5)

        writes = [
            ops
            for ops in self.written("a")
            if any(op.key.startswith(self.keys.assignments) for op in ops)
            and not any(op.key.startswith(self.keys.owners) for op in ops)
        ]
        self.assertEqual([len(ops) for ops in writes], [64, 64, 64, 16])
        for ops in writes:
            self.assertEqual(
                [(op.verb, op.key) for op in ops[:2]],
                [("check-session", self.keys.leader), ("cas", self.keys.term)],
            )

    def test_report(self) -> None:
        """
        What a pass came to is told.
        """
        self.lead()
        self.cluster.put_work("w1", "w2")
        self.put(f"{self.keys.work}a b")
        self.put(self.keys.node_intent("a"), b"holiday")
        self.advance(15)

        report = self.last_pass()

        self.assertEqual((report.items, report.members, report.operations), (2, 1, 0))
        self.assertGreaterEqual(report.number, 2)
        self.assertEqual(report.stray, (f"{self.keys.work}a%20b",))
        self.assertEqual(list(report.problems), [self.keys.node_intent("a")])
        self.assertEqual(len(self.logged("stray-keys")), 1)
        self.assertEqual(len(self.logged("unreadable-values")), 1)

    def test_frozen(self) -> None:
        """
        While planning is frozen nothing is written, and that is said once.
        """
        self.put(self.keys.freeze)
        self.put(self.keys.owner("old"), OwnerRecord("x", "nobody").encode())
        self.lead()
        self.cluster.put_work("w1")
        self.advance(40)
        frozen = (self.cluster.assignments(), sorted(self.cluster.owners()))

        self.delete(self.keys.freeze)
        self.advance(SETTINGS.resync_interval + 1)

        self.assertEqual(frozen, ({}, ["old"]))
        self.assertEqual(self.cluster.assignments(), {"a": {"w1"}})
        self.assertEqual(len(self.logged("planning-frozen")), 1)

    def test_counted(self) -> None:
        """
        Passes and what they did are counted, and how old the last one is is
        known; the counts outlive the term (field report 50).
        """
        leader = self.lead()
        self.cluster.put_work("w1", "w2")
        self.advance(5)
        self.cluster.remove_work("w2")
        self.put(self.keys.freeze)
        self.advance(SETTINGS.resync_interval)
        self.delete(self.keys.freeze)
        self.advance(SETTINGS.resync_interval)

        first = leader.leader
        assert isinstance(first, Leader)
        self.assertLess(first.pass_age, SETTINGS.resync_interval)
        self.assertEqual(first.last_pass.fingerprint, fingerprint({"a": {"w1": b""}}))
        leader.give_up_leadership("of-my-own")
        self.wait_until_leading(leader)
        self.assertIsNot(leader.leader, first)

        passes = leader.tally.passes
        self.assertEqual(
            passes.operations, {"assign": 2, "move": 0, "reassign": 0, "unassign": 1}
        )
        self.assertGreaterEqual(passes.outcomes.counts["made"], 2)
        self.assertGreaterEqual(passes.outcomes.counts["frozen"], 1)
        self.assertEqual(passes.outcomes.counts["failed"], 0)
        made = passes.outcomes.counts["made"] + passes.outcomes.counts["frozen"]
        self.assertEqual(passes.durations.count, made)
        self.assertGreater(leader.tally.watches["members"].wakes, 1)

    def test_lost_reply(self) -> None:
        """
        After a lost reply in the middle of a pass the rest is written, and
        nothing twice.
        """
        lost: list[Request] = []

        def loses(request: Request) -> bool:
            ours = any(
                op.key.startswith(self.keys.assignments) and op.verb == "set"
                for op in operations(request)
            )
            if ours and len(lost) < 3:
                lost.append(request)
                return len(lost) == 2
            return False

        leader = self.lead(settings=Settings(command_timeout=1.0))
        self.cluster.network(leader).loses_reply = loses
        self.cluster.put_work(*(f"w{n:03}" for n in range(200)))
        self.advance(10)

        sets = [
            op.key
            for ops in self.written("a")
            for op in ops
            if op.key.startswith(self.keys.assignments) and op.verb == "set"
        ]
        self.assertEqual(len(lost), 3)
        self.assertEqual((len(sets), len(set(sets))), (200, 200))
        self.assertEqual(len(self.cluster.assignments()["a"]), 200)

    def test_late_landing(self) -> None:
        """
        A chunk that was given up and lands later is refused; the next pass
        writes what is missing.
        """
        slow: list[Request] = []

        def latency(request: Request) -> float:
            if not slow and any(
                op.key.startswith(self.keys.assignments) and op.verb == "set"
                for op in operations(request)
            ):
                slow.append(request)
                return 3.0
            return 0.0

        leader = self.lead(settings=Settings(command_timeout=1.0))
        network = self.cluster.network(leader)
        network.latency, network.lands_late = latency, lambda request: True
        self.cluster.put_work("w1")
        self.advance(4.9)
        once = self.indexes()
        self.cluster.remove_work("w1")
        self.advance(10)

        self.assertEqual(len(slow), 1)
        self.assertIn(self.keys.assignment("a", "w1"), once)
        self.assertEqual(self.cluster.assignments(), {})

    def test_refused_chunk(self) -> None:
        """
        A chunk refused because an owner record changed between snapshot and
        write is made anew by the next pass.
        """
        self.cluster.put_work("w1", "w2")
        leader = self.lead()
        self.advance(5)
        session = "00000000-0000-4000-8000-000000000000"
        record = OwnerRecord("ghost", session, ttl=1.0).encode()
        self.put(self.keys.owner("w9"), record)
        meddled: list[Request] = []

        def meddle(request: Request) -> float:
            ops = operations(request)
            if not meddled and any(
                (op.verb, op.key) == ("delete-cas", self.keys.owner("w9")) for op in ops
            ):
                meddled.append(request)
                self.cluster.api.put(self.keys.owner("w9"), record + b" ")
                return 0.1
            return 0.0

        self.cluster.network(leader).latency = meddle
        self.advance(30)

        self.assertEqual(len(meddled), 1)
        self.assertEqual(self.value(self.keys.owner("w9")), None)
        self.assertEqual(len(self.logged("failed-reassignment")), 1)
        self.assertEqual(leader.tally.passes.outcomes.counts["failed"], 1)

    def test_lost_request(self) -> None:
        """
        A look that was lost is taken again.
        """
        self.cluster.put_work("w1", "w2")
        leader = self.lead(settings=Settings(resync_interval=3600.0))
        self.advance(10)
        failing = [True]
        network = self.cluster.network(leader)
        network.refuses = False
        network.loses_request = lambda r: failing[0] and is_snapshot(r)
        session = self.join("b")
        self.advance(3.2)
        self.join("c")
        failing[0] = False
        self.advance(SETTINGS.command_timeout + 0.4)

        self.assertTrue(session)
        self.assertEqual(len(self.logged("failed-reassignment")), 1)
        self.assertIn("b", self.cluster.assignments())

    def test_denied(self) -> None:
        """
        A listing that is denied while leading changes nothing, and is said;
        when it lasts another member is offered leadership.
        """
        self.lead()
        self.cluster.put_work("w1")
        self.advance(5)
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(self.keys.work) and access == "read"
        )
        assigned = self.cluster.assignments()
        self.advance(25)

        self.assertEqual(self.cluster.assignments(), assigned)
        self.assertTrue(self.logged("failed-reassignment"))
        self.assertIn("denied", [e["reason"] for e in self.logged("lost-leadership")])

    def test_denied_to_write(self) -> None:
        """
        A leader that may read all and not write assignments makes way for one
        that may.
        """
        self.cluster.put_work("w1")
        denied = [True]
        self.cluster.consul.deny = lambda resource, name, access, token: (
            denied[0]
            and resource == "key"
            and name.startswith(self.keys.assignments)
            and access == "write"
        )
        leader = self.lead()
        self.cluster.until(lambda: not leader.is_leader, 20)
        denied[0] = False
        self.advance(20)

        self.assertTrue(leader.is_leader)
        self.assertEqual(leader.worker.my_workload, {"w1"})

    def test_cannot_establish(self) -> None:
        """
        A leader that may not read the cluster gives up, and says what to grant
        (field report 105).
        """
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(self.keys.work) and access == "read"
        )
        member = self.member("a")
        self.advance(3)

        (said, *_) = self.logged("could-not-establish-leadership")
        self.assertIn("policy", said["error"])
        self.assertFalse(member.is_leader)

    def test_waiting_for_a_lease(self) -> None:
        """
        The pass that moves a vanished owner's items comes as soon as its lease
        must be over, and until then its owner records stay.
        """
        self.cluster.put_work("w1", "w2")
        self.lead()
        session = self.join("b")
        self.advance(5)
        record = OwnerRecord("b", session, ttl=10.0)
        (work,) = self.cluster.assignments()["b"]
        self.put(self.keys.owner(work), record.encode())

        self.cluster.result(self.cluster.api.destroy_session(session))
        self.advance(9.9)
        early = (self.cluster.assignments(), self.cluster.owners())
        self.advance(1.5)

        self.assertEqual((early[0]["b"], early[1][work]), ({work}, "b"))
        self.assertEqual(self.cluster.assignments(), {"a": {"w1", "w2"}})
        self.assert_settled("w1", "w2")


class HaltTests(LeaderCase):
    """
    The end of a term (B5, B9).
    """

    def test_halt_during_a_pass(self) -> None:
        """
        Once halted nothing is sent any more, in the middle of a pass too (B9).
        """
        leader = self.lead()
        self.cluster.network(leader).latency = lambda request: 0.2
        self.cluster.put_work(*(f"w{n:03}" for n in range(500)))
        self.advance(5)
        partly = len(self.cluster.assignments()["a"])
        lead = cast(Leader, leader.leader)

        halted = lead.halt()
        self.advance(0.0)
        self.successResultOf(halted)
        sent = len(self.cluster.assignments()["a"])
        self.advance(2)

        self.assertTrue(0 < partly < 500)
        self.assertLessEqual(sent - partly, 62)
        self.assertEqual(len(self.cluster.assignments()["a"]), sent)

    def test_halt_before_started(self) -> None:
        """
        A leader halted while it takes its first look never begins (B5).
        """
        member = self.member("a")
        self.hang("a", is_snapshot)
        self.wait_until_leading(member)
        lead = cast(Leader, member.leader)
        self.cluster.put_work("w1")

        self.successResultOf(lead.halt())
        self.cluster.network(member).loses_request = lambda request: False
        self.requests["a"].clear()
        member.can_lead = False
        self.advance(2 * SETTINGS.command_timeout)

        self.assertEqual(self.cluster.assignments(), {})
        self.assertEqual(self.passes(), 0)
        self.assertEqual(self.logged("task-failed"), [])

    def test_halt_of_idle_leader(self) -> None:
        """
        A halted leader watches nothing any more.
        """
        member = self.lead()
        self.advance(5)
        lead = cast(Leader, member.leader)

        self.successResultOf(lead.halt())
        before = self.passes()
        watched = [r for r in self.requests["a"] if "index" in dict(r.params)]
        self.cluster.put_work("w1")
        self.advance(40)

        members = [r for r in watched if r.path.endswith(self.keys.members)]
        again = [
            r
            for r in self.requests["a"]
            if "index" in dict(r.params) and r.path.endswith(self.keys.members)
        ]
        self.assertEqual((self.passes(), again), (before, members))

    def test_deposed(self) -> None:
        """
        A leader that was deposed writes nothing, and does not call it a
        failure.
        """
        member = self.lead()
        self.cluster.put_work("w1")
        self.advance(2)
        self.put(self.keys.term, b"{}")
        self.advance(1.5)

        self.assertEqual(self.logged("failed-reassignment"), [])
        self.assertFalse(member.is_leader and self.cluster.assignments())

    def test_no_term(self) -> None:
        """
        Without a term there is no leader to be made.
        """
        member = self.member("a")

        self.assertRaises(LeaseOverError, Leader, member)


class PlannerTests(LeaderCase):
    """
    Planners of any kind.
    """

    def test_failing_planner(self) -> None:
        """
        A planner that raises does not end the loop: it is asked again, ever
        less often, and once it plans, that is done.
        """
        planner = _Planner()
        self.lead(leader_class=lambda coordinator: Leader(coordinator, planner))
        planner.failing = True
        self.cluster.put_work("w1")
        self.advance(30)
        tries = planner.plans
        planner.failing = False
        self.advance(6)

        self.assertLess(tries, 15)
        self.assertEqual(self.cluster.assignments(), {"a": {"w1"}})

    def test_retry_is_not_held_up(self) -> None:
        """
        A pass that failed is made again after its back-off, whoever joins
        meanwhile.
        """
        planner = _Planner()
        self.lead(
            leader_class=lambda coordinator: Leader(coordinator, planner),
            settings=Settings(resync_interval=3600.0),
        )
        self.advance(5)
        plans = planner.plans
        planner.failing = True
        self.cluster.put_work("w1")
        while planner.plans == plans:
            self.advance(0.01)
        planner.failing = False

        self.join("b", weight=0)
        self.advance(0.3)

        self.assertEqual(self.cluster.assignments(), {"a": {"w1"}})

    def test_failing_at_first(self) -> None:
        """
        A planner that raises at the first look ends the term.
        """
        planner = _Planner()
        planner.failing = True

        member = self.member(
            "a", leader_class=lambda coordinator: Leader(coordinator, planner)
        )
        self.advance(3)

        self.assertFalse(member.is_leader)
        self.assertEqual(len(self.logged("could-not-establish-leadership")), 1)

    def test_halted_while_it_plans(self) -> None:
        """
        A leader that is halted during its first plan does not begin to lead.
        """

        @implementer(ISteppedPlanner)
        class Endless(_Planner):
            def steps(self, state: ClusterState) -> Generator[None, None, Plan]:
                while True:
                    self.plans += 1
                    yield

        class Hurried(Stretch):
            def do(self, steps: Generator[None, None, Any], values: int = 0) -> Any:
                return deferLater(clock, 0.01, next, steps).addCallback(
                    lambda _: self.do(steps)
                )

        clock = self.cluster.clock
        self.patch(leader, "Stretch", Hurried)
        planner = Endless()
        made: list[Leader] = []

        def make(coordinator: Coordinator) -> Leader:
            made.append(Leader(coordinator, planner))
            return made[0]

        self.member("a", leader_class=make)
        self.advance(3)
        self.assertGreater(planner.plans, 3)

        self.cluster.result(made[0].halt())
        plans = planner.plans
        self.advance(0.1)

        self.assertEqual(planner.plans, plans)

    def test_errors_are_told(self) -> None:
        """
        Why an item is not placed stands under ``errors/`` for as long as it is
        so, is shown, and is written only when it changes.
        """
        member = self.lead(weight=0.0)
        self.cluster.put_work("w1", "w2")
        self.advance(5)
        told = {e.key: e.value for e in self.cluster.entries(self.keys.errors)}
        index = self.cluster.consul.index
        self.advance(30)
        unchanged = self.cluster.consul.index
        shown = member.status()["errors"]
        member.set_weight(1.0)
        self.advance(5)

        self.assertEqual(sorted(told), [self.keys.error("w1"), self.keys.error("w2")])
        self.assertIn(b"weight 0", told[self.keys.error("w1")])
        self.assertEqual(unchanged, index)
        self.assertEqual(sorted(shown), ["w1", "w2"])
        self.assertEqual(self.cluster.entries(self.keys.errors), ())
        self.assert_settled("w1", "w2")

    def test_errors_of_deleted_items(self) -> None:
        """
        Nothing is left of what was said of an item that does not exist any
        more.
        """
        self.lead(weight=0.0)
        self.cluster.put_work("w1")
        self.advance(5)
        before = len(self.cluster.entries(self.keys.errors))
        self.cluster.remove_work("w1")
        self.advance(5)

        self.assertEqual(before, 1)
        self.assertEqual(self.cluster.entries(self.keys.errors), ())


@implementer(IPlanner)
class _Planner:
    """
    Plans as the balanced planner does, or fails.
    """

    def __init__(self) -> None:
        self.failing = False
        self.plans = 0

    def plan(self, state: ClusterState) -> Plan:
        """
        Plan, or fail.
        """
        self.plans += 1
        if self.failing:
            raise ZeroDivisionError("a bad plan")
        return BalancedPlanner().plan(state)
