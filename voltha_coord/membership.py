"""
The member record: this process among the members, for as long as it lives.

One loop looks at what Consul has under the member key and makes it what it
ought to be: acquired by the current session, with the current value.  Whatever
happened to the key (deleted, overwritten, left by an earlier session) is
mended; a key that another living session holds is waited for, and said.

The watch that wakes the loop is also the quickest sign of a lost session:
Consul deletes the key together with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Wake
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import Entry, KeyNames, Reading
from .consul.watch import Watch
from .errors import ConsulError, InvalidSession
from .held import Acquisition, Hindrance, acquire
from .session import SessionKeeper
from .settings import Settings

#: Between two attempts while a lock-delay stands in the way, in seconds.
LOCK_DELAY_RETRY = 0.1


class MemberKeeper:
    """
    Keeps the member record of one process; see the head of the module.

    :param value: gives what the record is to say, encoded.
    :param key: the member key.
    :param changed: called whenever :attr:`joined` changed.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        settings: Settings,
        session: SessionKeeper,
        *,
        key: str,
        value: Callable[[], bytes],
        changed: Callable[[], None],
        random: Callable[[], float],
        log: Any = None,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._session = session
        self._key = key
        self._value = value
        self._changed = changed
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        self._tasks = Tasks(self._log)
        self._wake = Wake(reactor)
        self._watch = Watch(
            reactor,
            self._read,
            self._seen,
            name="member",
            wait=settings.watch_wait,
            random=random,
            failed=self._unreadable,
        )
        self._entry: Entry | None = None
        self._known = False
        self._joined_session: str | None = None
        self._said: str | None = None
        #: Who holds our member key while we do not: its session.
        self.hindered_by: str | None = None

    @property
    def joined(self) -> bool:
        """
        Whether the current session holds the member key.
        """
        return (
            self._joined_session is not None
            and self._joined_session == self._session.session_id
        )

    def start(self) -> None:
        """
        Begin to make and mend the record, until :meth:`stop`.
        """
        self._watch.start()
        self._tasks.spawn("membership", self._run)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Mend no more.  The record is left as it is.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        yield self._watch.stop()
        yield self._tasks.stop()

    def wake(self) -> None:
        """
        Look again: the session, or what the record is to say, has changed.
        """
        self._wake.set()

    def _read(self, index: int, wait: float, consistent: bool) -> Deferred[Reading]:
        return self._api.get(self._key, index=index, wait=wait, consistent=consistent)

    def _seen(self, reading: Reading | KeyNames) -> None:
        assert isinstance(reading, Reading)
        self._known = True
        self._entry = reading.entry
        mine = self._joined_session
        if mine is not None and (self._entry is None or self._entry.session != mine):
            self._log.debug("membership-record-change-detected", key=self._key)
            self._session.suspect()
        self._wake.set()

    def _unreadable(self, error: Exception) -> None:
        self._log.warning("membership-watch-failed", error=str(error))

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while True:
            seconds: float | None = None
            lease = self._session.lease
            if self._known and lease is not None and lease.active:
                try:
                    seconds = yield self._mend(lease.session_id)
                    backoff.clear()
                except InvalidSession:
                    self._session.suspect()
                    seconds = backoff.next()
                except ConsulError as error:
                    seconds = backoff.next()
                    self._log.error(
                        "membership-record-not-written",
                        retry_in=round(seconds, 3),
                        error=str(error),
                    )
            yield self._wake.wait(seconds)

    @inlineCallbacks
    def _mend(self, session: str) -> Steps[float | None]:
        """
        Make the record what it ought to be.

        :return: a Deferred that fires with the seconds after which to look
            again, or ``None``: when the watch says so.
        """
        entry = self._entry
        value = self._value()
        if entry is not None and entry.session == session and entry.value == value:
            self._set_joined(session)
            return None
        if entry is not None and entry.session not in (None, session):
            self._say_hindered(entry.session)
            # A session of ours that is being given up still holds it.
            if entry.session not in self._session.own_sessions:
                return None
        if self._joined_session == session:
            self._log.info("remaking-membership-record", key=self._key)
        result: Acquisition = yield acquire(self._api, self._key, value, session)
        if result.hindrance is Hindrance.LOCK_DELAY:
            return LOCK_DELAY_RETRY * (0.5 + self._random())
        if result.entry is None:
            # Somebody was quicker than the watch; it will say who.
            return 1.0
        self._entry = Entry(
            self._key, value, modify_index=result.entry.modify_index, session=session
        )
        self._set_joined(session)
        return None

    def _say_hindered(self, session: str | None) -> None:
        self.hindered_by = session
        if session != self._said and session not in self._session.own_sessions:
            self._said = session
            self._log.warning(
                "stale-membership-record-in-the-way",
                key=self._key,
                holder=session,
                action="waiting until that session ends; if no other process of "
                "this instance id is meant to run, nothing is to be done",
            )

    def _set_joined(self, session: str) -> None:
        self.hindered_by = self._said = None
        if self._joined_session != session:
            self._joined_session = session
            self._log.info(
                "created-membership-record", key=self._key, session_id=session
            )
            self._changed()
