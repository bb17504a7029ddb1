"""
Where things stand: one place for each item, and what lies about beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from .operations import Assign, Move, Operation, Plan, Unassign
from .state import ClusterState


@frozen
class Current:
    """
    The assignments, seen from the work items.

    :ivar placements: work id to the one member it is assigned to, which may be
        gone.
    :ivar duplicates: work id to the members, in order, of items that are
        assigned to several.
    :ivar over: assignments of what is no work item any more, in order.
    """

    placements: dict[str, str]
    duplicates: Mapping[str, list[str]]
    over: list[Unassign]

    @classmethod
    def of(cls, state: ClusterState) -> Current:
        """
        Look at a state.
        """
        wanted = state.work
        placements: dict[str, str] = {}
        duplicates: dict[str, list[str]] = {}
        over: list[Unassign] = []
        for member in sorted(state.assignments):
            for work in state.assignments[member]:
                if work not in wanted:
                    over.append(Unassign(work, member))
                elif work not in placements:
                    placements[work] = member
                else:
                    duplicates.setdefault(work, [placements[work]]).append(member)
        for work in duplicates:
            del placements[work]
        over.sort(key=lambda operation: (operation.work, operation.member))
        return cls(placements, dict(sorted(duplicates.items())), over)

    def operations(self, after: Mapping[str, str]) -> tuple[Operation, ...]:
        """
        Give what leads from here to other placements: first what is taken from
        members and given to nobody, then what is given, each in the order of
        the work ids.

        :param after: work id to member; every item that has a place here has
            one there.
        """
        takings: list[Operation] = [*self.over]
        givings: list[Assign | Move] = []
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


def nothing_to_do(state: ClusterState) -> Plan | None:
    """
    Give the empty plan where no planner may do anything: operators want it so,
    or there is no member at all.  That the last member is gone says nothing
    about where its work should be (the original took it as an order to delete
    every assignment).
    """
    if state.members and not state.frozen:
        return None
    current = Current.of(state)
    firsts = {work: members[0] for work, members in current.duplicates.items()}
    return Plan(placements={**current.placements, **firsts})


#: Why items have no place when no member may be given any.
NO_RECEIVER = "no member can take work: all are leaving or have weight 0"
