"""
Where things stand: one place for each item, and what lies about beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from ..records import PREPARE, Assignment
from .operations import Assign, Move, Operation, Plan, Reassign, Unassign
from .state import ClusterState


@frozen
class Current:
    """
    The assignments, seen from the work items.

    What a leader left behind that plans by resources is done away with: moves
    that it prepared, and items as it applied them, which nobody would change
    any more.

    :ivar placements: work id to the one member it is assigned to, which may be
        gone.
    :ivar duplicates: work id to the members, in order, of items that are
        assigned to several.
    :ivar over: assignments of what is no work item any more, and those that
        only prepare a move, in order.
    :ivar carrying: the members, by item, whose assignments say more than their
        keys.
    """

    placements: dict[str, str]
    duplicates: Mapping[str, list[str]]
    over: list[Unassign]
    carrying: Mapping[str, str] = field(factory=dict)

    @classmethod
    def of(cls, state: ClusterState) -> Current:
        """
        Look at a state.
        """
        wanted = state.work
        placements: dict[str, str] = {}
        duplicates: dict[str, list[str]] = {}
        over: list[Unassign] = []
        carrying: dict[str, str] = {}
        for member in sorted(state.assignments):
            for work, value in state.assignments[member].items():
                if work not in wanted or (value and _prepares(member, work, value)):
                    over.append(Unassign(work, member))
                    continue
                if value:
                    carrying[work] = member
                if work not in placements:
                    placements[work] = member
                else:
                    duplicates.setdefault(work, [placements[work]]).append(member)
        for work in duplicates:
            del placements[work]
        over.sort(key=lambda operation: (operation.work, operation.member))
        return cls(placements, dict(sorted(duplicates.items())), over, carrying)

    def operations(self, after: Mapping[str, str]) -> tuple[Operation, ...]:
        """
        Give what leads from here to other placements: first what is taken from
        members and given to nobody, then what is given, each in the order of
        the work ids.

        :param after: work id to member; every item that has a place here has
            one there.
        """
        takings: list[Operation] = [*self.over]
        givings: list[Assign | Move | Reassign] = [
            Reassign(work, member)
            for work, member in self.carrying.items()
            if after[work] == member
        ]
        for work, holders in self.duplicates.items():
            target = after[work]
            spare = [member for member in holders if member != target]
            if len(spare) == len(holders):
                givings.append(Move(work, spare.pop(0), target))
            takings += [Unassign(work, member) for member in spare]
        before = self.placements
        for work, target in after.items():
            source = before.get(work)
            if source == target or work in self.duplicates:
                continue
            givings.append(
                Assign(work, target) if source is None else Move(work, source, target)
            )
        givings.sort(key=lambda operation: operation.work)
        return (*takings, *givings)


def _prepares(member: str, work: str, value: bytes) -> bool:
    return Assignment.from_value(member, work, value).phase == PREPARE


def standstill(state: ClusterState) -> Plan | None:
    """
    Give the plan where no item may go anywhere; ``None`` where a planner is to
    plan.

    - Operators want nothing to be planned, or there is no member at all: that
      the last one is gone says nothing about where its work should be (the
      original took it as an order to delete every assignment).  Nothing is
      done.
    - No member may be given work.  Whatever has a place stays there; what is
      with no member is told, with the reason.
    """
    if state.receivers and not state.frozen:
        return None
    current = Current.of(state)
    if state.frozen or not state.members:
        firsts = {work: members[0] for work, members in current.duplicates.items()}
        return Plan(placements={**current.placements, **firsts})
    after = {**current.placements, **kept(state, current)}
    for work, holders in current.duplicates.items():
        if work not in after:
            owner = state.owner_of(work)
            after[work] = min(
                holders, key=lambda m: (m not in state.members, m != owner, m)
            )
    homeless = sorted(w for w in state.work if after.get(w) not in state.members)
    errors = dict.fromkeys(homeless, f"no member can take work: {why_nobody(state)}")
    return Plan(current.operations(after), after, errors)


def kept(state: ClusterState, current: Current) -> dict[str, str]:
    """
    Give the items that stay with a member in maintenance, and that member.

    Of an item that several members have, that is one that owns it, so that it
    goes on where it runs; and one of them where nobody else has it who may be
    given work.
    """
    keepers = state.keepers
    if not keepers:
        return {}
    found = {w: m for w, m in current.placements.items() if m in keepers}
    receivers = state.receivers
    for work, holders in current.duplicates.items():
        owner = state.owner_of(work)
        keeping = [m for m in holders if m in keepers]
        if owner is not None and owner in keeping:
            found[work] = owner
        elif keeping and receivers.keys().isdisjoint(holders):
            found[work] = keeping[0]
    return found


def why_nobody(state: ClusterState) -> str:
    """
    Say why no member may be given work, in words that change only with the
    reasons: what is under ``errors/`` is not to be written again and again.

    :param state: one with members, and without receivers.
    """
    refusals = {state.refusal(name) for name in state.members}
    return f"all are {' or '.join(sorted(refusals))}"
