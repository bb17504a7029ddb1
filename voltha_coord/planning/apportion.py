"""
How many items each member gets: Webster's (Sainte-Laguë's) apportionment.

# Note [Webster's apportionment]

Members have weights ``w``; ``K`` items are to be divided into counts ``n``.
Counts are *as even as can be* when for every two members ``i`` and ``j``::

    (2 n_i - 1) / w_i  <=  (2 n_j + 1) / w_j

which says: giving one item of ``i`` to ``j`` would not bring ``n_i / w_i`` and
``n_j / w_j`` closer to each other.  It follows that they differ by at most
``(1/w_i + 1/w_j) / 2``: by no more than one item for weights of 1 and above,
and for equal weights by at most one item.  Two more properties make moves few:
what is even among all members is even among any part of them, and with one
more item no member has to get fewer.  So when a member leaves, the others only
gain, and when one joins, the others only lose.

Such counts are found by handing the items out one by one, each to the member
with the smallest ``(2 n + 1) / w``.  Only the last of them can be a matter of
choice, where several members show the same number; it goes to those that have
the item already, which of all even counts gives those with the fewest moves.
Fractions are exact, so that a tie is seen as one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction


def apportion(
    weights: Mapping[str, float], items: int, held: Mapping[str, int]
) -> dict[str, int]:
    """
    Divide items among members as evenly as can be, and of all ways to do so
    choose one that lets the members keep most of what they hold; what is still
    free goes by member id.  See Note [Webster's apportionment].

    :param weights: of each member, finite and above 0; at least one member.
    :param items: how many there are.
    :param held: how many each member has now; a member may be missing.
    """
    names = sorted(weights)
    shares = _whole(weights[name] for name in names)
    counts = _even(shares, items)
    rungs = {Fraction(2 * n - 1, w) for n, w in zip(counts, shares, strict=True) if n}
    if not rungs:
        return dict.fromkeys(names, 0)
    last = max(rungs)
    sure = [
        n - 1 if n and Fraction(2 * n - 1, w) == last else n
        for n, w in zip(counts, shares, strict=True)
    ]
    tied = [
        place
        for place, (n, w) in enumerate(zip(sure, shares, strict=True))
        if Fraction(2 * n + 1, w) == last
    ]
    tied.sort(key=lambda place: held.get(names[place], 0) <= sure[place])
    for place in tied[: items - sum(sure)]:
        sure[place] += 1
    return dict(zip(names, sure, strict=True))


def _whole(weights: Iterable[float]) -> list[int]:
    """
    Give whole numbers in the same proportions.
    """
    exact = [Fraction(weight) for weight in weights]
    scale = math.lcm(*(share.denominator for share in exact))
    return [int(share * scale) for share in exact]


def _even(shares: list[int], items: int) -> list[int]:
    """
    Give counts that are as even as can be, ties settled anyhow.
    """
    total = sum(shares)
    # All items whose rung (2n - 1) / w is at most 2 * items / total: even, and
    # off the wanted sum by at most half an item a member.
    counts = [(2 * items * share + total) // (2 * total) for share in shares]
    missing = items - sum(counts)
    step = 1 if missing > 0 else -1
    heap = [
        (step * Fraction(2 * n + step, w), place)
        for place, (n, w) in enumerate(zip(counts, shares, strict=True))
    ]
    heapq.heapify(heap)
    for _ in range(abs(missing)):
        place = heap[0][1]
        counts[place] += step
        rung = Fraction(2 * counts[place] + step, shares[place])
        heapq.heapreplace(heap, (step * rung, place))
    return counts
