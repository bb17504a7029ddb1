"""
A cluster's state, as planning by resources sees it.

# Note [What counts as a process]

An item is where it is assigned to be run: what its member reports says how it
fares there, and what it uses.  Where it is assigned to nobody, and a living
member owns it, it runs there all the same; so it is a process there, of which
nothing is known but its place, and will be assigned to that member anew.

An item whose member is gone is no process.  If that member let go of it, its
owner record is gone, and so nothing speaks for the place it had.  If the record
stands the item was lost with its member: it is placed there still, and kept for
as long as the member is awaited.

# Note [Room for what is not measured]

What a node uses is measured, and a process that was started a moment ago shows
little of what it will use.  So an item that is to run, and of which its member
does not tell what it uses, counts with its limits, on top of what is measured;
and so it does with members that measure nothing about single items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from .._json import RecordError, dump, parse_object
from ..records import (
    PREPARE,
    START,
    STOP,
    Assignment,
    Member,
    WorkItem,
    WorkStatus,
)
from .deployment import (
    DEGRADED,
    LEAVE,
    MAINTENANCE,
    OFFLINE,
    ONLINE,
    Deployment,
    Node,
    Process,
    Wanted,
)
from .limits import read_limits, read_resources, read_usage
from .recently import recently
from .resources import Ledger
from .shares import Share
from .state import ClusterState

#: The largest item, in bytes: its assignment has to go into one transaction, in
#: base64, with what goes along.
MOST_BYTES = 256 * 1024

#: The largest one that may be started anew: the item without that wish is written
#: with its assignment.
MOST_BYTES_FORCED = 160 * 1024

#: A member that is not awaited any more has been gone for ever.
FOR_EVER = float("inf")

#: So many values are read at a time.
AT_A_TIME = 500

#: Why an item is not moved that its member runs and is not told to.
UNASSIGNED = "it is to be assigned where it runs, first"

_NOTHING: Mapping[str, Any] = {}

#: What is known of an item of which its member tells nothing.
_UNTOLD = WorkStatus(state="")

_NO_SHARE = Share()


@recently
def _wanted(work: str, value: bytes) -> tuple[Wanted, WorkItem]:
    """
    Read a work item.  Most are as they were a pass ago.
    """
    item = WorkItem.from_value(work, value)
    limits, wrong = read_limits(item.limits)
    problems = [item.problem or "", wrong, _slip(work, item.raw)]
    most = MOST_BYTES_FORCED if item.force else MOST_BYTES
    # Written as ASCII a character may take six bytes where it took two.
    if 3 * len(value) > most and (size := len(item.encode())) > most:
        anew = " to be started anew" if item.force else ""
        problems.append(f"it has {size} bytes, and may have {most}{anew}")
    wanted = Wanted(
        work,
        item.order,
        limits,
        item.reference,
        described(item),
        item.metadata,
        item.force,
        problem="; ".join(filter(None, problems)),
    )
    return wanted, item


def _slip(work: str, raw: bytes | None) -> str:
    """
    Say what is wrong with a value that begins like an object and is none; empty
    for anything else.
    """
    if raw is None or not raw.lstrip().startswith(b"{"):
        return ""
    try:
        parse_object(work, raw)
    except RecordError as error:
        return error.reason
    return ""


@recently
def _assignment(member: str, work: str, value: bytes) -> Assignment:
    return Assignment.from_value(member, work, value)


def described(item: WorkItem) -> bytes:
    """
    Give all of an item in which a change is a change of what runs, as it is
    written: what is left out there is no change, and ``1`` is not ``true``.
    """
    return evolve(item, order=START, metadata={}, force=False).encode()


def wanted_item(state: ClusterState, work: str) -> WorkItem:
    """
    Give a work item as it is wanted.

    :raises KeyError: when there is none of that id.
    """
    return _wanted(work, state.work[work])[1]


def is_unreadable(state: ClusterState, work: str) -> bool:
    """
    Whether a work item cannot be deployed as it is.

    :raises KeyError: when there is none of that id.
    """
    return bool(_wanted(work, state.work[work])[0].problem)


def assignment(state: ClusterState, member: str, work: str) -> Assignment | None:
    """
    Give what a member is told about an item; ``None`` for nothing.
    """
    value = state.assignments.get(member, {}).get(work)
    return None if value is None else _assignment(member, work, value)


def runs(state: ClusterState, member: str, work: str) -> bool:
    """
    Whether an item is assigned to a member to be run there.
    """
    found = assignment(state, member, work)
    return found is not None and found.phase != PREPARE


def is_prepared(state: ClusterState, member: str, work: str) -> bool:
    """
    Whether an item is assigned to a member only to be made ready there.
    """
    if PREPARE.encode() not in state.assignments.get(member, {}).get(work, b""):
        return False
    found = assignment(state, member, work)
    return found is not None and found.phase == PREPARE


def read_ahead(state: ClusterState) -> Iterator[None]:
    """
    Read the values of work and of assignments, :data:`AT_A_TIME`: whoever reads
    them next finds them read.
    """
    for number, (work, value) in enumerate(state.work.items(), 1):
        _wanted(work, value)
        if not number % AT_A_TIME:
            yield
    assigned = (
        (member, *pair)
        for member, items in state.assignments.items()
        for pair in items.items()
    )
    for number, (member, work, value) in enumerate(assigned, 1):
        _applied(member, work, value, state.work.get(work, b""))
        if not number % AT_A_TIME:
            yield


def observe(state: ClusterState) -> Deployment:
    """
    Give what planning by resources looks at.

    How long members may be gone was decided by whoever remembers since when
    they are: one that is awaited has been gone for no time, one that is not for
    ever.
    """
    nodes = {name: _node(state, member) for name, member in state.members.items()}
    absent = sorted(state.assignments.keys() - nodes.keys())
    for name in absent:
        gone = 0.0 if name in state.recalled.awaited else FOR_EVER
        nodes[name] = Node(name, OFFLINE, gone)
    processes = []
    ledger = Ledger(nodes)
    for process, measured in _processes(state):
        processes.append(process)
        if not measured and process.order != STOP:
            ledger.add(process.node, process.limits)
    room = ledger.resources
    return Deployment(
        nodes={name: evolve(n, resources=room[name]) for name, n in nodes.items()},
        work=[_wanted(work, value)[0] for work, value in state.work.items()],
        processes=processes,
        placements={**_owners(state), **dict(_lost_with(state, absent))},
        relocations={**_evacuations(nodes, processes), **state.relocations},
        held={
            **state.recalled.held,
            **{p.id: UNASSIGNED for p in processes if _runs_unassigned(state, p)},
        },
        settling=state.recalled.settling,
        node_recover_timeout=0.0,
    )


def _node(state: ClusterState, member: Member) -> Node:
    report = state.statuses.get(member.id)
    used = _NOTHING if report is None else report.node
    resources = read_resources(member.resources, used)
    if not state.refusal(member.id):
        where = DEGRADED if resources.error else ONLINE
    else:
        where = MAINTENANCE if member.id in state.keepers else LEAVE
    return Node(member.id, where, resources=resources)


def _processes(state: ClusterState) -> Iterator[tuple[Process, bool]]:
    """
    See Note [What counts as a process].

    :return: each of them, and whether it is known what it uses.
    """
    placed = set()
    for member in sorted(state.members):
        report = state.statuses.get(member)
        statuses = _NOTHING if report is None else report.items
        for work, value in state.assignments.get(member, _NOTHING).items():
            if _assignment(member, work, value).phase != PREPARE:
                placed.add(work)
                status = statuses.get(work, _UNTOLD)
                yield _process(state, member, work, value, status)
    for work, owner in state.owners.items():
        if work in state.work and work not in placed and owner.owner in state.members:
            yield _process(state, owner.owner, work, None, _UNTOLD)


def _process(
    state: ClusterState,
    member: str,
    work: str,
    value: bytes | None,
    status: WorkStatus,
) -> tuple[Process, bool]:
    applied = _applied(member, work, value, state.work.get(work, b""))
    usage = read_usage(status.usage) if status.usage else None
    process = Process(
        work,
        member,
        applied.order,
        status.state,
        usage or (_NO_SHARE if applied.order == STOP else applied.limits),
        status.usage.get("throttling") is True,
        # Only to be compared with those of the same member: one clock.
        -(status.since or 0.0),
        applied.limits,
        applied.reference,
        applied.description,
        applied.metadata,
        updated_at=-1,
    )
    return process, usage is not None


@recently
def _applied(member: str, work: str, value: bytes | None, wanted: bytes) -> Wanted:
    """
    Read an item as it was applied.

    Where its assignment says nothing the item runs as it is wanted; only that
    it is not said is to be changed.  What is as it is wanted is the same object,
    which is quick to compare.

    :param value: of its assignment; ``None`` for none.
    :param wanted: the value of the work item.
    """
    now, _ = _wanted(work, wanted)
    item = None if value is None else _assignment(member, work, value).item
    if item is None:
        return evolve(now, description=None)
    limits, _ = read_limits(item.limits)
    description = described(item)
    same = dump(item.metadata) == dump(now.metadata)
    return Wanted(
        work,
        item.order,
        limits,
        item.reference,
        now.description if description == now.description else description,
        now.metadata if same else item.metadata,
    )


def _runs_unassigned(state: ClusterState, process: Process) -> bool:
    known = process.description is not None
    return not known and not runs(state, process.node, process.id)


def _owners(state: ClusterState) -> dict[str, str]:
    """
    Give who runs what: of several that an item is assigned to its owner keeps
    it.
    """
    members = state.members
    return {w: o.owner for w, o in state.owners.items() if o.owner in members}


def _lost_with(state: ClusterState, absent: Iterable[str]) -> Iterator[tuple[str, str]]:
    """
    Give the items that were lost with their members, and those.
    """
    for member in absent:
        for work in state.assignments[member]:
            if work not in state.work or work not in state.owner_entries:
                continue
            owner = state.owner_of(work)
            if owner in (member, None) and runs(state, member, work):
                yield work, member


def _evacuations(
    nodes: Mapping[str, Node], processes: Iterable[Process]
) -> dict[str, str]:
    """
    Want everything elsewhere that is on a node which is to be left.
    """
    return {p.id: "" for p in processes if nodes[p.node].state == LEAVE}
