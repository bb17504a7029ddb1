"""
Prepared contents of a cluster's keys, without a cluster.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from voltha_coord.consul.model import Entry
from voltha_coord.keys import Keys
from voltha_coord.records import (
    Member,
    OwnerRecord,
    StatusReport,
    TermRecord,
    WorkStatus,
    encode_status,
)

KEYS = Keys("service/voltha")


def session_of(member: str) -> str:
    """
    Give the session that a member of that id has here.
    """
    return f"session-{member}"


def member(instance_id: str, session: str | None = "", **fields: Any) -> Entry:
    """
    Give a member's key; without a session when that is ``None``.
    """
    record = Member(
        instance_id, version="1.0", rest_port=8880, check=f"check-{instance_id}"
    )
    return Entry(
        KEYS.member(instance_id),
        evolve(record, **fields).encode(),
        session=session_of(instance_id) if session == "" else session,
    )


def original(instance_id: str) -> Entry:
    """
    Give the key of a member of the 2016 original.
    """
    return Entry(KEYS.member(instance_id), b"alive", session=session_of(instance_id))


def leads(instance_id: str, token: int = 4711) -> list[Entry]:
    """
    Give the keys that say who leads.
    """
    session = session_of(instance_id)
    term = TermRecord(instance_id, session, token=token, seq=3)
    return [
        Entry(KEYS.leader, instance_id.encode(), session=session),
        Entry(KEYS.term, term.encode()),
    ]


def work(work_id: str, value: bytes = b"") -> Entry:
    """
    Give the key of a work item.
    """
    return Entry(KEYS.work_item(work_id), value)


def assigned(instance_id: str, work_id: str, value: bytes = b"") -> Entry:
    """
    Give an assignment.
    """
    return Entry(KEYS.assignment(instance_id, work_id), value)


def owned(instance_id: str, work_id: str, session: str = "") -> Entry:
    """
    Give an owner record.
    """
    record = OwnerRecord(instance_id, session or session_of(instance_id))
    return Entry(KEYS.owner(work_id), record.encode())


def reports(instance_id: str, **states: str) -> list[Entry]:
    """
    Give a member's status report: work id to state.
    """
    report = StatusReport({id: WorkStatus(state=s) for id, s in states.items()})
    return _chunks(instance_id, report)


def measures(instance_id: str, **node: Any) -> list[Entry]:
    """
    Give the status report of a member that has no work, and measures.
    """
    return _chunks(instance_id, StatusReport(node=node))


def _chunks(instance_id: str, report: StatusReport) -> list[Entry]:
    return [
        Entry(KEYS.status(instance_id, number), chunk)
        for number, chunk in enumerate(encode_status(report))
    ]


def running(instance_id: str, *work_ids: str) -> list[Entry]:
    """
    Give all the keys of items that a member runs.
    """
    entries = reports(instance_id, **dict.fromkeys(work_ids, "running"))
    for work_id in work_ids:
        entries += [
            work(work_id),
            assigned(instance_id, work_id),
            owned(instance_id, work_id),
        ]
    return entries
