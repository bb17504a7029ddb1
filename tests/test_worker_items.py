"""
Tests for the worker: items that change, that are made ready, and that hang.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from tests.support.working import KillingRunner, StringRunner, operations
from tests.test_worker import WorkerCase
from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.records import Assignment, OwnerRecord, WorkItem, decode_status
from voltha_coord.runners.track import TrackRunner
from voltha_coord.settings import Settings


class ItemCase(WorkerCase):
    """
    A test with members that work, and values under ``work/``.
    """

    def put_value(self, work: str, config: Any) -> None:
        """
        Describe an item.
        """
        self.put(self.keys.work_item(work), json.dumps({"config": config}).encode())

    def configs(self, work: str, name: str = "a") -> list[Any]:
        """
        Give the ``config`` of an item each time the runner was given it.
        """
        items = self.runners[name].items
        return [item.config for item in items if item.id == work]

    def assign_item(
        self, name: str, work: str, config: Any = None, phase: str = "run"
    ) -> None:
        """
        Assign an item as a leader does that hands items over with their values.
        """
        item = WorkItem(work, config=config)
        assignment = Assignment(name, work, phase=phase, item=item)
        self.put(self.keys.assignment(name, work), assignment.encode())

    def told(self, name: str, work: str) -> tuple[str, str] | None:
        """
        Give the state and the error of an item in a member's status report.
        """
        prefix = self.keys.status_of(name)
        chunks = {
            int(entry.key[len(prefix) :]): entry.value
            for entry in self.cluster.entries(prefix)
        }
        report = decode_status(chunks)
        if report is None or work not in report.items:
            return None
        status = report.items[work]
        return status.state, status.error


class ChangedValueTests(ItemCase):
    """
    Note [How a changed value is noticed].
    """

    def work(self, *work: str, **kw: Any) -> Coordinator:
        """
        Give a member that runs some items.
        """
        member = self.worker(**kw)
        for one in work:
            self.put_value(one, 1)
            self.put(self.keys.assignment("a", one))
        self.advance(1)
        self.assertEqual(self.workload("a"), set(work))
        self.requests["a"].clear()
        return member

    def test_update(self) -> None:
        """
        A value that changes under an item that runs is handed to the runner;
        the others are not.
        """
        self.work("w1", "w2")
        self.put_value("w1", 2)
        self.advance(1)

        self.assertEqual(self.configs("w1"), [1, 2])
        self.assertEqual(self.configs("w2"), [1])
        self.assertEqual(self.runners["a"].asked("stop"), [])

    def test_same_value(self) -> None:
        """
        A value that says the same in other words is no change.
        """
        self.work("w1")
        self.put(self.keys.work_item("w1"), b'{ "config" : 1 }')
        self.advance(1)

        self.assertEqual(self.runners["a"].asked("update"), [])

    def test_newest(self) -> None:
        """
        What changes again and again is handed over at most once in half a
        second; the last value is.
        """
        self.work("w1")
        for config in range(2, 30):
            self.put_value("w1", config)
            self.advance(0.05)
        self.advance(1)

        configs = self.configs("w1")
        self.assertEqual(configs[-1], 29)
        self.assertLess(len(configs), 8)

    def test_gone(self) -> None:
        """
        An item whose key is gone runs on as it is, until the leader takes it
        away; one that comes back with another value is changed.
        """
        self.work("w1")
        self.delete(self.keys.work_item("w1"))
        self.advance(1)
        before = self.workload("a"), self.configs("w1")
        self.put_value("w1", 2)
        self.advance(1)

        self.assertEqual(before, ({"w1"}, [1]))
        self.assertEqual(self.configs("w1"), [1, 2])

    def test_described_later(self) -> None:
        """
        An item that nothing described when it started is told what it is.
        """
        self.worker()
        self.put(self.keys.assignment("a", "w1"))
        self.advance(1)
        self.put_value("w1", 2)
        self.advance(1)

        self.assertEqual(self.configs("w1"), [None, 2])

    def test_costs(self) -> None:
        """
        A change of an item that is not ours is one look by indexes, which reads
        no value; and the watch reads one name.
        """
        self.work(*(f"w{n:02}" for n in range(50)))
        self.put(self.keys.work_item("other"), b"x" * 100_000)
        self.advance(2)

        asked = [
            op for r in self.requests["a"] for op in operations(r) if op.verb == "get"
        ]
        looks = [r for r in self.requests["a"] if self.checks_indexes(r)]
        self.assertEqual((asked, len(looks)), ([], 1))
        self.assertEqual(len(operations(looks[0])), 50)

    def checks_indexes(self, request: Request) -> bool:
        """
        Whether a request asks which values have changed.
        """
        return any(
            op.verb == "check-index" and op.key.startswith(self.keys.work)
            for op in operations(request)
        )

    def test_failing_update(self) -> None:
        """
        An update that fails is told and tried again; the item runs on.
        """
        member = self.work("w1")
        self.runners["a"].updates["w1"] = ValueError("no")
        self.put_value("w1", 2)
        self.advance(3)
        during = self.told("a", "w1"), self.value(self.keys.error("w1"))
        errors = member.status()["errors"]
        self.runners["a"].updates.clear()
        self.advance(6)

        self.assertEqual(during, (("running", "ValueError: no"), b"ValueError: no"))
        self.assertEqual(errors, {"w1": "ValueError: no"})
        self.assertEqual(self.told("a", "w1"), ("running", ""))
        self.assertIsNone(self.value(self.keys.error("w1")))

    def test_put_right(self) -> None:
        """
        An item that would not start is tried again with what it is by then.
        """
        self.worker()
        self.runners["a"].starts["w1"] = lambda: 1 / (self.configs("w1")[-1] - 1)
        self.put_value("w1", 1)
        self.put(self.keys.assignment("a", "w1"))
        self.advance(20)
        failing = self.workload("a")
        self.put_value("w1", 2)
        self.advance(6)

        self.assertEqual((failing, self.workload("a")), (set(), {"w1"}))

    def test_unreadable_list(self) -> None:
        """
        Where what has changed cannot be asked, it is asked again.
        """
        member = self.work("w1")
        network = self.cluster.network(member)
        lost: list[Request] = []

        def loses(request: Request) -> bool:
            if self.checks_indexes(request) and not lost:
                lost.append(request)
                return True
            return False

        network.loses_request = loses
        self.put_value("w1", 2)
        self.advance(15)

        self.assertEqual(len(lost), 1)
        self.assertEqual(self.configs("w1"), [1, 2])

    def test_new_session(self) -> None:
        """
        What changes while there is no session is noticed under the next one.
        """
        member = self.work("w1")
        self.cluster.network(member).partition()
        self.advance(5)
        self.put_value("w1", 2)
        self.cluster.network(member).heal(deliver=False)
        self.advance(10)

        self.assertEqual(self.configs("w1"), [1, 2])

    def test_carried(self) -> None:
        """
        Of an item that its assignment carries, what stands under ``work/`` does
        not count; a changed assignment is handed over.
        """
        self.worker()
        self.put_value("w1", 1)
        self.assign_item("a", "w1", 7)
        self.advance(1)
        self.put_value("w1", 2)
        self.advance(1)
        self.assign_item("a", "w1", 8)
        self.advance(1)

        self.assertEqual(self.configs("w1"), [7, 8])
        self.assertEqual(self.runners["a"].asked("stop"), [])

    def test_carried_no_more(self) -> None:
        """
        An assignment that carries the item no more leaves it to what stands
        under ``work/``, now and later.
        """
        self.worker()
        self.put_value("w1", 1)
        self.assign_item("a", "w1", 7)
        self.advance(1)
        self.put(self.keys.assignment("a", "w1"))
        self.advance(1)
        self.put_value("w1", 2)
        self.advance(1)

        self.assertEqual(self.configs("w1"), [7, 1, 2])


class UnfollowedTests(ItemCase):
    """
    A runner that has nothing to do about changed values.
    """

    def make_runner(self) -> StringRunner:
        """
        Make a runner without an ``update_work`` of its own.
        """

        class Plain(StringRunner):
            update_work = TrackRunner.update_work

        return Plain(self.floor)

    def test_goes_on(self) -> None:
        """
        Its item goes on as it is, and is started as what it is by then.
        """
        self.worker()
        self.put_value("w1", 1)
        self.put(self.keys.assignment("a", "w1"))
        self.advance(1)
        self.put_value("w1", 2)
        self.advance(40)
        before = self.configs("w1")
        self.put(self.keys.assignment("a", "w1"), b'{"restart": 7}')
        self.advance(1.5)

        self.assertEqual(before, [1])
        self.assertEqual(self.configs("w1"), [1, 2])

    def test_put_right(self) -> None:
        """
        An item that would not start is tried again with what it is by then.
        """
        self.worker()
        self.runners["a"].starts["w1"] = lambda: 1 / (self.configs("w1")[-1] - 1)
        self.put_value("w1", 1)
        self.put(self.keys.assignment("a", "w1"))
        self.advance(5)
        self.put_value("w1", 2)
        self.advance(6)

        self.assertEqual(self.workload("a"), {"w1"})


class PreparingTests(ItemCase):
    """
    Moves that are prepared.
    """

    def test_move(self) -> None:
        """
        An item is made ready on the target while it runs on the source; then
        it runs on the target, with what was handed over.
        """
        for name in ("a", "b"):
            self.worker(name)
        self.assign_item("a", "w1", 1)
        self.put(self.keys.work_item("w1"))
        self.advance(1)
        self.runners["a"].reports["w1"] = b"position 7"

        self.assign_item("b", "w1", 1, phase="prepare")
        self.advance(1)
        during = self.workload("a"), self.workload("b"), self.told("b", "w1")
        self.delete(self.keys.assignment("a", "w1"))
        self.assign_item("b", "w1", 1)
        self.advance(1)

        self.assertEqual(during, ({"w1"}, set(), ("prepared", "")))
        self.assertEqual(self.runners["b"].calls, [("prepare", "w1"), ("start", "w1")])
        self.assertEqual(self.runners["b"].started_with, [b"position 7"])
        self.assert_settled("w1")

    def test_by_its_key(self) -> None:
        """
        An assignment that says only that the item is to be made ready leaves
        what it is to ``work/``.
        """
        self.worker()
        self.put_value("w1", 3)
        self.put(self.keys.assignment("a", "w1"), b'{"phase": "prepare"}')
        self.advance(1)

        self.assertEqual(self.told("a", "w1"), ("prepared", ""))
        self.assertEqual(self.configs("w1"), [3])
        self.assertEqual(self.cluster.owners(), {})

    def test_failing(self) -> None:
        """
        Why it cannot be made ready stands in the status report, and not under
        ``errors/``, where its owner speaks.
        """
        member = self.worker()
        failures: dict[str, Any] = {"w1": ValueError("no room"), "w2": Deferred}
        for work, failing in failures.items():
            self.runners["a"].prepares[work] = failing
            self.assign_item("a", work, phase="prepare")
        self.advance(62)

        self.assertEqual(self.told("a", "w1"), ("failed", "ValueError: no room"))
        state, error = self.told("a", "w2") or ("", "")
        self.assertEqual((state, error[:12]), ("failed", "TimeoutError"))
        self.assertEqual(sorted(member.status()["errors"]), ["w1", "w2"])
        self.assertEqual(self.cluster.entries(self.keys.errors), ())

    def test_undone(self) -> None:
        """
        What is not to come after all is undone by ``stop_work``.
        """
        self.worker()
        self.assign_item("a", "w1", phase="prepare")
        self.advance(1)
        self.unassign("a", "w1")
        self.advance(1)

        self.assertEqual(self.runners["a"].calls, [("prepare", "w1"), ("stop", "w1")])
        self.assertIsNone(self.told("a", "w1"))

    def test_through_an_outage(self) -> None:
        """
        What was made ready stays so through an outage.
        """
        member = self.worker()
        self.assign_item("a", "w1", phase="prepare")
        self.advance(1)
        self.cluster.network(member).partition()
        self.advance(20)
        self.cluster.network(member).heal(deliver=False)
        self.advance(10)

        self.assertEqual(self.runners["a"].calls, [("prepare", "w1")])
        self.assertEqual(self.told("a", "w1"), ("prepared", ""))

    def test_run_to_prepare(self) -> None:
        """
        An item that runs and is only to be made ready stops, is released, and
        is made ready.
        """
        self.worker()
        self.assign_item("a", "w1")
        self.advance(1)
        self.assign_item("a", "w1", phase="prepare")
        self.advance(1)

        self.assertEqual(
            [call for call in self.runners["a"].calls if call[0] != "report"],
            [("start", "w1"), ("stop", "w1"), ("prepare", "w1")],
        )
        self.assertEqual(self.cluster.owners(), {})


class OddAssignmentTests(ItemCase):
    """
    Note [The value of an assignment].
    """

    def test_counts_as_empty(self) -> None:
        """
        A value that cannot be read counts as an empty one; that is said once,
        and shown with the item (G9).
        """
        self.worker()
        self.put_value("w1", 5)
        values = {"w1": b"{", "w2": b'{"phase": "dance"}', "w3": b"[]"}
        for work, value in values.items():
            self.put(self.keys.assignment("a", work), value)
        self.advance(1)
        self.put(self.keys.assignment("a", "w4"))
        self.advance(30)

        self.assertEqual(self.workload("a"), {*values, "w4"})
        self.assertEqual(self.configs("w1"), [5])
        said = [entry["work"] for entry in self.logged("assignment-odd")]
        self.assertEqual(said, ["w1", "w2", "w3"])
        self.assertIn(b"not JSON", self.value(self.keys.error("w1")) or b"")
        self.assertIn(b"dance", self.value(self.keys.error("w2")) or b"")
        self.assertIsNone(self.value(self.keys.error("w4")))


class HangingTests(ItemCase):
    """
    Runners that do not answer.
    """

    settings = Settings(work_timeout=5.0, stop_timeout=3.0)

    def test_start(self) -> None:
        """
        A start that never ends counts as failed, and is told and tried again;
        other items start meanwhile.
        """
        self.worker()
        self.runners["a"].starts["w1"] = Deferred
        self.assign("a", "w1")
        self.advance(1)
        self.assign("a", "w2")
        self.advance(5)
        told = self.value(self.keys.error("w1")), self.told("a", "w1")
        others = self.workload("a")
        self.runners["a"].starts.clear()
        self.advance(6)

        self.assertEqual(told[0], b"TimeoutError: not done in 5 s")
        self.assertEqual((told[1] or ("", ""))[0], "failed")
        self.assertIn("w2", others)
        self.assertEqual(self.workload("a"), {"w1", "w2"})
        self.assertIsNone(self.value(self.keys.error("w1")))

    def test_stop(self) -> None:
        """
        An item whose stop never ends stays owned and counted, says so under
        ``errors/`` and in ``/status``, and holds up no other.
        """
        member = self.worker("a")
        self.worker("b")
        self.assign("a", "w1", "w2")
        self.advance(1)
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        for work in ("w1", "w2"):
            self.delete(self.keys.assignment("a", work))
            self.put(self.keys.assignment("b", work))
        self.advance(600)
        during = self.workload("a"), self.workload("b"), self.cluster.owners()
        told = self.value(self.keys.error("w1")), member.status()["errors"]
        stopping.callback(None)
        self.advance(1)

        self.assertEqual(during, ({"w1"}, {"w2"}, {"w1": "a", "w2": "b"}))
        self.assertIn(b"not stopped: not done in 3 s", told[0] or b"")
        self.assertEqual(list(told[1]), ["w1"])
        self.assert_settled("w1", "w2")

    def test_report(self) -> None:
        """
        A report that never ends hands over nothing, and holds the item up for
        ``work_timeout``.
        """
        self.worker("a")
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)
        self.runners["a"].reports["w1"] = Deferred()
        self.delete(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("b", "w1"))
        self.advance(6)

        self.assertEqual(self.runners["b"].started_with, [None])
        self.assert_settled("w1")

    def test_queue(self) -> None:
        """
        Of many items, ``concurrent_work`` start at a time; what waits is not
        said to run.
        """
        self.worker(settings=Settings(concurrent_work=3, work_timeout=60.0))
        starts: dict[str, Deferred[None]] = {f"w{n}": Deferred() for n in range(9)}
        self.runners["a"].starts.update(starts)
        self.assign("a", *starts)
        self.advance(1)
        first = self.workload("a"), self.told("a", "w3")
        for work in ("w0", "w1", "w2"):
            starts[work].callback(None)
        self.advance(1)

        self.assertEqual(first, ({"w0", "w1", "w2"}, ("waiting", "")))
        self.assertEqual(len(self.cluster.owners()), 9)
        self.assertEqual(self.workload("a"), {f"w{n}" for n in range(6)})


class KilledTests(ItemCase):
    """
    Runners that can kill.
    """

    settings = Settings(stop_timeout=3.0)

    def make_runner(self) -> StringRunner:
        """
        Make a runner that can kill.
        """
        return KillingRunner(self.floor)

    def test_killed(self) -> None:
        """
        An item that does not stop in time is killed, and moves.
        """
        self.worker("a")
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)
        self.runners["a"].stops["w1"] = Deferred()
        self.delete(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("b", "w1"))
        self.advance(2.5)
        before = self.workload("a"), self.cluster.owners()
        self.advance(1)

        self.assertEqual(before, ({"w1"}, {"w1": "a"}))
        self.assertEqual(self.runners["a"].asked("kill"), ["w1"])
        self.assert_settled("w1")

    def test_owner_record_of_nobody(self) -> None:
        """
        What is held by a stranger is waited for, whatever else moves.
        """
        self.worker("a")
        self.put(self.keys.owner("w1"), OwnerRecord("x", "s").encode())
        self.assign("a", "w1", "w2")
        self.advance(5)

        self.assertEqual(self.workload("a"), {"w2"})
