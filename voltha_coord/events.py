"""
What a Coordinator tells those who listen: frozen events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

import structlog
from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


class Connection(Enum):
    """
    How it stands with Consul.
    """

    #: The last request was answered.
    CONNECTED = "connected"
    #: Requests go unanswered; the lease has not run out.
    SUSPENDED = "suspended"
    #: Requests go unanswered, and there is no lease to act on.
    LOST = "lost"


@frozen
class LeaderChanged:
    """
    Another member leads, or none.

    :ivar leader_id: the new leader's instance id; ``None`` for none known.
    :ivar previous: the old one's.
    """

    leader_id: str | None
    previous: str | None


@frozen
class MembersChanged:
    """
    Members joined or left.

    :ivar joined: instance ids, sorted.
    :ivar left: instance ids, sorted.
    """

    joined: tuple[str, ...]
    left: tuple[str, ...]


@frozen
class RoleChanged:
    """
    This member has another role.

    :ivar role: candidate, follower, leader, emergency, draining or stopped.
    :ivar previous: the old one.
    """

    role: str
    previous: str


@frozen
class ConnectionChanged:
    """
    It stands otherwise with Consul.
    """

    connection: Connection
    previous: Connection


@frozen
class WorkStuck:
    """
    Work has not stopped although the lease it ran under is over: another member
    may run it now as well.

    :ivar items: its ids, sorted.
    """

    items: tuple[str, ...]


Event: TypeAlias = (
    LeaderChanged | MembersChanged | RoleChanged | ConnectionChanged | WorkStuck
)


class Listeners:
    """
    Those who are told.

    Everybody is told of everything in the order in which it happened, also of
    what happens because somebody was told.  One who raises is logged, and the
    rest are told.
    """

    def __init__(self, log: Any = None) -> None:
        self._log = structlog.get_logger(__name__) if log is None else log
        self._callbacks: dict[object, Callable[[Event], object]] = {}
        self._untold: deque[Event] = deque()
        self._telling = False

    def add(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """
        Tell that callback of every event from now on.

        :return: a function that ends it at once; calling it twice is no error.
        """
        token = object()
        self._callbacks[token] = callback

        def stop() -> None:
            self._callbacks.pop(token, None)

        return stop

    def tell(self, event: Event) -> None:
        """
        Tell everybody, in the order in which they began to listen.
        """
        self._untold.append(event)
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                self._tell_all(self._untold.popleft())
        finally:
            self._telling = False

    def _tell_all(self, event: Event) -> None:
        for token, callback in tuple(self._callbacks.items()):
            if token not in self._callbacks:
                continue
            try:
                result = callback(event)
            except Exception:
                self._log.exception(
                    "listener-failed", listener=repr(callback), told=repr(event)
                )
            else:
                if isinstance(result, Deferred):
                    result.addErrback(self._failed, callback, event)

    def _failed(self, failure: Failure, callback: object, event: Event) -> None:
        self._log.error(
            "listener-failed",
            listener=repr(callback),
            told=repr(event),
            error=failure.getErrorMessage(),
        )
