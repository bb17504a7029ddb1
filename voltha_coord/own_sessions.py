"""
The sessions this very process made: which they are, and how they are ended.

What one of them holds was ours, so that nobody of this process has to wait for
it.  One that ought to be gone may come back, as after Consul was restored to an
older state; then it is ended once more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks

from ._loops import Tasks
from ._recent import remember
from ._types import Steps
from .consul.backoff import Backoff
from .errors import ConsulError, ConsulUnavailable
from .leftovers import Leftovers
from .pausing import Pausing

#: So many sessions of our own are remembered.  One that was forgotten is like
#: anybody's: whoever succeeds it waits until its lease must be over.
OWN_SESSIONS = 1000


class OwnSessions:
    """
    Remembers the sessions of this process, and ends them.

    :ivar known: their ids, the last ones.

    :param now: the lease clock, in seconds.
    :param leftovers: what may be left of them in Consul.
    :param requests: owns the requests that are under way.
    :param pausing: waits out the back-offs.
    :param ended: called when one that had come back is gone again: whoever
        waits for what it held need wait no longer.
    """

    def __init__(
        self,
        now: Callable[[], float],
        leftovers: Leftovers,
        *,
        requests: Tasks,
        pausing: Pausing,
        ended: Callable[[], None],
        log: Any,
    ) -> None:
        self._now = now
        self._leftovers = leftovers
        self._requests = requests
        self._pausing = pausing
        self._ended = ended
        self._log = log
        self._ending: set[str] = set()
        self.known: dict[str, None] = {}

    def add(self, session: str) -> None:
        """
        Remember a session that was made just now.
        """
        remember(self.known, session, None, OWN_SESSIONS)
        self._leftovers.add_session(session)

    def came_back(self, session: str | None, current: str | None) -> bool:
        """
        Tell whether a session that holds something is one of ours that ought to
        be gone; then end it.

        :param session: who holds it; ``None`` for nobody.
        :param current: the session that ought to be there.
        """
        if session is None or session == current:
            return False
        if session not in self.known:
            return False
        if session not in self._leftovers.sessions:
            self._leftovers.add_session(session)
            self._log.warning(
                "old-session-came-back",
                session_id=session,
                effect="it is ended, and what it holds is free",
                action="see whether Consul was restored to an older state",
            )
        if session not in self._ending:
            self._requests.spawn("end-old-session", self._end_again, session)
        return True

    @inlineCallbacks
    def _end_again(self, session: str) -> Steps[None]:
        self._ending.add(session)
        try:
            yield self._leftovers.end_session(session)
        except ConsulError as error:
            # It is told of again, and ends by itself.
            self._log.debug("old-session-not-ended", error=str(error))
        else:
            self._ended()
        finally:
            self._ending.discard(session)

    @inlineCallbacks
    def abandon(self, session: str, backoff: Backoff, seconds: float) -> Steps[None]:
        """
        Give back what a session holds, and destroy it.

        :param backoff: between two attempts.
        :param seconds: within which it must have ended by itself; nothing more
            is known then, and it is destroyed when there is another.
        :return: a Deferred that fires when that is done, or there is no point
            in going on; never fails.
        """
        until = self._now() + seconds
        while True:
            try:
                yield self._leftovers.end_session(session)
            except ConsulUnavailable as error:
                if self._now() >= until:
                    return
                yield self._pausing.pause(backoff, "consul-not-up", error)
            except ConsulError as error:
                self._log.info(
                    "session-not-destroyed", session_id=session, error=str(error)
                )
                return
            else:
                return

    def tidy_up(self, current: Collection[str | None]) -> None:
        """
        Begin to take away what attempts left whose answers we never got, and
        what came back.  What cannot be, ends by itself.

        :param current: the session and the service to be left alone.
        """
        self._requests.spawn("tidy-up", self._tidy_up, current)

    @inlineCallbacks
    def _tidy_up(self, current: Collection[str | None]) -> Steps[None]:
        try:
            yield self._leftovers.take_away(but=current, give_back=True)
        except ConsulError as error:
            self._log.debug("not-tidied-up", error=str(error))

    def take_away(self) -> Deferred[None]:
        """
        Destroy all sessions that may be there, and deregister all services.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError` when Consul does not do all of it.
        """
        return self._leftovers.take_away()
