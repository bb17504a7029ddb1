"""
From Consul's entries to a view of the cluster.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attrs import evolve

from ..consul.model import Entry, Op
from ..keys import Keys, is_instance_id, is_work_id, shown
from ..planning.state import ClusterState, Snapshot
from ..recollection import LostRecord
from ..records import (
    Assignment,
    Member,
    OwnerRecord,
    RecordError,
    StatusReport,
    TermRecord,
    TransferRequest,
    WorkItem,
    decode_status,
)
from .view import Item, View


def snapshot(keys: Keys) -> tuple[Op, ...]:
    """
    Give the operations that read all a :class:`View` is made of, at one moment.
    """
    trees = (
        keys.leader,
        keys.term,
        keys.members,
        keys.work,
        keys.assignments,
        keys.owners,
        keys.statuses,
        keys.errors,
        keys.intent,
        keys.lost,
    )
    return tuple(Op.get_tree(tree) for tree in trees)


def view(keys: Keys, entries: Iterable[Entry]) -> View:
    """
    Give what the entries say.  Nothing in them is an error here: what cannot
    be read is told in ``strays`` and ``unreadable``.
    """
    return _Reader(keys).read(entries)


class _Reader:
    """
    Takes the entries apart, one by one.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._leader: Entry | None = None
        self._term: TermRecord | None = None
        self._members: dict[str, Member] = {}
        self._items: dict[str, Item] = {}
        self._chunks: dict[str, dict[int, bytes]] = {}
        self._intents: list[Entry] = []
        self._transfer: TransferRequest | None = None
        self._missed: dict[str, float | None] = {}
        self._strays: dict[str, str] = {}
        self._unreadable: dict[str, str] = {}

    def read(self, entries: Iterable[Entry]) -> View:
        """
        Read them all.
        """
        for entry in entries:
            self._entry(entry)
        nodes = {}
        for member, report in self._reports():
            nodes[member] = report.node
            for work_id, status in report.items.items():
                self._item(work_id).reports[member] = status
        planned = self._planned()
        return View(
            keys=self._keys,
            leader=self._leader,
            term=self._term,
            members=dict(sorted(self._members.items())),
            items=dict(sorted(self._items.items())),
            nodes=nodes,
            planned=planned,
            transfer=self._transfer,
            missed=self._missed,
            strays=self._strays,
            unreadable=self._unreadable,
        )

    def _item(self, work_id: str) -> Item:
        return self._items.setdefault(work_id, Item(work_id))

    def _entry(self, entry: Entry) -> None:
        keys = self._keys
        if entry.key == keys.leader:
            self._leader = entry
        elif entry.key == keys.term:
            self._record(entry, self._term_record)
        elif entry.key.startswith(keys.members):
            self._member(entry)
        elif entry.key.startswith(keys.assignments):
            self._assignment(entry)
        elif entry.key.startswith(keys.statuses):
            self._chunk(entry)
        elif entry.key == keys.transfer:
            self._record(entry, self._transfer_request)
        elif entry.key.startswith(keys.intent):
            self._intents.append(entry)
        elif entry.key.startswith(keys.lost):
            record = LostRecord.from_entry(entry)
            name = entry.key.removeprefix(keys.lost)
            self._missed[name] = None if record is None else record.since
        else:
            self._of_item(entry)

    def _record(self, entry: Entry, read: Callable[[Entry], None]) -> None:
        try:
            read(entry)
        except RecordError as error:
            self._unreadable[shown(entry.key)] = error.reason

    def _term_record(self, entry: Entry) -> None:
        self._term = TermRecord.from_entry(entry)

    def _transfer_request(self, entry: Entry) -> None:
        self._transfer = TransferRequest.from_entry(entry)

    def _member(self, entry: Entry) -> None:
        try:
            member = Member.from_entry(entry, self._keys)
        except RecordError as error:
            self._strays[shown(entry.key)] = error.reason
            return
        self._members[member.id] = member
        if member.problem:
            self._unreadable[shown(entry.key)] = member.problem

    def _assignment(self, entry: Entry) -> None:
        path = entry.key.removeprefix(self._keys.assignments).split("/")
        if len(path) != 2 or not is_instance_id(path[0]) or not is_work_id(path[1]):
            self._strays[shown(entry.key)] = "not the key of an assignment"
            return
        assignment = Assignment.from_value(path[0], path[1], entry.value)
        self._item(path[1]).assignments.append(assignment)
        if assignment.problem:
            self._unreadable[shown(entry.key)] = assignment.problem

    def _chunk(self, entry: Entry) -> None:
        path = entry.key.removeprefix(self._keys.statuses).split("/")
        if len(path) != 2 or not (path[1].isascii() and path[1].isdigit()):
            self._strays[shown(entry.key)] = "not the key of a status report"
            return
        self._chunks.setdefault(path[0], {})[int(path[1])] = entry.value

    def _reports(self) -> Iterator[tuple[str, StatusReport]]:
        for member, chunks in self._chunks.items():
            place = self._keys.status_of(member).rstrip("/")
            try:
                report = decode_status(chunks, place)
            except RecordError as error:
                self._unreadable[error.key] = error.reason
            else:
                if report is not None:
                    yield member, report

    def _planned(self) -> ClusterState:
        # As the leader reads them: what it ignores has no effect to be shown.
        state = ClusterState.from_snapshot(Snapshot(self._keys, intent=self._intents))
        self._strays.update(dict.fromkeys(state.stray, "not the key of an intent"))
        self._unreadable.update(state.problems)
        live = {id: member for id, member in self._members.items() if member.live}
        return evolve(state, members=live)

    def _of_item(self, entry: Entry) -> None:
        keys = self._keys
        for prefix in (keys.work, keys.owners, keys.errors):
            if entry.key.startswith(prefix):
                work_id = entry.key.removeprefix(prefix)
                if not is_work_id(work_id):
                    self._strays[shown(entry.key)] = "not the key of a work item"
                elif prefix == keys.work:
                    work = WorkItem.from_value(work_id, entry.value)
                    self._item(work_id).work = work
                    if work.problem:
                        self._unreadable[shown(entry.key)] = work.problem
                elif prefix == keys.owners:
                    self._record(entry, self._owner_record)
                else:
                    text = entry.value.decode("utf-8", "replace")
                    item = self._item(work_id)
                    item.error, item.error_mark = text, entry.flags

    def _owner_record(self, entry: Entry) -> None:
        work_id = entry.key.removeprefix(self._keys.owners)
        self._item(work_id).owner = OwnerRecord.from_entry(entry)
