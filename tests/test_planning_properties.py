"""
What holds of every plan by resources.
"""

from __future__ import annotations

import copy
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.actions import (
    Action,
    Add,
    Delete,
    Error,
    Move,
    Null,
    Reject,
    Skip,
    Start,
    Stop,
    Update,
)
from voltha_coord.planning.deployment import (
    NODE_STATES,
    OFFLINE,
    Deployment,
    Node,
    Process,
    Wanted,
)
from voltha_coord.planning.rebalance import rebalance
from voltha_coord.planning.relocate import relocate
from voltha_coord.planning.resources import Ledger
from voltha_coord.planning.shares import Gpu, GpuShare, Resources, Share
from voltha_coord.planning.synchronize import advance, synchronize

#: States are large; it is their number of kinds that counts.
few = settings(max_examples=40, deadline=None)

NAMES = [f"w{n}" for n in range(8)] + ["w1@x", "w2@x"]
NODE_NAMES = ["n1", "n2", "n3", "n4"]

amounts = st.integers(0, 40)
gpu_shares = st.builds(
    GpuShare, *[st.integers(0, 30)] * 4, index=st.sampled_from([None, 0, 1])
)
shares = st.builds(Share, amounts, amounts, st.none() | gpu_shares)
gpus = st.builds(Gpu, st.integers(0, 50), st.just(60), st.integers(0, 50), st.just(60))
resources = st.builds(
    Resources,
    st.integers(0, 89),
    st.just(90),
    st.integers(0, 89),
    st.just(90),
    throttling=st.sampled_from([False, False, True]),
    error=st.sampled_from(["", "", "", "?"]),
    gpus=st.lists(gpus, max_size=2).map(tuple),
)
states = st.sampled_from(["online", "online", *NODE_STATES])
orders = st.sampled_from(["start", "start", "stop"])
references = st.sampled_from(["", "r", "s"])
metadata = st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2)


@st.composite
def deployments(draw: Any) -> Deployment:
    """
    Give a state of any kind.
    """
    nodes = {
        name: Node(name, draw(states), draw(st.integers(0, 240)), draw(resources))
        for name in draw(st.lists(st.sampled_from(NODE_NAMES), unique=True))
    }
    places = st.sampled_from(NODE_NAMES)
    work = [
        Wanted(
            name,
            draw(orders),
            draw(shares),
            draw(references),
            draw(st.integers(0, 1)),
            draw(metadata),
            draw(st.booleans()),
            draw(st.integers(0, 2)),
            draw(st.sampled_from(["", "", "", "bad"])),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]
    pairs = st.tuples(st.sampled_from(NAMES), places)
    processes = [
        Process(
            name,
            place,
            draw(orders),
            draw(st.sampled_from(["running", "running", "failed"])),
            draw(shares),
            draw(st.sampled_from([False, False, False, True])),
            draw(st.integers(0, 3)),
            draw(shares),
            draw(references),
            draw(st.integers(0, 1)),
            draw(metadata),
            draw(st.integers(0, 2)),
        )
        for name, place in draw(st.lists(pairs, unique=True, max_size=10))
    ]
    some = st.dictionaries(st.sampled_from(NAMES), places, max_size=4)
    return Deployment(
        nodes,
        work,
        processes,
        draw(some),
        draw(some),
        draw(st.dictionaries(st.sampled_from(NAMES), places, max_size=2)),
        draw(st.dictionaries(st.sampled_from(NAMES), st.just("held"), max_size=2)),
    )


def planned(state: Deployment, budget: float | None = 100) -> list[Action]:
    """
    Give the operations of the three phases, one after the other.
    """
    first = synchronize(state, budget)
    second = rebalance(state, first.ledger)
    third = relocate(state, second.ledger)
    return [*first.operations, *second.operations, *third.operations]


class SynchronizeProperties(SynchronousTestCase):
    """
    Plans of the first phase, for states of any kind.
    """

    @few
    @given(deployments(), st.sampled_from([3, 7, 100, None]))
    def test_one_verdict_for_each(self, state: Deployment, budget: int | None) -> None:
        """
        Each item that is wanted gets one verdict, and a start or a stop beside it
        at most; only what waits for its node gets none, and what is past the
        budget.  Nobody else gets anything but a deletion.
        """
        result = synchronize(state, budget)
        have = {process.id for process in state.processes}
        for one in state.work:
            mine = [a for a in result.operations if a.work == one.id]
            verdicts = [
                a for a in mine if isinstance(a, Null | Update | Add | Reject | Error)
            ]
            orders = [a for a in mine if isinstance(a, Start | Stop)]
            deletes = [a for a in mine if isinstance(a, Delete)]
            copies = sum(process.id == one.id for process in state.processes)
            self.assertEqual(len(mine), len(verdicts) + len(orders) + len(deletes))
            self.assertEqual(len(deletes), max(0, copies - 1))
            self.assertLessEqual(len(verdicts), 1)
            self.assertLessEqual(len(orders), int(one.id in have))
            node = state.nodes.get(state.placements.get(one.id, ""))
            waits = (
                one.id not in have
                and node is not None
                and node.state == OFFLINE
                and node.missing_for <= state.node_recover_timeout
            )
            if waits:
                self.assertEqual(mine, [])
                self.assertEqual(result.placements[one.id], node and node.id)
            elif not verdicts:
                self.assertTrue(result.exhausted)
        ids = {one.id for one in state.work}
        others = [a for a in result.operations if a.work not in ids]
        self.assertEqual({type(a) for a in others} - {Delete}, set())
        self.assertLessEqual({*result.placements}, ids)

    @few
    @given(deployments())
    def test_no_node_is_filled_up(self, state: Deployment) -> None:
        """
        What is added finds room where it goes, after all that came before it.
        """
        rooms: list[bool] = []

        def explain(action: Action, ledger: Ledger) -> None:
            if isinstance(action, Add):
                share = next(w for w in state.work if w.id == action.work).limits
                used = ledger.resources[action.node]
                rooms.append(
                    state.nodes[action.node].state == "online"
                    and not used.throttling
                    and not used.error
                    and used.cpu + share.cpu < used.cpu_limit
                    and used.memory + share.memory < used.memory_limit
                    and _gpu_fits(used, share)
                )

        synchronize(state, explain=explain)

        self.assertTrue(all(rooms))

    @few
    @given(deployments(), st.sampled_from([7, 100, None]))
    def test_comes_to_rest(self, state: Deployment, budget: int | None) -> None:
        """
        After a few plans there is nothing more to do: all is well, or has no
        room, no limits, or a problem.
        """
        for _ in range(40):
            result = synchronize(state, budget)
            if _calm(result.operations):
                break
            state = advance(state, result)
        else:
            self.fail("it does not come to rest")
        again = synchronize(advance(state, result), budget)
        self.assertEqual(again.operations, result.operations)
        self.assertFalse(again.exhausted)

    @few
    @given(deployments(), st.randoms(use_true_random=False))
    def test_order_of_what_is_given(self, state: Deployment, random: Any) -> None:
        """
        The order of nodes, processes, placements, wishes and the like makes no
        difference.
        """

        def shuffled(given: Any) -> Any:
            items = [*(given.items() if isinstance(given, dict) else given)]
            random.shuffle(items)
            return dict(items) if isinstance(given, dict) else items

        other = evolve(
            state,
            **{
                name: shuffled(getattr(state, name))
                for name in (
                    "nodes",
                    "processes",
                    "placements",
                    "relocations",
                    "moving",
                    "held",
                )
            },
        )

        self.assertEqual(planned(other), planned(state))

    @few
    @given(deployments())
    def test_nothing_given_is_changed(self, state: Deployment) -> None:
        """
        What is given stays as it is.
        """
        before = copy.deepcopy(state)

        planned(state)

        self.assertEqual(state, before)


class MovingProperties(SynchronousTestCase):
    """
    Plans of the other phases, for states of any kind.
    """

    @few
    @given(deployments())
    def test_moves(self, state: Deployment) -> None:
        """
        Each move is of a process that is there, neither moving nor held, to
        another node with room for its limits.
        """
        rooms: list[bool] = []

        def explain(action: Action, ledger: Ledger) -> None:
            found = [p for p in state.processes if p.id == action.work]
            self.assertNotIn(action.work, state.moving)
            self.assertNotIn(action.work, state.held)
            if isinstance(action, Move):
                (process,) = [p for p in found if p.node == action.source]
                rooms.append(
                    action.source != action.target
                    and ledger.has_room(action.target, process.limits)
                )

        first = rebalance(state, explain=explain)
        second = relocate(state, explain=explain)

        self.assertTrue(all(rooms))
        for operations in (first.operations, second.operations):
            self.assertEqual({type(a) for a in operations} - {Move, Skip}, set())
        sources = [a.source for a in first.operations if isinstance(a, Move)]
        self.assertEqual(len(sources), len(set(sources)))

    @few
    @given(deployments())
    def test_wishes(self, state: Deployment) -> None:
        """
        A wish is done when it is moved, or there is nothing to be moved, or it
        moves already and could go nowhere better; it stands when it is skipped,
        moving or held.
        """
        result = relocate(state)

        moved = {a.work for a in result.operations if isinstance(a, Move)}
        skipped = {a.work for a in result.operations if isinstance(a, Skip)}
        places: dict[str, set[str]] = {}
        for process in state.processes:
            places.setdefault(process.id, set()).add(process.node)
        for work, wish in state.relocations.items():
            if work in moved:
                self.assertIn(work, result.done)
            elif work in skipped:
                self.assertNotIn(work, result.done)
            elif work in result.done:
                at_rest = work not in places or wish in places[work]
                self.assertTrue(at_rest or work in state.moving)
            else:
                self.assertTrue(work in state.moving or work in state.held)


def _gpu_fits(used: Resources, share: Share) -> bool:
    wanted = share.gpu
    if wanted is None or not wanted.wanted:
        return True
    return any(
        gpu.memory + wanted.memory < gpu.memory_limit
        and gpu.usage + wanted.usage < gpu.usage_limit
        and gpu.encoder + wanted.encoder < gpu.usage_limit
        and gpu.decoder + wanted.decoder < gpu.usage_limit
        for gpu in used.gpus
    )


def _calm(operations: tuple[Action, ...]) -> bool:
    return all(isinstance(a, Null | Reject | Error) for a in operations)
