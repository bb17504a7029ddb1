"""
The first phase: what is wanted is made to be, and nothing else.

# Note [What a plan may cost]

Operations that nodes have to work for are charged, :data:`COST` each, and none
is begun once the budget is used up: first the updates, in the order of the
processes; then the starts, of which one is always made; then what is placed
anew, of which one is as well.  Stops, deletions, and what costs nobody anything
are free.  What is left over is not judged at all, and comes next time.

# Note [In which order]

Processes are looked at in the order of their ids; of an item that several nodes
have, first the one on the node where it was placed, then by node id: the first
one stays.  What is placed anew is placed in the order in which it is wanted.
So the order in which nodes and processes are given makes no difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from .._json import dump
from .actions import (
    Action,
    Add,
    Delete,
    Error,
    Null,
    Reject,
    Start,
    Stop,
    Update,
)
from .affinity import Affinity
from .deployment import OFFLINE, Deployment, Process, Wanted, domain_of
from .opening import Explain, in_order, opened
from .resources import Ledger
from .shares import Share

#: What a plan may cost, unless told otherwise.
BUDGET = 100

#: What an update, a start and a placement cost.
COST = 3

#: Why an item is not placed.
NO_LIMITS = "this process has no limits defined"
NO_ROOM = "no node with enough resources for deployment is available"


@frozen
class Synchronized:
    """
    What synchronizing comes to.

    :ivar placements: work id to node, with all operations done.
    :ivar ledger: what the nodes use then.
    :ivar exhausted: whether the budget is used up, so that there may be more to
        do.
    """

    operations: tuple[Action, ...]
    placements: Mapping[str, str]
    ledger: Ledger
    exhausted: bool


def synchronize(
    deployment: Deployment,
    budget: float | None = BUDGET,
    explain: Explain | None = None,
) -> Synchronized:
    """
    Decide what is to be done so that all that is wanted, and nothing else, is
    placed and has its order.

    :param budget: see Note [What a plan may cost]; ``None`` for no bound.
    """
    return _Synchronizing(deployment, budget, explain).run()


class _Synchronizing:
    """
    One run of the phase.
    """

    def __init__(
        self, deployment: Deployment, budget: float | None, explain: Explain | None
    ) -> None:
        self._deployment = deployment
        self._budget = math.inf if budget is None else budget
        self._explain = explain
        self._ledger = opened(deployment)
        self._placements: dict[str, str] = {}
        self._free: list[Action] = []
        self._deletes: list[Action] = []
        self._updates: list[Action] = []
        self._starts: list[Action] = []
        self._adds: list[Action] = []

    def run(self) -> Synchronized:
        left = {wanted.id: wanted for wanted in self._deployment.work}
        stay, to_start = self._compare(left)
        self._start(to_start)
        self._wait(left)
        self._place([w for w in self._deployment.work if w.id in left], stay)
        return Synchronized(
            (
                *self._free,
                *self._deletes,
                *self._updates,
                *self._starts,
                *self._adds,
            ),
            self._placements,
            self._ledger,
            self._budget <= 0,
        )

    def _decide(self, where: list[Action], action: Action) -> None:
        if self._explain is not None:
            self._explain(action, self._ledger)
        where.append(action)

    def _compare(self, left: dict[str, Wanted]) -> tuple[list[Process], list[Process]]:
        """
        Compare what there is with what is wanted, which is taken out of
        ``left``.

        :return: the processes that stay, and those of them that are to be
            started.
        """
        stay, to_start = [], []
        for process in in_order(self._deployment):
            wanted = left.pop(process.id, None)
            if wanted is None:
                self._decide(self._deletes, Delete(process.id, process.node))
                self._ledger.remove(process.node, process.usage)
                continue
            self._placements[process.id] = process.node
            stay.append(process)
            if wanted.problem:
                self._decide(self._free, Error(process.id, wanted.problem))
                continue
            self._update(process, wanted)
            if process.order == wanted.order:
                continue
            if wanted.order == "start":
                to_start.append(process)
            else:
                self._decide(self._free, Stop(process.id, process.node))
                self._ledger.remove(process.node, process.usage)
        return stay, to_start

    def _update(self, process: Process, wanted: Wanted) -> None:
        if self._budget <= 0:
            return
        changed = (
            process.description is not wanted.description
            and process.description != wanted.description
        )
        forced = wanted.force and wanted.updated_at > process.updated_at
        differs, metadata = metadata_change(wanted.metadata, process.metadata)
        if changed or forced or differs:
            update = Update(process.id, process.node, metadata, wanted.force)
            self._decide(self._updates, update)
            self._budget -= COST
        else:
            self._decide(self._free, Null(process.id))

    def _start(self, processes: list[Process]) -> None:
        for process in processes:
            self._decide(self._starts, Start(process.id, process.node))
            self._ledger.add(process.node, process.limits)
            self._budget -= COST
            if self._budget <= 0:
                return

    def _wait(self, left: dict[str, Wanted]) -> None:
        """
        Keep what was lost with nodes that may come back.
        """
        for work, name in self._deployment.placements.items():
            node = self._deployment.nodes.get(name)
            if work not in left or node is None or node.state != OFFLINE:
                continue
            if node.missing_for <= self._deployment.node_recover_timeout:
                self._placements[work] = name
                del left[work]

    def _place(self, missing: list[Wanted], stay: list[Process]) -> None:
        """
        Place what is nowhere.
        """
        affinity = Affinity(stay)
        for wanted in missing:
            if wanted.problem:
                self._decide(self._free, Error(wanted.id, wanted.problem))
                continue
            limits = wanted.limits
            if limits.cpu <= 0 or limits.memory <= 0:
                self._decide(self._free, Reject(wanted.id, NO_LIMITS))
                continue
            domain = domain_of(wanted.id)
            node = self._node_for(wanted, domain, affinity)
            if node is None:
                self._decide(self._free, Reject(wanted.id, NO_ROOM))
            else:
                self._decide(self._adds, Add(wanted.id, node, wanted.order))
                self._budget -= COST
                self._ledger.add(node, limits)
                self._placements[wanted.id] = node
                affinity.add(wanted.reference, domain, node)
            if self._budget <= 0:
                return

    def _node_for(self, wanted: Wanted, domain: str, affinity: Affinity) -> str | None:
        if wanted.reference:
            for node in affinity.nodes(wanted.reference, domain):
                if self._ledger.has_room(node, wanted.limits):
                    return node
        return self._ledger.best(wanted.limits)


def metadata_change(
    wanted: Mapping[str, Any], present: Mapping[str, Any]
) -> tuple[bool, dict[str, Any]]:
    """
    Compare the metadata of an item with what its process has.

    :return: whether they differ, and what has to be changed: every value that
        is wanted, and ``None`` for each one that is to go.
    """
    if wanted is present or (not wanted and not present):
        return False, dict(wanted)
    gone = dict.fromkeys(key for key in present if key not in wanted)
    differs = bool(gone) or any(
        key not in present or dump(value) != dump(present[key])
        for key, value in wanted.items()
    )
    return differs, {**wanted, **gone}


def advance(deployment: Deployment, result: Synchronized) -> Deployment:
    """
    Give the state that the operations lead to, before any node has reported
    anew: what was placed or started is there, and uses its limits.  The moves
    under way are counted in what the nodes use, and so are under way no more.
    """
    wanted = {one.id: one for one in deployment.work}
    changes = {
        (a.work, a.node): a for a in result.operations if isinstance(a, Delete | Update)
    }
    orders = {
        a.work: ("start" if isinstance(a, Start) else "stop")
        for a in result.operations
        if isinstance(a, Start | Stop)
    }
    processes = []
    for process in deployment.processes:
        change = changes.get((process.id, process.node))
        if isinstance(change, Delete):
            continue
        new = process
        if change is not None:
            new = _given(new, wanted[process.id])
        order = orders.get(process.id, process.order)
        if order != process.order:
            usage = process.limits if order == "start" else Share()
            new = evolve(new, order=order, usage=usage, state="")
        processes.append(new)
    for action in result.operations:
        if isinstance(action, Add):
            one = wanted[action.work]
            fresh = Process(one.id, action.node, action.order, "", one.limits)
            processes.append(_given(fresh, one))
    resources = result.ledger.resources
    return evolve(
        deployment,
        nodes={
            n: evolve(v, resources=resources[n]) for n, v in deployment.nodes.items()
        },
        processes=processes,
        placements=result.placements,
        moving={},
    )


def _given(process: Process, wanted: Wanted) -> Process:
    return evolve(
        process,
        limits=wanted.limits,
        reference=wanted.reference,
        description=wanted.description,
        metadata=wanted.metadata,
        updated_at=wanted.updated_at,
    )
