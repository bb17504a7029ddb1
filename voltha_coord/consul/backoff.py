"""
How long to wait before trying again.  Pure: yields numbers, knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import ConsulError
from ..settings import RETRY_STEPS

#: A pause is at least this part of its step; the rest is drawn at random, so
#: that members which lost Consul together do not come back together.
JITTER_FLOOR = 0.5


class Backoff:
    """
    The pauses of one activity.  Two activities never share one: a watch that
    fails must not slow down a renewal (defect B12).

    :param random: a number in [0, 1), anew at each call.
    :param steps: the longest pause of each attempt, in seconds; the last one
        is repeated.
    """

    def __init__(
        self, random: Callable[[], float], steps: Sequence[float] = RETRY_STEPS
    ) -> None:
        self._random = random
        self._steps = tuple(steps)
        self._taken = 0

    @property
    def grew(self) -> bool:
        """
        Whether the last pause was on a step not reached before since the last
        :meth:`clear`: the moments worth a log line.
        """
        return 0 < self._taken <= len(self._steps)

    def next(self, error: Exception | None = None) -> float:
        """
        Give the next pause, in seconds, and go one step on.

        :param error: why there is one.  What it asks for is granted, up to the
            longest step: whoever answers for Consul cannot put us to sleep.
        """
        step = self._steps[min(self._taken, len(self._steps) - 1)]
        self._taken += 1
        pause = step * (JITTER_FLOOR + (1 - JITTER_FLOOR) * self._random())
        asked = error.retry_after if isinstance(error, ConsulError) else 0.0
        return max(pause, min(asked, self._steps[-1]))

    def clear(self) -> None:
        """
        Start from the first step again: it worked.
        """
        self._taken = 0
