"""
The terms this member leads, one after the other: begun, ended, and counted.

# Note [Losing a term]

A term ends the moment this process can know that it has: when its lease is
over, when the leader key is seen in other hands, when a fenced write is
refused.  From then on ``term.active`` is false, whoever asks.  What follows can
take its time: the leader is halted, the term record says so, and the leader key
is given back if it is still ours.  A key once acquired serves one term: it is
given back even if the session lives on, because the next term needs a higher
fencing token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .fence import KEY_LOST, RECORD_CHANGED, RECORD_LOST
from .lease import LeaseEnd
from .tally import Reasons
from .term import UNSETTLED, Term

#: The reason a term ends in order.
SHUTTING_DOWN = "shutting-down"

#: The reason of a term whose leadership was handed over.
HANDED_OVER = "handed-over"

#: The reason of a term that is over, though its lease is not.
FENCED_OFF = "fenced-off"

#: The reasons why terms end that are known from the beginning; whoever gives
#: leadership up may have others.
REASONS = (
    *(end.value for end in LeaseEnd),
    SHUTTING_DOWN,
    HANDED_OVER,
    UNSETTLED,
    FENCED_OFF,
    KEY_LOST,
    RECORD_LOST,
    RECORD_CHANGED,
    "could-not-establish",
    "leader-not-made",
    "denied",
)


class Terms:
    """
    Knows the term this member leads; see the head of the module.

    :ivar term: the term, ``None`` while this member does not lead.
    :ivar begun: how many terms this member has led.
    :ivar ended: how many of them are over, by reason.

    :param elected: called with the :class:`Term` that has begun.
    :param deposed: called with the reason when a term is over.
    """

    def __init__(
        self,
        elected: Callable[[Term], None],
        deposed: Callable[[str], None],
        log: Any,
    ) -> None:
        self._elected = elected
        self._deposed = deposed
        self._log = log
        self.term: Term | None = None
        self.begun = 0
        self.ended = Reasons(REASONS)

    def begin(self, term: Term) -> None:
        """
        Lead a term.
        """
        self.term = term
        self.begun += 1
        self._log.info(
            "became-leader",
            fencing_token=term.token,
            session_id=term.lease.session_id,
        )
        self._elected(term)

    def end_if_over(self) -> None:
        """
        End the term if it is over by itself.
        """
        term = self.term
        if term is not None and term.over:
            ended = term.lease.ended
            self.end(FENCED_OFF if ended is None else ended.value)

    def end(self, reason: str) -> None:
        """
        End the term if there is one.

        :param reason: in kebab-case, for the log and the count.
        """
        term, self.term = self.term, None
        if term is None:
            return
        term.end()
        self.ended.note(reason)
        in_order = reason in (SHUTTING_DOWN, HANDED_OVER)
        log = self._log.info if in_order else self._log.warning
        log("lost-leadership", fencing_token=term.token, reason=reason)
        self._deposed(reason)
