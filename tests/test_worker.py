"""
Tests for :mod:`voltha_coord.worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from tests.support.working import ClusterCase, operations
from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.lease import Lease
from voltha_coord.ownership import error_mark
from voltha_coord.records import OwnerRecord
from voltha_coord.settings import MOST_SOAKS, Settings
from voltha_coord.worker import Worker

SETTINGS = Settings()


class WorkerCase(ClusterCase):
    """
    A test with members that may not lead: the test assigns.
    """

    def worker(self, name: str = "a", **kw: Any) -> Coordinator:
        """
        Add a member that works and does not lead, and wait until it is one.
        """
        member = self.member(name, can_lead=False, **kw)
        self.advance(1.5)
        self.assertTrue(member.is_member)
        return member

    def assign(self, name: str, *work: str) -> None:
        """
        Assign items, as a leader would.
        """
        for w in work:
            self.put(self.keys.work_item(w), b"")
            self.put(self.keys.assignment(name, w))

    def unassign(self, name: str, *work: str) -> None:
        """
        Take assignments away.
        """
        for w in work:
            self.delete(self.keys.assignment(name, w))

    def owner(self, work: str) -> OwnerRecord:
        """
        Read an owner record.
        """
        entry = self.cluster.entry(self.keys.owner(work))
        assert entry is not None
        return OwnerRecord.from_entry(entry)

    def claims(self, name: str = "a") -> list[list[str]]:
        """
        Give the items of each claim that a member sent.
        """
        start = len(self.keys.owners)
        return [
            [op.key[start:] for op in operations(r) if op.verb == "cas"]
            for r in self.requests[name]
            if any(op.verb == "check-index" for op in operations(r))
            and any(
                op.verb == "cas" and op.key.startswith(self.keys.owners)
                for op in operations(r)
            )
        ]

    def of_verb(self, verb: str, prefix: str) -> Callable[[Request], bool]:
        """
        Give what tells whether a request has such an operation.
        """

        def wanted(request: Request) -> bool:
            return any(
                op.verb == verb and op.key.startswith(prefix)
                for op in operations(request)
            )

        return wanted


class AssignmentTests(WorkerCase):
    """
    From an assignment to an item that runs.
    """

    def test_runs(self) -> None:
        """
        What is assigned is owned and runs; the record tells all that a
        successor needs.
        """
        member = self.worker()

        self.assign("a", "w1")
        self.advance(1)

        self.assertEqual(member.worker.my_workload, {"w1"})
        self.assertEqual(self.runners["a"].calls, [("start", "w1")])
        record = self.owner("w1")
        self.assertEqual((record.owner, record.session), ("a", member.session_id))
        self.assertEqual(record.check, member.session.check_id)
        self.assertEqual((record.node, record.ttl), ("node-of-a", 15.0))

    def test_description(self) -> None:
        """
        The runner is given the item as it stands in Consul; a value that is no
        JSON, or has the wrong shape, is an item nevertheless (G9).
        """
        values = {
            "w1": b'{"config": {"x": 1}, "colour": "red"}',
            "w2": b"\xff\x00",
            "w3": b'{"limits": 7}',
            "w4": b"x" * 400 * 1024,
            "w5": b"[1, 2]",
        }
        self.worker()
        for work, value in values.items():
            self.put(self.keys.work_item(work), value)
            self.put(self.keys.assignment("a", work))
        self.advance(2)

        items = {item.id: item for item in self.runners["a"].items}
        self.assertEqual(self.workload("a"), set(values))
        self.assertEqual(items["w1"].config, {"x": 1})
        self.assertEqual(items["w1"].extra, {"colour": "red"})
        self.assertEqual(items["w2"].raw, b"\xff\x00")
        self.assertEqual(items["w4"].raw, values["w4"])
        self.assertIn(b"limits", self.value(self.keys.error("w3")) or b"")
        self.assertEqual(self.cluster.reported("a"), set(values))

    def test_missing_item(self) -> None:
        """
        What is assigned is run although nothing describes it.
        """
        self.worker()

        self.put(self.keys.assignment("a", "w1"))
        self.advance(1)

        self.assertEqual(self.workload("a"), {"w1"})

    def test_soak(self) -> None:
        """
        Changed assignments are acted upon after ``worker_soak`` of quiet.
        """
        self.worker(settings=Settings(worker_soak=0.5))
        self.assign("a", "w1")
        self.advance(0.4)
        self.assign("a", "w2")
        self.advance(0.4)
        early = self.workload("a")
        self.advance(0.3)

        self.assertEqual((early, self.workload("a")), (set(), {"w1", "w2"}))

    def test_soak_ends(self) -> None:
        """
        Assignments that never stop to change are acted upon nevertheless.
        """
        self.worker(settings=Settings(worker_soak=2.0))
        for n in range(80):
            self.assign("a", f"w{n}")
            self.advance(0.2)
            if self.workload("a"):
                break

        self.assertLessEqual(0.2 * n, MOST_SOAKS * 2.0 + 1.0)

    def test_illegal_assignments(self) -> None:
        """
        Keys that cannot be assignments are passed over and stay (G9).
        """
        self.worker()
        odd = [f"{self.keys.assignments_of('a')}{x}" for x in ("a b", "x/y", ".dot")]
        for key in odd:
            self.put(key, b"\xff")
        self.assign("a", "w1")
        self.advance(2)

        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual([self.value(key) for key in odd], [b"\xff"] * 3)
        self.assertEqual(list(self.cluster.owners()), ["w1"])

    def test_any_assignment_value(self) -> None:
        """
        What stands in an assignment makes no difference (G9).
        """
        self.worker()
        for n, value in enumerate((b"\xff", b"x" * 400_000, b"[]", b'{"phase": 3}')):
            self.put(self.keys.assignment("a", f"w{n}"), value)
        self.advance(2)

        self.assertEqual(len(self.workload("a")), 4)

    def test_many(self) -> None:
        """
        A thousand items are claimed 15 at a time, once each, and an unchanged
        assignment asks for nothing.
        """
        work = [f"w{n:04}" for n in range(1000)]
        self.worker()
        self.assign("a", *work)
        self.advance(3)
        claims = self.claims()
        self.requests["a"].clear()
        index = self.cluster.consul.index
        self.advance(20)

        self.assertEqual(self.workload("a"), set(work))
        self.assertEqual(sorted(w for c in claims for w in c), work)
        self.assertLessEqual(max(map(len, claims)), 15)
        self.assertEqual(self.cluster.consul.index, index)
        self.assertEqual(self.claims(), [])

    def test_one_held_one_unassigned(self) -> None:
        """
        Of many items, one is held and one assigned no longer: the rest is
        taken at once, and the held one when it is free (field report 121).
        """
        self.worker()
        self.put(self.keys.owner("w03"), OwnerRecord("b", "s").encode())
        self.assign("a", *(f"w{n:02}" for n in range(31)))
        self.advance(0.3)
        self.unassign("a", "w05")
        self.advance(1.5)
        early = self.workload("a")
        self.delete(self.keys.owner("w03"))
        self.advance(0.6)

        self.assertEqual(len(early), 29)
        self.assertEqual(self.workload("a") - early, {"w03"})

    def test_slow_watch(self) -> None:
        """
        A claim that is refused because the assignment is another by now makes
        the assignments be read at once, whatever the watch waits for.
        """
        member = self.worker()
        network = self.cluster.network(member)
        self.put(self.keys.owner("w1"), OwnerRecord("b", "s").encode())
        self.assign("a", "w1")
        self.advance(2)
        network.reply_latency = lambda r: 25.0 if "index" in dict(r.params) else 0.0
        self.delete(self.keys.assignment("a", "w1"))
        self.assign("a", "w1")
        self.delete(self.keys.owner("w1"))
        self.advance(3)

        self.assertEqual(self.workload("a"), {"w1"})

    def test_held_is_looked_at_ever_less_often(self) -> None:
        """
        An item that somebody else owns is looked at after 50 ms, growing to half
        a second; while no owner record changes nothing is claimed, which would
        be an entry of Consul's log.
        """
        self.worker()
        self.put(self.keys.owner("w1"), OwnerRecord("b", "s").encode())
        self.assign("a", "w1")
        self.advance(1.6)
        quick = len(self.looks())
        self.requests["a"].clear()
        self.advance(10)

        self.assertTrue(2 <= quick <= 8, quick)
        self.assertTrue(20 <= len(self.looks()) <= 41, len(self.looks()))
        self.assertEqual(self.claims(), [])

    def looks(self) -> list[Request]:
        """
        Give the requests that read owner records, and write nothing.
        """
        return [
            r
            for r in self.requests["a"]
            if any(
                op.verb == "get" and op.key.startswith(self.keys.owners)
                for op in operations(r)
            )
        ]

    def test_denied(self) -> None:
        """
        Assignments that may not be read are not taken for none: what runs goes
        on, and that is said (V15, field report 105).
        """
        self.worker()
        self.assign("a", "w1")
        self.advance(1)
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key"
            and name.startswith(self.keys.assignments)
            and access == "read"
        )
        self.put(self.keys.assignment("a", "w2"))
        self.advance(40)

        self.assertEqual(self.workload("a"), {"w1"})
        self.assertTrue(self.logged("watch-failed"))

    def test_all_unassigned(self) -> None:
        """
        An empty list that is not a denied one stops everything.
        """
        self.worker()
        self.assign("a", "w1", "w2")
        self.advance(1)
        self.unassign("a", "w1", "w2")
        self.advance(1)

        self.assertEqual(self.workload("a"), set())
        self.assertEqual(self.cluster.owners(), {})


class RecordTests(WorkerCase):
    """
    Owner records that somebody else tampers with.
    """

    def test_missing_record(self) -> None:
        """
        An item that is assigned to us anew, and has no owner record any more,
        is stopped, and started when it is ours again.
        """
        self.worker()
        self.assign("a", "w1", "w2")
        self.advance(1)
        self.delete(self.keys.owner("w1"))
        self.unassign("a", "w1")
        self.assign("a", "w1")
        self.advance(1.5)

        self.assert_settled("w1", "w2")
        self.assertEqual(self.runners["a"].asked("stop"), ["w1"])
        self.assertEqual(self.runners["a"].asked("start"), ["w1", "w2", "w1"])

    def test_restored_record(self) -> None:
        """
        A record of ours that was deleted and put back, as restoring a backup
        does, is released all the same once the item is not ours any more.
        """
        self.worker("a")
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)
        record = self.value(self.keys.owner("w1")) or b""
        self.delete(self.keys.owner("w1"))
        self.put(self.keys.owner("w1"), record)
        self.delete(self.keys.assignment("a", "w1"))
        self.put(self.keys.assignment("b", "w1"))
        self.advance(3)

        self.assert_settled("w1")
        self.assertEqual(self.workload("b"), {"w1"})

    def test_restored_record_while_stopping(self) -> None:
        """
        And it is not released while the item that it was written over for still
        stops.
        """
        self.worker("a")
        self.assign("a", "w1")
        self.advance(1)
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        record = self.value(self.keys.owner("w1")) or b""
        self.delete(self.keys.owner("w1"))
        self.put(self.keys.owner("w1"), record)
        self.unassign("a", "w1")
        self.assign("a", "w1")
        self.advance(1)
        self.unassign("a", "w1")
        self.advance(5)
        during = self.cluster.owners()
        stopping.callback(None)
        self.advance(2)

        self.assertEqual(self.runners["a"].asked("stop"), ["w1"])
        self.assertEqual((during, self.cluster.owners()), ({"w1": "a"}, {}))

    def test_restored_record_at_shutdown(self) -> None:
        """
        So it is at shutdown.
        """
        member = self.worker("a")
        self.assign("a", "w1")
        self.advance(1)
        record = self.value(self.keys.owner("w1")) or b""
        self.delete(self.keys.owner("w1"))
        self.put(self.keys.owner("w1"), record)
        self.cluster.result(member.shutdown())

        self.assertEqual(self.cluster.owners(), {})

    def test_stopped_while_another_is_claimed(self) -> None:
        """
        An item that was stopped for want of a lease, stays stopping while the
        next lease begins, and has stopped just as another one is claimed, is
        known to be ours: it is given back where it is not assigned any more.
        """
        member = self.worker("a")
        network = self.cluster.network(member)
        self.assign("a", "w1")
        self.advance(1)
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(8)
        self.unassign("a", "w1")
        self.assign("a", "w2")
        network.reply_latency = lambda r: 0.3 if self.claiming(r) else 0.0
        self.cluster.until(lambda: "w2" in self.cluster.owners())
        stopping.callback(None)
        self.advance(3)

        self.assert_settled("w2")

    def claiming(self, request: Request) -> bool:
        """
        Whether a request claims an item.
        """
        return self.of_verb("cas", self.keys.owners)(request)


class HandingOverTests(WorkerCase):
    """
    From one member to another.
    """

    def move(self, work: str, source: str = "a", target: str = "b") -> None:
        """
        Move an item, as a leader would.
        """
        self.delete(self.keys.assignment(source, work))
        self.put(self.keys.assignment(target, work))

    def test_waits_for_the_stop(self) -> None:
        """
        The new owner starts only after the old one's stop has finished and its
        record is released (field report 126).
        """
        self.worker("a")
        self.worker("b")
        self.assign("a", "w1", "w2")
        self.advance(1)
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping

        self.move("w1")
        self.move("w2")
        self.advance(5)
        during = (self.workload("a"), self.workload("b"), self.cluster.owners()["w1"])
        stopping.callback(None)
        self.advance(1)

        self.assertEqual(during, ({"w1"}, {"w2"}, "a"))
        self.assertEqual(
            (self.workload("a"), self.workload("b")), (set(), {"w1", "w2"})
        )
        self.assert_settled("w1", "w2")

    def test_quick(self) -> None:
        """
        A move takes the worker's soak and little more.
        """
        self.worker("a")
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)

        self.move("w1")
        self.advance(SETTINGS.worker_soak + 0.25)

        self.assertEqual(self.workload("b"), {"w1"})

    def test_failing_stop(self) -> None:
        """
        An item whose stop fails may still run: it stays ours and counts, says
        why, and is released once a later attempt has succeeded.
        """
        member = self.worker("a")
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)
        self.runners["a"].stops["w1"] = ValueError("bad")

        self.move("w1")
        self.advance(3)
        during = (self.workload("a"), self.workload("b"), self.cluster.owners())
        errors = member.status()["errors"], self.value(self.keys.error("w1"))
        self.runners["a"].stops.clear()
        self.advance(6)

        self.assertEqual(during, ({"w1"}, set(), {"w1": "a"}))
        self.assertEqual(errors[0], {"w1": "not stopped: ValueError: bad"})
        self.assertEqual(errors[1], b"not stopped: ValueError: bad")
        self.assertTrue(self.logged("work-not-stopped"))
        self.assert_settled("w1")

    def test_report(self) -> None:
        """
        What the runner hands over is given to the next start of the item, by
        whoever makes it, and is then removed.
        """
        self.worker("a")
        self.worker("b")
        self.assign("a", "w1", "w2")
        self.advance(1)
        self.runners["a"].reports["w1"] = b"\x00 position 7"

        self.unassign("a", "w1", "w2")
        self.advance(1)
        between = self.value(self.keys.report("w1"))
        self.assign("b", "w1", "w2")
        self.advance(1)

        started = dict(
            zip(
                self.runners["b"].asked("start"),
                self.runners["b"].started_with,
                strict=True,
            )
        )
        self.assertEqual(between, b"\x00 position 7")
        self.assertEqual(started, {"w1": b"\x00 position 7", "w2": None})
        self.assertEqual(self.cluster.entries(self.keys.reports), ())

    def test_report_survives_failing_starts(self) -> None:
        """
        A report is kept until the item has started.
        """
        self.worker("a")
        self.assign("a", "w1")
        self.put(self.keys.report("w1"), b"position 7")
        self.runners["a"].starts["w1"] = ValueError("bad")
        self.advance(1.5)
        kept = self.value(self.keys.report("w1"))
        self.runners["a"].starts.clear()
        self.advance(6)

        self.assertEqual(kept, b"position 7")
        self.assertEqual(set(self.runners["a"].started_with), {b"position 7"})
        self.assertIsNone(self.value(self.keys.report("w1")))

    def test_served_once(self) -> None:
        """
        A report that an item has started with is not given to its next owner,
        though the item moves on before the report was removed.
        """
        member = self.worker("a")
        self.worker("b")
        self.put(self.keys.report("w1"), b"position 7")
        network = self.cluster.network(member)
        removes = self.of_verb("delete-cas", self.keys.reports)
        releases = self.of_verb("delete-cas", self.keys.owners)
        network.loses_request = lambda r: removes(r) and not releases(r)
        self.assign("a", "w1")
        self.advance(1)
        self.move("w1")
        self.advance(1)

        self.assertEqual(self.runners["a"].started_with, [b"position 7"])
        self.assertEqual(self.runners["b"].started_with, [None])

    def test_one_request(self) -> None:
        """
        Fifteen items are claimed, described and handed over in one request.
        """
        self.worker("a", settings=Settings(worker_soak=2.0))
        self.put(self.keys.report("w07"), b"position 7")
        self.requests["a"].clear()
        self.assign("a", *(f"w{n:02}" for n in range(15)))
        self.advance(2.5)

        about = [
            r
            for r in self.requests["a"]
            if r.path.startswith(f"/v1/kv/{self.keys.reports}")
            or any(op.verb in ("cas", "get", "get-tree") for op in operations(r))
        ]
        self.assertEqual(len(about), 1)
        self.assertEqual(len(self.workload("a")), 15)
        self.assertEqual(self.runners["a"].started_with[7], b"position 7")

    def test_back_and_forth(self) -> None:
        """
        An item that is moved away and back stops and starts, or stays.
        """
        self.worker("a")
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)
        for _ in range(3):
            self.move("w1")
            self.advance(0.7)
            self.move("w1", "b", "a")
            self.advance(0.9)
        self.advance(3)

        self.assert_settled("w1")
        self.assertEqual(self.workload("a"), {"w1"})

    def test_lost_release(self) -> None:
        """
        A release whose reply is lost is sent again, and the report is not set
        twice.
        """
        member = self.worker("a", settings=Settings(command_timeout=1.0))
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)
        self.runners["a"].reports["w1"] = b"position 7"
        wanted = self.of_verb("delete-cas", self.keys.owners)
        lost: list[Request] = []

        def loses(request: Request) -> bool:
            if wanted(request) and not lost:
                lost.append(request)
                return True
            return False

        self.cluster.network(member).loses_reply = loses
        self.move("w1")
        self.advance(6)

        self.assertEqual(len(lost), 1)
        self.assertEqual(self.runners["b"].started_with, [b"position 7"])
        self.assertEqual(self.cluster.entries(self.keys.reports), ())
        self.assert_settled("w1")

    def test_release_that_never_arrives(self) -> None:
        """
        A release that is lost on its way, again and again, is sent until it
        arrives; the next owner waits for it.
        """
        member = self.worker("a", settings=Settings(command_timeout=1.0))
        self.worker("b")
        self.assign("a", "w1")
        self.advance(1)
        releasing = self.of_verb("delete-cas", self.keys.owners)
        self.cluster.network(member).loses_request = releasing
        self.move("w1")
        self.advance(8)
        waits = self.workload("b") == set()

        self.cluster.network(member).loses_request = lambda request: False
        self.advance(8)

        self.assertTrue(waits)
        self.assert_settled("w1")


class FailingStartTests(WorkerCase):
    """
    Items that will not start.
    """

    def test_told_and_retried(self) -> None:
        """
        It is tried again with a back-off; meanwhile it does not run, and why
        stands in the status report, under ``errors/`` and in ``errors``.
        """
        member = self.worker()
        self.runners["a"].starts["w1"] = ValueError("no licence")
        self.assign("a", "w1", "w2")
        self.advance(10)
        tries = len(self.runners["a"].asked("start"))
        entry = self.cluster.entry(self.keys.error("w1"))
        errors = member.status()["errors"]
        reported = self.cluster.reported("a")
        index = self.cluster.consul.index
        self.advance(1)
        quiet = self.cluster.consul.index
        self.runners["a"].starts.clear()
        self.advance(6)

        assert entry is not None
        self.assertTrue(6 <= tries <= 12, tries)
        self.assertEqual(entry.value, b"ValueError: no licence")
        self.assertEqual(entry.flags, error_mark(member.session_id or ""))
        self.assertEqual(errors, {"w1": "ValueError: no licence"})
        self.assertEqual(reported, {"w2"})
        self.assertEqual(quiet, index)
        self.assertEqual(self.workload("a"), {"w1", "w2"})
        self.assertIsNone(self.value(self.keys.error("w1")))
        self.assertEqual(member.status()["errors"], {})

    def test_never_answers(self) -> None:
        """
        A start that never answers holds up no other item, and a stop cancels
        it.
        """
        self.worker()
        self.runners["a"].starts["w1"] = Deferred()
        self.assign("a", "w1")
        self.advance(1)
        self.assign("a", "w2")
        self.advance(1)
        running = self.workload("a")
        self.unassign("a", "w1")
        self.advance(1)

        self.assertEqual(running, {"w1", "w2"})
        self.assertEqual(self.workload("a"), {"w2"})
        self.assertEqual(list(self.cluster.owners()), ["w2"])

    def test_errors_denied(self) -> None:
        """
        Where ``errors/`` may not be written the work goes on.
        """
        self.worker()
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(self.keys.errors)
        )
        self.runners["a"].starts["w1"] = ValueError("bad")
        self.assign("a", "w1", "w2")
        self.advance(3)
        self.assign("a", "w3")
        self.advance(2)

        self.assertEqual(self.workload("a"), {"w2", "w3"})
        self.assertEqual(len(self.logged("errors-not-told")), 1)

    def test_told_again(self) -> None:
        """
        Under a new session it is said again: what was said under the old one
        is out of date.
        """
        member = self.worker()
        self.runners["a"].starts["w1"] = ValueError("bad")
        self.assign("a", "w1")
        self.advance(3)
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(5)

        entry = self.cluster.entry(self.keys.error("w1"))
        assert entry is not None
        self.assertEqual(entry.flags, error_mark(member.session_id or ""))

    def test_error_of_moved_item(self) -> None:
        """
        What an owner said of an item it has no more is removed by the leader.
        """
        self.member("l", weight=0.0)
        self.worker("a")
        self.runners["a"].starts["w1"] = ValueError("bad")
        self.cluster.put_work("w1")
        self.advance(6)
        told = self.value(self.keys.error("w1"))
        self.cluster.remove_work("w1")
        self.advance(15)

        self.assertIsNotNone(told)
        self.assertEqual(self.cluster.entries(self.keys.errors), ())


class LeaseTests(WorkerCase):
    """
    Note [Work and the lease].
    """

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

    def test_stops_in_time(self) -> None:
        """
        Cut off from Consul, all is stopped ``grace`` before the lease ends, also while
        the loop waits on a request that hangs; once it is over nothing counts as
        running (field report 42).
        """
        member = self.work("w1", "w2")
        self.runners["a"].stops["w2"] = Deferred()
        stopped_at: list[float] = []
        lease = member.session.lease
        assert lease is not None
        self.runners["a"].stops["w1"] = lambda: stopped_at.append(lease.remaining)
        self.hang("a", self.of_verb("cas", self.keys.owners))
        self.assign("a", "w3")
        self.advance(0.7)

        self.cluster.network(member).partition()
        while lease.active:
            self.advance(0.01)

        (left,) = stopped_at
        self.assertTrue(0.4 < left <= SETTINGS.grace, left)
        self.assertEqual(self.workload("a"), set())
        self.assertEqual(self.runners["a"].asked("stop"), ["w1", "w2"])

    def test_same_session(self) -> None:
        """
        After a short outage the same member confirms what it owns and goes on;
        nothing moves.
        """
        settings = Settings(failure_detection=0.0)
        member = self.work("w1", "w2", settings=settings)
        session = member.session_id
        network = self.cluster.network(member)
        network.partition()
        self.advance(16)
        out = self.workload("a")
        network.heal(deliver=False)
        self.advance(20)

        self.assertEqual(out, set())
        self.assertEqual(member.session_id, session)
        self.assertEqual(self.workload("a"), {"w1", "w2"})
        self.assertEqual(self.cluster.owners(), {"w1": "a", "w2": "a"})
        self.assertEqual(
            sorted(self.runners["a"].calls),
            [("start", "w1"), ("start", "w2"), ("stop", "w1"), ("stop", "w2")],
        )

    def test_new_session(self) -> None:
        """
        A session that is lost and made again within the process: items are
        confirmed under the new one, and never stop.
        """
        member = self.work("w1", "w2")
        before = member.session_id
        assert before is not None

        lost = member.session.lease
        assert lost is not None
        self.cluster.consul.destroy_session(before)
        self.cluster.until(lambda: not lost.active, 1.0)
        meanwhile = self.workload("a")
        self.advance(4)

        self.assertEqual(meanwhile, {"w1", "w2"})
        self.assertNotEqual(member.session_id, before)
        self.assertEqual(self.workload("a"), {"w1", "w2"})
        self.assertEqual(self.owner("w1").session, member.session_id)
        self.assertEqual(self.runners["a"].calls, [])
        self.assertEqual(len(self.logged("work-goes-on")), 1)
        self.assertEqual(self.logged("work-confirmed")[0]["items"], 2)

    def test_no_new_session(self) -> None:
        """
        What is not confirmed in time is stopped in time: ``grace`` before the
        deadline of the lease it runs under, whatever Consul said meanwhile (G3).
        """
        member = self.work("w1")
        lease = member.session.lease
        assert lease is not None
        self.cluster.consul.destroy_session(member.session_id or "")
        self.cluster.until(lambda: not lease.active, 1.0)
        self.cluster.network(member).partition()
        now = member.steady.seconds
        self.advance(lease.deadline - SETTINGS.grace - now() - 0.03)
        before = self.workload("a")
        self.advance(0.06)

        self.assertEqual((before, self.workload("a")), ({"w1"}, set()))
        self.assertEqual(self.runners["a"].calls, [("stop", "w1")])

    def test_reads_anew(self) -> None:
        """
        Under a new session the assignments are read from index 0.
        """
        member = self.work("w1")
        self.requests["a"].clear()

        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(4)

        path = f"/v1/kv/{self.keys.assignments_of('a')}"
        params = [dict(r.params) for r in self.requests["a"] if r.path == path]
        self.assertNotIn("index", params[0])

    def test_lease_lost_while_reading(self) -> None:
        """
        What was claimed under a lease that is over by the time the answer comes
        is not started under it.
        """
        member = self.worker()
        network = self.cluster.network(member)

        wanted = self.of_verb("cas", self.keys.owners)
        network.reply_latency = lambda r: 1.0 if wanted(r) else 0.0
        self.assign("a", "w1")
        self.advance(0.5)
        owned = self.cluster.owners()
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(8)

        self.assertEqual(owned, {"w1": "a"})
        self.assertEqual(self.runners["a"].calls, [("start", "w1")])
        self.assertEqual(self.workload("a"), {"w1"})

    def test_renewed_while_paused(self) -> None:
        """
        A lease that ran out while the process stood still and is replaced
        before any timer runs: what ran under the old one is stopped and
        started again.
        """
        member = self.work("w1", settings=Settings(failure_detection=0.0))
        network = self.cluster.network(member)
        network.reply_latency = lambda r: 13.5 if "renew" in r.path else 0.0
        for _ in range(4000):
            self.advance(0.01)
            if self.runners["a"].asked("stop"):
                break
        network.reply_latency = lambda r: 0.0
        self.advance(10)

        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(self.floor.clashes, [])
        self.assertEqual(self.runners["a"].calls[:2], [("stop", "w1"), ("start", "w1")])

    def test_old_lease_is_noticed(self) -> None:
        """
        Told of a new lease without having been told of the old one's end, the
        worker confirms what ran under the old one.
        """
        member = self.work("w1")
        session = member.session
        old = session.lease
        assert old is not None
        self.requests["a"].clear()

        now = self.cluster.clock.seconds
        again = Lease(
            now, old.session_id, session_ttl=session.session_ttl, renewed=now()
        )
        session.leasing.begin(again)
        self.advance(2)

        self.assertIsNot(session.lease, old)
        self.assertEqual((self.runners["a"].calls, len(self.claims())), ([], 1))
        self.assertEqual(self.workload("a"), {"w1"})

    def test_slow_stop_over_the_end(self) -> None:
        """
        An item whose stop outlasts the lease is not started again before that
        stop has finished.
        """
        member = self.work("w1")
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        self.cluster.network(member).partition()
        self.advance(5)
        self.cluster.network(member).heal(deliver=False)
        self.advance(10)
        during = list(self.runners["a"].calls)
        stopping.callback(None)
        self.advance(1)

        self.assertEqual(during, [("stop", "w1")])
        self.assertEqual(self.runners["a"].calls, [("stop", "w1"), ("start", "w1")])

    def test_moved_during_the_outage(self) -> None:
        """
        What is assigned no more when the outage ends is released and not
        started.
        """
        member = self.work("w1", "w2")
        self.cluster.consul.destroy_session(member.session_id or "")
        self.unassign("a", "w1")
        self.advance(5)

        self.assertEqual(self.workload("a"), {"w2"})
        self.assertEqual(self.cluster.owners(), {"w2": "a"})
        self.assertNotIn(("start", "w1"), self.runners["a"].calls)

    def test_moved_before_it_was_confirmed(self) -> None:
        """
        What is found to be assigned no more only when it is to be confirmed is
        released too: until then it stays ours in name.
        """
        member = self.work("w1", "w2")
        path = f"/v1/kv/{self.keys.assignments_of('a')}"
        network = self.cluster.network(member)
        network.reply_latency = lambda r: 4.0 if r.path == path else 0.0
        self.unassign("a", "w1")
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(12)

        self.assertEqual(self.workload("a"), {"w2"})
        self.assertEqual(self.cluster.owners(), {"w2": "a"})

    def test_agent_restart(self) -> None:
        """
        After a restart of the Consul servers everything is as before.
        """
        self.work("w1", "w2")

        self.cluster.consul.restart()
        self.advance(10)

        self.assertEqual(self.workload("a"), {"w1", "w2"})
        self.assertEqual(self.cluster.owners(), {"w1": "a", "w2": "a"})

    def test_record_taken_away(self) -> None:
        """
        A record that somebody deleted or wrote over is noticed at the next
        look, and the item stops.
        """
        member = self.work("w1", "w2")
        other = OwnerRecord("b", member.session_id or "").encode()
        self.put(self.keys.owner("w1"), other)
        network = self.cluster.network(member)
        network.refuses = True
        self.assign("a", "w3")
        self.advance(0.8)
        network.refuses = False
        self.advance(2)

        self.assertEqual(self.workload("a"), {"w2", "w3"})
        self.assertEqual(self.cluster.owners()["w1"], "b")


class FormerLifeTests(WorkerCase):
    """
    Owner records in our name that nothing here runs under.
    """

    def former(self, work: str, session: str, **kw: Any) -> None:
        """
        Leave an owner record of an earlier life.
        """
        record = OwnerRecord("a", session, **kw)
        self.put(self.keys.owner(work), record.encode())

    def test_waits_for_its_lease(self) -> None:
        """
        A restarted member starts its items once its earlier life's lease must
        be over, and releases then what it is not to run any more.
        """
        gone = "00000000-0000-4000-8000-000000000000"
        self.former("w1", gone, ttl=10.0)
        self.former("w2", gone, ttl=10.0)
        self.assign("a", "w1")
        self.worker()
        self.advance(7)
        early = (self.workload("a"), sorted(self.cluster.owners()))
        self.advance(3)

        self.assertEqual(early, (set(), ["w1", "w2"]))
        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(self.cluster.owners(), {"w1": "a"})

    def test_waits_for_its_session(self) -> None:
        """
        While the session of a double lives, what it owns is not touched.
        """
        session = self.cluster.result(
            self.cluster.api.create_session(SessionSpec("other", 3600.0, 0.0))
        )
        self.former("w1", session)
        self.assign("a", "w1")
        self.worker()
        self.advance(40)

        self.assertEqual(self.workload("a"), set())
        self.assertEqual(self.owner("w1").session, session)

    def test_impossible_session(self) -> None:
        """
        A record in our name with what can be no session does not hold up the
        others, and is ours after one TTL (G9).
        """
        self.former("w1", "no/../session")
        self.assign("a", "w1", "w2")
        self.worker()
        self.advance(2)
        early = self.workload("a")
        self.advance(16)

        self.assertEqual(early, {"w2"})
        self.assertEqual(self.workload("a"), {"w1", "w2"})

    def test_late_claim(self) -> None:
        """
        A claim that was given up and lands late is found out: the item is held
        by ourselves, and runs.
        """
        member = self.worker(settings=Settings(command_timeout=1.0))
        network = self.cluster.network(member)
        wanted = self.of_verb("cas", self.keys.owners)
        slow: list[Request] = []

        def latency(request: Request) -> float:
            if wanted(request) and not slow:
                slow.append(request)
                return 1.02
            return 0.0

        network.latency = latency
        network.lands_late = lambda request: True
        self.assign("a", "w1")
        self.advance(6)

        self.assertEqual(len(slow), 1)
        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(self.runners["a"].calls, [("start", "w1")])

    def test_found_among_the_held(self) -> None:
        """
        An item held by a record of our own session that we do not know of is
        confirmed.
        """
        member = self.worker()
        self.former("w1", member.session_id or "")
        self.assign("a", "w1")
        self.advance(4)

        self.assertEqual(self.workload("a"), {"w1"})

    def test_record_changed_before_it_was_confirmed(self) -> None:
        """
        A record of ours that somebody has written over by the time it is to be
        confirmed is looked at again at once: the item stops, and starts again
        when it is ours for certain.
        """
        member = self.worker()
        wanted = self.of_verb("cas", self.keys.owners)
        self.assign("a", "w1")
        self.advance(1)
        network = self.cluster.network(member)
        network.latency = lambda r: 0.5 if wanted(r) else 0.0
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(0.5)
        while not member.is_member:
            self.advance(0.05)
        record = OwnerRecord("a", self.owner("w1").session, extra={"x": 1})
        self.put(self.keys.owner("w1"), record.encode())
        self.advance(1.6)

        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(self.runners["a"].asked("stop"), ["w1"])

    def test_lost_reply_of_a_claim(self) -> None:
        """
        After a lost reply what was taken is found and started, once.
        """
        member = self.worker(settings=Settings(command_timeout=1.0))
        wanted = self.of_verb("cas", self.keys.owners)
        lost: list[Request] = []

        def loses(request: Request) -> bool:
            if wanted(request) and len(lost) < 2:
                lost.append(request)
                return len(lost) == 2
            return False

        self.cluster.network(member).loses_reply = loses
        work = [f"w{n:02}" for n in range(70)]
        self.assign("a", *work)
        self.advance(6)

        self.assertEqual(len(lost), 2)
        self.assertEqual(self.workload("a"), set(work))
        self.assertEqual(sorted(self.runners["a"].asked("start")), work)

    def test_read_fails_after_claim(self) -> None:
        """
        What was taken but could not be read is taken again, and runs.
        """
        member = self.worker()
        network = self.cluster.network(member)
        failed: list[Request] = []

        def refuses(request: Request) -> bool:
            if any(op.verb == "get" for op in operations(request)) and not failed:
                failed.append(request)
                return True
            return False

        network.loses_request = refuses
        self.assign("a", "w1")
        self.advance(12)

        self.assertEqual(len(failed), 1)
        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(self.runners["a"].calls, [("start", "w1")])


class LedTests(ClusterCase):
    """
    Workers under a leader: what moves, and what does not.
    """

    def settle(self, *names: str, work: int) -> list[str]:
        """
        Add members and work, and let them divide it.
        """
        for name in names:
            self.member(name)
        items = [f"w{n:02}" for n in range(work)]
        self.cluster.put_work(*items)
        self.advance(12)
        self.assert_settled(*items)
        return items

    def follower(self) -> Coordinator:
        """
        Give a member that does not lead.
        """
        return next(m for m in self.cluster.members.values() if not m.is_leader)

    def test_lost_session(self) -> None:
        """
        A member whose session is destroyed makes another one, confirms its
        items and goes on; nothing moves.
        """
        items = self.settle("a", "b", "c", work=9)
        before = self.cluster.assignments()
        member = self.follower()

        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(20)

        self.assertEqual(self.cluster.assignments(), before)
        self.assert_settled(*items)

    def test_servers_restart(self) -> None:
        """
        After a restart of the Consul servers, and after an outage of theirs,
        everything is as before; nothing moves.
        """
        items = self.settle("a", "b", "c", work=9)
        before = self.cluster.assignments()

        self.cluster.consul.restart()
        self.advance(10)
        self.cluster.consul.lose_leader(1.5)
        self.advance(15)

        self.assertEqual(self.cluster.assignments(), before)
        self.assert_settled(*items)

    def test_long_outage(self) -> None:
        """
        After an outage longer than every lease all members find back to what
        they had.
        """
        items = self.settle("a", "b", "c", work=9)
        before = self.cluster.assignments()

        self.cluster.consul.lose_leader(60)
        self.advance(30)
        during = [self.workload(name) for name in "abc"]
        self.advance(60)

        self.assertEqual(during, [set(), set(), set()])
        self.assertEqual(self.cluster.assignments(), before)
        self.assert_settled(*items)

    def test_shutdown(self) -> None:
        """
        What a member that shuts down had runs elsewhere shortly after, with
        what it handed over.
        """
        items = self.settle("a", "b", "c", work=9)
        member = self.follower()
        name = member.instance_id
        for work in self.workload(name):
            self.runners[name].reports[work] = work.encode()
        moved = self.workload(name)

        self.cluster.result(member.shutdown())
        del self.cluster.members[name]
        self.advance(2)

        self.assert_settled(*items)
        others = [r for n, r in self.runners.items() if n != name]
        given = {r for one in others for r in one.started_with if r}
        self.assertEqual(given, {work.encode() for work in moved})
        self.assertEqual(self.cluster.entries(self.keys.reports), ())

    def test_paused(self) -> None:
        """
        A member that stands still past its lease stops its work first thing on
        waking; none of it runs twice, once it has woken.
        """
        items = self.settle("a", "b", "c", work=9)
        member = self.follower()
        for work in self.workload(member.instance_id):
            # What runs in a paused process is the fencing token's affair.
            self.floor.running.pop(work)

        self.cluster.pause(member)
        self.advance(10)
        self.cluster.resume(member)
        at_once = self.workload(member.instance_id)
        self.advance(15)

        self.assertEqual(at_once, set())
        self.assert_settled(*items)

    def test_many_changes(self) -> None:
        """
        Through joins, crashes, lost sessions and changing work no item is left
        behind or runs twice.
        """
        items = self.settle("a", "b", work=8)
        for turn in range(6):
            self.member(f"m{turn}")
            added = [f"x{turn}-{n}" for n in range(5)]
            self.cluster.put_work(*added)
            items += added
            self.cluster.remove_work(items.pop(0))
            self.advance(5)
            member = self.follower()
            if turn % 2:
                for work in self.workload(member.instance_id):
                    self.floor.running.pop(work, None)
                self.cluster.crash(member)
            else:
                self.cluster.consul.destroy_session(member.session_id or "")
            self.advance(1 + turn)
        self.advance(30)

        self.assert_settled(*items)
        sizes = [len(self.workload(name)) for name in self.cluster.members]
        self.assertLessEqual(max(sizes) - min(sizes), 1)


class LedByTtlTests(ClusterCase):
    """
    The same without a liveness check.
    """

    settings = Settings(failure_detection=0.0)

    def test_restarted(self) -> None:
        """
        A member that is killed and started again under its id confirms its
        items once its earlier lease must be over; nothing moves.
        """
        for name in ("a", "b"):
            self.member(name)
        self.cluster.put_work("w1", "w2", "w3", "w4")
        self.advance(12)
        before = self.cluster.assignments()
        victim = next(m for m in self.cluster.members.values() if not m.is_leader)
        name = victim.instance_id
        for work in self.workload(name):
            self.floor.running.pop(work)

        self.cluster.crash(victim)
        self.member(name)
        self.advance(60)

        self.assertEqual(self.cluster.assignments(), before)
        self.assert_settled("w1", "w2", "w3", "w4")


class LoopTests(WorkerCase):
    """
    Whatever happens, the loop goes on.
    """

    def test_outage(self) -> None:
        """
        Requests that fail are tried again ever less often, and said so.
        """
        self.worker()
        refused = self.hang("a", self.of_verb("cas", self.keys.owners))
        self.assign("a", "w1")
        self.advance(30)

        self.assertLessEqual(len(refused), 4)
        self.assertTrue(self.logged("work-not-updated"))

    def test_not_a_member(self) -> None:
        """
        A claim refused for want of our member key makes the session suspect,
        and is made again.
        """
        self.worker()
        self.delete(self.keys.member("a"))
        self.assign("a", "w1")
        self.advance(5)

        self.assertEqual(self.workload("a"), {"w1"})

    def test_nothing_is_claimed_without_the_member_key(self) -> None:
        """
        While somebody else holds our member key nothing is claimed: Consul would
        refuse each of those writes.
        """
        self.worker()
        session = self.cluster.result(
            self.cluster.api.create_session(SessionSpec("x", 3600.0, 0.0))
        )
        self.delete(self.keys.member("a"))
        self.cluster.result(
            self.cluster.api.put(self.keys.member("a"), b"", acquire=session)
        )
        self.advance(1)
        self.assign("a", "w1")
        self.advance(5)

        self.assertEqual((self.workload("a"), self.claims()), (set(), []))

    def test_any_failure(self) -> None:
        """
        An error nobody thought of does not end the loop (G9).
        """
        member = self.worker()
        worker = member.worker
        assert isinstance(worker, Worker)
        ownership = worker._parts.ownership
        real = ownership.claim
        failures = [ZeroDivisionError("bad")] * 2

        def claim(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return real(*args)

        self.patch(ownership, "claim", claim)
        self.assign("a", "w1")
        self.advance(3)

        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(len(self.logged("work-not-updated")), 2)


class HaltTests(WorkerCase):
    """
    The end of a worker.
    """

    def halt(self, name: str = "a") -> Deferred[None]:
        """
        Halt a member's worker.
        """
        worker = self.cluster.members[name].worker
        assert isinstance(worker, Worker)
        return worker.halt()

    def work(self, *work: str, **kw: Any) -> Coordinator:
        """
        Give a member that runs some items.
        """
        member = self.worker(**kw)
        self.assign("a", *work)
        self.advance(1)
        return member

    def test_stops_then_releases(self) -> None:
        """
        Everything is stopped, then released, with its report.
        """
        self.work("w1", "w2")
        self.runners["a"].reports["w1"] = b"position 7"

        self.cluster.result(self.halt())

        self.assertEqual(sorted(self.runners["a"].asked("stop")), ["w1", "w2"])
        self.assertEqual(self.cluster.owners(), {})
        self.assertEqual(self.value(self.keys.report("w1")), b"position 7")
        self.assertEqual(self.workload("a"), set())

    def test_nothing_after(self) -> None:
        """
        Nothing that is assigned afterwards is taken (B5).
        """
        self.work("w1")
        self.cluster.result(self.halt())
        self.requests["a"].clear()

        self.assign("a", "w2")
        self.advance(40)

        self.assertEqual(self.claims(), [])
        self.assertEqual(self.runners["a"].asked("start"), ["w1"])

    def test_before_start(self) -> None:
        """
        A worker that never started is halted at once.
        """
        self.member("a")

        self.successResultOf(self.halt())
        self.assertEqual(self.workload("a"), set())

    def test_slow_stop(self) -> None:
        """
        What has stopped is released while another item is still stopping
        (field report 126).
        """
        self.work("w1", "w2")
        stopping: Deferred[None] = Deferred()
        self.runners["a"].stops["w1"] = stopping
        halting = self.halt()
        self.advance(1)
        during = self.cluster.owners()
        early = halting.called
        stopping.callback(None)
        self.cluster.result(halting)

        self.assertFalse(early)
        self.assertEqual(during, {"w1": "a"})
        self.assertEqual(self.cluster.owners(), {})

    def test_given_up(self) -> None:
        """
        Cancelled by a caller that waits no longer, it kills what has not
        stopped, as far as it can, and leaves it to the taking-over rule.
        """
        self.work("w1", "w2")
        self.runners["a"].stops["w1"] = Deferred()
        halting = self.halt()
        self.advance(1)

        halting.cancel()
        self.advance(0.1)

        self.assertTrue(halting.called)
        halting.addErrback(lambda failure: None)
        self.assertEqual(self.cluster.owners(), {"w1": "a"})
        self.assertEqual(len(self.logged("task-failed")), 0)

    def test_cancelled_claim(self) -> None:
        """
        What a claim took whose reply had not come yet is released.
        """
        member = self.worker()
        network = self.cluster.network(member)
        wanted = self.of_verb("cas", self.keys.owners)
        network.reply_latency = lambda r: 5.0 if wanted(r) else 0.0
        self.assign("a", "w1")
        self.advance(1)
        taken = self.cluster.owners()

        self.cluster.result(self.halt())

        self.assertEqual((taken, self.cluster.owners()), ({"w1": "a"}, {}))
        self.assertEqual(self.runners["a"].asked("start"), [])

    def test_after_a_lost_lease(self) -> None:
        """
        Items that an outage had stopped, and that are ours in Consul still,
        are released too.
        """
        member = self.work("w1")
        self.cluster.consul.destroy_session(member.session_id or "")
        self.advance(0.1)
        kept = self.cluster.owners()

        self.cluster.result(self.halt())

        self.assertEqual((kept, self.cluster.owners()), ({"w1": "a"}, {}))

    def test_silent_consul(self) -> None:
        """
        Without an answer from Consul it ends nevertheless, and says what that
        means.
        """
        member = self.work("w1")
        self.cluster.network(member).refuses = True

        self.cluster.result(self.halt())

        self.assertEqual(self.runners["a"].asked("stop"), ["w1"])
        self.assertEqual(self.cluster.owners(), {"w1": "a"})
        self.assertTrue(self.logged("work-not-released"))

    def test_former_life_is_not_released(self) -> None:
        """
        Records of an earlier life are left to the taking-over rule.
        """
        gone = "00000000-0000-4000-8000-000000000000"
        self.put(self.keys.owner("w9"), OwnerRecord("a", gone, ttl=60.0).encode())
        self.work("w1")

        self.cluster.result(self.halt())

        self.assertEqual(self.cluster.owners(), {"w9": "a"})

    def test_shut_down_by_a_runner(self) -> None:
        """
        A runner may shut the member down while it starts an item: the start is
        cancelled, and everything is stopped and released.
        """
        member = self.worker()
        cancelled: list[object] = []
        ended: list[Deferred[None]] = []

        def starts() -> Deferred[None]:
            ended.append(member.shutdown())
            return Deferred(cancelled.append)

        self.runners["a"].starts["w2"] = starts
        self.assign("a", "w1", "w2")
        self.cluster.until(lambda: ended)
        self.cluster.result(ended[0])

        self.assertEqual(len(cancelled), 1)
        self.assertEqual(self.floor.running, {})
        self.assertEqual(self.cluster.owners(), {})
        self.assertEqual(self.cluster.left_behind(member), (0, 0))
