"""
How an item that was started fares by itself, as its runner says.

That ``start_work`` has succeeded says that the item was started, and not that it
still runs: a process may have exited, and may be about to be started again.  A
runner that knows says so with ``condition``, and calls back when it has changed;
see :class:`~voltha_coord.interfaces.IRunner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

#: What a condition is called that says nothing else.
RUNNING = "running"


@frozen
class Condition:
    """
    How an item fares that was started and not stopped.

    :ivar state: ``starting``, ``running``, ``finished``, ``failed``, ``killed``,
        or another word.
    :ivar since: wall clock of its last change of state, for people; ``None``
        for since it was started.
    :ivar error: why it does not run; empty when it is well.
    :ivar details: what else people may want to see, as values of JSON.
    """

    state: str = RUNNING
    since: float | None = None
    error: str = ""
    details: Mapping[str, Any] = field(factory=dict)
