"""
What a status page shows of a member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .events import Connection
from .office import UNREADABLE

if TYPE_CHECKING:
    from .coordinator import Coordinator
    from .pass_report import PassReport

#: So many problems are named at most.
MOST_PROBLEMS = 50

#: What is said of a key that cannot be ours.
STRAY = "no key of this cluster: left alone"


def describe(coordinator: Coordinator) -> dict[str, Any]:
    """
    Give the state of a member as a JSON object, of what is known now.
    """
    lease = coordinator.lease
    view = coordinator.view
    worker = coordinator.worker
    last_pass = getattr(coordinator.leader, "last_pass", None)
    errors = dict(getattr(worker, "errors", {}))
    if last_pass is not None:
        errors.update(last_pass.errors)
    return {
        "instance_id": coordinator.instance_id,
        "role": coordinator.role,
        "is_leader": coordinator.is_leader,
        "leader_id": _leader_id(coordinator),
        "fencing_token": lease.token,
        "session_id": lease.session_id,
        "lease_remaining": round(lease.remaining, 3),
        "liveness": coordinator.session.liveness,
        "members": view.describe(),
        "members_age": _rounded(view.age),
        "emergency": coordinator.emergency.describe(),
        "workload": sorted(worker.my_workload),
        "resources": coordinator.load.describe(),
        "assigned": sorted(getattr(worker, "assigned", ())),
        "errors": errors,
        "stray_keys": 0 if last_pass is None else len(last_pass.stray),
        "problems": {} if last_pass is None else problems(last_pass),
        "consul": {
            "address": coordinator.consul_address,
            "connection": coordinator.connection.value,
            "last_answer_age": _rounded(coordinator.link.last_answer_age),
        },
        "waiting_for": waiting_for(coordinator),
        "app_lease": None,
        "version": coordinator.version,
    }


def _leader_id(coordinator: Coordinator) -> str | None:
    """
    Give who leads, as far as is known: without contact and without a lease
    nobody is known to, whoever it was when Consul last answered.
    """
    if coordinator.connection is Connection.LOST:
        return None
    return coordinator.leader_id


def problems(last_pass: PassReport) -> dict[str, str]:
    """
    Give what the leader could not use, by key: some of it, if it is much.
    """
    found = {**last_pass.problems, **dict.fromkeys(last_pass.stray, STRAY)}
    return dict(sorted(found.items())[:MOST_PROBLEMS])


def waiting_for(coordinator: Coordinator) -> str | None:
    """
    Give in words what a member waits for; ``None`` when for nothing.
    """
    if coordinator.emergency.active:
        return "contact with Consul, to end an emergency"
    if coordinator.session_id is None:
        return "a Consul session"
    if not coordinator.is_member:
        holder = coordinator.member_key_held_by
        if holder is None:
            return "the member key"
        return f"the member key, held by session {holder}"
    predecessor = coordinator.waiting_for_lease_of
    if predecessor == UNREADABLE:
        return "one session TTL to pass: the term record does not say who led"
    if predecessor:
        return f"the lease of session {predecessor} to be over"
    if coordinator.lock_delayed:
        return "the lock-delay of the leader key to be over"
    return "a leader" if coordinator.leader_id is None else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
