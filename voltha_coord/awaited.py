"""
Items that somebody else still owns, and when they may be had.

# Note [Waiting for an owner]

An item that somebody else owns cannot be claimed, and nobody tells when it can.
While there are such items a watch wakes at every change of any owner record, at
the cost of one name (see :mod:`~voltha_coord.changes`), and they are claimed
again at once, ``CLAIM_PAUSE`` seconds after the last time at the earliest.
Should a wake be missed, they are looked at after a pause that grows.

The watch goes on for a while when nothing is waited for any more: a query that
is given up holds its connection on the agent until its wait is over, so one that
came and went with each item would cost one for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from ._loops import Timer
from .changes import Changes

#: What others own is claimed again no earlier than after so many seconds.
CLAIM_PAUSE = 0.05

#: Without a wake it is looked at after so many seconds: first, and at most.
LOOK_AGAIN = (0.05, 0.5)


class Awaited:
    """
    Remembers such items; see Note [Waiting for an owner].

    :ivar items: the ModifyIndex of our assignment of each, by work id.
    :ivar woken: whether some owner record has changed since they were tried.

    :param changes: makes the watch of the owner records, given what it calls.
    :param linger: the watch goes on for so many seconds.
    :param attend: called when they may be tried again.
    :param random: for jitter, in [0, 1).
    """

    def __init__(
        self,
        reactor: IReactorTime,
        changes: Callable[[Callable[[], None]], Changes],
        *,
        linger: float,
        attend: Callable[[], None],
        random: Callable[[], float],
    ) -> None:
        self._reactor = reactor
        self._changes = changes(self._owners_changed)
        self._linger = linger
        self._lingering = Timer(reactor, self._watch_no_more)
        self._attend = attend
        self._random = random
        self._pause = LOOK_AGAIN[0]
        self._tried_at = -math.inf
        self._due_at = math.inf
        self.items: Mapping[str, int] = {}
        self.woken = False

    @property
    def due(self) -> bool:
        """
        Whether they are to be tried again now.
        """
        return self._reactor.seconds() >= self._due_at

    @property
    def wait(self) -> float | None:
        """
        The seconds until they are to be tried again, ``None`` without any.
        """
        if not self.items:
            return None
        return max(0.0, self._due_at - self._reactor.seconds())

    def hurry(self) -> None:
        """
        Begin with short pauses again.
        """
        self._pause = LOOK_AGAIN[0]

    def tried(self, items: Mapping[str, int]) -> None:
        """
        Wait for these, and for no others, from now on: they were tried.
        """
        self._tried_at = self._reactor.seconds()
        self._due_at = self._tried_at + self._pause * (0.5 + 0.5 * self._random())
        if not self.woken:
            self._pause = min(2 * self._pause, LOOK_AGAIN[1])
        self.woken = False
        self._wait_for(items)

    def keep(self, items: Mapping[str, int]) -> None:
        """
        Wait for these, and for no others; nothing was tried but what is new.
        """
        if not self.items:
            self.tried(items)
        else:
            self._wait_for(items)

    def _wait_for(self, items: Mapping[str, int]) -> None:
        self.items = items
        if items:
            self._lingering.cancel()
            self._watch()
        else:
            self.hurry()
            self._due_at = math.inf
            self._lingering.set(self._linger)

    def restart(self) -> None:
        """
        Watch from the beginning.
        """
        self._changes.restart()

    def stop(self) -> Deferred[None]:
        """
        Wait for nothing any more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._lingering.cancel()
        return self._changes.stop()

    def _owners_changed(self) -> None:
        if self.items:
            self.woken = True
            soonest = max(self._reactor.seconds(), self._tried_at + CLAIM_PAUSE)
            self._due_at = min(self._due_at, soonest)
            self._attend()

    def _watch_no_more(self) -> None:
        # By the time it has ended something may be waited for again.
        self._changes.stop().addCallback(lambda _: self._watch())

    def _watch(self) -> None:
        if self.items and not self._changes.running:
            self._changes.start()
