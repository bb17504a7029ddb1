"""
What a member that is cut off takes over, by what it knew last.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import evolve, field, frozen

from ..interfaces import IPlanner
from ..records import Member
from .state import ClusterState

#: Why nothing is taken over while an operator wants nothing to be planned.
FROZEN = "planning is frozen"

#: Why an item is not, where its planner gives no reason.
ELSEWHERE = "it was not given to this member"


@frozen
class Takeover:
    """
    What a member that is cut off runs beside its own work.

    :ivar items: the values, by work id.
    :ivar left_out: why others of the items that ran elsewhere are not among
        them, by work id.
    :ivar age: of the state that this rests on, in seconds.
    """

    items: Mapping[str, bytes] = field(factory=dict)
    left_out: Mapping[str, str] = field(factory=dict)
    age: float = 0.0


def take_over(
    state: ClusterState,
    member: Member,
    planner: IPlanner,
    here: Collection[str],
    now: float,
) -> Takeover:
    """
    Plan a cluster in which that member is the only one left.

    What operators wanted when it was last seen is heeded: nothing is taken over
    while planning is frozen, and nothing by a member that may not be given work
    (in maintenance, leaving, of weight 0).  What others were in counts for
    nothing: they are gone, as far as this member can tell.

    :param state: the cluster as it was last seen.
    :param member: the only one left.
    :param here: the ids of the items it runs already.
    :param now: the time, on the lease clock.
    :raises Exception: what the planner raises, which it should not.
    """
    alone = evolve(state, members={member.id: member}, now=now)
    plan = planner.plan(alone)
    items, left_out = {}, {}
    for work in sorted(state.work):
        if work in here:
            continue
        if state.frozen:
            left_out[work] = FROZEN
        elif plan.placements.get(work) == member.id:
            items[work] = state.work[work]
        else:
            left_out[work] = plan.errors.get(work, ELSEWHERE)
    return Takeover(items, left_out, now - state.now)
