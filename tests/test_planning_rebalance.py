"""
Nodes that have too much to do give something up.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.actions import Action, Move, Skip
from voltha_coord.planning.deployment import NODE_STATES, Process
from voltha_coord.planning.rebalance import NO_ROOM, by_node, rebalance
from voltha_coord.planning.resources import Ledger
from voltha_coord.planning.shares import Share
from voltha_coord.planning.synchronize import synchronize

from .support.deployments import deployment, node, process, wanted

FREE = node("n9", 20)
BUSY = node("n1", 90)


def planned(*nodes: Any, **fields: Any) -> tuple[Action, ...]:
    """
    Give what is to be done in a state.
    """
    return rebalance(deployment(*nodes, **fields)).operations


class SourceTests(SynchronousTestCase):
    """
    Nodes with one process each, and one that has room.
    """

    def moves(self, source: Any) -> bool:
        """
        Whether the process is moved from a node.
        """
        found = planned(source, FREE, processes=[process("a", "n1")])
        if found:
            self.assertEqual(found, (Move("a", "n1", "n9"),))
        return bool(found)

    def test_at_a_limit(self) -> None:
        """
        At a limit of either a node has too much to do, and below it has not.
        """
        for source, over in (
            (node("n1", 90), True),
            (node("n1", 1, 90), True),
            (node("n1", 95, 95), True),
            (node("n1", 89.9, 89.9), False),
            (node("n1", 1, 1), False),
        ):
            self.assertEqual(self.moves(source), over, source)

    def test_throttling(self) -> None:
        """
        One that throttles has as well, and one of whose processes is held back.
        """
        self.assertTrue(self.moves(node("n1", throttling=True)))
        held = process("a", "n1", throttling=True)
        self.assertEqual(
            planned(node("n1"), FREE, processes=[held]), (Move("a", "n1", "n9"),)
        )

    def test_settling(self) -> None:
        """
        One whose figures are still those of before a change is left alone; the
        others are not.
        """
        found = planned(
            BUSY,
            node("n2", 95),
            FREE,
            processes=[process("a", "n1"), process("b", "n2")],
            settling=frozenset({"n1"}),
        )

        self.assertEqual(found, (Move("b", "n2", "n9"),))

    def test_wherever_it_stands(self) -> None:
        """
        Those that come later are looked at as well.
        """
        found = planned(
            node("n0", 50), node("n5", 95), FREE, processes=[process("a", "n5")]
        )

        self.assertEqual(found, (Move("a", "n5", "n9"),))

    def test_error(self) -> None:
        """
        What a node does not know of itself is no reason.
        """
        self.assertFalse(self.moves(node("n1", 99, 99, error="?", throttling=True)))

    def test_any_state(self) -> None:
        """
        The state of a node is no reason against it.
        """
        for state in NODE_STATES:
            self.assertTrue(self.moves(node("n1", 95, state=state)), state)

    def test_only_running(self) -> None:
        """
        Only what runs is moved.
        """
        for state in ("finished", "failed", "stopped", ""):
            stopped = process("a", "n1", state=state)
            self.assertEqual(planned(BUSY, FREE, processes=[stopped]), ())

    def test_order_is_told(self) -> None:
        """
        A move tells the order of the process.
        """
        found = planned(BUSY, FREE, processes=[process("a", "n1", order="stop")])

        self.assertEqual(found, (Move("a", "n1", "n9", "stop"),))


class ChoiceTests(SynchronousTestCase):
    """
    What is moved, and where to.
    """

    def test_shortest_runtime(self) -> None:
        """
        One process is moved: the one that has run for the shortest time, then
        the first by id.
        """
        processes = [
            process("a", "n1", runtime=9),
            process("c", "n1", runtime=3),
            process("b", "n1", runtime=3),
        ]

        for order in (processes, processes[::-1]):
            self.assertEqual(
                planned(BUSY, FREE, processes=order), (Move("b", "n1", "n9"),)
            )

    def test_those_without_room_are_skipped(self) -> None:
        """
        One that finds no room is skipped, and the next one moved.
        """
        found = planned(
            BUSY,
            FREE,
            processes=[
                process("a", "n1", runtime=1, limits=Share(80, 1)),
                process("b", "n1", runtime=2),
                process("c", "n1", runtime=3),
            ],
        )

        self.assertEqual(found, (Skip("a", "n1", NO_ROOM), Move("b", "n1", "n9")))

    def test_not_onto_itself(self) -> None:
        """
        A node that throttles no more than its memory is never its own target.
        """
        found = planned(
            node("n1", 1, 90), processes=[process("a", "n1", limits=Share())]
        )

        self.assertEqual(found, (Skip("a", "n1", NO_ROOM),))

    def test_room_by_limits(self) -> None:
        """
        Room is looked for by the limits; what it uses is what is counted.
        """
        result = rebalance(
            deployment(
                BUSY,
                node("n8", 2),
                FREE,
                processes=[process("a", "n1", 85, 7, limits=Share(69, 20))],
            )
        )

        self.assertEqual(result.operations, (Move("a", "n1", "n8"),))
        resources = result.ledger.resources
        self.assertEqual((resources["n1"].cpu, resources["n1"].memory), (5, 0))
        self.assertEqual((resources["n8"].cpu, resources["n8"].memory), (87, 8))

    def test_what_others_gave_up_counts(self) -> None:
        """
        Nodes are looked at by id, each with what those before it have moved.
        """
        found = planned(
            node("n2", 95),
            node("n1", 95),
            node("n9", 65),
            processes=[process("a", "n1", 20), process("b", "n2", 15)],
        )

        self.assertEqual(found, (Move("a", "n1", "n9"), Move("b", "n2", "n1")))

    def test_pushed_over(self) -> None:
        """
        A node that reaches its limit by what it is given gives something up in
        turn.
        """
        found = planned(
            node("n1", 95),
            node("n2", 70),
            node("n3", 75),
            processes=[process("a", "n1", 25), process("b", "n2", limits=Share(5, 5))],
        )

        self.assertEqual(found, (Move("a", "n1", "n2"), Move("b", "n2", "n1")))

    def test_reference(self) -> None:
        """
        It goes to others of its reference if there is room.
        """
        processes = [
            process("a", "n1", reference="r", runtime=1),
            process("b", "n1", reference="r", runtime=2),
            process("c", "n2", reference="r"),
            process("d", "n1", reference="r", state="failed"),
        ]
        for cpu, target in ((50, "n2"), (85, "n9")):
            found = planned(BUSY, FREE, node("n2", cpu), processes=processes)
            self.assertEqual(found, (Move("a", "n1", target),))

    def test_reference_moves_along(self) -> None:
        """
        Where one was moved others of its reference go too; where none is left
        they do not.
        """
        found = planned(
            node("n1", 95, 50),
            node("n2", 95, 50),
            node("n3", 20),
            node("n4", 10),
            processes=[
                process("a", "n1", 1, reference="r", limits=Share(75, 1)),
                process("b", "n2", 1, reference="r", limits=Share(1, 1)),
            ],
        )

        self.assertEqual(found, (Move("a", "n1", "n4"), Move("b", "n2", "n4")))

    def test_moving_and_held(self) -> None:
        """
        What is moving, and what is held, is left alone.
        """
        processes = [process(name, "n1", runtime=n) for n, name in enumerate("abc")]
        found = planned(
            node("n1", 150),
            FREE,
            processes=processes,
            moving={"a": "n9"},
            held={"b": "it was tried a moment ago"},
        )

        self.assertEqual(found, (Move("c", "n1", "n9"),))

    def test_move_under_way_is_counted(self) -> None:
        """
        A node that is below its limit once a move under way is done gives up
        nothing more.
        """
        self.assertEqual(
            planned(
                BUSY,
                FREE,
                processes=[process("a", "n1"), process("b", "n1")],
                moving={"a": "n9"},
            ),
            (),
        )

    def test_goes_on_with_a_ledger(self) -> None:
        """
        With the ledger of the phase before it goes on from there.
        """
        state = deployment(
            node("n1", 75),
            FREE,
            work=[wanted("a"), wanted("b", reference="r")],
            processes=[process("a", "n1", reference="r")],
        )
        ledger = synchronize(state).ledger
        ledger.add("n1", Share(20, 0))

        result = rebalance(state, ledger)

        self.assertIs(result.ledger, ledger)
        self.assertEqual(result.operations, (Move("a", "n1", "n9"),))

    def test_explained_before_it_is_counted(self) -> None:
        """
        Each is told when it is decided, with what nodes use before it.
        """
        told: list[tuple[Action, float]] = []

        def explain(action: Action, ledger: Ledger) -> None:
            told.append((action, ledger.resources["n1"].cpu))

        rebalance(
            deployment(
                BUSY,
                FREE,
                processes=[
                    process("a", "n1", limits=Share(80, 1)),
                    process("b", "n1", runtime=1),
                ],
            ),
            explain=explain,
        )

        self.assertEqual(
            told, [(Skip("a", "n1", NO_ROOM), 90), (Move("b", "n1", "n9"), 90)]
        )


class GroupTests(SynchronousTestCase):
    """
    The processes of each node.
    """

    def test_running_by_runtime(self) -> None:
        """
        Those that run, the shortest runtime first.
        """
        found = by_node(
            [
                Process("foobar7", "n1", state="finished", runtime=1),
                Process("foobar8", "n1", state="failed", runtime=1),
                Process("foobar1", "n1", runtime=42),
                Process("foobar2", "n1", runtime=1),
                Process("foobar3", "n2", runtime=67),
                Process("foobar6", "n2", runtime=42),
                Process("foobar4", "n3", runtime=41),
                Process("foobar5", "n3", runtime=42),
            ]
        )

        self.assertEqual(
            {name: [p.id for p in processes] for name, processes in found.items()},
            {
                "n1": ["foobar2", "foobar1"],
                "n2": ["foobar6", "foobar3"],
                "n3": ["foobar4", "foobar5"],
            },
        )
