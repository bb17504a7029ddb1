"""
The election: who holds the leader key, and whether this member leads.

One loop looks at the leader key and at its own session, and makes one step:

    not holding the key ──acquire──▶ holding it ──establish──▶ leading
            ▲                            │                        │
            └───────released, lost───────┴──────stepped down──────┘

Holding the key is not leading: the term record names who led before, and the
rule of :mod:`~voltha_coord.succession` says when that may be succeeded.  Then
one transaction, behind the key, writes the term record, and the term begins.

# Note [Losing a term]

A term ends the moment this process can know that it has: when its lease is
over, when the watch shows the leader key in other hands, when a fenced write is
refused.  From then on ``term.active`` is false, whoever asks.  What follows can
take its time: the leader is halted, ``term.released`` is written so that a
successor need not wait, and the leader key is given back if it is still ours.
A key once acquired serves one term: it is given back even if the session lives
on, because the next term needs a higher fencing token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from attrs import evolve
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Wake, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import Entry, KeyNames, Op, Reading
from .consul.watch import Watch
from .errors import ConsulError, InvalidSession, TransactionRefused
from .held import Acquisition, Hindrance, acquire, release
from .keys import Keys
from .lease import Lease
from .membership import LOCK_DELAY_RETRY
from .records import RecordError, TermRecord
from .session import SessionKeeper
from .settings import Settings
from .succession import Predecessor, Succession
from .term import Term

#: Candidates that wake together do not all ask together: up to so many seconds.
STAGGER = 0.03

#: How often a term that is over is tried to be released in the term record.
RELEASE_ATTEMPTS = 3

#: Between two looks at a predecessor whose lease may not be over, in seconds.
PREDECESSOR_RETRY = 0.1


class Election:
    """
    Takes part in the election; see the head of the module.

    :param instance_id: what this member writes under the leader key.
    :param standing: whether this member may lead at the moment.
    :param settled: whether the leader of an earlier term is at rest.
    :param elected: called with the :class:`Term` that has begun.
    :param deposed: called with the reason when a term is over.
    :param leader_changed: called with the instance id of who holds the leader
        key now; ``None`` for nobody.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        settings: Settings,
        session: SessionKeeper,
        succession: Succession,
        *,
        instance_id: str,
        standing: Callable[[], bool],
        settled: Callable[[], bool],
        elected: Callable[[Term], None],
        deposed: Callable[[str], None],
        leader_changed: Callable[[str | None], None],
        random: Callable[[], float],
        log: Any = None,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._keys = keys
        self._settings = settings
        self._session = session
        self._succession = succession
        self._instance_id = instance_id
        self._standing = standing
        self._settled = settled
        self._elected = elected
        self._deposed = deposed
        self._leader_changed = leader_changed
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        self._tasks = Tasks(self._log)
        self._wake = Wake(reactor)
        self._watch = Watch(
            reactor,
            self._read,
            self._seen,
            name="leader",
            wait=settings.watch_wait,
            random=random,
            failed=self._unreadable,
        )
        self._entry: Entry | None = None
        self._known = False
        self._last_token = 0
        self._unreleased: Term | None = None
        self._paused_until = 0.0
        self._waiting_for = ""
        self.term: Term | None = None
        self.leader_id: str | None = None

    @property
    def waiting_for(self) -> str:
        """
        The session whose lease must be over before our term may begin.
        """
        return self._waiting_for

    def start(self) -> None:
        """
        Begin to take part, until :meth:`stop`.
        """
        self._watch.start()
        self._tasks.spawn("election", self._run)

    def wake(self) -> None:
        """
        Look again: the session, or whether we may stand, has changed.
        """
        term = self.term
        if term is not None and not term.active:
            ended = term.lease.ended
            self._end_term("fenced-off" if ended is None else ended.value)
        self._wake.set()

    def give_up(self, reason: str) -> None:
        """
        End the term, offer leadership to others, and be no candidate for
        ``Settings.candidate_pause`` seconds.
        """
        self._paused_until = self._reactor.seconds() + self._settings.candidate_pause
        self._end_term(reason)
        self._wake.set()

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        End the term if there is one, and take part no more.

        What we held is not given back yet: see :meth:`resign`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._end_term("shutting-down")
        yield self._watch.stop()
        yield self._tasks.stop()

    @inlineCallbacks
    def resign(self) -> Steps[None]:
        """
        Give back the leader key and say so in the term record; after
        :meth:`stop`.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        if self._unreleased is not None:
            yield self._release_term()
        session = self._session.session_id
        if session is not None:
            yield release(self._api, self._keys.leader, session)

    # The leader key.

    def _read(self, index: int, wait: float, consistent: bool) -> Deferred[Reading]:
        return self._api.get(
            self._keys.leader, index=index, wait=wait, consistent=consistent
        )

    def _unreadable(self, error: Exception) -> None:
        self._log.warning("leader-watch-failed", error=str(error))

    def _seen(self, reading: Reading | KeyNames) -> None:
        assert isinstance(reading, Reading)
        self._known = True
        self._take(reading.entry)
        self._wake.set()

    def _take(self, entry: Entry | None) -> None:
        """
        Note what stands under the leader key.
        """
        self._entry = entry
        term = self.term
        if term is not None and not self._held_by(term.lease.session_id):
            self._end_term("leader-key-lost")
            self._session.suspect()
        leader = None
        if entry is not None and entry.session is not None:
            leader = entry.value.decode("utf-8", errors="replace")
        if leader != self.leader_id:
            self.leader_id = leader
            self._leader_changed(leader)

    def _held_by(self, session: str) -> bool:
        return self._entry is not None and self._entry.session == session

    # The loop.

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while True:
            try:
                seconds: float | None = yield self._step()
                backoff.clear()
            except InvalidSession:
                self._session.suspect()
                seconds = backoff.next()
            except ConsulError as error:
                seconds = backoff.next()
                self._log.warning(
                    "election-step-failed", retry_in=round(seconds, 3), error=str(error)
                )
            yield self._wake.wait(seconds)

    @inlineCallbacks
    def _step(self) -> Steps[float | None]:
        """
        Make one step.

        :return: a Deferred that fires with the seconds after which to look
            again at the latest, or ``None``: when the watch or the session
            says so.  Fails with :class:`ConsulError`.
        """
        if self._unreleased is not None:
            yield self._release_term()
        lease = self._session.lease
        if not self._known or lease is None or not lease.active:
            return None
        session = lease.session_id
        if self.term is not None:
            yield self._keep_our_name(session)
            return None
        paused = self._paused_until - self._reactor.seconds()
        if paused > 0 or not self._standing():
            if self._held_by(session):
                yield self._give_back(session)
            return max(paused, 0.0) or None
        if not self._settled():
            # The machine of the role wakes us when the old leader is at rest.
            return None
        if self._entry is None or self._entry.session is None:
            hindrance = yield self._contend(session)
            if hindrance is Hindrance.LOCK_DELAY:
                return LOCK_DELAY_RETRY * (0.5 + self._random())
            if hindrance is Hindrance.HELD:
                return 1.0
        if not self._held_by(session):
            self._waiting_for = ""
            return None
        assert self._entry is not None
        if self._entry.modify_index <= self._last_token:
            yield self._give_back(session)
            return 0.0
        again: float | None = yield self._establish(lease, self._entry.modify_index)
        return again

    @inlineCallbacks
    def _contend(self, session: str) -> Steps[Hindrance | None]:
        """
        Try to acquire the leader key.
        """
        yield sleep(self._reactor, STAGGER * self._random())
        if self._entry is not None and self._entry.session is not None:
            return Hindrance.HELD
        self._log.debug("leadership-attempt")
        value = self._instance_id.encode()
        result: Acquisition = yield acquire(
            self._api, self._keys.leader, value, session
        )
        if result.hindrance is Hindrance.LOCK_DELAY:
            # A predecessor that has just vanished: its time begins to run now.
            yield self._may_begin((yield self._read_term()))
        if result.entry is None:
            return result.hindrance
        self._take(evolve(result.entry, value=value, session=session))
        return None

    @inlineCallbacks
    def _keep_our_name(self, session: str) -> Steps[None]:
        """
        While leading, mend a leader key whose value somebody overwrote.
        """
        value = self._instance_id.encode()
        if self._entry is not None and self._entry.value != value:
            self._log.warning("leader-key-overwritten", found=self.leader_id)
            result: Acquisition = yield acquire(
                self._api, self._keys.leader, value, session
            )
            if result.entry is not None:
                self._take(evolve(result.entry, value=value, session=session))

    @inlineCallbacks
    def _give_back(self, session: str) -> Steps[None]:
        yield release(self._api, self._keys.leader, session)
        if self._held_by(session):
            self._take(None)

    # Beginning a term.

    @inlineCallbacks
    def _read_term(self) -> Steps[Entry | None]:
        reading: Reading = yield self._api.get(self._keys.term, consistent=True)
        return reading.entry

    @inlineCallbacks
    def _establish(self, lease: Lease, token: int) -> Steps[float | None]:
        """
        Begin a term, if whoever led before may be succeeded.
        """
        entry: Entry | None = yield self._read_term()
        if entry is not None and self._began_already(entry, lease, token):
            self._begin(lease, TermRecord.from_entry(entry), entry.modify_index)
            return None
        may_begin: bool = yield self._may_begin(entry)
        if not may_begin:
            return PREDECESSOR_RETRY * (0.5 + self._random())
        record = TermRecord(
            holder=self._instance_id,
            session=lease.session_id,
            token=token,
            check=self._session.check_id or None,
            node=self._session.node,
            ttl=self._session.session_ttl,
        )
        try:
            results: tuple[Entry, ...] = yield self._api.txn(
                (
                    Op.check_session(self._keys.leader, lease.session_id),
                    Op.cas(
                        self._keys.term,
                        record.encode(),
                        0 if entry is None else entry.modify_index,
                    ),
                )
            )
        except TransactionRefused as refused:
            self._log.debug("term-refused", error=str(refused))
            self._watch.restart()
            return PREDECESSOR_RETRY
        index = next(e.modify_index for e in results if e.key == self._keys.term)
        self._begin(lease, record, index)
        return None

    def _began_already(self, entry: Entry, lease: Lease, token: int) -> bool:
        """
        Whether the transaction was applied whose reply we never got.
        """
        try:
            found = TermRecord.from_entry(entry)
        except RecordError:
            return False
        return (
            found.session == lease.session_id
            and found.token == token
            and found.seq == 0
            and not found.released
        )

    @inlineCallbacks
    def _may_begin(self, entry: Entry | None) -> Steps[bool]:
        """
        Apply Note [Taking over] to what the term record names.
        """
        self._waiting_for = ""
        if entry is None:
            return True
        try:
            found = TermRecord.from_entry(entry)
        except RecordError as error:
            # Somebody wrote over it: who led is not known.  Wait as for a
            # session that is gone, from when we first saw this very record.
            self._log.error("term-record-unreadable", error=str(error))
            return self._succession.waited(f"term-{entry.modify_index}")
        if found.released or found.session in self._session.own_sessions:
            return True
        predecessor = Predecessor(
            found.session, found.check or "", found.node or "", found.ttl or 0.0
        )
        over: bool = yield self._succession.is_over(predecessor)
        if not over:
            self._waiting_for = found.session
            self._log.debug(
                "waiting-for-predecessor", holder=found.holder, session=found.session
            )
        return over

    def _begin(self, lease: Lease, record: TermRecord, index: int) -> None:
        self._waiting_for = ""
        self._last_token = max(self._last_token, record.token)
        term = Term(self._api, self._keys, lease, record, index, self._fenced_off)
        if not term.active or not self._held_by(lease.session_id):
            self._unreleased = term
            term.end()
            self._wake.set()
            return
        self.term = term
        self._log.info(
            "became-leader", fencing_token=record.token, session_id=record.session
        )
        self._elected(term)

    # Ending a term.

    def _fenced_off(self, reason: str) -> None:
        self._end_term(reason)
        self._watch.restart()
        self._wake.set()

    def _end_term(self, reason: str) -> None:
        """
        End the term at this instant; see Note [Losing a term].
        """
        term, self.term = self.term, None
        if term is None:
            return
        term.end()
        self._unreleased = term
        self._log.warning("lost-leadership", fencing_token=term.token, reason=reason)
        self._deposed(reason)

    @inlineCallbacks
    def _release_term(self) -> Steps[None]:
        """
        Say in the term record that we lead no more, and free the leader key
        if it is still ours.

        A write of the term that was under way when it ended may still come in
        between; then the record is read again.
        """
        term = self._unreleased
        assert term is not None
        session = term.lease.session_id
        for _ in range(RELEASE_ATTEMPTS):
            entry: Entry | None = yield self._read_term()
            released = self._released(entry, term)
            if entry is None or released is None:
                break
            said = Op.cas(self._keys.term, released, entry.modify_index)
            freed = (
                Op.check_session(self._keys.leader, session),
                Op.delete(self._keys.leader),
            )
            done = yield self._try_ops((said, *freed))
            done = done or (yield self._try_ops((said,)))
            if done:
                break
        if self._held_by(session):
            yield self._give_back(session)
        if self._unreleased is term:
            self._unreleased = None

    def _released(self, entry: Entry | None, term: Term) -> bytes | None:
        """
        Give the term record with ``released`` set; ``None`` if it is not that
        term's, or says so already.
        """
        if entry is None:
            return None
        try:
            record = TermRecord.from_entry(entry)
        except RecordError:
            return None
        mine = (record.session, record.token) == (term.lease.session_id, term.token)
        if not mine or record.released:
            return None
        return evolve(record, released=True).encode()

    @inlineCallbacks
    def _try_ops(self, ops: tuple[Op, ...]) -> Steps[bool]:
        try:
            yield self._api.txn(ops)
        except TransactionRefused:
            return False
        return True
