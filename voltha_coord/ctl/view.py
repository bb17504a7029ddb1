"""
A cluster as its keys show it: who leads, who is there, how each item fares.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from ..consul.model import Entry
from ..keys import Keys
from ..planning.state import ClusterState
from ..records import (
    PREPARE,
    Assignment,
    Member,
    OwnerRecord,
    TermRecord,
    TransferRequest,
    WorkItem,
    WorkStatus,
)

#: What a running item's owner reports of it.
RUNNING = "running"

#: What it reports of one that has done what it was to do, and ended well.
FINISHED = "finished"

#: What it reports of one that it keeps, and does not run.
STOPPED = "stopped"

#: What a member reports of an item that may be running on it.
AT_WORK = ("starting", RUNNING, "stopping")


@define
class Item:
    """
    All that the keys say about one work item.

    :ivar work: the item as it is wanted, ``None`` when it is not.
    :ivar assignments: one for each member it is assigned to.
    :ivar owner: who holds its owner record.
    :ivar reports: what members report of it, by member.
    :ivar error: why it is not placed or not running, in the cluster's words.
    :ivar error_mark: 0 where the leader said that; else the mark of the session
        of its owner, which did.
    """

    id: str
    work: WorkItem | None = None
    assignments: list[Assignment] = field(factory=list)
    owner: OwnerRecord | None = None
    reports: dict[str, WorkStatus] = field(factory=dict)
    error: str | None = None
    error_mark: int = 0

    @property
    def wanted(self) -> bool:
        """
        Whether it is to run.
        """
        return self.work is not None and self.work.is_to_run

    @property
    def assigned_to(self) -> str | None:
        """
        The member that is to run it; during a prepared move the one it is on.
        """
        settled = [a.member for a in self.assignments if a.phase != PREPARE]
        chosen = settled or [a.member for a in self.assignments]
        return chosen[0] if chosen else None

    @property
    def report(self) -> WorkStatus | None:
        """
        What its owner reports of it; without an owner, the assigned member.
        """
        reporter = self.assigned_to if self.owner is None else self.owner.owner
        return None if reporter is None else self.reports.get(reporter)


@frozen
class View:
    """
    One look at a cluster.

    :ivar leader: the leader key, ``None`` when it is missing.
    :ivar term: the term record, ``None`` when it is missing or unreadable.
    :ivar members: by id, dead entries included.
    :ivar items: by work id.
    :ivar nodes: what members measure of their machines, by member.
    :ivar planned: the live members and what operators want, as a planner sees
        them.
    :ivar transfer: what operators want of the leader, ``None`` for nothing.
    :ivar missed: since when members are missed that have items, by id, as a wall
        clock showed it; ``None`` where that cannot be read.
    :ivar strays: keys nobody will ever use, and why.
    :ivar unreadable: keys whose value is not what belongs there, and why.
    """

    keys: Keys
    leader: Entry | None = None
    term: TermRecord | None = None
    members: Mapping[str, Member] = field(factory=dict)
    items: Mapping[str, Item] = field(factory=dict)
    nodes: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    planned: ClusterState = field(factory=ClusterState)
    transfer: TransferRequest | None = None
    missed: Mapping[str, float | None] = field(factory=dict)
    strays: Mapping[str, str] = field(factory=dict)
    unreadable: Mapping[str, str] = field(factory=dict)

    @property
    def leader_id(self) -> str | None:
        """
        Who leads: the value of the leader key while a session holds it.
        """
        if self.leader is None or self.leader.session is None:
            return None
        return self.leader.value.decode("utf-8", "replace")

    @property
    def fencing_token(self) -> int | None:
        """
        The token of the term, ``None`` when the leader wrote no term.
        """
        if self.leader is None or self.term is None:
            return None
        return self.term.token if self.term.session == self.leader.session else None

    @property
    def leading(self) -> Member | None:
        """
        The member that leads, as far as it is one.
        """
        return self.members.get(self.leader_id or "")

    @property
    def live(self) -> Mapping[str, Member]:
        """
        The members whose session lives.
        """
        return self.planned.members

    def answers(self, owner: OwnerRecord) -> bool:
        """
        Whether the very member of an owner record is there.
        """
        member = self.members.get(owner.owner)
        return member is not None and member.session == owner.session

    def running(self, item: Item) -> bool:
        """
        Whether its owner is there and reports to run it.
        """
        if item.owner is None or not self.answers(item.owner):
            return False
        report = item.reports.get(item.owner.owner)
        return report is not None and report.state == RUNNING

    def holdings(self, member: str) -> dict[str, str]:
        """
        Give the items that are with a member, and in which way.
        """
        found = {}
        for item in self.items.values():
            ways = []
            if any(assignment.member == member for assignment in item.assignments):
                ways.append("assigned")
            if item.owner is not None and item.owner.owner == member:
                ways.append("owned")
            report = item.reports.get(member)
            if report is not None and report.state in AT_WORK:
                ways.append(report.state)
            if ways:
                found[item.id] = ", ".join(ways)
        return found

    def trouble(self, item: Item) -> str:
        """
        Say what is wrong with an item; empty when nothing is.
        """
        return _trouble(self, item)


def _trouble(view: View, item: Item) -> str:
    if item.error:
        return item.error
    owner = item.owner
    if owner is not None and not view.answers(owner):
        return f"owned by {owner.owner}, which is gone"
    places = [a.member for a in item.assignments if a.phase != PREPARE]
    if item.work is None:
        if owner is not None:
            return f"not wanted, still owned by {owner.owner}"
        return f"not wanted, still assigned to {places[0]}" if places else ""
    if not places:
        return "not assigned" if item.wanted else ""
    if len(places) > 1:
        return f"assigned to {' and '.join(places)}"
    member = view.members.get(places[0])
    if member is None or not member.live:
        return f"assigned to {places[0]}, which is no member"
    if owner is None:
        # The original's members own nothing, and report nothing.
        return "" if member.foreign else "not taken yet"
    if owner.owner != places[0]:
        return f"still owned by {owner.owner}"
    report = item.reports.get(owner.owner)
    if report is None:
        return "not reported"
    if report.error:
        return report.error
    if item.wanted:
        well = report.state in (RUNNING, FINISHED)
        return "" if well else f"is {report.state}"
    return "" if report.state == STOPPED else f"is {report.state}, not stopped yet"
