"""
Items of other members, run here in an emergency.

They have no owner record: nobody can be asked for one.  They run while the
emergency lasts, and are stopped at once upon contact.
"""

from __future__ import annotations

from .item import Item, is_extra
from .records import WorkItem
from .running import RunningItems
from .standing import Standing


class Extras:
    """
    Runs what an emergency adds, and nothing of it without one.
    """

    def __init__(self, standing: Standing, running: RunningItems) -> None:
        self._standing = standing
        self._running = running

    def look(self) -> None:
        """
        Begin what is to run, and stop what is not to any more.
        """
        wanted = self._standing.extra
        for item in tuple(self._running.items.values()):
            if is_extra(item) and item.id not in wanted:
                self._running.stop(item, release=False)
        for work, value in wanted.items():
            if work not in self._running.items:
                self._running.start(Item(WorkItem.from_value(work, value)))
