"""
Handing leadership over to a member that is named, or to the next one.

# Note [Handing over]

One transaction does it.  It checks that the leader key is still ours and the
heir's record still as it was read, says in the term record that we lead no
more, and passes the key to the heir's session: there is no moment without a
holder, and none with two leaders.  The heir finds the key in its own hands, and
takes office.

From before that transaction is sent until a read-back has said that the key is
still ours, the term is suspended (see Note [The last transaction] of
:mod:`~voltha_coord.term`).  It does not wait for a pass of the leader, nor long
for a write of it.

Several members may be tried where none was named, and the same one again where
it was only its record that had changed.  Who asks is told once leadership is
gone, however it went; or that it stays, and why.  One hand-over at a time:
another one waits, and finds that we do not lead any more, or has its turn.

Whether the heir begins is seen to afterwards; see :mod:`~voltha_coord.heir`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredLock,
    fail,
    inlineCallbacks,
)
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry
from .errors import ConsulError, CoordinationError, NotLeading, ShutDownError
from .heir import see_to_heir
from .keys import Keys
from .passing import Asked, Passing
from .term import Term
from .terms import HANDED_OVER


class HandOver:
    """
    Hands over leadership when asked, one at a time; see Note [Handing over].

    :param passing: does it.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        passing: Passing,
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._keys = keys
        self._passing = passing
        self._log = log
        self._tasks = Tasks(log)
        self._one_at_a_time = DeferredLock()
        self._under_way: Asked | None = None

    def transfer(
        self, to: str | None = None, request: Entry | None = None
    ) -> Deferred[None]:
        """
        Hand leadership over.

        :param to: the member that is to lead; the next that can, if ``None``.
        :param request: the key that asks for it, deleted in the same
            transaction.
        :return: a Deferred that fires once we lead no more, at once when we are
            to hand over to ourselves.  While we lead on it fails with
            :class:`TransferRefused`, or with :class:`ConsulError` when the
            members could not be read; else with :class:`NotLeading` or
            :class:`ShutDownError`.  Cancelling it ends a hand-over that has not
            been sent.
        """
        asked = Asked(to, request)
        running = self._tasks.spawn("hand-over", self._run, asked)
        if running is None:
            return fail(ShutDownError("the Coordinator is shutting down"))

        def cancelled(told: Deferred[None]) -> None:
            asked.forget()
            if not asked.sent:
                running.cancel()

        # Not before it is known what there is to cancel.
        told: Deferred[None] = Deferred(cancelled)
        asked.told.addCallbacks(told.callback, told.errback)
        return told

    def deposed(self, reason: str) -> None:
        """
        Note that the term is over: who asked for that need not wait.
        """
        asked = self._under_way
        if asked is not None and asked.sent:
            if reason == HANDED_OVER:
                self._log.info(
                    "leadership-handed-over",
                    target=asked.tried[-1],
                    seconds=round(self._reactor.seconds() - asked.began, 3),
                )
            asked.tell()

    def stop(self) -> Deferred[None]:
        """
        Hand over nothing any more.  Who waits is told with
        :class:`ShutDownError`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._tasks.stop()

    @inlineCallbacks
    def _run(self, asked: Asked) -> Steps[None]:
        """
        Hand over once it is the turn, and tell who asked.
        """
        try:
            yield self._one_at_a_time.acquire()
            self._under_way = asked
            try:
                term: Term | None = yield self._passing.pass_on(asked)
            finally:
                self._under_way = None
                self._one_at_a_time.release()
        except CancelledError:
            asked.tell(ShutDownError("the Coordinator is shutting down"))
            raise
        except Exception as error:
            asked.tell(error)
            if not isinstance(error, CoordinationError):
                raise
            if not isinstance(error, NotLeading | ShutDownError):
                # Consul that is away is told by whoever makes the session.
                away = isinstance(error, ConsulError) and error.retryable
                log = self._log.debug if away else self._log.warning
                log(
                    "hand-over-refused",
                    target=asked.to,
                    reason=str(error),
                    effect="this member leads on",
                )
        else:
            asked.tell()
            if term is not None:
                self._tasks.spawn(
                    "see-to-heir",
                    see_to_heir,
                    self._reactor,
                    self._api,
                    self._keys,
                    term,
                    asked.tried[-1],
                    self._log,
                )
