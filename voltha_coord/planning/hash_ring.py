"""
The original coordinator's way to divide work: a consistent hash ring.

Kept to the item, so that a member of ours and one of the original agree on who
gets what, whichever of them leads.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections.abc import Iterable

from zope.interface import implementer

from ..interfaces import IPlanner
from .current import Current, kept, standstill
from .operations import Plan
from .state import ClusterState

#: Digests for each member, and points taken from each.
DIGESTS = 40
POINTS = struct.Struct("<3I")


def _md5(text: str) -> bytes:
    # A spread, not a secret: allowed where MD5 is otherwise forbidden (FIPS).
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


class HashRing:
    """
    A circle of 32-bit numbers on which each member has 120 points.

    The points of ``m`` are the first three little-endian words of the MD5 of
    ``m-0`` … ``m-39``.  An item stands at the first word of the MD5 of its id
    and belongs to the member of the next point after it, going round.

    :param members: their ids; none is no error until somebody asks.
    """

    def __init__(self, members: Iterable[str]) -> None:
        # Where points collide the last member in order has it, as in the
        # original, whose members came in key order.
        points = {
            point: member
            for member in sorted(members)
            for number in range(DIGESTS)
            for point in POINTS.unpack_from(_md5(f"{member}-{number}"))
        }
        self._points = sorted(points)
        self._members = [points[point] for point in self._points]

    def member_of(self, work: str) -> str:
        """
        Give the member an item belongs to.

        :raises IndexError: when the ring has no members.
        """
        place = bisect_right(self._points, POINTS.unpack_from(_md5(work))[0])
        return self._members[place if place < len(self._members) else 0]


@implementer(IPlanner)
class HashRingPlanner:
    """
    Gives each item to the member the original's ring gives it to.

    Weights are not looked at, save that members of weight 0 are not on the
    ring, like those that leave or are wanted away; when no other is left the
    items stay where they are.  Nor are members in maintenance on it, which keep
    what they have.
    """

    def plan(self, state: ClusterState) -> Plan:
        """
        Give what is to be done.
        """
        still = standstill(state)
        if still is not None:
            return still
        current = Current.of(state)
        stays = kept(state, current)
        ring = HashRing(state.receivers)
        after = {work: stays.get(work) or ring.member_of(work) for work in state.work}
        return Plan(current.operations(after), after)
