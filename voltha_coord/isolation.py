"""
For how long work may go on: what ``Settings.isolation`` means to an item.

# Note [The right to run]

An item runs under the lease with which it was claimed, and may go on until the
deadline of that lease, also when Consul ended the lease before (Note [A lease
that Consul ended] of :mod:`~voltha_coord.lease`).  A lease that we gave up
ourselves gives no right any more.

With ``keep`` and ``takeover`` it goes on without a deadline while the lease
lasts, while the member is cut off (which
:class:`~voltha_coord.emergency.Emergency` tells), and upon contact, until the
owner records have been read: then it is confirmed under the new lease, or it is
stopped at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .lease import Lease, LeaseEnd


class Rights:
    """
    Tells for how long an item may run; see Note [The right to run].

    :param now: the lease clock, in seconds.
    :param current: gives the lease at the moment; it may be over.
    :param goes_on: whether work goes on without a lease at the moment; ``None``
        where it never does.
    """

    def __init__(
        self,
        now: Callable[[], float],
        current: Callable[[], Lease | None],
        goes_on: Callable[[], bool] | None = None,
    ) -> None:
        self._now = now
        self._current = current
        self._goes_on = goes_on

    def until(self, lease: Lease | None) -> float:
        """
        Give until when on the lease clock what was begun under that lease may
        run; infinite for what has no deadline.

        :param lease: ``None`` for what runs without one, in an emergency.
        """
        if lease is None:
            return math.inf
        if self._goes_on is None or lease.ended is LeaseEnd.RELEASED:
            return lease.deadline
        if lease.active or self._goes_on():
            return math.inf
        current = self._current()
        if current is not None and current.active:
            # Contact: it is confirmed, or stopped, as soon as that is known.
            return math.inf
        return lease.deadline

    def hold(self, lease: Lease | None) -> bool:
        """
        Whether what was begun under that lease may run now.
        """
        return self._now() < self.until(lease)
