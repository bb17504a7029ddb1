"""
The role of a member: what it is at the moment, and what follows from it.

:data:`RoleMachine` turns a :class:`RoleCore` into a :class:`Role`.  It makes no
request: the election tells it what happened; it makes the leader of a term,
halts it, and says what role that is.

It is told level-triggered: ``leader_known`` or ``leaderless`` follows from what
is known of the leader key, ``alarm`` or ``all_clear`` from what is known of the
outage.  A repeat, or one that comes at a moment when it does not matter, is
ignored; whoever calls ``settled`` and ``all_clear`` says once more then who
leads.  What is not declared here cannot happen, and raises.

# Note [Roles without a leader]

A member that may not lead is never a candidate: it is a follower also while it
knows of no leader to follow.

# Note [Emergencies and the role]

An emergency is a role because every other one is over by then: the lease has
ended, so this member leads no more, and whom it followed is long not known for
certain.  It yields to whatever is more certain than the lack of contact:

- Who leads has a lease.  An alarm that comes then is late, and so is an
  all-clear: neither touches the role.  One elected in an emergency leads at
  once, whether the all-clear has come or not.
- The leader of the last term may still be halting.  The role is ``emergency``
  all the same, and no term begins before that leader is at rest.
- Who is on its way out goes on with that: an alarm changes nothing any more,
  and shutting down ends an emergency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import structlog
from attrs import Factory, define, field, frozen
from automat import TypeMachine, TypeMachineBuilder
from twisted.internet.defer import Deferred, maybeDeferred

from .term import Term

CANDIDATE = "candidate"
FOLLOWER = "follower"
LEADER = "leader"
EMERGENCY = "emergency"
DRAINING = "draining"
STOPPED = "stopped"


class Role(Protocol):
    """
    What can happen to a member.
    """

    def leader_known(self) -> None:
        """
        Another member holds the leader key.
        """

    def leaderless(self) -> None:
        """
        Nobody holds the leader key, as far as we know.
        """

    def elected(self, term: Term) -> None:
        """
        This member's term has begun.
        """

    def deposed(self) -> None:
        """
        This member's term is over.
        """

    def alarm(self) -> None:
        """
        This member has been cut off for so long that it is an emergency.
        """

    def all_clear(self) -> None:
        """
        There is no emergency, or none any more.
        """

    def drain(self) -> None:
        """
        This member is on its way out: it leads no more, and never again.
        """

    def stop(self) -> None:
        """
        This member has given everything back.
        """

    def _halted(self) -> None:
        """
        The leader of the last term is at rest.
        """


@define
class RoleCore:
    """
    What all states share.

    :ivar make_leader: begins to lead a term; gives how to halt it.
    :ivar entered: called with the name of each role that is entered, once the
        machine is in it.
    :ivar settled: called when the leader of a term that is over is at rest.
    :ivar can_lead: whether this member may ever lead; see Note [Roles without a
        leader].
    :ivar halting: whether one is not yet at rest; no term may begin then.
    """

    make_leader: Callable[[Term], Callable[[], Deferred[None] | None]]
    entered: Callable[[str], None]
    settled: Callable[[], None]
    log: Any = field(factory=lambda: structlog.get_logger(__name__))
    can_lead: bool = True
    name: str = field(default=Factory(lambda self: self.unled, takes_self=True))
    halting: bool = False

    @property
    def unled(self) -> str:
        """
        What this member is while it knows of no leader.
        """
        return CANDIDATE if self.can_lead else FOLLOWER

    def enter(self, name: str) -> None:
        """
        Take a role, and say so if it is another one.
        """
        if name != self.name:
            self.name = name
            self.entered(name)


@frozen
class Leadership:
    """
    What there is only while leading.

    :ivar halt: puts the leader of the term to rest.
    """

    halt: Callable[[], Deferred[None] | None]


def _build() -> TypeMachine[Role, RoleCore]:
    builder = TypeMachineBuilder(Role, RoleCore)

    def begin(role: Role, core: RoleCore, term: Term) -> Leadership:
        return Leadership(core.make_leader(term))

    def halt(role: Role, core: RoleCore, led: Leadership) -> None:
        core.halting = True
        halted = maybeDeferred(led.halt)
        halted.addErrback(
            lambda failure: core.log.error(
                "leader-not-halted", error=failure.getErrorMessage()
            )
        )
        halted.addCallback(lambda _: role._halted())

    # "resigning", "falling_back" and "handing_over" all wait for a leader to be at
    # rest; they differ in what comes after.
    candidate = builder.state("candidate")
    follower = builder.state("follower")
    leading = builder.state("leading", begin)
    resigning = builder.state("resigning")
    emergency = builder.state("emergency")
    falling_back = builder.state("falling_back")
    handing_over = builder.state("handing_over")
    draining = builder.state("draining")
    stopped = builder.state("stopped")

    # What changes nothing.
    candidate.upon(Role.leaderless).loop().returns(None)
    candidate.upon(Role.deposed).loop().returns(None)
    candidate.upon(Role.all_clear).loop().returns(None)
    follower.upon(Role.leader_known).loop().returns(None)
    follower.upon(Role.deposed).loop().returns(None)
    follower.upon(Role.all_clear).loop().returns(None)
    leading.upon(Role.leader_known, nodata=True).loop().returns(None)
    leading.upon(Role.leaderless, nodata=True).loop().returns(None)
    leading.upon(Role.alarm, nodata=True).loop().returns(None)
    leading.upon(Role.all_clear, nodata=True).loop().returns(None)
    resigning.upon(Role.all_clear).loop().returns(None)
    for deaf in (resigning, emergency, falling_back, handing_over, draining, stopped):
        deaf.upon(Role.leader_known).loop().returns(None)
        deaf.upon(Role.leaderless).loop().returns(None)
        deaf.upon(Role.deposed).loop().returns(None)
    for alarmed in (emergency, falling_back):
        alarmed.upon(Role.alarm).loop().returns(None)
    for leaving in (handing_over, draining, stopped):
        leaving.upon(Role.alarm).loop().returns(None)
        leaving.upon(Role.all_clear).loop().returns(None)
        leaving.upon(Role.drain).loop().returns(None)
    stopped.upon(Role.stop).loop().returns(None)
    stopped.upon(Role._halted).loop().returns(None)

    # What changes the role.
    @candidate.upon(Role.leader_known).to(follower)
    def follow(role: Role, core: RoleCore) -> None:
        core.enter(FOLLOWER)

    @follower.upon(Role.leaderless).to(candidate)
    @emergency.upon(Role.all_clear).to(candidate)
    def stand(role: Role, core: RoleCore) -> None:
        core.enter(core.unled)

    @candidate.upon(Role.elected).to(leading)
    @follower.upon(Role.elected).to(leading)
    @emergency.upon(Role.elected).to(leading)
    def lead(role: Role, core: RoleCore, term: Term) -> None:
        core.enter(LEADER)

    @leading.upon(Role.deposed).to(resigning)
    def resign(role: Role, core: RoleCore, led: Leadership) -> None:
        core.enter(core.unled)
        halt(role, core, led)

    @resigning.upon(Role._halted).to(candidate)
    @falling_back.upon(Role._halted).to(emergency)
    @handing_over.upon(Role._halted).to(draining)
    def come_to_rest(role: Role, core: RoleCore) -> None:
        core.halting = False
        core.settled()

    @candidate.upon(Role.alarm).to(emergency)
    @follower.upon(Role.alarm).to(emergency)
    @resigning.upon(Role.alarm).to(falling_back)
    def be_alone(role: Role, core: RoleCore) -> None:
        core.enter(EMERGENCY)

    @falling_back.upon(Role.all_clear).to(resigning)
    def go_on_resigning(role: Role, core: RoleCore) -> None:
        core.enter(core.unled)

    @candidate.upon(Role.drain).to(draining)
    @follower.upon(Role.drain).to(draining)
    @emergency.upon(Role.drain).to(draining)
    def begin_draining(role: Role, core: RoleCore) -> None:
        core.enter(DRAINING)

    @resigning.upon(Role.drain).to(handing_over)
    @falling_back.upon(Role.drain).to(handing_over)
    def go_on_halting(role: Role, core: RoleCore) -> None:
        core.enter(DRAINING)

    @leading.upon(Role.drain).to(handing_over)
    def hand_over(role: Role, core: RoleCore, led: Leadership) -> None:
        core.enter(DRAINING)
        halt(role, core, led)

    @handing_over.upon(Role.stop).to(stopped)
    @draining.upon(Role.stop).to(stopped)
    def stop(role: Role, core: RoleCore) -> None:
        core.enter(STOPPED)

    return builder.build()


RoleMachine = _build()
