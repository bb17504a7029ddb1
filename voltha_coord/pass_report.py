"""
What a pass of the leader came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from attrs import define, field

from .planning.fingerprint import fingerprint


@define
class PassReport:
    """
    What the last pass came to, for a status page and for the log.

    :ivar held: operations that wait for the lease of somebody who is gone.
    :ivar seconds: how long it took.
    :ivar frozen: whether operators wanted nothing to be planned.
    :ivar assignments: who was to run what when it began, by member and work id.
    :ivar stray: keys that cannot be ours, as they may be shown.
    :ivar problems: what is wrong with values, by key as it may be shown.
    :ivar errors: why items are not placed or cannot run, by work id.
    """

    number: int = 0
    items: int = 0
    members: int = 0
    operations: int = 0
    held: int = 0
    seconds: float = 0.0
    frozen: bool = False
    stray: tuple[str, ...] = ()
    problems: dict[str, str] = field(factory=dict)
    errors: dict[str, str] = field(factory=dict)
    assignments: Mapping[str, Mapping[str, bytes]] = field(factory=dict, repr=False)

    @cached_property
    def fingerprint(self) -> int:
        """
        The number of the placement that it found; see
        :mod:`~voltha_coord.planning.fingerprint`.
        """
        return fingerprint(self.assignments)
