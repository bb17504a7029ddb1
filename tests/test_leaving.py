"""
Tests for leaving: work that moves away before its member is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail, maybeDeferred
from zope.interface import implementer

from voltha_coord._loops import sleep
from voltha_coord.consul.model import SessionSpec
from voltha_coord.coordinator import Coordinator
from voltha_coord.errors import CoordinationError
from voltha_coord.interfaces import IRunner
from voltha_coord.leaving import LOOK_SECONDS
from voltha_coord.records import Member, WorkItem
from voltha_coord.runners.track import TrackRunner
from voltha_coord.settings import Settings
from voltha_coord.shutdown import DRAIN_SHARE, RESERVED_SECONDS, Kind, Step
from voltha_coord.worker import Worker

from .support.embedded import ClusterTestCase, writes
from .support.working import operations

SETTINGS = Settings()

#: How long an item does not run when it is moved, beside stopping and starting.
GAP = 0.2

#: Work moves after the soak of the leader, and that of the workers.
MOVED = SETTINGS.departed_soak + SETTINGS.worker_soak + 0.7

ITEMS = ("w1", "w2", "w3", "w4", "w5", "w6")


@implementer(IRunner)
class TimedRunner(TrackRunner):
    """
    Notes when each item starts and stops, on whatever member.

    :ivar stopping: how long each item takes to stop, in seconds.
    """

    def __init__(self, clock: Any, history: list[tuple[float, str, str]]) -> None:
        self._clock = clock
        self._history = history
        self.stopping: dict[str, float] = {}

    def start_work(self, item: WorkItem, report: bytes | None) -> None:
        """
        Run it.
        """
        self._note("start", item)

    def stop_work(self, item: WorkItem) -> Any:
        """
        Stop it, which may take a while.
        """
        self.asked_to_stop(item)
        stopped = sleep(self._clock, self.stopping.get(item.id, 0.0))
        return stopped.addCallback(lambda _: self._note("stop", item))

    def asked_to_stop(self, item: WorkItem) -> None:
        """
        Nothing; a test may put something else here.
        """

    def _note(self, what: str, item: WorkItem) -> None:
        self._history.append((self._clock.seconds(), what, item.id))


def leads(*members: Coordinator) -> bool:
    """
    Whether one of them leads.
    """
    return any(member.is_leader for member in members)


class LeavingCase(ClusterTestCase):
    """
    Has members with work.
    """

    settings = SETTINGS

    def setUp(self) -> None:
        """
        Have nobody yet.
        """
        super().setUp()
        self.history: list[tuple[float, str, str]] = []
        self.runners: dict[str, TimedRunner] = {}

    def member(self, name: str, **kw: Any) -> Coordinator:
        """
        Add a member.
        """
        runner = TimedRunner(self.cluster.clock, self.history)
        self.runners[name] = runner
        return self.cluster.add(name, runner=runner, **kw)

    def members(self, names: str, work: Iterable[str] = ITEMS, **kw: Any) -> Any:
        """
        Add members, of which the first leads, and let them divide work.
        """
        found = [self.member(names[0], **kw)]
        self.cluster.until(lambda: found[0].is_leader)
        found += [self.member(name, **kw) for name in names[1:]]
        self.cluster.until(lambda: all(m.is_ready for m in found))
        self.cluster.put_work(*work)
        self.cluster.until(lambda: self.running(*found) == set(work))
        self.cluster.until(lambda: all(m.worker.my_workload for m in found))
        self.cluster.advance(2)
        return found

    def running(self, *members: Coordinator) -> set[str]:
        """
        Give what runs on some members.
        """
        return {work for member in members for work in member.worker.my_workload}

    def gaps(self, works: Iterable[str]) -> dict[str, float]:
        """
        Give for each item how long it did not run when it last moved.
        """
        gaps = {}
        for work in works:
            events = [(at, what) for at, what, name in self.history if name == work]
            (stop, _), (start, _) = [e for e in events[-2:]]
            self.assertEqual([what for _, what in events[-2:]], ["stop", "start"])
            gaps[work] = start - stop
        return gaps

    def shut_down(self, member: Coordinator, bound: float = 12.0) -> float:
        """
        Shut down, and give the seconds that took.
        """
        began = self.cluster.clock.seconds()
        self.cluster.result(member.shutdown(), bound)
        took = self.cluster.clock.seconds() - began
        self.cluster.advance(0.02)
        self.assertEqual(self.cluster.left_behind(member), (0, 0))
        self.assertEqual(member.worker.my_workload, set())
        return took

    def stranger(self, name: str, record: bytes) -> str:
        """
        Put a member's key there without a member behind it; give its session.
        """
        spec = SessionSpec(name, ttl=3600, lock_delay=0)
        session: str = self.cluster.result(self.cluster.api.create_session(spec))
        key = self.cluster.keys.member(name)
        self.cluster.result(self.cluster.api.put(key, record, acquire=session))
        return session

    def reason(self, level: str) -> str:
        """
        Give why draining was cut short, as the one line about it says.
        """
        (said,) = self.logged("drain-cut-short", log_level=level)
        reason: str = said["reason"]
        return reason


class MovedTests(LeavingCase):
    """
    Work that moves away calmly.
    """

    def test_follower(self) -> None:
        """
        The items of a member that leaves run on until they are given to others:
        each pauses for one stop and one start.
        """
        a, b, c = self.members("abc")
        mine = set(b.worker.my_workload)
        ended = b.shutdown()
        self.cluster.advance(SETTINGS.departed_soak - 0.1)
        self.assertEqual(b.worker.my_workload, mine)

        self.cluster.result(ended)
        self.cluster.until(lambda: self.running(a, c) == set(ITEMS), 1)

        self.assertLess(max(self.gaps(mine).values()), GAP)
        self.assertEqual(self.logged("drain-cut-short"), [])
        self.assertEqual(len(self.logged("work-drained")), 1)

    def test_leader(self) -> None:
        """
        So do those of the leader itself; the next leader moves them.
        """
        a, b, c = self.members("abc")
        mine = set(a.worker.my_workload)

        took = self.shut_down(a)
        self.cluster.until(lambda: self.running(b, c) == set(ITEMS), 1)

        self.assertLess(took, MOVED)
        self.assertLess(max(self.gaps(mine).values()), GAP)
        self.assertEqual(len(self.logged("work-drained")), 1)

    def test_next_leader(self) -> None:
        """
        It leads no more from the first moment on, and another does at once,
        while the work has not moved yet.
        """
        a, b = self.members("ab")

        a.shutdown()
        self.assertFalse(a.is_leader)
        took = self.cluster.until(lambda: b.is_leader, 1)

        self.assertLess(took, 0.1)
        self.assertTrue(a.worker.my_workload)
        self.assertEqual(a.role, "draining")

    def test_slow_item(self) -> None:
        """
        An item that takes its time to stop holds up no other one.
        """
        a, b = self.members("ab")
        slow, *others = sorted(b.worker.my_workload)
        self.runners["b"].stopping[slow] = 3.0

        ended = b.shutdown()
        took = self.cluster.until(lambda: {*others} <= self.running(a), 3)
        self.assertLess(took, MOVED)
        self.assertEqual(self.running(b), {slow})
        self.cluster.result(ended)
        self.cluster.until(lambda: slow in self.running(a), 1)

        self.assertLess(max(self.gaps([slow, *others]).values()), GAP)

    def test_no_new_work(self) -> None:
        """
        Nothing new is taken meanwhile.
        """
        a, b = self.members("ab")
        self.runners["b"].stopping = dict.fromkeys(ITEMS, 3.0)
        ended = b.shutdown()
        self.cluster.advance(0.05)
        self.cluster.put_work("new1", "new2", "new3")

        self.cluster.result(ended)

        started = [work for _, what, work in self.history if what == "start"]
        self.cluster.until(lambda: {"new1", "new2", "new3"} <= self.running(a), 5)
        self.assertNotIn("new1", started[: len(ITEMS)])
        self.assertNotIn("b", self.cluster.assignments())

    def test_order(self) -> None:
        """
        V2: leadership is given back before it is said that the member leaves,
        since somebody has to hear it; then the work goes, the member key, the
        session and the service.
        """
        a, _ = self.members("ab")
        keys = self.cluster.keys
        order: list[str] = []
        parts = (
            ("leader key", lambda r: writes(keys.leader)(r)),
            ("says so", lambda r: b"lock" in r.body and writes(keys.member("a"))(r)),
            ("work", lambda r: keys.owners.encode() in r.body),
            ("member key", writes(keys.member("a"))),
            ("session", lambda r: "session/destroy" in r.path),
            ("service", lambda r: "service/deregister" in r.path),
        )

        def see(request: Any) -> float:
            for name, wanted in parts:
                if wanted(request) and b'"get-tree"' not in request.body:
                    order.append(name)
                    break
            return 0.0

        self.cluster.network(a).latency = see

        self.shut_down(a)

        # The key is given back again and again, lest it was handed to us meanwhile.
        self.assertEqual(
            [name for name, _ in groupby(order)],
            [
                "leader key",
                "says so",
                "leader key",
                "work",
                "member key",
                "leader key",
                "session",
                "service",
            ],
        )

    def test_without_work(self) -> None:
        """
        Who has no work has nothing to wait for.
        """
        a = self.lead("a")
        b = self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.assertLess(self.shut_down(b), 0.1)

        self.assertTrue(a.is_leader)
        self.assertEqual(self.logged("draining-work"), [])

    def leave_as_heir(self, turn: int) -> float:
        """
        Hand leadership to a member that has no work and shuts down, so many turns
        later; give the seconds until somebody else leads.
        """
        a, b = (self.cluster.add(f"{name}{turn}") for name in "ab")
        self.cluster.until(lambda: a.is_ready and b.is_ready and leads(a, b))
        old, heir = (a, b) if a.is_leader else (b, a)
        self.cluster.network(heir).latency = lambda _: 0.01
        asked = old.transfer_leadership(heir.instance_id)
        asked.addErrback(lambda failure: failure.trap(CoordinationError))
        self.cluster.advance(0.005 * turn)

        self.cluster.result(heir.shutdown())

        took = self.cluster.until(lambda: old.is_leader, 5)
        self.cluster.result(old.shutdown())
        return took

    def test_heir_without_work(self) -> None:
        """
        Who is handed leadership while it leaves gives it back, whenever in its
        shutdown that is: nobody has to wait for a lock-delay.
        """
        took = [self.leave_as_heir(turn) for turn in range(20)]

        self.assertLess(max(took), 0.6, took)

    def test_leader_dies(self) -> None:
        """
        When the leader dies meanwhile, the next one moves the work.
        """
        a, b, c = self.members("abc")
        mine = set(b.worker.my_workload)
        ended = b.shutdown()
        self.cluster.advance(0.2)
        self.cluster.crash(a)

        self.cluster.result(ended, 12)
        self.cluster.until(lambda: self.running(c) >= mine, 1)

        self.assertLess(max(self.gaps(mine).values()), GAP)
        self.assertEqual(self.logged("drain-cut-short"), [])

    def test_leader_shuts_down_too(self) -> None:
        """
        Leader and follower that leave at the same time leave their work to
        those who stay.
        """
        a, b, c = self.members("abc")
        moved = self.running(a, b)
        ended = [a.shutdown(), b.shutdown()]

        for one in ended:
            self.cluster.result(one, 12)
        self.cluster.until(lambda: self.running(c) == set(ITEMS), 1)

        self.assertLess(max(self.gaps(moved).values()), GAP)
        self.assertEqual(self.logged("drain-cut-short"), [])

    def test_all_shut_down(self) -> None:
        """
        When all leave, the last one waits for nobody.
        """
        members = self.members("abc")
        began = self.cluster.clock.seconds()
        ended = [member.shutdown() for member in members]

        for one in ended:
            self.cluster.result(one, 12)

        self.assertLess(self.cluster.clock.seconds() - began, LOOK_SECONDS + MOVED)
        self.assertEqual(self.logged("drain-cut-short", log_level="warning"), [])

    def test_again(self) -> None:
        """
        A member that comes back under its name is given work again.
        """
        a, b = self.members("ab")
        self.shut_down(b)
        self.cluster.crash(b)

        again = self.member("b")

        self.cluster.until(lambda: len(again.worker.my_workload) == 3, 10)
        self.cluster.until(lambda: self.running(a, again) == set(ITEMS), 1)


class StopsTests(LeavingCase):
    """
    Work that stops at once, since there is nothing to wait for.
    """

    def assert_at_once(self, member: Coordinator, reason: str) -> None:
        """
        Check that a member stops at once, and says why.
        """
        self.assertLess(self.shut_down(member), 0.1)
        self.assertEqual(self.reason("info"), reason)

    def test_alone(self) -> None:
        """
        Nobody else is there.
        """
        (a,) = self.members("a")

        self.assert_at_once(a, "no other member can take work")

    def test_nobody_takes_work(self) -> None:
        """
        Nobody else takes work: of weight 0, leaving, or wanted away.
        """
        (a,) = self.members("a")
        self.stranger("b", Member("b", weight=0, version="1").encode())
        self.stranger("c", Member("c", leaving=True, version="1").encode())
        self.stranger("d", Member("d", version="1").encode())
        intent = self.cluster.keys.node_intent("d")
        self.cluster.result(self.cluster.api.put(intent, b"maintenance"))

        self.assert_at_once(a, "no other member can take work")

    def test_nobody_leads(self) -> None:
        """
        Nobody else may lead.
        """
        a, _ = self.members("ab", ITEMS)
        self.cluster.crash(self.cluster.members["b"])
        self.cluster.until(lambda: self.running(a) == set(ITEMS), 10)
        b = self.member("b", can_lead=False)
        self.cluster.until(lambda: b.worker.my_workload, 10)

        self.assert_at_once(a, "no other member can lead")

    def test_frozen(self) -> None:
        """
        Operators want nothing to be planned: work stays where it is assigned,
        for when this member comes back.
        """
        _, b = self.members("ab")
        mine = set(b.worker.my_workload)
        freeze = self.cluster.keys.freeze
        self.cluster.result(self.cluster.api.put(freeze, b""))

        self.assert_at_once(b, "planning is frozen")

        self.assertEqual(self.cluster.assignments()["b"], mine)

    def test_frozen_meanwhile(self) -> None:
        """
        So it is when they come to want that meanwhile.
        """
        _, b = self.members("ab")
        freeze = self.cluster.keys.freeze
        ended = b.shutdown()
        self.cluster.advance(0.1)
        self.cluster.result(self.cluster.api.put(freeze, b""))

        self.cluster.result(ended, LOOK_SECONDS + 0.1)

        self.assertEqual(self.reason("info"), "planning is frozen")

    def test_last_other_dies(self) -> None:
        """
        The only other member dies before it has moved anything.
        """
        a, b = self.members("ab")
        ended = b.shutdown()
        self.cluster.advance(0.2)
        self.cluster.crash(a)

        self.cluster.result(ended, SETTINGS.failure_detection + LOOK_SECONDS + 0.5)

        self.assertEqual(self.reason("info"), "no other member can take work")

    def test_original_leads(self) -> None:
        """
        An original does not heed what a member says: the member key goes at
        once.
        """
        (a,) = self.members("a")
        keys, api = self.cluster.keys, self.cluster.api
        session = self.stranger("o", b"alive")
        a.give_up_leadership("test")
        self.cluster.until(lambda: self.cluster.entry(keys.leader) is None)
        self.cluster.result(api.put(keys.leader, b"o", acquire=session))
        self.cluster.until(lambda: a.leader_id == "o")
        freed = writes(keys.member("a"))
        order: list[str] = []

        def note(request: Any) -> float:
            if freed(request):
                order.append("member key")
            return 0.0

        self.cluster.network(a).latency = note
        self.runners["a"].asked_to_stop = lambda item: order.append("stop")  # type: ignore[method-assign]  # as it says

        self.assertLess(self.shut_down(a), 0.5)

        self.assertEqual(order[0], "member key")
        self.assertEqual(self.logged("draining-work"), [])

    def test_without_drain(self) -> None:
        """
        A worker of the application's own that cannot drain is halted.
        """
        halted: list[int] = []

        class Plain:
            my_workload = frozenset({"x"})

            def __init__(self, instance_id: str, coordinator: Coordinator) -> None:
                pass

            def start(self) -> None:
                pass

            def halt(self) -> None:
                self.my_workload = frozenset()
                halted.append(1)

        self.lead("a")
        b = self.cluster.add("b", worker_class=Plain)
        self.cluster.until(lambda: b.is_ready)

        self.cluster.result(b.shutdown(), 0.1)

        self.assertEqual(halted, [1])

    def test_drain_fails(self) -> None:
        """
        One that fails to drain is halted as well, and that is said.
        """

        class Failing(Worker):
            def drain(self) -> Deferred[None]:
                return fail(ValueError("no"))

        _, b = self.members("ab", worker_class=Failing)

        self.assertLess(self.shut_down(b), 0.1)

        self.assertEqual(self.reason("warning"), "the worker failed: no")


class OutageTests(LeavingCase):
    """
    What may go wrong meanwhile.
    """

    def test_time_over(self) -> None:
        """
        When nothing is moved, because the leader hangs, it is waited for a part
        of the budget; what is left of it suffices to stop.
        """
        a, b = self.members("ab")
        self.runners["b"].stopping = dict.fromkeys(ITEMS, 1.0)
        self.cluster.network(a).loses_request = lambda r: (
            len([op for op in operations(r) if op.verb == "get-tree"]) > 3
        )

        took = self.shut_down(b)

        drained = DRAIN_SHARE * (SETTINGS.drain_timeout - RESERVED_SECONDS)
        self.assertTrue(drained + 0.9 < took < drained + 1.5, took)
        self.assertEqual(self.reason("warning"), "the time for it is over")
        self.assertEqual(self.cluster.owners().keys() & {"b"}, set())

    def test_consul_hangs(self) -> None:
        """
        Cut off while it drains a member stops in time, and is over within its
        bound.
        """
        a, b = self.members("ab")
        mine = set(b.worker.my_workload)
        ended = b.shutdown()
        self.cluster.advance(0.2)
        self.cluster.network(b).partition()

        self.cluster.until(lambda: not b.worker.my_workload, 3)
        self.cluster.result(ended, 8)

        self.cluster.until(lambda: self.running(a) >= mine, 8)
        self.assertEqual(self.reason("warning"), "the lease is over")

    def test_consul_hangs_before(self) -> None:
        """
        Where it cannot even be said that the member leaves, it does not drain.
        """
        _, b = self.members("ab")
        self.cluster.network(b).partition()

        self.assertLess(self.shut_down(b), 6.0)

        self.assertEqual(self.logged("draining-work"), [])

    def test_consul_without_leader(self) -> None:
        """
        Servers that elect a leader for a moment do not end it.
        """
        _, b = self.members("ab")
        ended = b.shutdown()
        self.cluster.advance(0.3)
        self.cluster.consul.lose_leader(1.5)

        self.cluster.result(ended, 8)

        self.assertEqual(self.logged("drain-cut-short"), [])

    def test_look_hangs(self) -> None:
        """
        A look that hangs does not hold up a member whose work has moved.
        """
        _, b = self.members("ab")
        self.cluster.network(b).loses_reply = lambda r: (
            [op.verb for op in operations(r)] == ["get-tree"] * 3
            and self.logged("draining-work") != []
        )

        self.assertLess(self.shut_down(b), MOVED + LOOK_SECONDS)

    def test_session_lost(self) -> None:
        """
        A session that is ended by hand meanwhile does not hold it up.
        """
        a, b = self.members("ab")
        ended = b.shutdown()
        self.cluster.advance(0.2)
        self.cluster.consul.destroy_session(b.session_id or "")

        self.cluster.result(ended, 12)

        self.cluster.until(lambda: self.running(a) == set(ITEMS), 20)


class EachStepTests(LeavingCase):
    """
    V1, V2: each step of a shutdown fails, or hangs, in turn.
    """

    def names(self) -> list[str]:
        """
        Give the names of the steps.
        """
        member = self.lead("a")
        return [step.name for step in member._last_steps()]

    def test_each(self) -> None:
        """
        Whichever step does what it should and then fails, or never says that it is
        done: the others are made, nothing is left under way, the work runs on
        elsewhere, and it is over within its bound (field report 147).
        """
        names = self.names()
        for name in names:
            for fault in ("fails", "hangs"):
                self.begin_anew()
                with self.subTest(step=name, fault=fault):
                    self.fail_in(name, fault)

    def begin_anew(self) -> None:
        """
        Throw everybody and everything away.
        """
        self.cluster.close()
        self.cluster = type(self.cluster)(settings=self.settings)
        self.addCleanup(self.cluster.close)
        del self.logs[:]

    def fail_in(self, name: str, fault: str) -> None:
        """
        Shut down a leader with work, one of whose steps goes wrong.
        """

        def made(step: Step) -> Deferred[Any]:
            done = maybeDeferred(step.call)
            if fault == "fails":
                return done.addBoth(lambda _: fail(ValueError("no")))
            done.addErrback(lambda _: None)
            return Deferred()

        class Faulty(Coordinator):
            def _last_steps(self) -> Iterable[Step]:
                for step in super()._last_steps():
                    wrong = evolve(step, call=partial(made, step))
                    yield wrong if step.name == name else step

        a = self.member("a", coordinator_class=Faulty)
        self.cluster.until(lambda: a.is_leader)
        b = self.member("b")
        self.cluster.put_work("x", "y")
        self.cluster.until(lambda: a.worker.my_workload and b.worker.my_workload)
        self.cluster.advance(1)

        took = self.shut_down(a, SETTINGS.drain_timeout + 2.0)

        self.assertLess(took, SETTINGS.drain_timeout)
        self.cluster.until(lambda: self.running(b) == {"x", "y"}, 10)
        self.assertTrue(b.is_leader)
        self.assertEqual(len(self.logged("shutdown-step-failed", step=name)), 1)
        keys = self.cluster.keys
        held = [e.key for e in self.cluster.entries(keys.members) if e.session]
        self.assertEqual(held, [keys.member("b")])

    def test_kinds(self) -> None:
        """
        What asks Consul is known as such, and so is what waits for others.
        """
        member = self.lead("a")
        kinds = {step.name: step.kind for step in member._last_steps()}

        self.assertEqual(
            {name for name, kind in kinds.items() if kind is Kind.CONSUL},
            {"release-leadership", "say-leaving", "leave", "destroy-session"},
        )
        self.assertEqual(
            {name for name, kind in kinds.items() if kind is Kind.WORK},
            {"drain", "stop-work"},
        )
