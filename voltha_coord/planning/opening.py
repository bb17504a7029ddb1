"""
What each phase of planning by resources begins with.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, lt
from typing import TypeAlias

from .actions import Action
from .deployment import Deployment, Process
from .resources import Ledger
from .shares import GpuShare, Share

#: Told of each operation, and of what nodes use, before it is counted.
Explain: TypeAlias = Callable[[Action, Ledger], None]


def opened(deployment: Deployment) -> Ledger:
    """
    Give the ledger a pass begins with: what nodes report, those that hold
    processes back, and the moves that are under way as if they were done.
    """
    ledger = Ledger(deployment.nodes)
    for process in deployment.processes:
        if process.throttling:
            ledger.throttle(process.node)
        target = deployment.moving.get(process.id)
        if target is not None and target != process.node:
            ledger.add(target, _larger(process.usage, process.limits))
            ledger.remove(process.node, process.usage)
    return ledger


def _larger(one: Share, other: Share) -> Share:
    gpus = [share.gpu for share in (one, other) if share.gpu is not None]
    gpu = None
    if gpus:
        gpu = GpuShare(
            max(g.memory for g in gpus),
            max(g.usage for g in gpus),
            max(g.encoder for g in gpus),
            max(g.decoder for g in gpus),
        )
    return Share(max(one.cpu, other.cpu), max(one.memory, other.memory), gpu)


def in_order(deployment: Deployment) -> list[Process]:
    """
    Give the processes in the order of Note [In which order].
    """
    placed = deployment.placements
    processes = sorted(deployment.processes, key=attrgetter("id"))
    if all(map(lt, (ids := [p.id for p in processes]), ids[1:])):
        # Nothing is there twice, as ever: there is no more to order.
        return processes
    return sorted(processes, key=lambda p: (p.id, placed.get(p.id) != p.node, p.node))
