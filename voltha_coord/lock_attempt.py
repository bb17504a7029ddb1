"""
Acquiring a named lock: waiting until it may be taken, and taking it.

# Note [Waiting for a lock]

The watch on the locks wakes whoever waits for one that has changed.  Then the lock
is read, and judged:

- a key that a session holds is held;
- one with a term is held until it has expired, see Note [An expired lock] of
  :mod:`~voltha_coord.lock_expiry`;
- one that is not there is free once the lease of who held it last must be over:
  at once if they released it; see Note [Taking over] of
  :mod:`~voltha_coord.succession`.

A lock-delay is told by the take that it refuses, and nothing tells its end: it is
tried again, more and more slowly.

Who gives up is told so at once; the attempt goes on until it knows what became of
its last request, and gives the lock back if it was had after all.
"""

from __future__ import annotations

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks

from ._lock import LockRecord, LockTrace
from ._loops import Timer, Wake, sleep
from ._types import Steps
from .consul.backoff import Backoff
from .consul.transaction import reply_lost
from .errors import ConsulError, InvalidSession, LockNotAcquired, TransactionRefused
from .held import LOCK_DELAY_STEPS
from .lease import Lease
from .lock_expiry import lease_ended
from .lock_ground import LockGround, Won, give_back, say_not_given_back, term_end
from .lock_store import Found, Taken

#: Whoever holds a lock is looked at so often though nothing wakes us, in seconds.
LOOK_SECONDS = 30.0

#: Between two looks at a lease that may be over, in seconds.
LEASE_RETRY = 0.25

#: Between two tries where another was quicker, in seconds.
RACE_SECONDS = 0.05

#: Without a session it is seen to again after so many seconds.
SESSION_SECONDS = 1.0

#: However little time is given, Consul has so many seconds to answer.
LEAST_SECONDS = 2.0


class Attempt:
    """
    Acquires a lock once; see Note [Waiting for a lock].

    :ivar outcome: fires with what was :class:`Won`.  Cancelling it gives up.

    :param valid_for: the term in seconds, ``None`` to bind it to the session.
    :param timeout: seconds to wait for it, ``None`` for ever.
    """

    def __init__(
        self,
        ground: LockGround,
        name: str,
        valid_for: float | None,
        timeout: float | None,
    ) -> None:
        self._ground = ground
        self._name = name
        self._valid_for = valid_for
        self._timeout = timeout
        self._wake = Wake(ground.reactor)
        self._timer = Timer(ground.reactor, self._too_late)
        self._backoff = Backoff(ground.random)
        self._delays = 0
        self._hindrance = "Consul has not answered"
        self._until: float | None = None
        self._over = False
        self.owner_token = ground.store.unique()
        self.outcome: Deferred[Won] = Deferred(lambda _: self._end())

    def start(self) -> None:
        """
        Begin.
        """
        if self._timeout is not None:
            self._until = self._ground.reactor.seconds() + self._timeout
            self._timer.set(max(self._timeout, LEAST_SECONDS))
        self._ground.spawn("acquire-lock", self._run)

    def look(self) -> None:
        """
        The lock, or what we may take it under, may have changed.
        """
        self._wake.set()

    def fail(self, error: Exception) -> None:
        """
        Give up, and say why, unless it is over already.
        """
        if not self._over:
            self._end()
            self.outcome.errback(error)

    def _end(self) -> None:
        self._over = True
        self._timer.cancel()
        self._wake.set()

    def _too_late(self) -> None:
        self.fail(
            LockNotAcquired(
                f"lock {self._name}: not acquired in {self._timeout:g} s: "
                f"{self._hindrance}"
            )
        )

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        try:
            while not self._over:
                pause: float = yield self._step()
                if self._over:
                    return
                now = self._ground.reactor.seconds()
                if self._until is not None and now >= self._until:
                    self._too_late()
                    return
                yield self._wake.wait(pause)
        except CancelledError as error:
            self.fail(error)
            raise
        except ConsulError as error:
            if self._over:
                say_not_given_back(self._ground, self._name, error)
            self.fail(error)

    @inlineCallbacks
    def _step(self) -> Steps[float]:
        """
        Look at the lock, and take it if it may be taken.

        :return: a Deferred that fires with the seconds to wait until the next
            look, or fails with an error that no retry can mend.
        """
        try:
            found: Found = yield self._ground.store.look(self._name)
            pause: float = yield self._judge(found)
            if not pause and not self._over:
                lease = self._ground.lease if self._valid_for is None else None
                if self._valid_for is None and lease is None:
                    self._hindrance = "there is no session to hold it under"
                    return SESSION_SECONDS
                pause = yield self._take(found, lease)
        except InvalidSession:
            self._ground.session.suspect()
            return SESSION_SECONDS
        except ConsulError as error:
            if not error.retryable:
                raise
            self._hindrance = f"Consul does not answer: {error}"
            return self._backoff.next(error)
        self._backoff.clear()
        return pause

    # May it be taken?

    @inlineCallbacks
    def _judge(self, found: Found) -> Steps[float]:
        """
        Give the seconds to wait before the next look; 0 when it may be taken.
        """
        ground, entry, record = self._ground, found.entry, found.record
        expires = ground.sightings.expires_in(self._name, found)
        if entry is not None and record is None:
            self._hindrance = "what stands there cannot be read"
            return LOOK_SECONDS
        if record is not None:
            self._hindrance = f"held by {record.owner}"
        if expires:
            return min(expires, LOOK_SECONDS)
        if entry is not None and entry.session is not None:
            ground.session.haunted_by(entry.session)
            return LOOK_SECONDS
        over: bool = yield self._left(found)
        if not over:
            self._hindrance = "whoever held it last may act yet"
            return LEASE_RETRY * (0.5 + ground.random())
        return 0.0

    @inlineCallbacks
    def _left(self, found: Found) -> Steps[bool]:
        """
        Find out whether nobody can act under the lock any more.
        """
        ground, trace = self._ground, found.trace
        if trace is not None and trace.session in ground.session.own_sessions:
            # It was one of this very process, which knows.
            return not ground.holds(trace.owner_token)
        over: bool = yield lease_ended(ground.succession, self._name, found)
        return over

    # Taking it.

    @inlineCallbacks
    def _take(self, found: Found, lease: Lease | None) -> Steps[float]:
        ground = self._ground
        sent = ground.reactor.seconds()
        record = LockRecord(ground.instance_id, self.owner_token, self._valid_for)
        try:
            taken: Taken | None = yield ground.store.take(
                self._name, found, record, self._trace(lease)
            )
        except TransactionRefused as refused:
            return self._refused(refused)
        except ConsulError as error:
            if not reply_lost(error):
                raise
            taken = yield self._settled(found, record)
        if taken is None:
            return RACE_SECONDS * ground.random()
        won = Won(taken, lease)
        if self._valid_for is not None:
            won = Won(taken, until=term_end(sent, self._valid_for))
        if self._over or not self._stands(won):
            yield self._give_back()
            return RACE_SECONDS * ground.random()
        self._end()
        self.outcome.callback(won)
        return 0.0

    def _trace(self, lease: Lease | None) -> LockTrace:
        ground, session = self._ground, self._ground.session
        trace = LockTrace(
            ground.instance_id, self.owner_token, attempt=ground.store.unique()
        )
        if lease is None:
            return trace
        return evolve(
            trace,
            session=lease.session_id,
            check=session.check_id or None,
            node=session.node or None,
            ttl=session.session_ttl,
        )

    def _stands(self, won: Won) -> bool:
        if won.lease is not None:
            return won.lease.active
        return won.until is not None and self._ground.reactor.seconds() < won.until

    def _refused(self, refused: TransactionRefused) -> float:
        """
        Give the seconds to wait after a take that was refused.
        """
        if refused.session_invalid:
            raise InvalidSession(str(refused)) from refused
        jitter = 0.5 + 0.5 * self._ground.random()
        if refused.lock_delayed:
            self._hindrance = "a lock-delay: its session has just ended"
            step = min(self._delays, len(LOCK_DELAY_STEPS) - 1)
            self._delays += 1
            return LOCK_DELAY_STEPS[step] * jitter
        self._delays = 0
        self._hindrance = "another was quicker"
        return RACE_SECONDS * jitter

    @inlineCallbacks
    def _settled(self, found: Found, record: LockRecord) -> Steps[Taken | None]:
        """
        Find out what became of a take, however long it takes.
        """
        backoff = Backoff(self._ground.random)
        while True:
            try:
                taken: Taken | None = yield self._ground.store.settle(
                    self._name, found, record
                )
            except ConsulError as error:
                if not error.retryable:
                    raise
                yield sleep(self._ground.retries, backoff.next(error))
            else:
                return taken

    @inlineCallbacks
    def _give_back(self) -> Steps[None]:
        """
        Give back what was had after all, however long it takes.
        """
        yield give_back(self._ground, self._name, self.owner_token)
