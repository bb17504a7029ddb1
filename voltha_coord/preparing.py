"""
Making ready here what another member still runs.

A leader that prepares a move assigns the item to its target with the phase
``prepare`` first.  It is not ours then; what became of it stands in the status
report.  Once the leader lets the item run here it is taken like any other.
"""

from __future__ import annotations

from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .assigned import Assignments
from .consul.model import Entry
from .item import Item
from .keys import Keys
from .ownership import Ownership
from .records import PREPARE
from .releasing import Releasing
from .running import RunningItems


class Preparing:
    """
    Makes items ready.
    """

    def __init__(
        self,
        keys: Keys,
        ownership: Ownership,
        assignments: Assignments,
        running: RunningItems,
        releasing: Releasing,
    ) -> None:
        self._keys = keys
        self._ownership = ownership
        self._assignments = assignments
        self._running = running
        self._releasing = releasing

    @inlineCallbacks
    def prepare(self) -> Steps[None]:
        """
        Make ready what is to be, and is not here yet.

        :return: a Deferred that fires when all of it was begun, or fails with
            :class:`ConsulError`.
        """
        new = {
            work: assigned
            for work, assigned in (self._assignments.current or {}).items()
            if assigned.phase == PREPARE
            and work not in self._running.items
            and work not in self._releasing.waiting
        }
        bare = [work for work, assigned in new.items() if assigned.item is None]
        found: dict[str, Entry] = {}
        if bare:
            found = yield self._ownership.read(map(self._keys.work_item, bare))
        for work, assigned in new.items():
            if work in self._running.items:
                continue
            entry = found.get(self._keys.work_item(work))
            description, described = assigned.describe(work, entry)
            self._running.prepare(
                Item(
                    description,
                    described=described,
                    assignment=assigned.index,
                    odd=assigned.odd,
                    restart=assigned.restart,
                )
            )
