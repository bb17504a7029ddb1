"""
What a planner gives back: operations, and the placements they lead to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field, frozen


@frozen
class Spent:
    """
    A work item whose wish to be started anew is used up.

    :ivar value: of the item, without the wish.
    :ivar index: the ModifyIndex of the item with it: nothing is used up of one
        that has changed since.
    """

    value: bytes
    index: int


@frozen
class Assign:
    """
    Give an item to a member: one that no member has, or one that is only to be
    made ready there.

    :ivar value: of the assignment, encoded; empty where its key says it all.
    :ivar spent: the work item without the wish that is fulfilled with this, to
        be written in the same transaction; ``None`` for no such wish.
    """

    work: str
    member: str
    value: bytes = b""
    spent: Spent | None = None


@frozen
class Reassign:
    """
    Hand an item anew to the member that has it: something about it has changed.

    :ivar value: as of :class:`Assign`.
    :ivar spent: as of :class:`Assign`.
    """

    work: str
    member: str
    value: bytes = b""
    spent: Spent | None = None


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

    :ivar value: as of :class:`Assign`.
    :ivar spent: as of :class:`Assign`.
    """

    work: str
    source: str
    target: str
    value: bytes = b""
    spent: Spent | None = None


Operation: TypeAlias = Assign | Reassign | Unassign | Move


@frozen
class Plan:
    """
    What is to be done, and how things stand once it is.

    :ivar operations: in the order they are to be applied.
    :ivar placements: work id to member, after the operations.
    :ivar errors: work id to the reason why it has no place.
    :ivar pending: items that were not planned yet, so that there is nothing to
        say of them either.
    :ivar unfinished: whether there is more to be planned: the next plan is to
        follow at once.
    :ivar kept: items that stay with members that are gone and may come back:
        nothing is taken from them, their owner records neither.
    :ivar relocated: what operators wanted elsewhere, and that is done with.
    :ivar moving: work id to target of the moves that are being prepared.
    :ivar skipped: work id to the reason why it was not moved, though it should.
    :ivar given_up: those of them whose move had begun.
    :ivar steps: what a planner by resources decided, in its own words.
    """

    operations: tuple[Operation, ...] = ()
    placements: Mapping[str, str] = field(factory=dict)
    errors: Mapping[str, str] = field(factory=dict)
    pending: frozenset[str] = frozenset()
    unfinished: bool = False
    kept: frozenset[str] = frozenset()
    relocated: tuple[str, ...] = ()
    moving: Mapping[str, str] = field(factory=dict)
    skipped: Mapping[str, str] = field(factory=dict)
    given_up: frozenset[str] = frozenset()
    steps: tuple[object, ...] = ()
