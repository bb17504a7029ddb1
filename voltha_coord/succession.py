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

from ._recent import remember
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import CheckState
from .errors import ConsulError
from .keys import is_session_id

#: Clocks of two machines may run apart by a percent each.
CLOCK_RATE_MARGIN = 1.02

#: How many sessions that are gone are remembered at most.
REMEMBERED = 10_000

#: The TTLs Consul takes, in seconds.  A record that names another one is not
#: ours, and must neither hasten a successor nor hold it up for ever.
SHORTEST_TTL, LONGEST_TTL = 10.0, 86_400.0

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
        # What is no session's id names none: it is as good as gone.
        if is_session_id(session):
            found = yield self._api.session(session, consistent=True)
            if found is not None:
                self._first_gone.pop(session, None)
                return False
        over = self._waited(session, predecessor.ttl or self._session_ttl)
        if not over and predecessor.check and predecessor.node:
            over = yield self._timer_fired(predecessor)
        if over:
            self._first_gone.pop(session, None)
            remember(self._over, session, None, REMEMBERED)
        return over

    def waited(self, name: str) -> bool:
        """
        Whether one session TTL has passed since this was first asked of
        ``name``: for a predecessor whose record does not say who it was.
        """
        return self._waited(name, self._session_ttl)

    def _waited(self, name: str, ttl: float) -> bool:
        now = self._now()
        if name not in self._first_gone:
            remember(self._first_gone, name, now, REMEMBERED)
        wait = min(max(ttl, SHORTEST_TTL), LONGEST_TTL) * CLOCK_RATE_MARGIN
        return now >= self._first_gone[name] + wait

    @inlineCallbacks
    def _timer_fired(self, predecessor: Predecessor) -> Steps[bool]:
        try:
            checks: tuple[CheckState, ...] = yield self._api.node_checks(
                predecessor.node, consistent=True
            )
        except ConsulError as error:
            if error.retryable:
                raise
            # Without node:read, and for a node that cannot be one, the wait
            # is all there is.
            return False
        return any(
            check.check_id == predecessor.check
            and check.status == "critical"
            and check.output.startswith(_TIMER_FIRED)
            for check in checks
        )
