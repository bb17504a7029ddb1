"""
The third phase: what is wanted on another node is moved there.

Wishes are looked at in the order of the work ids.  One that names a node which
is not known, or has no room, is one for any other node.  A move costs
:data:`COST`; none is begun once the budget is used up.
"""

from __future__ import annotations

import math

from attrs import frozen

from .actions import Action, Move
from .affinity import Affinity
from .deployment import Deployment, Process
from .opening import Explain, in_order, opened
from .rebalance import move_away
from .resources import Ledger
from .synchronize import BUDGET

#: What a move costs.
COST = 5

#: Why a process is not moved.
NO_ROOM = "no node with enough resources for relocating is available"


@frozen
class Relocated:
    """
    What relocating comes to.

    :ivar ledger: what the nodes use, with all operations done.
    :ivar done: the work ids of wishes that are fulfilled with the operations, or
        by themselves: there is no such process, or it is where it is wanted, or
        moves elsewhere already while there is no room where it is wanted.
    :ivar exhausted: whether the budget is used up, so that there may be more to
        do.
    """

    operations: tuple[Action, ...]
    ledger: Ledger
    done: tuple[str, ...]
    exhausted: bool


def relocate(
    deployment: Deployment,
    ledger: Ledger | None = None,
    budget: float | None = BUDGET,
    explain: Explain | None = None,
) -> Relocated:
    """
    Decide what is to be moved because somebody wants it.

    :param ledger: as of :func:`~.rebalance.rebalance`.
    :param budget: what the moves may cost; ``None`` for no bound.
    """
    if ledger is None:
        ledger = opened(deployment)
    left = math.inf if budget is None else budget
    processes = in_order(deployment)
    affinity = Affinity(processes)
    places: dict[str, Process] = {}
    for process in processes:
        places.setdefault(process.id, process)
    operations: list[Action] = []
    done = []
    for work, wish in sorted(deployment.relocations.items()):
        found = places.get(work)
        if found is None or found.node == wish:
            done.append(work)
            continue
        room = ledger.has_room(wish, found.limits)
        if work in deployment.moving:
            if not room:
                done.append(work)
            continue
        if work in deployment.held:
            continue
        target = wish if room else None
        action = move_away(found, ledger, affinity, NO_ROOM, explain, target)
        operations.append(action)
        if isinstance(action, Move):
            done.append(work)
            left -= COST
            if left <= 0:
                break
    return Relocated(tuple(operations), ledger, tuple(done), left <= 0)
