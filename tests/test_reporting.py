"""
Tests for :mod:`voltha_coord.reporting`.
"""

from __future__ import annotations

from typing import Any

import structlog

from tests.support.working import ClusterCase, operations
from voltha_coord._status import CHUNK_BYTES
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.requester import Requester
from voltha_coord.embedded.memory import MemoryTransport, Network
from voltha_coord.records import (
    StatusReport,
    WorkStatus,
    decode_status,
)
from voltha_coord.reporting import REPORT_INTERVAL, StatusWriter


class _Session:
    """
    Stands for a session keeper.
    """

    def __init__(self) -> None:
        self.lease: Any = None
        self.suspected = 0

    def suspect(self) -> None:
        """
        Count.
        """
        self.suspected += 1


class _Lease:
    """
    A lease that lasts until told otherwise.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.active = True


class StatusWriterTests(ClusterCase):
    """
    Writing a status report.
    """

    def setUp(self) -> None:
        """
        Begin with a session and nothing to report.
        """
        super().setUp()
        self.report = StatusReport()
        self.failing: Exception | None = None
        self.session = _Session()
        self.network = Network()
        self.seen: list[Any] = []
        self.writer = self.make_writer()
        self.begin_session()

    def make_writer(self, sampling: Any = None) -> StatusWriter:
        """
        Give a writer of a member ``a``.
        """
        clock = self.cluster.clock

        def note(request: Any) -> float:
            self.seen.append(request)
            return 0.0

        self.network.latency = note
        transport = MemoryTransport(
            self.cluster.consul.agent("node-of-a"), clock, self.network
        )
        session: Any = self.session
        return StatusWriter(
            clock,
            ConsulApi(Requester([transport], now=clock.seconds)),
            self.keys,
            session,
            instance_id="a",
            collect=self.collect,
            random=lambda: 1.0,
            sampling=sampling,
            log=structlog.get_logger(),
        )

    def collect(self) -> StatusReport:
        """
        Give what there is to report.
        """
        if self.failing is not None:
            raise self.failing
        return self.report

    def begin_session(self, lock_delay: float = 1.0) -> str:
        """
        Give the member a new session.
        """
        session: str = self.cluster.result(
            self.cluster.api.create_session(SessionSpec("a", 15.0, lock_delay))
        )
        self.session.lease = _Lease(session)
        return session

    def work(self, *work: str, **kw: Any) -> None:
        """
        Report that these run.
        """
        self.report = StatusReport({w: WorkStatus(**kw) for w in work})
        self.writer.wake()

    def start(self) -> None:
        """
        Begin to report.
        """
        self.writer.start()
        self.writer.wake()
        self.advance(1.0)

    def chunks(self) -> dict[int, bytes]:
        """
        Give the chunks as Consul has them.
        """
        prefix = self.keys.status_of("a")
        entries = self.cluster.entries(prefix)
        return {int(e.key[len(prefix) :]): e.value for e in entries}

    def read(self) -> StatusReport | None:
        """
        Give the report as Consul has it.
        """
        return decode_status(self.chunks())

    def test_written(self) -> None:
        """
        A report is written, held by the session.
        """
        self.work("w1", state="running")

        self.start()

        self.assertEqual(self.read(), self.report)
        (entry,) = self.cluster.entries(self.keys.status_of("a"))
        self.assertEqual(entry.session, self.session.lease.session_id)

    def test_unchanged(self) -> None:
        """
        An unchanged report is not written again, however often it is asked for.
        """
        self.work("w1")
        self.start()
        index, requests = self.cluster.consul.index, len(self.seen)

        for _ in range(50):
            self.writer.wake()
            self.advance(0.5)

        self.assertEqual((self.cluster.consul.index, len(self.seen)), (index, requests))

    def test_not_too_often(self) -> None:
        """
        A report that always changes is written at most once in an interval.
        """
        self.start()
        self.seen.clear()

        for n in range(100):
            self.work(f"w{n}")
            self.advance(0.01)

        self.assertLessEqual(len(self.seen), 1 + 1 / REPORT_INTERVAL)
        self.advance(1.0)
        self.assertEqual(self.read(), self.report)

    def test_in_one_transaction(self) -> None:
        """
        Chunks that fit into one transaction are written in one, those that are
        not needed any more removed in the same; so nobody reads half a report.
        """
        self.work(*(f"device_group_{n:04}" for n in range(5_000)), digest="d" * 16)
        self.start()
        self.assertGreater(len(self.chunks()), 1)
        self.seen.clear()

        self.work("w1")
        self.advance(1.0)

        self.assertEqual(len(self.seen), 1)
        self.assertEqual(list(self.chunks()), [0])

    def test_many_items(self) -> None:
        """
        A report on 10,000 items is divided into chunks, the first of which is
        written last (field report 120).
        """
        self.work(*(f"device_group_{n:05}" for n in range(10_000)), digest="d" * 16)

        self.start()

        self.assertEqual(self.read(), self.report)
        chunks = self.chunks()
        self.assertGreater(len(chunks), 1)
        self.assertLessEqual(max(map(len, chunks.values())), CHUNK_BYTES)
        written = [op.key for r in self.seen for op in operations(r)]
        self.assertEqual(written[-1], self.keys.status("a", 0))

    def test_shrinking(self) -> None:
        """
        Chunks a shorter report has no use for are removed.
        """
        self.work(*(f"device_group_{n:05}" for n in range(10_000)))
        self.start()

        self.work("w1")
        self.advance(1.0)

        self.assertEqual(list(self.chunks()), [0])
        self.assertEqual(self.read(), self.report)

    def test_new_session(self) -> None:
        """
        The report goes with its session, and is written again for a new one;
        that the keys are in lock-delay is no news.
        """
        self.work("w1")
        self.start()
        self.cluster.consul.destroy_session(self.session.lease.session_id)
        gone = self.read()

        self.begin_session()
        self.writer.wake()
        self.advance(0.5)
        early = self.read()
        self.advance(2.0)

        self.assertIsNone(gone)
        self.assertIsNone(early)
        self.assertEqual(self.read(), self.report)
        self.assertEqual(self.logs, [])

    def test_lost_session(self) -> None:
        """
        A session that Consul does not know is suspected, and that is said
        once.
        """
        self.cluster.consul.destroy_session(self.session.lease.session_id)
        self.work("w1")

        self.start()
        self.advance(5.0)

        self.assertGreater(self.session.suspected, 1)
        self.assertEqual(len(self.logged("status-not-written")), 1)

    def test_no_lease(self) -> None:
        """
        Without a lease nothing is written.
        """
        self.session.lease.active = False
        self.work("w1")
        self.start()
        over = self.read()
        self.session.lease = None
        self.work("w2")
        self.advance(1.0)

        self.assertIsNone(over)
        self.assertIsNone(self.read())

    def test_outage(self) -> None:
        """
        A report that could not be written is written when Consul answers
        again; while it does not, the pauses grow.
        """
        self.network.refuses = True
        self.work("w1")
        self.start()
        self.advance(15.0)
        tries = len(self.seen)
        self.network.refuses = False
        self.advance(6.0)

        self.assertLess(tries, 12)
        self.assertEqual(self.read(), self.report)

    def test_lost_reply(self) -> None:
        """
        After a lost reply the report is written whole again.
        """
        self.network.loses_reply = lambda request: len(self.seen) == 1
        self.work("w1")
        self.start()
        self.advance(20.0)

        self.assertEqual(self.read(), self.report)
        self.assertEqual(len(self.seen), 2)

    def test_back_again(self) -> None:
        """
        A report that is again as it was before one whose reply was lost is
        written.
        """
        self.work("w1")
        self.start()
        lost: list[int] = []
        self.network.loses_reply = lambda request: not lost and not lost.append(1)  # type: ignore[func-returns-value]
        self.work("w2")
        self.advance(1.0)
        self.work("w1")
        self.advance(15.0)

        self.assertEqual(self.read(), self.report)

    def test_any_failure(self) -> None:
        """
        Whatever goes wrong while the report is collected does not end it (G9).
        """
        self.failing = ZeroDivisionError("bad")
        self.work("w1")
        self.start()
        self.failing = None
        self.advance(6.0)

        self.assertEqual(self.read(), self.report)
        self.assertEqual(len(self.logged("status-not-written")), 1)

    def test_junk_in_the_way(self) -> None:
        """
        A key that somebody else wrote is taken over (G9).
        """
        self.put(self.keys.status("a", 0), b"\xff" * 400 * 1024)
        self.work("w1")

        self.start()

        self.assertEqual(self.read(), self.report)

    def test_stop(self) -> None:
        """
        After a stop nothing is written, also when one was under way.
        """
        self.network.latency = lambda request: 3.0
        self.work("w1")
        self.start()

        self.successResultOf(self.writer.stop())
        self.writer.wake()
        self.advance(10.0)

        self.assertIsNone(self.read())


class _Looks:
    """
    Looks that count, and find something new as often as told.
    """

    def __init__(self, news: int = 0) -> None:
        self.news = news
        self.count = 0
        self.pause = 5.0

    def take(self) -> bool:
        """
        Count.
        """
        self.count += 1
        self.news -= 1
        return self.news >= 0


class LookingTests(StatusWriterTests):
    """
    Looking what is used, beside writing; all that is so without is so with it.
    """

    def make_writer(self, sampling: Any = None) -> StatusWriter:
        """
        Give a writer that looks.
        """
        self.looks = _Looks()
        return super().make_writer(self.looks)

    def test_looks(self) -> None:
        """
        It is looked at once, and then every so often; the report is made anew
        only when that has found something.
        """
        made = []
        collect, self.collect = self.collect, lambda: made.append(1) or collect()  # type: ignore
        self.writer = self.make_writer()
        self.start()
        self.advance(20.0)
        self.assertEqual((self.looks.count, len(made)), (5, 1))
        self.looks.news = 2

        self.advance(20.0)

        self.assertEqual((self.looks.count, len(made)), (9, 3))

    def test_wakes_do_not_look(self) -> None:
        """
        However often the report changes, it is not looked at more often.
        """
        self.start()
        for n in range(8):
            self.work(f"w{n}")
            self.advance(1.0)

        self.assertEqual(self.looks.count, 2)

    def test_without_lease(self) -> None:
        """
        Without a lease it is looked all the same, and what was found is written
        once there is one.
        """
        self.start()
        self.session.lease.active = False
        self.report = StatusReport(node={"cpu": 5})
        self.looks.news = 1
        self.advance(7.0)
        over = self.read()
        self.session.lease.active = True
        self.writer.wake()
        self.advance(1.0)

        self.assertEqual(self.looks.count, 2)
        self.assertEqual(over, StatusReport())
        self.assertEqual(self.read(), self.report)

    def test_stop_looking(self) -> None:
        """
        After a stop it is not looked any more.
        """
        self.start()

        self.successResultOf(self.writer.stop())
        self.advance(20.0)

        self.assertEqual(self.looks.count, 1)
