"""
What is wanted is made to be, and nothing else.
"""

from __future__ import annotations

from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.actions import (
    Action,
    Add,
    Delete,
    Error,
    Null,
    Reject,
    Start,
    Stop,
    Update,
)
from voltha_coord.planning.deployment import NODE_STATES, Node, Wanted
from voltha_coord.planning.resources import Ledger
from voltha_coord.planning.shares import Gpu, GpuShare, Resources, Share
from voltha_coord.planning.synchronize import (
    NO_LIMITS,
    NO_ROOM,
    Synchronized,
    advance,
    metadata_change,
    synchronize,
)

from .support.deployments import deployment, node, process, wanted

ONE, TWO = node("n1"), node("n2")


def planned(*nodes: Any, **fields: Any) -> tuple[Action, ...]:
    """
    Give what is to be done in a state.
    """
    return synchronize(deployment(*nodes, **fields)).operations


def used(result: Synchronized, name: str) -> tuple[float, float]:
    """
    Give the CPU and memory that a node uses afterwards.
    """
    resources = result.ledger.resources[name]
    return resources.cpu, resources.memory


class CompareTests(SynchronousTestCase):
    """
    What there is, beside what is wanted.
    """

    def test_as_wanted(self) -> None:
        """
        Where all is well nothing is to be done, and that is said of each.
        """
        result = synchronize(
            deployment(ONE, work=[wanted("a")], processes=[process("a", "n1")])
        )

        self.assertEqual(result.operations, (Null("a"),))
        self.assertEqual(result.placements, {"a": "n1"})
        self.assertEqual(used(result, "n1"), (1, 1))
        self.assertFalse(result.exhausted)

    def test_not_wanted(self) -> None:
        """
        What is not wanted is deleted, and uses nothing any more; there is room
        for others at once.
        """
        full = node("n1", 85, 11)
        result = synchronize(
            deployment(full, work=[wanted("b")], processes=[process("a", "n1")])
        )

        self.assertEqual(result.operations, (Delete("a", "n1"), Add("b", "n1")))
        self.assertEqual(used(result, "n1"), (83, 26))
        self.assertEqual(result.placements, {"b": "n1"})

    def test_deleted_wherever_it_is(self) -> None:
        """
        Also on a node that is given nothing, or not known.
        """
        found = planned(
            node("n1", state="maintenance"),
            processes=[process("a", "n1"), process("b", "n9")],
        )

        self.assertEqual(found, (Delete("a", "n1"), Delete("b", "n9")))

    def test_changed(self) -> None:
        """
        Whatever changed in its description makes an update.
        """
        for before, after in (
            (("config", "limits"), ("config", "others")),
            ({"a": 1}, {"a": 2}),
            (None, 0),
        ):
            found = planned(
                ONE,
                work=[wanted("a", description=after)],
                processes=[process("a", "n1", description=before)],
            )
            self.assertEqual(found, (Update("a", "n1"),))

    def test_equal_descriptions(self) -> None:
        """
        Descriptions that are equal are no change, be they the same or not.
        """
        found = planned(
            ONE,
            work=[wanted("a", description={"a": [1]}, updated_at=9)],
            processes=[process("a", "n1", description={"a": [1]})],
        )

        self.assertEqual(found, (Null("a"),))

    def test_force(self) -> None:
        """
        Force makes an update of what was updated since, and of nothing else.
        """
        for since, found in (
            (8, Update("a", "n1", force=True)),
            (7, Null("a")),
            (6, Null("a")),
        ):
            self.assertEqual(
                planned(
                    ONE,
                    work=[wanted("a", force=True, updated_at=since)],
                    processes=[process("a", "n1", updated_at=7)],
                ),
                (found,),
            )

    def test_force_with_a_change(self) -> None:
        """
        An update for another reason tells of the force, whenever that was asked
        for.
        """
        found = planned(
            ONE,
            work=[wanted("a", force=True, description=1)],
            processes=[process("a", "n1", updated_at=7)],
        )

        self.assertEqual(found, (Update("a", "n1", force=True),))

    def test_metadata(self) -> None:
        """
        Metadata that differs makes an update, which tells what is to go.
        """
        found = planned(
            ONE,
            work=[wanted("a", metadata={"new": 1, "same": 2})],
            processes=[process("a", "n1", metadata={"same": 2, "old": 3})],
        )

        change = {"new": 1, "same": 2, "old": None}
        self.assertEqual(found, (Update("a", "n1", change),))

    def test_updated_where_it_is(self) -> None:
        """
        Larger limits are no reason to move: that is not looked at.
        """
        found = planned(
            node("n1", 80, 80),
            TWO,
            work=[wanted("a", 50, 50, description=1)],
            processes=[process("a", "n1")],
        )

        self.assertEqual(found, (Update("a", "n1"),))

    def test_stop(self) -> None:
        """
        What is to stop is stopped where it is, and uses nothing any more.
        """
        result = synchronize(
            deployment(
                node("n1", 20, 35),
                work=[wanted("a", order="stop")],
                processes=[process("a", "n1")],
            )
        )

        self.assertEqual(result.operations, (Null("a"), Stop("a", "n1")))
        self.assertEqual(used(result, "n1"), (8, 30))
        self.assertEqual(result.placements, {"a": "n1"})

    def test_start(self) -> None:
        """
        What is to start is started where it is, though there be no room; it
        counts with the limits it was given.
        """
        result = synchronize(
            deployment(
                node("n1", 89, 89),
                TWO,
                work=[wanted("a", 3, 4)],
                processes=[process("a", "n1", 0, 0, order="stop")],
            )
        )

        self.assertEqual(result.operations, (Null("a"), Start("a", "n1")))
        self.assertEqual(used(result, "n1"), (99, 109))

    def test_started_and_updated(self) -> None:
        """
        An item may be updated and started in one plan.
        """
        found = planned(
            ONE,
            work=[wanted("a", description=1)],
            processes=[process("a", "n1", order="stop")],
        )

        self.assertEqual(found, (Update("a", "n1"), Start("a", "n1")))

    def test_starts_come_after_all_is_compared(self) -> None:
        """
        What is given back by items later in the order makes room before starts
        are counted.
        """
        result = synchronize(
            deployment(
                node("n1", 5, 5),
                work=[wanted("a")],
                processes=[
                    process("a", "n1", 0, 0, order="stop"),
                    process("z", "n1", 12, 5),
                ],
            )
        )

        # Down to nothing, and up again.
        self.assertEqual(used(result, "n1"), (10, 20))

    def test_order_of_the_list(self) -> None:
        """
        First what is free, then deletions, updates, starts, and what is placed.
        """
        found = planned(
            ONE,
            work=[
                wanted("new"),
                wanted("none", 0, 0),
                wanted("start"),
                wanted("change", description=1),
                wanted("stop", order="stop"),
                wanted("well"),
            ],
            processes=[
                process("start", "n1", order="stop"),
                process("change", "n1"),
                process("gone", "n1"),
                process("stop", "n1"),
                process("well", "n1"),
            ],
        )

        self.assertEqual(
            found,
            (
                Null("start"),
                Null("stop"),
                Stop("stop", "n1"),
                Null("well"),
                Reject("none", NO_LIMITS),
                Delete("gone", "n1"),
                Update("change", "n1"),
                Start("start", "n1"),
                Add("new", "n1"),
            ),
        )

    def test_problem(self) -> None:
        """
        What cannot be read stays as it is where it runs, and is placed nowhere.
        """
        result = synchronize(
            deployment(
                ONE,
                work=[
                    wanted("a", order="stop", description=1, problem="bad"),
                    wanted("b", problem="worse"),
                    wanted("c"),
                ],
                processes=[process("a", "n1")],
            )
        )

        self.assertEqual(
            result.operations,
            (Error("a", "bad"), Error("b", "worse"), Add("c", "n1")),
        )
        self.assertEqual(result.placements, {"a": "n1", "c": "n1"})


class DuplicateTests(SynchronousTestCase):
    """
    An item on several nodes.
    """

    def survivor(self, *nodes: str, placed: str = "") -> str:
        """
        Give where it stays; see that it is deleted everywhere else.
        """
        result = synchronize(
            deployment(
                ONE,
                TWO,
                work=[wanted("a")],
                processes=[process("a", name) for name in nodes],
                placements={"a": placed} if placed else {},
            )
        )
        kept = result.placements["a"]
        gone = tuple(Delete("a", name) for name in sorted({*nodes} - {kept}))
        self.assertEqual(result.operations, (Null("a"), *gone))
        return kept

    def test_where_it_was_placed(self) -> None:
        """
        It stays where it was placed, in whatever order they are listed.
        """
        self.assertEqual(self.survivor("n1", "n2", placed="n2"), "n2")
        self.assertEqual(self.survivor("n2", "n1", placed="n2"), "n2")
        self.assertEqual(self.survivor("n2", "n1", placed="n1"), "n1")

    def test_first_by_id(self) -> None:
        """
        Where it was placed elsewhere, or nowhere, the first node keeps it.
        """
        self.assertEqual(self.survivor("n2", "n1"), "n1")
        self.assertEqual(self.survivor("n2", "n1", placed="n9"), "n1")

    def test_of_another_domain(self) -> None:
        """
        An item in another domain is another item.
        """
        found = planned(
            ONE,
            work=[wanted("a@x"), wanted("a")],
            processes=[process("a@x", "n1"), process("a", "n1")],
        )

        self.assertEqual(found, (Null("a"), Null("a@x")))


class WaitTests(SynchronousTestCase):
    """
    An item that was placed, and that no node has.
    """

    def plan(self, state: str, missing: float, **fields: Any) -> Synchronized:
        """
        Plan for an item that was lost with the second node.
        """
        return synchronize(
            deployment(
                ONE,
                node("n2", 0, 0, state, missing),
                **{
                    "work": [wanted("a")],
                    "placements": {"a": "n2"},
                    **fields,
                },
            )
        )

    def test_only_offline(self) -> None:
        """
        It is kept for a node that is offline; one that answers does not have it,
        and it is placed anew.
        """
        for state in NODE_STATES:
            result = self.plan(state, 60)
            node_id = "n2" if state == "online" else "n1"
            added = () if state == "offline" else (Add("a", node_id),)

            self.assertEqual(result.operations, added, state)

    def test_kept(self) -> None:
        """
        While it is kept its place is what it was, and nothing is counted.
        """
        result = self.plan("offline", 60)

        self.assertEqual(result.placements, {"a": "n2"})
        self.assertEqual(used(result, "n1"), (1, 1))
        self.assertFalse(result.exhausted)

    def test_how_long(self) -> None:
        """
        It is kept up to the timeout, and not longer.
        """
        self.assertEqual(self.plan("offline", 120).operations, ())
        self.assertEqual(self.plan("offline", 120.1).operations, (Add("a", "n1"),))
        self.assertEqual(
            self.plan("offline", 31, node_recover_timeout=30).operations,
            (Add("a", "n1"),),
        )

    def test_unknown(self) -> None:
        """
        Nothing is kept that was placed nowhere, or on a node not known.
        """
        for placements in ({}, {"a": "n9"}):
            found = self.plan("offline", 60, placements=placements).operations
            self.assertEqual(found, (Add("a", "n1"),))

    def test_not_wanted(self) -> None:
        """
        Nor what is not wanted any more.
        """
        result = self.plan("offline", 60, work=[])

        self.assertEqual(result.operations, ())
        self.assertEqual(result.placements, {})

    def test_wherever_it_stands(self) -> None:
        """
        It is kept whatever was placed before it.
        """
        placements = {"x": "n9", "y": "n1", "b": "n2", "a": "n2"}
        result = self.plan("offline", 60, placements=placements)

        self.assertEqual(result.operations, ())
        self.assertEqual(result.placements, {"a": "n2"})

    def test_others_are_placed(self) -> None:
        """
        What waits for its node does not keep others from being placed.
        """
        result = self.plan("offline", 60, work=[wanted("a"), wanted("b")])

        self.assertEqual(result.operations, (Add("b", "n1"),))
        self.assertEqual(result.placements, {"a": "n2", "b": "n1"})


class PlaceTests(SynchronousTestCase):
    """
    What is nowhere.
    """

    def test_least_used(self) -> None:
        """
        It goes where the least is used, and the next counts with it.
        """
        found = planned(
            node("n1", 7, 35),
            node("n2", 12, 11),
            work=[wanted("a"), wanted("b"), wanted("c")],
        )

        self.assertEqual(found, (Add("a", "n1"), Add("b", "n2"), Add("c", "n1")))

    def test_in_the_order_they_are_wanted(self) -> None:
        """
        Where there is room for one only, it is for the first that is wanted.
        """
        found = planned(node("n1", 75), work=[wanted("b"), wanted("a")])

        self.assertEqual(found, (Reject("a", NO_ROOM), Add("b", "n1")))

    def test_no_limits(self) -> None:
        """
        What has no limits of CPU or memory is not placed.
        """
        for cpu, memory in ((0, 20), (10, 0), (-1, 20), (10, -1)):
            found = planned(ONE, work=[wanted("a", cpu, memory)])
            self.assertEqual(found, (Reject("a", NO_LIMITS),))
        found = planned(ONE, work=[wanted("a", 0.5, 0.5)])
        self.assertEqual(found, (Add("a", "n1"),))

    def test_room_is_below_the_limit(self) -> None:
        """
        There is no room where a limit would be reached.
        """
        for one in (node("n1", 80, 1), node("n1", 1, 70)):
            self.assertEqual(planned(one, work=[wanted("a")]), (Reject("a", NO_ROOM),))
        below = node("n1", 79.9, 69.9)
        self.assertEqual(planned(below, work=[wanted("a")]), (Add("a", "n1"),))

    def test_nodes_that_are_given_nothing(self) -> None:
        """
        Nothing is placed on nodes that are not online, throttle, or cannot tell.
        """
        for one in (
            *(node("n1", state=state) for state in NODE_STATES if state != "online"),
            node("n1", throttling=True),
            node("n1", error="?"),
        ):
            self.assertEqual(planned(one, work=[wanted("a")]), (Reject("a", NO_ROOM),))

    def test_throttling_processes(self) -> None:
        """
        A node one of whose processes is held back is given nothing.
        """
        found = planned(
            ONE,
            TWO,
            work=[wanted("b"), wanted("a")],
            processes=[process("a", "n1", throttling=True)],
        )

        self.assertEqual(found, (Null("a"), Add("b", "n2")))

    def test_order_stop(self) -> None:
        """
        What is to be stopped is placed all the same, and is given room.
        """
        result = synchronize(deployment(ONE, work=[wanted("a", order="stop")]))

        self.assertEqual(result.operations, (Add("a", "n1", "stop"),))
        self.assertEqual(used(result, "n1"), (11, 21))

    def test_gpu(self) -> None:
        """
        What needs a GPU goes to a node with one, until that is full.
        """
        share = Share(10, 10, GpuShare(memory=60))
        found = planned(
            ONE,
            node("n2", 50, 1, gpus=(Gpu(memory_limit=100, usage_limit=100),)),
            work=[Wanted("a", limits=share), Wanted("b", limits=share)],
        )

        self.assertEqual(found, (Reject("b", NO_ROOM), Add("a", "n2")))

    def test_reference(self) -> None:
        """
        It goes to others of its reference, though more is used there.
        """
        found = planned(
            ONE,
            node("n2", 40),
            work=[wanted("a", reference="r"), wanted("b", reference="r")],
            processes=[process("a", "n2", reference="r")],
        )

        self.assertEqual(found, (Null("a"), Add("b", "n2")))

    def test_most_of_the_reference(self) -> None:
        """
        To where most of them are; where there is no room, to the next.
        """
        processes = [
            process("a", "n1", reference="r"),
            process("b", "n2", reference="r"),
            process("c", "n2", reference="r"),
        ]
        work = [wanted(name, reference="r") for name in "abcd"]
        for two, expected in ((node("n2", 40), "n2"), (node("n2", 85), "n1")):
            found = planned(
                node("n0"), node("n1", 30), two, work=work, processes=processes
            )
            self.assertEqual(found[-1], Add("d", expected))

    def test_no_room_with_the_reference(self) -> None:
        """
        Where none of them has room it goes to the best.
        """
        found = planned(
            node("n1", 5),
            node("n2", 85),
            work=[wanted("a", reference="r"), wanted("b", reference="r")],
            processes=[process("a", "n2", reference="r")],
        )

        self.assertEqual(found, (Null("a"), Add("b", "n1")))

    def test_reference_of_another_domain(self) -> None:
        """
        A reference in another domain is another one.
        """
        found = planned(
            ONE,
            node("n2", 40),
            work=[wanted("a@x", reference="r"), wanted("b@y", reference="r")],
            processes=[process("a@x", "n2", reference="r")],
        )

        self.assertEqual(found, (Null("a@x"), Add("b@y", "n1")))

    def test_reference_while_placing(self) -> None:
        """
        What is placed in this plan counts for those that follow; what is deleted
        in it does not.
        """
        found = planned(
            ONE,
            TWO,
            work=[wanted(name, reference="r") for name in "ab"],
            processes=[process("z", "n2", 0, 0, reference="r")],
        )

        self.assertEqual(found, (Delete("z", "n2"), Add("a", "n1"), Add("b", "n1")))

    def test_move_under_way(self) -> None:
        """
        A move under way is counted from the beginning: on its target, with the
        larger of what the item uses and may use; on its source not any more.
        """
        result = synchronize(
            deployment(
                node("n1", 30, 30),
                TWO,
                work=[wanted("a")],
                processes=[process("a", "n1", 12, 5)],
                moving={"a": "n2"},
            )
        )

        self.assertEqual(result.operations, (Null("a"),))
        self.assertEqual(used(result, "n1"), (18, 25))
        self.assertEqual(used(result, "n2"), (13, 21))

    def test_gpu_of_a_move_under_way(self) -> None:
        """
        So is what it uses of a GPU, by each of its numbers.
        """
        gpus = (Gpu(50, 100, 50, 100, 50, 50),)
        result = synchronize(
            deployment(
                node("n1", gpus=gpus),
                node("n2", gpus=gpus),
                work=[wanted("a")],
                processes=[
                    process(
                        "a",
                        "n1",
                        usage=Share(1, 1, GpuShare(1, 20, 3, 40, 0)),
                        limits=Share(1, 1, GpuShare(10, 2, 30, 4)),
                    )
                ],
                moving={"a": "n2"},
            )
        )

        resources = result.ledger.resources
        self.assertEqual(resources["n1"].gpus, (Gpu(49, 100, 30, 100, 47, 10),))
        self.assertEqual(resources["n2"].gpus, (Gpu(60, 100, 70, 100, 80, 90),))

    def test_move_that_has_arrived(self) -> None:
        """
        A move whose item is on its target already is not counted.
        """
        result = synchronize(
            deployment(
                ONE,
                work=[wanted("a")],
                processes=[process("a", "n1")],
                moving={"a": "n1"},
            )
        )

        self.assertEqual(used(result, "n1"), (1, 1))


class BudgetTests(SynchronousTestCase):
    """
    More to do than one plan may cost.
    """

    def big(self) -> Node:
        """
        Give a node with room for all.
        """
        return Node("n1", resources=Resources(0, 1e6, 0, 1e6))

    def test_added(self) -> None:
        """
        Thirty-four are placed: after thirty-three there is something left.  Of
        the rest nothing is said.
        """
        names = [f"w{n:02}" for n in range(40)]
        result = synchronize(deployment(self.big(), work=[wanted(n) for n in names]))

        self.assertEqual(
            result.operations, tuple(Add(name, "n1") for name in names[:34])
        )
        self.assertEqual(sorted(result.placements), names[:34])
        self.assertTrue(result.exhausted)

    def test_updated(self) -> None:
        """
        So many are updated; then one is started, and one placed.
        """
        names = [f"w{n:02}" for n in range(40)]
        result = synchronize(
            deployment(
                self.big(),
                work=[
                    *(wanted(n, description=1) for n in names),
                    wanted("x1"),
                    wanted("x2"),
                ],
                processes=[process(n, "n1", order="stop") for n in names],
            )
        )

        self.assertEqual(
            result.operations,
            (
                *(Update(n, "n1") for n in names[:34]),
                Start("w00", "n1"),
                Add("x1", "n1"),
            ),
        )
        self.assertEqual({*result.placements}, {*names, "x1"})
        self.assertTrue(result.exhausted)

    def test_started(self) -> None:
        """
        Thirty-four are started, when nothing else was to do.
        """
        names = [f"w{n:02}" for n in range(40)]
        result = synchronize(
            deployment(
                self.big(),
                work=[wanted(n) for n in names],
                processes=[process(n, "n1", order="stop") for n in names],
            )
        )

        starts = [a for a in result.operations if isinstance(a, Start)]
        self.assertEqual(starts, [Start(n, "n1") for n in names[:34]])
        self.assertEqual(len(result.operations), 74)
        self.assertTrue(result.exhausted)

    def test_used_up_exactly(self) -> None:
        """
        Nothing more is started, nor placed, once nothing is left at all.
        """
        for state in (
            deployment(
                self.big(),
                work=[wanted("a"), wanted("b")],
                processes=[process(n, "n1", order="stop") for n in "ab"],
            ),
            deployment(self.big(), work=[wanted("a"), wanted("b")]),
        ):
            result = synchronize(state, budget=3)

            made = [a for a in result.operations if not isinstance(a, Null)]
            self.assertEqual([a.work for a in made], ["a"])
            self.assertTrue(result.exhausted)

    def test_not_judged(self) -> None:
        """
        Once it is used up, what is well is not said to be so.
        """
        result = synchronize(
            deployment(
                ONE,
                work=[wanted("a", description=1), wanted("b")],
                processes=[process("a", "n1"), process("b", "n1")],
            ),
            budget=3,
        )

        self.assertEqual(result.operations, (Update("a", "n1"),))
        self.assertEqual(result.placements, {"a": "n1", "b": "n1"})
        self.assertTrue(result.exhausted)

    def test_free(self) -> None:
        """
        Stops, deletions, what has no limits, and what cannot be read cost
        nothing, and come even when the budget is used up.
        """
        result = synchronize(
            deployment(
                self.big(),
                work=[
                    wanted("a", description=1),
                    wanted("b", order="stop"),
                    wanted("c", problem="bad"),
                    wanted("d", 0, 0),
                    wanted("e", problem="bad"),
                    wanted("f"),
                    wanted("g"),
                ],
                processes=[process(n, "n1") for n in ("a", "b", "c", "z")],
            ),
            budget=3,
        )

        self.assertEqual(
            result.operations,
            (
                Stop("b", "n1"),
                Error("c", "bad"),
                Reject("d", NO_LIMITS),
                Error("e", "bad"),
                Delete("z", "n1"),
                Update("a", "n1"),
                Add("f", "n1"),
            ),
        )

    def test_rejected_once(self) -> None:
        """
        One that finds no room is judged when it is used up, and no other.
        """
        result = synchronize(
            deployment(
                node("n1", 85),
                work=[wanted("a", description=1), wanted("b"), wanted("c")],
                processes=[process("a", "n1")],
            ),
            budget=3,
        )

        self.assertEqual(result.operations, (Reject("b", NO_ROOM), Update("a", "n1")))

    def test_rejected_for_nothing(self) -> None:
        """
        Those that find no room cost nothing.
        """
        work = [wanted(f"w{n:02}") for n in range(50)]
        result = synchronize(deployment(node("n1", 85), work=work), budget=1)

        self.assertEqual(len(result.operations), 50)
        self.assertFalse(result.exhausted)

    def test_enough(self) -> None:
        """
        Thirty-three leave something, and the plan is complete.
        """
        names = [f"w{n:02}" for n in range(33)]
        result = synchronize(deployment(self.big(), work=[wanted(n) for n in names]))

        self.assertEqual(len(result.operations), 33)
        self.assertFalse(result.exhausted)

    def test_no_bound(self) -> None:
        """
        Without a budget all is done at once.
        """
        names = [f"w{n:03}" for n in range(200)]
        result = synchronize(
            deployment(self.big(), work=[wanted(n) for n in names]), budget=None
        )

        self.assertEqual(len(result.operations), 200)
        self.assertFalse(result.exhausted)


class MetadataTests(SynchronousTestCase):
    """
    Metadata, as it is wanted and as it is.
    """

    have: ClassVar[dict[str, Any]] = {"sim": ["id", "sam"], "foo": "boz", "sum": "sum"}

    def test_same(self) -> None:
        """
        The order of keys is no difference, at any depth.
        """
        want = {"sum": "sum", "foo": "boz", "sim": ["id", "sam"]}
        self.assertEqual(metadata_change(want, self.have), (False, want))
        self.assertFalse(
            metadata_change({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}})[0]
        )
        self.assertEqual(metadata_change({}, {}), (False, {}))

    def test_gone(self) -> None:
        """
        What is not wanted any more is to go.
        """
        want = {"sim": ["id", "sam"], "foo": "boz"}

        self.assertEqual(
            metadata_change(want, self.have), (True, {**want, "sum": None})
        )

    def test_other_value(self) -> None:
        """
        A value that differs is told with all the others.
        """
        want = {**self.have, "sim": ["id", "sim"]}

        self.assertEqual(metadata_change(want, self.have), (True, want))

    def test_new(self) -> None:
        """
        So is one that is new, be it null.
        """
        self.assertEqual(metadata_change({"a": None}, {}), (True, {"a": None}))
        self.assertEqual(metadata_change({"a": 1}, {}), (True, {"a": 1}))

    def test_none_wanted(self) -> None:
        """
        Where none is wanted all is to go.
        """
        gone = {"sim": None, "foo": None, "sum": None}

        self.assertEqual(metadata_change({}, self.have), (True, gone))


class ExplainTests(SynchronousTestCase):
    """
    Being told of operations.
    """

    def test_before_it_is_counted(self) -> None:
        """
        Each is told when it is decided, with what nodes use before it.
        """
        told: list[tuple[Action, float]] = []

        def explain(action: Action, ledger: Ledger) -> None:
            told.append((action, ledger.resources["n1"].cpu))

        synchronize(
            deployment(
                node("n1", 20),
                work=[
                    wanted("a", order="stop"),
                    wanted("b"),
                    wanted("c"),
                    wanted("d", 0),
                ],
                processes=[
                    process("a", "n1"),
                    process("b", "n1", order="stop"),
                    process("z", "n1", 3),
                ],
            ),
            explain=explain,
        )

        self.assertEqual(
            told,
            [
                (Null("a"), 20),
                (Stop("a", "n1"), 20),
                (Null("b"), 8),
                (Delete("z", "n1"), 8),
                (Start("b", "n1"), 5),
                (Add("c", "n1"), 15),
                (Reject("d", NO_LIMITS), 25),
            ],
        )


class AdvanceTests(SynchronousTestCase):
    """
    The state that a plan leads to.
    """

    def test_each_operation(self) -> None:
        """
        What was placed, started, stopped, updated and deleted is so.
        """
        state = deployment(
            node("n1", 40, 40),
            node("n2", 40, 40),
            work=[
                wanted("a", 1, 2, description=1, metadata={"m": 1}, updated_at=9),
                wanted("b", order="stop"),
                wanted("c"),
                wanted("d", description=4, reference="r", updated_at=5),
            ],
            processes=[
                process("z", "n2"),
                process("a", "n1"),
                process("b", "n1"),
                process("c", "n1", 0, 0, order="stop"),
            ],
            moving={"a": "n2"},
        )
        result = synchronize(state)

        after = advance(state, result)

        found = {p.id: p for p in after.processes}
        self.assertEqual(sorted(found), ["a", "b", "c", "d"])
        self.assertEqual(found["a"].limits, Share(1, 2))
        self.assertEqual(found["a"].description, 1)
        self.assertEqual(found["a"].metadata, {"m": 1})
        self.assertEqual(found["a"].updated_at, 9)
        self.assertEqual(found["a"].usage, Share(12, 5))
        self.assertEqual((found["b"].order, found["b"].usage), ("stop", Share()))
        self.assertEqual((found["c"].order, found["c"].usage), ("start", Share(10, 20)))
        self.assertEqual(found["d"].node, result.placements["d"])
        self.assertEqual(found["d"].reference, "r")
        self.assertEqual(found["d"].usage, Share(10, 20))
        self.assertEqual(found["d"].description, 4)
        self.assertEqual(after.placements, result.placements)
        self.assertEqual(after.moving, {})
        self.assertEqual(
            {n: v.resources for n, v in after.nodes.items()}, result.ledger.resources
        )
        again = synchronize(after)
        self.assertEqual({type(a) for a in again.operations}, {Null})
