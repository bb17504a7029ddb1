"""
What is done when Consul turns out to be in an older state than it was.

Whatever was read by then may have been of another history, so it is read anew:
the leader key, the member key, the assignments, and what this member owns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .consul.history import Sign

#: All watches of a process notice the same within so many seconds.
ONCE_SECONDS = 5.0


class Rewinding:
    """
    Hears of signs from watches, and has everything read anew: once for each time
    that it may be so, and once more when it is certain.

    :param now: the lease clock, in seconds.
    :param look_again: has everything read anew.
    """

    def __init__(
        self, now: Callable[[], float], look_again: Callable[[], None], log: Any
    ) -> None:
        self._now = now
        self._look_again = look_again
        self._log = log
        self._heard: dict[Sign, float] = {}

    def noticed(self, sign: Sign) -> None:
        """
        A watch has found a sign.
        """
        now = self._now()
        if now < self._heard.get(sign, -math.inf) + ONCE_SECONDS:
            return
        self._heard[sign] = now
        if sign is Sign.LOWER:
            # It says all that a weaker sign might.
            self._heard[Sign.EARLY] = now
            self._log.warning(
                "consul-index-went-back",
                effect="everything is read anew; until then two may have led, or "
                "run an item",
                action="nothing, if somebody restored Consul; else look for who has",
            )
        self._look_again()
