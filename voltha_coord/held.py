"""
Keys that a session holds: how they are acquired, and how they are given back.

Through transactions and not through ``?acquire=``: a transaction says whether
another session or a lock-delay stands in the way, and answers with the
ModifyIndex of the acquisition.  (It also says that it is not allowed as if it
were refused; here that is an :class:`AccessDenied` as everywhere.)  They go with the
session's own requests, and wait no longer: nothing that is written in bulk is
to hold them up, and asking again does no harm.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op
from .consul.transport import Lane
from .errors import (
    ConsulUnavailable,
    InvalidSession,
    TransactionRefused,
)

#: Between two attempts while a lock-delay stands in the way, in seconds.
LOCK_DELAY_RETRY = 0.1

#: The same, growing: nothing tells the end of a lock-delay, which is a second as
#: a rule and a minute at most.
LOCK_DELAY_STEPS = (*[LOCK_DELAY_RETRY] * 12, *[0.25] * 8, 0.5, 0.5, 1.0)


class Hindrance(Enum):
    """
    What keeps a session from holding a key.
    """

    #: Another session holds it.
    HELD = "held"
    #: A session that held it has just ended.  Nothing wakes a watch at the end.
    LOCK_DELAY = "lock-delay"


@frozen
class Acquisition:
    """
    What came of trying to acquire a key.

    :ivar entry: the key as it was written, with the ModifyIndex of the
        acquisition; ``None`` when it could not be acquired.
    :ivar hindrance: why not.
    """

    entry: Entry | None = None
    hindrance: Hindrance | None = None


@inlineCallbacks
def acquire(api: ConsulApi, key: str, value: bytes, session: str) -> Steps[Acquisition]:
    """
    Acquire a key for a session and write its value, or write the value of a
    key the session holds already.

    :return: a Deferred that fires with an :class:`Acquisition`, or fails with
        :class:`InvalidSession` when there is no such session, or with another
        :class:`ConsulError`; after ``ConsulUnavailable`` the key may be held.
    """
    try:
        results: tuple[Entry, ...] = yield api.txn(
            (Op.lock(key, value, session),), lane=Lane.SESSION
        )
    except TransactionRefused as refused:
        if refused.session_invalid:
            raise InvalidSession(str(refused)) from refused
        if refused.lock_delayed:
            return Acquisition(hindrance=Hindrance.LOCK_DELAY)
        return Acquisition(hindrance=Hindrance.HELD)
    for entry in results:
        if entry.key == key:
            return Acquisition(entry=entry)
    raise ConsulUnavailable(f"no result for {key!r}")


@inlineCallbacks
def release(api: ConsulApi, key: str, session: str) -> Steps[bool]:
    """
    Unlock and delete a key in one transaction, if the session holds it.

    No lock-delay follows, and no key is left that an original coordinator
    would count.

    :return: a Deferred that fires with whether the session held it, or fails
        with :class:`ConsulError`.
    """
    try:
        yield api.txn(
            (Op.check_session(key, session), Op.delete(key)), lane=Lane.SESSION
        )
    except TransactionRefused:
        return False
    return True
