"""
Tests for what a leader looks out for that plans by resources.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.closer_look import CloserLook
from voltha_coord.consul.watch import WatchTally
from voltha_coord.keys import Keys
from voltha_coord.settings import Settings

from .support.keeping import Bench

KEYS = Keys("p")
SETTINGS = Settings()


class CloserLookTests(SynchronousTestCase):
    """
    A work item, and a report.
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
        self.look = CloserLook(
            bench.clock,
            bench.api,
            KEYS,
            SETTINGS,
            want_pass=self.wanted.append,
            moving=lambda: self.moving,
            random=bench.random,
            tally=lambda name: WatchTally(),
            retries=bench.clock,
            log=bench.log,
        )
        self.look.start()
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
