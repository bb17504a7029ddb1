"""
Tests for the worker: how quickly items move, and how a member is drained.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from tests.support.working import ClusterCase, Floor, StringRunner
from tests.test_worker import WorkerCase
from voltha_coord.claiming import TAKEN_AT_ONCE
from voltha_coord.consul.model import Op
from voltha_coord.embedded.memory import Network
from voltha_coord.records import OwnerRecord
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster
from voltha_coord.worker import Worker

#: How long a request takes to arrive here, in seconds.
LATENCY = 0.002


class TimedRunner(StringRunner):
    """
    A runner that notes when items start and have stopped.

    :ivar times: the last time of each, by what happened and the work id.
    """

    def __init__(self, cluster: EmbeddedCluster, floor: Floor) -> None:
        super().__init__(floor)
        self._cluster = cluster
        self.times: dict[tuple[str, str], float] = {}

    def start_work(self, item: Any, report: bytes | None) -> Any:
        """
        Note it.
        """
        self.times["start", item.id] = self._cluster.clock.seconds()
        return super().start_work(item, report)

    def _gone(self, item: Any) -> None:
        self.times["stop", item.id] = self._cluster.clock.seconds()
        super()._gone(item)


class QuickTests(WorkerCase):
    """
    From a stop on one side to the start on the other.
    """

    def make_runner(self) -> StringRunner:
        """
        Make a runner that notes times.
        """
        return TimedRunner(self.cluster, self.floor)

    def slow_network(self, name: str) -> Network:
        """
        Let every request of a member take a little.
        """
        network = self.cluster.network(self.cluster.members[name])
        network.latency = lambda request: LATENCY
        return network

    def move(self, work: str, source: str, target: str) -> None:
        """
        Move an item in one transaction, as a leader does.
        """
        ops = (
            Op.delete(self.keys.assignment(source, work)),
            Op.set(self.keys.assignment(target, work), b""),
        )
        self.cluster.result(self.cluster.api.txn(ops))

    def gap(self, work: str, source: str, target: str) -> float:
        """
        Give the seconds from the last stop of an item to its last start.
        """
        times: list[Any] = [self.runners[name] for name in (source, target)]
        began: float = times[1].times["start", work]
        ended: float = times[0].times["stop", work]
        return began - ended

    def test_move(self) -> None:
        """
        From the end of a stop, however long it took, to the start on the other
        side it is less than a tenth of a second (G3, a move).
        """
        for name in ("a", "b"):
            self.worker(name)
            self.slow_network(name)
        self.assign("a", "w1")
        self.advance(1)
        for seconds in (0.0, 0.3, 2.0, 7.0):
            gaps = []
            for turn in range(6):
                source, target = ("a", "b") if turn % 2 == 0 else ("b", "a")
                self.runners[source].stops["w1"] = lambda s=seconds: deferLater(
                    self.cluster.clock, s
                )
                self.move("w1", source, target)
                self.advance(seconds + 0.7 + 0.13 * turn)
                gaps.append(self.gap("w1", source, target))

            self.assertGreaterEqual(min(gaps), 0.0)
            self.assertLess(max(gaps), 0.1, seconds)
            self.assertLess(median(gaps), 0.06, seconds)
        self.assert_settled("w1")

    def test_busy_owner(self) -> None:
        """
        An item is stopped and given back at once although its owner waits for an
        answer of Consul's about another one.
        """
        for name in ("a", "b"):
            self.worker(name)
        network = self.slow_network("a")
        self.assign("a", "w1")
        self.advance(1)
        claims = self.of_verb("cas", self.keys.owners)
        network.latency = lambda r: 5.0 if claims(r) else LATENCY
        self.assign("a", "w2")
        self.advance(0.2)
        self.move("w1", "a", "b")
        self.advance(0.5)

        self.assertEqual(self.cluster.owners(), {"w1": "b"})
        self.assertLess(self.gap("w1", "a", "b"), 0.1)

    def test_many_of_a_dead_worker(self) -> None:
        """
        A hundred items that nobody owns are claimed and run within two tenths
        of a second of their assignment.
        """
        self.worker("a")
        self.slow_network("a")
        items = [f"w{n:03}" for n in range(100)]
        self.cluster.put_work(*items)
        ops = [Op.set(self.keys.assignment("a", work), b"") for work in items]
        for share in (ops[:50], ops[50:]):
            self.cluster.result(self.cluster.api.txn(tuple(share)))
        took = self.cluster.until(lambda: len(self.workload("a")) == 100)

        self.assertLess(took, 0.2)

    def test_wakes_by_others(self) -> None:
        """
        Owner records that come and go all the time make a member that waits try
        again no more often than twenty times a second.
        """
        self.worker("a")
        self.put(self.keys.owner("w1"), OwnerRecord("b", "s").encode())
        self.assign("a", "w1")
        self.advance(1)
        self.requests["a"].clear()
        for n in range(200):
            self.put(self.keys.owner("other"), b"%d" % n)
            self.advance(0.01)

        path = f"/v1/kv/{self.keys.owners[:-1]}"
        looks = [r for r in self.requests["a"] if r.path == path]
        self.assertTrue(20 <= len(self.claims()) <= 45, len(self.claims()))
        self.assertTrue(20 <= len(looks) <= 45, len(looks))

    def test_many_held(self) -> None:
        """
        Where many are waited for, a wake is followed by a look that writes
        nothing, and only what is free is claimed.
        """
        self.worker("a")
        items = [f"w{n:03}" for n in range(3 * TAKEN_AT_ONCE)]
        for work in items:
            self.put(self.keys.owner(work), OwnerRecord("b", "s").encode())
        self.assign("a", *items)
        self.advance(3)
        self.requests["a"].clear()
        self.delete(self.keys.owner(items[7]))
        self.advance(0.2)

        self.assertEqual(self.claims(), [[items[7]]])
        self.assertEqual(self.workload("a"), {items[7]})

    def test_watch_ends(self) -> None:
        """
        The owner records are watched while something is waited for, and a while
        longer; then no more.
        """
        member = self.worker("a")
        agent = self.cluster.consul.agent("node-of-a")
        before = agent.waiting
        self.put(self.keys.owner("w1"), OwnerRecord("b", "s").encode())
        self.assign("a", "w1")
        self.advance(1)
        during = agent.waiting
        self.delete(self.keys.owner("w1"))
        self.advance(1)
        lingering = agent.waiting
        self.advance(2 * self.settings.watch_wait)

        self.assertEqual(self.workload("a"), {"w1"})
        # The values of work are watched from the first item on.
        self.assertEqual((during, lingering), (before + 1, before + 2))
        self.assertEqual(agent.waiting, before + 1)
        self.cluster.result(member.shutdown())

    def test_stopped_while_waiting(self) -> None:
        """
        A member that shuts down while it waits leaves nothing behind.
        """
        member = self.worker("a")
        self.put(self.keys.owner("w1"), OwnerRecord("b", "s").encode())
        self.assign("a", "w1")
        self.advance(1)
        self.cluster.result(member.shutdown())

        self.assertEqual(self.cluster.left_behind(member), (0, 0))


class DrainTests(WorkerCase):
    """
    Draining a member.
    """

    def drain(self, name: str = "a") -> Deferred[None]:
        """
        Drain a member's worker.
        """
        worker = self.cluster.members[name].worker
        assert isinstance(worker, Worker)
        return worker.drain()

    def test_drained(self) -> None:
        """
        What runs goes on until it is assigned elsewhere; once all of it is
        released the member is drained.
        """
        self.worker("a")
        self.assign("a", "w1", "w2")
        self.advance(1)
        drained = self.drain()
        self.advance(20)
        before = self.workload("a"), drained.called
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        self.unassign("a", "w1", "w2")
        self.advance(5)
        stopping_still = drained.called
        stopping.callback(None)
        self.cluster.result(drained, 1.0)

        self.assertEqual(before, ({"w1", "w2"}, False))
        self.assertFalse(stopping_still)
        self.assertEqual(self.cluster.owners(), {})

    def test_nothing_new(self) -> None:
        """
        Nothing that is assigned meanwhile is taken, or made ready, and the
        member is drained when that is assigned elsewhere, too.
        """
        self.worker("a")
        self.assign("a", "w1")
        self.advance(1)
        drained = self.drain()
        self.assign("a", "w2")
        self.put(self.keys.assignment("a", "w3"), b'{"phase": "prepare"}')
        self.unassign("a", "w1")
        self.advance(3)
        before = drained.called, self.runners["a"].asked("start")
        self.unassign("a", "w2", "w3")
        self.cluster.result(drained, 1.0)

        self.assertEqual(before, (False, ["w1"]))
        self.assertEqual(self.runners["a"].asked("prepare"), [])
        self.assertEqual(self.workload("a"), set())

    def test_nothing_to_drain(self) -> None:
        """
        A member that has nothing is drained at once.
        """
        self.worker("a")

        self.cluster.result(self.drain(), 0.5)

    def test_waits_for_nothing(self) -> None:
        """
        What was waited for when it began, since others own it, is waited for no
        more, and the worker comes to rest.
        """
        self.worker("a")
        self.worker("b")
        self.assign("b", "w1")
        self.advance(1)
        self.assign("a", "w1")
        self.advance(1)
        drained = self.drain()
        self.cluster.clock.heap.most_at_once = 1000
        self.advance(5)
        self.unassign("a", "w1")
        self.cluster.result(drained, 1.0)

        self.assertEqual(self.cluster.owners(), {"w1": "b"})

    def test_claim_under_way(self) -> None:
        """
        What was claimed when it began is given back.
        """
        member = self.worker("a")
        claims = self.of_verb("cas", self.keys.owners)
        network = self.cluster.network(member)
        network.reply_latency = lambda r: 0.5 if claims(r) else 0.0
        self.assign("a", "w1")
        self.cluster.until(lambda: self.cluster.owners())
        self.drain()
        self.advance(2)

        self.assertEqual(self.cluster.owners(), {})
        self.assertEqual(self.runners["a"].calls, [])

    def test_through_a_lost_session(self) -> None:
        """
        What runs when the session is lost is confirmed, also while draining.
        """
        member = self.worker("a")
        self.assign("a", "w1")
        self.advance(1)
        drained = self.drain()
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(5)
        confirmed = self.workload("a"), self.owner("w1").session
        self.unassign("a", "w1")
        self.cluster.result(drained, 2.0)

        self.assertEqual(confirmed, ({"w1"}, member.session_id))
        self.assertEqual(self.runners["a"].asked("start"), ["w1"])

    def test_waiting_no_more(self) -> None:
        """
        Whoever waits may stop that; the worker is halted as ever then.
        """
        self.worker("a")
        self.assign("a", "w1")
        self.advance(1)
        drained = self.drain()
        drained.cancel()
        self.failureResultOf(drained, CancelledError)
        worker = self.cluster.members["a"].worker
        assert isinstance(worker, Worker)
        again = worker.drain()
        self.cluster.result(worker.halt())

        self.assertTrue(again.called)
        self.assertEqual(self.cluster.owners(), {})
        self.assertEqual(self.workload("a"), set())


class LedDrainTests(ClusterCase):
    """
    Draining under a leader, which moves what a leaving member has.
    """

    settings = Settings(departed_soak=0.2)

    def test_moves_all(self) -> None:
        """
        Drained by its shutdown, a member's items run elsewhere before it is
        gone; each stops only when it is given to somebody.
        """
        for name in ("a", "b", "c"):
            self.member(name)
        items = [f"w{n:02}" for n in range(9)]
        self.cluster.put_work(*items)
        self.advance(15)
        member = next(m for m in self.cluster.members.values() if not m.is_leader)

        self.cluster.result(member.shutdown(), 20.0)
        del self.cluster.members[member.instance_id]
        self.advance(1)

        self.assert_settled(*items)
