"""
Moves under way.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.moves import Moves, see_to_moves
from voltha_coord.planning.observe import observe
from voltha_coord.planning.state import MAINTENANCE, ClusterState, Recalled
from voltha_coord.records import PREPARE

from .support.resourceful import assigned, gone, item, reporting, resourceful


class MovesTests(SynchronousTestCase):
    """
    An item that runs on ``m1``, and is made ready on ``m2``.
    """

    def setUp(self) -> None:
        """
        Begin the move.
        """
        state = resourceful({"m1": (7, 35), "m2": (1, 1), "m3": (1, 1)}, [item()])
        self.placed = assigned(state, "m1", item())
        self.state = assigned(self.placed, "m2", item(), PREPARE)

    def moves(self, state: ClusterState) -> Moves:
        """
        See to the moves.
        """
        return see_to_moves(state, observe(state).nodes)

    def reported(self, **status: Any) -> ClusterState:
        """
        Give the state with what the target reports.
        """
        return reporting(self.state, "m2", "w1", **status)

    def assert_over(self, state: ClusterState, why: str = "") -> None:
        """
        See that the move is over, and why, where somebody is to know.
        """
        moves = self.moves(state)

        self.assertEqual(moves.over, (("w1", "m2"),))
        self.assertEqual((moves.going_on, moves.ready), ({}, {}))
        self.assertIn(why, moves.given_up.get("w1", ""))
        self.assertEqual(bool(moves.given_up), bool(why))

    def test_none(self) -> None:
        """
        Where nothing is made ready nothing moves.
        """
        self.assertEqual(self.moves(self.placed), Moves())

    def test_going_on(self) -> None:
        """
        As long as the target does not say that it is ready the move goes on,
        also when what it says is of what the item was before.
        """
        expected = Moves(going_on={"w1": "m2"}, sources={"w1": "m1"})

        for state in (
            self.state,
            self.reported(state="preparing"),
            self.reported(state="prepared", digest="of another time"),
        ):
            self.assertEqual(self.moves(state), expected)

    def test_ready(self) -> None:
        """
        Once it is ready the move is to be completed.
        """
        state = self.reported(state="prepared", digest=item().digest)

        self.assertEqual(
            self.moves(state), Moves(ready={"w1": "m2"}, sources={"w1": "m1"})
        )

    def test_failed(self) -> None:
        """
        A target that cannot make it ready ends the move, with its reason.
        """
        self.assert_over(
            self.reported(state="failed", error="no such file"),
            "m2 could not make it ready: no such file",
        )

    def test_overdue(self) -> None:
        """
        One that takes too long ends it as well.
        """
        recalled = Recalled(overdue={"w1": "takes too long"})

        self.assert_over(evolve(self.state, recalled=recalled), "takes too long")

    def test_target_goes(self) -> None:
        """
        So does one that is gone, or may be given nothing any more.
        """
        self.assert_over(gone(self.state, "m2"), "m2, which was to have it, is offline")
        self.assert_over(
            evolve(self.state, node_intents={"m2": MAINTENANCE}), "is maintenance"
        )

    def test_source_goes(self) -> None:
        """
        A source that is gone leaves nothing to be moved: the item is placed
        anew, or waits.
        """
        self.assert_over(gone(self.state, "m1"))

    def test_no_longer_wanted(self) -> None:
        """
        What is no work any more is not moved.
        """
        self.assert_over(evolve(self.state, work={}))

    def test_changed(self) -> None:
        """
        An item that has become another one is changed where it is first.
        """
        other = item(config={"command": ["x"]})

        self.assert_over(evolve(self.state, work={"w1": other.encode()}))

    def test_changed_order(self) -> None:
        """
        Another order is nothing that had to be made ready.
        """
        other = item(order="stop", metadata={"a": 1})
        state = evolve(self.state, work={"w1": other.encode()})

        self.assertEqual(self.moves(state).going_on, {"w1": "m2"})

    def test_two_targets(self) -> None:
        """
        Of two moves of one item one goes on.
        """
        state = assigned(self.state, "m3", item(), PREPARE)

        moves = self.moves(state)

        self.assertEqual(moves.going_on, {"w1": "m2"})
        self.assertEqual(moves.over, (("w1", "m3"),))

    def test_bare_value(self) -> None:
        """
        A target that was not told what it is to make ready was told by nobody
        of ours.
        """
        assignments = {**self.placed.assignments, "m2": {"w1": b'{"phase":"prepare"}'}}

        self.assert_over(evolve(self.placed, assignments=assignments))
