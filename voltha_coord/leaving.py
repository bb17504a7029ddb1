"""
Leaving: what a member on its way out does so that others go on with its work.

# Note [Draining]

A member that has said that it leaves is given nothing more, and the leader moves
what it has to others.  It goes on running each item until that has happened, so
that the gap is one stop on this side and one start on the other, and not the
whole of a shutdown.  That is worth waiting for as long as somebody leads, or
will, who heeds what a member says, and somebody else can take the work.  So it
is looked every now and then whether that is still so.  An original heeds keys
alone: under one the member key goes at once, and there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, inlineCallbacks, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from ._loops import Wake, bounded
from ._types import Steps
from .consul.api import ConsulApi
from .errors import ConsulError
from .held import acquire, release
from .interfaces import IWorker
from .keys import Keys
from .membership import MemberKeeper
from .prospect import UNMOVED, Prospect, take_prospect
from .session import SessionKeeper

#: Between two looks whether draining comes to anything, in seconds.
LOOK_SECONDS = 0.5


class Leaving:
    """
    Takes leave of the other members; see Note [Draining].

    :param instance_id: of this member.
    :param record: gives its record, which says by now that it leaves.
    :param worker: gives what runs its work.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        session: SessionKeeper,
        membership: MemberKeeper,
        *,
        instance_id: str,
        record: Callable[[], bytes],
        worker: Callable[[], IWorker],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._keys = keys
        self._session = session
        self._membership = membership
        self._instance_id = instance_id
        self._key = keys.member(instance_id)
        self._record = record
        self._worker = worker
        self._log = log
        self._heard = False

    @inlineCallbacks
    def say(self) -> Steps[None]:
        """
        Let the leader move our work, and give us no more; and give back a
        leader key that was handed to us at the last moment.

        :return: a Deferred that fires when that is done, or fails with
            :class:`ConsulError`.
        """
        session = self._session.session_id
        if session is None:
            return
        prospect: Prospect = yield take_prospect(self._api, self._keys)
        if prospect.led_by_original:
            yield self._membership.stop()
            yield release(self._api, self._key, session)
            return
        yield acquire(self._api, self._key, self._record(), session)
        yield release(self._api, self._keys.leader, session)
        self._heard = True

    @property
    def can_drain(self) -> bool:
        """
        Whether it has been said that we leave, and the worker can drain.
        """
        return self._heard and hasattr(self._worker(), "drain")

    @inlineCallbacks
    def drain(self, seconds: float) -> Steps[None]:
        """
        Let our work be moved away, for as long as that comes to something.

        :param seconds: for how long at most.
        :return: a Deferred that fires when all of it is, or waiting longer is of
            no use; fails only when it is cancelled.
        """
        began = self._reactor.seconds()
        wake = Wake(self._reactor)
        outcome: list[object] = []

        def over(result: object) -> None:
            outcome.append(result)
            wake.set()

        worker: Any = self._worker()
        draining = maybeDeferred(worker.drain)
        draining.addBoth(over)
        why = ""
        try:
            while not outcome and not why:
                why = yield self._hindrance(began + seconds)
                if not outcome and not why:
                    left = began + seconds - self._reactor.seconds()
                    yield wake.wait(min(LOOK_SECONDS, left))
        finally:
            draining.cancel()
        result = outcome[0] if outcome else None
        if isinstance(result, Failure) and not result.check(CancelledError):
            why = f"the worker failed: {result.getErrorMessage()}"
        if not why:
            took = self._reactor.seconds() - began
            self._log.info("work-drained", seconds=round(took, 3))
            return
        # That nobody is there to take the work is no surprise to anybody.
        log = self._log.info if why in UNMOVED else self._log.warning
        log(
            "drain-cut-short",
            reason=why,
            items=len(self._worker().my_workload),
            effect="it stops now, and is moved afterwards if it can be",
        )

    @inlineCallbacks
    def _hindrance(self, until: float) -> Steps[str]:
        """
        Say why there is nothing to wait for; empty while there is.
        """
        if self._reactor.seconds() >= until:
            return "the time for it is over"
        lease = self._session.lease
        if lease is None or not lease.active:
            return "the lease is over"
        try:
            prospect: Prospect = yield bounded(
                self._reactor,
                LOOK_SECONDS,
                lambda: take_prospect(self._api, self._keys),
            )
        except (ConsulError, TimeoutError) as error:
            self._log.debug("leaving-not-looked-into", error=str(error))
            return ""
        return prospect.unmoved(self._instance_id)

    @inlineCallbacks
    def leave(self) -> Steps[None]:
        """
        Give our member key back, and then a leader key that was handed to us at
        the last moment: without a member key we are handed none.

        :return: a Deferred that fires when that is done, or fails with
            :class:`ConsulError`.
        """
        session = self._session.session_id
        if session is not None:
            yield release(self._api, self._key, session)
            yield release(self._api, self._keys.leader, session)
