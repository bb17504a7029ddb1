"""
What the commands answer, as JSON documents: pure, from a view.

Field names are those of the members' own ``/status``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..planning.limits import read_resources
from ..records import Member, TransferRequest
from .view import Item, View

Document = dict[str, Any]


def status(view: View, address: str, version: str) -> Document:
    """
    Give the state of the whole cluster.

    :param address: of the agent that was asked.
    :param version: of this package.
    """
    return {
        "prefix": view.keys.prefix,
        "leader_id": view.leader_id,
        "fencing_token": view.fencing_token,
        "frozen": view.planned.frozen,
        "freeze_reason": view.planned.freeze_reason or None,
        "transfer": _transfer(view.transfer),
        "members": members(view)["members"],
        "intents": dict(sorted(view.planned.node_intents.items())),
        "work": counts(view),
        "errors": {
            item.id: text
            for item in view.items.values()
            if (text := view.trouble(item))
        },
        "consul": {"address": address, "connection": "connected"},
        "version": version,
    }


def _transfer(request: TransferRequest | None) -> Document | None:
    if request is None:
        return None
    return {
        "target": request.target or None,
        "fencing_token": request.token,
        "refused": request.refused,
    }


def counts(view: View) -> dict[str, int]:
    """
    Count the wanted items: all, with an assignment, with an owner that is
    there, and running.
    """
    wanted = [item for item in view.items.values() if item.wanted]
    return {
        "wanted": len(wanted),
        "assigned": sum(bool(item.assignments) for item in wanted),
        "owned": sum(
            item.owner is not None and view.answers(item.owner) for item in wanted
        ),
        "running": sum(map(view.running, wanted)),
    }


def members(view: View) -> Document:
    """
    Give the members, with what they have of the work.
    """
    assigned = Counter(item.assigned_to for item in view.items.values())
    running = Counter(
        item.owner.owner
        for item in view.items.values()
        if item.owner is not None and view.running(item)
    )
    return {
        "members": [
            {
                "id": member.id,
                "role": _role(view, member),
                "state": _state(view, member),
                "host_address": member.host_address,
                "rest_port": member.rest_port,
                "weight": member.weight,
                "app": member.app,
                "can_lead": member.can_lead,
                "items": assigned[member.id],
                "running": running[member.id],
                "resources": _resources(view, member),
                "liveness": "check" if member.check else "ttl",
                "session_id": member.session,
                "version": member.version,
                "foreign": member.foreign,
            }
            for member in view.members.values()
        ]
    }


def _resources(view: View, member: Member) -> Document | None:
    """
    Give what a member has and uses, as a planner reads it; ``None`` for one that
    does not tell.
    """
    node = view.nodes.get(member.id, {})
    if not member.live or not (member.resources or node):
        return None
    found = read_resources(member.resources, node)
    return {
        "cpu": found.cpu,
        "cpu_limit": found.cpu_limit,
        "memory": found.memory,
        "memory_limit": found.memory_limit,
        "throttling": found.throttling,
        "error": found.error,
    }


def _role(view: View, member: Member) -> str | None:
    if not member.live:
        return None
    return "leader" if member.id == view.leader_id else "follower"


def _state(view: View, member: Member) -> str:
    if not member.live:
        return "lost"
    if member.leaving:
        return "leaving"
    return view.planned.node_intents.get(member.id, "online")


def nodes(view: View, id: str | None = None) -> Document:
    """
    Give what operators want of members.

    :param id: of this one alone, also if it is nothing.
    """
    rows = {row["id"]: row for row in members(view)["members"]}
    intents = view.planned.node_intents
    chosen = sorted(intents) if id is None else [id]
    return {
        "nodes": [
            {
                "id": name,
                "intent": intents.get(name),
                "state": rows[name]["state"] if name in rows else None,
                "items": len(view.holdings(name)),
            }
            for name in chosen
        ]
    }


def work(view: View) -> Document:
    """
    Give the work items that are wanted, or are there to be stopped.
    """
    return {
        "work": [
            {
                "id": item.id,
                "order": item.work.order,
                "weight": item.work.weight,
                "bytes": len(item.work.encode()),
            }
            for item in view.items.values()
            if item.work is not None
        ]
    }


def assignments(
    view: View,
    member: str | None = None,
    patterns: Sequence[str] = (),
    only_wrong: bool = False,
) -> Document:
    """
    Give who is to run each item, who does, and what is wrong.

    :param member: only what it is to run, or owns.
    :param patterns: only the ids that fit one of these; empty is all.
    :param only_wrong: only what is not as it is to be.
    """
    rows = []
    for item in view.items.values():
        if not _chosen(item, member, patterns):
            continue
        row = _assignment(view, item)
        if row["wrong"] or not only_wrong:
            rows.append(row)
    return {"assignments": rows}


def _chosen(item: Item, member: str | None, patterns: Sequence[str]) -> bool:
    if patterns and not any(fnmatchcase(item.id, pattern) for pattern in patterns):
        return False
    if member is None:
        return True
    owner = None if item.owner is None else item.owner.owner
    return member == owner or any(a.member == member for a in item.assignments)


def _assignment(view: View, item: Item) -> Document:
    report = item.report
    return {
        "id": item.id,
        "wanted": item.wanted,
        "assigned": [a.member for a in item.assignments],
        "phases": [a.phase for a in item.assignments],
        "owner": None if item.owner is None else item.owner.owner,
        "state": None if report is None else report.state,
        "wrong": view.trouble(item) or None,
    }
