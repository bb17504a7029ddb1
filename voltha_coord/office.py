"""
Taking office, and leaving it: what the election does to the term record.

Whoever holds the leader key may take office once whoever led before may be
succeeded (see :mod:`~voltha_coord.succession`): one transaction, behind the
key as it was acquired, writes the term record.  Whoever leads no more says so
there, so that a successor need not wait.

# Note [Named without knowing it]

A transaction whose reply was lost may have named us, and so may one that was
given up and landed late.  As long as the record names a session of ours that
lives, nobody else may lead.  So from the moment it is sent, until the record
was seen to say otherwise, we count as named; and who is named and does not lead
leaves office.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op, Reading
from .errors import TransactionRefused
from .keys import Keys
from .lease import Lease
from .records import RecordError, TermRecord
from .session import SessionKeeper
from .succession import Predecessor, Succession
from .term import Term

#: How often leaving is tried while the record moves under our hands.
LEAVE_ATTEMPTS = 3

#: What one waits for when nobody can read who led before.
UNREADABLE = "unreadable"


class Office:
    """
    Takes office and leaves it, for one member; see the head of the module.

    :ivar named: whether the term record may name a session of ours as leading.
    :ivar waiting_for: the session whose lease must be over before we may take
        office; empty for none.

    :param instance_id: in whose name.
    :param refused: handed to each :class:`Term`.
    """

    def __init__(
        self,
        api: ConsulApi,
        keys: Keys,
        session: SessionKeeper,
        succession: Succession,
        *,
        instance_id: str,
        refused: Callable[[str], None],
        log: Any,
    ) -> None:
        self._api = api
        self._keys = keys
        self._session = session
        self._succession = succession
        self._instance_id = instance_id
        self._refused = refused
        self._log = log
        self._highest_token = 0
        self._seen_record = False
        self._unreadable = 0
        self._waited_for = ""
        self.named = False
        self.waiting_for = ""

    @inlineCallbacks
    def look(self) -> Steps[None]:
        """
        Look who is to be succeeded: the time we must wait begins to run.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        yield self._is_free((yield self._read()))

    @inlineCallbacks
    def take(self, lease: Lease, token: int) -> Steps[Term | None]:
        """
        Take office, holding the leader key with that ModifyIndex.

        :return: a Deferred that fires with the term that has begun, or with
            ``None`` while whoever led before may not be succeeded.  It fails
            with :class:`TransactionRefused` when the key or the record changed
            meanwhile, or with another :class:`ConsulError`.
        """
        entry: Entry | None = yield self._read()
        record = self._took_already(entry, lease, token)
        if record is not None:
            assert entry is not None
            return self._term(lease, record, entry.modify_index)
        free: bool = yield self._is_free(entry)
        if not free:
            return None
        record = TermRecord(
            holder=self._instance_id,
            session=lease.session_id,
            token=token,
            check=self._session.check_id or None,
            node=self._session.node,
            ttl=self._session.session_ttl,
        )
        self.named = True
        results: tuple[Entry, ...] = yield self._api.txn(
            (
                Op.check_session(self._keys.leader, lease.session_id),
                # Acquired again since, unnoticed, it would have a newer token.
                Op.check_index(self._keys.leader, token),
                Op.cas(
                    self._keys.term,
                    record.encode(),
                    0 if entry is None else entry.modify_index,
                ),
            )
        )
        self._say_if_it_fell(entry, token)
        index = next(e.modify_index for e in results if e.key == self._keys.term)
        return self._term(lease, record, index)

    def saw(self, index: int) -> None:
        """
        Note the ModifyIndex of the leader key in other hands: the token of our
        next term is higher, unless Consul is in an older state by then.
        """
        self._highest_token = max(self._highest_token, index)

    def _say_if_it_fell(self, entry: Entry | None, token: int) -> None:
        """
        Say loudly when Consul's indexes, and so the tokens, went back.
        """
        try:
            before = 0 if entry is None else TermRecord.from_entry(entry).token
        except RecordError:
            before = 0
        self._highest_token = max(self._highest_token, before)
        if token <= self._highest_token:
            self._log.critical(
                "fencing-token-went-back",
                token=token,
                highest=self._highest_token,
                effect="what refuses lower tokens will refuse this leader",
                action="Consul was emptied or restored: reset what compares tokens",
            )
        self._highest_token = token

    def _term(self, lease: Lease, record: TermRecord, index: int) -> Term:
        self.named = True
        return Term(self._api, self._keys, lease, record, index, self._refused)

    @inlineCallbacks
    def leave(self) -> Steps[None]:
        """
        Say in the term record that we lead no more, if it names us, and free
        the leader key in the same transaction if it is still ours.

        A write of the term that was under way when it ended may come in
        between; then the record is read again.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`; then we still count as named.
        """
        for _ in range(LEAVE_ATTEMPTS):
            entry: Entry | None = yield self._read()
            record = self._ours(entry)
            if entry is None or record is None:
                break
            said = Op.cas(
                self._keys.term,
                evolve(record, released=True).encode(),
                entry.modify_index,
            )
            freed = (
                Op.check_session(self._keys.leader, record.session),
                Op.delete(self._keys.leader),
            )
            done = yield self._try(said, *freed)
            done = done or (yield self._try(said))
            if done:
                self._log.debug("left-office", fencing_token=record.token)
                break
        self.named = False

    @inlineCallbacks
    def _try(self, *ops: Op) -> Steps[bool]:
        try:
            yield self._api.txn(ops)
        except TransactionRefused:
            return False
        return True

    @inlineCallbacks
    def _read(self) -> Steps[Entry | None]:
        reading: Reading = yield self._api.get(self._keys.term, consistent=True)
        return reading.entry

    def _ours(self, entry: Entry | None) -> TermRecord | None:
        """
        Give the record if it names a session of this process as leading.
        """
        try:
            record = None if entry is None else TermRecord.from_entry(entry)
        except RecordError:
            return None
        if record is None or record.released:
            return None
        return record if record.session in self._session.own_sessions else None

    def _took_already(
        self, entry: Entry | None, lease: Lease, token: int
    ) -> TermRecord | None:
        """
        Give the record if a transaction wrote it whose reply we never got.
        """
        record = self._ours(entry)
        if record is None or record.seq:
            return None
        same = (record.session, record.token) == (lease.session_id, token)
        return record if same else None

    @inlineCallbacks
    def _is_free(self, entry: Entry | None) -> Steps[bool]:
        """
        Apply Note [Taking over] to what the term record names.
        """
        self.waiting_for = ""
        if entry is None:
            if self._seen_record:
                self._seen_record = False
                self._log.error(
                    "term-record-missing",
                    effect="who led before is not known, nor waited for",
                )
            return True
        self._seen_record = True
        try:
            found = TermRecord.from_entry(entry)
        except RecordError as error:
            # Somebody wrote over it: who led is not known.  Wait as for a
            # session that is gone, from when we first saw this very record.
            if entry.modify_index != self._unreadable:
                self._unreadable = entry.modify_index
                self._log.error(
                    "term-record-unreadable",
                    error=str(error),
                    effect="the next term begins in one session TTL",
                )
            waited = self._succession.waited(f"term-{entry.modify_index}")
            self.waiting_for = "" if waited else UNREADABLE
            return waited
        if found.released or found.session in self._session.own_sessions:
            return True
        over: bool = yield self._succession.is_over(
            Predecessor(
                found.session, found.check or "", found.node or "", found.ttl or 0.0
            )
        )
        if not over:
            self.waiting_for = found.session
            if found.session != self._waited_for:
                self._waited_for = found.session
                self._log.info(
                    "waiting-for-predecessor",
                    holder=found.holder,
                    session=found.session,
                )
        return over
