"""
Small clusters for the tests of planning by resources.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve

from voltha_coord.consul.model import Entry
from voltha_coord.keys import Keys
from voltha_coord.planning.operations import (
    Assign,
    Move,
    Plan,
    Reassign,
    Unassign,
)
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import (
    PREPARE,
    RUN,
    Assignment,
    Member,
    OwnerRecord,
    StatusReport,
    WorkItem,
    WorkStatus,
)

KEYS = Keys()

#: What each member has, unless told otherwise.
CAPACITY = {"ncpu": 1, "cpu_limit": 90, "memory_limit": 90, "memory_total": 100}


def item(work: str = "w1", **fields: Any) -> WorkItem:
    """
    Give an item of 10 % CPU and 20 of memory, unless told otherwise.
    """
    values = {"limits": {"cpu": 10, "memory": 20}, **fields}
    return WorkItem.from_value(work, json.dumps(values).encode())


def resourceful(
    members: Mapping[str, tuple[float, float]], work: Iterable[WorkItem] = ()
) -> ClusterState:
    """
    Give a state of members and items, nothing assigned.

    :param members: what each uses of CPU and memory.
    """
    items = {one.id: one.encode() for one in work}
    return ClusterState(
        members={
            name: Member(name, session=f"s-{name}", version="1", resources=CAPACITY)
            for name in members
        },
        work=items,
        work_index={name: 100 + place for place, name in enumerate(items)},
        statuses={
            name: StatusReport({}, {"cpu": cpu, "memory": memory})
            for name, (cpu, memory) in members.items()
        },
    )


def assigned(
    state: ClusterState,
    member: str,
    one: WorkItem,
    phase: str = RUN,
    owned: bool = True,
    restart: int = 0,
) -> ClusterState:
    """
    Give the state with an item assigned to a member as it is, and owned by it.
    """
    items = dict(state.assignments.get(member, {}))
    applied = Assignment(member, one.id, phase, evolve(one, force=False), restart)
    items[one.id] = applied.encode()
    state = evolve(state, assignments={**state.assignments, member: items})
    if not owned or phase == PREPARE:
        return state
    record = OwnerRecord(member, f"s-{member}")
    entry = Entry(KEYS.owner(one.id), record.encode(), modify_index=50)
    return evolve(
        state,
        owners={**state.owners, one.id: record},
        owner_entries={**state.owner_entries, one.id: entry},
    )


def reporting(
    state: ClusterState, member: str, work: str, /, **status: Any
) -> ClusterState:
    """
    Give the state with a member's report on an item.
    """
    report = state.statuses[member]
    items = {**report.items, work: WorkStatus(**status)}
    return evolve(
        state,
        statuses={**state.statuses, member: StatusReport(items, report.node)},
    )


def gone(state: ClusterState, *names: str, awaited: bool = True) -> ClusterState:
    """
    Give the state once members have gone, and are awaited or not any more.
    """
    members = {n: m for n, m in state.members.items() if n not in names}
    statuses = {n: s for n, s in state.statuses.items() if n not in names}
    recalled = evolve(state.recalled, awaited=frozenset(names if awaited else ()))
    return evolve(state, members=members, statuses=statuses, recalled=recalled)


def carried_out(state: ClusterState, plan: Plan) -> ClusterState:
    """
    Give the state once a plan is written.

    :raises AssertionError: when an operation does not fit the state it meets.
    """
    assignments = {name: dict(items) for name, items in state.assignments.items()}
    work = dict(state.work)

    def take(name: str, member: str) -> None:
        assert name in assignments[member], (name, member)
        del assignments[member][name]

    def give(name: str, member: str, value: bytes) -> None:
        assert member in state.members, (name, member)
        assignments.setdefault(member, {})[name] = value

    for operation in plan.operations:
        match operation:
            case Assign(name, member, value):
                give(name, member, value)
            case Reassign(name, member, value):
                assert name in assignments[member], (name, member)
                give(name, member, value)
            case Unassign(name, member):
                take(name, member)
            case Move(name, source, target, value):
                take(name, source)
                give(name, target, value)
        if not isinstance(operation, Unassign) and operation.spent is not None:
            assert operation.spent.index == state.work_index[operation.work]
            work[operation.work] = operation.spent.value
    return evolve(
        state,
        assignments={m: items for m, items in assignments.items() if items},
        work=work,
        relocations={
            w: m for w, m in state.relocations.items() if w not in plan.relocated
        },
    )
