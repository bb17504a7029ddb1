"""
One named lock, as whoever wants it sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import (
    Deferred,
    fail,
    inlineCallbacks,
    maybeDeferred,
    succeed,
)
from twisted.python.failure import Failure

from ._types import Steps
from .consul.model import Op
from .errors import LockBusy, LockLost
from .lock_attempt import Attempt
from .lock_ground import Won
from .lock_holding import RELEASED, Held, Holding
from .readiness import shut_down_error
from .waiters import Waiters

if TYPE_CHECKING:
    from .locks import Locks


class Lock:
    """
    One named lock, for one holder at a time; see Note [Locks] of
    :mod:`~voltha_coord.locks`.  Made by ``coordinator.lock(name)``.

    :ivar name: of the lock.
    :ivar valid_for: its term in seconds; ``None`` when it is bound to the session.
    """

    def __init__(self, locks: Locks, name: str, valid_for: float | None) -> None:
        self._locks = locks
        self._attempt: Attempt | None = None
        self._holding: Holding | None = None
        self._losers: Waiters[str] = Waiters()
        self._released = ""
        self._why = "it was never acquired"
        self.name = name
        self.valid_for = valid_for

    @property
    def held(self) -> Held | None:
        """
        What is held at this very instant, ``None`` for nothing.

        Ask right before you act, each time.
        """
        holding = self._holding
        return holding.held if holding is not None and holding.lasts else None

    @property
    def remaining(self) -> float:
        """
        Seconds for which it is held if Consul answers no more; 0 when it is not.
        """
        return 0.0 if self._holding is None else self._holding.remaining

    def acquire(self, timeout: float | None = None) -> Deferred[Held]:
        """
        Wait until it is ours.

        :param timeout: seconds to wait while another holds it, ``None`` for ever;
            with 0 it is tried once.
        :return: a Deferred that fires with what is held.  It fails with
            :class:`LockNotAcquired` when the time is over, with
            :class:`LockBusy` when this object holds the lock or waits for it, with
            :class:`ShutDownError` at shutdown, and with :class:`ConsulError` where
            waiting cannot help.  Cancelling it leaves nothing behind.
        """
        if self._attempt is not None or self._holding is not None:
            waits = "waits for it" if self._holding is None else "holds it"
            return fail(LockBusy(f"lock {self.name}: this very object {waits}"))
        attempt = self._locks.attempt(self, timeout)
        if attempt is None:
            return fail(shut_down_error())
        self._attempt = attempt
        began = self._locks.ground.reactor.seconds()
        outcome = attempt.outcome.addBoth(self._ended, attempt, began)
        attempt.start()
        return outcome

    def _ended(self, result: Won | Failure, attempt: Attempt, began: float) -> Any:
        self._locks.attempt_ended(attempt)
        self._attempt = None
        if isinstance(result, Failure):
            return result
        ground = self._locks.ground
        self._holding = holding = Holding(ground, self.name, result, self._lost)
        self._locks.holds(self, holding)
        holding.start()
        ground.log.info(
            "lock-acquired",
            lock=self.name,
            token=holding.held.token,
            valid_for=self.valid_for,
            waited=round(ground.reactor.seconds() - began, 3),
        )
        return holding.held

    def release(self) -> Deferred[None]:
        """
        Give it back, or wait for it no more: then :meth:`acquire` fails with
        ``CancelledError``.  From this instant on it is not held.

        :return: a Deferred that fires when others may have it, at once if it is not
            held; it fails with :class:`ConsulError` where a retry cannot help.
            Cancelling it ends nothing but the waiting.
        """
        if self._attempt is not None:
            self._attempt.outcome.cancel()
        holding = self._holding
        if holding is None:
            return self._locks.when_given_back(self._released)
        self._locks.ground.log.info(
            "lock-released", lock=self.name, token=holding.held.token
        )
        return self._over(RELEASED, holding)

    def _lost(self, reason: str) -> None:
        holding = self._holding
        assert holding is not None
        self._locks.ground.log.warning(
            "lock-lost",
            lock=self.name,
            token=holding.held.token,
            reason=reason,
            effect="it is not held any more; another may have it",
        )
        # Others need not wait.  Where it cannot be given back, that was said.
        self._over(reason, holding).addErrback(lambda _: None)

    def _over(self, reason: str, holding: Holding) -> Deferred[None]:
        self._holding = None
        self._released = holding.held.owner_token
        self._why = reason
        holding.stop()
        returned = self._locks.gives_back(self, holding)
        self._losers.fire(reason)
        return returned

    def renew(self) -> Deferred[None]:
        """
        Begin its term anew, now and not only when it is time.

        :return: a Deferred that fires when it was renewed, at once for a lock that
            is bound to the session.  It fails with :class:`LockLost` when it is not
            held, and with :class:`ConsulError` when it was not renewed this time.
        """
        if self._holding is None:
            return fail(LockLost(f"lock {self.name}: not held: {self._why}"))
        return self._holding.renew()

    def when_lost(self) -> Deferred[str]:
        """
        Wait until it is held no more.

        :return: a Deferred that fires with why: ``lease-over``, ``expired``,
            ``taken-away``, ``shut-down`` or ``released``; at once if it is not
            held.
        """
        if self._holding is None:
            return succeed(self._why)
        return self._losers.wait()

    def fence_ops(self) -> tuple[Op, ...]:
        """
        Give the operations that a transaction is to begin with that must not be
        applied once another has had this lock.

        :raises LockLost: when it is not held.
        """
        if self._holding is None or not self._holding.lasts:
            raise LockLost(f"lock {self.name}: not held: {self._why}")
        return self._holding.fence_ops()

    @inlineCallbacks
    def run(
        self,
        call: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,
        **kw: Any,
    ) -> Steps[Any]:
        """
        Acquire it, call, and give it back when the Deferred has fired that comes
        back.

        :param timeout: as for :meth:`acquire`.
        :return: a Deferred that fires, or fails, as the call does; it fails as
            :meth:`acquire` does, and with :class:`LockLost` when the lock is lost
            meanwhile: what was called is cancelled then, and waited for.
        """
        yield self.acquire(timeout)
        running = maybeDeferred(call, *args, **kw)
        lost: list[str] = []

        def cancel(reason: str) -> None:
            lost.append(reason)
            running.cancel()

        losing = self.when_lost().addCallbacks(cancel, lambda _: None)
        try:
            result = yield running
        except Exception as error:
            if lost:
                raise LockLost(f"lock {self.name}: lost: {lost[0]}") from error
            raise
        finally:
            losing.cancel()
            yield self.release()
        if lost:
            raise LockLost(f"lock {self.name}: lost: {lost[0]}")
        return result
