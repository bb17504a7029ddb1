"""
Making a schedule that fails as short as it can be.

What happens after the breach is left out; then one half of the faults after the
other, a quarter after the other, and so on down to single ones, for as long as
the same law is broken without them.
"""

from __future__ import annotations

from collections.abc import Callable

from .play import Outcome
from .schedule import Schedule

#: So many times a schedule is played at most while it is made shorter.
MOST_PLAYS = 150


class Shortener:
    """
    Looks for the shortest schedule that breaks the same law.

    :ivar plays: how often one was played.

    :param play: plays a schedule.
    :param most: how often that is done at most.
    """

    def __init__(
        self, play: Callable[[Schedule], Outcome], most: int = MOST_PLAYS
    ) -> None:
        self._play = play
        self._most = most
        self.plays = 0

    def shorten(self, failed: Outcome) -> Outcome:
        """
        Give the outcome of the shortest schedule found.

        :param failed: an outcome with a breach.
        """
        assert failed.breach is not None
        law = failed.breach.law
        best = self._try(failed.schedule.before(failed.seconds), law) or failed
        size = len(best.schedule.faults)
        while size > 0:
            numbers = best.schedule.numbers
            # The last ones first: most of what leads to a breach is near it.
            for start in reversed(range(0, len(numbers), size)):
                if self.plays >= self._most:
                    return best
                out = numbers[start : start + size]
                kept = [n for n in best.schedule.numbers if n not in out]
                best = self._try(best.schedule.only(kept), law) or best
            size //= 2
        return best

    def _try(self, schedule: Schedule, law: str) -> Outcome | None:
        self.plays += 1
        outcome = self._play(schedule)
        if outcome.breach is None or outcome.breach.law != law:
            return None
        return outcome
