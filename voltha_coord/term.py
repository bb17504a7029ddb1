"""
A term of leadership: what is written in it, and how it ends.

# Note [The last transaction]

A term may end by handing the leader key to the session of another member; the
record says in the same transaction that we lead no more, so that the heir may
begin at once.  From before it is sent the term is suspended: it is not active,
and what is to be written waits.  It goes on only once the transaction is known
not to be applied, now or ever: refused, or shut out by another write of the
record.  A write that hangs is given up to make room; its fate is found out as
that of any other whose reply was lost.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredLock,
    inlineCallbacks,
)

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Op
from .consul.transaction import Ops, Transaction, TransactionOutcome
from .errors import ConsulUnavailable
from .fence import KEY_LOST, RECORD_CHANGED, Fence
from .keys import Keys
from .lease import Lease
from .records import TermRecord

#: The reason of a term that cannot go on after its last transaction, nor tell
#: what became of it.
UNSETTLED = "hand-over-unsettled"


class Term:
    """
    One term of this member.

    :ivar token: the fencing token: the leader key's ModifyIndex when it was
        acquired.  It rises from term to term.
    :ivar lease: the lease under which the term began, and with which it ends.
    :ivar fence: what all its writes stand behind.

    :param record: the term record as it was written to begin the term.
    :param index: the ModifyIndex of that write.
    :param refused: called once when a request shows that the term is over.
    """

    def __init__(
        self,
        api: ConsulApi,
        keys: Keys,
        lease: Lease,
        record: TermRecord,
        index: int,
        refused: Callable[[str], None],
    ) -> None:
        self._api = api
        self._refused = refused
        self._queue = DeferredLock()
        self._writing: Deferred[TransactionOutcome] | None = None
        self._interrupted = False
        self._over = False
        self._suspended = False
        self.lease = lease
        self.token = record.token
        self.fence = Fence(
            api,
            keys,
            record,
            index,
            over=lambda: self.over,
            fallen=self._over_now,
        )

    @property
    def active(self) -> bool:
        """
        Whether one may act as leader, at this instant.
        """
        return not self._suspended and not self.over

    @property
    def over(self) -> bool:
        """
        Whether one may never act in this term again.
        """
        return self._over or not self.lease.active

    @property
    def heir(self) -> str:
        """
        The session that the last transaction, unless it is known not to be
        applied, hands the leader key to; empty when there is none.
        """
        return self.fence.heir

    def end(self) -> None:
        """
        Write nothing any more.
        """
        self._over = True

    def _over_now(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._refused(reason)

    @inlineCallbacks
    def write(self, ops: Ops) -> Steps[TransactionOutcome]:
        """
        Write as leader, behind the fence, after what was to be written before.

        :param ops: operations; those of a tuple stay in one transaction.
        :return: a Deferred that fires with what was applied, or fails with
            :class:`LeaseOverError` when the term is over, or with
            :class:`ConsulError`.  A write that shows the term to be over ends
            it.
        """
        yield self._queue.acquire()
        try:
            self._writing = Transaction(self._api, ops, fence=self.fence).run()
            outcome: TransactionOutcome = yield self._writing
            if outcome.fenced_off:
                self._over_now(_why(outcome))
        except CancelledError:
            if not self._interrupted:
                raise
            raise ConsulUnavailable("given up: leadership is handed over") from None
        finally:
            self._writing, self._interrupted = None, False
            self._queue.release()
        return outcome

    # Ending in order; see Note [The last transaction].

    @inlineCallbacks
    def suspend(self) -> Steps[None]:
        """
        Act as leader no more, from this instant until :meth:`resume`.

        :return: a Deferred that fires when nothing of the term is under way.
            Cancelled before, the term goes on.
        """
        self._suspended = True
        try:
            yield self.fence.close()
        except CancelledError:
            self._suspended = False
            raise

    def interrupt(self) -> None:
        """
        Give up the write that is under way, so that there is nothing.
        """
        if self._writing is not None:
            self._interrupted = True
            self._writing.cancel()

    def resume(self) -> None:
        """
        Go on, unless the term is over; after :meth:`suspend`.
        """
        if self.heir:
            self._over_now(UNSETTLED)
        self._suspended = False
        self.fence.open()

    @inlineCallbacks
    def conclude(self, ops: tuple[Op, ...], heir: str) -> Steps[bool | None]:
        """
        Make the last transaction of the term, while it is suspended, and end
        the term if it is applied; otherwise as :meth:`.Fence.conclude`.
        """
        applied: bool | None = yield self.fence.conclude(ops, heir)
        if applied:
            self.end()
        return applied

    @inlineCallbacks
    def concluded(self) -> Steps[bool | None]:
        """
        Find out what became of the last transaction, and end the term if it was
        applied; otherwise as :meth:`.Fence.concluded`.
        """
        applied: bool | None = yield self.fence.concluded()
        if applied:
            self.end()
        return applied


def _why(outcome: TransactionOutcome) -> str:
    """
    Give which half of the fence refused: -2 is the key, -1 the record.
    """
    lost = any(refusal.position == -2 for refusal in outcome.refusals)
    return KEY_LOST if lost else RECORD_CHANGED
