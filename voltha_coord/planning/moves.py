"""
Moves under way: what becomes of what was begun in an earlier pass.

# Note [The steps of a move]

    placed on S ──plan──▶ S runs, T prepares ──T is ready──▶ T is to run
                              │
                              └── T fails, takes too long, goes away or may have
                                  no work any more; S goes away; the item changes
                                  or is wanted no more ──▶ placed on S, as before

That T prepares is in the keys (an assignment with the phase ``prepare``), so
that the next leader goes on where this one ended.  The last step is one
transaction; from there the owner record keeps T from starting before S has
stopped.  A move that is given up is not tried again for some time.  Where an
operator wanted it, the wish stays until the item has moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from ..item import FAILED, PREPARED
from .deployment import ONLINE, Node
from .observe import (
    assignment,
    described,
    is_prepared,
    is_unreadable,
    runs,
    wanted_item,
)
from .state import ClusterState


@frozen
class Moves:
    """
    The moves under way, and what becomes of each.

    :ivar going_on: work id to target, of those whose target prepares.
    :ivar ready: work id to target, of those that are to be completed.
    :ivar sources: the members they leave, by work id, of both.
    :ivar over: what is to be taken back: work id and target of each.
    :ivar given_up: why, by work id, where somebody is to know.
    """

    going_on: Mapping[str, str] = field(factory=dict)
    ready: Mapping[str, str] = field(factory=dict)
    sources: Mapping[str, str] = field(factory=dict)
    over: tuple[tuple[str, str], ...] = ()
    given_up: Mapping[str, str] = field(factory=dict)


def see_to_moves(state: ClusterState, nodes: Mapping[str, Node]) -> Moves:
    """
    See what becomes of the moves under way; see Note [The steps of a move].

    :param nodes: the members as planning sees them.
    """
    going_on: dict[str, str] = {}
    ready: dict[str, str] = {}
    sources: dict[str, str] = {}
    over: list[tuple[str, str]] = []
    given_up: dict[str, str] = {}
    for work, target in _prepared(state):
        source = _source(state, work)
        if source is None or work not in state.work:
            over.append((work, target))
        elif (
            source == target or work in sources or _differs(state, work, target, source)
        ):
            # Of two moves of one item the second was never ours; and what has
            # become something else is changed first, and moved then.
            over.append((work, target))
        elif why := _why_not(state, nodes[target], work):
            over.append((work, target))
            given_up[work] = why
        else:
            sources[work] = source
            at_hand = ready if _is_ready(state, work, target) else going_on
            at_hand[work] = target
    return Moves(going_on, ready, sources, tuple(over), given_up)


def _prepared(state: ClusterState) -> Iterator[tuple[str, str]]:
    """
    Give each item that is being prepared, and where.
    """
    for member in sorted(state.assignments):
        for work in state.assignments[member]:
            if is_prepared(state, member, work):
                yield work, member


def _source(state: ClusterState, work: str) -> str | None:
    """
    Give the living member that is to run an item.
    """
    for member in sorted(state.members):
        if runs(state, member, work):
            return member
    return None


def _differs(state: ClusterState, work: str, target: str, source: str) -> bool:
    """
    Whether an item is another one than its target makes ready.  One that cannot
    be read any more is what its source has.
    """
    found = assignment(state, target, work)
    if found is None or found.item is None:
        return True
    item = wanted_item(state, work)
    if is_unreadable(state, work):
        applied = assignment(state, source, work)
        item = item if applied is None or applied.item is None else applied.item
    return described(found.item) != described(item)


def _why_not(state: ClusterState, target: Node, work: str) -> str:
    """
    Say why a move cannot go on; empty when it can.
    """
    if target.state != ONLINE:
        return f"{target.id}, which was to have it, is {target.state}"
    report = state.statuses.get(target.id)
    status = None if report is None else report.items.get(work)
    if status is not None and status.state == FAILED:
        return f"{target.id} could not make it ready: {status.error or 'no reason'}"
    return state.recalled.overdue.get(work, "")


def _is_ready(state: ClusterState, work: str, target: str) -> bool:
    report = state.statuses.get(target)
    status = None if report is None else report.items.get(work)
    if status is None or status.state != PREPARED:
        return False
    found = assignment(state, target, work)
    return (
        found is not None
        and found.item is not None
        and (status.digest == found.item.digest)
    )
