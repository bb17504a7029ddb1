"""
Named locks of the cluster.

# Note [Locks]

A lock is bound to the session of its holder unless it is given a term.

*Bound to the session*, it is held by it in Consul.  Its holder acts under the
lease, as a leader does: until the deadline on its own clock, and at once no more
when the session is lost.  A holder that dies frees it with its session, after
detection and lock-delay.

*With a term* it outlives its holder by the rest of the term, also if all members
are lost: for what goes on outside a process after that has died.  It is renewed
every third of the term while it is held.  Whoever saw it unchanged for the whole
term takes it at once, see Note [An expired lock] of
:mod:`~voltha_coord.lock_expiry`; the leader clears those that have expired every
minute, so that also those who come new find them free.

Either way no two hold it at one instant, as far as clocks run within a percent of
each other, and a holder asks before it acts.  A process that stood still between
asking and acting is what the fencing token is for: it rises from holder to holder,
and whatever can refuse a lower one than it has seen is safe.  What is written to
Consul can be led by :meth:`.Lock.fence_ops`.

The owner token, and not the session, decides whose a lock is: two :class:`.Lock` of
one member exclude each other, as those of two members do.  An orderly shutdown gives
all back; a crash leaves those with a term to run out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import (
    CancelledError,
    Deferred,
    inlineCallbacks,
    succeed,
)
from twisted.internet.interfaces import IReactorTime

from ._lock import check_valid_for
from ._loops import Tasks, bounded
from ._types import Steps
from .consul.api import ConsulApi
from .consul.history import Sign
from .consul.model import Reading
from .consul.watch import Watch, WatchTally
from .errors import ConsulError, CoordinationError
from .keys import Keys, check_lock_name
from .lock import Lock
from .lock_attempt import Attempt
from .lock_expiry import Sightings
from .lock_ground import LockGround, give_back, say_not_given_back
from .lock_holding import SHUT_DOWN, Holding
from .lock_store import Found, LockStore, locks_in
from .readiness import shut_down_error
from .session import SessionKeeper
from .settings import Settings
from .succession import Succession
from .waiters import Waiters

#: A watch that is woken again and again reads once in so many seconds: whoever
#: waits for a lock that passes from hand to hand waits for that.
REFILL_SECONDS = 0.1

#: Giving back all locks at shutdown may take so many seconds.
RELEASE_SECONDS = 2.0


class Locks:
    """
    The locks of one member: those it waits for, holds, and gives back.

    :ivar ground: what they stand on.

    :param session: whose lease those without a term are held under.
    :param succession: judges whose lease is over.
    :param rewound: called when Consul may be in an older state than it was.
    :param tally: counts what the watch comes to.
    :param retries: waits out the back-offs.
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
        rewound: Callable[[Sign], None] | None,
        tally: WatchTally | None,
        retries: IReactorTime,
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._api = api
        self._keys = keys
        self._tasks = Tasks(log)
        self._attempts: dict[Attempt, str] = {}
        self._holdings: dict[Lock, Holding] = {}
        self._returning: dict[str, Waiters[None]] = {}
        self._known: dict[str, Found] | None = None
        self._busy = 0
        self._idle: Waiters[None] = Waiters()
        self._closed = False
        self.ground = LockGround(
            reactor,
            retries,
            LockStore(api, keys, unique_by(random)),
            instance_id,
            session,
            succession,
            Sightings(reactor.seconds),
            self._spawn,
            self._holds,
            random,
            log,
        )
        self._watch: Watch[Reading] = Watch(
            reactor,
            self._read,
            self._seen,
            name="locks",
            wait=settings.watch_wait,
            rewound=rewound,
            refill=REFILL_SECONDS,
            random=random,
            tally=tally,
            retries=retries,
            log=log,
        )

    def lock(self, name: str, valid_for: float | None = None) -> Lock:
        """
        Give a lock of that name.

        :param valid_for: its term in seconds, ``None`` to bind it to the session.
        :raises InvalidIdError: for a name that cannot be a key.
        :raises ConfigurationError: for a term that cannot be one.
        """
        return Lock(self, check_lock_name(name), check_valid_for(valid_for))

    # What a lock asks and tells.

    def attempt(self, lock: Lock, timeout: float | None) -> Attempt | None:
        """
        Make an attempt to acquire a lock; ``None`` at shutdown.
        """
        if self._closed:
            return None
        if not self._watch.running:
            # Kept until we shut down: it costs two requests a minute.
            self._watch.start()
        attempt = Attempt(self.ground, lock.name, lock.valid_for, timeout)
        self._attempts[attempt] = lock.name
        return attempt

    def attempt_ended(self, attempt: Attempt) -> None:
        """
        Nobody waits for the outcome of an attempt any more.
        """
        self._attempts.pop(attempt, None)

    def holds(self, lock: Lock, holding: Holding) -> None:
        """
        A lock is held.
        """
        self._holdings[lock] = holding

    def gives_back(self, lock: Lock, holding: Holding) -> Deferred[None]:
        """
        Give back a lock that is not held any more.

        :return: a Deferred that fires when others may have it, or fails with
            :class:`ConsulError` where a retry cannot help, and with
            :class:`ShutDownError` at shutdown.
        """
        self._holdings.pop(lock, None)
        token = holding.held.owner_token
        returned = self._returning.setdefault(token, Waiters()).wait()
        if self._spawn("give-lock-back", self._give_back, lock.name, token) is None:
            self._returning.pop(token).fail(shut_down_error)
        return returned

    @inlineCallbacks
    def _give_back(self, name: str, token: str) -> Steps[None]:
        try:
            yield give_back(self.ground, name, token)
        except CancelledError:
            self._returning.pop(token).fail(shut_down_error)
            raise
        except ConsulError as error:
            say_not_given_back(self.ground, name, error)
            told = error
            self._returning.pop(token).fail(lambda: told)
        else:
            self._returning.pop(token).fire(None)

    def when_given_back(self, owner_token: str) -> Deferred[None]:
        """
        Wait until what is not held any more under an owner token is given back.
        """
        returning = self._returning.get(owner_token)
        return succeed(None) if returning is None else returning.wait()

    def _holds(self, owner_token: str) -> bool:
        return any(
            holding.held.owner_token == owner_token and holding.lasts
            for holding in self._holdings.values()
        )

    def _spawn(
        self, name: str, call: Callable[..., Any], *args: Any
    ) -> Deferred[Any] | None:
        """
        Begin something that is waited for at shutdown.
        """
        self._busy += 1
        begun = self._tasks.spawn(name, self._counted, call, *args)
        if begun is None:
            self._busy -= 1
        return begun

    @inlineCallbacks
    def _counted(self, call: Callable[..., Any], *args: Any) -> Steps[None]:
        try:
            yield call(*args)
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.fire(None)

    # What others tell them.

    def lease_changed(self) -> None:
        """
        The lease of the session began, is about to end, or ended.
        """
        for holding in tuple(self._holdings.values()):
            holding.lease_changed()
        for attempt in tuple(self._attempts):
            attempt.look()

    def look_again(self) -> None:
        """
        Read everything anew: Consul may be in an older state than it was.
        """
        self._watch.restart()

    def _read(self, index: int, wait: float, consistent: bool) -> Deferred[Reading]:
        return self._api.list(
            self._keys.locks, index=index, wait=wait, consistent=consistent
        )

    def _seen(self, reading: Reading) -> None:
        """
        Tell those whom it concerns that locks have changed.
        """
        before, now = self._known, locks_in(self._keys, reading.entries)
        self._known = now
        self.ground.sightings.keep(now)
        for name, found in now.items():
            self.ground.sightings.expires_in(name, found)
        for attempt, name in tuple(self._attempts.items()):
            if before is None or before.get(name) != now.get(name):
                attempt.look()
        for lock, holding in tuple(self._holdings.items()):
            holding.seen(now.get(lock.name, Found()))

    # Ending.

    @property
    def in_use(self) -> bool:
        """
        Whether there ever was one to be acquired.
        """
        return self._watch.running

    def close(self) -> None:
        """
        Acquire none any more: whoever waits for one is told
        :class:`ShutDownError`.
        """
        self._closed = True
        for attempt in tuple(self._attempts):
            attempt.fail(shut_down_error())

    @inlineCallbacks
    def release_all(self) -> Steps[None]:
        """
        Give back all that are held.

        :return: a Deferred that fires when that is done, and fails with
            :class:`TimeoutError` when Consul does not do it soon.
        """
        self.close()
        for lock in tuple(self._holdings):
            # One that cannot be given back was told of.
            lock.release().addErrback(lambda failure: failure.trap(CoordinationError))
        if self._busy:
            yield bounded(self.ground.reactor, RELEASE_SECONDS, self._idle.wait)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Do nothing any more.  What is held is not given back.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self.close()
        for holding in tuple(self._holdings.values()):
            holding.end(SHUT_DOWN)
        yield self._watch.stop()
        yield self._tasks.stop()


def unique_by(random: Callable[[], float]) -> Callable[[], str]:
    """
    Give what gives a random text, another one each time.
    """
    return lambda: "".join(f"{int(random() * 2**32):08x}" for _ in range(4))
