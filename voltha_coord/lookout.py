"""
The lookout of a leader: watches that say when to look, and nothing else.

What was seen is remembered only to tell whether something has changed.  How
soon the pass comes that is due then is told in Note [When a pass is made] of
:mod:`~voltha_coord.passes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._types import Steps
from .changes import Changes
from .consul.api import ConsulApi
from .consul.model import Entry, KeyNames, Reading
from .consul.watch import Watch, WatchTally
from .keys import Keys, is_work_id
from .planning.state import ClusterState
from .records import Member, RecordError
from .settings import Settings

#: Between two looks at the values of work, and at reports, in seconds, at least.
VALUES_PAUSE = 0.5
REPORTS_PAUSE = 0.1


class Lookout:
    """
    Watches members, work, and what operators want; see the head of the module.

    :param want_pass: called when a pass is due, with the seconds of quiet that
        are to come before it.
    :param transfer: called with the request that somebody else should lead,
        ``None`` for none: that wants no pass.
    :param moving: whether members make something ready that is to be moved to
        them; given by a leader that plans by resources.  To such a one an item
        that has become another one is a change too, and so is, meanwhile, what
        members report: moves go on as soon as these say that they are ready.
    :param random: for jitter, in [0, 1).
    :param tally: gives what counts the watch of that name.
    :param retries: waits out the back-offs of the watches.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        settings: Settings,
        *,
        want_pass: Callable[[float], None],
        transfer: Callable[[Entry | None], None],
        moving: Callable[[], bool] | None = None,
        random: Callable[[], float],
        tally: Callable[[str], WatchTally],
        retries: IReactorTime,
        log: Any,
    ) -> None:
        self._api = api
        self._keys = keys
        self._settings = settings
        self._want_pass = want_pass
        self._transfer = transfer
        self._staying: frozenset[str] = frozenset()
        self._work: frozenset[str] = frozenset()
        self._intent: list[Entry] | None = None

        shared: dict[str, Any] = {
            "wait": settings.watch_wait,
            "random": random,
            "retries": retries,
            "log": log,
        }

        def watch(name: str, read: Any, seen: Any) -> Watch[Any]:
            return Watch(reactor, read, seen, name=name, tally=tally(name), **shared)

        def look(
            name: str, prefix: str, changed: Callable[[], None], pause: float
        ) -> Changes:
            counted = {"tally": tally(name), **shared}
            return Changes(
                reactor, api, prefix, changed, name=name, pause=pause, **counted
            )

        self._watches: list[Watch[Any] | Changes] = [
            watch("members", self._read_members, self._members_seen),
            watch("intent", self._read_intent, self._intent_seen),
        ]
        if moving is None:
            self._watches.append(watch("work", self._read_work, self._work_seen))
        else:
            self._moving = moving
            self._watches += (
                look("work", keys.work, self._value_changed, VALUES_PAUSE),
                look("reports", keys.statuses, self._reported, REPORTS_PAUSE),
            )

    def start(self, state: ClusterState) -> None:
        """
        Look out for changes, until :meth:`stop`.

        :param state: what was there when it was last looked at.
        """
        self._note_members(state.members.values())
        self._work = frozenset(state.work)
        for watch in self._watches:
            watch.start()

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Look out no more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        for watch in self._watches:
            yield watch.stop()

    # Members.

    def _read_members(
        self, index: int, wait: float, consistent: bool
    ) -> Deferred[Reading]:
        return self._api.list(
            self._keys.members, index=index, wait=wait, consistent=consistent
        )

    def _members_seen(self, reading: Reading) -> None:
        """
        A member came, left or changed: a pass is due.
        """
        staying = self._staying
        self._note_members(self._members_in(reading))
        self._want_pass(
            self._settings.departed_soak
            if staying - self._staying
            else self._settings.soak
        )

    def _members_in(self, reading: Reading) -> Iterable[Member]:
        for entry in reading.entries:
            try:
                member = Member.from_entry(entry, self._keys)
            except RecordError:
                continue
            if member.live:
                yield member

    def _note_members(self, members: Iterable[Member]) -> None:
        """
        Remember who is there to stay: who leaves is as good as gone.
        """
        self._staying = frozenset(m.id for m in members if not m.leaving)

    # Work.

    def _read_work(
        self, index: int, wait: float, consistent: bool
    ) -> Deferred[KeyNames]:
        return self._api.keys(
            self._keys.work, index=index, wait=wait, consistent=consistent
        )

    def _work_seen(self, reading: KeyNames) -> None:
        """
        Work came or went: a pass is due.
        """
        start = len(self._keys.work)
        work = frozenset(filter(is_work_id, (name[start:] for name in reading.names)))
        if work != self._work:
            self._work = work
            self._want_pass(self._settings.soak)

    def _value_changed(self) -> None:
        """
        Work came, went, or has become something else: a pass is due.
        """
        self._want_pass(self._settings.soak)

    # What members report.

    def _reported(self) -> None:
        """
        A member has reported: a pass is due at once if that is waited for.
        """
        if self._moving():
            self._want_pass(0.0)

    # What operators want.

    def _read_intent(
        self, index: int, wait: float, consistent: bool
    ) -> Deferred[Reading]:
        return self._api.list(
            self._keys.intent, index=index, wait=wait, consistent=consistent
        )

    def _intent_seen(self, reading: Reading) -> None:
        """
        An operator wants something, or wants it no more: a pass is due, unless
        it is that somebody else should lead.
        """
        planned = []
        request = None
        for entry in reading.entries:
            if entry.key == self._keys.transfer:
                request = entry
            else:
                planned.append(entry)
        changed = self._intent is not None and self._intent != planned
        self._intent = planned
        if changed:
            self._want_pass(self._settings.departed_soak)
        self._transfer(request)
