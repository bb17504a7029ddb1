"""
The original's defects in leading and working, one test for each, by its name.
"""

from __future__ import annotations

import json
from typing import Any, cast

from attrs import evolve
from twisted.internet.defer import Deferred, succeed

from tests.support.working import ClusterCase, operations
from voltha_coord.consul.transport import Request, Response
from voltha_coord.coordinator import Coordinator
from voltha_coord.leader import Leader
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.hash_ring import HashRingPlanner
from voltha_coord.planning.operations import Plan, Unassign
from voltha_coord.records import OwnerRecord
from voltha_coord.settings import Settings


class DefectCase(ClusterCase):
    """
    A test with a cluster that has settled.
    """

    def settle(self, *names: str, work: int = 0, **kw: Any) -> list[str]:
        """
        Add members and work, and let them divide it.
        """
        for name in names:
            self.member(name, **kw)
        items = [f"w{n:03}" for n in range(work)]
        self.cluster.put_work(*items)
        self.advance(12)
        self.assert_settled(*items)
        for runner in self.runners.values():
            runner.calls.clear()
        return items

    def put_now(self, key: str, value: bytes = b"") -> None:
        """
        Write a key while the clock stands.
        """
        results: list[Any] = []
        self.cluster.api.put(key, value).addBoth(results.append)
        while not results:
            self.cluster.clock.advance(0)
        self.assertEqual(results, [True], key)

    def the_leader(self) -> Coordinator:
        """
        Give the one that leads.
        """
        (leader,) = self.cluster.leaders
        return leader

    def deny_reading(self, prefix: str) -> None:
        """
        Let nobody read what lies under a prefix.
        """

        def denied(resource: str, name: str, access: str, token: str) -> bool:
            return resource == "key" and access == "read" and name.startswith(prefix)

        self.cluster.consul.deny = denied


class OriginalDefectTests(DefectCase):
    """
    B…: the coordinator of 2016.
    """

    def test_b3(self) -> None:
        """
        The items of ``ab`` are not those of ``a`` (B3).
        """
        for name in ("a", "ab"):
            self.member(name, can_lead=False)
        self.put(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("ab", "w2"))
        self.advance(3)

        self.assertEqual((self.workload("a"), self.workload("ab")), ({"w1"}, {"w2"}))

    def test_b4(self) -> None:
        """
        What was seen in between and taken back within the soak is not done
        (B4).
        """
        settings = Settings(worker_soak=0.5)
        member = self.member("a", can_lead=False, settings=settings)
        for work in ("w1", "w2"):
            self.put(self.keys.assignment("a", work))
        self.advance(3)
        changes = len(self.logged("my-assignments-changed"))
        self.runners["a"].calls.clear()
        entry = self.cluster.entry(self.keys.assignment("a", "w2"))

        self.put(self.keys.assignment("a", "w3"))
        self.advance(0.3)
        self.delete(self.keys.assignment("a", "w3"))
        self.advance(3)

        self.assertIsNotNone(entry)
        self.assertEqual(member.status()["assigned"], ["w1", "w2"])
        self.assertEqual(len(self.logged("my-assignments-changed")), changes)
        self.assertEqual(self.workload("a"), {"w1", "w2"})
        self.assertEqual(self.runners["a"].calls, [])

    def test_b5(self) -> None:
        """
        A halted worker and a halted leader ask for nothing any more (B5).
        """
        self.settle("a", work=2)
        member = self.the_leader()
        self.cluster.result(cast(Any, member.worker).halt())
        self.cluster.result(cast(Leader, member.leader).halt())
        self.requests["a"].clear()

        self.put(self.keys.assignment("a", "w9"))
        self.cluster.put_work("w8")
        self.advance(40)

        theirs = (self.keys.assignments, self.keys.members, self.keys.work)
        asked = [r.path for r in self.requests["a"] if r.path[7:].startswith(theirs)]
        own = f"/v1/kv/{self.keys.member('a')}"
        self.assertEqual([path for path in asked if path != own], [])
        self.assertEqual(self.workload("a"), set())

    def test_b6(self) -> None:
        """
        A members watch that is answered with errors at once pauses longer and
        longer, and is a watch again afterwards (B6).
        """
        # No resync: nothing but the watch tells of a member that comes later.
        self.settle("a", work=2, settings=Settings(resync_interval=3600.0))
        asked: list[Request] = []
        agent = self.cluster.consul.agent("node-of-a")
        answer = agent.handle

        def handle(request: Request) -> Deferred[Response]:
            if request.path == f"/v1/kv/{self.keys.members}":
                asked.append(request)
                return succeed(Response(500, {}, b"rpc error"))
            return answer(request)

        failing = self.patch(agent, "handle", handle)
        self.put(self.keys.member("z"))
        self.advance(60)
        tries = len(asked)
        failing.restore()
        self.advance(10)
        self.member("b")
        self.advance(6)

        self.assertGreater(tries, 5)
        self.assertLess(tries, 30)
        self.assertEqual(set(self.cluster.assignments()), {"a", "b"})

    def test_b7(self) -> None:
        """
        When all work is removed all assignments are, and everything stops
        (B7).
        """
        items = self.settle("a", "b", work=6)

        self.cluster.remove_work(*items)
        self.advance(6)

        self.assertEqual(self.cluster.assignments(), {})
        self.assertEqual(self.cluster.owners(), {})
        self.assert_settled()

    def see_nobody(self) -> Leader:
        """
        Let the leader see no member from now on; give it.
        """
        leader = cast(Leader, self.the_leader().leader)
        real = leader._passes.state_of

        def state_of(look: Any) -> Any:
            return evolve(real(look), members={})

        self.patch(leader._passes, "state_of", state_of)
        return leader

    def test_b8_planners(self) -> None:
        """
        Seeing no member at all no planner has anything done, not even with
        what it would tidy up at any other time (B8).
        """
        for planner in (BalancedPlanner(), HashRingPlanner()):
            self.setUp()
            items = self.settle("a", work=4)
            leader = self.see_nobody()
            plans: list[Plan] = []

            def plan(state: Any, planner: Any = planner, plans: Any = plans) -> Any:
                plans.append(planner.plan(state))
                return plans[-1]

            self.patch(leader._planner, "plan", plan)
            self.put(self.keys.assignment("b", items[0]))
            self.put(self.keys.assignment("a", "removed"))
            self.cluster.put_work("new")
            before = self.cluster.assignments()
            self.advance(4)

            self.assertTrue(plans)
            self.assertEqual({one.operations for one in plans}, {()})
            self.assertEqual(self.cluster.assignments(), before)
            self.assertLessEqual(set(items), self.workload("a"))

    def test_b8_leader(self) -> None:
        """
        Seeing no member at all the leader writes nothing, whatever a planner
        makes of it, and clears no owner record (B8).
        """
        items = self.settle("a", work=4)
        self.put(self.keys.owner("old"), OwnerRecord("x", "nobody").encode())
        before = self.cluster.assignments(), self.cluster.owners()
        leader = self.see_nobody()
        plans: list[Plan] = []

        def plan(state: Any) -> Plan:
            plans.append(Plan(tuple(Unassign(work, "a") for work in items)))
            return plans[-1]

        self.patch(leader._planner, "plan", plan)
        self.cluster.put_work("new")
        self.advance(25)

        self.assertTrue(plans)
        self.assertEqual((self.cluster.assignments(), self.cluster.owners()), before)
        self.assertEqual(self.workload("a"), set(items))

    def test_b9_one_pass_at_a_time(self) -> None:
        """
        A change during a slow pass makes the next one, not a second beside it
        (B9).
        """
        self.settle("a")
        leader = self.the_leader()
        under_way: list[int] = []
        network = self.cluster.network(leader)
        network.reply_latency = lambda r: 1.0 if r.path == "/v1/txn" else 0.0
        real = leader.api.txn

        def txn(ops: Any, **kw: Any) -> Any:
            fenced = any((op.verb, op.key) == ("cas", self.keys.term) for op in ops)
            if not fenced:
                return real(ops, **kw)
            under_way.append(1)
            self.assertEqual(len(under_way), 1)

            def done(result: Any) -> Any:
                under_way.pop()
                return result

            return real(ops, **kw).addBoth(done)

        self.patch(leader.api, "txn", txn)
        self.cluster.put_work(*(f"w{n:03}" for n in range(300)))
        for n in range(6):
            self.advance(2)
            self.cluster.put_work(f"x{n}")
        self.advance(30)

        self.assertEqual(len(self.cluster.assignments()["a"]), 306)

    def test_b9_fenced(self) -> None:
        """
        What a deposed leader had under way is refused, and the pass ends
        (B9, V13, field report 132).
        """
        self.settle("a", "b")
        leader = self.the_leader()
        late: list[Request] = []

        def latency(request: Request) -> float:
            fenced = any(op.key == self.keys.term for op in operations(request))
            if fenced and len(late) < 1:
                late.append(request)
                return 30.0
            return 0.0

        network = self.cluster.network(leader)
        network.latency, network.lands_late = latency, lambda request: True
        self.cluster.put_work("w1", "w2")
        self.advance(4)
        self.cluster.consul.destroy_session(leader.session_id or "")
        self.cluster.remove_work("w1", "w2")
        self.advance(40)

        self.assertEqual(len(late), 1)
        self.assertEqual(self.cluster.assignments(), {})

    def test_b18(self) -> None:
        """
        A dot in the prefix is a dot (B18).
        """
        settings = Settings(prefix="site.1/voltha")
        self.member("a", settings=settings)
        self.put("site.1/voltha/work/w1")
        self.put("siteX1/voltha/work/w2")
        self.put("siteX1/voltha/assignments/a/w3")
        self.advance(10)

        self.assertEqual(self.workload("a"), {"w1"})
        left = [e.key for e in self.cluster.entries("siteX1/")]
        self.assertEqual(
            left, ["siteX1/voltha/assignments/a/w3", "siteX1/voltha/work/w2"]
        )


class LaterDefectTests(DefectCase):
    """
    V…: the coordinator of the years after.
    """

    def test_v10(self) -> None:
        """
        A dead member's work is given to others, with no replacement for it in sight
        (V10; field report 130).
        """
        items = self.settle("a", "b", "c", work=9)
        leader = self.the_leader()
        victim = next(m for m in self.cluster.members.values() if m is not leader)
        for work in self.workload(victim.instance_id):
            self.floor.running.pop(work)

        self.cluster.crash(victim)
        self.advance(8)

        self.assert_settled(*items)
        self.assertNotIn(victim.instance_id, self.cluster.assignments())

    def test_v10_leader(self) -> None:
        """
        So is that of a dead leader, within detection, lock-delay, soak and two seconds
        (G4; field report 30).
        """
        items = self.settle("a", "b", "c", work=9)
        leader = self.the_leader()
        for work in self.workload(leader.instance_id):
            self.floor.running.pop(work)

        self.cluster.crash(leader)
        settings = Settings()
        self.advance(
            settings.detection_bound + settings.lock_delay + settings.departed_soak + 2
        )

        self.assert_settled(*items)

    def test_v13(self) -> None:
        """
        An assignment is never written but behind the fence of a term (V13).
        """
        self.settle("a", "b", "c", work=40)

        for name in self.requests:
            for ops in self.written(name):
                if any(
                    op.key.startswith(self.keys.assignments)
                    and op.verb in ("set", "delete")
                    for op in ops
                ):
                    self.assertEqual(ops[0].verb, "check-session")
                    self.assertEqual((ops[1].verb, ops[1].key), ("cas", self.keys.term))
            for request in self.requests[name]:
                if request.method in ("PUT", "DELETE"):
                    self.assertNotIn(self.keys.assignments, request.path)

    def test_v15(self) -> None:
        """
        Listings that are denied are not empty ones: nobody loses its work
        (V15, field report 105).
        """
        items = self.settle("a", "b", work=8)
        before = self.cluster.assignments()
        for part in ("members", "work", "assignments", "owners"):
            self.deny_reading(f"{self.keys.prefix}/{part}/")
            self.advance(25)
            self.cluster.consul.deny = lambda resource, name, access, token: False

            self.assertEqual(self.cluster.assignments(), before, part)
            self.assertEqual(self.workload("a") | self.workload("b"), set(items), part)
        for runner in self.runners.values():
            self.assertEqual(runner.calls, [])


class FieldReportTests(DefectCase):
    """
    What users of such systems reported.
    """

    def test_report_86(self) -> None:
        """
        A wake without a change changes nothing (field report 86).
        """
        self.settle("a", "b", work=6)
        index = self.cluster.consul.index
        for n in range(20):
            self.put(f"{self.keys.statuses}other/{n}", b"x")
            self.advance(1)

        writes = [ops for name in self.requests for ops in self.written(name)]
        self.assertEqual(self.cluster.consul.index, index + 20)
        self.assertTrue(writes)
        self.assertEqual([r.calls for r in self.runners.values()], [[], []])

    def test_report_88(self) -> None:
        """
        How many watches a member has does not grow with members or work (field
        report 88).
        """
        self.settle(*(f"m{n}" for n in range(8)), work=80)

        self.advance(1)

        waiting = {m.instance_id: 0 for m in self.cluster.members.values()}
        for agent in self.cluster.consul.agents:
            name = agent.node.removeprefix("node-of-")
            if name in waiting:
                waiting[name] = agent.waiting
        self.assertEqual(sorted(waiting.values()), [4] * 7 + [7])

    def test_report_118(self) -> None:
        """
        No transaction has more than 64 operations (field report 118).
        """
        self.settle("a", "b", work=300)

        sizes = [len(operations(r)) for rs in self.requests.values() for r in rs]
        self.assertEqual(max(sizes), 64)

    def test_report_119(self) -> None:
        """
        No body is larger than 512 KiB, however large what is told or handed
        over; values near that size are work like any other (field reports 119,
        120).
        """
        for n in range(4):
            self.put(self.keys.work_item(f"w{n}"), b"\xff" * (512 * 1024 - n))
        self.member("a")
        self.runners["a"].starts.update(
            {f"w{n}": ValueError("x" * 500_000) for n in range(2)}
        )
        self.runners["a"].reports["w2"] = b"\xff" * 400_000
        self.runners["a"].reports["w3"] = b"\xff" * 200_000
        self.advance(10)
        running = self.workload("a")
        self.cluster.result(self.cluster.members["a"].shutdown())

        sizes = [len(r.body) for r in self.requests["a"]]
        self.assertEqual(running, {"w2", "w3"})
        self.assertLessEqual(max(sizes), 512 * 1024)
        self.assertEqual(
            [e.key for e in self.cluster.entries(self.keys.reports)],
            [self.keys.report("w3")],
        )
        self.assertEqual(len(self.value(self.keys.error("w1")) or b""), 2000)

    def test_report_120(self) -> None:
        """
        Ten thousand items are assigned, owned, run and reported (field report
        120).
        """
        for name in ("a", "b"):
            self.member(name)
        items = [f"device_group_{n:05}" for n in range(10_000)]
        for work in items:
            self.put_now(self.keys.work_item(work))
        self.cluster.advance(15)

        self.assertEqual(len(self.workload("a")), 5000)
        self.assertEqual(self.workload("a") | self.workload("b"), set(items))
        self.assertEqual(self.cluster.reported("a"), self.workload("a"))
        index = self.cluster.consul.index
        self.cluster.advance(25)
        self.assertEqual(self.cluster.consul.index, index)

    def test_report_121(self) -> None:
        """
        One item that is held for ever does not keep the others from being
        divided (field report 121).
        """
        self.put(self.keys.owner("w000"), OwnerRecord("x", "who?", ttl=9e9).encode())
        for name in ("a", "b"):
            self.member(name)
        self.cluster.put_work(*(f"w{n:03}" for n in range(20)))
        self.advance(8)

        running = self.workload("a") | self.workload("b")
        self.assertEqual(len(running), 19)

    def test_report_124(self) -> None:
        """
        A pass reads the cluster with one request, however many members there
        are (field report 124).
        """
        self.settle("a", "b", "c", "d", work=12)
        leader = self.the_leader()
        requests = self.requests[leader.instance_id]
        requests.clear()
        self.advance(11)

        snapshots = [
            r for r in requests if any(o.verb == "get-tree" for o in operations(r))
        ]
        reads = [r for r in requests if r.path.startswith("/v1/kv/")]
        self.assertEqual(len(snapshots), 1)
        self.assertEqual([r for r in reads if "index" not in dict(r.params)], [])

    def test_report_126(self) -> None:
        """
        What a runner does at the end is awaited before the work is given up,
        and for no longer than the caller waits (field report 126).
        """
        self.settle("a", work=2)
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w000"] = stopping
        member = self.the_leader()
        ending = member.shutdown()
        self.advance(2)
        during = self.cluster.owners()
        waited = ending.called
        stopping.callback(None)
        self.cluster.result(ending)

        self.assertEqual((during, waited), ({"w000": "a"}, False))
        self.assertEqual(self.cluster.owners(), {})

    def test_report_129(self) -> None:
        """
        Members and work are planned on as they were at one moment: a leader
        whose watches are slow does not mix them (field report 129).
        """
        self.settle("a", "b", work=10)
        leader = self.the_leader()
        network = self.cluster.network(leader)
        network.reply_latency = lambda r: 8.0 if "index" in dict(r.params) else 0.0
        self.member("c")
        self.cluster.put_work(*(f"x{n}" for n in range(5)))
        self.advance(25)

        held = self.cluster.assignments()
        self.assertEqual(sorted(map(len, held.values())), [5, 5, 5])

    def test_report_132(self) -> None:
        """
        A claim is refused once the assignment it rests on is another: what a
        former leader decided is not acted upon (field report 132).
        """
        self.settle("a", "b", work=2)
        name = next(iter(self.cluster.owners().values()))
        member = self.cluster.members[name]
        wanted: list[Request] = []

        def latency(request: Request) -> float:
            if any(
                op.verb == "cas" and op.key == self.keys.owner("w9")
                for op in operations(request)
            ):
                wanted.append(request)
                return 2.0
            return 0.0

        self.cluster.network(member).latency = latency
        self.put(self.keys.assignment(name, "w9"))
        self.advance(1)
        self.delete(self.keys.assignment(name, "w9"))
        self.advance(3)

        self.assertEqual(len(wanted), 1)
        self.assertNotIn("w9", self.cluster.owners())
        self.assertNotIn(("start", "w9"), self.runners[name].calls)


class JunkTests(DefectCase):
    """
    G9: nothing that anyone can put under the prefix stops a loop.
    """

    VALUES = (
        b"",
        b"\xff\x00\xfe",
        b"x" * 400 * 1024,
        b"not json",
        b"[]",
        b"5",
        b"{}",
        json.dumps({"version": 99, "colour": {"deep": [1]}}).encode(),
        json.dumps(
            {
                "owner": 5,
                "session": ["x"],
                "weight": "much",
                "limits": 7,
                "status": {},
                "report": None,
                "count": -1,
                "check": {},
            }
        ).encode(),
        json.dumps(
            {"owner": "a", "session": "/../x y", "node": "a/b", "check": "c", "ttl": 1}
        ).encode(),
        b"[" * 5000,
    )
    ENDS = ("a b", "deep/er/still", ".dot", "x" * 300, "per%cent", "", "junk")

    def junk(self, prefix: str) -> dict[str, bytes]:
        """
        Put each value under each kind of key below a prefix; give them.
        """
        found = {}
        for n, value in enumerate(self.VALUES):
            for end in self.ENDS:
                key = f"{prefix}{end}{n}" if end else prefix
                found[key] = value
        for key, value in found.items():
            self.put_now(key, value)
        return found

    def check(self, prefix: str) -> dict[str, bytes]:
        """
        Put junk under a prefix of a cluster that works, and check that work
        added afterwards is done, and that illegal keys are left alone.
        """
        items = self.settle("a", "b", work=4)
        junk = self.junk(prefix)
        self.advance(12)
        self.cluster.put_work("added")
        self.advance(12)

        running = self.workload("a") | self.workload("b")
        self.assertLessEqual({*items, "added"}, running)
        self.assertEqual(self.floor.clashes, [])
        self.assertEqual(self.logged("task-failed"), [])
        left = {e.key: e.value for e in self.cluster.entries(prefix)}
        illegal = {k: v for k, v in junk.items() if "junk" not in k}
        self.assertEqual({k: left.get(k) for k in illegal}, illegal)
        return junk

    def last_pass(self) -> Any:
        """
        Give what the leader's last pass came to.
        """
        return cast(Leader, self.the_leader().leader).last_pass

    def test_members(self) -> None:
        """
        Junk among the members.
        """
        junk = self.check(self.keys.members)

        self.assertEqual(
            len(self.last_pass().stray), sum("junk" not in k for k in junk)
        )
        self.assertTrue(self.last_pass().problems)
        self.assertGreater(self.the_leader().status()["stray_keys"], 0)

    def test_work(self) -> None:
        """
        Junk among the work: what has a legal key is work, and runs.
        """
        junk = self.check(self.keys.work)

        running = self.workload("a") | self.workload("b")
        legal = {k.removeprefix(self.keys.work) for k in junk if "junk" in k}
        self.assertLessEqual(legal, running)
        told = {e.key for e in self.cluster.entries(self.keys.errors)}
        self.assertEqual(told, {self.keys.error("junk8")})

    def test_assignments(self) -> None:
        """
        Junk among the assignments.
        """
        self.check(self.keys.assignments)

    def test_own_assignments(self) -> None:
        """
        Junk among a member's own assignments: what is no work is taken away.
        """
        self.check(self.keys.assignments_of("a"))

        self.assertEqual(
            [e.key for e in self.cluster.entries(self.keys.assignment("a", "junk"))], []
        )

    def test_owners(self) -> None:
        """
        Junk among the owner records: it is told, and cleared after one TTL.
        """
        for n in range(len(self.VALUES)):
            self.cluster.put_work(f"junk{n}")
        items = {f"junk{n}" for n in range(len(self.VALUES))}
        for n, value in enumerate(self.VALUES):
            self.put(self.keys.owner(f"junk{n}"), value)
        odd = f"{self.keys.owners}a b"
        self.put(odd, b"x")
        self.member("a")
        self.advance(10)
        told = {e.key for e in self.cluster.entries(self.keys.errors)}
        self.advance(30)

        self.assertEqual(len(told), len(self.VALUES) - 1)
        self.assertEqual(self.workload("a"), items)
        self.assertEqual(self.value(odd), b"x")
        self.assertEqual(self.cluster.entries(self.keys.errors), ())

    def test_living_owners(self) -> None:
        """
        Junk beside the owner records of a cluster that works.
        """
        self.check(self.keys.owners)

    def test_intent(self) -> None:
        """
        Junk among what operators want.
        """
        for part in ("", "nodes/", "relocations/", "other/"):
            self.junk(f"{self.keys.intent}{part}")
        self.check(self.keys.intent)

        self.assertGreater(len(self.last_pass().problems), 0)

    def test_status(self) -> None:
        """
        Junk among the status reports.
        """
        self.check(self.keys.statuses)

    def test_errors(self) -> None:
        """
        Junk among the errors: what has a legal key is taken away.
        """
        self.check(self.keys.errors)

        left = [e.key for e in self.cluster.entries(f"{self.keys.errors}junk")]
        self.assertEqual(left, [])
        self.assertGreater(len(self.last_pass().stray), 0)

    def test_reports(self) -> None:
        """
        Junk among the reports: an item is given what lies under its key.
        """
        self.put(self.keys.report("added"), b"\xff" * 400 * 1024)
        self.check(self.keys.reports)

        given = [r for one in self.runners.values() for r in one.started_with if r]
        self.assertEqual(given, [b"\xff" * 400 * 1024])

    def test_term(self) -> None:
        """
        A term record written over ends the term; another begins, and the work
        goes on.
        """
        items = self.settle("a", "b", work=4)
        for value in self.VALUES[:5]:
            self.put(self.keys.term, value)
            self.cluster.put_work("added")
            self.advance(45)
            self.cluster.remove_work("added")
            self.advance(15)

            self.assertEqual(len(self.cluster.leaders), 1)
            self.assert_settled(*items)

    def test_leader(self) -> None:
        """
        A leader key written over is mended, or another leads.
        """
        items = self.settle("a", "b", work=4)
        for value in self.VALUES:
            self.put(self.keys.leader, value)
            self.advance(3)
        self.delete(self.keys.leader)
        self.cluster.put_work("added")
        self.advance(20)

        self.assertEqual(len(self.cluster.leaders), 1)
        self.assert_settled(*items, "added")
