"""
What follows for the others from what one part of a member tells.

The parts do not know each other's needs.  Each says here what has happened to it,
and here it is decided who is woken, and in which order.
"""

from __future__ import annotations

from .advice import compare_timing
from .consul.requester import Outcome
from .events import ConnectionChanged, Event, LeaderChanged
from .ground import Ground
from .whole import Whole
from .wiring import Parts, wire


class Consequences:
    """
    Is told by the parts, and tells the others.

    :ivar parts: the parts, which it has made.
    """

    def __init__(self, ground: Ground, whole: Whole) -> None:
        self._ground = ground
        self._whole = whole
        self._log = ground.log
        self._last_leader: str | None = None
        self.parts: Parts = wire(ground, whole, self)

    # Consul.

    def request_ended(self, outcome: Outcome) -> None:
        """
        Whatever came of a request: this process is awake, and knows more.
        """
        self._ground.steady.resync()
        self._ground.tally.requests.ended(outcome)
        self.parts.link.ended(outcome)

    def answers_again(self) -> None:
        """
        Consul answers after an outage: nobody need wait any longer.
        """
        self._ground.requester.give_up_lost()
        self._ground.retry_timers.hasten()

    def look_again(self) -> None:
        """
        Read everything anew: Consul may be in an older state than it was.
        """
        self.parts.membership.look_again()
        self.parts.election.look_again()
        self.parts.employing.look_again()
        self.parts.locks.look_again()

    def heard(self, event: Event) -> None:
        """
        Something has happened of which everybody is told who listens.
        """
        if isinstance(event, ConnectionChanged):
            self.parts.emergency.connection_changed()

    # The lease, the membership and the emergency.

    def lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended.
        """
        self.parts.election.wake()
        self.parts.membership.wake()
        self.parts.emergency.lease_changed()
        self.parts.employing.lease_changed()
        self.parts.locks.lease_changed()
        self.parts.link.lease_changed()
        self.parts.readiness.look()

    def membership_changed(self) -> None:
        """
        Our session holds our member key now, or no more.
        """
        self._begin_once()
        self.parts.employing.lease_changed()
        self.parts.election.wake()
        self.parts.readiness.look()

    def _begin_once(self) -> None:
        """
        Do what is done once this is a member for the first time.
        """
        parts, ground = self.parts, self._ground
        if parts.employing.started or not parts.membership.joined:
            return
        if self._whole.leaving():
            return
        parts.employing.start()
        parts.tasks.spawn(
            "compare-timing",
            compare_timing,
            ground.api,
            ground.settings,
            parts.session.session_ttl,
            self._log,
        )

    def emergency_changed(self) -> None:
        """
        An emergency came, or what goes on in it changed, or it is over.
        """
        if self.parts.emergency.active:
            self.parts.acting.alarm()
        elif not self._whole.leaving():
            self.parts.acting.all_clear()
        self.parts.employing.emergency_changed()

    # Who leads.

    def may_lead(self) -> bool:
        """
        Whether this member may be a candidate now.
        """
        whole = self._whole
        return whole.can_lead() and self.parts.membership.joined and not whole.leaving()

    def leader_known(self, leader_id: str | None) -> None:
        """
        Somebody else holds the leader key, or nobody.
        """
        self.parts.acting.look()
        previous, self._last_leader = self._last_leader, leader_id
        self._log.info("leader-changed", leader_id=leader_id, previous=previous)
        self.parts.listeners.tell(LeaderChanged(leader_id, previous))
        self.parts.readiness.look()

    def deposed(self, reason: str) -> None:
        """
        This member's term is over.

        :param reason: why, in kebab-case.
        """
        if self._whole.leaving():
            self.parts.acting.drain()
        else:
            self.parts.acting.deposed()
        self.parts.hand_over.deposed(reason)

    def leader_at_rest(self) -> None:
        """
        The leader of a term that is over is at rest: another term may begin.
        """
        self.parts.election.wake()
