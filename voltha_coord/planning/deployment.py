"""
A cluster as a planner by resources sees it: nodes, what is wanted, what runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from .shares import Resources, Share

#: The states of a node.
ONLINE = "online"
OFFLINE = "offline"
DEGRADED = "degraded"
MAINTENANCE = "maintenance"
LEAVE = "leave"
NODE_STATES = (ONLINE, OFFLINE, DEGRADED, MAINTENANCE, LEAVE)

#: The state of a process that runs.
RUNNING = "running"


@frozen
class Node:
    """
    A member, as a place for processes.

    :ivar state: one of :data:`NODE_STATES`; only an online one is given any.
    :ivar missing_for: seconds since it was first missed.
    """

    id: str
    state: str = ONLINE
    missing_for: float = 0.0
    resources: Resources = field(factory=Resources)


@frozen
class Wanted:
    """
    What is to be deployed: a work item.

    :ivar order: ``start``, or ``stop`` for one that is placed and not run.
    :ivar limits: what it may use, and is given room for.
    :ivar reference: items of one reference, and one domain, like to be on one
        node.
    :ivar description: all of it in which a change is a change; compared by
        equality.
    :ivar force: start it anew, if it was updated since.
    :ivar updated_at: when it was changed last, on the scale of
        :attr:`Process.updated_at`.
    :ivar problem: why it cannot be deployed as it is; empty when it can.
    """

    id: str
    order: str = "start"
    limits: Share = field(factory=Share)
    reference: str = ""
    description: Any = None
    metadata: Mapping[str, Any] = field(factory=dict)
    force: bool = False
    updated_at: float = 0
    problem: str = ""


@frozen
class Process:
    """
    A work item with its place, and how it fares there.

    :ivar order: the last one it was given.
    :ivar state: what its node reports; :data:`RUNNING` when it runs.
    :ivar usage: what it uses.
    :ivar throttling: whether it is held back by its node.
    :ivar runtime: seconds since its state changed last.
    :ivar limits: those it was given last.
    :ivar description: as of :class:`Wanted`, when it was given last.
    """

    id: str
    node: str
    order: str = "start"
    state: str = RUNNING
    usage: Share = field(factory=Share)
    throttling: bool = False
    runtime: float = 0.0
    limits: Share = field(factory=Share)
    reference: str = ""
    description: Any = None
    metadata: Mapping[str, Any] = field(factory=dict)
    updated_at: float = 0


@frozen
class Deployment:
    """
    All that planning by resources looks at.

    :ivar nodes: by id; also those that are missed.
    :ivar work: what is wanted.
    :ivar processes: what the nodes have.
    :ivar placements: work id to node, as last decided.
    :ivar relocations: work id to the node it is wanted on; empty for any other.
    :ivar moving: work id to target of the moves under way; each process is still
        on its source.
    :ivar held: work id to the reason why it is not to be moved now.
    :ivar settling: nodes of which it is not known yet what their last moves have
        changed: rebalancing lets them be.
    :ivar node_recover_timeout: seconds for which the processes of a node that is
        offline are kept for it.
    """

    nodes: Mapping[str, Node] = field(factory=dict)
    work: Sequence[Wanted] = ()
    processes: Sequence[Process] = ()
    placements: Mapping[str, str] = field(factory=dict)
    relocations: Mapping[str, str] = field(factory=dict)
    moving: Mapping[str, str] = field(factory=dict)
    held: Mapping[str, str] = field(factory=dict)
    settling: frozenset[str] = frozenset()
    node_recover_timeout: float = 120.0


def shown_id(work: str) -> str:
    """
    Give a work id as it is displayed: with its ``@``, also without a domain.
    """
    return work if "@" in work else f"{work}@"


def domain_of(work: str) -> str:
    """
    Give the domain of a work id: what follows its last ``@``; empty for none.
    """
    return work.rpartition("@")[2] if "@" in work else ""
