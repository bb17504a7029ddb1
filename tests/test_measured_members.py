"""
Tests of members that measure: what they tell, and how often.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.support.working import ClusterCase, StringRunner, operations
from voltha_coord.coordinator import Coordinator
from voltha_coord.hysteresis import MIB
from voltha_coord.leader import Leader
from voltha_coord.measuring import WorkMeter
from voltha_coord.plugins import find_leader
from voltha_coord.records import Member, StatusReport, WorkItem, decode_status
from voltha_coord.testing import FixedMeter

#: How many processes run on the member with many.
MANY = 1_000


class ByResources(Leader):
    """
    A leader that would plan by resources.
    """

    by_resources = True


class Restless(StringRunner):
    """
    A runner whose items use more and less at each look, if they are restless.

    :ivar looks: how often it was asked about an item.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.restless = True

    def usage(self, item: WorkItem) -> Mapping[str, Any]:
        """
        Another usage than last time.
        """
        self.looks += 1
        # The next look at the same of many items comes so many later.
        much = self.looks * 7 % 37 if self.restless else self.looks * 7 % 2
        return {"cpu": 20 + much, "memory": (100 + much) * MIB}


class MeasuredTests(ClusterCase):
    """
    Members that measure.
    """

    def make_runner(self) -> StringRunner:
        """
        Make a restless one.
        """
        self.restless = Restless()
        return self.restless

    def begin(self, **kw: Any) -> Coordinator:
        """
        Add a member, and let it take up its work.
        """
        member = self.member("a", **kw)
        self.advance(15.0)
        return member

    def record(self) -> Member:
        """
        Give the member's record.
        """
        entry = self.cluster.entry(self.keys.member("a"))
        assert entry is not None
        return Member.from_entry(entry, self.keys)

    def report(self) -> StatusReport:
        """
        Give the member's report.
        """
        prefix = self.keys.status_of("a")
        chunks = {
            int(entry.key[len(prefix) :]): entry.value
            for entry in self.cluster.entries(prefix)
        }
        report = decode_status(chunks)
        assert report is not None
        return report

    def reports_written(self, seconds: float) -> int:
        """
        Let time pass; count the transactions that write the report.
        """
        self.requests["a"].clear()
        self.advance(seconds)
        prefix = self.keys.status_of("a")
        return sum(
            any(op.key.startswith(prefix) for op in operations(request))
            for request in self.requests["a"]
        )

    def test_told(self) -> None:
        """
        The record tells what there is, the report what is in use.
        """
        meter = FixedMeter(cpu=50.2, memory=100 * MIB)
        member = self.begin(leader_class=ByResources, meter=meter)

        self.assertEqual(self.record().resources, meter.has)
        self.assertEqual(
            self.report().node,
            {"cpu": 50, "memory": 100 * MIB, "throttling": False},
        )
        self.assertEqual(member.load.latest["cpu"], 50.2)

    def test_changes(self) -> None:
        """
        A change of usage is told within the interval, also when no item runs.
        """
        meter = FixedMeter()
        self.begin(leader_class=ByResources, meter=meter)
        meter.uses["cpu"] = 400.0
        self.advance(5.0)

        self.assertEqual(self.report().node["cpu"], 400)
        self.assertEqual(self.report().node["throttling"], True)
        self.assertEqual(self.reports_written(60.0), 0)

    def test_a_meter_by_itself(self) -> None:
        """
        A member whose leader plans by resources measures without being told to.
        """
        member = self.begin(leader_class=ByResources)

        self.assertTrue(member.load.measures)
        self.assertEqual(self.record().resources, FixedMeter().has)

    def test_not_measured(self) -> None:
        """
        Where no leader plans by resources, nothing is measured or told.
        """
        member = self.begin()

        self.assertFalse(member.load.measures)
        self.assertEqual(self.record().resources, {})
        self.assertEqual(self.report().node, {})
        self.assertEqual(self.reports_written(60.0), 0)

    def test_wanted(self) -> None:
        """
        A member that is given a meter measures, whatever its leader.
        """
        self.begin(meter=FixedMeter())

        self.assertEqual(self.report().node["cpu"], 0)

    def test_what_items_use(self) -> None:
        """
        A meter that counts what the items use is told that.
        """
        self.put(self.keys.work_item("w1"))
        self.put(self.keys.work_item("w2"))
        self.begin(leader_class=ByResources, meter=WorkMeter(FixedMeter()))
        self.restless.restless = False
        self.advance(10.0)

        self.assertEqual(self.report().node["cpu"], 41)
        self.assertEqual(self.report().node["memory"], 201 * MIB)

    def test_broken_meter(self) -> None:
        """
        A member whose meter fails is a member all the same, and tells why.
        """
        self.put(self.keys.work_item("w1"))
        meter = FixedMeter()
        meter.has = meter.uses = {"cpu": object()}
        self.begin(leader_class=ByResources, meter=meter)

        self.assertEqual(self.record().resources, {})
        self.assertIn("TypeError", self.report().node["error"])
        self.assertEqual(self.workload("a"), {"w1"})
        self.assertEqual(len(self.logged("resources-unknown")), 2)

    def test_many_processes(self) -> None:
        """
        What a thousand processes use, and their machine, costs one write in each
        interval, however restless they are; and none when they are calm.
        """
        for n in range(MANY):
            self.put(self.keys.work_item(f"process_{n:04}"))
        meter = FixedMeter()
        self.begin(leader_class=ByResources, meter=meter)
        self.assertEqual(len(self.report().items), MANY)
        before = self.report()

        self.assertEqual(self.reports_written(60.0), 12)
        self.assertNotEqual(self.report(), before)
        self.restless.restless = False
        self.advance(10.0)
        looks = self.restless.looks
        self.assertEqual(self.reports_written(60.0), 0)
        self.assertEqual(self.restless.looks - looks, 12 * MANY)

    def test_news_beside(self) -> None:
        """
        A change of state is told soon, and what is used is not told anew by it.
        """
        self.put(self.keys.work_item("w1"))
        self.begin(leader_class=ByResources)
        self.cluster.until(lambda: not self.reports_written(0.1))
        usage = self.report().items["w1"].usage
        self.runners["a"].starts["w2"] = ValueError("bad")
        self.put(self.keys.work_item("w2"))
        took = self.cluster.until(lambda: "w2" in self.report().items)

        self.assertLess(took, 4.0)
        self.assertEqual(self.report().items["w1"].usage.keys(), usage.keys())

    def test_led_by_resources(self) -> None:
        """
        The leader places by what members tell: evenly at first, and away from a
        machine that others keep busy; what is told of all that changes nothing
        more.
        """
        leader: Any = find_leader("resource")
        meters = {name: FixedMeter() for name in "abc"}
        for name, meter in meters.items():
            self.member(name, leader_class=leader, meter=meter)
        self.advance(10.0)
        limits = {"limits": {"cpu": 60, "memory": 200 * MIB}}
        work = [f"w{n}" for n in range(6)]
        for one in work:
            self.put(self.keys.work_item(one), json.dumps(limits).encode())
        self.advance(60.0)
        evenly, settled = Counter(self.cluster.owners().values()), self.indexes()
        self.advance(60.0)
        calm = {k: i for k, i in self.indexes().items() if "/status/" not in k}
        meters["a"].uses["cpu"] = 399.0
        self.advance(60.0)

        self.assertEqual(evenly, {"a": 2, "b": 2, "c": 2})
        self.assertLessEqual(calm.items(), settled.items())
        self.assertNotIn("a", self.cluster.owners().values())
        self.assert_settled(*work)
