"""
The loop of the election: one step after the other, whatever becomes of one.

A step that fails is made again after a back-off.  A loop that nothing wakes for
a long time looks at everything anew, whatever one believes to know: no election
stays stuck.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Wake
from ._types import Steps
from .consul.backoff import Backoff
from .consul.watch import RESYNC_SECONDS
from .errors import ConsulError, InvalidSession
from .leader_key import LeaderKey

#: Without a leader for so many seconds, it is said, and looked at again.
LEADERLESS_SECONDS = 60.0


class ElectionLoop:
    """
    Makes the steps of an election; see the head of the module.

    :param retries: waits until it is woken, or has waited long enough.
    :param key: what is known of the leader key.
    :param step: makes one step.  Its Deferred fires with the seconds after which
        to make the next one at the latest, or with ``None``: when woken.
    :param over: whether no step is to be made any more.
    :param invalid: called when Consul says that our session is no session.
    :param long: called after a long time in which nothing has woken the loop.
    :param random: for jitter, in [0, 1).
    """

    def __init__(
        self,
        reactor: IReactorTime,
        retries: IReactorTime,
        key: LeaderKey,
        *,
        step: Callable[[], Deferred[float | None]],
        over: Callable[[], bool],
        invalid: Callable[[], None],
        long: Callable[[], None],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._wake = Wake(retries)
        self._key = key
        self._step = step
        self._over = over
        self._invalid = invalid
        self._long = long
        self._random = random
        self._log = log

    def wake(self) -> None:
        """
        Make the next step now, or as soon as this one is made.
        """
        self._wake.set()

    @inlineCallbacks
    def run(self) -> Steps[None]:
        """
        Make steps until it is over.

        :return: a Deferred that fires then; it can be cancelled.
        """
        backoff = Backoff(self._random)
        while not self._over():
            try:
                seconds: float | None = yield self._step()
                backoff.clear()
            except InvalidSession:
                self._invalid()
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
        Wait to be woken, for so many seconds at most, or for a long time.
        """
        if seconds is not None:
            yield self._wake.wait(seconds)
            return
        leaderless = self._key.leader_id is None
        until = self._reactor.seconds() + (
            LEADERLESS_SECONDS if leaderless else RESYNC_SECONDS
        )
        yield self._wake.wait(until - self._reactor.seconds())
        if self._reactor.seconds() < until - 0.001:
            return
        if self._key.leader_id is None:
            self._log.warning(
                "no-leader",
                seconds=round(self._key.leaderless_for, 1),
                action="see what the members' /status say they wait for",
            )
            self._key.look_again()
        self._long()
