"""
The election: who holds the leader key, and whether this member leads.

One loop looks at the leader key and at its own session, and makes one step:

    not holding the key ──acquire──▶ holding it ──take office──▶ leading
            ▲                            │                          │
            └───────released, lost───────┴───────stepped down───────┘

Holding the key is not leading: see :mod:`~voltha_coord.office`.

What is known of the key is told in :mod:`~voltha_coord.leader_key`, how it is
acquired and given back in :mod:`~voltha_coord.candidacy`, and how a term ends in
:mod:`~voltha_coord.terms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks
from ._types import Steps
from .candidacy import Candidacy
from .consul.api import ConsulApi
from .consul.history import Sign
from .consul.model import Entry
from .consul.watch import WatchTally
from .election_loop import ElectionLoop
from .errors import ConsulError, InvalidSession, TransactionRefused
from .fence import KEY_LOST
from .keys import Keys
from .leader_key import LeaderKey
from .lease import Lease, LeaseEnd
from .office import Office
from .session import SessionKeeper
from .settings import Settings
from .succession import Succession
from .term import Term
from .terms import HANDED_OVER, SHUTTING_DOWN, Terms

#: Between two looks at a predecessor whose lease may not be over, in seconds.
PREDECESSOR_RETRY = 0.1


class Election:
    """
    Takes part in the election; see the head of the module.

    :ivar key: what is known of the leader key.
    :ivar terms: the terms this member leads.

    :param instance_id: what this member writes under the leader key.
    :param standing: whether this member may lead at the moment.
    :param settled: whether the leader of an earlier term is at rest.
    :param elected: called with the :class:`Term` that has begun.
    :param deposed: called with the reason when a term is over.
    :param leader_changed: called with the instance id of who holds the leader
        key now; ``None`` for nobody.
    :param rewound: called when Consul may be in an older state than it was.
    :param tally: counts what the watch of the leader key comes to.
    :param retries: waits out the back-offs; by default the reactor.
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
        rewound: Callable[[Sign], None] | None = None,
        random: Callable[[], float],
        tally: WatchTally | None = None,
        retries: IReactorTime | None = None,
        log: Any = None,
    ) -> None:
        self._reactor = reactor
        self._settings = settings
        self._session = session
        self._standing = standing
        self._settled = settled
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        self._tasks = Tasks(self._log)
        self._office = Office(
            api,
            keys,
            session,
            succession,
            instance_id=instance_id,
            refused=self._fenced_off,
            log=self._log,
        )
        self.terms = Terms(elected, deposed, self._log)
        self.key = LeaderKey(
            reactor,
            api,
            keys.leader,
            settings.watch_wait,
            noted=self._key_noted,
            differed=self._key_differed,
            found=self._key_found,
            news=lambda: self._loop.wake(),
            leader_changed=leader_changed,
            rewound=rewound,
            random=random,
            tally=tally,
            retries=retries,
            log=self._log,
        )
        self._candidacy = Candidacy(
            reactor,
            api,
            keys.leader,
            self.key,
            self._office,
            instance_id=instance_id,
            random=random,
            log=self._log,
        )
        self._loop = ElectionLoop(
            reactor,
            reactor if retries is None else retries,
            self.key,
            step=self._step,
            over=lambda: self._retired,
            invalid=session.suspect,
            long=self._not_woken,
            random=random,
            log=self._log,
        )
        self._leased = False
        self._retired = False
        self._spent = False
        self._paused_until = 0.0

    @property
    def term(self) -> Term | None:
        """
        The term this member leads, ``None`` while it does not.
        """
        return self.terms.term

    @property
    def leader_id(self) -> str | None:
        """
        Who holds the leader key, as far as is known; ``None`` for nobody.
        """
        return self.key.leader_id

    @property
    def lock_delayed(self) -> bool:
        """
        Whether a lock-delay keeps us from the leader key.
        """
        return self._candidacy.lock_delayed

    @property
    def waiting_for(self) -> str:
        """
        The session whose lease must be over before our term may begin.
        """
        return self._office.waiting_for

    @property
    def owes(self) -> bool:
        """
        Whether there may be something to give back.
        """
        return self._candidacy.owes(self._session.session_id)

    @property
    def retired(self) -> bool:
        """
        Whether this member begins no term any more.
        """
        return self._retired

    def start(self) -> None:
        """
        Begin to take part, until :meth:`stop`.
        """
        self.key.start()
        self._tasks.spawn("election", self._loop.run)

    def wake(self) -> None:
        """
        Look again: the session, or whether we may stand, has changed.
        """
        lease = self._session.lease
        self.terms.end_if_over()
        was, self._leased = self._leased, lease is not None and lease.active
        if was and not self._leased:
            assert lease is not None
            if lease.ended in (LeaseEnd.CHECK, LeaseEnd.RENEWAL):
                self.key.forget()
        elif self._leased and not was:
            self.key.look_again()
        self._loop.wake()

    def give_up(self, reason: str) -> None:
        """
        End the term, offer leadership to others, and be no candidate for
        ``Settings.candidate_pause`` seconds.
        """
        self._paused_until = self._reactor.seconds() + self._settings.candidate_pause
        self.terms.end(reason)
        self._loop.wake()

    def look_again(self) -> None:
        """
        Read the leader key anew: what was read is not to be trusted any more.
        """
        self.key.look_again()

    def handed_over(self, term: Term, value: bytes) -> None:
        """
        Note that the leader key is with the heir of our term.

        :param value: what it says now.
        """
        known = self.key.entry
        if self.term is term and known is not None:
            self.key.written(value, known.modify_index + 1, term.heir)

    def retire(self) -> None:
        """
        End the term if there is one, at this instant, and begin none any more.
        """
        self._retired = True
        self.terms.end(SHUTTING_DOWN)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Take part no more.

        What we held is not given back yet: see :meth:`resign`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self.retire()
        yield self.key.stop()
        yield self._tasks.stop()

    @inlineCallbacks
    def resign(self) -> Steps[None]:
        """
        Give back the leader key, and leave office; after :meth:`stop`.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        yield self._candidacy.resign(self._session.session_id)

    # What is heard of the leader key.

    def _key_noted(self) -> None:
        """
        See what follows from what is known of the leader key now.
        """
        key, lease = self.key, self._session.lease
        holds = lease is not None and key.held_by(lease.session_id)
        # That we know nothing of it is no sign that we have given it back.
        self._spent = self._spent and (holds or not key.known)
        entry = key.entry
        term = self.term
        if term is not None and not key.held_by(term.lease.session_id):
            if term.heir and key.held_by(term.heir):
                # The record, written in the same transaction, says so.
                self._office.named = False
                self.terms.end(HANDED_OVER)
            else:
                self.terms.end(KEY_LOST)
                self._session.suspect()
            self._loop.wake()
        if entry is not None and entry.session is not None:
            self._candidacy.lock_delayed = False
            if not holds:
                self._office.saw(entry.modify_index)
                # Whoever holds it has to wait for its predecessor, and not we.
                self._office.waiting_for = ""

    def _key_differed(self, before: Entry | None) -> None:
        session = self._session.session_id or ""
        ours = before is not None and before.session == session
        if self.key.held_by(session) and not ours and self.term is None:
            # We hold it without knowing, and so may lead.
            self._office.named = True
        self._loop.wake()

    def _key_found(self, holder: str | None) -> None:
        if self._leased and self._session.haunted_by(holder):
            # Consul is in an older state, in which we may lead.
            self._office.named = True
            self._loop.wake()

    # The steps.

    def _not_woken(self) -> None:
        if self.term is None:
            # Look whether the record names us.
            self._office.named = True

    @inlineCallbacks
    def _step(self) -> Steps[float | None]:
        """
        Make one step.

        :return: a Deferred that fires with the seconds after which to look
            again at the latest, or ``None``: when the watch or the session
            says so.  Fails with :class:`ConsulError`.
        """
        key, lease = self.key, self._session.lease
        session = lease.session_id if lease is not None and lease.active else ""
        unspent = key.held_by(session) and not self._spent
        if self.term is None and self._office.named and not unspent:
            yield self._candidacy.give_back(session)
        if not key.known or lease is None or not lease.active:
            return None
        if self.term is not None:
            if self.term.active:
                yield self._candidacy.keep_our_name(session)
            return None
        paused = self._paused_until - self._reactor.seconds()
        if paused > 0 or not self._standing():
            if key.held_by(session):
                yield self._candidacy.give_back(session)
            return max(paused, 0.0) or None
        if not self._settled():
            # The machine of the role wakes us when the old leader is at rest.
            return None
        if not key.held:
            again: float | None = yield self._candidacy.contend(session)
            if again is not None:
                return again
        if not key.held_by(session):
            return None
        if self._spent:
            yield self._candidacy.give_back(session)
            return 0.0
        again = yield self._take_office(lease)
        return again

    @inlineCallbacks
    def _take_office(self, lease: Lease) -> Steps[float | None]:
        """
        Begin a term, if whoever led before may be succeeded.
        """
        entry = self.key.entry
        assert entry is not None
        try:
            term: Term | None = yield self._office.take(lease, entry.modify_index)
        except TransactionRefused as refused:
            self._log.debug("term-refused", error=str(refused))
            self.key.look_again()
            return PREDECESSOR_RETRY
        except ConsulError as error:
            if error.retryable or isinstance(error, InvalidSession):
                raise
            self._log.error(
                "could-not-take-office",
                error=str(error),
                effect="another member is offered leadership",
            )
            self.give_up("could-not-take-office")
            return 0.0
        if term is None:
            return PREDECESSOR_RETRY * (0.5 + self._random())
        self._spent = True
        return None if self._begin(term) else 0.0

    def _begin(self, term: Term) -> bool:
        """
        Begin the term, unless it is over before it began.
        """
        held = self.key.held_by(term.lease.session_id)
        if self._retired or not held or term.over:
            term.end()
            return False
        self.terms.begin(term)
        return True

    def _fenced_off(self, reason: str) -> None:
        self.terms.end(reason)
        self.key.look_again()
        self._loop.wake()
