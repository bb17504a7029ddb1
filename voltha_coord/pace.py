"""
When a pass of the leader is due.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .settings import MOST_SOAKS


class Pace:
    """
    Says when a pass is due; see Note [When a pass is made] of
    :mod:`~voltha_coord.pass_loop`.

    :param now: the time, in seconds.
    :param resync_interval: seconds between two consistent snapshots.
    :param interval: seconds between two passes at most, whatever they look at.
    """

    def __init__(
        self,
        now: Callable[[], float],
        resync_interval: float,
        interval: float = math.inf,
    ) -> None:
        self._now = now
        self._resync_interval = resync_interval
        self._interval = interval
        self._consistent_at = -math.inf
        self.begin()

    def begin(self) -> None:
        """
        A pass begins: what was wanted before is in what it looks at.
        """
        self._soak = self._latest = self._wanted = math.inf
        self._regular = self._now() + self._interval

    def want(self, soak: float) -> None:
        """
        Want a pass after so many seconds of quiet, or sooner if one is wanted
        sooner.
        """
        now = self._now()
        self._soak = min(self._soak, soak)
        self._latest = min(self._latest, now + MOST_SOAKS * soak)
        self._wanted = min(now + self._soak, self._latest)

    def want_by(self, when: float) -> None:
        """
        Want a pass then, whatever changes until then.
        """
        self._latest = min(self._latest, when)
        self._wanted = min(self._wanted, self._latest)

    def looked(self, when: float) -> None:
        """
        Note that a consistent snapshot was asked for then.
        """
        self._consistent_at = when

    @property
    def resync(self) -> float:
        """
        When the next consistent snapshot is due.
        """
        return self._consistent_at + self._resync_interval

    @property
    def due(self) -> float:
        """
        When the next pass is due.
        """
        return min(self._wanted, self.resync, self._regular)
