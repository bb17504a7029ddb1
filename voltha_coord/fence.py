"""
The fence that every write of a term stands behind.

# Note [The fence]

Whatever is written as leader goes in a transaction that begins with
``check-session`` on the leader key and ``cas`` on the term record, at the index
this term last wrote it.  The first refuses a leader that was deposed.  The
second makes the writes of a term apply in order and at most once: a request
that was given up and lands late finds the record moved on.

That needs one transaction after the other, so they take turns.  After a lost
reply the record's ``seq`` tells whether the transaction was applied; if it was
not, another write of the record sees to it that it never is.
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
from .consul.transaction import IFence, reply_lost
from .consul.transport import Lane
from .errors import (
    ConsulError,
    ConsulUnavailable,
    LeaseOverError,
    TransactionRefused,
)
from .keys import Keys
from .records import RecordError, TermRecord

#: How often a term record that moves under our hands is looked at again.
SETTLE_ATTEMPTS = 4

#: Why a term is over, by which half of the fence was refused.
KEY_LOST = "leader-key-lost"
RECORD_CHANGED = "term-record-changed"

#: Why a term is over whose record is found to be another's, or none.
RECORD_LOST = "term-record-lost"

_T = TypeVar("_T")


@implementer(IFence)
class Fence:
    """
    The fence of one term; see Note [The fence].

    :ivar record: the term record as this term last wrote it.
    :ivar index: its ModifyIndex, as far as this term knows.
    :ivar heir: the session that the last transaction, unless it is known not to
        be applied, hands the leader key to; empty when there is none.

    :param record: the term record as it was written to begin the term.
    :param index: the ModifyIndex of that write.
    :param over: whether the term is over.
    :param fallen: called with the reason when a request shows that it is.
    """

    def __init__(
        self,
        api: ConsulApi,
        keys: Keys,
        record: TermRecord,
        index: int,
        *,
        over: Callable[[], bool],
        fallen: Callable[[str], None],
    ) -> None:
        self._api = api
        self._keys = keys
        self._over = over
        self._fallen = fallen
        self._turn = DeferredLock()
        self._unsure = False
        self.record = record
        self.index = index
        self.heir = ""

    # Taking turns.

    @inlineCallbacks
    def turn(self, send: Callable[[], Deferred[_T]]) -> Steps[_T]:
        """
        Call when nothing else of the term is under way.

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

    def close(self) -> Deferred[DeferredLock]:
        """
        Let nobody have a turn, until :meth:`open`.

        :return: a Deferred that fires when nothing is under way.  Cancelled
            before, it stays open.
        """
        return self._turn.acquire()

    def open(self) -> None:
        """
        Let those who wait have their turns; after :meth:`close`.
        """
        self._turn.release()

    # What a transaction is led by.

    def ops(self) -> tuple[Op, ...]:
        """
        Give what every transaction of the term begins with.

        :raises LeaseOverError: when the term is over.
        """
        if self._over():
            raise LeaseOverError("the term is over: nothing is written as leader")
        attempt = evolve(self.record, seq=self.record.seq + 1)
        return self._lead(attempt, self.index)

    def applied(self, results: Sequence[Entry]) -> None:
        """
        Take the term record's new index from a transaction's results.
        """
        self._learn(results)
        self.record = evolve(self.record, seq=self.record.seq + 1)

    def refused(self, error: TransactionRefused) -> None:
        """
        See whether it was the fence that was refused: then the term is over.

        :param error: of a transaction that the fence led.
        """
        positions = {refusal.position for refusal in error.refusals}
        if 0 in positions:
            self._fallen(KEY_LOST)
        elif 1 in positions:
            self._fallen(RECORD_CHANGED)

    def _lead(self, record: TermRecord, index: int) -> tuple[Op, ...]:
        return (
            Op.check_session(self._keys.leader, record.session),
            Op.cas(self._keys.term, record.encode(), index),
        )

    def _learn(self, results: Sequence[Entry]) -> None:
        for entry in results:
            if entry.key == self._keys.term:
                self.index = entry.modify_index

    # Lost replies.

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
    def _settle_the_last(self) -> Steps[None]:
        """
        Settle an earlier write that got no answer, nor did the question about
        it.
        """
        if self._unsure:
            settled = yield self._settle()
            if settled is None and not self._over():
                raise ConsulUnavailable("the fate of the last write is not known")

    @inlineCallbacks
    def _settle(self) -> Steps[bool | None]:
        """
        Compare the term record with what we last knew of it.

        A request that is not applied yet may still be: only another write of
        the record shuts it out.  That write skips a ``seq``, so that the two
        can be told apart.  It is refused when the leader key is in other hands;
        that may be the doing of the very request.  Everything else of the term
        waits for the answer, so it is asked for as the session's own requests
        are.
        """
        base = self.record.seq
        key_lost = False
        for _ in range(SETTLE_ATTEMPTS):
            found: tuple[TermRecord, int] | None = yield self._find()
            if found is None:
                return None
            record, index = found
            if record.seq != base:
                self.record, self.index = record, index
                self._unsure = False
                return record.seq == base + 1
            if key_lost:
                self._fallen(KEY_LOST)
                return None
            barrier = evolve(record, seq=base + 2)
            try:
                results: tuple[Entry, ...] = yield self._api.txn(
                    self._lead(barrier, index), lane=Lane.SESSION
                )
            except TransactionRefused as refused:
                key_lost = any(refusal.position == 0 for refusal in refused.refusals)
                continue
            self.record = barrier
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
            last = evolve(self.record, seq=self.record.seq + 1, released=True)
            return last, self.index
        if entry is None or record is None or not self._is_ours(record):
            self._fallen(RECORD_LOST)
            return None
        return record, entry.modify_index

    def wrote(self, entry: Entry) -> bool:
        """
        Whether that is a term record of this term.
        """
        record = _readable(entry)
        return record is not None and self._is_ours(record)

    def _is_ours(self, record: TermRecord) -> bool:
        mine = self.record
        return (record.session, record.token) == (mine.session, mine.token)

    # The last transaction.

    @inlineCallbacks
    def conclude(self, ops: tuple[Op, ...], heir: str) -> Steps[bool | None]:
        """
        Make the last transaction of the term, while the fence is closed: it
        says that the term is released.

        :param ops: what hands the leader key over.
        :param heir: the session it is handed to.
        :return: a Deferred that fires with True when it was applied; with False
            when it was not and never will be; with ``None`` when that is not
            known, see :meth:`concluded`.  It fails with :class:`ConsulError`, as
            :class:`TransactionRefused`, when Consul would not have it; then it
            never will be applied, either.
        """
        yield self._settle_the_last()
        if self._over():
            return None
        self.heir = heir
        last = evolve(self.record, seq=self.record.seq + 1, released=True)
        lead = self._lead(last, self.index)
        try:
            yield self._api.txn(lead + ops, lane=Lane.SESSION)
        except ConsulError as error:
            if reply_lost(error):
                known: bool | None = yield self.concluded()
                return known
            self.heir = ""
            if isinstance(error, TransactionRefused):
                self.refused(error)
            raise
        return True

    @inlineCallbacks
    def concluded(self) -> Steps[bool | None]:
        """
        Find out what became of the last transaction; see :meth:`resolve`.

        :return: a Deferred that fires as that of :meth:`conclude`.
        """
        applied: bool | None = yield self.resolve()
        if applied is False:
            self.heir = ""
        return applied


def _readable(entry: Entry) -> TermRecord | None:
    try:
        return TermRecord.from_entry(entry)
    except RecordError:
        return None
