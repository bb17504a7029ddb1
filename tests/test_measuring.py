"""
Tests for :mod:`voltha_coord.measuring` and :mod:`voltha_coord.machine`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from tests.support.meters import GIB, Files, Machine, SetMeter
from voltha_coord.hierarchy import GROUPS, MOUNTS
from voltha_coord.interfaces import IMeter
from voltha_coord.load import MACHINE, WORK
from voltha_coord.machine import own_cores
from voltha_coord.measuring import MachineMeter, WorkMeter, make_meter

PLACE = "/sys/fs/cgroup"


class MachineMeterTests(SynchronousTestCase):
    """
    Measuring a machine, or a container.
    """

    def setUp(self) -> None:
        """
        Begin on a machine of four cores, without a container.
        """
        self.machine = Machine()
        self.files = Files()
        self.clock = Clock()
        self.cores = {0, 1, 2, 3}

    def meter(self, *limits: float) -> MachineMeter:
        """
        Make a meter, and let it have a first look.
        """
        meter = MachineMeter(
            *limits,
            system=self.machine,
            read=self.files.read,
            cores=lambda: self.cores,
            now=self.clock.seconds,
        )
        meter.measure()
        return meter

    def contain(self, **texts: Any) -> None:
        """
        Put this process into a container.
        """
        self.files.texts[GROUPS] = "0::/"
        self.files.texts[MOUNTS] = f"1 1 0:1 / {PLACE} rw - cgroup2 cgroup2 rw"
        self.files.put(PLACE, **texts)

    def test_capacity(self) -> None:
        """
        Of the machine, such a share may be used.
        """
        self.assertEqual(
            self.meter(75.0, 50.0).capacity(),
            {
                "ncpu": 4.0,
                "cpu_limit": 300.0,
                "memory_total": 8 * GIB,
                "memory_limit": 4 * GIB,
            },
        )
        self.assertEqual(self.meter().capacity()["cpu_limit"], 360.0)

    def test_usage(self) -> None:
        """
        CPU is what all cores did since the last time, in percent of one; memory
        what is not available.
        """
        meter = self.meter()
        self.machine.work(10.0, 1.0, 0.5)
        self.machine.used = 3 * GIB

        self.assertEqual(meter.measure(), {"cpu": 150.0, "memory": 3 * GIB})
        self.machine.work(10.0, 0.0, 0.0, 0.25)
        self.assertEqual(meter.measure()["cpu"], 25.0)

    def test_idle_times(self) -> None:
        """
        To wait for a disk is not to work, and what guests do counts once.
        """
        meter = self.meter()
        self.machine.work(10.0, 0.5)
        self.machine.waited[0] += 5.0
        self.machine.guests[0] += 5.0

        self.assertAlmostEqual(meter.measure()["cpu"], 50.0)

    def test_too_soon(self) -> None:
        """
        Before there is anything to measure CPU usage in, it is not told, and that
        is no error; later the last figure stands for a moment.
        """
        meter = self.meter()
        self.machine.work(0.1, 1.0)
        self.assertEqual(meter.measure(), {"memory": 0})
        self.machine.work(0.4, 1.0)
        self.assertAlmostEqual(meter.measure()["cpu"], 100.0)
        self.machine.work(0.1)
        self.assertAlmostEqual(meter.measure()["cpu"], 100.0)
        self.machine.work(0.4)
        self.assertAlmostEqual(meter.measure()["cpu"], 0.0)

    def test_some_cores(self) -> None:
        """
        A process that is kept to some cores has those, and what they do counts.
        """
        self.cores = {1, 3}
        meter = self.meter()
        self.machine.work(10.0, 1.0, 0.5, 1.0, 0.25)

        self.assertEqual(meter.capacity()["ncpu"], 2.0)
        self.assertEqual(meter.measure()["cpu"], 75.0)

    def test_a_core_less(self) -> None:
        """
        When cores are taken away, what remains is measured.
        """
        meter = self.meter()
        self.machine.work(10.0, 0.5, 0.5, 0.5, 0.5)
        self.assertEqual(meter.measure()["cpu"], 200.0)
        del self.machine.busy[2:], self.machine.waited[2:], self.machine.guests[2:]
        meter.measure()
        self.machine.work(10.0, 0.1, 0.1)

        self.assertAlmostEqual(meter.measure()["cpu"], 20.0)

    def test_container(self) -> None:
        """
        In a container with limits those are what there is, and its usage counts.
        """
        self.contain(
            cpu__max="150000 100000",
            memory__max=str(2 * GIB),
            cpu__stat="usage_usec 1000000",
            memory__current=str(GIB),
            memory__stat="inactive_file 5",
        )
        meter = self.meter()
        self.machine.work(10.0, 1.0, 1.0, 1.0, 1.0)
        self.clock.advance(10.0)
        self.files.put(PLACE, cpu__stat="usage_usec 6000000")

        self.assertEqual(
            meter.capacity(),
            {
                "ncpu": 1.5,
                "cpu_limit": 135.0,
                "memory_total": 2 * GIB,
                "memory_limit": int(1.8 * GIB),
            },
        )
        self.assertEqual(meter.measure(), {"cpu": 50.0, "memory": GIB - 5})

    def test_more_than_its_limit(self) -> None:
        """
        What a container used in a burst is told as all it has.
        """
        self.contain(cpu__max="50000 100000", cpu__stat="usage_usec 0")
        meter = self.meter()
        self.clock.advance(1.0)
        self.files.put(PLACE, cpu__stat="usage_usec 600000")

        self.assertEqual(meter.measure()["cpu"], 50.0)

    def test_limit_beyond_the_machine(self) -> None:
        """
        A limit that is no less than the machine is none: the machine counts.
        """
        self.contain(cpu__max="400000 100000", memory__max=str(8 * GIB))
        self.machine.used = GIB
        meter = self.meter()
        self.machine.work(10.0, 1.0)

        self.assertEqual(meter.capacity()["ncpu"], 4.0)
        self.assertEqual(meter.measure(), {"cpu": 100.0, "memory": GIB})

    def test_one_limit(self) -> None:
        """
        Where only memory is limited, the CPU of the machine counts.
        """
        self.contain(memory__max="1000", memory__current="10", memory__stat="x 1")
        meter = self.meter()
        self.machine.work(10.0, 1.0)

        measured = meter.measure()

        self.assertEqual(measured["cpu"], 100.0)
        self.assertNotIn("memory", measured)
        self.assertIn("memory: /sys/fs/cgroup/memory.stat: ", measured["error"])

    def test_garbage(self) -> None:
        """
        A limit that makes no sense is told as an error, not passed over.
        """
        self.contain(cpu__max="junk")
        meter = self.meter()

        self.assertIn("cpu.max", meter.measure()["error"])
        self.assertRaises(ValueError, meter.capacity)
        self.contain(cpu__max="max 1")
        self.assertEqual(meter.capacity()["ncpu"], 4.0)

    def test_failing(self) -> None:
        """
        What the system fails with is told as an error, and passes.
        """
        meter = self.meter()
        self.machine.failing = OSError("no /proc")
        told = meter.measure()
        self.machine.failing = None
        self.machine.work(10.0, 1.0)

        self.assertEqual(told, {"error": "cpu: no /proc; memory: no /proc"})
        self.assertEqual(meter.measure(), {"cpu": 100.0, "memory": 0})

    def test_real(self) -> None:
        """
        The machine this test runs on has cores and memory.
        """
        meter = make_meter(MACHINE, 90.0, 80.0)
        verifyObject(IMeter, meter)
        capacity, measured = meter.capacity(), meter.measure()

        self.assertGreater(capacity["ncpu"], 0)
        self.assertLessEqual(capacity["ncpu"], len(own_cores()))
        self.assertGreater(capacity["memory_limit"], measured["memory"] / 1000)
        self.assertNotIn("error", measured)


class WorkMeterTests(SynchronousTestCase):
    """
    Measuring the items of one member.
    """

    def test_items(self) -> None:
        """
        What the items use counts, of what the machine has.
        """
        whole = SetMeter(cpu=99.0)
        meter = WorkMeter(whole)
        verifyObject(IMeter, meter)
        before = meter.measure()
        meter.follow(lambda: {"cpu": 5.0, "memory": 7.0})

        self.assertEqual(before, {"cpu": 0, "memory": 0})
        self.assertEqual(meter.measure(), {"cpu": 5.0, "memory": 7.0})
        self.assertEqual(meter.capacity(), whole.has)

    def test_made(self) -> None:
        """
        The option ``work`` asks for it.
        """
        self.assertIsInstance(make_meter(WORK, 90.0, 90.0), WorkMeter)
