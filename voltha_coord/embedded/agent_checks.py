"""
A TTL check as the agent it is registered with keeps it.
"""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall

from .catalog import Check


class LocalCheck:
    """
    A TTL check with its timers.

    :ivar check: what the agent knows of it, not always what the catalog has.
    :ivar ttl: seconds it may go without an update.
    :ivar reap_after: seconds of critical after which its service is removed;
        0 for never.
    :ivar said: the last output it was updated with.
    :ivar in_sync: whether the catalog was told of it as it is.
    :ivar due: when its TTL is over.
    """

    def __init__(self, check: Check, ttl: float, reap_after: float) -> None:
        self.check = check
        self.ttl = ttl
        self.reap_after = reap_after
        self.said = ""
        self.in_sync = False
        self.due = 0.0
        self.lapse: IDelayedCall | None = None
        self.reap: IDelayedCall | None = None

    def cancel(self) -> None:
        """
        Let no timer of it run.
        """
        for timer in (self.lapse, self.reap):
            if timer is not None and timer.active():
                timer.cancel()
