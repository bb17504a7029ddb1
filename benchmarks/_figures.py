"""
Figures: what repetitions took, their median and worst, and whether that is good
enough.

Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from attrs import field, frozen


@frozen
class Figure:
    """
    What one repetition took.

    :ivar seconds: in all.
    :ivar parts: what parts of it took, in their order.
    :ivar also: what else took how long.
    :ivar counts: what else was counted, and is to be nothing.
    """

    seconds: float
    parts: Mapping[str, float] = field(factory=dict)
    also: Mapping[str, float] = field(factory=dict)
    counts: Mapping[str, int] = field(factory=dict)


@frozen
class Target:
    """
    What is promised.

    :ivar seconds: the most it may take; ``None`` where only counts matter.
    :ivar of: ``median`` or ``worst``.
    """

    seconds: float | None
    of: str = "worst"

    def __str__(self) -> str:
        if self.seconds is None:
            return "nothing stops"
        return f"≤ {self.seconds:g} s {self.of}"


HEAD = (
    "| | runs | median | worst | target | |",
    "|---|---|---|---|---|---|",
)


def met(figures: Sequence[Figure], target: Target | None) -> bool:
    """
    Whether what was promised was kept; also that nothing happened that was to
    happen never.
    """
    if target is None:
        return True
    if any(count for figure in figures for count in figure.counts.values()):
        return False
    if target.seconds is None:
        return True
    seconds = [figure.seconds for figure in figures]
    found = statistics.median(seconds) if target.of == "median" else max(seconds)
    return found <= target.seconds


def line(what: str, figures: Sequence[Figure], target: Target | None) -> str:
    """
    Give the line of a table.
    """
    seconds = [figure.seconds for figure in figures]
    cells = [
        what,
        str(len(figures)),
        shown(statistics.median(seconds)),
        shown(max(seconds)),
        "" if target is None else str(target),
        "" if target is None else "met" if met(figures, target) else "MISSED",
    ]
    return f"| {' | '.join(cells)} |"


def notes(figures: Sequence[Figure]) -> list[str]:
    """
    Give where the time went, by medians, and what was counted, in all.
    """
    found = []
    for title, name in (("of that", "parts"), ("beside it", "also")):
        taken = [getattr(figure, name) for figure in figures]
        if taken[0]:
            medians = (
                f"{what} {shown(statistics.median(t[what] for t in taken))}"
                for what in taken[0]
            )
            found.append(f"{title} (medians): {', '.join(medians)}")
    counts = figures[0].counts
    if counts:
        sums = (f"{name}: {sum(f.counts[name] for f in figures)}" for name in counts)
        found.append(f"in all runs: {', '.join(sums)}")
    return found


def steps(since: float, done: Mapping[str, float]) -> dict[str, float]:
    """
    Give how long each step took, from when each was done, one after the other.
    """
    found = {}
    for name, at in done.items():
        found[name], since = at - since, at
    return found


def shown(seconds: float) -> str:
    """
    Write seconds as people read them.
    """
    if abs(seconds) < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s"
