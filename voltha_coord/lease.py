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
then there is a new lease for the same session, and nothing that was held under
the old one is held under it by itself: a term is over, a work item has to be
confirmed.  So nobody has to compare times: it is enough to keep the lease under
which one began.

# Note [A gap in the passes]

Renewals that went unanswered for too long may be taken up again: one answered
200 proves the session alive.  Passes may not: after a gap the agent's timer
has fired, a late pass is answered 200, and the session is dead.  Therefore the
passes of one check are one :class:`Acknowledged` for as long as the check is in
use, through all leases that rest on it.

# Note [A lease that Consul ended]

That Consul says the session is gone ends a lease before its deadline: its
process must not lead any more, nor begin anything.  The deadline stands all the
same.  Whoever succeeds a session that went without its check's timer firing
waits one session TTL (see :mod:`~voltha_coord.succession`), which is longer.  So
work that was begun under such a lease is nobody else's until its deadline, and
may go on until then, to be confirmed under the next one.
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


class Acknowledged:
    """
    How long the acknowledged requests of one kind carry.  Once they have run
    out they carry no more, whatever is acknowledged after that.

    :param now: the lease clock, in seconds.
    :param ttl: seconds Consul grants from each of them.
    :param sent: when the first one was sent.
    """

    def __init__(self, now: Callable[[], float], ttl: float, sent: float) -> None:
        self._now = now
        self._span = ttl - guard_seconds(ttl)
        self._sent = sent

    def note(self, sent: float) -> None:
        """
        Note that one sent at that time was acknowledged.
        """
        if self.carries:
            self._sent = max(self._sent, sent)

    @property
    def deadline(self) -> float:
        """
        When they run out, on the lease clock.
        """
        return self._sent + self._span

    @property
    def carries(self) -> bool:
        """
        Whether one may rely on them.  Once false, false for ever.
        """
        return self._now() < self.deadline


class Lease:
    """
    One unbroken span in which this process may act; see Note [The lease].

    :param now: the lease clock, in seconds.
    :param session_id: the session it rests on.
    :param session_ttl: seconds.
    :param renewed: when the acknowledged creation or renewal was sent.
    :param check_ttl: seconds; 0 when no liveness check is bound.
    :param passed: when the acknowledged registration or pass was sent.
    :param passes: the passes of the check that is bound, in place of
        ``check_ttl`` and ``passed``: several leases may rest on one check.
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
        passes: Acknowledged | None = None,
    ) -> None:
        self._now = now
        #: When it began: it was not held before.
        self.began = renewed
        self.session_id = session_id
        self._renewals = Acknowledged(now, session_ttl, renewed)
        if passes is None and check_ttl:
            passes = Acknowledged(now, check_ttl, passed)
        self._passes = passes
        self._end: LeaseEnd | None = None
        self._stands: float | None = None

    def renewed(self, sent: float) -> None:
        """
        Note that a renewal sent at that time was acknowledged.
        """
        if self.active:
            self._renewals.note(sent)

    def passed(self, sent: float) -> None:
        """
        Note that a pass sent at that time was acknowledged.
        """
        if self.active and self._passes is not None:
            self._passes.note(sent)

    def end(self, reason: LeaseEnd) -> None:
        """
        End it before its deadline.  Ending it twice keeps the first reason.

        The deadline stands if it was Consul that ended it; see Note [A lease
        that Consul ended].
        """
        if self.active:
            gone = reason is LeaseEnd.SESSION
            self._stands = self.deadline if gone else self._now()
            self._end = reason

    @property
    def deadline(self) -> float:
        """
        When it runs out, on the lease clock, if nothing more is acknowledged.

        Of one that is over: until when what was begun under it is nobody
        else's.
        """
        if self._stands is not None:
            return self._stands
        if self._passes is None:
            return self._renewals.deadline
        return min(self._renewals.deadline, self._passes.deadline)

    @property
    def active(self) -> bool:
        """
        Whether one may act.  Once false, false for ever.
        """
        if self._end is None:
            if self._gap_in_passes():
                self._end = LeaseEnd.CHECK
            elif not self._renewals.carries:
                self._end = LeaseEnd.RENEWAL
        return self._end is None

    def _gap_in_passes(self) -> bool:
        return self._passes is not None and not self._passes.carries

    @property
    def ended(self) -> LeaseEnd | None:
        """
        Why it is over; ``None`` while it is not.
        """
        return None if self.active else self._end

    @property
    def restorable(self) -> bool:
        """
        Whether a renewal that is answered proves that a new lease may begin
        for this session: when nothing but the renewals ran out.
        """
        return self.ended is LeaseEnd.RENEWAL and not self._gap_in_passes()

    @property
    def remaining(self) -> float:
        """
        Seconds left; 0 once it is over.
        """
        return max(0.0, self.deadline - self._now()) if self.active else 0.0
