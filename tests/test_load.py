"""
Tests for :mod:`voltha_coord.load`.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.testing import capture_logs
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.meters import GIB, SetMeter
from voltha_coord.load import Load


class LoadTests(SynchronousTestCase):
    """
    What a member has and uses.
    """

    def setUp(self) -> None:
        """
        Begin with a meter.
        """
        self.logs = self.enterContext(capture_logs())
        self.clock = Clock()
        self.meter = SetMeter()

    def load(self, limit_wait: float = 0.0) -> Load:
        """
        Make it.
        """
        log = structlog.get_logger()
        return Load(self.meter, limit_wait, self.clock.seconds, log)

    def use(self, load: Load, **uses: Any) -> Any:
        """
        Use so much, and look; give whether it is throttling.
        """
        self.meter.uses = {"cpu": 10.0, "memory": GIB, **uses}
        load.sample()
        return load.told["throttling"]

    def test_capacity(self) -> None:
        """
        What there is is asked once.
        """
        load = self.load()

        for _ in range(3):
            self.assertEqual(load.capacity, self.meter.has)
        self.assertEqual(self.meter.asked, 1)

    def test_unknown_capacity(self) -> None:
        """
        What fails is logged once, and asked again until it is known.
        """
        load = self.load()
        sound = self.meter.has
        for bad in (OSError("no /proc"), 5, {"cpu_limit": object()}):
            self.meter.has = bad
            self.assertEqual(load.capacity, {})
        self.meter.has = sound

        self.assertEqual(load.capacity, sound)
        (said,) = self.logs
        self.assertEqual(said["event"], "resources-unknown")
        self.assertEqual(said["error"], "OSError: no /proc")

    def test_told(self) -> None:
        """
        What is told has hysteresis, what was measured is there as it was.
        """
        load = self.load()
        news = []
        for cpu in (10.4, 11.0, 30.0):
            self.meter.uses = {"cpu": cpu, "memory": GIB}
            news.append((load.sample(), load.latest["cpu"], load.told["cpu"]))

        self.assertEqual(news, [(True, 10.4, 10), (False, 11.0, 10), (True, 30.0, 30)])
        self.assertEqual(load.told, {"cpu": 30, "memory": GIB, "throttling": False})

    def test_failing(self) -> None:
        """
        A meter that fails is told as an error, logged once until it is well
        again.
        """
        load = self.load()
        told = []
        for uses in (OSError("a"), ValueError("b"), 5, {"error": "c"}, {"cpu": 5}, 6):
            self.meter.uses = uses
            load.sample()
            told.append((load.told.get("error"), len(self.logs)))

        self.assertEqual(told[0], ("OSError: a", 1))
        self.assertEqual([count for _, count in told], [1, 1, 1, 1, 1, 2])
        self.assertEqual([error for error, _ in told[3:5]], ["c", None])

    def test_incomplete(self) -> None:
        """
        It says whether it has told all that a leader wants.
        """
        load = self.load()
        before = load.complete
        self.meter.uses = {"memory": GIB}
        load.sample()
        halfway = load.complete
        self.use(load)

        self.assertEqual((before, halfway, load.complete), (False, False, True))

    def test_throttling(self) -> None:
        """
        It is throttling from when it is at a limit until it is below again.
        """
        load = self.load()

        self.assertFalse(self.use(load, cpu=359.9))
        self.assertTrue(self.use(load, cpu=360.0))
        self.assertFalse(self.use(load, cpu=359.9))
        self.assertTrue(self.use(load, memory=7 * GIB))
        self.assertFalse(self.use(load, memory=7 * GIB - 1))

    def test_limit_wait(self) -> None:
        """
        It has to be at the limit all the time, for as long as is set.
        """
        load = self.load(limit_wait=7.0)
        seen = []
        for cpu in (400, 400, 5, 400, 400, 400, 5):
            seen.append(self.use(load, cpu=cpu))
            self.clock.advance(5.0)

        self.assertEqual(seen, [False, False, False, False, False, True, False])

    def test_gpus(self) -> None:
        """
        A GPU at its limit counts as well.
        """
        self.meter.has["gpus"] = [
            {"memory_limit": 100, "usage_limit": 50},
            {"memory_limit": 100, "usage_limit": 50},
        ]
        load = self.load()
        idle = {"memory": 1, "usage": 2, "encoder": 3, "decoder": 4}

        self.assertFalse(self.use(load, gpus=[idle, idle]))
        self.assertEqual(load.told["gpus"][1]["decoder"], 4)
        for name, value in (("memory", 100), ("usage", 50), ("encoder", 50)):
            self.assertTrue(self.use(load, gpus=[idle, {**idle, name: value}]))

    def test_own_throttling(self) -> None:
        """
        What a meter says about throttling counts, whatever else it says.
        """
        load = self.load()

        self.assertTrue(self.use(load, throttling=True))
        self.assertFalse(self.use(load, throttling=False, cpu=400))

    def test_odd_meters(self) -> None:
        """
        Whatever is in what a meter says, the member goes on.
        """
        load = self.load()
        odd: list[Any] = [None, "x", [], {}, [None, {}], float("nan"), 10**400, -1]
        for value in odd:
            self.meter.has = {"cpu_limit": value, "memory_limit": value, "gpus": value}
            load = self.load()
            for other in odd:
                self.use(load, cpu=other, memory=other, gpus=other)
                self.assertEqual(load.told["cpu"] == load.told["cpu"], other == other)
