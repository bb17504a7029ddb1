"""
What an item's order asks of the worker, in the state that the item is in.

# Note [Orders]

An item whose order is ``stop`` is owned and not run.  It is claimed, confirmed
and released like any other, and hands over what it gave when it stopped.

- Ordered to stop: what stands in line leaves it; what the runner has been asked
  about is stopped as ever (Note [What does not stop] of
  :mod:`~voltha_coord.stopping`), also while it is being started, changed, or
  waits to be tried again.  Then it is *stopped*, and does not count as running.
- Ordered to start: a stopped one waits for its turn; one that is being stopped
  does once it has stopped.
- To be started anew (``restart``): a running one is stopped and started, once
  for all that was asked until that start began.  One that is being started is
  when it has come up: what was asked for may have come after what it read.  One
  that does not run is started anew anyway, or need not be.
- Only to be made ready: with the order ``stop`` it is ready as it is.
- Not to be here any more while it is being stopped: it is released once it has
  stopped.  A stopped one is released at once.
- The lease ends: a stopped one needs no right to run, and stays until it is
  confirmed under the next lease.  One that waits to run again goes, and is taken
  again, as others are.

Any other order than the two counts as ``start``, and is a problem that is shown.
"""

from __future__ import annotations

import enum

from .item import (
    PREPARED,
    RUNNING,
    STOPPED,
    STOPPING,
    Item,
)
from .records import PREPARE


class Demand(enum.Enum):
    """
    What is to be done at once about an item, whatever else it waits for.
    """

    NOTHING = "nothing"
    #: Stop it; it stays here.
    STOP = "stop"
    #: Let it count as stopped.
    REST = "rest"
    #: Let it wait for its turn to be started.
    WAIT = "wait"
    #: Let it count as ready.
    READY = "ready"


def demand(item: Item) -> Demand:
    """
    Tell what an item's order asks for now; see Note [Orders].
    """
    if item.state == STOPPING:
        return Demand.NOTHING
    if item.newest.is_to_run:
        return _to_run(item)
    if item.phase == PREPARE:
        ready = item.state == PREPARED and item.wanted is None
        return Demand.NOTHING if ready or item.busy else Demand.READY
    if item.touched:
        return Demand.STOP
    news = item.wanted is not None or item.restart != item.heeded
    return Demand.REST if news or item.state != STOPPED else Demand.NOTHING


def _to_run(item: Item) -> Demand:
    if item.state == STOPPED:
        return Demand.WAIT
    if item.state == RUNNING and item.restart != item.heeded:
        return Demand.STOP
    return Demand.NOTHING
