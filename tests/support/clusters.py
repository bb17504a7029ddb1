"""
Small clusters for the tests of planners, and what a plan makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import evolve
from hypothesis import strategies as st

from voltha_coord.planning.operations import Assign, Move, Plan, Unassign
from voltha_coord.planning.state import LEAVE, MAINTENANCE, ClusterState
from voltha_coord.records import Member, OwnerRecord

_T = TypeVar("_T")


def cluster(
    members: Iterable[str] | Mapping[str, float] = (),
    work: Iterable[str] = (),
    assignments: Mapping[str, Sequence[str]] | None = None,
    leaving: Iterable[str] = (),
) -> ClusterState:
    """
    Give a state.

    :param members: their ids, or their weights by id.
    :param assignments: the items by member.
    :param leaving: which of the members leave.
    """
    weights = members if isinstance(members, Mapping) else dict.fromkeys(members, 1)
    away = {*leaving}
    return ClusterState(
        members={
            name: Member(name, weight=weight, session="s", leaving=name in away)
            for name, weight in weights.items()
        },
        work=dict.fromkeys(work, b""),
        assignments={
            name: dict.fromkeys(items, b"")
            for name, items in (assignments or {}).items()
        },
    )


def applied(state: ClusterState, plan: Plan) -> ClusterState:
    """
    Give the state once a plan is applied.

    :raises AssertionError: when an operation does not fit the state it meets.
    """
    assignments = {name: dict(items) for name, items in state.assignments.items()}

    def take(work: str, member: str) -> None:
        assert work in assignments[member], (work, member)
        del assignments[member][work]

    def give(work: str, member: str) -> None:
        assert member in state.members, (work, member)
        assert not any(work in items for items in assignments.values()), work
        assignments.setdefault(member, {})[work] = b""

    for operation in plan.operations:
        match operation:
            case Assign(work, member):
                give(work, member)
            case Unassign(work, member):
                take(work, member)
            case Move(work, source, target):
                take(work, source)
                give(work, target)
    return evolve(
        state, assignments={m: items for m, items in assignments.items() if items}
    )


def placed(state: ClusterState) -> dict[str, str]:
    """
    Give work id to member, of a state where no item has two.
    """
    pairs = [(w, m) for m, items in state.assignments.items() for w in items]
    assert len(pairs) == len(dict(pairs)), "an item has two members"
    return dict(pairs)


def names(letter: str, most: int) -> list[str]:
    """
    Give some ids that begin with a letter.
    """
    return [f"{letter}{number}" for number in range(most)]


#: What there may be with a member beside its weight.
LEAVING = "leaving"
FATES = (*4 * ("",), LEAVING, LEAVE, *2 * (MAINTENANCE,))


@st.composite
def clusters(draw: st.DrawFn, unique: bool = False) -> ClusterState:
    """
    Give any state: members of any weight, leaving ones, ones that operators
    want something of, items assigned to the living, to the dead, to nobody,
    items that are no work, items that somebody owns, and, unless they are to be
    ``unique``, items assigned to several.
    """
    weights = st.sampled_from([1, 1, 1, 2, 3, 0, 0.5, 2.5, 100])
    # Sizes are drawn first: most examples are to be large enough to matter.
    alive = {name: draw(weights) for name in names("m", draw(st.integers(0, 6)))}
    fates = {name: draw(st.sampled_from(FATES)) for name in [*alive, "m7"]}
    work = names("w", draw(st.integers(0, 20)))
    holder = st.sampled_from([*alive, "m6", "m7"])
    holders = st.lists(holder, max_size=1 if unique else 3, unique=True)
    owners: dict[str, str] = {}
    assignments: dict[str, list[str]] = {}
    for item in [*work, *names("old", 3)]:
        having = draw(holders)
        for member in having:
            assignments.setdefault(member, []).append(item)
        owner = draw(st.sampled_from(["", *having]) | holder)
        if owner:
            owners[item] = owner
    leaving = [name for name in alive if fates[name] == LEAVING]
    return evolve(
        cluster(alive, work, assignments, leaving),
        owners={item: OwnerRecord(owner, "s") for item, owner in owners.items()},
        node_intents={
            name: fate for name, fate in fates.items() if fate in (LEAVE, MAINTENANCE)
        },
    )


def shuffled(draw: st.DataObject, state: ClusterState) -> ClusterState:
    """
    Give the same state with everything in another order.
    """

    def mix(values: Mapping[str, _T]) -> dict[str, _T]:
        return dict(draw.draw(st.permutations(list(values.items()))))

    return evolve(
        state,
        members=mix(state.members),
        work=mix(state.work),
        assignments={m: mix(v) for m, v in state.assignments.items()},
        owners=mix(state.owners),
        node_intents=mix(state.node_intents),
    )
