"""
Going on with changed descriptions of items.

# Note [How a changed value is noticed]

Where assignments carry the item, a changed item is a changed assignment.  Where
they are empty, the values under ``work/`` count, whatever the runner: the order of an
item is heeded by the worker itself.  One watch tells that some value has changed
(see :mod:`~voltha_coord.changes`); which of ours have is asked by their indexes,
without reading any; and what has changed is read.  An item whose start failed is
tried again with what it is by then: that somebody has put it right is what a
second attempt is for.  The watch begins with the first item here whose assignment
is empty: it takes one of few connections.

A value that is gone changes nothing: the leader takes the assignment away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._types import Steps
from .changes import Changes
from .consul.api import ConsulApi
from .consul.model import Entry
from .consul.watch import WatchTally
from .item import FAILED, STOPPING, Item
from .keys import Keys
from .ownership import Ownership
from .records import WorkItem
from .running import RunningItems

#: Between two questions about what has changed, in seconds, at least.
REFRESH_PAUSE = 0.5

#: So many times as long as it takes to ask, it is not asked again: of ten
#: thousand items it takes a while.
REST = 10


class Descriptions:
    """
    Keeps descriptions up to date; see Note [How a changed value is noticed].

    :param learned: told what an item is by now.
    :param attend: called when there is something to :meth:`refresh`.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        ownership: Ownership,
        running: RunningItems,
        *,
        learned: Callable[[str, WorkItem], None],
        attend: Callable[[], None],
        wait: float,
        random: Callable[[], float],
        tally: WatchTally | None = None,
        retries: IReactorTime | None = None,
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._keys = keys
        self._ownership = ownership
        self._running = running
        self._learned = learned
        self._attend = attend
        self._seen = self._heeded = 0
        self._not_before = -math.inf
        self._over = False
        self._changes = Changes(
            reactor,
            api,
            keys.work,
            self._changed,
            name="work-values",
            wait=wait,
            pause=REFRESH_PAUSE,
            random=random,
            tally=tally,
            retries=retries,
            log=log,
        )

    def restart(self) -> None:
        """
        Follow them from the beginning.
        """
        self._changes.restart()

    def stop(self) -> Deferred[None]:
        """
        Follow them no more, whatever is refreshed after this.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._over = True
        return self._changes.stop()

    def _changed(self) -> None:
        self.look()
        self._attend()

    def look(self) -> None:
        """
        Something may have changed, as far as is known here.
        """
        self._seen += 1

    @inlineCallbacks
    def refresh(self) -> Steps[float | None]:
        """
        Read what has changed of the items that are here, and go on with it.

        :return: a Deferred that fires with the seconds after which to come back,
            ``None`` for never; or fails with :class:`ConsulError`.
        """
        self._follow()
        began = self._reactor.seconds()
        changes = self._seen
        stale = changes != self._heeded
        wait = self._not_before - began
        if stale and wait > 0:
            return wait
        asked = {
            self._keys.work_item(item.id): item
            for item in self._running.items.values()
            if item.described is not None
            and (item.state != STOPPING or item.stays)
            and (stale or self._to_be_tried(item))
        }
        if asked:
            yield self._read(asked)
        self._heeded = changes
        self._not_before = began + REST * (self._reactor.seconds() - began)
        return None

    def _follow(self) -> None:
        """
        Begin to watch once there is something whose value counts.
        """
        if not self._changes.running and not self._over:
            items = self._running.items.values()
            if any(item.described is not None for item in items):
                self._changes.start()

    def _to_be_tried(self, item: Item) -> bool:
        return item.state == FAILED and item.retry_at <= self._reactor.seconds()

    @inlineCallbacks
    def _read(self, asked: dict[str, Item]) -> Steps[None]:
        changed: tuple[str, ...] = yield self._ownership.changed(
            {key: item.described or 0 for key, item in asked.items()}
        )
        if not changed:
            return
        found: dict[str, Entry] = yield self._ownership.read(changed)
        for key in changed:
            item, entry = asked[key], found.get(key)
            if self._running.items.get(item.id) is not item:
                continue
            if entry is None:
                item.described = 0
                continue
            item.described = entry.modify_index
            description = WorkItem.from_value(item.id, entry.value)
            self._running.change(item, description)
            self._learned(item.id, description)
