"""
What users of such systems reported about many members: they all act at once, and
nobody says how many of them there may be.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.transport import Request
from voltha_coord.interfaces import IPlanner
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.hash_ring import HashRingPlanner
from voltha_coord.planning.operations import Assign, Move
from voltha_coord.testing import EmbeddedCluster

from .support.clusters import cluster
from .support.working import operations

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"

#: What is planned for: members and items.
PLANNED = (2_000, 20_000)

#: What lives: members, each a whole one, and items.
ALIVE = (40, 200)

#: How long a request, and its answer, takes, in seconds.
LATENCY = 0.005


class ScaleTests(SynchronousTestCase):
    """
    Many members.
    """

    def test_planning(self) -> None:
        """
        Both planners place every item, and move exactly those of a member that
        leaves, in a cluster larger than any that others broke at (field report
        133).
        """
        members = [f"m{number}" for number in range(PLANNED[0])]
        work = [f"w{number}" for number in range(PLANNED[1])]
        planners: tuple[IPlanner, ...] = (BalancedPlanner(), HashRingPlanner())
        for planner in planners:
            first = planner.plan(cluster(members, work)).operations
            having: dict[str, list[str]] = {name: [] for name in members}
            for operation in first:
                assert isinstance(operation, Assign)
                having[operation.member].append(operation.work)
            self.assertEqual(sorted(op.work for op in first), sorted(work))

            left = members[1:]
            second = planner.plan(cluster(left, work, having)).operations

            moved = {(op.work, op.source) for op in second if isinstance(op, Move)}
            self.assertEqual(len(moved), len(second))
            self.assertEqual(moved, {(item, "m0") for item in having["m0"]})
            if isinstance(planner, BalancedPlanner):
                sizes = {len(items) for items in having.values()}
                self.assertEqual(sizes, {PLANNED[1] // PLANNED[0]})

    def test_members(self) -> None:
        """
        Whole members, that many, divide the work, and take over what their leader
        had when it dies, within the bound of a small cluster (field reports 130
        and 133).
        """
        alive = EmbeddedCluster(seed=1)
        self.addCleanup(alive.close)
        members = [alive.add(f"m{number}") for number in range(ALIVE[0])]
        alive.put_work(*(f"w{number}" for number in range(ALIVE[1])))

        def all_run() -> bool:
            return sum(len(one.worker.my_workload) for one in members) == ALIVE[1]

        alive.until(all_run, 10.0)
        (leader,) = alive.leaders
        alive.crash(leader)
        members.remove(leader)
        took = alive.until(all_run, 10.0)

        settings = alive.settings
        detection = settings.detection_bound + settings.lock_delay
        self.assertLess(took, detection + settings.departed_soak + 2.0)
        self.assertEqual({*alive.owners().values()}, {*alive.members})
        self.assertEqual(alive.assignments().keys(), {*alive.members})

    def test_published(self) -> None:
        """
        How large a cluster was tested is published (field report 133).
        """
        page = PAGE.read_text("utf-8")

        for count in (*PLANNED, *ALIVE):
            self.assertIn(f"| {count:,} |", page)

    def test_candidates(self) -> None:
        """
        When a leader leaves, all candidates see it at one time, and most of them
        wait so long that they see the next leader before they ask for anything
        (field report 139).
        """
        crowd = EmbeddedCluster(seed=1)
        self.addCleanup(crowd.close)
        members = [crowd.add(f"m{number}") for number in range(20)]
        crowd.until(lambda: all(member.is_ready for member in members))
        crowd.advance(5.0)
        asked: list[str] = []

        def noting(name: str, request: Request) -> float:
            for op in operations(request):
                if (op.verb, op.key) == ("lock", crowd.keys.leader):
                    asked.append(name)
            return LATENCY

        for member in members:
            network = crowd.network(member)
            network.reply_latency = lambda request: LATENCY
            network.latency = partial(noting, member.instance_id)
        (leader,) = crowd.leaders
        leader.shutdown()
        crowd.until(lambda: crowd.leaders, 5.0)
        crowd.advance(1.0)

        self.assertNotIn(leader.instance_id, asked)
        self.assertLess(len(asked), len(members) / 2, asked)
