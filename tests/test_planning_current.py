"""
What every planner begins with: where items are, which stay, which find no place.
"""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.interfaces import IPlanner
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.current import Current, kept, why_nobody
from voltha_coord.planning.hash_ring import HashRingPlanner
from voltha_coord.planning.operations import Assign, Move, Reassign, Unassign
from voltha_coord.planning.state import LEAVE, MAINTENANCE, ClusterState
from voltha_coord.records import PREPARE, Assignment, OwnerRecord, WorkItem

from .support.clusters import applied, cluster, clusters, placed

PLANNERS: tuple[IPlanner, ...] = (BalancedPlanner(), HashRingPlanner())


def in_maintenance(state: ClusterState, *members: str) -> ClusterState:
    """
    Give the state with these members in maintenance.
    """
    return evolve(state, node_intents=dict.fromkeys(members, MAINTENANCE))


def owned(state: ClusterState, **owners: str) -> ClusterState:
    """
    Give the state with these owners, by work id.
    """
    records = {work: OwnerRecord(owner, "s") for work, owner in owners.items()}
    return evolve(state, owners=records)


class LeftBehindTests(SynchronousTestCase):
    """
    What a leader that plans by resources has left.
    """

    def test_applied_items(self) -> None:
        """
        An assignment that carries the item becomes a bare one: else nobody would
        tell its member of later changes.
        """
        value = Assignment("a", "w1", item=WorkItem("w1", reference="r")).encode()
        state = evolve(cluster(["a"], ["w1"]), assignments={"a": {"w1": value}})

        for planner in PLANNERS:
            self.assertEqual(planner.plan(state).operations, (Reassign("w1", "a"),))

    def test_applied_item_that_moves(self) -> None:
        """
        One that has to move anyway is only moved.
        """
        value = Assignment("a", "w1", item=WorkItem("w1", reference="r")).encode()
        state = evolve(
            cluster(["a", "b"], ["w1"], leaving=["a"]), assignments={"a": {"w1": value}}
        )

        for planner in PLANNERS:
            self.assertEqual(planner.plan(state).operations, (Move("w1", "a", "b"),))

    def test_prepared_moves(self) -> None:
        """
        A move that was being prepared is called off: its target is no place of
        the item.
        """
        value = Assignment("a", "w1", PREPARE).encode()
        state = evolve(
            cluster(["a", "b"], ["w1"]),
            assignments={"a": {"w1": value}, "b": {"w1": b""}},
        )

        self.assertEqual(
            BalancedPlanner().plan(state).operations, (Unassign("w1", "a"),)
        )


class KeptTests(SynchronousTestCase):
    """
    What stays with members in maintenance.
    """

    def kept(self, state: ClusterState) -> dict[str, str]:
        """
        Give what stays, and see that both planners leave it there.
        """
        found = kept(state, Current.of(state))
        for planner in PLANNERS:
            placements = planner.plan(state).placements
            self.assertEqual({w: placements[w] for w in found}, found)
        return found

    def test_all_it_has(self) -> None:
        """
        All that a member in maintenance has, and is work, stays with it, and
        nothing of the others.
        """
        state = cluster(["a", "b"], ["x", "y", "z"], {"a": ["x", "old"], "b": ["y"]})

        self.assertEqual(self.kept(in_maintenance(state, "a")), {"x": "a"})
        self.assertEqual(self.kept(state), {})

    def test_duplicate_it_owns(self) -> None:
        """
        Of an item that several have it keeps the one that it owns, for there
        it runs.
        """
        state = cluster(["a", "b"], ["x", "y"], {"a": ["x", "y"], "b": ["x", "y"]})
        state = owned(in_maintenance(state, "a"), x="a", y="b")

        self.assertEqual(self.kept(state), {"x": "a"})

    def test_duplicate_without_receiver(self) -> None:
        """
        Of an item that only members in maintenance have, or such as may have
        none, one of those in maintenance keeps it.
        """
        state = cluster(
            ["a", "b", "c", "d"],
            ["x", "y"],
            {"a": ["x"], "b": ["x"], "c": ["y"], "b2": ["y"], "d": []},
        )

        self.assertEqual(self.kept(in_maintenance(state, "b", "a")), {"x": "a"})
        self.assertEqual(self.kept(in_maintenance(state, "c")), {"y": "c"})

    def test_gives_up(self) -> None:
        """
        A member that leaves, has weight 0, or is gone keeps nothing, whatever
        an operator wants of it.
        """
        work = {"a": ["x"], "b": ["y"], "gone": ["z"]}
        state = cluster({"a": 1, "b": 0, "c": 1}, ["x", "y", "z"], work, leaving=["a"])
        state = in_maintenance(state, "a", "b", "gone")

        self.assertEqual(self.kept(state), {})
        for planner in PLANNERS:
            self.assertEqual(
                planner.plan(state).placements, dict.fromkeys(["x", "y", "z"], "c")
            )


class UnplacedTests(SynchronousTestCase):
    """
    Where no member may be given work.
    """

    def test_reasons(self) -> None:
        """
        The text says why, each reason once.
        """
        state = cluster({"a": 1, "b": 1, "c": 0, "d": 1, "e": 1}, leaving=["d"])
        away = {"a": MAINTENANCE, "b": MAINTENANCE, "e": LEAVE}

        self.assertEqual(
            why_nobody(in_maintenance(cluster(["a", "b"]), "a", "b")),
            "all are in maintenance",
        )
        self.assertEqual(
            why_nobody(evolve(state, node_intents=away)),
            "all are in maintenance or leaving or of weight 0 or wanted away",
        )

    def test_all_in_maintenance(self) -> None:
        """
        With every member in maintenance nothing moves; new items, and those of
        members that are gone, are told as errors.
        """
        state = cluster(
            ["a", "b"], ["x", "y", "z"], {"a": ["x"], "gone": ["z"], "b": ["old"]}
        )
        state = in_maintenance(state, "a", "b")
        text = "no member can take work: all are in maintenance"

        for planner in PLANNERS:
            found = planner.plan(state)
            self.assertEqual(found.operations, (Unassign("old", "b"),))
            self.assertEqual(found.placements, {"x": "a", "z": "gone"})
            self.assertEqual(found.errors, dict.fromkeys("yz", text))

    def test_duplicate_stays_with_the_living(self) -> None:
        """
        Of an item that a dead and a leaving member have the living one keeps
        it, though the dead one's owner record is still there.
        """
        state = cluster(["b"], ["x"], {"a": ["x"], "b": ["x"]}, leaving=["b"])
        state = owned(state, x="a")

        for planner in PLANNERS:
            found = planner.plan(state)
            self.assertEqual(found.operations, (Unassign("x", "a"),))
            self.assertEqual(found.errors, {})

    def test_leaving_keep(self) -> None:
        """
        While no other member is there to take it, a member that is wanted away
        keeps its work, which is no error.
        """
        state = cluster(["a"], ["x"], {"a": ["x"]})
        state = evolve(state, node_intents={"a": LEAVE})

        for planner in PLANNERS:
            found = planner.plan(state)
            self.assertEqual((found.operations, found.errors), ((), {}))


class MaintenanceProperties(SynchronousTestCase):
    """
    What holds for all states and both planners.
    """

    @given(clusters(), st.sampled_from(PLANNERS))
    def test_nothing_new(self, state: ClusterState, planner: IPlanner) -> None:
        """
        No member that is wanted away or in maintenance is given anything.
        """
        for op in planner.plan(state).operations:
            if not isinstance(op, Unassign):
                target = op.target if isinstance(op, Move) else op.member
                self.assertNotIn(target, state.node_intents)
                self.assertIn(target, state.receivers)

    @given(clusters(), st.sampled_from(PLANNERS))
    def test_nothing_moves_off(self, state: ClusterState, planner: IPlanner) -> None:
        """
        Nothing moves off a member in maintenance: it loses only what is no work
        any more, and what another member has too, but for what it owns itself.
        """
        for op in planner.plan(state).operations:
            if isinstance(op, Assign) or op.work not in state.work:
                continue
            source = op.source if isinstance(op, Move) else op.member
            if source in state.keepers:
                has = [m for m, items in state.assignments.items() if op.work in items]
                self.assertGreater(len(has), 1)
                self.assertNotEqual(state.owner_of(op.work), source)

    @given(clusters(), st.sampled_from(PLANNERS))
    def test_fixed_point(self, state: ClusterState, planner: IPlanner) -> None:
        """
        In the state a plan leads to, nothing is planned, and the same items
        find no place.
        """
        found = planner.plan(state)
        again = planner.plan(applied(state, found))

        self.assertEqual(again.operations, ())
        self.assertEqual(again.errors, found.errors)

    @given(clusters(), st.sampled_from(PLANNERS))
    def test_emptied(self, state: ClusterState, planner: IPlanner) -> None:
        """
        Where a member may be given work, all that are to have none are emptied;
        only receivers and members in maintenance have any then.
        """
        found = planner.plan(state)

        if state.receivers:
            self.assertEqual(found.errors, {})
            for member in placed(applied(state, found)).values():
                self.assertIn(member, {*state.receivers, *state.keepers})

    @given(clusters(), st.sampled_from(PLANNERS))
    def test_nobody_to_take_work(self, state: ClusterState, planner: IPlanner) -> None:
        """
        Where no member may be given work nothing moves, and exactly the items
        that no member has are told as errors.
        """
        if state.receivers or not state.members:
            return
        found = planner.plan(state)

        self.assertEqual({*map(type, found.operations)} - {Unassign}, set())
        homeless = {
            w
            for w in state.work
            if not any(w in state.assignments.get(m, ()) for m in state.members)
        }
        text = f"no member can take work: {why_nobody(state)}"
        self.assertEqual(found.errors, dict.fromkeys(homeless, text))

    @given(clusters(unique=True), st.data())
    def test_entering_moves_nothing(
        self, state: ClusterState, data: st.DataObject
    ) -> None:
        """
        When a member of a settled cluster goes into maintenance the balanced
        planner moves nothing.
        """
        planner = BalancedPlanner()
        state = evolve(state, node_intents={})
        state = applied(state, planner.plan(state))
        if len(state.receivers) < 2:
            return
        chosen = data.draw(st.sampled_from(sorted(state.receivers)))

        self.assertEqual(planner.plan(in_maintenance(state, chosen)).operations, ())
