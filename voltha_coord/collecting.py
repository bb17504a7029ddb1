"""
Making the status report: of the items that are here, and of what is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from .item import Item
from .load import Load
from .records import START, STOP, StatusReport, WorkStatus
from .usages import Usages


class Collector:
    """
    Makes the report of how items fare.

    :param items: the items that are here, by work id.
    :param usages: what they use.
    :param load: what this member uses.
    """

    def __init__(self, items: Mapping[str, Item], usages: Usages, load: Load) -> None:
        self._items = items
        self._usages = usages
        self._load = load

    def collect(self) -> StatusReport:
        """
        Give the report as it is now.
        """
        return StatusReport(
            {
                work: _status(item, self._usages.of(item))
                for work, item in self._items.items()
            },
            self._load.told,
        )


def _status(item: Item, usage: Mapping[str, Any]) -> WorkStatus:
    """
    Give how an item fares: as its runner says, if it was started.
    """
    fares = item.condition
    status = WorkStatus(
        order=START if item.newest.is_to_run else STOP,
        state=item.shown_state,
        usage=usage,
        since=item.since,
        digest=item.digest,
        error=item.trouble,
    )
    if fares is None:
        return status
    return evolve(
        status,
        state=fares.state,
        since=item.since if fares.since is None else fares.since,
        details=fares.details,
    )
