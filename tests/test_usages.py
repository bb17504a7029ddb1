"""
Tests for :mod:`voltha_coord.usages`.
"""

from __future__ import annotations

import structlog
from twisted.internet.defer import Deferred

from tests.support.meters import GIB, SetMeter
from tests.support.running import RunningCase
from voltha_coord.hysteresis import MIB
from voltha_coord.load import Load
from voltha_coord.usages import SOON, Sampling, Usages


class UsagesTests(RunningCase):
    """
    What items use.
    """

    def setUp(self) -> None:
        """
        Begin with nothing running.
        """
        super().setUp()
        self.usages = Usages(self.runner, self.items.items, structlog.get_logger())

    def test_steady(self) -> None:
        """
        What an item uses is told anew only when it has really changed.
        """
        item = self.start("w1")
        told = []
        for cpu in (10.2, 11.0, 9.1, 30.0, 0.0, 0.0):
            self.runner.usages["w1"] = {"cpu": cpu, "memory": 10 * MIB}
            told.append((self.usages.sample(), self.usages.of(item)["cpu"]))

        self.assertEqual(
            told,
            [(True, 10), (False, 10), (False, 10), (True, 30), (True, 0), (False, 0)],
        )

    def test_limit(self) -> None:
        """
        That an item reaches a limit of its own is told.
        """
        item = self.start("w1", b'{"limits": {"cpu": 11}}')
        self.runner.usages["w1"] = {"cpu": 10}
        self.usages.sample()
        self.runner.usages["w1"] = {"cpu": 11}

        self.assertTrue(self.usages.sample())
        self.assertEqual(self.usages.of(item), {"cpu": 11})

    def test_another_life(self) -> None:
        """
        What an item used before it was started anew is not told of its new life.
        """
        self.runner.usages["w1"] = {"cpu": 10}
        item = self.start("w1")
        self.usages.sample()
        self.stop(item)
        self.pass_time(1.0)

        item = self.start("w1")
        self.assertEqual(self.usages.of(item), {})
        self.assertTrue(self.usages.sample())
        self.assertEqual(self.usages.of(item), {"cpu": 10})

    def test_not_running(self) -> None:
        """
        The runner is asked only about what runs.
        """
        self.runner.usages["w1"] = {"cpu": 10}
        self.runner.starts["w1"] = Deferred()
        item = self.start("w1")

        self.assertFalse(self.usages.sample())
        self.assertEqual(self.usages.of(item), {})

    def test_total(self) -> None:
        """
        All together is what they use now, not what was told of it.
        """
        self.runner.usages.update(
            w1={"cpu": 10, "memory": 5}, w2={"cpu": 10.5}, w3={"cpu": "x"}, w4={}
        )
        for work in ("w1", "w2", "w3", "w4"):
            self.start(work)
        self.usages.sample()
        self.runner.usages["w1"] = {"cpu": 11, "memory": 6}
        self.usages.sample()

        self.assertEqual(self.usages.total, {"cpu": 21.5, "memory": 6})

    def test_bad_usage(self) -> None:
        """
        A usage that fails, or that JSON has no words for, does not keep the
        others from being told.
        """
        self.runner.usages.update(
            w1=ValueError("bad"), w2={"cpu": object()}, w3=5, w5={"cpu": 7}
        )
        for work in ("w1", "w2", "w3", "w5"):
            self.start(work)

        self.usages.sample()

        told = {work: self.usages.of(item) for work, item in self.items.items.items()}
        self.assertEqual(told, {"w1": {}, "w2": {}, "w3": {}, "w5": {"cpu": 7}})

    def test_bad_usage_of_another_time(self) -> None:
        """
        That the usage of an item is not known is logged once for as long as it is
        here, and once more when it comes back.
        """
        self.runner.usages["w1"] = ValueError("bad")
        told = []
        for _ in range(2):
            item = self.start("w1")
            for _ in range(2):
                self.usages.sample()
            told.append(len(self.events("usage-unknown")))
            self.stop(item)
            self.usages.sample()

        self.assertEqual(told, [1, 2])


class SamplingTests(RunningCase):
    """
    Looking at items and machine together.
    """

    def setUp(self) -> None:
        """
        Begin with a meter and one item.
        """
        super().setUp()
        log = structlog.get_logger()
        self.meter = SetMeter()
        self.load = Load(self.meter, 0.0, self.clock.seconds, log)
        usages = Usages(self.runner, self.items.items, log)
        self.sampling = Sampling(self.load, usages, 5.0)
        self.runner.usages["w1"] = {"cpu": 10, "memory": 5}
        self.start("w1")

    def test_news(self) -> None:
        """
        It is news when either has changed.
        """
        news = [self.sampling.take(), self.sampling.take()]
        self.runner.usages["w1"] = {"cpu": 20, "memory": 5}
        news.append(self.sampling.take())
        self.meter.uses = {"cpu": 50, "memory": GIB}
        news.append(self.sampling.take())

        self.assertEqual(news, [True, False, True, True])

    def test_a_meter_of_items(self) -> None:
        """
        A meter that counts what the items use is told that.
        """
        self.sampling.take()

        self.assertEqual(self.meter.used(), {"cpu": 10, "memory": 5})

    def test_pause(self) -> None:
        """
        As long as the machine has not told all, the next look is soon.
        """
        self.meter.uses = {"memory": GIB}
        self.sampling.take()
        early = self.sampling.pause
        self.meter.uses = {"cpu": 5, "memory": GIB}
        self.sampling.take()

        self.assertEqual((early, self.sampling.pause), (SOON, 5.0))

    def test_without_meter(self) -> None:
        """
        Without a meter there are only the items.
        """
        log = structlog.get_logger()
        load = Load(None, 0.0, self.clock.seconds, log)
        usages = Usages(self.runner, self.items.items, log)
        sampling = Sampling(load, usages, 5.0)

        self.assertEqual((sampling.take(), sampling.take()), (True, False))
        self.assertEqual(sampling.pause, 5.0)
        self.assertEqual((load.told, load.capacity), ({}, {}))
