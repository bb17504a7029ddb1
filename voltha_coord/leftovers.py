"""
What this process made in Consul and is to take away again.

Also what it may have made: the answer to a registration can be lost.  What
cannot be taken away ends by itself, a session after twice its TTL, a service a
minute after its check was last passed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .errors import ConsulError

#: Older ones have ended by themselves by the time there are so many more.
REMEMBERED = 16


class Leftovers:
    """
    Remembers sessions and services, and takes them away.

    :ivar sessions: the ids of sessions that may be there.
    :ivar services: the ids of services that may be there.
    """

    def __init__(self, api: ConsulApi, log: Any) -> None:
        self._api = api
        self._log = log
        self.sessions: dict[str, None] = {}
        self.services: dict[str, None] = {}

    def add_session(self, session: str) -> None:
        """
        Remember a session that was made.
        """
        _remember(self.sessions, session)

    def add_service(self, service_id: str) -> None:
        """
        Remember a service that is about to be registered.
        """
        _remember(self.services, service_id)

    def leave_service(self, service_id: str) -> None:
        """
        Leave a service to its agent, or learn that it was never there.
        """
        self.services.pop(service_id, None)

    @inlineCallbacks
    def destroy_session(self, session: str) -> Steps[None]:
        """
        Destroy one session.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        yield self._api.destroy_session(session)
        self.sessions.pop(session, None)
        self._log.info("destroyed-consul-session", session_id=session)

    @inlineCallbacks
    def _deregister(self, service_id: str) -> Steps[None]:
        yield self._api.deregister_service(service_id)
        self.services.pop(service_id, None)

    @inlineCallbacks
    def take_away(self, but: Collection[str | None] = ()) -> Steps[None]:
        """
        Take everything away but what is named; each is tried.

        :return: a Deferred that fires when done, or fails with the first
            :class:`ConsulError` when Consul does not do all of it.
        """
        steps = [
            *((self.destroy_session, one) for one in self.sessions if one not in but),
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


def _remember(known: dict[str, None], one: str) -> None:
    known[one] = None
    while len(known) > REMEMBERED:
        del known[next(iter(known))]
