"""
The leader key: what is known of it, and of who holds it.

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

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from .consul.api import ConsulApi
from .consul.history import Sign
from .consul.model import Entry, KeyNames, Reading
from .consul.watch import Watch, WatchTally


class LeaderKey:
    """
    Follows the leader key; see the head of the module.

    :ivar entry: what stands there, as far as is known; ``None`` for nothing.
    :ivar known: whether that was read since we were cut off.
    :ivar leader_id: who holds the key; ``None`` for nobody.
    :ivar vacancy: for how many seconds nobody had held it when somebody last
        took it.

    :param key: where it is.
    :param wait: seconds a blocking query may wait.
    :param noted: called whenever :attr:`entry` was set, be it to the same.
    :param differed: called with what was known before when a read said
        something else, once that was noted.
    :param found: called with the session that a consistent read found to hold
        the key, ``None`` for none.
    :param news: called when the watch has read something new.
    :param leader_changed: called with the instance id of who holds the key now,
        ``None`` for nobody.
    :param rewound: called when Consul may be in an older state than it was.
    :param tally: counts what the watch comes to.
    :param retries: waits out the back-offs of the watch; by default the reactor.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        key: str,
        wait: float,
        *,
        noted: Callable[[], None],
        differed: Callable[[Entry | None], None],
        found: Callable[[str | None], None],
        news: Callable[[], None],
        leader_changed: Callable[[str | None], None],
        rewound: Callable[[Sign], None] | None,
        random: Callable[[], float],
        tally: WatchTally | None,
        retries: IReactorTime | None,
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._key = key
        self._noted = noted
        self._differed = differed
        self._found = found
        self._news = news
        self._leader_changed = leader_changed
        self._log = log
        self._watch = Watch(
            reactor,
            self._read,
            self._seen,
            name="leader",
            wait=wait,
            rewound=rewound,
            random=random,
            tally=tally,
            retries=retries,
            log=log,
        )
        self._leaderless_since = reactor.seconds()
        self._leaderless_before = 0.0
        self.entry: Entry | None = None
        self.known = False
        self.leader_id: str | None = None
        self.vacancy = 0.0

    @property
    def held(self) -> bool:
        """
        Whether anybody holds it.
        """
        return self.entry is not None and self.entry.session is not None

    def held_by(self, session: str) -> bool:
        """
        Tell whether that session holds it.
        """
        return self.entry is not None and self.entry.session == session

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

    def start(self) -> None:
        """
        Follow it, until :meth:`stop`.
        """
        self._leaderless_since = self._reactor.seconds()
        self._watch.start()

    def look_again(self) -> None:
        """
        Read it anew: what was read is not to be trusted any more.
        """
        self._watch.restart()

    def stop(self) -> Deferred[None]:
        """
        Follow it no more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._watch.stop()

    # Reading; see Note [What is known of the leader key].

    def _read(self, index: int, wait: float, consistent: bool) -> Deferred[Reading]:
        reading: Deferred[Reading] = self._api.get(
            self._key, index=index, wait=wait, consistent=consistent
        )
        return reading.addCallback(self._look_at, consistent)

    def _look_at(self, reading: Reading, consistent: bool) -> Reading:
        before = self.entry
        overtaken = before is not None and reading.index < before.modify_index
        if consistent or not overtaken:
            self.note(reading.entry)
            if before != reading.entry:
                # It may be no news to the watch, which has read it before.
                self._differed(before)
        if consistent:
            self._found(None if reading.entry is None else reading.entry.session)
        return reading

    def _seen(self, reading: Reading | KeyNames) -> None:
        self._news()

    # Noting.

    def note(self, entry: Entry | None) -> None:
        """
        Take note of what a read found just now.
        """
        self.known = True
        self._take(entry)

    def forget(self) -> None:
        """
        Know nothing of it any more, for want of contact.
        """
        self.known = False
        self._take(None)

    def written(self, value: bytes, index: int, session: str) -> None:
        """
        Take note of what was written for a session.

        :param index: its ModifyIndex, or a lower bound of it: that suffices to
            tell older reads.
        """
        self._take(Entry(self._key, value, modify_index=index, session=session))

    def deleted(self) -> None:
        """
        Take note that we have deleted it.
        """
        self._take(None)

    def _take(self, entry: Entry | None) -> None:
        if entry != self.entry:
            self._log.debug("leader-key-change", entry=entry)
        self.entry = entry
        self._noted()
        leader = None
        if entry is not None and entry.session is not None:
            leader = entry.value.decode("utf-8", errors="replace")
        if leader != self.leader_id:
            self.vacancy = self.leaderless_for
            self._leaderless_before = self.leaderless_seconds
            self._leaderless_since = self._reactor.seconds()
            self.leader_id = leader
            self._leader_changed(leader)
