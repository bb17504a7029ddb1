"""
What is assigned to this member, as its worker heeds it.

A watch follows the assignments.  What it sees is heeded once it has been quiet
for ``Settings.worker_soak``; ever new changes hold that off for ``MOST_SOAKS``
times as long at most.

# Note [The value of an assignment]

The key alone already says that the item is to be run.  A value may say more:
that the item is only to be made ready (``phase`` ``prepare``), the item itself
as its leader applied it, and that it is to be started anew (``restart``).  What
cannot be read of a value is told once, shown with the item, and otherwise as if it
were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Timer
from ._types import Steps
from .consul.api import ConsulApi
from .consul.history import Sign
from .consul.model import Entry, Reading
from .consul.watch import Watch, WatchTally
from .forgotten import TROUBLE, Forgotten
from .keys import is_work_id
from .listing import list_again
from .records import PREPARE, RUN, Assignment, WorkItem
from .settings import MOST_SOAKS, Settings


@frozen
class Assigned:
    """
    One assignment; see Note [The value of an assignment].

    :ivar index: its ModifyIndex; 0 when there is none, and Consul has forgotten
        it.
    :ivar created: its CreateIndex: another one when it was deleted and put anew.
    :ivar phase: ``run`` or ``prepare``.
    :ivar item: the item as it was applied, ``None`` where the value does not
        carry it.
    :ivar odd: what is wrong with the value; empty for nothing.
    :ivar restart: when it is another number than before, the item is to be
        started anew; 0 asks for nothing.
    """

    index: int
    created: int
    phase: str = RUN
    item: WorkItem | None = None
    odd: str = ""
    restart: int = 0

    @classmethod
    def from_entry(cls, member: str, work: str, entry: Entry) -> Assigned:
        """
        Read an assignment's key.  Never raises.
        """
        found = Assignment.from_value(member, work, entry.value)
        phase, odd = found.phase, found.problem or ""
        if phase not in (RUN, PREPARE):
            phase, odd = RUN, odd or f"phase {found.phase!r} is not known"
        return cls(
            entry.modify_index,
            entry.create_index,
            phase,
            found.item,
            f"its assignment: {odd}" if odd else "",
            found.restart,
        )

    def describe(self, work: str, entry: Entry | None) -> tuple[WorkItem, int | None]:
        """
        Give the item, and the ModifyIndex of the description it was read from:
        0 where there is none, ``None`` where the assignment carries the item.

        :param entry: what stands under ``work/``.
        """
        if self.item is not None:
            return self.item, None
        if entry is None:
            return WorkItem.from_value(work, b""), 0
        return WorkItem.from_value(work, entry.value), entry.modify_index


class Assignments:
    """
    Follows what is assigned to a member.

    :ivar current: what is heeded now, by work id; ``None`` before the first
        look.
    :ivar owned: what of it we have claimed, and as what.

    :param forgotten: knows whether Consul has forgotten what it assigned.
    :param changed: called with what was heeded before, whenever it is something
        else now.
    :param rewound: called when Consul may be in an older state than it was.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        settings: Settings,
        prefix: str,
        *,
        instance_id: str,
        forgotten: Forgotten,
        changed: Callable[[Mapping[str, Assigned]], None],
        rewound: Callable[[Sign], None] | None = None,
        random: Callable[[], float],
        tally: WatchTally | None = None,
        retries: IReactorTime | None = None,
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._settings = settings
        self._prefix = prefix
        self._instance_id = instance_id
        self._forgotten = forgotten
        self._changed = changed
        self._log = log
        self._candidate: dict[str, Assigned] | None = None
        self._soaked_by = 0.0
        self._soaking = Timer(reactor, self._heed)
        self._watch: Watch[Reading] = Watch(
            reactor,
            self._read,
            self._seen,
            name="assignments",
            wait=settings.watch_wait,
            random=random,
            tally=tally,
            retries=retries,
            rewound=rewound,
            log=log,
        )
        self.current: dict[str, Assigned] | None = None
        self.owned: dict[str, WorkItem] = {}
        self._keeping = False

    def start(self) -> None:
        """
        Begin to follow them.
        """
        self._watch.start()

    def restart(self) -> None:
        """
        Read them from the beginning, now.
        """
        self._watch.restart()

    def stop(self) -> Deferred[None]:
        """
        Follow them no more; what is heeded stays.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._soaking.cancel()
        return self._watch.stop()

    def forget(self, work: str, index: int) -> None:
        """
        Consul knows better than what was last read: heed an assignment no more
        if it is the one of that index, until they have been read again.
        """
        if self.current is not None:
            seen = self.current.get(work)
            if seen is not None and seen.index == index:
                del self.current[work]

    @property
    def pause(self) -> float:
        """
        Seconds until what Consul has forgotten may start here again.
        """
        return self._forgotten.pause if self._keeping else 0.0

    def own(self, work: str, item: WorkItem) -> None:
        """
        Note that we have claimed what is assigned.
        """
        if self.current is not None and work in self.current:
            self.owned[work] = item

    def learn(self, work: str, item: WorkItem) -> None:
        """
        Note what an item is by now, if it is one that we have claimed.
        """
        if work in self.owned:
            self.owned[work] = item

    def claimed(self, index: int, term: Entry | None) -> None:
        """
        Note that owner records were written, at that index, and how the term
        record was then.
        """
        self._forgotten.claimed(index, term)

    def keep(self) -> None:
        """
        Consul has forgotten what it assigned: heed what we own in its place.
        """
        self._candidate = {
            work: Assigned(0, 0, RUN, item, TROUBLE)
            for work, item in self.owned.items()
        }
        self._soaking.cancel()
        self._heed()
        self._keeping = True

    @inlineCallbacks
    def _read(self, index: int, wait: float, consistent: bool) -> Steps[Reading]:
        reading: Reading = yield self._api.list(
            self._prefix, index=index, wait=wait, consistent=consistent
        )
        if self.current and not reading.entries:
            reading = yield list_again(self._api, self._prefix)
            if not reading.entries:
                yield self._look_whether_forgotten()
        return reading

    @inlineCallbacks
    def _look_whether_forgotten(self) -> Steps[None]:
        forgotten: bool = yield self._forgotten.look()
        if self._keeping and not forgotten:
            # That nothing is assigned to us is no news to the watch.
            self._candidate = {}
            self._heed()

    def _seen(self, reading: Reading) -> None:
        if self._keeping and not reading.entries:
            # What is kept is heeded already.
            return
        self._forgotten.over()
        found = self._parse(reading)
        if found == self.current:
            # Back where we were within the soak: nothing happened.
            self._candidate = None
            self._soaking.cancel()
            return
        now, soak = self._reactor.seconds(), self._settings.worker_soak
        if self._candidate is None:
            self._soaked_by = now + MOST_SOAKS * soak
        self._candidate = found
        if self.current is None:
            self._heed()
        else:
            self._soaking.set(min(soak, self._soaked_by - now))

    def _parse(self, reading: Reading) -> dict[str, Assigned]:
        """
        Read the entries; those that were read before are as they were.
        """
        known = self._candidate or self.current or {}
        found = {}
        start = len(self._prefix)
        for entry in reading.entries:
            work = entry.key[start:]
            if not is_work_id(work):
                continue
            before = known.get(work)
            if before is None or before.index != entry.modify_index:
                before = Assigned.from_entry(self._instance_id, work, entry)
                if before.odd:
                    self._log.warning(
                        "assignment-odd",
                        work=work,
                        problem=before.odd,
                        effect="it counts as an empty one",
                    )
            found[work] = before
        return found

    def _heed(self) -> None:
        if self._candidate is None:
            return
        self._keeping = False
        before = self.current or {}
        self.current, self._candidate = self._candidate, None
        self.owned = {w: i for w, i in self.owned.items() if w in self.current}
        if before or self.current:
            self._log.info(
                "my-assignments-changed", old=len(before), new=len(self.current)
            )
        self._changed(before)
