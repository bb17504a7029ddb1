"""
The member record: this process among the members, for as long as it lives.

One loop looks at what Consul has under the member key and makes it what it
ought to be: acquired by the current session, with the current value.  Whatever
happened to the key (deleted, overwritten, left by an earlier session) is
mended; a key that another living session holds is waited for, and said.

The watch that wakes the loop is also the quickest sign of a lost session:
Consul deletes the key together with it.  Every read of it is looked at, and
not only what is news to the watch: what we wrote ourselves it has not read, so
a key written and deleted since is no news to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Wake
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.history import Sign
from .consul.model import Entry, Reading
from .consul.watch import Watch, WatchTally
from .errors import ConsulError, InvalidSession
from .held import LOCK_DELAY_STEPS, Acquisition, Hindrance, acquire
from .session import SessionKeeper
from .settings import Settings

#: Until the next look at a key that somebody else was quicker to acquire, or
#: that a session of our own still holds, in seconds.
HELD_RETRY = 1.0

#: While another session holds our key, that is said every so many seconds.
SAY_AGAIN = 60.0


class MemberKeeper:
    """
    Keeps the member record of one process; see the head of the module.

    :param value: gives what the record is to say, encoded.
    :param key: the member key.
    :param changed: called whenever :attr:`joined` changed.
    :param tally: counts what the watch of the record comes to.
    :param retries: waits out the back-offs; by default the reactor.
    :param rewound: called when Consul may be in an older state than it was.
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
        tally: WatchTally | None = None,
        retries: IReactorTime | None = None,
        rewound: Callable[[Sign], None] | None = None,
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
        self._wake = Wake(reactor if retries is None else retries)
        self._watch: Watch[Reading] = Watch(
            reactor,
            self._read,
            lambda reading: None,
            name="member",
            wait=settings.watch_wait,
            random=random,
            tally=tally,
            retries=retries,
            rewound=rewound,
            log=self._log,
        )
        self._entry: Entry | None = None
        self._known = False
        self._session_seen: str | None = None
        self._joined_session: str | None = None
        self._said: str | None = None
        self._say_again = 0.0
        self._delayed = Backoff(random, LOCK_DELAY_STEPS)
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

    def look_again(self) -> None:
        """
        Read the key anew: what was read is not to be trusted any more.
        """
        self._watch.restart()

    def _read(self, index: int, wait: float, consistent: bool) -> Deferred[Reading]:
        reading: Deferred[Reading] = self._api.get(
            self._key, index=index, wait=wait, consistent=consistent
        )
        return reading.addCallback(self._look_at, consistent)

    def _look_at(self, reading: Reading, consistent: bool) -> Reading:
        known, entry = self._entry, reading.entry
        holder = None if entry is None else entry.session
        fresh = consistent and self._session_seen == self._session.session_id
        if fresh:
            self._session.haunted_by(holder)
        overtaken = known is not None and reading.index < known.modify_index
        if self._known and (entry == known or (overtaken and not consistent)):
            return reading
        self._known = True
        self._entry = entry
        mine = self._joined_session
        held = entry is not None and entry.session == mine
        if mine is not None and not held and mine == self._session.session_id:
            self._log.debug("membership-record-change-detected", key=self._key)
            self._session.suspect()
        self._wake.set()
        return reading

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random)
        while True:
            seconds: float | None = None
            try:
                seconds = yield self._step()
                backoff.clear()
            except CancelledError:
                raise
            except InvalidSession:
                self._session.suspect()
                seconds = backoff.next()
            except Exception as error:
                seconds = backoff.next(error)
                log = self._log.error if backoff.grew else self._log.debug
                log(
                    "membership-record-not-written",
                    retry_in=round(seconds, 3),
                    error=str(error),
                    exc_info=not isinstance(error, ConsulError),
                )
            yield self._wake.wait(seconds)

    @inlineCallbacks
    def _step(self) -> Steps[float | None]:
        """
        Look at the record, and mend it if a session may hold it.

        :return: as :meth:`_mend`.
        """
        lease = self._session.lease
        if lease is None or not lease.active:
            return None
        if lease.session_id != self._session_seen:
            # What was read under the last session may be another Consul's.
            self._session_seen = lease.session_id
            if self._known:
                self._watch.restart()
        if not self._known:
            return None
        again: float | None = yield self._mend(lease.session_id)
        return again

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
            self._note_joined(session)
            return None
        # One of our own sessions, being given up, may hold it for a moment yet.
        holder = session if entry is None or entry.session is None else entry.session
        if holder != session and holder not in self._session.own_sessions:
            self._note_hindered(holder)
            return SAY_AGAIN
        result: Acquisition = yield acquire(self._api, self._key, value, session)
        if result.hindrance is Hindrance.LOCK_DELAY:
            if self._joined_session == session:
                # It was ours, and lock-delays come of sessions that end.
                self._session.suspect()
            return self._delayed.next()
        self._delayed.clear()
        if result.entry is None:
            # Somebody was quicker than the watch: let it say who.
            self._watch.restart()
            return HELD_RETRY
        if self._joined_session == session:
            self._log.info("remaking-membership-record", key=self._key)
        self._entry = Entry(
            self._key, value, modify_index=result.entry.modify_index, session=session
        )
        self._note_joined(session)
        return None

    def _note_hindered(self, session: str | None) -> None:
        """
        Another session holds our key, an earlier life's or a double's.
        """
        self.hindered_by = session
        now = self._reactor.seconds()
        if session != self._said or now >= self._say_again:
            self._said = session
            self._say_again = now + SAY_AGAIN
            self._log.warning(
                "stale-membership-record-in-the-way",
                key=self._key,
                holder=session,
                effect="waiting until that session ends",
                action="if it is not an earlier life of this process, stop one of "
                "the two, or give it another instance id",
            )
        if self._joined_session is not None:
            self._joined_session = None
            self._changed()

    def _note_joined(self, session: str) -> None:
        self.hindered_by = self._said = None
        if self._joined_session != session:
            self._joined_session = session
            self._log.info(
                "created-membership-record", key=self._key, session_id=session
            )
            self._changed()
