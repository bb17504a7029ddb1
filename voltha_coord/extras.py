"""
Items of other members, run here in an emergency.

They have no owner record: nobody can be asked for one.  They run while the
emergency lasts, and are stopped at once upon contact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .item import Item
from .records import RUN, WorkItem
from .running import RunningItems


class Extras:
    """
    Runs what an emergency adds, and nothing of it without one.

    :param wanted: gives the values of what is to run at the moment, by work id.
    """

    def __init__(
        self, running: RunningItems, wanted: Callable[[], Mapping[str, bytes]]
    ) -> None:
        self._running = running
        self._wanted = wanted

    def look(self) -> None:
        """
        Begin what is to run, and stop what is not to any more.
        """
        wanted = self._wanted()
        for item in tuple(self._running.items.values()):
            if is_extra(item) and item.id not in wanted:
                self._running.stop(item, release=False)
        for work, value in wanted.items():
            if work not in self._running.items:
                self._running.start(Item(WorkItem.from_value(work, value)))

    def may_begin(self, item: Item) -> bool:
        """
        Whether an item is one that is to run now.
        """
        return item.id in self._wanted()


def is_extra(item: Item) -> bool:
    """
    Whether an item runs here without an owner record.
    """
    return item.lease is None and item.phase == RUN
