"""
Tests for what a member that is cut off takes over.
"""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord.interfaces import IPlanner
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.hash_ring import HashRingPlanner
from voltha_coord.planning.operations import Plan
from voltha_coord.planning.state import LEAVE, MAINTENANCE, ClusterState
from voltha_coord.planning.takeover import FROZEN, Takeover, take_over
from voltha_coord.records import Member

from .support.clusters import cluster

ME = Member("a", session="s")
LAST = evolve(
    cluster(["a", "b", "c"], "uvwxyz", {"a": "uv", "b": "wx", "c": "y"}),
    work={w: w.encode() for w in "uvwxyz"},
    now=90.0,
)


@implementer(IPlanner)
class NoRoomPlanner:
    """
    Has no room for some items, and keeps what it was asked.

    :ivar asked: the states that were planned.
    """

    def __init__(self, *full: str) -> None:
        self._full = full
        self.asked: list[ClusterState] = []

    def plan(self, state: ClusterState) -> Plan:
        """
        Place what there is room for on the first member.
        """
        self.asked.append(state)
        first = min(state.members)
        placements = {w: first for w in state.work if w not in self._full}
        errors = {w: "no room" for w in self._full if w != "z"}
        return Plan(placements=placements, errors=errors)


class TakeoverTests(SynchronousTestCase):
    """
    Tests of :func:`take_over`.
    """

    def take_over(
        self,
        state: ClusterState = LAST,
        member: Member = ME,
        planner: IPlanner | None = None,
        here: str = "uv",
    ) -> Takeover:
        """
        Plan, with the balanced planner unless another is given.
        """
        planner = BalancedPlanner() if planner is None else planner
        return take_over(state, member, planner, set(here), 100.0)

    def test_all_the_rest(self) -> None:
        """
        It is all that does not run here already, whoever had it and whether
        anybody had it, with the values as last read.
        """
        for planner in (BalancedPlanner(), HashRingPlanner()):
            found = self.take_over(planner=planner)

            self.assertEqual(found.items, {w: w.encode() for w in "wxyz"})
            self.assertEqual((found.left_out, found.age), ({}, 10.0))

    def test_assigned_and_not_running(self) -> None:
        """
        What was assigned here and does not run here yet is taken over too: its
        last owner is gone like the others.
        """
        self.assertEqual([*self.take_over(here="u").items], [*"vwxyz"])

    def test_in_order(self) -> None:
        """
        Items come in the order of their ids.
        """
        backwards = evolve(LAST, work={w: LAST.work[w] for w in reversed("uvwxyz")})

        self.assertEqual([*self.take_over(backwards).items], [*"wxyz"])

    def test_alone(self) -> None:
        """
        What is planned is a cluster with this member alone, as it is now, and at
        this time.
        """
        planner = NoRoomPlanner()
        me = evolve(ME, weight=2.5)

        self.take_over(member=me, planner=planner)

        (asked,) = planner.asked
        self.assertEqual((asked.members, asked.now), ({"a": me}, 100.0))
        self.assertEqual(asked.assignments, LAST.assignments)

    def test_no_room(self) -> None:
        """
        What does not fit is left out, with the planner's reason if it has one.
        """
        found = self.take_over(planner=NoRoomPlanner("x", "z"))

        self.assertEqual([*found.items], [*"wy"])
        self.assertEqual(
            found.left_out,
            {"x": "no room", "z": "it was not given to this member"},
        )

    def test_may_have_no_work(self) -> None:
        """
        A member that may not be given work takes nothing over: in maintenance,
        wanted away, leaving, or of weight 0.
        """
        for state, member in (
            (evolve(LAST, node_intents={"a": MAINTENANCE}), ME),
            (evolve(LAST, node_intents={"a": LEAVE}), ME),
            (LAST, evolve(ME, leaving=True)),
            (LAST, evolve(ME, weight=0)),
        ):
            for planner in (BalancedPlanner(), HashRingPlanner()):
                found = self.take_over(state, member, planner)

                self.assertEqual(found.items, {})
                self.assertEqual(sorted(found.left_out), [*"wxyz"])

    def test_others_intents(self) -> None:
        """
        What others were in when they were last seen counts for nothing: they are
        gone.
        """
        state = evolve(LAST, node_intents={"b": MAINTENANCE, "c": LEAVE})

        self.assertEqual([*self.take_over(state).items], [*"wxyz"])

    def test_frozen(self) -> None:
        """
        Nothing is taken over while operators want nothing to be planned.
        """
        found = self.take_over(evolve(LAST, frozen=True))

        self.assertEqual(found.items, {})
        self.assertEqual(found.left_out, dict.fromkeys("wxyz", FROZEN))
