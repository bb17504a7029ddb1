"""
A member as its parts see it: whom they ask, and whom they tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from .consul.model import ServiceSpec
from .interfaces import ILeader, IPlanner, IWorker
from .records import Member


@frozen
class Whole:
    """
    What the parts ask of the member they belong to.  Each is asked anew whenever
    it is needed.

    :ivar worker: gives what runs its work, once that is made.
    :ivar can_lead: whether it takes part in the election.
    :ivar is_leader: whether it leads at this very instant.
    :ivar is_ready: whether it is a member, a leader is known, and it is not on its
        way out.
    :ivar leaving: whether it is on its way out, or gone.
    :ivar record: gives its record, as it is now.
    :ivar service: gives the service of a check, by what makes it unique.
    :ivar make_leader: makes the leader of a term.
    :ivar make_emergency_planner: makes what plans for it while it is cut off.
    """

    worker: Callable[[], IWorker]
    can_lead: Callable[[], bool]
    is_leader: Callable[[], bool]
    is_ready: Callable[[], bool]
    leaving: Callable[[], bool]
    record: Callable[[], Member]
    service: Callable[[str], ServiceSpec]
    make_leader: Callable[[], ILeader]
    make_emergency_planner: Callable[[], IPlanner]


class Hears(Protocol):
    """
    Who is told by the parts.
    """

    def lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended.
        """

    def membership_changed(self) -> None:
        """
        Our session holds our member key now, or no more.
        """

    def leader_known(self, leader_id: str | None) -> None:
        """
        Somebody else holds the leader key, or nobody.
        """

    def deposed(self, reason: str) -> None:
        """
        This member's term is over.
        """

    def leader_at_rest(self) -> None:
        """
        The leader of a term that is over is at rest.
        """

    def emergency_changed(self) -> None:
        """
        An emergency came, or what goes on in it changed, or it is over.
        """

    def answers_again(self) -> None:
        """
        Consul answers after an outage.
        """

    def look_again(self) -> None:
        """
        Consul may be in an older state than it was.
        """

    def may_lead(self) -> bool:
        """
        Whether this member may be a candidate now.
        """
