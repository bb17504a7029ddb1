"""
Taking over the work of the others, in an emergency.

What is taken over is planned once, when it is time, by what was last known of
the cluster; nothing can be learned of it before the emergency is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.interfaces import IReactorTime

from .planning.takeover import Takeover
from .wakeful import FIRST_CHANCE_SECONDS, WakefulTimer

#: So many ids, and so many reasons, are named in a log event at most.
MOST_NAMED = 5


class TakingOver:
    """
    Begins the work of the others, and ends it.

    :ivar extra: what runs here only because of the emergency: the values, by
        work id.

    :param reactor: its clock is the lease clock.
    :param connected: whether Consul answers at the moment.
    :param plan: gives what to take over; ``None`` while nothing is known of the
        cluster.
    :param changed: called when :attr:`extra` has changed by itself.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        *,
        connected: Callable[[], bool],
        plan: Callable[[], Takeover | None],
        changed: Callable[[], None],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._connected = connected
        self._plan = plan
        self._changed = changed
        self._log = log
        self._timer = WakefulTimer(reactor, self._begin)
        self.extra: Mapping[str, bytes] = {}

    @property
    def due_in(self) -> float | None:
        """
        Seconds until it begins; ``None`` when it has begun, or never will.
        """
        due = self._timer.due
        return None if due is None else max(0.0, due - self._reactor.seconds())

    def begin_at(self, when: float) -> None:
        """
        Begin at that time on the clock, unless it is ended before.
        """
        self._timer.at(when)

    def end(self) -> int:
        """
        End it, or do not begin.

        :return: how many items are to stop.
        """
        self._timer.cancel()
        extra, self.extra = self.extra, {}
        return len(extra)

    def _begin(self) -> None:
        if self._connected():
            # Contact, or a refusal, ends the emergency; or silence goes on.
            self._timer.at(self._reactor.seconds() + FIRST_CHANCE_SECONDS)
            return
        takeover = self._planned()
        if takeover is None:
            return
        self.extra = takeover.items
        reasons = sorted(set(takeover.left_out.values()))
        self._log.critical(
            "work-taken-over",
            items=len(takeover.items),
            some=list(takeover.items)[:MOST_NAMED],
            left_out=len(takeover.left_out),
            reasons=reasons[:MOST_NAMED],
            known_seconds_ago=round(takeover.age, 3),
            effect="every member that is cut off does this, so an item may run "
            "once on each of them, and once more where Consul is reached; all of "
            "this work ends here upon contact",
        )
        self._changed()

    def _planned(self) -> Takeover | None:
        try:
            planned = self._plan()
        except Exception as error:
            # The planner may be anybody's.
            self._log.exception("takeover-not-planned", error=str(error))
            return None
        if planned is None:
            self._log.error(
                "takeover-not-planned",
                error="nothing was read of the cluster before contact was lost",
                effect="this member goes on with what it runs, and with nothing else",
            )
        return planned
