"""
The balanced planner: even, calm, and nothing moved that need not be (G5).
"""

from __future__ import annotations

from collections import Counter

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from voltha_coord.interfaces import IPlanner
from voltha_coord.planning.apportion import apportion
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.operations import Assign, Move, Plan, Unassign
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import OwnerRecord

from .support.clusters import applied, cluster, clusters, names, placed, shuffled

GROUPS = [f"device_group_{n:04}" for n in range(1, 101)]


def plan(state: ClusterState) -> Plan:
    """
    Plan.
    """
    return BalancedPlanner().plan(state)


def settled(members: list[str] | dict[str, float], work: list[str]) -> ClusterState:
    """
    Give a cluster that has divided its work.
    """
    state = cluster(members, work)
    return applied(state, plan(state))


class JoinLeaveTests(SynchronousTestCase):
    """
    Members come and go.
    """

    def test_provides_planner(self) -> None:
        """
        It keeps the contract of planners.
        """
        self.assertTrue(verifyObject(IPlanner, BalancedPlanner()))

    def test_first_plan(self) -> None:
        """
        A new cluster divides 100 items among three as 34, 33 and 33.
        """
        state = cluster(["a", "b", "c"], GROUPS)
        found = plan(state)

        self.assertEqual(Counter(map(type, found.operations)), {Assign: 100})
        self.assertEqual(
            Counter(found.placements.values()), {"a": 34, "b": 33, "c": 33}
        )

    def test_member_gone(self) -> None:
        """
        When a member is gone exactly its items move.
        """
        state = settled(["a", "b", "c"], GROUPS)
        found = plan(evolve(state, members=cluster(["a", "c"]).members))

        self.assertEqual(
            {op.work for op in found.operations}, set(state.assignments["b"])
        )
        self.assertEqual({type(op) for op in found.operations}, {Move})
        self.assertEqual(Counter(found.placements.values()), {"a": 50, "c": 50})

    def test_member_joins(self) -> None:
        """
        A new member is given its share, and nothing moves between others.
        """
        state = settled(["a", "b", "c"], GROUPS)
        found = plan(evolve(state, members=cluster(["a", "b", "c", "d"]).members))

        self.assertEqual(len(found.operations), 25)
        for operation in found.operations:
            assert isinstance(operation, Move)
            self.assertEqual(operation.target, "d")

    def test_member_leaving(self) -> None:
        """
        A member that says it leaves gives up all it has and gets nothing.
        """
        state = settled(["a", "b", "c"], GROUPS)
        away = cluster(["a", "b", "c"], leaving=["b"]).members
        found = plan(evolve(state, members=away))

        self.assertEqual(
            {op.work for op in found.operations}, set(state.assignments["b"])
        )
        self.assertNotIn("b", found.placements.values())

    def test_member_wanted_away(self) -> None:
        """
        A member an operator wants away is treated like one that leaves.
        """
        state = settled(["a", "b"], GROUPS)
        found = plan(evolve(state, node_intents={"b": "leave"}))

        self.assertEqual(Counter(found.placements.values()), {"a": 100})

    def test_maintenance(self) -> None:
        """
        A member in maintenance keeps what it has and gets nothing new: new
        items are divided among the others alone (cluster leader, 1.6).
        """
        state = evolve(
            settled(["a", "b", "c"], GROUPS), node_intents={"b": "maintenance"}
        )
        self.assertEqual(plan(state).operations, ())

        more = {**state.work, **dict.fromkeys(names("new", 20), b"")}
        found = plan(evolve(state, work=more))

        self.assertEqual({type(op) for op in found.operations}, {Assign})
        self.assertEqual(
            Counter(found.placements.values()), {"a": 44, "b": 33, "c": 43}
        )

    def test_maintenance_counts_for_nothing(self) -> None:
        """
        What a member in maintenance has makes no difference to how the others
        share the rest.
        """
        state = cluster(
            ["a", "b", "c"],
            names("w", 20),
            {"a": names("w", 12), "b": names("w", 20)[12:]},
        )
        found = plan(evolve(state, node_intents={"a": "maintenance"}))

        self.assertEqual(Counter(found.placements.values()), {"a": 12, "b": 4, "c": 4})
        self.assertEqual(len(found.operations), 4)

    def test_back_from_maintenance(self) -> None:
        """
        A member that is wanted online again gets its share back.
        """
        state = cluster(["a", "b"], GROUPS, {"a": GROUPS[:90], "b": GROUPS[90:]})
        away = evolve(state, node_intents={"b": "maintenance"})

        self.assertEqual(plan(away).operations, ())
        self.assertEqual(Counter(plan(state).placements.values()), {"a": 50, "b": 50})

    def test_maintenance_dies(self) -> None:
        """
        When a member in maintenance is gone exactly its items move.
        """
        state = settled(["a", "b", "c"], GROUPS)
        found = plan(
            evolve(
                state,
                members=cluster(["a", "c"]).members,
                node_intents={"b": "maintenance"},
            )
        )

        self.assertEqual(
            {op.work for op in found.operations}, set(state.assignments["b"])
        )
        self.assertEqual(Counter(found.placements.values()), {"a": 50, "c": 50})

    def test_weights_beside_maintenance(self) -> None:
        """
        The rest is divided by the weights of the others.
        """
        state = cluster({"a": 1, "b": 3, "c": 50}, names("w", 10), {"c": names("w", 2)})
        found = plan(evolve(state, node_intents={"c": "maintenance"}))

        self.assertEqual(Counter(found.placements.values()), {"a": 2, "b": 6, "c": 2})

    def test_weight_zero(self) -> None:
        """
        A member of weight 0 gets nothing and gives up what it has.
        """
        state = cluster({"a": 1, "b": 0}, ["x", "y"], {"b": ["x"]})
        found = plan(state)

        self.assertEqual(found.operations, (Move("x", "b", "a"), Assign("y", "a")))

    def test_last_member_leaves(self) -> None:
        """
        With nobody to take them items stay, and new ones are told as errors.
        """
        state = cluster(["a"], ["x", "y"], {"a": ["x"]}, leaving=["a"])
        found = plan(state)

        self.assertEqual(found.operations, ())
        self.assertEqual(found.placements, {"x": "a"})
        self.assertEqual(
            found.errors, {"y": "no member can take work: all are leaving"}
        )

    def test_no_members(self) -> None:
        """
        Without any member nothing is planned, and no assignment deleted (B8).
        """
        state = cluster([], ["x"], {"a": ["x", "old"], "b": ["x"]})
        found = plan(state)

        self.assertEqual(found.operations, ())
        self.assertEqual(found.placements, {"x": "a"})

    def test_frozen(self) -> None:
        """
        While operators want no planning there is none.
        """
        found = plan(evolve(cluster(["a"], ["x"]), frozen=True))

        self.assertEqual(found, Plan())

    def test_weights(self) -> None:
        """
        Items go by weight.
        """
        state = settled({"a": 1, "b": 2, "c": 1}, GROUPS)

        self.assertEqual(
            {m: len(items) for m, items in state.assignments.items()},
            {"a": 25, "b": 50, "c": 25},
        )


class WorkTests(SynchronousTestCase):
    """
    Work comes and goes, or lies about.
    """

    def test_no_work_left(self) -> None:
        """
        When all work was deleted every assignment is (B7).
        """
        state = evolve(settled(["a", "b"], ["x", "y"]), work={})
        found = plan(state)

        self.assertEqual(found.operations, (Unassign("x", "a"), Unassign("y", "b")))
        self.assertEqual(found.placements, {})

    def test_new_item(self) -> None:
        """
        A new item goes to a member with room; nothing else happens.
        """
        state = settled(["a", "b"], ["x", "y", "z"])
        found = plan(evolve(state, work={**state.work, "a-new-one": b""}))

        self.assertEqual(found.operations, (Assign("a-new-one", "b"),))

    def test_stays_with_its_owner(self) -> None:
        """
        Items that nobody has, but that run somewhere, stay there: all of Consul's
        memory was lost, and the work restored.
        """
        owners = {"w1": "c", "w2": "c", "w3": "b", "w4": "a", "w5": "a"}
        state = evolve(
            cluster(["a", "b", "c"], owners),
            owners={work: OwnerRecord(owner, "s") for work, owner in owners.items()},
        )
        found = plan(state)

        self.assertEqual(found.placements, owners)

    def test_not_beyond_an_even_share(self) -> None:
        """
        An owner keeps as many of such items as it has room for; owners that are
        gone, or may have no work, keep none.
        """
        owners = {"w1": "a", "w2": "a", "w3": "a", "w4": "gone", "w5": "off"}
        state = evolve(
            cluster({"a": 1, "b": 1, "off": 0}, ["x", *owners], {"a": ["x"]}),
            owners={work: OwnerRecord(owner, "s") for work, owner in owners.items()},
        )
        found = plan(state)

        self.assertEqual(
            found.placements,
            {"x": "a", "w1": "a", "w2": "a", "w3": "b", "w4": "b", "w5": "b"},
        )

    def test_assignments_of_the_dead_without_work(self) -> None:
        """
        What a dead member had and nobody wants any more is cleaned away.
        """
        found = plan(cluster(["a"], [], {"dead": ["x"]}))

        self.assertEqual(found.operations, (Unassign("x", "dead"),))

    def test_duplicate_goes_to_the_one_with_fewer(self) -> None:
        """
        An item that two members have stays with the one that has less.
        """
        state = cluster(["a", "b"], ["x", "y", "z"], {"a": ["x", "y"], "b": ["x"]})
        found = plan(state)

        self.assertEqual(found.operations, (Unassign("x", "a"), Assign("z", "a")))

    def test_duplicate_stays_with_its_owner(self) -> None:
        """
        An item that two members have stays where it runs.
        """
        state = cluster(["a", "b"], ["x", "y"], {"a": ["x", "y"], "b": ["x"]})
        state = evolve(state, owners={"x": OwnerRecord("a", "s")})
        found = plan(state)

        self.assertEqual(found.operations[0], Unassign("x", "b"))

    def test_duplicate_of_the_dead(self) -> None:
        """
        An item of a dead and a living member stays with the living one, though
        the dead one's owner record is still there.
        """
        state = cluster(["b"], ["x"], {"a": ["x"], "b": ["x"]})
        state = evolve(state, owners={"x": OwnerRecord("a", "s")})

        self.assertEqual(plan(state).operations, (Unassign("x", "a"),))

    def test_illegal_assignments_are_not_touched(self) -> None:
        """
        What is not in the state, because its key cannot be ours, is in no
        operation.
        """
        state = evolve(cluster(["a"], ["x"]), stray=("service/voltha/work/a/b",))

        self.assertEqual(plan(state).operations, (Assign("x", "a"),))


class PropertyTests(SynchronousTestCase):
    """
    What holds for all states.
    """

    @given(clusters())
    def test_complete_and_even(self, state: ClusterState) -> None:
        """
        Once applied every item has one member that may have it, the counts are
        the apportionment, and ``placements`` told so.
        """
        found = plan(state)
        if not state.members:
            self.assertEqual(found.operations, ())
            return
        after = placed(applied(state, found))

        self.assertEqual(after, found.placements)
        self.assertEqual(set(after) | set(found.errors), set(state.work))
        if state.receivers:
            held = Counter(m for m in after.values() if m not in state.keepers)
            targets = apportion(state.receivers, held.total(), held)
            self.assertEqual({m: n for m, n in targets.items() if n}, held)

    @given(clusters())
    def test_calm(self, state: ClusterState) -> None:
        """
        In the state a plan leads to, nothing is planned.
        """
        found = plan(applied(state, plan(state)))

        self.assertEqual(found.operations, ())

    @given(clusters(unique=True))
    def test_fewest_moves(self, state: ClusterState) -> None:
        """
        As many items move as members have too many, and no more; each one
        once.  What is with members in maintenance is left out.
        """
        if not state.receivers:
            return
        found = plan(state)
        held = Counter(m for w, m in placed(state).items() if w in state.work)
        kept = sum(held.pop(name, 0) for name in state.keepers)
        targets = apportion(state.receivers, len(state.work) - kept, held)
        forced = sum(max(0, n - targets.get(m, 0)) for m, n in held.items())
        moves = [op for op in found.operations if isinstance(op, Move)]

        self.assertEqual(len(moves), forced)
        self.assertEqual(len({op.work for op in moves}), len(moves))

    @given(clusters())
    def test_duplicates_are_only_taken_away(self, state: ClusterState) -> None:
        """
        No item is moved to a member that has it, and none is taken from the
        member it is to have.
        """
        found = plan(state)

        for op in found.operations:
            if isinstance(op, Unassign):
                self.assertNotEqual(found.placements.get(op.work), op.member)
            else:
                target = op.target if isinstance(op, Move) else op.member
                self.assertNotIn(op.work, state.assignments.get(target, ()))

    @given(clusters(), st.data())
    def test_order_makes_no_difference(
        self, state: ClusterState, data: st.DataObject
    ) -> None:
        """
        The order in which Consul told things makes no difference.
        """
        self.assertEqual(plan(shuffled(data, state)), plan(state))

    @given(
        st.sets(st.sampled_from(names("m", 8)), min_size=2),
        st.integers(0, 60),
        st.data(),
    )
    def test_leaving_moves_exactly_its_items(
        self, members: set[str], items: int, data: st.DataObject
    ) -> None:
        """
        Whoever leaves, exactly its items move.
        """
        state = settled(sorted(members), names("w", items))
        gone = data.draw(st.sampled_from(sorted(members)))
        found = plan(evolve(state, members=cluster(members - {gone}).members))

        self.assertEqual(
            {op.work for op in found.operations},
            set(state.assignments.get(gone, ())),
        )

    @given(clusters())
    def test_states_are_not_changed(self, state: ClusterState) -> None:
        """
        Planning changes nothing in the state it is given.
        """
        before = repr(state)
        plan(state)

        self.assertEqual(repr(state), before)
