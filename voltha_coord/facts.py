"""
What can be seen of a member: how it is at this moment, by what its parts know.

Looking changes nothing, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import frozen

from .events import Connection
from .ground import Ground
from .interfaces import ILeader, IWorker
from .term import Term
from .wiring import Parts


@frozen
class LeaseView:
    """
    The lease as the application sees it, at the moment it is looked at.

    :ivar token: the fencing token of the term; ``None`` when not leading.
        Hand it to whatever can refuse writes with a lower one.
    :ivar remaining: seconds left; 0 when there is no lease.
    :ivar session_id: the session it rests on; ``None`` without one.
    """

    token: int | None
    remaining: float
    session_id: str | None


class Facts:
    """
    How a member is.

    :param leaving: whether it is on its way out, or gone.
    """

    #: What runs the work of this member.
    worker: IWorker

    def __init__(
        self, ground: Ground, parts: Parts, leaving: Callable[[], bool]
    ) -> None:
        self._ground = ground
        self._parts = parts
        self._leaving = leaving
        self._made_at = ground.steady.seconds()
        self.instance_id = ground.instance_id
        self.settings = ground.settings
        self.keys = ground.keys
        self.log = ground.log
        self.steady = ground.steady
        self.wall_clock = ground.wall_clock
        self.random = ground.random
        #: What this member has counted so far.
        self.tally = ground.tally
        #: What this member has and uses, if it measures that.
        self.load = ground.load
        self.api = ground.api
        #: Waits out back-offs, which end early once Consul answers again.
        self.retry_timers = ground.retry_timers
        self.link = parts.link
        #: The election, also for what it has counted.
        self.election = parts.election
        self.session = parts.session
        self.succession = parts.succession
        self.hand_over = parts.hand_over
        self.view = parts.view
        self.emergency = parts.emergency

    @property
    def uptime(self) -> float:
        """
        Seconds since this Coordinator was made.
        """
        return self.steady.seconds() - self._made_at

    @property
    def session_id(self) -> str | None:
        """
        The id of the Consul session, ``None`` while there is none.
        """
        return self.session.session_id

    @property
    def term(self) -> Term | None:
        """
        The term this member leads, ``None`` when it does not.
        """
        return self.election.term

    @property
    def is_leader(self) -> bool:
        """
        Whether this member leads at this very instant.

        False from the deadline of the lease on, whatever Consul would say, and
        for ever within that term.
        """
        term = self.election.term
        return term is not None and term.active

    @property
    def i_am_leader(self) -> bool:
        """
        The same as :attr:`is_leader`, by the original's name.
        """
        return self.is_leader

    @property
    def leader(self) -> ILeader | None:
        """
        What leads while this member does, ``None`` while it does not.
        """
        return self._parts.leading.leader

    @property
    def leader_id(self) -> str | None:
        """
        The instance id of who holds the leader key, ``None`` for nobody.
        """
        return self.election.leader_id

    @property
    def lease(self) -> LeaseView:
        """
        The lease as it is now, and the fencing token if there is one.
        """
        lease, term = self.session.lease, self.election.term
        return LeaseView(
            term.token if term is not None and term.active else None,
            lease.remaining if lease is not None else 0.0,
            self.session_id,
        )

    @property
    def role(self) -> str:
        """
        What this member is: candidate, follower, leader, emergency, draining or
        stopped.  A member that may not lead is never a candidate.
        """
        return self._parts.acting.name

    @property
    def connection(self) -> Connection:
        """
        How it stands with Consul.
        """
        return self.link.connection

    @property
    def retries(self) -> int:
        """
        How many requests in a row went unanswered.
        """
        return self.link.unanswered

    @property
    def consul_address(self) -> str:
        """
        The agent that requests go to at the moment.
        """
        return self._ground.requester.address

    @property
    def member_key_held_by(self) -> str | None:
        """
        The session that holds our member key in our place, ``None`` if none.
        """
        return self._parts.membership.hindered_by

    @property
    def waiting_for_lease_of(self) -> str:
        """
        The session whose lease must be over before our term may begin.
        """
        return self.election.waiting_for

    @property
    def lock_delayed(self) -> bool:
        """
        Whether a lock-delay keeps us from the leader key.
        """
        return self.election.lock_delayed

    @property
    def is_member(self) -> bool:
        """
        Whether our session holds our member key.
        """
        return self._parts.membership.joined

    @property
    def is_ready(self) -> bool:
        """
        Whether this is a member, a leader is known, and it is not on its way
        out.
        """
        if self.shutting_down or not self.is_member:
            return False
        lease = self.session.lease
        return self.leader_id is not None and lease is not None and lease.active

    @property
    def work_deadline(self) -> float | None:
        """
        When work must have stopped unless more is acknowledged, on the lease
        clock; ``None`` before the first lease.  May be asked in any thread.
        """
        lease = self.session.lease
        return None if lease is None else lease.deadline

    @property
    def unstopped_work(self) -> Collection[str]:
        """
        The ids of the items that may be running here.  May be asked in any
        thread, but then raises ``RuntimeError`` when they change meanwhile.
        """
        unstopped: Collection[str] | None = getattr(self.worker, "unstopped", None)
        return self.worker.my_workload if unstopped is None else unstopped

    @property
    def shutting_down(self) -> bool:
        """
        Whether this member is on its way out, or gone.
        """
        return self._leaving()
