"""
Tests for the cluster in memory that is offered to users' tests.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail

from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster

from .support.embedded import ClusterTestCase


class EmbeddedClusterTests(ClusterTestCase):
    """
    Whole members on a clock.
    """

    def test_example(self) -> None:
        """
        What the module's docstring shows is true.
        """
        cluster = self.cluster
        first, second = cluster.add("a"), cluster.add("b")
        cluster.put_work("cam-1", "cam-2")
        cluster.advance(10)
        cluster.crash(first)
        cluster.advance(10)

        self.assertEqual(second.worker.my_workload, {"cam-1", "cam-2"})

    def test_looks(self) -> None:
        """
        Assignments, owners and reports can be looked at.
        """
        self.add("a", "b")
        self.cluster.put_work("x", "y")
        self.cluster.advance(8)

        self.assertEqual(set(self.cluster.owners()), {"x", "y"})
        self.assertEqual(
            {w for items in self.cluster.assignments().values() for w in items},
            {"x", "y"},
        )
        self.assertEqual(
            self.cluster.reported("a") | self.cluster.reported("b"), {"x", "y"}
        )
        self.assertEqual(self.cluster.reported("nobody"), set())
        self.cluster.remove_work("x", "y")
        self.cluster.advance(8)
        self.assertEqual(self.cluster.owners(), {})

    def test_same_seed(self) -> None:
        """
        The same seed gives the same history, to the instant.
        """

        def history(seed: int) -> list[float]:
            cluster = EmbeddedCluster(seed)
            self.addCleanup(cluster.close)
            took = []
            for name in "abc":
                cluster.add(name)
            cluster.put_work("x")
            for _ in range(2):
                took.append(cluster.until(lambda: cluster.leaders))
                cluster.crash(cluster.leaders[0])
            return took

        self.assertEqual(history(7), history(7))

    def test_pause(self) -> None:
        """
        A paused member does nothing, and is no leader to anybody; what it missed
        happens when it goes on.
        """
        a = self.lead()
        index = self.cluster.consul.index
        self.cluster.pause(a)
        self.assertEqual(self.cluster.leaders, [])
        self.cluster.advance(2)
        self.assertEqual(self.cluster.consul.index, index)

        self.cluster.resume(a)

        self.assertEqual(self.cluster.leaders, [a])

    def test_crash(self) -> None:
        """
        A crashed member says nothing any more, and is no member.
        """
        a = self.lead()
        self.cluster.crash(a)
        self.cluster.advance(10)

        self.assertEqual(self.cluster.members, {})
        self.assertEqual(self.cluster.entries(self.cluster.keys.members), ())

    def test_double(self) -> None:
        """
        A second member of an id that runs is another process.
        """
        first, second = self.lead("a"), self.cluster.add("a")

        self.assertIsNot(self.cluster.network(first), self.cluster.network(second))
        self.assertEqual(set(self.cluster.members.values()), {first, second})

    def test_clock_rate(self) -> None:
        """
        A member's clock may go slow or fast.
        """
        fast, slow = (
            self.cluster.add("a", clock_rate=1.01),
            self.cluster.add("b", clock_rate=0.99),
        )

        self.cluster.advance(100)

        self.assertAlmostEqual(fast.steady.seconds(), 101, 3)
        self.assertAlmostEqual(slow.steady.seconds(), 99, 3)
        self.assertEqual(len(self.cluster.leaders), 1)

    def test_settings(self) -> None:
        """
        Settings are the cluster's, or a member's own.
        """
        cluster = EmbeddedCluster(settings=Settings(prefix="x"))
        self.addCleanup(cluster.close)
        a = cluster.add("a")
        b = cluster.add("b", settings=Settings(prefix="y"))

        self.assertEqual((a.keys.prefix, b.keys.prefix), ("x", "y"))

    def test_result(self) -> None:
        """
        A result is waited for; a failure is raised; silence is an error.
        """
        with self.assertRaises(ZeroDivisionError):
            self.cluster.result(fail(ZeroDivisionError()))
        with self.assertRaises(TimeoutError):
            self.cluster.result(Deferred(), 0.1)

    def test_until(self) -> None:
        """
        A condition is waited for; if it does not come to be, that is an error.
        """
        began = self.cluster.clock.seconds()

        took = self.cluster.until(lambda: self.cluster.clock.seconds() > began + 1)

        self.assertAlmostEqual(took, 1.01, 1)
        with self.assertRaises(TimeoutError):
            self.cluster.until(lambda: False, 0.1)

    def test_close(self) -> None:
        """
        Nothing of a closed cluster goes on, and closing twice is no error.
        """
        a = self.lead()
        clock = self.cluster.process(a).clock

        self.cluster.close()
        self.cluster.close()

        self.assertEqual(clock.getDelayedCalls(), [])
        self.assertEqual(a.role, "stopped")
