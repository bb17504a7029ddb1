"""
Tests for :mod:`voltha_coord.collecting`.
"""

from __future__ import annotations

import structlog
from twisted.internet.defer import Deferred

from tests.support.meters import SetMeter
from tests.support.running import RunningCase
from voltha_coord.collecting import Collector
from voltha_coord.item import FAILED, RUNNING, STARTING
from voltha_coord.load import Load
from voltha_coord.records import StatusReport, encode_status
from voltha_coord.usages import Sampling, Usages


class CollectorTests(RunningCase):
    """
    Making a status report.
    """

    def setUp(self) -> None:
        """
        Begin with nothing running, and a meter.
        """
        super().setUp()
        log = structlog.get_logger()
        self.usages = Usages(self.runner, self.items.items, log)
        self.load = Load(SetMeter(cpu=10.2), 0.0, self.clock.seconds, log)
        self.sampling = Sampling(self.load, self.usages, 5.0)
        self.collector = Collector(self.items.items, self.usages, self.load)

    def collect(self) -> StatusReport:
        """
        Make one, after a look at what is used.
        """
        self.sampling.take()
        return self.collector.collect()

    def test_collect(self) -> None:
        """
        The report tells of each item its state, since when, and why not.
        """
        self.runner.starts["w2"] = ValueError("bad")
        self.runner.usages["w1"] = {"cpu": 5}
        self.start("w1")
        self.start("w2")

        report = self.collect()

        self.assertEqual(report.items["w1"].state, RUNNING)
        self.assertEqual(report.items["w1"].usage, {"cpu": 5})
        self.assertEqual(report.items["w1"].since, 1000.0)
        self.assertEqual(report.items["w2"].state, FAILED)
        self.assertEqual(report.items["w2"].error, "ValueError: bad")

    def test_trying_again(self) -> None:
        """
        An item that fails again and again is reported the same all the time.
        """
        self.runner.starts["w1"] = ValueError("bad")
        self.start("w1")
        first = encode_status(self.collect())
        self.runner.starts["w1"] = Deferred()
        self.pass_time(1.0)

        self.assertEqual(self.items.items["w1"].state, STARTING)
        self.assertEqual(encode_status(self.collect()), first)

    def test_usage_of_a_moment(self) -> None:
        """
        What was used at the last look stands until the next one; an item that was
        started since has none, nor one that does not run any more.
        """
        self.runner.usages.update(w1={"cpu": 5}, w2={"cpu": 6})
        item = self.start("w1")
        self.collect()
        self.runner.usages["w1"] = {"cpu": 50}
        self.start("w2")
        report = self.collector.collect()

        self.assertEqual(report.items["w1"].usage, {"cpu": 5})
        self.assertEqual(report.items["w2"].usage, {})
        self.assertEqual(report.node["cpu"], 10)
        self.runner.stops["w1"] = Deferred()
        self.stop(item)
        self.assertEqual(self.collector.collect().items["w1"].usage, {})
