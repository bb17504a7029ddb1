"""
What this process made in Consul and is to take away again.

Also what it may have made: the answer to a registration can be lost.  What
cannot be taken away ends by itself, a session after twice its TTL, a service a
minute after its check was last passed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from twisted.internet.defer import inlineCallbacks

from ._recent import remember
from ._types import Steps
from .consul.api import ConsulApi
from .errors import ConsulError, ConsulUnavailable
from .held import release

#: Older ones have ended by themselves by the time there are so many more.
REMEMBERED = 16


class Leftovers:
    """
    Remembers sessions and services, and takes them away.

    :ivar sessions: the ids of sessions that may be there.
    :ivar services: the ids of services that may be there.

    :param held_keys: what a session may hold, to be given back before it is
        destroyed: no lock-delay then holds up the next holder.
    """

    def __init__(self, api: ConsulApi, held_keys: Sequence[str], log: Any) -> None:
        self._api = api
        self._held_keys = tuple(held_keys)
        self._log = log
        self.sessions: dict[str, None] = {}
        self.services: dict[str, None] = {}

    def add_session(self, session: str) -> None:
        """
        Remember a session that was made.
        """
        remember(self.sessions, session, None, REMEMBERED)

    def add_service(self, service_id: str) -> None:
        """
        Remember a service that is about to be registered.
        """
        remember(self.services, service_id, None, REMEMBERED)

    def leave_service(self, service_id: str) -> None:
        """
        Leave a service to its agent, or learn that it was never there.
        """
        self.services.pop(service_id, None)

    @inlineCallbacks
    def end_session(self, session: str) -> Steps[None]:
        """
        Give back what one session holds, and destroy it.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`; doing it again does no harm.
        """
        for key in self._held_keys:
            try:
                yield release(self._api, key, session)
            except ConsulUnavailable:
                raise
            except ConsulError as error:
                # Most likely a key we may not write, and so do not hold.
                self._log.info(
                    "session-not-given-back",
                    session_id=session,
                    key=key,
                    error=str(error),
                )
        yield self._destroy(session)

    @inlineCallbacks
    def _destroy(self, session: str) -> Steps[None]:
        yield self._api.destroy_session(session)
        self.sessions.pop(session, None)
        self._log.info("destroyed-consul-session", session_id=session)

    @inlineCallbacks
    def _deregister(self, service_id: str) -> Steps[None]:
        yield self._api.deregister_service(service_id)
        self.services.pop(service_id, None)

    @inlineCallbacks
    def take_away(
        self, but: Collection[str | None] = (), *, give_back: bool = False
    ) -> Steps[None]:
        """
        Take everything away but what is named; each is tried.

        :param give_back: whether to give back first what a session may hold.
        :return: a Deferred that fires when done, or fails with the first
            :class:`ConsulError` when Consul does not do all of it.
        """
        end = self.end_session if give_back else self._destroy
        steps = [
            *((end, one) for one in self.sessions if one not in but),
            *((self._deregister, one) for one in self.services if one not in but),
        ]
        problem: ConsulError | None = None
        for step, one in steps:
            try:
                yield step(one)
            except ConsulError as error:
                problem = problem or error
        if problem is not None:
            raise problem
