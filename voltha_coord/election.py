"""
The election: who holds the leader key, and whether this member leads.

One loop looks at the leader key and at its own session, and makes one step:

    not holding the key ──acquire──▶ holding it ──take office──▶ leading
            ▲                            │                          │
            └───────released, lost───────┴───────stepped down───────┘

Holding the key is not leading: see :mod:`~voltha_coord.office`.

# Note [Losing a term]

A term ends the moment this process can know that it has: when its lease is
over, when the leader key is seen in other hands, when a fenced write is
refused.  From then on ``term.active`` is false, whoever asks.  What follows can
take its time: the leader is halted, the term record says so, and the leader key
is given back if it is still ours.  A key once acquired serves one term: it is
given back even if the session lives on, because the next term needs a higher
fencing token.

# Note [What is known of the leader key]

Every read of the key is looked at, and not only what is news to the watch: what
we acquired ourselves the watch has not read, so that a key acquired and deleted
since is no news to it.  A read that was overtaken by our own acquisition is
passed over; the next one follows at once.  A member whose lease ran out by
itself is cut off: what it knew says nothing about now, and it knows no leader
until it has read the key again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Wake, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.history import Sign
from .consul.model import Entry, KeyNames, Reading
from .consul.watch import RESYNC_SECONDS, Watch, WatchTally
from .errors import ConsulError, InvalidSession, TransactionRefused
from .fence import KEY_LOST, RECORD_CHANGED, RECORD_LOST
from .held import LOCK_DELAY_STEPS, Acquisition, Hindrance, acquire, release
from .keys import Keys
from .lease import Lease, LeaseEnd
from .office import Office
from .session import SessionKeeper
from .settings import Settings
from .succession import Succession
from .tally import Reasons
from .term import UNSETTLED, Term

#: The reason a term ends in order.
SHUTTING_DOWN = "shutting-down"

#: The reason of a term whose leadership was handed over.
HANDED_OVER = "handed-over"

#: The reasons why terms end that are known from the beginning; whoever gives
#: leadership up may have others.
REASONS = (
    *(end.value for end in LeaseEnd),
    SHUTTING_DOWN,
    HANDED_OVER,
    UNSETTLED,
    "fenced-off",
    KEY_LOST,
    RECORD_LOST,
    RECORD_CHANGED,
    "could-not-establish",
    "leader-not-made",
    "denied",
)

#: Candidates that wake together do not all ask together: up to so many seconds.
STAGGER = 0.03

#: Between two looks at a predecessor whose lease may not be over, in seconds.
PREDECESSOR_RETRY = 0.1

#: Without a leader for so many seconds, it is said, and looked at again.
LEADERLESS_SECONDS = 60.0


class Election:
    """
    Takes part in the election; see the head of the module.

    :ivar term: the term this member leads, ``None`` when it does not.
    :ivar leader_id: who holds the leader key, as far as is known.
    :ivar vacancy: for how many seconds nobody had held it when somebody last took it.
    :ivar lock_delayed: whether a lock-delay keeps us from the leader key.
    :ivar terms_begun: how many terms this member has led.
    :ivar terms_ended: how many of them are over, by reason.

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
        self._api = api
        self._keys = keys
        self._settings = settings
        self._session = session
        self._instance_id = instance_id
        self._standing = standing
        self._settled = settled
        self._elected = elected
        self._deposed = deposed
        self._leader_changed = leader_changed
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        self._office = Office(
            api,
            keys,
            session,
            succession,
            instance_id=instance_id,
            refused=self._fenced_off,
            log=self._log,
        )
        self._tasks = Tasks(self._log)
        self._wake = Wake(reactor if retries is None else retries)
        self._watch = Watch(
            reactor,
            self._read,
            self._seen,
            name="leader",
            wait=settings.watch_wait,
            rewound=rewound,
            random=random,
            tally=tally,
            retries=retries,
            log=self._log,
        )
        self._delayed = Backoff(random, LOCK_DELAY_STEPS)
        self._entry: Entry | None = None
        self._known = False
        self._leased = False
        self._retired = False
        self._spent = False
        self._paused_until = 0.0
        self._leaderless_since = reactor.seconds()
        self._leaderless_before = 0.0
        self.vacancy = 0.0
        self.term: Term | None = None
        self.leader_id: str | None = None
        self.lock_delayed = False
        self.terms_begun = 0
        self.terms_ended = Reasons(REASONS)

    @property
    def leaderless_for(self) -> float:
        """
        Seconds since nobody has been known to hold the leader key; 0 while
        somebody is.
        """
        if self.leader_id is not None:
            return 0.0
        return self._reactor.seconds() - self._leaderless_since

    @property
    def leaderless_seconds(self) -> float:
        """
        Seconds in which nobody was known to hold it, all of them together.
        """
        return self._leaderless_before + self.leaderless_for

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
        session = self._session.session_id
        return self._office.named or (session is not None and self._held_by(session))

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
        self._leaderless_since = self._reactor.seconds()
        self._watch.start()
        self._tasks.spawn("election", self._run)

    def wake(self) -> None:
        """
        Look again: the session, or whether we may stand, has changed.
        """
        term, lease = self.term, self._session.lease
        if term is not None and term.over:
            ended = term.lease.ended
            self._end_term("fenced-off" if ended is None else ended.value)
        was, self._leased = self._leased, lease is not None and lease.active
        if was and not self._leased:
            assert lease is not None
            if lease.ended in (LeaseEnd.CHECK, LeaseEnd.RENEWAL):
                self._known = False
                self._take(None)
        elif self._leased and not was:
            self._watch.restart()
        self._wake.set()

    def give_up(self, reason: str) -> None:
        """
        End the term, offer leadership to others, and be no candidate for
        ``Settings.candidate_pause`` seconds.
        """
        self._paused_until = self._reactor.seconds() + self._settings.candidate_pause
        self._end_term(reason)
        self._wake.set()

    def look_again(self) -> None:
        """
        Read the leader key anew: what was read is not to be trusted any more.
        """
        self._watch.restart()

    def note(self, entry: Entry | None) -> None:
        """
        Take note of the leader key as a consistent read found it just now.
        """
        self._known = True
        self._take(entry)

    def handed_over(self, term: Term, value: bytes) -> None:
        """
        Note that the leader key is with the heir of our term.

        :param value: what it says now.
        """
        known = self._entry
        if self.term is term and known is not None:
            # A lower bound of its index suffices to tell older reads.
            self._take(
                Entry(
                    self._keys.leader,
                    value,
                    modify_index=known.modify_index + 1,
                    session=term.heir,
                )
            )

    def retire(self) -> None:
        """
        End the term if there is one, at this instant, and begin none any more.
        """
        self._retired = True
        self._end_term(SHUTTING_DOWN)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Take part no more.

        What we held is not given back yet: see :meth:`resign`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self.retire()
        yield self._watch.stop()
        yield self._tasks.stop()

    @inlineCallbacks
    def resign(self) -> Steps[None]:
        """
        Give back the leader key, and leave office; after :meth:`stop`.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        if self._office.named:
            yield self._office.leave()
        session = self._session.session_id
        if session is not None:
            yield release(self._api, self._keys.leader, session)

    # The leader key; see Note [What is known of the leader key].

    def _read(self, index: int, wait: float, consistent: bool) -> Deferred[Reading]:
        reading: Deferred[Reading] = self._api.get(
            self._keys.leader, index=index, wait=wait, consistent=consistent
        )
        return reading.addCallback(self._look_at, consistent)

    def _look_at(self, reading: Reading, consistent: bool) -> Reading:
        entry = self._entry
        overtaken = entry is not None and reading.index < entry.modify_index
        if consistent or not overtaken:
            self._known = True
            session = self._session.session_id or ""
            ours = self._held_by(session)
            self._take(reading.entry)
            if self._held_by(session) and not ours and self.term is None:
                # We hold it without knowing, and so may lead.
                self._office.named = True
            if entry != reading.entry:
                # It may be no news to the watch, which has read it before.
                self._wake.set()
        holder = None if reading.entry is None else reading.entry.session
        fresh = consistent and self._leased
        if fresh and self._session.haunted_by(holder):
            # Consul is in an older state, in which we may lead.
            self._office.named = True
            self._wake.set()
        return reading

    def _seen(self, reading: Reading | KeyNames) -> None:
        self._wake.set()

    def _take(self, entry: Entry | None) -> None:
        """
        Note what stands under the leader key.
        """
        if entry != self._entry:
            self._log.debug("leader-key-change", entry=entry)
        self._entry = entry
        lease = self._session.lease
        holds = lease is not None and self._held_by(lease.session_id)
        # That we know nothing of it is no sign that we have given it back.
        self._spent = self._spent and (holds or not self._known)
        term = self.term
        if term is not None and not self._held_by(term.lease.session_id):
            if term.heir and self._held_by(term.heir):
                self._end_in_order()
            else:
                self._end_term(KEY_LOST)
                self._session.suspect()
            self._wake.set()
        leader = None
        if entry is not None and entry.session is not None:
            leader = entry.value.decode("utf-8", errors="replace")
            self.lock_delayed = False
            if not holds:
                self._office.saw(entry.modify_index)
                # Whoever holds it has to wait for its predecessor, and not we.
                self._office.waiting_for = ""
        if leader != self.leader_id:
            self.vacancy = self.leaderless_for
            self._leaderless_before = self.leaderless_seconds
            self._leaderless_since = self._reactor.seconds()
            self.leader_id = leader
            self._leader_changed(leader)

    def _held_by(self, session: str) -> bool:
        return self._entry is not None and self._entry.session == session

    # The loop.

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while not self._retired:
            try:
                seconds: float | None = yield self._step()
                backoff.clear()
            except InvalidSession:
                self._session.suspect()
                seconds = backoff.next()
            except ConsulError as error:
                seconds = backoff.next(error)
                # Consul that is away is told by whoever makes the session.
                loud = backoff.grew and not error.retryable
                log = self._log.warning if loud else self._log.debug
                log(
                    "election-step-failed", retry_in=round(seconds, 3), error=str(error)
                )
            except CancelledError:
                raise
            except Exception as error:
                # A fault of ours, or of who is told: no reason to stand no more.
                seconds = backoff.next()
                self._log.exception(
                    "election-step-failed", retry_in=round(seconds, 3), error=str(error)
                )
            yield self._wait(seconds)

    @inlineCallbacks
    def _wait(self, seconds: float | None) -> Steps[None]:
        """
        Wait to be woken.  After a long time look at everything anew, whatever
        one believes to know: no election stays stuck.
        """
        if seconds is not None:
            yield self._wake.wait(seconds)
            return
        leaderless = self.leader_id is None
        until = self._reactor.seconds() + (
            LEADERLESS_SECONDS if leaderless else RESYNC_SECONDS
        )
        yield self._wake.wait(until - self._reactor.seconds())
        if self._reactor.seconds() < until - 0.001:
            return
        if self.leader_id is None:
            self._log.warning(
                "no-leader",
                seconds=round(self._reactor.seconds() - self._leaderless_since, 1),
                action="see what the members' /status say they wait for",
            )
            self._watch.restart()
        if self.term is None:
            self._office.named = True

    @inlineCallbacks
    def _step(self) -> Steps[float | None]:
        """
        Make one step.

        :return: a Deferred that fires with the seconds after which to look
            again at the latest, or ``None``: when the watch or the session
            says so.  Fails with :class:`ConsulError`.
        """
        lease = self._session.lease
        session = lease.session_id if lease is not None and lease.active else ""
        unspent = self._held_by(session) and not self._spent
        if self.term is None and self._office.named and not unspent:
            yield self._give_back(session)
        if not self._known or lease is None or not lease.active:
            return None
        if self.term is not None:
            if self.term.active:
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
            hindrance: Hindrance | None = yield self._contend(session)
            if hindrance is Hindrance.LOCK_DELAY:
                return self._delayed.next()
            self._delayed.clear()
            if hindrance is Hindrance.HELD:
                return 1.0
        if not self._held_by(session):
            return None
        if self._spent:
            yield self._give_back(session)
            return 0.0
        again: float | None = yield self._take_office(lease)
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
        self.lock_delayed = result.hindrance is Hindrance.LOCK_DELAY
        if self.lock_delayed:
            # A predecessor that has just vanished: its time begins to run now.
            yield self._office.look()
        self._acquired(result, value, session)
        return result.hindrance

    def _acquired(self, result: Acquisition, value: bytes, session: str) -> None:
        if result.entry is not None:
            index = result.entry.modify_index
            self._take(
                Entry(self._keys.leader, value, modify_index=index, session=session)
            )

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
            self._acquired(result, value, session)

    @inlineCallbacks
    def _give_back(self, session: str) -> Steps[None]:
        """
        Leave office if we may be named, and give back the leader key if that
        session holds it.
        """
        if self._office.named:
            try:
                yield self._office.leave()
            except ConsulError as error:
                if error.retryable:
                    raise
                # Even so the key must not stay with somebody who cannot lead.
                self._log.warning("could-not-leave-office", error=str(error))
        if session and self._held_by(session):
            yield release(self._api, self._keys.leader, session)
            if self._held_by(session):
                self._take(None)

    @inlineCallbacks
    def _take_office(self, lease: Lease) -> Steps[float | None]:
        """
        Begin a term, if whoever led before may be succeeded.
        """
        assert self._entry is not None
        try:
            term: Term | None = yield self._office.take(lease, self._entry.modify_index)
        except TransactionRefused as refused:
            self._log.debug("term-refused", error=str(refused))
            self._watch.restart()
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
        held = self._held_by(term.lease.session_id)
        if self._retired or not held or term.over:
            term.end()
            return False
        self.term = term
        self.terms_begun += 1
        self._log.info(
            "became-leader",
            fencing_token=term.token,
            session_id=term.lease.session_id,
        )
        self._elected(term)
        return True

    # Ending a term; see Note [Losing a term].

    def _fenced_off(self, reason: str) -> None:
        self._end_term(reason)
        self._watch.restart()
        self._wake.set()

    def _end_in_order(self) -> None:
        """
        End a term whose heir has the leader key: the record, written in the
        same transaction, says so.
        """
        self._office.named = False
        self._end_term(HANDED_OVER)

    def _end_term(self, reason: str) -> None:
        term, self.term = self.term, None
        if term is None:
            return
        term.end()
        self.terms_ended.note(reason)
        in_order = reason in (SHUTTING_DOWN, HANDED_OVER)
        log = self._log.info if in_order else self._log.warning
        log("lost-leadership", fencing_token=term.token, reason=reason)
        self._deposed(reason)
