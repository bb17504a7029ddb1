"""
Pauses between attempts, and saying why there is one: not at every attempt, but
whenever the pauses grow, and again and again while an outage lasts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from ._loops import sleep
from .consul.backoff import Backoff

#: An outage that lasts is said again every so many seconds.
SAY_AGAIN = 60.0


class Pausing:
    """
    Waits out back-offs, and says so.

    :param now: the lease clock, in seconds.
    :param retries: waits out the back-offs.
    """

    def __init__(
        self, now: Callable[[], float], retries: IReactorTime, log: Any
    ) -> None:
        self._now = now
        self._retries = retries
        self._log = log
        self._said_at = math.inf

    def pause(
        self, backoff: Backoff, event: str, error: Exception, patience: float = 0.0
    ) -> Deferred[None]:
        """
        Wait for the next step of a back-off.

        :param event: what is logged.
        :param error: why it is waited; a back-off may mind it.
        :param patience: up to this pause, in seconds, it is not worth a word.
        :return: a Deferred that fires when the time has come; it can be
            cancelled.
        """
        seconds = backoff.next(error)
        now = self._now()
        # Once for each step; the last one goes on for as long as the outage.
        grew = backoff.grew and seconds >= patience
        loud = grew or now >= self._said_at + SAY_AGAIN
        if loud:
            self._said_at = now
        log = self._log.error if loud else self._log.debug
        log(event, retry_in=round(seconds, 3), error=str(error))
        return sleep(self._retries, seconds)
