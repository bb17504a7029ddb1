"""
What is wanted on another node is moved there.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.actions import Action, Move, Skip
from voltha_coord.planning.deployment import NODE_STATES
from voltha_coord.planning.relocate import NO_ROOM, Relocated, relocate
from voltha_coord.planning.resources import Ledger
from voltha_coord.planning.shares import Share

from .support.deployments import deployment, node, process

NODES = (node("n1", 27, 35), node("n2", 15, 11), node("n3", 0, 0))


class RelocateTests(SynchronousTestCase):
    """
    Three nodes, of which the last is empty.
    """

    def relocate(
        self, relocations: dict[str, str], *nodes: Any, **fields: Any
    ) -> Relocated:
        """
        Relocate one process of the first node, or others.
        """
        state = deployment(
            *(nodes or NODES),
            **{
                "processes": [process("a", "n1", 35, 20)],
                "relocations": relocations,
                **fields,
            },
        )
        return relocate(state)

    def check(
        self, result: Relocated, *operations: Action, done: tuple[str, ...] = ()
    ) -> None:
        """
        Compare what came of it.
        """
        self.assertEqual(result.operations, operations)
        self.assertEqual(result.done, done)

    def test_target(self) -> None:
        """
        It is moved where it is wanted, though another node were better, and is
        counted there.
        """
        result = self.relocate({"a": "n2"})

        self.check(result, Move("a", "n1", "n2"), done=("a",))
        resources = result.ledger.resources
        self.assertEqual((resources["n1"].cpu, resources["n1"].memory), (0, 15))
        self.assertEqual((resources["n2"].cpu, resources["n2"].memory), (50, 31))

    def test_any(self) -> None:
        """
        Wanted anywhere else, it goes to the best.
        """
        self.check(self.relocate({"a": ""}), Move("a", "n1", "n3"), done=("a",))

    def test_any_with_its_reference(self) -> None:
        """
        It goes to others of its reference first, and not to its own node.
        """
        processes = [
            process("a", "n1", reference="r"),
            process("b", "n1", reference="r"),
            process("c", "n2", reference="r"),
        ]

        result = self.relocate({"a": ""}, processes=processes)

        self.check(result, Move("a", "n1", "n2"), done=("a",))

    def test_reference_moves_along(self) -> None:
        """
        What was moved counts for those that follow.
        """
        processes = [
            process("a", "n1", reference="r"),
            process("b", "n1", reference="r"),
        ]

        result = self.relocate({"b": "", "a": "n2"}, processes=processes)

        self.check(
            result,
            Move("a", "n1", "n2"),
            Move("b", "n1", "n2"),
            done=("a", "b"),
        )

    def test_unknown_target(self) -> None:
        """
        A target that is not known is any.
        """
        self.check(self.relocate({"a": "n9"}), Move("a", "n1", "n3"), done=("a",))

    def test_full_target(self) -> None:
        """
        So is one without room, by the limits of the process.
        """
        for full in (node("n2", 80), node("n2", 1, 70), node("n2", throttling=True)):
            result = self.relocate({"a": "n2"}, NODES[0], full, NODES[2])
            self.check(result, Move("a", "n1", "n3"), done=("a",))
        below = node("n2", 79.9, 69.9)
        result = self.relocate({"a": "n2"}, NODES[0], below, NODES[2])
        self.check(result, Move("a", "n1", "n2"), done=("a",))

    def test_target_not_online(self) -> None:
        """
        And one that is not online.
        """
        for state in NODE_STATES:
            two = node("n2", state=state)
            target = "n2" if state == "online" else "n3"
            result = self.relocate({"a": "n2"}, NODES[0], two, NODES[2])
            self.check(result, Move("a", "n1", target), done=("a",))

    def test_no_room(self) -> None:
        """
        Without room anywhere it is skipped, and the wish stands.
        """
        result = self.relocate({"a": ""}, NODES[0], node("n2", 85))

        self.check(result, Skip("a", "n1", NO_ROOM))

    def test_there_already(self) -> None:
        """
        What is where it is wanted is done, whatever its state.
        """
        for state in ("running", "failed"):
            processes = [process("a", "n1", state=state)]
            self.check(self.relocate({"a": "n1"}, processes=processes), done=("a",))

    def test_no_such_process(self) -> None:
        """
        What is not there is done as well.
        """
        self.check(self.relocate({"b": "n2", "c": ""}), done=("b", "c"))

    def test_any_state_is_moved(self) -> None:
        """
        What does not run is moved too, with its order.
        """
        processes = [process("a", "n1", state="finished", order="stop")]

        result = self.relocate({"a": "n2"}, processes=processes)

        self.check(result, Move("a", "n1", "n2", "stop"), done=("a",))

    def test_moving_and_held(self) -> None:
        """
        What is moving or held is left alone, and the wish stands.
        """
        processes = [process(name, "n1") for name in "abc"]
        result = self.relocate(
            dict.fromkeys("abc", "n2"),
            processes=processes,
            moving={"a": "n3"},
            held={"b": "it was tried a moment ago"},
        )

        self.check(result, Move("c", "n1", "n2"), done=("c",))

    def test_moving_elsewhere(self) -> None:
        """
        Where there is no room for what is moving, that it moves elsewhere is
        all that can be done.
        """
        processes = [process("a", "n1", limits=Share(60, 1))]
        for wish, done in (("n2", ("a",)), ("n9", ("a",)), ("", ("a",)), ("n3", ())):
            result = self.relocate({"a": wish}, processes=processes, moving={"a": "n2"})

            self.check(result, done=done)

    def test_move_under_way_is_counted(self) -> None:
        """
        Moves under way take room on their targets.
        """
        processes = [process("a", "n1", limits=Share(60, 1)), process("b", "n1")]
        result = self.relocate(
            {"a": ""},
            node("n1", 27),
            node("n2", 25),
            processes=processes,
            moving={"b": "n2"},
        )

        self.check(result, Skip("a", "n1", NO_ROOM))

    def test_duplicate(self) -> None:
        """
        Of an item on several nodes, the one that stays is moved.
        """
        processes = [process("a", "n1"), process("a", "n2")]
        for placements, source in (({}, "n1"), ({"a": "n2"}, "n2")):
            result = self.relocate(
                {"a": "n3"}, processes=processes, placements=placements
            )
            self.check(result, Move("a", source, "n3"), done=("a",))

    def test_order_and_budget(self) -> None:
        """
        Twenty are moved in one plan, by id; the wishes of the others stand.
        """
        names = [f"w{n:02}" for n in range(25)]
        big = [
            evolve(
                one, resources=evolve(one.resources, cpu_limit=1e6, memory_limit=1e6)
            )
            for one in NODES
        ]
        processes = [process(name, "n1") for name in names]
        wishes = dict.fromkeys(reversed(names), "n3")
        result = self.relocate(wishes, *big, processes=processes)

        moves = tuple(Move(name, "n1", "n3") for name in names[:20])
        self.check(result, *moves, done=tuple(names[:20]))
        self.assertTrue(result.exhausted)

        state = deployment(*big, processes=processes, relocations=wishes)
        self.assertEqual(len(relocate(state, budget=6).operations), 2)
        one = evolve(state, relocations={"w00": "n3"})
        self.assertFalse(relocate(one, budget=6).exhausted)
        self.assertTrue(relocate(one, budget=5).exhausted)
        everything = relocate(state, budget=None)
        self.assertEqual(len(everything.operations), 25)
        self.assertFalse(everything.exhausted)

    def test_nineteen(self) -> None:
        """
        One move less leaves something of the budget.
        """
        names = [f"w{n:02}" for n in range(19)]
        processes = [process(name, "n1", limits=Share()) for name in names]
        result = self.relocate(
            dict.fromkeys(names, "n3"),
            *(
                evolve(n, resources=evolve(n.resources, cpu_limit=1e6))
                for n in NODES[:2]
            ),
            evolve(
                NODES[2],
                resources=evolve(NODES[2].resources, cpu_limit=1e6, memory_limit=1e6),
            ),
            processes=processes,
        )

        self.assertEqual(len(result.operations), 19)
        self.assertFalse(result.exhausted)

    def test_skipped_for_nothing(self) -> None:
        """
        What is skipped costs nothing.
        """
        names = [f"w{n:02}" for n in range(25)]
        processes = [process(name, "n1") for name in names]
        result = self.relocate(dict.fromkeys(names, ""), NODES[0], processes=processes)

        self.assertEqual(len(result.operations), 25)
        self.assertFalse(result.exhausted)

    def test_goes_on_with_a_ledger(self) -> None:
        """
        With the ledger of the phase before it goes on from there.
        """
        state = deployment(
            *NODES, processes=[process("a", "n1")], relocations={"a": ""}
        )
        ledger = Ledger(state.nodes)
        ledger.add("n3", Share(50, 0))

        result = relocate(state, ledger)

        self.assertIs(result.ledger, ledger)
        self.check(result, Move("a", "n1", "n2"), done=("a",))
