"""
The lease a session gives at the moment, and telling what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime

from ._loops import Timer
from .lease import Lease, LeaseEnd
from .tally import Reasons

#: A timer that fires so many seconds early is not set again.
TIMER_SLACK = 1e-6


class Leasing:
    """
    Watches the deadline of one lease after the other.

    :ivar lease: the last one; it may be over.
    :ivar ended: how many are over, by reason.
    :ivar endings: how often one was about to end.

    :param grace: tell so many seconds before a lease ends.
    :param changed: called whenever the lease began, is about to end, was
        extended after that, or ended; once for each.
    :param ran_out: called with the reason when it ended by itself, after
        ``changed``.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        grace: float,
        *,
        changed: Callable[[], None],
        ran_out: Callable[[LeaseEnd], None],
        log: Any,
    ) -> None:
        self._grace = grace
        self._changed = changed
        self._ran_out = ran_out
        self._log = log
        self._timer = Timer(reactor, self._look)
        self._told_ending = False
        self._told_over = True
        self.lease: Lease | None = None
        self.ended = Reasons(end.value for end in LeaseEnd)
        self.endings = 0

    def begin(self, lease: Lease) -> None:
        """
        Begin a lease, in the place of the last one.
        """
        self.lease = lease
        self._told_ending = self._told_over = False
        if lease.active:
            self._set_timer(lease)
            self._changed()
        else:
            self._over_by_itself(lease)

    def extended(self) -> None:
        """
        Something was acknowledged: the lease may not be about to end any more.
        """
        lease = self.lease
        if lease is not None and self._told_ending and lease.active:
            self._told_ending = False
            self._set_timer(lease)
            self._changed()

    def end(self, reason: LeaseEnd) -> None:
        """
        End the lease, unless it is over already.
        """
        self._timer.cancel()
        if self.lease is not None and not self._told_over:
            self._told_over = True
            self.lease.end(reason)
            ended = self.lease.ended
            assert ended is not None
            self.ended.note(ended.value)
            self._changed()

    def _set_timer(self, lease: Lease) -> None:
        left = lease.remaining
        self._timer.set(left if self._told_ending else left - self._grace)

    def _look(self) -> None:
        """
        The timer fired: see how much is left now.
        """
        lease = self.lease
        assert lease is not None
        if not lease.active:
            self._over_by_itself(lease)
            return
        if not self._told_ending and lease.remaining <= self._grace + TIMER_SLACK:
            self._told_ending = True
            self.endings += 1
            self._log.warning("lease-ending", remaining=round(lease.remaining, 3))
            self._changed()
        self._set_timer(lease)

    def _over_by_itself(self, lease: Lease) -> None:
        reason = lease.ended
        assert reason is not None
        self._log.error("lease-over", session_id=lease.session_id, reason=reason.value)
        self.end(reason)
        self._ran_out(reason)
