"""
What a planner would do with the cluster as it is; nothing of it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve
from twisted.internet.defer import inlineCallbacks
from twisted.python.reflect import namedAny

from .._types import Steps
from ..consul.api import ConsulApi
from ..errors import ConfigurationError, CoordinationError
from ..interfaces import IPlanner
from ..keys import Keys
from ..planning.explaining import Explained, Explanations
from ..planning.observe import observe
from ..planning.operations import Assign, Move, Operation, Plan, Reassign, Unassign
from ..planning.placing import ResourcePlanner
from ..planning.state import ClusterState, Recalled, Snapshot, plans_by_resources
from ..plugins import LeaderPlugin, find_leader
from ..recollection import LostRecord
from ..settings import Settings
from ..snapshot import read_snapshot
from .documents import Document

#: What is assumed of members that tell what resources they have.
BY_RESOURCES = "resource"


def planner_of(leader: str) -> Callable[[], IPlanner]:
    """
    Give what makes the planner of a leader, by the name of its plugin.

    :raises ConfigurationError: when there is no such plugin, when what it
        stands for cannot be imported, or when it does not say what plans.
    """
    plugin = find_leader(leader)
    if not isinstance(plugin, LeaderPlugin) or plugin.planner is None:
        raise ConfigurationError(f"{leader!r} is a leader without a planner to ask")
    make: Callable[[], IPlanner] = namedAny(plugin.planner)
    return make


@inlineCallbacks
def plan(
    api: ConsulApi,
    keys: Keys,
    leader: str,
    make_planner: Callable[[], IPlanner],
    assumed: bool = False,
    wall: Callable[[], float] = time.time,
) -> Steps[Document]:
    """
    Give what that leader would do now, as a document.

    :param assumed: that nobody said which leader it is.
    :param wall: the wall clock, which says how long members are missed.
    :return: a Deferred that fails with :class:`CoordinationError` when the
        state cannot be read, or the planner cannot plan it.
    """
    try:
        planner = make_planner()
        reports = assumed or plans_by_resources(planner)
        found: Snapshot = yield read_snapshot(
            api, keys, 0.0, consistent=False, reports=reports
        )
        state = ClusterState.from_snapshot(found)
        if assumed and any(member.resources for member in state.members.values()):
            # They measure only where their leader plans by it.
            leader, planner = BY_RESOURCES, planner_of(BY_RESOURCES)()
        explanations = None
        if isinstance(planner, ResourcePlanner):
            state = _recalled(state, wall())
            explanations = Explanations(observe(state))
            planner = evolve(planner, explain=explanations)
        made = planner.plan(state)
    except CoordinationError:
        raise
    except Exception as error:
        # Anybody's code; what it says is all that can be told.
        raise CoordinationError(
            f"the planner of {leader!r} failed: {error!r}"
        ) from error
    told = [] if explanations is None else explanations.all
    return {
        **document(leader, state, made),
        "explanations": [explained(e) for e in told if e.why or e.why_not],
        "assumed": assumed,
    }


def _recalled(state: ClusterState, wall: float) -> ClusterState:
    """
    Give the state with what its leader remembers, as far as keys tell: whoever
    is missed is awaited for as long as the default says.
    """
    awaited = set()
    for name in state.missing:
        entry = state.lost.get(name)
        record = None if entry is None else LostRecord.from_entry(entry)
        recover = Settings().node_recover_timeout
        if record is None or wall - record.since <= recover:
            awaited.add(name)
    return evolve(state, recalled=Recalled(frozenset(awaited)))


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
        "freeze_reason": state.freeze_reason or None,
        "operations": [_operation(operation) for operation in made.operations],
        "items_after": dict(sorted(after.items())),
        "errors": dict(made.errors),
        "moving": dict(made.moving),
        "skipped": dict(made.skipped),
        "pending": len(made.pending),
    }


def explained(one: Explained) -> Document:
    """
    Give why an operation is what it is, as a document.
    """
    action = one.action
    return {
        "op": type(action).__name__.lower(),
        "work": action.work,
        "node": getattr(action, "target", None) or getattr(action, "node", None),
        "why": one.why or getattr(action, "reason", ""),
        "why_not": dict(sorted(one.why_not.items())),
    }


def _operation(operation: Operation) -> dict[str, Any]:
    match operation:
        case Assign(work, member):
            return {"op": "assign", "work": work, "from": None, "to": member}
        case Reassign(work, member):
            return {"op": "reassign", "work": work, "from": member, "to": member}
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
        for kind in ("assign", "move", "reassign", "unassign")
        if (count := sum(operation["op"] == kind for operation in operations))
    ]
    return ", ".join(counts)
