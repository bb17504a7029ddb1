"""
The members as this process last saw them, for status pages and listeners.

Followers do not watch the members.  The view is read when somebody asks, and
followed by a watch only once somebody listens; what was read last is served
while Consul does not answer, with its age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, KeyNames, Reading
from .consul.watch import Watch, WatchTally
from .events import Event, MembersChanged
from .keys import Keys
from .listing import list_again
from .records import Member, RecordError
from .settings import Settings


class MembersView:
    """
    Reads the members; see the head of the module.

    :param tell: told of :class:`~.events.MembersChanged` once followed.
    :param tally: counts what the watch comes to.
    :param retries: waits out the back-offs; by default the reactor.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        settings: Settings,
        *,
        tell: Callable[[Event], None],
        random: Callable[[], float],
        tally: WatchTally | None = None,
        retries: IReactorTime | None = None,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._keys = keys
        self._tell = tell
        self._watch: Watch[Reading] = Watch(
            reactor,
            self._read,
            self._seen,
            name="members-view",
            wait=settings.watch_wait,
            random=random,
            tally=tally,
            retries=retries,
        )
        self._following = False
        self._known: frozenset[str] | None = None
        self._read_at: float | None = None
        #: The live members, by id, as last read.
        self.members: tuple[Member, ...] = ()
        #: How many items were assigned to each, as last read.
        self.items: Counter[str] = Counter()

    @property
    def age(self) -> float | None:
        """
        Seconds since the members were last read; ``None`` if they never were.
        """
        if self._read_at is None:
            return None
        return self._reactor.seconds() - self._read_at

    def follow(self) -> None:
        """
        Follow the members from now on: two requests a minute more.
        """
        if not self._following:
            self._following = True
            self._watch.start()

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Follow no more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        yield self._watch.stop()

    @inlineCallbacks
    def refresh(self) -> Steps[tuple[Member, ...]]:
        """
        Read the members.

        :return: a Deferred that fires with the live members, by id, or fails
            with :class:`ConsulError`; then what was read last stands.
        """
        reading: Reading = yield self._read(0, 0.0, False)
        self._take(reading.entries)
        return self.members

    @inlineCallbacks
    def refresh_items(self) -> Steps[None]:
        """
        Read how many items are assigned to each member.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`; then what was read last stands.
        """
        names: KeyNames = yield self._api.keys(self._keys.assignments)
        start = len(self._keys.assignments)
        self.items = Counter(name[start:].partition("/")[0] for name in names.names)

    @inlineCallbacks
    def _read(self, index: int, wait: float, consistent: bool) -> Steps[Reading]:
        reading: Reading = yield self._api.list(
            self._keys.members, index=index, wait=wait, consistent=consistent
        )
        if not reading.entries:
            reading = yield list_again(self._api, self._keys.members)
        return reading

    def _seen(self, reading: Reading) -> None:
        self._take(reading.entries)
        now = frozenset(member.id for member in self.members)
        before, self._known = self._known, now
        if before is not None and before != now:
            self._tell(
                MembersChanged(
                    joined=tuple(sorted(now - before)), left=tuple(sorted(before - now))
                )
            )

    def _take(self, entries: Sequence[Entry]) -> None:
        found = []
        for entry in entries:
            try:
                member = Member.from_entry(entry, self._keys)
            except RecordError:
                # The leader says so once; here it is no member.
                continue
            if member.live:
                found.append(member)
        self.members = tuple(sorted(found, key=lambda member: member.id))
        self._read_at = self._reactor.seconds()

    def describe(self) -> list[dict[str, Any]]:
        """
        Give the members as a status page shows them.
        """
        return [
            {
                "id": member.id,
                "host_address": member.host_address,
                "rest_port": member.rest_port,
                "weight": member.weight,
                "app": member.app,
                "state": "leave" if member.leaving else "online",
                "items": self.items[member.id],
            }
            for member in self.members
        ]
