"""
What a planner would do with the cluster as it is; nothing of it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.python.reflect import namedAny

from .._types import Steps
from ..consul.api import ConsulApi
from ..interfaces import IPlanner
from ..keys import Keys
from ..planning.operations import Assign, Move, Operation, Plan, Unassign
from ..planning.state import ClusterState, Snapshot
from ..snapshot import read_snapshot
from .documents import Document

#: The planners of the leaders that divide items by their number.
PLANNERS = {
    "balanced": "voltha_coord.planning.balanced.BalancedPlanner",
    "hash-ring": "voltha_coord.planning.hash_ring.HashRingPlanner",
}


@inlineCallbacks
def plan(api: ConsulApi, keys: Keys, leader: str) -> Steps[Document]:
    """
    Give what that leader would do now, as a document.

    :param leader: one of :data:`PLANNERS`.
    """
    found: Snapshot = yield read_snapshot(api, keys, 0.0, consistent=False)
    state = ClusterState.from_snapshot(found)
    planner: IPlanner = namedAny(PLANNERS[leader])()
    return document(leader, state, planner.plan(state))


def document(leader: str, state: ClusterState, made: Plan) -> Document:
    """
    Give a plan as a document.
    """
    after: dict[str, int] = dict.fromkeys(state.members, 0)
    for member in made.placements.values():
        after[member] = after.get(member, 0) + 1
    return {
        "leader": leader,
        "frozen": state.frozen,
        "operations": [_operation(operation) for operation in made.operations],
        "items_after": dict(sorted(after.items())),
        "errors": dict(made.errors),
    }


def _operation(operation: Operation) -> dict[str, Any]:
    match operation:
        case Assign(work, member):
            return {"op": "assign", "work": work, "from": None, "to": member}
        case Unassign(work, member):
            return {"op": "unassign", "work": work, "from": member, "to": None}
        case Move(work, source, target):
            return {"op": "move", "work": work, "from": source, "to": target}


def summary(operations: Sequence[Document]) -> str:
    """
    Count the operations, in words.
    """
    if not operations:
        return "nothing to do"
    counts = [
        f"{count} to {kind}"
        for kind in ("assign", "move", "unassign")
        if (count := sum(operation["op"] == kind for operation in operations))
    ]
    return ", ".join(counts)
