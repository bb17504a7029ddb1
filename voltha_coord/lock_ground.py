"""
What the named locks of one member stand on, and what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import sleep
from ._types import Steps
from .consul.backoff import Backoff
from .errors import ConsulError
from .lease import Lease
from .lock_expiry import Sightings
from .lock_store import LockStore, Taken
from .session import SessionKeeper
from .settings import guard_seconds
from .succession import Succession


@frozen
class LockGround:
    """
    What the locks of one member stand on.

    :ivar spawn: begins something, by a name for the log, and owns it.
    :ivar sightings: what was seen of locks with a term.
    :ivar holds: whether a lock of this member is held under an owner token.
    """

    reactor: IReactorTime
    retries: IReactorTime
    store: LockStore
    instance_id: str
    session: SessionKeeper
    succession: Succession
    sightings: Sightings
    spawn: Callable[..., Deferred[Any] | None]
    holds: Callable[[str], bool]
    random: Callable[[], float]
    log: Any

    @property
    def lease(self) -> Lease | None:
        """
        The lease to act under, ``None`` when there is none.
        """
        lease = self.session.lease
        return lease if lease is not None and lease.active else None


@frozen
class Won:
    """
    A lock that was acquired.

    :ivar lease: what it is held under; ``None`` for a lock with a term.
    :ivar until: the end of its term, on the lease clock; ``None`` without one.
    """

    taken: Taken
    lease: Lease | None = None
    until: float | None = None


def term_end(sent: float, valid_for: float) -> float:
    """
    Give until when one may act on a term whose request was sent at that time.
    """
    return sent + valid_for - guard_seconds(valid_for)


@inlineCallbacks
def give_back(ground: LockGround, name: str, owner_token: str) -> Steps[bool]:
    """
    Give a lock back, through outages.

    :return: a Deferred that fires with whether it was held, or fails with
        :class:`ConsulError` where a retry cannot help; it can be cancelled.
    """
    backoff = Backoff(ground.random)
    while True:
        try:
            held: bool = yield ground.store.give_back(name, owner_token)
        except ConsulError as error:
            if not error.retryable:
                raise
            yield sleep(ground.retries, backoff.next(error))
        else:
            return held


def say_not_given_back(ground: LockGround, name: str, error: ConsulError) -> None:
    """
    Say that a lock could not be given back.
    """
    ground.log.warning(
        "lock-not-given-back",
        lock=name,
        error=str(error),
        effect="others wait for the end of its term, or of the session",
    )
