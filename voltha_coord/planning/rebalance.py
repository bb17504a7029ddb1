"""
The second phase: nodes that have too much to do give something up.

A node has too much when it has reached a limit of CPU or memory, or holds its
processes back; its state is not looked at.  In one pass it gives up one process
at most: the one that runs for the shortest time and finds room elsewhere, with
items of its reference if it can.  Those before it that find none are skipped,
and are none the worse for it.  A node from which something was moved is let be
until it has been measured anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from .actions import Action, Move, Skip
from .affinity import Affinity
from .deployment import RUNNING, Deployment, Process, domain_of
from .opening import Explain, in_order, opened
from .resources import Ledger

#: Why a process is not moved.
NO_ROOM = "no node with enough resources for rebalancing is available"


@frozen
class Rebalanced:
    """
    What rebalancing comes to.

    :ivar ledger: what the nodes use, with all operations done.
    """

    operations: tuple[Action, ...]
    ledger: Ledger


def rebalance(
    deployment: Deployment,
    ledger: Ledger | None = None,
    explain: Explain | None = None,
) -> Rebalanced:
    """
    Decide what is to be moved from nodes that have too much to do.

    :param ledger: what the nodes use by the phase before, moves under way
        counted as done; it is counted on in it.  ``None``: as they report.
    """
    if ledger is None:
        ledger = opened(deployment)
    affinity = Affinity(in_order(deployment))
    running = by_node(deployment.processes)
    operations: list[Action] = []
    for node in sorted(deployment.nodes):
        if node in deployment.settling or not ledger.overloaded(node):
            continue
        for process in running.get(node, ()):
            if process.id in deployment.moving or process.id in deployment.held:
                continue
            action = move_away(process, ledger, affinity, NO_ROOM, explain)
            operations.append(action)
            if isinstance(action, Move):
                break
    return Rebalanced(tuple(operations), ledger)


def by_node(processes: Iterable[Process]) -> dict[str, list[Process]]:
    """
    Give the processes that run on each node, those first that have run for the
    shortest time; among equal ones by id.
    """
    found: dict[str, list[Process]] = {}
    for process in sorted(processes, key=lambda p: (p.runtime, p.id)):
        if process.state == RUNNING:
            found.setdefault(process.node, []).append(process)
    return found


def move_away(
    process: Process,
    ledger: Ledger,
    affinity: Affinity,
    reason: str,
    explain: Explain | None,
    target: str | None = None,
) -> Move | Skip:
    """
    Move a process to a node that has room for it, and count that.

    :param reason: why it is skipped where no node has room.
    :param target: the node it is to be moved to; ``None`` for the best: one that
        has items of its reference, or else the one with the most room.
    """
    domain = domain_of(process.id)
    if target is None:
        target = _elsewhere(process, domain, ledger, affinity)
    action: Move | Skip
    if target is None:
        action = Skip(process.id, process.node, reason)
    else:
        action = Move(process.id, process.node, target, process.order)
    if explain is not None:
        explain(action, ledger)
    if target is not None:
        ledger.move(target, process.node, process.usage)
        affinity.move(process.reference, domain, process.node, target)
    return action


def _elsewhere(
    process: Process, domain: str, ledger: Ledger, affinity: Affinity
) -> str | None:
    for node in affinity.nodes(process.reference, domain):
        if node != process.node and ledger.has_room(node, process.limits):
            return node
    return ledger.best(process.limits, excluding=process.node)
