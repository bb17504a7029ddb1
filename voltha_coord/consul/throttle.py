"""
A token bucket.  Pure but for the clock it is given.
"""

from __future__ import annotations

from collections.abc import Callable

#: Clocks are floats: a token this nearly there is there.
_ROUNDING = 1e-9


class TokenBucket:
    """
    Allows ``burst`` actions at once, and then one in ``refill`` seconds.

    :param now: a clock, in seconds.
    :param burst: how many tokens it holds at most.
    :param refill: seconds until one more token is there.
    """

    def __init__(self, now: Callable[[], float], burst: int, refill: float) -> None:
        self._now = now
        self._burst = float(burst)
        self._refill = refill
        self._tokens = self._burst
        self._counted = now()

    def _count(self) -> None:
        now = self._now()
        earned = max(0.0, now - self._counted) / self._refill
        self._tokens = min(self._burst, self._tokens + earned)
        self._counted = now

    def delay(self) -> float:
        """
        Give the seconds until a token is there; 0 when one is.
        """
        self._count()
        missing = 1.0 - self._tokens
        return missing * self._refill if missing > _ROUNDING else 0.0

    def take(self) -> None:
        """
        Use a token up.
        """
        self._count()
        self._tokens -= 1.0
