"""
Small clusters for the tests of planners, and what a plan makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import evolve
from hypothesis import strategies as st

from voltha_coord.planning.operations import Assign, Move, Plan, Unassign
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import Member

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


@st.composite
def clusters(draw: st.DrawFn, unique: bool = False) -> ClusterState:
    """
    Give any state: members of any weight, leaving ones, items assigned to the
    living, to the dead, to nobody, items that are no work, and, unless they
    are to be ``unique``, items assigned to several.
    """
    weights = st.sampled_from([0, 1, 1, 1, 2, 3, 0.5, 2.5, 100])
    alive = draw(st.dictionaries(st.sampled_from(names("m", 6)), weights))
    work = draw(st.sets(st.sampled_from(names("w", 20))))
    items = st.sampled_from(names("w", 24))
    holder = st.sampled_from(names("m", 8))
    pairs = draw(
        st.sets(st.tuples(holder, items), max_size=40)
        if not unique
        else st.dictionaries(items, holder).map(
            lambda placed: {(member, item) for item, member in placed.items()}
        )
    )
    assignments: dict[str, list[str]] = {}
    for member, item in sorted(pairs):
        assignments.setdefault(member, []).append(item)
    leaving = draw(st.sets(st.sampled_from(sorted(alive)))) if alive else set()
    return cluster(alive, work, assignments, leaving)


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
    )
