"""
States of planning by resources, for tests.
"""

from __future__ import annotations

from typing import Any

from voltha_coord.planning.deployment import Deployment, Node, Process, Wanted
from voltha_coord.planning.shares import Gpu, Resources, Share


def node(
    name: str,
    cpu: float = 1,
    memory: float = 1,
    state: str = "online",
    missing_for: float = 0,
    gpus: tuple[Gpu, ...] = (),
    **fields: Any,
) -> Node:
    """
    Give a node with limits of 90.
    """
    resources = Resources(cpu, 90, memory, 90, gpus=gpus, **fields)
    return Node(name, state, missing_for, resources)


def wanted(work: str, cpu: float = 10, memory: float = 20, **fields: Any) -> Wanted:
    """
    Give an item that is wanted.
    """
    return Wanted(work, limits=Share(cpu, memory), **fields)


def process(
    work: str, on: str, cpu: float = 12, memory: float = 5, **fields: Any
) -> Process:
    """
    Give a process that uses something, with limits of 10 and 20.
    """
    given = {"usage": Share(cpu, memory), "limits": Share(10, 20), **fields}
    return Process(work, on, **given)


def deployment(*nodes: Node, **fields: Any) -> Deployment:
    """
    Give a state with some nodes.
    """
    return Deployment(nodes={one.id: one for one in nodes}, **fields)
