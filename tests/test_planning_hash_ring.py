"""
The hash ring, to the item as the original coordinator had it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from voltha_coord.interfaces import IPlanner
from voltha_coord.planning.current import Current, kept
from voltha_coord.planning.hash_ring import HashRing, HashRingPlanner
from voltha_coord.planning.operations import Assign, Move, Plan, Unassign
from voltha_coord.planning.state import ClusterState

from .support.clusters import applied, cluster, clusters, placed, shuffled

CASES = json.loads(
    Path(__file__).with_name("data").joinpath("hash_ring.json").read_text("utf-8")
)
GROUPS = [f"device_group_{n:04}" for n in range(1, 101)]


def plan(state: ClusterState) -> Plan:
    """
    Plan.
    """
    return HashRingPlanner().plan(state)


class HashRingTests(SynchronousTestCase):
    """
    The ring alone.
    """

    def test_owners_of_the_original(self) -> None:
        """
        Every item has the owner the original gave it, in all member sets.
        """
        for case in CASES:
            ring = HashRing(case["members"])

            self.assertEqual(
                {work: ring.member_of(work) for work in case["owners"]}, case["owners"]
            )
        self.assertEqual(len(CASES), 5)

    def test_counts_of_the_original(self) -> None:
        """
        The counts are those seen when the original was run (specification
        1.1), names with a common beginning included.
        """
        for members, counts in (
            (
                ("compose_voltha_1", "compose_voltha_2", "compose_voltha_3"),
                (24, 36, 40),
            ),
            (("voltha-1", "voltha-10"), (53, 47)),
            (("a", "b"), (61, 39)),
        ):
            ring = HashRing(members)
            found = Counter(ring.member_of(work) for work in GROUPS)

            self.assertEqual(tuple(found[m] for m in members), counts)

    def test_points(self) -> None:
        """
        A member has 120 points.
        """
        self.assertEqual(len(HashRing(["a"])._points), 120)

    def test_goes_round(self) -> None:
        """
        An item behind the last point belongs to the member of the first.
        """
        ring = HashRing(["a", "b", "c"])
        ring._points = [0, 1, 2]
        ring._members = ["first", "x", "y"]

        self.assertEqual(ring.member_of("anything"), "first")

    def test_a_point_itself_is_passed(self) -> None:
        """
        The next point is one after the item, not at it.
        """
        ring = HashRing(["a"])
        place = int.from_bytes(bytes.fromhex("9dd4e461"), "little")  # md5 of x
        ring._points = [place, place + 1]
        ring._members = ["at", "after"]

        self.assertEqual(ring.member_of("x"), "after")


class HashRingPlannerTests(SynchronousTestCase):
    """
    Plans that lead to the ring.
    """

    def test_provides_planner(self) -> None:
        """
        It keeps the contract of planners.
        """
        self.assertTrue(verifyObject(IPlanner, HashRingPlanner()))

    def test_plans_of_the_original(self) -> None:
        """
        A first plan leads to the owners of the original.
        """
        for case in CASES:
            found = plan(cluster(case["members"], case["owners"]))

            self.assertEqual(found.placements, case["owners"])
            self.assertEqual({type(op) for op in found.operations}, {Assign})

    def test_leaving_moves_exactly_its_items(self) -> None:
        """
        Without c, its 28 items of 100 move and no other.
        """
        state = cluster(["a", "b", "c"], GROUPS)
        state = applied(state, plan(state))
        found = plan(evolve(state, members=cluster(["a", "b"]).members))

        self.assertEqual(len(found.operations), 28)
        self.assertEqual({type(op) for op in found.operations}, {Move})
        self.assertEqual(
            {op.work for op in found.operations}, set(state.assignments["c"])
        )

    def test_leaving_and_weightless_are_off_the_ring(self) -> None:
        """
        Members that leave or have weight 0 get nothing; other weights make no
        difference.
        """
        state = cluster({"a": 5, "b": 0, "c": 1, "d": 1}, GROUPS, leaving=["d"])
        ring = HashRing(["a", "c"])

        self.assertEqual(
            plan(state).placements, {work: ring.member_of(work) for work in GROUPS}
        )

    def test_maintenance(self) -> None:
        """
        What a member in maintenance has stays there; everything else is where
        the ring without it says.
        """
        state = cluster(["a", "b", "c"], GROUPS)
        state = applied(state, plan(state))
        new = "device_group_0101"
        found = plan(
            evolve(
                state, work={**state.work, new: b""}, node_intents={"c": "maintenance"}
            )
        )

        target = HashRing(["a", "b"]).member_of(new)
        self.assertEqual(found.operations[-1], Assign(new, target))
        self.assertEqual(
            {w: found.placements[w] for w in state.assignments["c"]},
            dict.fromkeys(state.assignments["c"], "c"),
        )
        ring = HashRing(["a", "b"])
        for work in GROUPS:
            if work not in state.assignments["c"]:
                self.assertEqual(found.placements[work], ring.member_of(work))

    def test_maintenance_dies(self) -> None:
        """
        When a member in maintenance is gone its items go where the ring without
        it has them, and no other moves.
        """
        state = cluster(["a", "b", "c"], GROUPS)
        state = applied(state, plan(state))
        rest = cluster(["a", "b"]).members
        found = plan(evolve(state, members=rest, node_intents={"c": "maintenance"}))

        self.assertEqual(
            {op.work for op in found.operations}, set(state.assignments["c"])
        )

    def test_duplicate_stays_where_the_ring_has_it(self) -> None:
        """
        An item that several members have stays with the ring's.
        """
        case = next(c for c in CASES if c["members"] == ["a", "b"])
        work = "device_group_0001"
        state = cluster(["a", "b"], [work], {"a": [work], "b": [work]})

        self.assertEqual(case["owners"][work], "b")
        self.assertEqual(plan(state).operations, (Unassign(work, "a"),))

    def test_no_members(self) -> None:
        """
        Without any member nothing is planned (B8).
        """
        self.assertEqual(plan(cluster([], ["x"], {"a": ["x"]})).operations, ())

    def test_no_work(self) -> None:
        """
        Without work every assignment is deleted (B7).
        """
        found = plan(cluster(["a"], [], {"a": ["x"]}))

        self.assertEqual(found.operations, (Unassign("x", "a"),))

    def test_nobody_to_take_work(self) -> None:
        """
        With nobody to take them items stay, and new ones are told as errors.
        """
        state = cluster(["a"], ["x", "y"], {"a": ["x"]}, leaving=["a"])
        found = plan(state)

        self.assertEqual(found.placements, {"x": "a"})
        self.assertEqual(
            found.errors, {"y": "no member can take work: all are leaving"}
        )

    @given(clusters())
    def test_leads_to_the_ring(self, state: ClusterState) -> None:
        """
        Once applied every item is where it stays or the ring has it, and
        nothing more is planned.
        """
        found = plan(state)
        after = applied(state, found)

        if state.receivers:
            ring = HashRing(state.receivers)
            stays = kept(state, Current.of(state))
            self.assertEqual(
                placed(after), {w: ring.member_of(w) for w in state.work} | stays
            )
            self.assertEqual(placed(after), found.placements)
        self.assertEqual(plan(after).operations, ())

    @given(clusters(), st.data())
    def test_order_makes_no_difference(
        self, state: ClusterState, data: st.DataObject
    ) -> None:
        """
        The order in which Consul told things makes no difference.
        """
        self.assertEqual(plan(shuffled(data, state)), plan(state))
