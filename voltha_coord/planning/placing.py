"""
The planner of the resource leader: commands run where there is room for them.

It looks at the cluster as nodes and processes (:mod:`~.observe`), goes on with
the moves that are under way (:mod:`~.moves`), decides in three phases
(:mod:`~.synchronize`, :mod:`~.rebalance`, :mod:`~.relocate`), and gives what was
decided as operations on assignments (:mod:`~.carrying_out`).

# Note [What one plan may cost]

What synchronizing may cost is bounded, so that a plan does not take too long to
be made and written.  Where something is left the plan is unfinished, and the
next pass follows at once.  Rebalancing and relocating come when nothing is left
to synchronize.
"""

from __future__ import annotations

from collections.abc import Generator

from attrs import evolve, frozen
from zope.interface import implementer

from ..interfaces import ISteppedPlanner
from .actions import Action, Move
from .carrying_out import Decided, carry_out
from .deployment import Deployment
from .moves import see_to_moves
from .observe import observe, read_ahead, runs
from .opening import Explain
from .operations import Plan
from .rebalance import rebalance
from .recently import turn
from .relocate import relocate
from .state import ClusterState
from .synchronize import BUDGET, advance, synchronize

#: See Note [What one plan may cost]: some three thousand items.
PLAN_BUDGET = 100 * BUDGET


@implementer(ISteppedPlanner)
@frozen
class ResourcePlanner:
    """
    Places items where there is room for them; see the head of the module.

    :ivar by_resources: that it looks at what members report, and waits for those
        that are gone.
    :ivar improving: whether it rebalances and relocates as well.
    :ivar budget: what synchronizing may cost; ``None`` for no bound.
    :ivar explain: told of each operation, and of what nodes use by then, before
        it is counted.
    """

    improving: bool = True
    budget: float | None = PLAN_BUDGET
    explain: Explain | None = None
    by_resources = True

    def plan(self, state: ClusterState) -> Plan:
        """
        Give what is to be done.
        """
        steps = self.steps(state)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                plan: Plan = end.value
                return plan

    def steps(self, state: ClusterState) -> Generator[None, None, Plan]:
        """
        Do that step by step; see :class:`~.interfaces.ISteppedPlanner`.
        """
        turn()
        if state.frozen or not state.members:
            return Plan(placements=_as_assigned(state))
        yield from read_ahead(state)
        deployment = observe(state)
        yield
        moves = see_to_moves(state, deployment.nodes)
        under_way = {**moves.ready, **moves.going_on}
        decided = self.decide(evolve(deployment, moving=under_way))
        yield
        return carry_out(state, moves, decided)

    def decide(self, deployment: Deployment) -> Decided:
        """
        Go through the phases.
        """
        result = synchronize(deployment, self.budget, self.explain)
        actions: list[Action] = list(result.operations)
        done: tuple[str, ...] = ()
        exhausted = result.exhausted
        if not result.exhausted and self.improving:
            # What is being moved is counted already.
            now = evolve(advance(deployment, result), moving=deployment.moving)
            rebalanced = rebalance(now, result.ledger, self.explain)
            moved = {
                a.work: a.target for a in rebalanced.operations if isinstance(a, Move)
            }
            now = evolve(now, moving={**now.moving, **moved})
            relocated = relocate(now, result.ledger, explain=self.explain)
            actions += (*rebalanced.operations, *relocated.operations)
            done, exhausted = relocated.done, relocated.exhausted
        return Decided(tuple(actions), result.placements, done, exhausted)


def plan_alone() -> ResourcePlanner:
    """
    Make what plans for a member that is cut off: it places what is lost, all at
    once, and moves nothing.
    """
    return ResourcePlanner(improving=False, budget=None)


def _as_assigned(state: ClusterState) -> dict[str, str]:
    """
    Give the members that are to run the items as things are; of several the
    last one.
    """
    return {
        work: member
        for member, items in sorted(state.assignments.items())
        for work in items
        if work in state.work and runs(state, member, work)
    }
