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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve
from twisted.internet.defer import CancelledError, DeferredLock, inlineCallbacks
from zope.interface import implementer

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op, Reading
from .consul.transaction import IFence, Ops, Transaction, TransactionOutcome
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


@implementer(IFence)
class Term:
    """
    One term of this member; see Note [The fence].

    :ivar token: the fencing token: the leader key's ModifyIndex when it was
        acquired.  It rises from term to term.
    :ivar lease: the lease under which the term began, and with which it ends.

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
        self._over = False
        self._unsure = False
        self.lease = lease
        self.token = record.token

    @property
    def active(self) -> bool:
        """
        Whether one may act as leader, at this instant.
        """
        return not self._over and self.lease.active

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

    def ops(self) -> tuple[Op, ...]:
        """
        Give what every transaction of the term begins with.

        :raises LeaseOverError: when the term is over.
        """
        if not self.active:
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
        can be told apart.
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
                    self._fenced(barrier, index)
                )
            except TransactionRefused as refused:
                if any(refusal.position == 0 for refusal in refused.refusals):
                    self._over_now("leader-key-lost")
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
        """
        reading: Reading = yield self._api.get(self._keys.term, consistent=True)
        entry = reading.entry
        try:
            record = None if entry is None else TermRecord.from_entry(entry)
        except RecordError:
            record = None
        mine = (self._record.session, self._record.token)
        if entry is None or record is None or (record.session, record.token) != mine:
            self._over_now("term-record-lost")
            return None
        return record, entry.modify_index

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
            if self._unsure:
                # An earlier write got no answer, nor did the question about it.
                settled = yield self._settle()
                if settled is None and self.active:
                    raise ConsulUnavailable("the fate of the last write is not known")
            transaction = Transaction(self._api, ops, fence=self)
            outcome: TransactionOutcome = yield transaction.run()
            if outcome.fenced_off:
                self._over_now(_why(outcome))
        except CancelledError:
            # Its last request may be applied all the same, or land later.
            self._unsure = True
            raise
        finally:
            self._lock.release()
        return outcome


def _why(outcome: TransactionOutcome) -> str:
    """
    Give which half of the fence refused: -2 is the key, -1 the record.
    """
    lost = any(refusal.position == -2 for refusal in outcome.refusals)
    return "leader-key-lost" if lost else "term-record-changed"
