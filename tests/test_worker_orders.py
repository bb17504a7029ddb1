"""
Tests for the worker: orders, restarts, and how items fare by themselves.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from tests.support.working import KillingRunner, StringRunner
from tests.test_worker import WorkerCase
from voltha_coord.condition import Condition
from voltha_coord.coordinator import Coordinator
from voltha_coord.records import Assignment, WorkItem, WorkStatus, decode_status
from voltha_coord.runners.track import TrackRunner
from voltha_coord.settings import Settings


class OrderCase(WorkerCase):
    """
    A test with members that work, and items with orders.
    """

    def make_runner(self) -> StringRunner:
        """
        Make a runner without an ``update_work`` of its own: orders are heeded
        whatever the runner.
        """

        class Plain(KillingRunner):
            update_work = TrackRunner.update_work

        return Plain(self.floor)

    def order(self, work: str, order: str = "start", **fields: Any) -> None:
        """
        Describe an item.
        """
        value = {"order": order, **fields}
        self.put(self.keys.work_item(work), json.dumps(value).encode())

    def hand(self, name: str, work: str, **fields: Any) -> None:
        """
        Assign an item as a leader does that hands items over with their values.
        """
        restart, phase = fields.pop("restart", 0), fields.pop("phase", "run")
        item = WorkItem(work, **fields)
        value = Assignment(name, work, phase, item, restart).encode()
        self.put(self.keys.assignment(name, work), value)

    def status(self, work: str, name: str = "a") -> WorkStatus:
        """
        Give what a member's status report says of an item.
        """
        prefix = self.keys.status_of(name)
        report = decode_status(
            {
                int(entry.key[len(prefix) :]): entry.value
                for entry in self.cluster.entries(prefix)
            }
        )
        assert report is not None
        return report.items[work]

    def steps(self, name: str = "a") -> list[str]:
        """
        Give what a member's runner was asked, in order, but for reports.
        """
        return [verb for verb, _ in self.runners[name].calls if verb != "report"]


class ValueOrderTests(OrderCase):
    """
    Orders under ``work/``, for leaders whose assignments are empty.
    """

    def work(self, order: str = "start") -> Coordinator:
        """
        Give a member that was assigned an item.
        """
        member = self.worker()
        self.order("w1", order)
        self.put(self.keys.assignment("a", "w1"))
        self.advance(1)
        return member

    def test_stop_and_start(self) -> None:
        """
        An item that is ordered to stop is owned and does not run; ordered to start
        it runs again.  The report tells both.
        """
        self.work()
        running = self.workload("a"), self.status("w1")
        self.order("w1", "stop")
        self.advance(1.5)
        stopped = self.workload("a"), self.status("w1"), self.cluster.owners()
        self.order("w1", "start")
        self.advance(1.5)

        self.assertEqual(running[0], {"w1"})
        self.assertEqual((running[1].order, running[1].state), ("start", "running"))
        self.assertEqual((stopped[0], stopped[2]), (set(), {"w1": "a"}))
        self.assertEqual((stopped[1].order, stopped[1].state), ("stop", "stopped"))
        self.assertEqual(self.steps(), ["start", "stop", "start"])
        self.assert_settled("w1")

    def test_from_the_beginning(self) -> None:
        """
        One that is not to run when it is taken is owned, and nothing is called.
        """
        member = self.work("stop")

        self.assertEqual((self.workload("a"), self.steps()), (set(), []))
        self.assertEqual(self.cluster.owners(), {"w1": "a"})
        worker: Any = member.worker
        self.assertEqual((worker.unstopped, worker.states["stopped"]), ((), 1))

    def test_start_while_it_stops(self) -> None:
        """
        A change back that comes while it is being stopped is noticed.
        """
        self.work()
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        self.order("w1", "stop")
        self.advance(1.5)
        self.order("w1", "start")
        self.advance(3)
        before = self.steps()
        stopping.callback(None)
        self.advance(1)

        self.assertEqual(before, ["start", "stop"])
        self.assertEqual(self.steps(), ["start", "stop", "start"])

    def test_unknown(self) -> None:
        """
        An order that nobody knows is to run, and is said to be wrong.
        """
        self.work("halt")

        self.assertEqual(self.workload("a"), {"w1"})
        status = self.status("w1")
        self.assertEqual(status.order, "start")
        self.assertEqual(status.error, "order 'halt' is neither start nor stop")
        self.assertEqual(
            self.value(self.keys.error("w1")), b"order 'halt' is neither start nor stop"
        )

    def test_lease_ends(self) -> None:
        """
        After an outage it is owned under the next session, and nothing was called.
        """
        member = self.work("stop")
        self.cluster.network(member).partition()
        self.advance(60)
        self.cluster.network(member).heal(deliver=False)
        self.advance(10)
        owned = self.owner("w1").session, self.steps()
        self.order("w1", "start")
        self.advance(1.5)

        self.assertEqual(owned, (member.session_id, []))
        self.assertEqual(self.logged("work-stopped"), [])
        self.assert_settled("w1")

    def test_moved(self) -> None:
        """
        A stopped item that moves takes along what it gave when it stopped, and does
        not run there either; whoever starts it is given that.
        """
        self.work()
        self.worker("b")
        self.runners["a"].reports["w1"] = b"state"
        self.order("w1", "stop")
        self.advance(1.5)
        self.unassign("a", "w1")
        self.put(self.keys.assignment("b", "w1"))
        self.advance(2)
        moved = self.cluster.owners(), self.steps("b")
        self.order("w1", "start")
        self.advance(1.5)

        self.assertEqual(moved, ({"w1": "b"}, []))
        self.assertEqual(self.steps(), ["start", "stop"])
        self.assertEqual(self.runners["b"].started_with, [b"state"])
        self.assertIsNone(self.value(self.keys.report("w1")))
        self.assert_settled("w1")

    def test_moved_while_it_stops(self) -> None:
        """
        One that moves while it is being stopped is taken there once it has stopped
        here.
        """
        self.work()
        self.worker("b")
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        self.order("w1", "stop")
        self.advance(1.5)
        self.unassign("a", "w1")
        self.put(self.keys.assignment("b", "w1"))
        self.advance(2)
        before = self.cluster.owners()
        stopping.callback(None)
        self.advance(2)

        self.assertEqual(before, {"w1": "a"})
        self.assertEqual(self.cluster.owners(), {"w1": "b"})
        self.assertEqual(self.steps("a"), ["start", "stop"])
        self.assertEqual(self.steps("b"), [])

    def test_shut_down(self) -> None:
        """
        A member that shuts down gives back what is stopped.
        """
        member = self.work("stop")
        self.cluster.result(member.shutdown())

        self.assertEqual((self.cluster.owners(), self.steps()), ({}, []))

    def test_many_fit_while_one_hangs(self) -> None:
        """
        An item that does not stop holds nobody up.
        """
        self.work()
        self.runners["a"].stops["w1"] = Deferred()
        self.order("w1", "stop")
        self.advance(1.5)
        self.order("w2")
        self.put(self.keys.assignment("a", "w2"))
        self.advance(1)

        self.assertEqual(self.workload("a"), {"w1", "w2"})

    def test_balanced(self) -> None:
        """
        The balanced leader places a stopped item as any other, and members heed its
        order.
        """
        for name in "ab":
            self.member(name)
        self.cluster.put_work("w1", "w2", value=b'{"order": "stop"}')
        self.cluster.put_work("w3", "w4")
        self.advance(20)

        self.assertEqual(len(self.cluster.owners()), 4)
        self.assertEqual(self.workload("a") | self.workload("b"), {"w3", "w4"})
        self.assertEqual(sorted(self.cluster.owners().values()), ["a", "a", "b", "b"])


class EmergencyOrderTests(OrderCase):
    """
    Orders of what others ran, in an emergency.
    """

    settings = Settings(isolation="takeover", node_recover_timeout=20.0)

    def test_takeover(self) -> None:
        """
        A member that takes over does not run what is not to run.
        """
        for name in "ab":
            self.member(name)
        self.cluster.put_work("w1", "w2", value=b'{"order": "stop"}')
        self.cluster.put_work("w3", "w4")
        self.advance(20)
        for name in "ab":
            self.cluster.network(self.cluster.members[name]).partition()
        self.advance(90)

        self.assertEqual(self.workload("a"), {"w3", "w4"})
        self.assertEqual(self.runners["a"].asked("stop"), [])


class AssignmentOrderTests(OrderCase):
    """
    Orders in assignments that carry their item.
    """

    def test_stop_and_start(self) -> None:
        """
        A changed order is a changed assignment, and the item stays here.
        """
        self.worker()
        workloads = []
        for order in ("start", "stop", "start"):
            self.hand("a", "w1", order=order)
            self.advance(1.5)
            workloads.append(self.workload("a"))

        self.assertEqual(workloads, [{"w1"}, set(), {"w1"}])
        self.assertEqual(self.steps(), ["start", "stop", "start"])
        self.assert_settled("w1")

    def test_prepared(self) -> None:
        """
        A move of an item that is not to run calls nobody: it is ready at once.
        """
        for name in "ab":
            self.worker(name)
        self.hand("a", "w1", order="stop")
        self.hand("b", "w1", order="stop", phase="prepare")
        self.advance(1.5)
        ready = self.status("w1", "b")
        self.delete(self.keys.assignment("a", "w1"))
        self.hand("b", "w1", order="stop")
        self.advance(2)

        item = WorkItem("w1", order="stop")
        self.assertEqual((ready.state, ready.order), ("prepared", "stop"))
        self.assertEqual(ready.digest, item.digest)
        self.assertEqual(self.cluster.owners(), {"w1": "b"})
        self.assertEqual(self.status("w1", "b").state, "stopped")
        self.assertEqual((self.steps("a"), self.steps("b")), ([], []))


class RestartTests(OrderCase):
    """
    The number of an assignment that asks for a restart.
    """

    def test_restart(self) -> None:
        """
        Another number has the item stopped and started once; it stays here, and is
        owned all the time.
        """
        self.worker()
        self.hand("a", "w1", restart=5)
        self.advance(1.5)
        owner = self.cluster.entry(self.keys.owner("w1"))
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        self.hand("a", "w1", restart=9)
        self.advance(1.5)
        between = self.steps(), self.workload("a")
        stopping.callback(None)
        self.hand("a", "w1", restart=9, config=2)
        self.advance(1.5)

        self.assertEqual(between, (["start", "stop"], {"w1"}))
        self.assertEqual(self.steps(), ["start", "stop", "start"])
        self.assertEqual(self.cluster.entry(self.keys.owner("w1")), owner)
        self.assert_settled("w1")

    def test_first(self) -> None:
        """
        The number that an item is taken with is heeded by its start; one that is
        gone, cannot be read, or says nothing, asks for nothing.
        """
        self.worker()
        self.hand("a", "w1", restart=5)
        self.advance(1.5)
        for value in (b"", b'{"restart": -1}', b'{"restart": "9"}', b'{"restart": 0}'):
            self.put(self.keys.assignment("a", "w1"), value)
            self.advance(1.5)
        odd = self.status("w1").error
        self.hand("a", "w1", restart=5, config=2)
        self.advance(1.5)
        self.put(self.keys.assignment("a", "w1"), b'{"restart": "9"}')
        self.advance(1.5)

        self.assertEqual(self.steps(), ["start"])
        self.assertEqual(odd, "")
        self.assertIn("restart", self.status("w1").error)

    def test_without_the_item(self) -> None:
        """
        An assignment that carries no item may ask for one all the same.
        """
        self.worker()
        self.order("w1")
        self.put(self.keys.assignment("a", "w1"))
        self.advance(1.5)
        self.put(self.keys.assignment("a", "w1"), b'{"restart": 7}')
        self.advance(1.5)

        self.assertEqual(self.steps(), ["start", "stop", "start"])

    def test_made_ready_before(self) -> None:
        """
        An item that was made ready with another number is started once.
        """
        self.worker()
        self.hand("a", "w1", phase="prepare", restart=5)
        self.advance(1.5)
        self.hand("a", "w1", restart=7)
        self.advance(2)

        self.assertEqual(self.steps(), ["prepare", "start"])

    def test_after_an_outage(self) -> None:
        """
        A number that was heeded is not heeded again when the item is confirmed under
        another session.
        """
        member = self.worker()
        self.hand("a", "w1", restart=5)
        self.advance(1.5)
        self.hand("a", "w1", restart=9)
        self.advance(1.5)
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(10)

        self.assertEqual(self.steps(), ["start", "stop", "start"])
        self.assertEqual(self.owner("w1").session, member.session_id)


class ForgottenOrderTests(OrderCase):
    """
    Orders when Consul comes back empty.
    """

    def empty(self, order: str) -> None:
        """
        Let an item be ordered otherwise, and Consul forget everything.
        """
        first = "stop" if order == "start" else "start"
        self.member("a")
        self.order("w1", first)
        self.advance(10)
        self.order("w1", order)
        self.advance(5)
        self.cluster.consul.empty()
        self.advance(30)

    def test_stopped(self) -> None:
        """
        What was ordered to stop since it was taken stays stopped.
        """
        self.empty("stop")

        self.assertEqual(self.steps(), ["start", "stop"])
        self.assertEqual(self.cluster.owners(), {"w1": "a"})

    def test_started(self) -> None:
        """
        What was ordered to start since then goes on.
        """
        self.empty("start")

        self.assertEqual(self.steps(), ["start"])
        self.assertEqual(self.workload("a"), {"w1"})

    def test_starts_again(self) -> None:
        """
        It starts again where it had to stop meanwhile.
        """
        self.member("a")
        self.order("w1", "stop")
        self.advance(10)
        self.order("w1", "start")
        self.advance(5)
        agents = self.cluster.consul.agents
        for agent in agents:
            agent.kill()
        self.cluster.consul.lose_leader()
        self.advance(30)
        self.cluster.consul.empty()
        for agent in agents:
            agent.start()
        self.advance(60)

        self.assertEqual(self.steps(), ["start", "stop", "start"])
        self.assertEqual(self.workload("a"), {"w1"})


class ConditionTests(OrderCase):
    """
    Items that fare badly by themselves.
    """

    def test_shown(self) -> None:
        """
        How an item fares is in the report; what is the matter with it in
        ``/status`` and under ``errors/`` too, until it is well again.  It counts as
        running all the time.
        """
        member = self.worker()
        self.assertEqual(len(self.runners["a"].listeners), 1)
        self.assign("a", "w1")
        self.advance(1)
        details = {"pid": 7, "log": ["no such file"]}
        self.runners["a"].fare(
            "w1", Condition("failed", 12.5, "exit status 1", details)
        )
        self.advance(1)
        status, errors = self.status("w1"), member.status()["errors"]
        told = self.value(self.keys.error("w1"))
        worker: Any = member.worker
        runs = self.workload("a"), worker.unstopped
        self.runners["a"].fare("w1", Condition(details={"pid": 8}))
        self.advance(1)

        self.assertEqual((status.state, status.since), ("failed", 12.5))
        self.assertEqual((status.error, status.details), ("exit status 1", details))
        self.assertEqual((errors, told), ({"w1": "exit status 1"}, b"exit status 1"))
        self.assertEqual(runs, ({"w1"}, ("w1",)))
        self.assertEqual(self.status("w1").details, {"pid": 8})
        self.assertEqual(self.status("w1").state, "running")
        self.assertEqual(member.status()["errors"], {})
        self.assertIsNone(self.value(self.keys.error("w1")))
        self.assertEqual(self.steps(), ["start"])

    def test_stopped(self) -> None:
        """
        When it is ordered to stop, it is not in trouble any more.
        """
        self.worker()
        self.runners["a"].conditions["w1"] = Condition("failed", error="gone")
        self.assign("a", "w1")
        self.advance(1)
        before = self.value(self.keys.error("w1"))
        self.order("w1", "stop")
        self.advance(1.5)

        self.assertEqual(before, b"gone")
        self.assertIsNone(self.value(self.keys.error("w1")))
        self.assertEqual(self.status("w1").state, "stopped")
        self.assertEqual(self.status("w1").details, {})
