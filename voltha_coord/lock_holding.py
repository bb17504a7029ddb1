"""
Holding a named lock: for how long one may, renewing it, and noticing its loss.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen
from twisted.internet.defer import inlineCallbacks

from ._loops import Timer, bounded
from ._types import Steps
from .consul.backoff import Backoff
from .consul.model import Op
from .errors import (
    ConsulError,
    ConsulUnavailable,
    LockLost,
    RequestTimedOut,
    TransactionRefused,
)
from .lock_ground import LockGround, Won, term_end
from .lock_store import Found

#: The lease of the session is over, under which the lock was held.
LEASE_OVER = "lease-over"

#: The term is over, and no renewal was acknowledged in time.
EXPIRED = "expired"

#: Another has it, or somebody deleted it.
TAKEN_AWAY = "taken-away"

#: The member shut down, and what stood in the way of giving it back is told.
SHUT_DOWN = "shut-down"

#: It was given back.
RELEASED = "released"

#: A lock with a term is renewed after such a part of it.
RENEW_PART = 1 / 3

#: A renewal is given so many seconds at least.
RENEW_SECONDS = 1.0


@frozen
class Held:
    """
    A lock that is held.

    :ivar name: of the lock.
    :ivar token: the fencing token: it rises from holder to holder.
    :ivar owner_token: a random text; who knows it may release the lock.
    """

    name: str
    token: int
    owner_token: str


class Holding:
    """
    One span in which a lock is held, from acquisition to loss or release.

    :ivar held: what is held.

    :param lost: called once with the reason when it is over by itself.
    """

    def __init__(
        self, ground: LockGround, name: str, won: Won, lost: Callable[[str], None]
    ) -> None:
        self._ground = ground
        self._lost = lost
        self._lease = won.lease
        self._until = won.until
        self._record = won.taken.record
        self._index = won.taken.index
        self._last = won.taken.last
        self._over = self._told = False
        self._deadline = Timer(ground.reactor, self._look)
        self._renewal = Timer(ground.reactor, self._renew_in_time)
        self._backoff = Backoff(ground.random)
        self.held = Held(name, won.taken.index, won.taken.record.owner_token)

    @property
    def lasts(self) -> bool:
        """
        Whether one may act under the lock at this instant.  Once false, false
        for ever.
        """
        if not self._over and self.remaining <= 0.0:
            self._over = True
        return not self._over

    @property
    def remaining(self) -> float:
        """
        Seconds left; 0 once it is over.
        """
        if self._over:
            return 0.0
        if self._lease is not None:
            return self._lease.remaining
        assert self._until is not None
        return max(0.0, self._until - self._ground.reactor.seconds())

    def start(self) -> None:
        """
        Begin to watch over it, and to renew it if it has a term.
        """
        if self._until is not None:
            self._deadline.set(self.remaining)
            self._renew_later()

    def stop(self) -> None:
        """
        It is held no more.
        """
        self._over = self._told = True
        self._deadline.cancel()
        self._renewal.cancel()

    def fence_ops(self) -> tuple[Op, ...]:
        """
        Give the operations that refuse a transaction once it is another's.
        """
        session = None if self._lease is None else self._lease.session_id
        return self._ground.store.fence(self.held.name, self._last, session)

    # Noticing its loss.

    def lease_changed(self) -> None:
        """
        The lease of the session began, is about to end, or ended.
        """
        if self._lease is not None and not self.lasts:
            self.end(LEASE_OVER)

    def _look(self) -> None:
        if self.lasts:
            self._deadline.set(self.remaining)
        else:
            self.end(EXPIRED)

    def seen(self, found: Found) -> None:
        """
        The lock was listed like that: see to it if it is not ours.
        """
        if not self._is_ours(found):
            self._ground.spawn("look-at-lock", self._make_sure)

    def _is_ours(self, found: Found) -> bool:
        if found.entry is None or not found.held_by(self.held.owner_token):
            return False
        return self._lease is None or found.entry.session == self._lease.session_id

    @inlineCallbacks
    def _make_sure(self) -> Steps[None]:
        """
        Read the lock anew: what was listed may be old, or not all.
        """
        try:
            found: Found = yield self._ground.store.look(
                self.held.name, consistent=True
            )
        except ConsulError as error:
            self._ground.log.debug("lock-not-read", error=str(error))
            return
        if not self._is_ours(found):
            self.end(TAKEN_AWAY)

    def end(self, reason: str) -> None:
        """
        It is held no more, and that is told.
        """
        if not self._told:
            self.stop()
            self._lost(reason)

    # Renewing.

    @inlineCallbacks
    def renew(self) -> Steps[None]:
        """
        Begin the term anew; a lock without one needs none.

        :return: a Deferred that fires when it was renewed.  It fails with
            :class:`LockLost` when the lock is not held any more, and with
            :class:`ConsulError` when it was not renewed this time.
        """
        valid_for = self._record.valid_for
        if not self.lasts:
            raise LockLost(f"lock {self.held.name}: it is not held any more")
        if valid_for is None:
            return
        for last in (False, True):
            sent = self._ground.reactor.seconds()
            try:
                index: int = yield self._write(
                    max(RENEW_SECONDS, valid_for * RENEW_PART)
                )
            except TransactionRefused:
                # One that was overtaken by an earlier one is made again.
                yield self._learn()
                if last:
                    raise ConsulUnavailable(
                        f"lock {self.held.name}: it changes again and again"
                    ) from None
            else:
                break
        self._index = max(self._index, index)
        # What is acknowledged too late extends nothing.
        if self.lasts and self._until is not None:
            self._until = max(self._until, term_end(sent, valid_for))
            self._deadline.set(self.remaining)

    @inlineCallbacks
    def _write(self, seconds: float) -> Steps[int]:
        """
        Write the record again, as one that it was not before.
        """
        name = self.held.name
        self._record = record = evolve(
            self._record, token=self.held.token, seq=self._record.seq + 1
        )
        try:
            index: int = yield bounded(
                self._ground.reactor,
                seconds,
                lambda: self._ground.store.renew(name, record, self._index),
            )
        except TimeoutError as error:
            raise RequestTimedOut(f"lock {name}: {error}") from error
        return index

    @inlineCallbacks
    def _learn(self) -> Steps[None]:
        """
        Learn of a renewal that was applied and whose answer was lost: it counts
        for nothing, but the next one builds on it.
        """
        found: Found = yield self._ground.store.look(self.held.name, consistent=True)
        if not self._is_ours(found):
            self.end(TAKEN_AWAY)
            raise LockLost(f"lock {self.held.name}: it was taken away")
        assert found.entry is not None and found.record is not None
        self._index = found.entry.modify_index
        self._record = evolve(self._record, seq=max(self._record.seq, found.record.seq))

    def _renew_later(self) -> None:
        valid_for = self._record.valid_for
        assert valid_for is not None
        part = valid_for * RENEW_PART
        self._renewal.set(part * (0.9 + 0.1 * self._ground.random()))

    def _renew_in_time(self) -> None:
        self._ground.spawn("renew-lock", self._renewed)

    @inlineCallbacks
    def _renewed(self) -> Steps[None]:
        try:
            yield self.renew()
        except LockLost:
            return
        except ConsulError as error:
            if self.lasts:
                pause = self._backoff.next(error)
                log = (
                    self._ground.log.warning
                    if self._backoff.grew
                    else (self._ground.log.debug)
                )
                log(
                    "lock-not-renewed",
                    lock=self.held.name,
                    error=str(error),
                    remaining=round(self.remaining, 3),
                )
                self._renewal.set(pause)
        else:
            self._backoff.clear()
            if self.lasts:
                self._renew_later()
