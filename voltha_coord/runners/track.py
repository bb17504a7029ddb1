"""
The default runner: an item that is owned runs, and that is all.

For applications that look at ``worker.my_workload``, or listen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zope.interface import implementer

from ..condition import Condition
from ..interfaces import IRunner
from ..records import WorkItem


@implementer(IRunner)
class TrackRunner:
    """
    Does nothing at each step, at once.
    """

    def prepare_work(self, item: WorkItem) -> None:
        """
        Nothing to make ready.
        """

    def start_work(self, item: WorkItem, report: bytes | None) -> None:
        """
        Nothing to start.
        """

    def stop_work(self, item: WorkItem) -> None:
        """
        Nothing to stop.
        """

    def update_work(self, item: WorkItem) -> None:
        """
        Nothing to change.
        """

    def report(self, item: WorkItem) -> bytes | None:
        """
        Nothing to hand over.
        """
        return None

    def usage(self, item: WorkItem) -> Mapping[str, Any]:
        """
        Nothing is used.
        """
        return {}

    def listen(self, changed: Callable[[str], None]) -> None:
        """
        Nothing changes by itself.
        """

    def condition(self, item: WorkItem) -> Condition | None:
        """
        There is nothing to say but that it runs.
        """
        return None
