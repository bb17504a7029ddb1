"""
Requests to hand leadership over, as operators write them: ``intent/transfer``.

A request names the fencing token of the leader that is asked, and only the
leader of that token acts on it, at once and beside its passes.  What became of
it is seen by whoever asked: a request that was carried out is gone together
with the leadership, one that was not says why, and is theirs to delete.  A
leader deletes what nobody waits for any more: requests and refusals of earlier
terms, and what is no request at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, sleep
from ._types import Steps
from .consul.backoff import Backoff
from .consul.model import Entry, Op
from .consul.transaction import TransactionOutcome
from .errors import (
    ConsulError,
    CoordinationError,
    LeaseOverError,
    NotLeading,
    ShutDownError,
    TransactionRefused,
    TransferRefused,
)
from .keys import shown
from .records import RecordError, TransferRequest
from .term import Term


class Transfers:
    """
    Answers the requests of one term; see the head of the module.

    :param retries: waits out the back-offs.
    :param term: whose leader is asked.
    :param instance_id: of that leader.
    :param transfer: hands leadership over; see
        :meth:`~voltha_coord.handover.HandOver.transfer`.
    :param random: for jitter, in [0, 1).
    """

    def __init__(
        self,
        retries: IReactorTime,
        term: Term,
        *,
        instance_id: str,
        transfer: Callable[[str | None, Entry], Deferred[None]],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._retries = retries
        self._term = term
        self._instance_id = instance_id
        self._transfer = transfer
        self._random = random
        self._log = log
        self._tasks = Tasks(log)
        self._seen = 0
        self._answering: Deferred[None] | None = None

    def seen(self, entry: Entry | None) -> None:
        """
        Take note of what stands under the key, ``None`` for nothing.
        """
        index = 0 if entry is None else entry.modify_index
        if index == self._seen:
            return
        self._seen = index
        if self._answering is not None:
            # Whoever asked has thought better of it, unless it is under way.
            self._answering.cancel()
        if entry is not None:
            self._answering = self._tasks.spawn("transfer", self._answer, entry)

    def stop(self) -> Deferred[None]:
        """
        Answer nothing any more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._tasks.stop()

    @inlineCallbacks
    def _answer(self, entry: Entry) -> Steps[None]:
        """
        Carry a request out, or say why not, for as long as the term lasts.
        """
        backoff = Backoff(self._random)
        while not self._term.over:
            try:
                ops = yield self._answer_once(entry)
                if ops:
                    yield self._write(ops)
            except (LeaseOverError, NotLeading, ShutDownError):
                return
            except CancelledError:
                raise
            except ConsulError as error:
                if not error.retryable:
                    self._log.warning(
                        "transfer-request-not-answered",
                        error=str(error),
                        effect="whoever asked waits in vain; leadership stays",
                        action=f"delete {shown(entry.key)}",
                    )
                    return
                yield sleep(self._retries, backoff.next())
            else:
                return

    @inlineCallbacks
    def _answer_once(self, entry: Entry) -> Steps[tuple[Op, ...]]:
        """
        Hand over if that is asked of us.

        :return: a Deferred that fires with what is to be written, or fails with
            :class:`CoordinationError`.
        """
        drop = (Op.delete_cas(entry.key, entry.modify_index),)
        try:
            request = TransferRequest.from_entry(entry)
        except RecordError as error:
            self._drop(error.reason)
            return drop
        if request.token != self._term.token:
            self._drop("it was meant for the leader of another term")
            return drop
        if request.refused is not None:
            return ()
        if request.target == self._instance_id:
            return drop
        try:
            yield self._transfer(request.target or None, entry)
        except TransferRefused as refused:
            why = str(refused)
        except ConsulError as error:
            if error.retryable:
                raise
            why = str(error)
        else:
            return ()
        answer = evolve(request, refused=why)
        return (Op.cas(entry.key, answer.encode(), entry.modify_index),)

    def _drop(self, reason: str) -> None:
        self._log.info("transfer-request-dropped", reason=reason)

    @inlineCallbacks
    def _write(self, ops: tuple[Op, ...]) -> Steps[None]:
        outcome: TransactionOutcome = yield self._term.write(ops)
        error: CoordinationError | None = outcome.error
        if error is not None and not isinstance(error, TransactionRefused):
            raise error
