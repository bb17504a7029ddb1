"""
Standing for election: the leader key acquired, kept in our name, and given back.

What is written to the key is noted in the :class:`~.leader_key.LeaderKey` at
once.  Holding it is not leading: see :mod:`~voltha_coord.office`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .errors import ConsulError
from .held import LOCK_DELAY_STEPS, Acquisition, Hindrance, acquire, release
from .leader_key import LeaderKey
from .office import Office

#: Candidates that wake together do not all ask together: up to so many seconds.
STAGGER = 0.03

#: Where somebody else has it, one looks again after so many seconds.
HELD_RETRY = 1.0


class Candidacy:
    """
    Stands for election, for one member; see the head of the module.

    :ivar lock_delayed: whether a lock-delay keeps us from the leader key.

    :param path: of the leader key.
    :param key: what is known of it.
    :param office: what is left before the key is given back.
    :param instance_id: what this member writes there.
    :param random: for jitter, in [0, 1).
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        path: str,
        key: LeaderKey,
        office: Office,
        *,
        instance_id: str,
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._path = path
        self._key = key
        self._office = office
        self._name = instance_id.encode()
        self._random = random
        self._log = log
        self._delayed = Backoff(random, LOCK_DELAY_STEPS)
        self.lock_delayed = False

    @inlineCallbacks
    def contend(self, session: str) -> Steps[float | None]:
        """
        Try to acquire the leader key, which nobody is known to hold.

        :return: a Deferred that fires with the seconds after which to try again,
            or with ``None`` when it is ours; it fails with
            :class:`ConsulError`.
        """
        hindrance: Hindrance | None = yield self._try(session)
        if hindrance is Hindrance.LOCK_DELAY:
            return self._delayed.next()
        self._delayed.clear()
        return HELD_RETRY if hindrance is Hindrance.HELD else None

    @inlineCallbacks
    def _try(self, session: str) -> Steps[Hindrance | None]:
        yield sleep(self._reactor, STAGGER * self._random())
        if self._key.held:
            return Hindrance.HELD
        self._log.debug("leadership-attempt")
        result: Acquisition = yield self._acquire(session)
        self.lock_delayed = result.hindrance is Hindrance.LOCK_DELAY
        if self.lock_delayed:
            # A predecessor that has just vanished: its time begins to run now.
            yield self._office.look()
        return result.hindrance

    @inlineCallbacks
    def _acquire(self, session: str) -> Steps[Acquisition]:
        result: Acquisition = yield acquire(self._api, self._path, self._name, session)
        if result.entry is not None:
            self._key.written(self._name, result.entry.modify_index, session)
        return result

    @inlineCallbacks
    def keep_our_name(self, session: str) -> Steps[None]:
        """
        While leading, mend a leader key whose value somebody overwrote.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        entry = self._key.entry
        if entry is not None and entry.value != self._name:
            self._log.warning("leader-key-overwritten", found=self._key.leader_id)
            yield self._acquire(session)

    @inlineCallbacks
    def give_back(self, session: str) -> Steps[None]:
        """
        Leave office if we may be named, and give back the leader key if that
        session holds it.

        :param session: empty for none.
        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        if self._office.named:
            try:
                yield self._office.leave()
            except ConsulError as error:
                if error.retryable:
                    raise
                # Even so the key must not stay with somebody who cannot lead.
                self._log.warning("could-not-leave-office", error=str(error))
        if session and self._key.held_by(session):
            yield release(self._api, self._path, session)
            if self._key.held_by(session):
                self._key.deleted()

    def owes(self, session: str | None) -> bool:
        """
        Tell whether there may be something to give back.
        """
        if self._office.named:
            return True
        return session is not None and self._key.held_by(session)

    @inlineCallbacks
    def resign(self, session: str | None) -> Steps[None]:
        """
        Leave office if we may be named, and give back the leader key if that
        session holds it, whatever is known of it: for good.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        if self._office.named:
            yield self._office.leave()
        if session is not None:
            yield release(self._api, self._path, session)
