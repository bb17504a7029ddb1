"""
The default planner: everybody its share, and as few moves as that takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from zope.interface import implementer

from ..interfaces import IPlanner
from .apportion import apportion
from .current import Current, kept, standstill
from .operations import Plan
from .state import ClusterState


@implementer(IPlanner)
class BalancedPlanner:
    """
    Divides the items, which all count one, among the members by their weights.

    The counts are as even as can be (Note [Webster's apportionment]): items
    divided by weight differ between two members by at most the mean of
    ``1 / weight`` of the two, which is one item or less for weights from 1 on.
    Of all such counts those are taken that need the fewest moves, and no item
    is moved that need not be:

    - a member that leaves, or is gone: exactly its items move;
    - a member that joins: it gets its share, nothing moves between others;
    - nothing has changed: nothing is planned.

    Members that leave, of weight 0, or wanted away by an operator get nothing
    and give up what they have, unless no member is left to take it.  Those in
    maintenance get nothing either, but keep what they have, and only the rest
    of the items is divided among the others.

    An item found with several members stays with one: its owner if that is in
    maintenance, else one that may have work, then its owner, then the one with
    the fewest.  Whatever is left open is settled by the order of work ids and
    member ids.  An item that no member has stays with its owner, as far as
    that one has room.
    """

    def plan(self, state: ClusterState) -> Plan:
        """
        Give what is to be done.
        """
        still = standstill(state)
        if still is not None:
            return still
        current = Current.of(state)
        weights = state.receivers
        stays = kept(state, current)
        after = {**current.placements, **stays}
        held = Counter(after.values())
        _settle(current.duplicates, state, weights, after, held)
        owners = _owners(state, weights, after)
        most = held or Counter(owners.values())
        targets = apportion(weights, len(state.work) - len(stays), most)
        targets.update(Counter(stays.values()))
        moving = [*_surplus(after, held, targets)]
        # What moves leaves room.
        held = Counter({m: min(n, targets.get(m, 0)) for m, n in held.items()})
        free = sorted(state.work.keys() - after.keys())
        homeless = [*moving, *_stay(free, owners, targets, after, held)]
        homeless.sort()
        after.update(zip(homeless, _room(held, targets), strict=True))
        return Plan(current.operations(after), after)


def _settle(
    duplicates: Mapping[str, list[str]],
    state: ClusterState,
    weights: Mapping[str, float],
    placements: dict[str, str],
    held: Counter[str],
) -> None:
    """
    Let each item that several members have be with one of them, if it has no
    place yet.
    """
    for work, members in duplicates.items():
        if work in placements:
            continue
        owner = state.owner_of(work)
        keeper = min((m not in weights, m != owner, held[m], m) for m in members)[3]
        placements[work] = keeper
        held[keeper] += 1


def _owners(
    state: ClusterState, weights: Mapping[str, float], placements: Mapping[str, str]
) -> dict[str, str]:
    """
    Give the owners of items that are with nobody, where they may have work: the
    items run there already.  Their assignments were lost, or all of Consul's
    memory.
    """
    found = {}
    for work in sorted(state.work.keys() - placements.keys()):
        owner = state.owner_of(work)
        if owner is not None and owner in weights:
            found[work] = owner
    return found


def _stay(
    homeless: list[str],
    owners: Mapping[str, str],
    targets: Mapping[str, int],
    placements: dict[str, str],
    held: Counter[str],
) -> list[str]:
    """
    Let items stay with their owners as far as these have room; give the others.
    """
    others = []
    for work in homeless:
        owner = owners.get(work)
        if owner is not None and held[owner] < targets[owner]:
            placements[work] = owner
            held[owner] += 1
        else:
            others.append(work)
    return others


def _surplus(
    placements: Mapping[str, str], held: Counter[str], targets: Mapping[str, int]
) -> Iterator[str]:
    """
    Give the items that have to move: all of members that may have none, and
    the last ones, by id, of those that have too many.
    """
    excess = {m: n - targets.get(m, 0) for m, n in held.items()}
    giving: dict[str, list[str]] = {m: [] for m, n in excess.items() if n > 0}
    if giving:
        for work, member in placements.items():
            if member in giving:
                giving[member].append(work)
    for member, items in giving.items():
        items.sort()
        yield from items[-excess[member] :]


def _room(held: Counter[str], targets: Mapping[str, int]) -> Iterator[str]:
    """
    Give each member, in order, as often as it has room for one more item.
    """
    for member, target in targets.items():
        for _ in range(target - held[member]):
            yield member
