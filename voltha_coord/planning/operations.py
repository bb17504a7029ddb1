"""
What a planner gives back: operations, and the placements they lead to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field, frozen


@frozen
class Assign:
    """
    Give an item that no member has to a member.
    """

    work: str
    member: str


@frozen
class Unassign:
    """
    Take an item from a member, and give it to nobody.
    """

    work: str
    member: str


@frozen
class Move:
    """
    Take an item from ``source`` and give it to ``target``, in one step.
    """

    work: str
    source: str
    target: str


Operation: TypeAlias = Assign | Unassign | Move


@frozen
class Plan:
    """
    What is to be done, and how things stand once it is.

    :ivar operations: in the order they are to be applied.
    :ivar placements: work id to member, after the operations.
    :ivar errors: work id to the reason why it has no place.
    """

    operations: tuple[Operation, ...] = ()
    placements: Mapping[str, str] = field(factory=dict)
    errors: Mapping[str, str] = field(factory=dict)
