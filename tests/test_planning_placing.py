"""
The planner of the resource leader, from a cluster's state to its assignments.
"""

from __future__ import annotations

import math
from typing import Any, cast

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.apply import Application, prepare
from voltha_coord.consul.model import Op
from voltha_coord.consul.transaction import pack
from voltha_coord.ownership import Judge
from voltha_coord.planning.actions import Add, Skip
from voltha_coord.planning.actions import Move as MoveAction
from voltha_coord.planning.observe import MOST_BYTES, MOST_BYTES_FORCED
from voltha_coord.planning.operations import (
    Assign,
    Move,
    Plan,
    Reassign,
    Spent,
    Unassign,
)
from voltha_coord.planning.placing import PLAN_BUDGET, ResourcePlanner, plan_alone
from voltha_coord.planning.state import LEAVE, MAINTENANCE, ClusterState, Recalled
from voltha_coord.planning.synchronize import COST
from voltha_coord.planning.takeover import take_over
from voltha_coord.records import PREPARE, RUN, Assignment, WorkItem

from .support.resourceful import (
    KEYS,
    assigned,
    carried_out,
    gone,
    item,
    reporting,
    resourceful,
)

ROOM = {"m1": (7.0, 35.0), "m2": (1.0, 1.0)}


def told(member: str, one: WorkItem, phase: str = RUN, restart: int = 0) -> bytes:
    """
    Give the value of an assignment.
    """
    return Assignment(member, one.id, phase, one, restart).encode()


class PlannerTestCase(SynchronousTestCase):
    """
    An item that runs on one of two members, or nowhere yet.
    """

    def setUp(self) -> None:
        """
        Have an item, and members.
        """
        self.bare = resourceful(ROOM, [item()])
        self.placed = self.running(self.bare, "m1", item())

    def running(
        self, state: ClusterState, member: str, one: WorkItem, /, **status: Any
    ) -> ClusterState:
        """
        Give the state with an item that runs on a member, and is measured.
        """
        usage = {"usage": {"cpu": 5, "memory": 6}, "digest": one.digest}
        return reporting(
            assigned(state, member, one), member, one.id, **{**usage, **status}
        )

    def plan(self, state: ClusterState) -> Plan:
        """
        Plan, and see that there is nothing left to be planned then.
        """
        plan = ResourcePlanner().plan(state)
        again = ResourcePlanner().plan(carried_out(state, plan))
        self.assertEqual(again.operations, ())
        return plan


class PlacingTests(PlannerTestCase):
    """
    Plans, and what they are written as.
    """

    def test_placed(self) -> None:
        """
        An item is assigned where there is most room, as it is to be applied.
        """
        plan = self.plan(self.bare)

        self.assertEqual(plan.operations, (Assign("w1", "m2", told("m2", item())),))
        self.assertEqual(plan.placements, {"w1": "m2"})
        self.assertEqual(plan.steps, (Add("w1", "m2"),))

    def test_nothing_to_do(self) -> None:
        """
        What is as it is to be stays so, and there is nothing to tell.
        """
        plan = self.plan(self.placed)

        self.assertEqual(plan.operations, ())
        self.assertEqual(plan.placements, {"w1": "m1"})
        self.assertEqual((plan.errors, plan.steps), ({}, ()))

    def test_frozen(self) -> None:
        """
        While planning is frozen nothing is planned; where things are is told.
        """
        state = evolve(self.placed, frozen=True, work={})
        state = evolve(state, work={"w1": b"{}", "w2": b"{}"})

        self.assertEqual(ResourcePlanner().plan(state), Plan(placements={"w1": "m1"}))

    def test_no_members(self) -> None:
        """
        Without any member nothing is planned.
        """
        state = gone(self.placed, "m1", "m2", awaited=False)

        self.assertEqual(ResourcePlanner().plan(state), Plan(placements={"w1": "m1"}))

    def test_rejected(self) -> None:
        """
        What finds no room has an error, and no place.
        """
        plan = self.plan(resourceful(ROOM, [item(limits={"cpu": 99, "memory": 1})]))

        self.assertEqual(plan.operations, ())
        self.assertIn("no node with enough resources", plan.errors["w1"])
        self.assertEqual(plan.placements, {})

    def test_changed(self) -> None:
        """
        A changed item is handed anew to the member that has it; its order stays
        until it is changed itself.
        """
        other = item(config={"command": ["x"]}, order="stop")
        state = evolve(self.placed, work={"w1": other.encode()})

        plan = self.plan(state)

        self.assertEqual(plan.operations, (Reassign("w1", "m1", told("m1", other)),))

    def test_values_alike(self) -> None:
        """
        What Python takes for equal, and JSON does not, is a change.
        """
        for before, after in ((1, True), (True, 1), (0, False), ([0], [False])):
            placed = self.running(self.bare, "m1", item(config=before))
            state = evolve(placed, work={"w1": item(config=after).encode()})

            (operation,) = self.plan(state).operations

            self.assertIsInstance(operation, Reassign)

    def test_settled_whatever_it_says(self) -> None:
        """
        An item that is as it is to be stays so, however its fields are written.
        """
        for value in (
            b'{"limits":{"memory":20,"cpu":10},"config":{}}',
            b'{"limits":{"cpu":10.0,"memory":2e1},"config":null,"weight":1.0}',
            b'{"limits":{"cpu":10,"memory":20},"metadata":{"a":null},"order":"start"}',
            b'{"limits":{"cpu":10,"memory":20},"metadata":null,"force":false}',
            b'{"limits":{"cpu":10,"memory":20},"weight":2.0,"x":{},"y":null}',
            b'{"limits":{"cpu":10,"memory":20,"gpu":null},"reference":null}',
            b'{"limits":{"cpu":10,"memory":20},"order":"stop","force":true}',
        ):
            plan = self.plan(evolve(self.bare, work={"w1": value}))

            self.assertEqual(len(plan.operations), 1, value)

    def test_order(self) -> None:
        """
        An order alone changes the order alone.
        """
        stop = item(order="stop")
        stopped = self.running(self.bare, "m1", stop, state="stopped", usage={})

        to_stop = self.plan(evolve(self.placed, work={"w1": stop.encode()}))
        to_start = self.plan(evolve(stopped, work={"w1": item().encode()}))

        self.assertEqual(to_stop.operations, (Reassign("w1", "m1", told("m1", stop)),))
        self.assertEqual(
            to_start.operations, (Reassign("w1", "m1", told("m1", item())),)
        )

    def test_force(self) -> None:
        """
        An item that is to be started anew is handed on with the number of that
        wish, which is used up with it: it is so once, whatever else changes
        later.
        """
        forced = item(force=True)
        state = evolve(self.placed, work={"w1": forced.encode()})

        plan = self.plan(state)

        spent = Spent(item().encode(), 100)
        self.assertEqual(
            plan.operations,
            (Reassign("w1", "m1", told("m1", item(), restart=100), spent),),
        )
        after = carried_out(state, plan)
        later = evolve(after, work={"w1": item(metadata={"a": 1}).encode()})
        (operation,) = self.plan(later).operations
        self.assertEqual(
            operation,
            Reassign("w1", "m1", told("m1", item(metadata={"a": 1}), restart=100)),
        )

    def test_large(self) -> None:
        """
        What is to be written for one item goes into one transaction, however
        large it may be, and whatever is wanted of it.
        """
        for force, most in ((False, MOST_BYTES), (True, MOST_BYTES_FORCED)):
            large = item(config="x" * (most - 100), force=force)
            state = evolve(self.placed, work={"w1": large.encode()})
            term = Op.cas("k" * 200, b"x" * 1000, 1)

            plan = self.plan(state)
            prepared = prepare(KEYS, state, plan, cast(Judge, None))
            application: Application = self.successResultOf(prepared)
            (group,) = application.groups

            self.assertEqual(plan.errors, {})
            self.assertEqual(len(pack([(term, *group)])), 1)
            larger = item(config="x" * most, force=force)
            state = evolve(self.placed, work={"w1": larger.encode()})
            self.assertIn(f"may have {most}", self.plan(state).errors["w1"])

    def test_forced_and_new(self) -> None:
        """
        One that is placed anew is started anyway: the wish is used up.
        """
        state = resourceful(ROOM, [item(force=True)])

        plan = self.plan(state)

        spent = Spent(item().encode(), 100)
        self.assertEqual(
            plan.operations, (Assign("w1", "m2", told("m2", item()), spent),)
        )

    def test_bad_item_that_runs(self) -> None:
        """
        An item that cannot be read any more goes on as it was, with an error.
        """
        state = evolve(self.placed, work={"w1": b'{"limits":{"cpu":"x"}}'})

        plan = self.plan(state)

        self.assertEqual(plan.operations, ())
        self.assertIn("limits.cpu", plan.errors["w1"])
        self.assertEqual(plan.placements, {"w1": "m1"})

    def test_deleted(self) -> None:
        """
        What is no work any more is taken from its member, and what was being
        made ready elsewhere too.
        """
        state = evolve(assigned(self.placed, "m2", item(), PREPARE), work={})

        self.assertEqual(
            self.plan(state).operations, (Unassign("w1", "m1"), Unassign("w1", "m2"))
        )

    def test_duplicate(self) -> None:
        """
        Of two members that are to run an item its owner keeps it.
        """
        twice = assigned(self.placed, "m2", item())
        again = evolve(twice, owners=self.placed.owners)

        self.assertEqual(self.plan(twice).operations, (Unassign("w1", "m1"),))
        self.assertEqual(self.plan(again).operations, (Unassign("w1", "m2"),))

    def test_bare_assignments(self) -> None:
        """
        What a simple leader assigned stays where it is, and is told what it is.
        """
        state = evolve(self.placed, assignments={"m1": {"w1": b""}})

        self.assertEqual(
            self.plan(state).operations, (Reassign("w1", "m1", told("m1", item())),)
        )

    def test_owned_and_not_assigned(self) -> None:
        """
        What a member runs without being told to any more it goes on with.
        """
        state = evolve(self.placed, assignments={})

        self.assertEqual(
            self.plan(state).operations, (Assign("w1", "m1", told("m1", item())),)
        )


class GoneTests(PlannerTestCase):
    """
    Items of members that are gone.
    """

    def test_kept(self) -> None:
        """
        They are kept while the member is awaited: nothing is written, and the
        error says what is waited for.
        """
        plan = self.plan(gone(self.placed, "m1"))

        self.assertEqual((plan.operations, plan.kept), ((), frozenset({"w1"})))
        self.assertIn("m1 is gone", plan.errors["w1"])

    def test_placed_anew(self) -> None:
        """
        Then they are placed anew, in one step with what is taken from it.
        """
        plan = self.plan(gone(self.placed, "m1", awaited=False))

        self.assertEqual(plan.operations, (Move("w1", "m1", "m2", told("m2", item())),))
        self.assertEqual((plan.kept, plan.errors), (frozenset(), {}))

    def test_given_back(self) -> None:
        """
        What it gave back before it went is placed anew at once.
        """
        state = assigned(self.bare, "m1", item(), owned=False)

        plan = self.plan(gone(state, "m1"))

        self.assertEqual(plan.operations, (Move("w1", "m1", "m2", told("m2", item())),))

    def test_no_room(self) -> None:
        """
        What finds no other place keeps its assignment: its member may come back
        after all.
        """
        big = item(limits={"cpu": 99, "memory": 1})
        state = assigned(resourceful(ROOM, [big]), "m1", big)

        plan = self.plan(gone(state, "m1", awaited=False))

        self.assertEqual(plan.operations, ())
        self.assertEqual(set(plan.errors), {"w1"})

    def test_runs_elsewhere(self) -> None:
        """
        What has another place by now is taken from it, and what is no work any
        more as well, also while it is awaited.
        """
        state = assigned(self.placed, "m2", item("w2"))
        state = assigned(state, "m2", item())

        plan = self.plan(gone(state, "m2"))

        self.assertEqual(plan.operations, (Unassign("w1", "m2"), Unassign("w2", "m2")))

    def test_move_of_its_own(self) -> None:
        """
        A move from a member that is gone is called off; if the target is the
        best place, it is to run there.
        """
        state = assigned(self.placed, "m2", item(), PREPARE)

        kept = self.plan(gone(state, "m1"))
        lost = self.plan(gone(state, "m1", awaited=False))

        self.assertEqual(kept.operations, (Unassign("w1", "m2"),))
        self.assertEqual(lost.operations, (Move("w1", "m1", "m2", told("m2", item())),))

    def test_alone(self) -> None:
        """
        Who is cut off takes over what fits, and moves nothing: its own node may
        have too much to do.
        """
        state = self.running(self.bare, "m2", item())
        member = state.members["m1"]

        taken = take_over(state, member, plan_alone(), (), 5.0)

        self.assertEqual(dict(taken.items), {"w1": item().encode()})

    def test_many_alone(self) -> None:
        """
        That is planned once, and so without any bound.
        """
        small = {"cpu": 0.001, "memory": 0.001}
        work = [item(f"w{n}", limits=small) for n in range(PLAN_BUDGET // COST + 9)]
        state = resourceful(ROOM, work)
        member = state.members["m1"]

        taken = take_over(state, member, plan_alone(), (), 5.0)

        self.assertEqual(len(taken.items), len(work))


class MovingTests(PlannerTestCase):
    """
    Moves, step by step.
    """

    def wish(self, state: ClusterState, member: str = "m2") -> ClusterState:
        """
        Give the state with an operator's wish.
        """
        return evolve(state, relocations={"w1": member}, relocation_index={"w1": 7})

    def test_begun(self) -> None:
        """
        A move begins with making the item ready on its target; the wish stands.
        """
        plan = self.plan(self.wish(self.placed))

        self.assertEqual(
            plan.operations, (Assign("w1", "m2", told("m2", item(), PREPARE)),)
        )
        self.assertEqual((plan.moving, plan.relocated), ({"w1": "m2"}, ()))
        self.assertEqual(plan.placements, {"w1": "m1"})
        self.assertEqual(plan.steps, (MoveAction("w1", "m1", "m2"),))

    def test_going_on(self) -> None:
        """
        It is waited for, and no other move is begun.
        """
        state = assigned(self.placed, "m2", item(), PREPARE)

        plan = self.plan(self.wish(state, ""))

        self.assertEqual((plan.operations, plan.moving), ((), {"w1": "m2"}))

    def test_completed(self) -> None:
        """
        Once the item is ready it is taken from the one and given to the other
        in one step, with all that is told of it, and the wish is fulfilled.
        """
        state = assigned(self.placed, "m1", item(), restart=33)
        state = assigned(state, "m2", item(), PREPARE)
        state = reporting(state, "m2", "w1", state="prepared", digest=item().digest)

        plan = self.plan(self.wish(state))

        self.assertEqual(
            plan.operations,
            (Move("w1", "m1", "m2", told("m2", item(), restart=33)),),
        )
        self.assertEqual((plan.moving, plan.relocated), ({}, ("w1",)))
        self.assertEqual(plan.placements, {"w1": "m2"})

    def test_completed_with_another_order(self) -> None:
        """
        An order that came meanwhile goes along.
        """
        state = assigned(self.placed, "m2", item(), PREPARE)
        state = reporting(state, "m2", "w1", state="prepared", digest=item().digest)
        stop = item(order="stop")

        plan = self.plan(evolve(state, work={"w1": stop.encode()}))

        self.assertEqual(plan.operations, (Move("w1", "m1", "m2", told("m2", stop)),))

    def test_given_up(self) -> None:
        """
        A move that cannot go on is taken back; why is told, and the wish
        stands.
        """
        state = assigned(self.placed, "m2", item(), PREPARE)
        state = reporting(state, "m2", "w1", state="failed", error="nothing there")

        plan = ResourcePlanner().plan(evolve(state, recalled=Recalled()))

        self.assertEqual(plan.operations, (Unassign("w1", "m2"),))
        self.assertEqual(plan.given_up, frozenset({"w1"}))
        self.assertIn("nothing there", plan.skipped["w1"])
        self.assertEqual(plan.errors, {})

    def test_held(self) -> None:
        """
        What is not to be moved for some time is left where it is.
        """
        state = evolve(
            self.wish(self.placed), recalled=Recalled(held={"w1": "not now"})
        )

        plan = self.plan(state)

        self.assertEqual((plan.operations, plan.relocated), ((), ()))
        self.assertEqual(plan.skipped, {"w1": "not now"})

    def test_fulfilled_already(self) -> None:
        """
        A wish for where the item is, and one for no item at all, is fulfilled.
        """
        state = evolve(
            self.placed,
            relocations={"w1": "m1", "old": ""},
            relocation_index={"w1": 7, "old": 8},
        )

        self.assertEqual(self.plan(state).relocated, ("old", "w1"))

    def test_no_room(self) -> None:
        """
        A wish that cannot be fulfilled stands; the item is none the worse.
        """
        state = evolve(self.wish(self.placed), node_intents={"m2": MAINTENANCE})

        plan = self.plan(state)

        self.assertEqual((plan.operations, plan.relocated, plan.errors), ((), (), {}))
        self.assertIn("relocating", plan.skipped["w1"])
        self.assertIsInstance(plan.steps[0], Skip)

    def test_cannot_be_there(self) -> None:
        """
        Why it cannot be on the member that an operator has named is told.
        """
        alone = resourceful({"m1": (7.0, 35.0), "m2": (85.0, 1.0)}, [item()])
        state = self.running(alone, "m1", item())
        resting = evolve(state, node_intents={"m2": MAINTENANCE})
        for one, wish, why in (
            (state, "m2", "m2, where it is wanted, is without room for it; no node"),
            (resting, "m2", "m2, where it is wanted, is in maintenance; no node"),
            (state, "m9", "m9, where it is wanted, is no member; no node"),
            (state, "", "no node"),
        ):
            skipped = self.plan(self.wish(one, wish)).skipped["w1"]
            self.assertTrue(skipped.startswith(why), skipped)

    def test_left(self) -> None:
        """
        A member that is to be left gives up what it has, without any wish.
        """
        state = evolve(self.placed, node_intents={"m1": LEAVE})

        plan = self.plan(state)

        self.assertEqual(plan.moving, {"w1": "m2"})
        self.assertEqual(plan.relocated, ())

    def test_in_maintenance(self) -> None:
        """
        One in maintenance keeps what it has.
        """
        state = evolve(self.placed, node_intents={"m1": MAINTENANCE})

        self.assertEqual(self.plan(state).operations, ())

    def test_rebalanced(self) -> None:
        """
        A member with too much to do gives something up.
        """
        state = resourceful({"m1": (95, 35), "m2": (1, 1)}, [item()])
        state = self.running(state, "m1", item())

        self.assertEqual(self.plan(state).moving, {"w1": "m2"})

    def test_settling(self) -> None:
        """
        One that has just given something up is measured first.
        """
        state = resourceful({"m1": (95, 35), "m2": (1, 1)}, [item()])
        state = self.running(state, "m1", item())
        settling = Recalled(settling=frozenset({"m1"}))

        self.assertEqual(self.plan(evolve(state, recalled=settling)).moving, {})

    def test_moved_once(self) -> None:
        """
        What rebalancing moves is not moved elsewhere by an operator's wish in
        the same pass.
        """
        room = {"m1": (95.0, 35.0), "m2": (1.0, 1.0), "m3": (2.0, 1.0)}
        state = self.running(resourceful(room, [item()]), "m1", item())

        plan = self.plan(self.wish(state, "m3"))

        self.assertEqual((plan.moving, plan.relocated), ({"w1": "m2"}, ()))

    def ready(self, wish: str, third: tuple[float, float] = (2.0, 1.0)) -> Plan:
        """
        Plan where the item is ready on another member, and wanted somewhere.
        """
        room = {"m1": (7.0, 35.0), "m2": (1.0, 1.0), "m3": third}
        state = self.running(resourceful(room, [item()]), "m1", item())
        state = assigned(state, "m2", item(), PREPARE)
        state = reporting(state, "m2", "w1", state="prepared", digest=item().digest)
        plan = ResourcePlanner().plan(self.wish(state, wish))
        self.assertEqual(plan.placements, {"w1": "m2"})
        return plan

    def test_moved_elsewhere(self) -> None:
        """
        A wish for a member that has room stands while the item is moved to
        another one, for whatever reason that was begun.
        """
        self.assertEqual(self.ready("m3").relocated, ())

    def test_moved_where_it_can_be(self) -> None:
        """
        It is fulfilled when the item moves there, or when there is no room and
        it moves to any other; so is one for any other.
        """
        self.assertEqual(self.ready("m2").relocated, ("w1",))
        self.assertEqual(self.ready("").relocated, ("w1",))
        self.assertEqual(self.ready("m3", (90.0, 1.0)).relocated, ("w1",))
        self.assertEqual(self.ready("m9").relocated, ("w1",))

    def test_owned_where_it_is_prepared(self) -> None:
        """
        Where a member is only to make ready what it runs still, and nobody else
        is to run it, it is to run it there.
        """
        state = assigned(self.placed, "m1", item(), PREPARE)

        plan = self.plan(state)

        self.assertEqual(plan.operations, (Reassign("w1", "m1", told("m1", item())),))

    def test_not_assigned(self) -> None:
        """
        What its member runs without being told to is assigned there first; it
        may let go of it any moment.  What cannot be read cannot be assigned, and
        is left alone.
        """
        for value, operations in (
            (item().encode(), (Assign("w1", "m1", told("m1", item())),)),
            (b'{"limits":{"cpu":"x"}}', ()),
        ):
            state = evolve(self.placed, assignments={}, work={"w1": value})

            plan = ResourcePlanner().plan(self.wish(state))

            self.assertEqual(plan.operations, operations)
            self.assertEqual(plan.moving, {})

    def test_bad_item_moves(self) -> None:
        """
        An item that cannot be read any more moves as it was.
        """
        state = assigned(self.placed, "m2", item(), PREPARE)
        state = reporting(state, "m2", "w1", state="prepared", digest=item().digest)
        bad = evolve(state, work={"w1": b'{"limits":{"cpu":"x"}}'})

        plan = self.plan(self.wish(bad))

        self.assertEqual(plan.operations, (Move("w1", "m1", "m2", told("m2", item())),))
        self.assertIn("is not a number", plan.errors["w1"])

    def test_changed_while_it_moves(self) -> None:
        """
        One that becomes something else is changed first, and moved then.
        """
        other = item(config="x")
        state = assigned(self.placed, "m2", item(), PREPARE)
        state = evolve(state, work={"w1": other.encode()})

        plan = ResourcePlanner().plan(state)

        self.assertEqual(
            plan.operations,
            (Unassign("w1", "m2"), Reassign("w1", "m1", told("m1", other))),
        )


#: So many items are placed by one plan.
AT_ONCE = math.ceil(PLAN_BUDGET / COST)


class CostTests(SynchronousTestCase):
    """
    Note [What one plan may cost].
    """

    def cluster(self, items: int) -> ClusterState:
        """
        Give a cluster with so many items to be placed.
        """
        small = {"cpu": 0.001, "memory": 0.001}
        work = [item(f"w{n:05}", limits=small) for n in range(items)]
        return resourceful(ROOM, work)

    def test_several(self) -> None:
        """
        One plan places many items, and each once.
        """
        plan = ResourcePlanner().plan(self.cluster(100))

        self.assertEqual(len(plan.operations), 100)
        self.assertEqual(len({o.work for o in plan.operations}), 100)
        self.assertEqual(plan.pending, frozenset())

    def test_bounded(self) -> None:
        """
        What is left over is pending; of it nothing is told.
        """
        state = self.cluster(AT_ONCE + 10)
        last = f"w{AT_ONCE + 9:05}"
        state = evolve(state, work={**state.work, last: b"x"})

        plan = ResourcePlanner().plan(state)
        rest = ResourcePlanner().plan(carried_out(state, plan))

        self.assertEqual(len(plan.operations), AT_ONCE)
        self.assertEqual(len(plan.pending), 10)
        self.assertEqual(plan.errors, {})
        self.assertEqual(len(rest.operations), 9)
        self.assertEqual((set(rest.errors), rest.pending), ({last}, frozenset()))
        self.assertEqual((plan.unfinished, rest.unfinished), (True, False))

    def test_starts_left_over(self) -> None:
        """
        Items that are placed and are yet to be started are something left over
        as well, though there is nothing to say of them.
        """
        count = AT_ONCE + 10
        state = self.cluster(count)
        for name in state.work:
            stopped = item(name, limits={"cpu": 0.001, "memory": 0.001}, order="stop")
            state = assigned(state, "m1", stopped)

        plan = ResourcePlanner().plan(state)

        self.assertEqual(len(plan.operations), AT_ONCE)
        self.assertEqual((plan.unfinished, plan.pending), (True, frozenset()))

    def test_moves_left_over(self) -> None:
        """
        So are wishes beyond the budget of one pass.
        """
        state = self.cluster(25)
        for name in state.work:
            one = item(name, limits={"cpu": 0.001, "memory": 0.001})
            state = assigned(state, "m1", one)
        wishes = dict.fromkeys(state.work, "m2")
        index = dict.fromkeys(state.work, 7)
        state = evolve(state, relocations=wishes, relocation_index=index)

        plan = ResourcePlanner().plan(state)
        rest = ResourcePlanner().plan(carried_out(state, plan))

        self.assertEqual((len(plan.moving), plan.unfinished), (20, True))
        self.assertEqual((len(rest.moving), rest.unfinished), (25, False))

    def test_members_one_after_the_other(self) -> None:
        """
        What one member is told comes together.
        """
        work = [item(f"w{n}", limits={"cpu": 1, "memory": 1}) for n in range(9)]
        plan = ResourcePlanner().plan(resourceful(ROOM, work))

        told = [(o.member, o.work) for o in plan.operations if isinstance(o, Assign)]

        self.assertEqual(len(told), 9)
        self.assertGreater(len({member for member, _ in told}), 1)
        self.assertEqual(told, sorted(told))

    def test_step_by_step(self) -> None:
        """
        It can be interrupted, and comes to the same.
        """
        state = self.cluster(10)
        steps = ResourcePlanner().steps(state)

        count = 0
        with self.assertRaises(StopIteration) as ended:
            while True:
                next(steps)
                count += 1

        self.assertGreater(count, 1)
        self.assertEqual(ended.exception.value, ResourcePlanner().plan(state))
