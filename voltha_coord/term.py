"""
A term of leadership, and the fence every one of its writes stands behind.

# Note [The fence]

Whatever is written as leader goes in a transaction that begins with
``check-session`` on the leader key and ``cas`` on the term record, at the index
this term last wrote it.  The first refuses a leader that was deposed.  The
second makes the writes of a term apply in order and at most once: a request
that was given up and lands late finds the record moved on.  After a lost reply
the record's ``seq`` tells whether the transaction was applied.

That needs one transaction after the other; :meth:`Term.write` queues.

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

from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import evolve
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredLock,
    inlineCallbacks,
)
from zope.interface import implementer

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op, Reading
from .consul.transaction import (
    IFence,
    Ops,
    Transaction,
    TransactionOutcome,
    reply_lost,
)
from .consul.transport import Lane
from .errors import (
    ConsulError,
    ConsulUnavailable,
    LeaseOverError,
    TransactionRefused,
)
from .keys import Keys
from .lease import Lease
from .records import RecordError, TermRecord

#: How often a term record that moves under our hands is looked at again.
SETTLE_ATTEMPTS = 4

#: Which half of the fence refused: the reasons of a term that ends so.
KEY_LOST = "leader-key-lost"
RECORD_CHANGED = "term-record-changed"

#: The reason of a term whose record is found to be another's, or none.
RECORD_LOST = "term-record-lost"

#: The reason of a term that cannot go on after its last transaction, nor tell
#: what became of it.
UNSETTLED = "hand-over-unsettled"

_T = TypeVar("_T")


@implementer(IFence)
class Term:
    """
    One term of this member; see Note [The fence].

    :ivar token: the fencing token: the leader key's ModifyIndex when it was
        acquired.  It rises from term to term.
    :ivar lease: the lease under which the term began, and with which it ends.
    :ivar heir: the session that the last transaction, unless it is known not to
        be applied, hands the leader key to; empty when there is none.

    :param record: the term record as it was written to begin the term.
    :param index: the ModifyIndex of that write.
    :param refused: called once when a write shows that the term is over.
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
        self._keys = keys
        self._record = record
        self._index = index
        self._refused = refused
        self._lock = DeferredLock()
        self._turn = DeferredLock()
        self._writing: Deferred[TransactionOutcome] | None = None
        self._interrupted = False
        self._over = False
        self._suspended = False
        self._unsure = False
        self.lease = lease
        self.token = record.token
        self.heir = ""

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
    def record(self) -> TermRecord:
        """
        The term record as this term last wrote it.
        """
        return self._record

    @property
    def index(self) -> int:
        """
        The term record's ModifyIndex, as far as this term knows.
        """
        return self._index

    def end(self) -> None:
        """
        Write nothing any more.
        """
        self._over = True

    # IFence

    @inlineCallbacks
    def turn(self, send: Callable[[], Deferred[_T]]) -> Steps[_T]:
        """
        Call when nothing else of the term is under way, and it is not
        suspended.

        :return: a Deferred that fires, or fails, as that call does; or fails
            with :class:`ConsulError` when what came before cannot be settled.
        """
        yield self._turn.acquire()
        try:
            yield self._settle_the_last()
            result: _T = yield send()
        except CancelledError:
            # Its last request may be applied all the same, or land later.
            self._unsure = True
            raise
        finally:
            self._turn.release()
        return result

    @inlineCallbacks
    def _settle_the_last(self) -> Steps[None]:
        """
        Settle an earlier write that got no answer, nor did the question about
        it.
        """
        if self._unsure:
            settled = yield self._settle()
            if settled is None and not self.over:
                raise ConsulUnavailable("the fate of the last write is not known")

    def ops(self) -> tuple[Op, ...]:
        """
        Give what every transaction of the term begins with.

        :raises LeaseOverError: when the term is over.
        """
        if self.over:
            raise LeaseOverError("the term is over: nothing is written as leader")
        attempt = evolve(self._record, seq=self._record.seq + 1)
        return self._fenced(attempt, self._index)

    def applied(self, results: Sequence[Entry]) -> None:
        """
        Take the term record's new index from a transaction's results.
        """
        self._learn(results)
        self._record = evolve(self._record, seq=self._record.seq + 1)

    @inlineCallbacks
    def resolve(self) -> Steps[bool | None]:
        """
        Find out whether the transaction whose reply was lost was applied, and
        if it was not, see to it that it never is.

        :return: a Deferred that fires with the answer; ``None`` when Consul
            does not give one, or the term record is no longer ours.
        """
        try:
            settled: bool | None = yield self._settle()
        except ConsulError:
            self._unsure = True
            return None
        return settled

    @inlineCallbacks
    def _settle(self) -> Steps[bool | None]:
        """
        Compare the term record with what we last knew of it.

        A request that is not applied yet may still be: only another write of
        the record shuts it out.  That write skips a ``seq``, so that the two
        can be told apart.  Everything else of the term waits for the answer, so
        it is asked for as the session's own requests are.
        """
        base = self._record.seq
        for _ in range(SETTLE_ATTEMPTS):
            found: tuple[TermRecord, int] | None = yield self._find()
            if found is None:
                return None
            record, index = found
            if record.seq != base:
                self._record, self._index = record, index
                self._unsure = False
                return record.seq == base + 1
            barrier = evolve(record, seq=base + 2)
            try:
                results: tuple[Entry, ...] = yield self._api.txn(
                    self._fenced(barrier, index), lane=Lane.SESSION
                )
            except TransactionRefused as refused:
                if any(refusal.position == 0 for refusal in refused.refusals):
                    self._over_now(KEY_LOST)
                    return None
                continue
            self._record = barrier
            self._learn(results)
            self._unsure = False
            return False
        self._unsure = True
        return None

    @inlineCallbacks
    def _find(self) -> Steps[tuple[TermRecord, int] | None]:
        """
        Read the term record; ``None``, and the term is over, if it is not ours.

        One that the heir has written since says that we wrote our last.
        """
        reading: Reading = yield self._api.get(
            self._keys.term, consistent=True, lane=Lane.SESSION
        )
        entry = reading.entry
        record = None if entry is None else _readable(entry)
        if record is not None and record.session == self.heir:
            last = evolve(self._record, seq=self._record.seq + 1, released=True)
            return last, self._index
        if entry is None or record is None or not self._is_ours(record):
            self._over_now(RECORD_LOST)
            return None
        return record, entry.modify_index

    def wrote(self, entry: Entry) -> bool:
        """
        Whether that is a term record of this term.
        """
        record = _readable(entry)
        return record is not None and self._is_ours(record)

    def _is_ours(self, record: TermRecord) -> bool:
        mine = self._record
        return (record.session, record.token) == (mine.session, mine.token)

    def _learn(self, results: Sequence[Entry]) -> None:
        for entry in results:
            if entry.key == self._keys.term:
                self._index = entry.modify_index

    def _fenced(self, record: TermRecord, index: int) -> tuple[Op, ...]:
        return (
            Op.check_session(self._keys.leader, record.session),
            Op.cas(self._keys.term, record.encode(), index),
        )

    def _over_now(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._refused(reason)

    # Writing.

    @inlineCallbacks
    def write(self, ops: Ops) -> Steps[TransactionOutcome]:
        """
        Write as leader, behind the fence.

        :param ops: operations; those of a tuple stay in one transaction.
        :return: a Deferred that fires with what was applied, or fails with
            :class:`LeaseOverError` when the term is over, or with
            :class:`ConsulError`.  A write that shows the term to be over ends
            it.
        """
        yield self._lock.acquire()
        try:
            self._writing = Transaction(self._api, ops, fence=self).run()
            outcome: TransactionOutcome = yield self._writing
            if outcome.fenced_off:
                self._over_now(_why(outcome))
        except CancelledError:
            if not self._interrupted:
                raise
            raise ConsulUnavailable("given up: leadership is handed over") from None
        finally:
            self._writing, self._interrupted = None, False
            self._lock.release()
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
            yield self._turn.acquire()
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
        self._turn.release()

    @inlineCallbacks
    def conclude(self, ops: tuple[Op, ...], heir: str) -> Steps[bool | None]:
        """
        Make the last transaction of the term, while it is suspended.

        :param ops: what hands the leader key over.
        :param heir: the session it is handed to.
        :return: a Deferred that fires with True when it was applied, and the
            term is over; with False when it was not and never will be; with
            ``None`` when that is not known, see :meth:`concluded`.  It fails
            with :class:`ConsulError`, as :class:`TransactionRefused`, when
            Consul would not have it; then it never will be applied, either.
        """
        yield self._settle_the_last()
        if self.over:
            return None
        self.heir = heir
        last = evolve(self._record, seq=self._record.seq + 1, released=True)
        lead = self._fenced(last, self._index)
        try:
            yield self._api.txn(lead + ops, lane=Lane.SESSION)
        except ConsulError as error:
            if not reply_lost(error):
                self.heir = ""
                self._heed(error)
                raise
            applied: bool | None = yield self.concluded()
            return applied
        self.end()
        return True

    def _heed(self, error: ConsulError) -> None:
        """
        End the term if the last transaction was refused by its fence.
        """
        if isinstance(error, TransactionRefused):
            refused = {refusal.position for refusal in error.refusals}
            if 0 in refused:
                self._over_now(KEY_LOST)
            elif 1 in refused:
                self._over_now(RECORD_CHANGED)

    @inlineCallbacks
    def concluded(self) -> Steps[bool | None]:
        """
        Find out what became of the last transaction; see :meth:`resolve`.

        :return: a Deferred that fires as that of :meth:`conclude`.
        """
        applied: bool | None = yield self.resolve()
        if applied:
            self.end()
        elif applied is False:
            self.heir = ""
        return applied


def _readable(entry: Entry) -> TermRecord | None:
    try:
        return TermRecord.from_entry(entry)
    except RecordError:
        return None


def _why(outcome: TransactionOutcome) -> str:
    """
    Give which half of the fence refused: -2 is the key, -1 the record.
    """
    lost = any(refusal.position == -2 for refusal in outcome.refusals)
    return KEY_LOST if lost else RECORD_CHANGED
