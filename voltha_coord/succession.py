"""
When may somebody succeed whoever held before?

# Note [Taking over]

To hold a key is not yet to act.  A predecessor whose key is gone may still act
for the rest of its lease: a session can end before the lease that rests on it
(its agent stopped, its node reaped, the session destroyed by hand).  So records
name the *session* of whoever acts, with its check, and a successor waits until
the lease of that session must be over:

- while the session lives, always, whatever became of its keys;
- at once when its check is critical because its own timer fired: the lease
  ends before that timer does;
- else one session TTL after a consistent read first showed the session gone.

The timer hangs on the session, which never comes back, and not on a key, which
does.  No clock of another machine is read.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import CheckState
from .errors import AccessDenied

#: Clocks of two machines may run apart by a percent each.
CLOCK_RATE_MARGIN = 1.02

#: How many sessions that are over are remembered at most.
REMEMBERED = 10_000

_TIMER_FIRED = "TTL expired"


@frozen
class Predecessor:
    """
    Whose lease must be over.

    :ivar session: the session it rests on.
    :ivar check: its liveness check; empty when there was none.
    :ivar node: the node of that check.
    :ivar ttl: TTL of the session in seconds; 0 when the record does not say.
    """

    session: str
    check: str = ""
    node: str = ""
    ttl: float = 0.0


class Succession:
    """
    Decides whether a predecessor's lease is over; see Note [Taking over].

    :param now: the lease clock, in seconds.
    :param api: for the consistent reads.
    :param session_ttl: what to wait when a record does not name its TTL.
    """

    def __init__(
        self, now: Callable[[], float], api: ConsulApi, session_ttl: float
    ) -> None:
        self._now = now
        self._api = api
        self._session_ttl = session_ttl
        self._first_gone: dict[str, float] = {}
        self._over: dict[str, None] = {}

    @inlineCallbacks
    def is_over(self, predecessor: Predecessor) -> Steps[bool]:
        """
        Find out whether that lease must be over.

        Asking starts the wait: ask as soon as a predecessor may be gone.

        :return: a Deferred that fires with the answer, or fails with
            :class:`ConsulError`; then nothing is known.
        """
        session = predecessor.session
        if session in self._over:
            return True
        found = yield self._api.session(session, consistent=True)
        if found is not None:
            self._first_gone.pop(session, None)
            return False
        first = self._first_gone.setdefault(session, self._now())
        wait = (predecessor.ttl or self._session_ttl) * CLOCK_RATE_MARGIN
        over = self._now() >= first + wait
        if not over and predecessor.check:
            over = yield self._timer_fired(predecessor)
        if over:
            self._remember(session)
        return over

    def waited(self, name: str) -> bool:
        """
        Whether one session TTL has passed since this was first asked of
        ``name``: for a predecessor whose record does not say who it was.
        """
        first = self._first_gone.setdefault(name, self._now())
        return self._now() >= first + self._session_ttl * CLOCK_RATE_MARGIN

    def _remember(self, session: str) -> None:
        self._first_gone.pop(session, None)
        self._over[session] = None
        while len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    @inlineCallbacks
    def _timer_fired(self, predecessor: Predecessor) -> Steps[bool]:
        try:
            checks: tuple[CheckState, ...] = yield self._api.node_checks(
                predecessor.node, consistent=True
            )
        except AccessDenied:
            # Without node:read the wait is all there is.
            return False
        return any(
            check.check_id == predecessor.check
            and check.status == "critical"
            and check.output.startswith(_TIMER_FIRED)
            for check in checks
        )
