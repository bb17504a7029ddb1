"""
The leader's care for locks: those that have expired are taken away, and so is what
those leave behind that are held no more.

# Note [Clearing locks]

Nobody has to wait for this.  Whoever wants a lock judges for itself, and takes it;
but not everybody who asks has looked for a whole term, and a lock that nobody wants
would stand there for ever.  The leader reads the locks once a minute, and besides
when one of those it knows must have expired.  It judges as everybody does, see Note
[An expired lock] of :mod:`~voltha_coord.lock_expiry`; a new leader begins to count
anew.  ``last`` goes once the lock is free, nobody's lease is to be waited for, and
it has not changed for a minute: a take that got no answer is over by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Op, Reading
from .consul.transaction import TransactionOutcome
from .errors import ConsulError, CoordinationError, LeaseOverError
from .keys import Keys
from .lock_expiry import Sightings, lease_ended
from .lock_store import Found, given_back, locks_in
from .succession import Succession
from .term import Term

#: Between two rounds, in seconds.
CLEAR_SECONDS = 60.0

#: The first round of a term comes after so many seconds.
FIRST_SECONDS = 5.0

#: Two rounds are so many seconds apart at least.
LEAST_SECONDS = 1.0


class LockClearing:
    """
    Clears the locks of one term; see Note [Clearing locks].

    :param term: behind whose fence is written.
    :param succession: judges whose lease is over.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        term: Term,
        *,
        succession: Succession,
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._keys = keys
        self._term = term
        self._succession = succession
        self._random = random
        self._log = log
        self._sightings = Sightings(reactor.seconds)
        self._unheld: dict[str, tuple[int, float]] = {}

    @inlineCallbacks
    def run(self) -> Steps[None]:
        """
        Make rounds until the term is over.

        :return: a Deferred that fires then; it can be cancelled.
        """
        pause = FIRST_SECONDS
        while not self._term.over:
            yield sleep(self._reactor, pause * (1 + 0.1 * self._random()))
            try:
                pause = yield self._round()
            except CancelledError:
                raise
            except LeaseOverError:
                return
            except Exception as error:
                # The next round sees it all again.
                pause = CLEAR_SECONDS
                away = isinstance(error, ConsulError) and error.retryable
                log = self._log.debug if away else self._log.error
                log(
                    "locks-not-cleared",
                    error=str(error),
                    exc_info=not isinstance(error, CoordinationError),
                )

    @inlineCallbacks
    def _round(self) -> Steps[float]:
        """
        Look at all locks, and clear those that can be.

        :return: a Deferred that fires with the seconds until the next round.
        """
        reading: Reading = yield self._api.list(self._keys.locks, consistent=True)
        locks = locks_in(self._keys, reading.entries)
        self._sightings.keep(locks)
        self._unheld = {n: seen for n, seen in self._unheld.items() if n in locks}
        pause = CLEAR_SECONDS
        for name, found in locks.items():
            left = self._sightings.expires_in(name, found)
            if left == 0.0:
                yield self._clear(name, found)
            elif left is not None:
                pause = min(pause, max(left, LEAST_SECONDS))
            elif found.entry is None and found.last is not None:
                yield self._forget(name, found)
            else:
                self._unheld.pop(name, None)
        return pause

    @inlineCallbacks
    def _clear(self, name: str, found: Found) -> Steps[None]:
        record = found.record
        assert record is not None
        if not found.left_by(record.owner_token):
            found = evolve(found, trace=None)
        outcome: TransactionOutcome = yield self._term.write(
            (given_back(self._keys, name, found),)
        )
        if outcome.complete:
            self._log.info(
                "lock-cleared",
                lock=name,
                owner=record.owner,
                token=found.token,
                valid_for=record.valid_for,
            )

    @inlineCallbacks
    def _forget(self, name: str, found: Found) -> Steps[None]:
        """
        Take away what a lock has left behind, if that is of no use any more.
        """
        now, index = self._reactor.seconds(), found.last_index
        before, since = self._unheld.get(name, (0, now))
        if before != index:
            since = now
            self._unheld[name] = index, since
        # Asking early begins the wait for a lease.
        over: bool = yield lease_ended(self._succession, name, found)
        if over and now - since >= CLEAR_SECONDS:
            yield self._term.write((tuple(self._forgotten(name, index)),))

    def _forgotten(self, name: str, index: int) -> Iterator[Op]:
        yield Op.check_not_exists(self._keys.lock(name))
        yield Op.delete_cas(self._keys.lock_trace(name), index)
