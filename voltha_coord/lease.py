"""
The lease: for how long this process may act on what Consul last confirmed.

# Note [The lease]

Consul may end a session one check TTL after the last pass of its check, or
(twice) one session TTL after the last renewal.  A process may therefore act
until the earlier of the two, each counted from when the request that was
acknowledged was *sent*, and shortened by a guard.  A request without its
acknowledgement extends nothing: it may have arrived late, or never.

A :class:`Lease` is one unbroken span of that permission.  Once it has been
over it is over for good, even if Consul turns out to have kept the session;
then there is a new lease for the same session, and whoever held something
under the old one (a term, a work item) begins anew.  So nobody has to compare
times: it is enough to keep the lease under which one began.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from .settings import guard_seconds


class LeaseEnd(Enum):
    """
    Why a lease is over.
    """

    #: No pass of the liveness check was acknowledged in time.
    CHECK = "check-not-acknowledged"
    #: No renewal was acknowledged in time.
    RENEWAL = "renewal-not-acknowledged"
    #: Consul said that the session is gone.
    SESSION = "session-gone"
    #: We gave it up ourselves.
    RELEASED = "released"


class Lease:
    """
    One unbroken span in which this process may act; see Note [The lease].

    :param now: the lease clock, in seconds.
    :param session_id: the session it rests on.
    :param session_ttl: seconds.
    :param renewed: when the acknowledged creation or renewal was sent.
    :param check_ttl: seconds; 0 when no liveness check is bound.
    :param passed: when the acknowledged registration or pass was sent.
    """

    def __init__(
        self,
        now: Callable[[], float],
        session_id: str,
        *,
        session_ttl: float,
        renewed: float,
        check_ttl: float = 0.0,
        passed: float = 0.0,
    ) -> None:
        self._now = now
        self.session_id = session_id
        self._session_span = session_ttl - guard_seconds(session_ttl)
        self._check_span = check_ttl - guard_seconds(check_ttl) if check_ttl else None
        self._renewed = renewed
        self._passed = passed
        self._end: LeaseEnd | None = None

    def renewed(self, sent: float) -> None:
        """
        Note that a renewal sent at that time was acknowledged.
        """
        if self.active:
            self._renewed = max(self._renewed, sent)

    def passed(self, sent: float) -> None:
        """
        Note that a pass sent at that time was acknowledged.
        """
        if self.active:
            self._passed = max(self._passed, sent)

    def end(self, reason: LeaseEnd) -> None:
        """
        End it before its deadline.  Ending it twice keeps the first reason.
        """
        if self._end is None:
            self._end = reason

    @property
    def deadline(self) -> float:
        """
        When it runs out, on the lease clock, if nothing more is acknowledged.
        """
        renewal = self._renewed + self._session_span
        if self._check_span is None:
            return renewal
        return min(renewal, self._passed + self._check_span)

    @property
    def active(self) -> bool:
        """
        Whether one may act.  Once false, false for ever.
        """
        if self._end is None and self._now() >= self.deadline:
            renewal = self._renewed + self._session_span
            self._end = LeaseEnd.RENEWAL if self.deadline == renewal else LeaseEnd.CHECK
        return self._end is None

    @property
    def ended(self) -> LeaseEnd | None:
        """
        Why it is over; ``None`` while it is not.
        """
        return None if self.active else self._end

    @property
    def remaining(self) -> float:
        """
        Seconds left; 0 once it is over.
        """
        return max(0.0, self.deadline - self._now()) if self.active else 0.0
