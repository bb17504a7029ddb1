"""
Tests for the watches of a leader, which say when to look.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.consul.watch import WatchTally
from voltha_coord.keys import Keys
from voltha_coord.lookout import Lookout
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import Member
from voltha_coord.settings import Settings
from voltha_coord.snapshot import Look, take_look

from .support.keeping import Bench

KEYS = Keys("p")
SETTINGS = Settings()


class LookoutTests(SynchronousTestCase):
    """
    A cluster of one member and one work item, and what changes there.
    """

    def setUp(self) -> None:
        """
        Look out.
        """
        self.bench = bench = Bench()
        self.wanted: list[float] = []
        self.transfers: list[Entry | None] = []
        self.join("m1")
        self.put(f"{KEYS.work}w1")
        self.lookout = Lookout(
            bench.clock,
            bench.api,
            KEYS,
            SETTINGS,
            want_pass=self.wanted.append,
            transfer=self.transfers.append,
            random=bench.random,
            tally=lambda name: WatchTally(),
            retries=bench.clock,
            log=bench.log,
        )
        look: Look = bench.result(take_look(bench.api, KEYS, 0.0, consistent=True))
        self.lookout.start(ClusterState.from_snapshot(look.snapshot))
        bench.advance(2)
        # The watch of the members cannot know that it tells nothing new.
        self.wanted.clear()
        self.transfers.clear()

    def put(self, key: str, value: bytes = b"") -> None:
        """
        Write a key.
        """
        self.bench.result(self.bench.api.put(key, value))

    def join(self, name: str, leaving: bool = False) -> None:
        """
        Let a member come, with a session of its own.
        """
        session = self.bench.result(
            self.bench.api.create_session(SessionSpec(name, 3600.0, 0.0))
        )
        record = Member(name, version="1", leaving=leaving).encode()
        self.bench.result(
            self.bench.api.txn((Op.lock(KEYS.member(name), record, session),))
        )

    def test_members(self) -> None:
        """
        One that comes is given time to settle; one that is gone, and one that is
        about to leave, are not waited for as long.
        """
        self.join("m2")
        self.bench.advance(1)
        self.assertEqual(self.wanted, [SETTINGS.soak])

        self.bench.result(self.bench.api.delete(KEYS.member("m2")))
        self.bench.advance(1)
        self.assertEqual(self.wanted[1:], [SETTINGS.departed_soak])

    def test_leaving(self) -> None:
        """
        Who leaves is as good as gone.
        """
        self.put(KEYS.member("m1"), Member("m1", version="1", leaving=True).encode())
        self.bench.advance(1)

        self.assertEqual(self.wanted, [SETTINGS.departed_soak])

    def test_work(self) -> None:
        """
        Work that comes wants a pass; names that cannot be work do not, nor does
        another value.
        """
        self.put(f"{KEYS.work}.odd")
        self.put(f"{KEYS.work}w1", b"other")
        self.bench.advance(1)
        self.assertEqual(self.wanted, [])

        self.put(f"{KEYS.work}w2")
        self.bench.advance(1)
        self.assertEqual(self.wanted, [SETTINGS.soak])

    def test_intent(self) -> None:
        """
        What operators want is done soon.
        """
        self.put(KEYS.freeze)
        self.bench.advance(1)

        self.assertEqual(self.wanted, [SETTINGS.departed_soak])
        self.assertEqual(self.transfers, [None])

    def test_transfer(self) -> None:
        """
        That somebody else should lead wants no pass.
        """
        self.put(KEYS.transfer, b"{}")
        self.bench.advance(1)

        self.assertEqual(self.wanted, [])
        (request,) = self.transfers
        assert request is not None
        self.assertEqual(request.key, KEYS.transfer)

    def test_stopped(self) -> None:
        """
        Who has stopped asks for nothing more.
        """
        self.bench.result(self.lookout.stop())
        sent = len(self.bench.sent)

        self.bench.advance(60)

        self.assertEqual(len(self.bench.sent), sent)


class ResourceLookoutTests(SynchronousTestCase):
    """
    A work item, a report, and a leader that plans by resources.
    """

    def setUp(self) -> None:
        """
        Look out.
        """
        self.bench = bench = Bench()
        self.wanted: list[float] = []
        self.moving = False
        self.put(KEYS.work_item("w1"), b"{}")
        self.put(KEYS.status("m1", 0), b"{}")
        self.look = Lookout(
            bench.clock,
            bench.api,
            KEYS,
            SETTINGS,
            want_pass=self.wanted.append,
            transfer=lambda request: None,
            moving=lambda: self.moving,
            random=bench.random,
            tally=lambda name: WatchTally(),
            retries=bench.clock,
            log=bench.log,
        )
        self.look.start(ClusterState())
        bench.advance(2)
        # That a first look finds something new cannot be helped.
        self.wanted.clear()

    def put(self, key: str, value: bytes) -> None:
        """
        Write a key.
        """
        self.bench.result(self.bench.api.put(key, value))

    def test_another_value(self) -> None:
        """
        A work item that has become another one wants a pass, after the time of
        quiet that work is given.
        """
        self.put(KEYS.work_item("w1"), b'{"order":"stop"}')
        self.bench.advance(1)

        self.assertEqual(self.wanted, [SETTINGS.soak])

    def test_report(self) -> None:
        """
        A report wants a pass at once while something is made ready, and none
        else: members report every few seconds.
        """
        self.put(KEYS.status("m1", 0), b'{"report":1}')
        self.bench.advance(1)
        self.assertEqual(self.wanted, [])

        self.moving = True
        self.put(KEYS.status("m1", 0), b'{"report":2}')
        self.bench.advance(1)
        self.assertEqual(self.wanted, [0.0])

    def test_stopped(self) -> None:
        """
        Who has stopped asks for nothing more.
        """
        self.bench.result(self.look.stop())
        sent = len(self.bench.sent)

        self.bench.advance(60)

        self.assertEqual(len(self.bench.sent), sent)
