"""
What may run no longer: stopped in time, killed, and told of.

# Note [Stopping within the lease]

``Settings.grace`` seconds before the right to run ends, items are stopped,
whatever the worker waits for.  A fifth of that before the end, those that have
not stopped are killed, as far as the runner can.  What has not stopped at the
end even so is *stuck*: another member may run it by now as well, which is told
as loudly as can be, once for each item.

A process that stood still may find on waking that it is too late for all of
this.  Then everything is stopped and killed first thing, and given that fifth
to end before it counts as stuck.  With ``keep`` and ``takeover`` the right ends
without notice, and long after others may have begun: what has been running twice
for so long is not worth a kill, and is given its grace.

The moments are looked for whenever something has changed; a lease that lasts
tells by itself when it is about to end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime

from ._loops import Timer
from .isolation import Rights
from .item import STOPPED, STOPPING, Item
from .leasing import TIMER_SLACK
from .running import RunningItems
from .settings import STOP, Settings

#: The part of the grace that is left when work is killed.
KILL_SHARE = 0.2

#: What is the matter with what is stuck.
STUCK = "not stopped, although the lease it ran under is over"

#: So many ids are named in a log event at most.
MOST_NAMED = 20


class Overdue:
    """
    Stops what may not run any more; see Note [Stopping within the lease].

    :param stuck: told, with their ids, of items that have not stopped in time.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        rights: Rights,
        settings: Settings,
        running: RunningItems,
        *,
        stuck: Callable[[tuple[str, ...]], None],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._rights = rights
        self._grace = grace = settings.grace
        self._margin = margin = KILL_SHARE * grace
        #: So many seconds any stop is given before the kill.
        self._least = 0.0 if settings.isolation == STOP else grace - margin
        self._running = running
        self._stuck = stuck
        self._log = log
        self._timer = Timer(reactor, self.look)
        self._told: frozenset[str] = frozenset()

    @property
    def stuck(self) -> frozenset[str]:
        """
        The ids of the items that are stuck.
        """
        return self._told

    def look(self) -> None:
        """
        Do what is due, and come back when something will be.
        """
        begun = 0
        stuck: list[str] = []
        next_look = math.inf
        for item in tuple(self._running.items.values()):
            lease = item.lease
            if item.state == STOPPED:
                # It needs no right, and stays to be confirmed.
                continue
            left = self._rights.until(lease) - self._reactor.seconds()
            if lease is None or left == math.inf:
                continue
            if left > self._grace + TIMER_SLACK:
                if not lease.active:
                    next_look = min(next_look, left - self._grace)
                continue
            if item.state != STOPPING:
                begun += 1
                self._running.stop(item, release=False)
            wait = self._press(item, left)
            if wait is None:
                stuck.append(item.id)
                item.error = item.error or STUCK
            else:
                next_look = min(next_look, wait)
        if begun:
            self._log.warning(
                "work-stopped",
                items=begun,
                effect="it stays ours, and goes on here when Consul allows",
            )
        self._tell(stuck)
        if next_look < math.inf:
            self._timer.set(next_look)
        else:
            self._timer.cancel()

    def item_stopped(self) -> None:
        """
        An item has stopped: it may have been a stuck one.
        """
        if self._told:
            self._timer.set(0.0)

    def cancel(self) -> None:
        """
        Look no more.
        """
        self._timer.cancel()

    def _press(self, item: Item, left: float) -> float | None:
        """
        See to an item that is being stopped, with so many seconds left.

        :return: the seconds until it is to be seen to again, ``None`` when it
            is stuck.
        """
        stopping = item.stopping
        if stopping is None or item.id not in self._running.items:
            return math.inf
        given = stopping.began + self._least - self._reactor.seconds()
        wait = max(left - self._margin, given)
        if wait > TIMER_SLACK:
            return wait
        stopping.kill()
        if item.stopping is not stopping or item.id not in self._running.items:
            return math.inf
        wait = max(left, given + self._margin)
        return wait if wait > TIMER_SLACK else None

    def _tell(self, stuck: list[str]) -> None:
        now = frozenset(stuck)
        news, before = now - self._told, self._told
        self._told = now
        if news:
            items = tuple(sorted(now))
            self._log.critical(
                "work-stuck",
                items=len(items),
                some=list(items[:MOST_NAMED]),
                effect="the lease is over: other members may run it now as well",
                action="end this process; give the runner a kill_work that works",
            )
            self._stuck(items)
        elif before and not now:
            self._log.warning("work-stuck-no-more", items=len(before))
