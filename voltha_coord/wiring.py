"""
The parts of a member, and how they hang together.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from ._loops import Tasks
from .acting import Acting
from .election import Election
from .emergency import Emergency
from .employing import Employing
from .events import Connection, Listeners
from .ground import Ground
from .handover import HandOver
from .last_known import LastKnown
from .leading import Leading
from .leaving import Leaving
from .link import Link
from .locks import Locks
from .membership import MemberKeeper
from .passing import Passing
from .planning.state import plans_by_resources
from .readiness import Readiness
from .retrying import Retrying
from .rewinding import Rewinding
from .session import SessionKeeper
from .succession import Succession
from .view import MembersView
from .whole import Hears, Whole


@frozen
class Parts:
    """
    What a member is made of.
    """

    tasks: Tasks
    listeners: Listeners
    link: Link
    retrying: Retrying
    session: SessionKeeper
    succession: Succession
    membership: MemberKeeper
    election: Election
    hand_over: HandOver
    leading: Leading
    acting: Acting
    employing: Employing
    readiness: Readiness
    view: MembersView
    last_known: LastKnown
    emergency: Emergency
    leaving: Leaving
    locks: Locks


def wire(ground: Ground, whole: Whole, hears: Hears) -> Parts:
    """
    Make the parts, each with what it needs and nothing else.  None is started.
    """
    steady, api, keys = ground.steady, ground.api, ground.keys
    settings, log = ground.settings, ground.log
    ours: dict[str, Any] = {"instance_id": ground.instance_id}
    shared: dict[str, Any] = {"random": ground.random, "log": log}
    waiting: dict[str, Any] = {"retries": ground.retry_timers, **shared}

    def leased() -> bool:
        lease = session.lease
        return lease is not None and lease.active

    def connected() -> bool:
        return link.connection is Connection.CONNECTED

    def record() -> bytes:
        return whole.record().encode()

    def counted(name: str) -> dict[str, Any]:
        return {"tally": ground.tally.watch(name)}

    tasks = Tasks(log)
    listeners = Listeners(log)
    link = Link(
        steady.seconds,
        leased,
        listeners.tell,
        log,
        answers_again=hears.answers_again,
    )
    rewinding = Rewinding(steady.seconds, hears.look_again, log)
    session = SessionKeeper(
        steady,
        api,
        settings,
        service=whole.service,
        session_name=f"voltha-coord {ground.instance_id}",
        held_keys=(keys.leader, keys.member(ground.instance_id)),
        changed=hears.lease_changed,
        **waiting,
    )
    succession = Succession(steady.seconds, api, settings.session_ttl)
    membership = MemberKeeper(
        steady,
        api,
        settings,
        session,
        key=keys.member(ground.instance_id),
        value=record,
        changed=hears.membership_changed,
        rewound=rewinding.noticed,
        **counted("member"),
        **waiting,
    )
    election = Election(
        steady,
        api,
        keys,
        settings,
        session,
        succession,
        standing=hears.may_lead,
        settled=lambda: acting.settled,
        elected=lambda term: acting.elected(term),
        deposed=hears.deposed,
        leader_changed=hears.leader_known,
        rewound=rewinding.noticed,
        **ours,
        **counted("leader"),
        **waiting,
    )
    leading = Leading(steady, whole.make_leader, election.give_up, log)
    acting = Acting(
        leader_id=lambda: election.leader_id,
        is_leader=whole.is_leader,
        begin=leading.begin,
        at_rest=hears.leader_at_rest,
        tell=listeners.tell,
        can_lead=whole.can_lead(),
        log=log,
        **ours,
    )
    passing = Passing(steady, api, keys, election, **ours, **shared)
    last_known = LastKnown(
        steady,
        api,
        keys,
        settings,
        lease=lambda: session.lease,
        reports=lambda: plans_by_resources(whole.make_emergency_planner()),
        **ours,
        **shared,
    )
    return Parts(
        tasks=tasks,
        listeners=listeners,
        link=link,
        retrying=Retrying(ground.retry_timers, ground.random, log),
        session=session,
        succession=succession,
        membership=membership,
        election=election,
        hand_over=HandOver(steady, api, keys, passing, log),
        leading=leading,
        acting=acting,
        employing=Employing(whole.worker, tasks),
        readiness=Readiness(
            leader_id=lambda: election.leader_id,
            is_ready=whole.is_ready,
            leaving=whole.leaving,
        ),
        view=MembersView(
            steady,
            api,
            keys,
            settings,
            tell=listeners.tell,
            random=ground.random,
            retries=ground.retry_timers,
            **counted("members-view"),
        ),
        last_known=last_known,
        emergency=Emergency(
            steady,
            settings,
            lease=lambda: session.lease,
            connected=connected,
            here=lambda: whole.worker().my_workload,
            plan=lambda: last_known.takeover(
                whole.record(),
                whole.make_emergency_planner(),
                whole.worker().my_workload,
            ),
            changed=hears.emergency_changed,
            log=log,
        ),
        leaving=Leaving(
            steady,
            api,
            keys,
            session,
            membership,
            record=record,
            worker=whole.worker,
            log=log,
            **ours,
        ),
        locks=Locks(
            steady,
            api,
            keys,
            settings,
            session,
            succession,
            rewound=rewinding.noticed,
            **ours,
            **counted("locks"),
            **waiting,
        ),
    )
