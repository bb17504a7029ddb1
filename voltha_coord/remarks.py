"""
What a leader says of what lies under the prefix: each thing once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .planning.actions import Move
from .planning.operations import Plan
from .planning.state import ClusterState

#: So many examples are named.
SOME = 5


class Remarks:
    """
    Says what is odd, and again only when it is otherwise.

    :param freeze: the key by which operators freeze planning.
    """

    def __init__(self, freeze: str, log: Any) -> None:
        self._freeze = freeze
        self._log = log
        self._said: dict[str, object] = {}

    def of(self, state: ClusterState) -> None:
        """
        Say what cannot be used, and whether planning is frozen.
        """
        if self._news("planning-frozen", state.frozen, unsaid=False):
            if state.frozen:
                self._log.warning(
                    "planning-frozen", key=self._freeze, reason=state.freeze_reason
                )
            else:
                self._log.info("planning-goes-on")
        if self._news("stray-keys", state.stray, unsaid=()) and state.stray:
            self._log.warning(
                "stray-keys", count=len(state.stray), some=list(state.stray[:SOME])
            )
        problems = tuple(sorted(state.problems.items()))
        if self._news("unreadable-values", problems, unsaid=()) and problems:
            self._log.warning(
                "unreadable-values", count=len(problems), some=dict(problems[:SOME])
            )

    def missing(self, members: Sequence[str], seconds: float) -> None:
        """
        Say which members are waited for, for so long.
        """
        if self._news("missing", list(members), unsaid=[]) and members:
            self._log.info(
                "waiting-for-members",
                count=len(members),
                some=list(members[:SOME]),
                seconds=round(seconds, 3),
            )

    def planned(self, plan: Plan, number: int) -> None:
        """
        Say what becomes of items that are not where they should be: which are
        kept for members that are gone, which begin to move, which cannot.

        :param number: of the pass.
        """
        if self._news("kept", plan.kept, unsaid=frozenset()) and plan.kept:
            self._log.warning(
                "work-kept",
                number=number,
                items=len(plan.kept),
                members=sorted({plan.placements[work] for work in plan.kept}),
                effect="it is placed anew if they are not back in node_recover_timeout",
            )
        for step in plan.steps:
            if isinstance(step, Move):
                self._log.info(
                    "work-moves",
                    number=number,
                    work=step.work,
                    source=step.source,
                    target=step.target,
                )
        skipped = tuple(sorted(plan.skipped.items()))
        if self._news("skipped", skipped, unsaid=()) and skipped:
            self._log.warning(
                "work-not-moved",
                number=number,
                items=len(skipped),
                some=dict(skipped[:SOME]),
            )

    def reminded(self, work: Iterable[str]) -> None:
        """
        Say of which items there is no owner record, though they run.
        """
        items = sorted(work)
        self._log.warning(
            "owner-records-missing",
            items=len(items),
            some=items[:SOME],
            effect="their members are made to look, and own them again or stop",
        )

    def _news(self, what: str, value: object, unsaid: object) -> bool:
        """
        Remember what was said; tell whether it is news.
        """
        news = self._said.get(what, unsaid) != value
        self._said[what] = value
        return news
