"""
The state of a cluster, as a planner sees it.

A leader reads one :class:`Snapshot`, all prefixes at one moment, and makes one
:class:`ClusterState` of it.  Whatever lies under the prefixes gives a state:
what cannot be taken in is listed, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..keys import Keys, is_instance_id, is_work_id, shown
from ..records import (
    Member,
    OwnerRecord,
    RecordError,
    StatusReport,
    TransferRequest,
    WorkItem,
    decode_status,
)
from .deployment import LEAVE as LEAVE
from .deployment import MAINTENANCE as MAINTENANCE

if TYPE_CHECKING:
    from ..consul.model import Entry

#: What a member is that may not be given work, by what an operator wants of it
#: (``intent/nodes/<id>``).  Under either it is given nothing; under the first it
#: keeps what it has, under the second all that moves away.
_REFUSALS = {MAINTENANCE: "in maintenance", LEAVE: "wanted away"}


@frozen
class Snapshot:
    """
    What Consul held under each prefix at one moment, in key order.

    :ivar now: when it was read, on the lease clock, in seconds.
    """

    keys: Keys = field(factory=Keys)
    now: float = 0.0
    members: Sequence[Entry] = ()
    work: Sequence[Entry] = ()
    assignments: Sequence[Entry] = ()
    owners: Sequence[Entry] = ()
    intent: Sequence[Entry] = ()
    statuses: Sequence[Entry] = ()
    lost: Sequence[Entry] = ()


@frozen
class Recalled:
    """
    What a leader remembers of its term that no key tells.

    :ivar awaited: members that are gone, and for whose return is waited.  Who
        is gone and not among them does not come back.
    :ivar overdue: work id to why its move takes too long.
    :ivar held: work id to why it is not to be moved now.
    :ivar settling: members of which it is not known yet what their last moves
        have changed.
    """

    awaited: frozenset[str] = frozenset()
    overdue: Mapping[str, str] = field(factory=dict)
    held: Mapping[str, str] = field(factory=dict)
    settling: frozenset[str] = frozenset()


@frozen
class ClusterState:
    """
    All a planner may look at.

    :ivar now: the time, on the lease clock, in seconds.
    :ivar members: the live members, by id; see :attr:`Member.live`.
    :ivar work: what is to be run: the values, by work id.
    :ivar work_index: their ModifyIndexes, by work id.
    :ivar assignments: who is to run what as last decided: the values, by
        member (alive or not), then by work id.
    :ivar owners: who runs what, by work id.
    :ivar owner_entries: the keys of ``owners``, for their indexes.
    :ivar node_intents: what operators want of members, by id.
    :ivar relocations: where operators want items, by work id; empty for any
        other place.
    :ivar relocation_index: the ModifyIndexes of these wishes, by work id.
    :ivar statuses: what the members report of their work, by id; only of those
        whose reports were read, and whole.
    :ivar chunks: what these reports were read from, by id.
    :ivar lost: since when members are missed, by id: the values.
    :ivar recalled: what the leader remembers.
    :ivar frozen: operators want nothing to be planned.
    :ivar freeze_reason: why they do, in their words; may be empty.
    :ivar stray: keys that cannot be ours (illegal ids, foreign depth), as they
        may be shown.  They are neither planned nor touched.
    :ivar problems: what is wrong with values, by key as it may be shown.
    """

    now: float = 0.0
    members: Mapping[str, Member] = field(factory=dict)
    work: Mapping[str, bytes] = field(factory=dict)
    work_index: Mapping[str, int] = field(factory=dict)
    assignments: Mapping[str, Mapping[str, bytes]] = field(factory=dict)
    owners: Mapping[str, OwnerRecord] = field(factory=dict)
    owner_entries: Mapping[str, Entry] = field(factory=dict)
    node_intents: Mapping[str, str] = field(factory=dict)
    relocations: Mapping[str, str] = field(factory=dict)
    relocation_index: Mapping[str, int] = field(factory=dict)
    statuses: Mapping[str, StatusReport] = field(factory=dict)
    chunks: Mapping[str, Mapping[int, bytes]] = field(factory=dict)
    lost: Mapping[str, Entry] = field(factory=dict)
    recalled: Recalled = field(factory=Recalled)
    frozen: bool = False
    freeze_reason: str = ""
    stray: tuple[str, ...] = ()
    problems: Mapping[str, str] = field(factory=dict)

    @classmethod
    def from_snapshot(
        cls, snapshot: Snapshot, former: ClusterState | None = None
    ) -> ClusterState:
        """
        Take apart what was read.  Never raises, whatever it holds.

        :param former: an earlier state: reports that are as they were are not
            read again.
        """
        reading = _Reading(snapshot.keys)
        members = reading.members(snapshot.members)
        work = reading.work(snapshot.work)
        assignments = reading.assignments(snapshot.assignments, work)
        owner_entries = reading.owner_entries(snapshot.owners, work)
        owners = reading.owners(owner_entries)
        reading.intent(snapshot.intent)
        chunks = reading.chunks(snapshot.statuses)
        statuses = reading.statuses(chunks, former)
        lost = reading.lost(snapshot.lost)
        return cls(
            now=snapshot.now,
            members=members,
            work=work,
            work_index=reading.work_index,
            assignments=assignments,
            owners=owners,
            owner_entries=owner_entries,
            node_intents=reading.node_intents,
            relocations=reading.relocations,
            relocation_index=reading.relocation_index,
            statuses=statuses,
            chunks=chunks,
            lost=lost,
            frozen=reading.freeze_reason is not None,
            freeze_reason=reading.freeze_reason or "",
            stray=tuple(reading.stray),
            problems=reading.problems,
        )

    def item(self, work: str) -> WorkItem:
        """
        Give a work item, read.

        :raises KeyError: when there is none of that id.
        """
        return WorkItem.from_value(work, self.work[work])

    def owner_of(self, work: str) -> str | None:
        """
        Give the member that owns an item, by its owner record.
        """
        record = self.owners.get(work)
        return None if record is None else record.owner

    def refusal(self, name: str) -> str:
        """
        Say what a member is that may not be given work; empty when it may.

        :raises KeyError: when there is no such member.
        """
        member = self.members[name]
        if member.leaving:
            return "leaving"
        if member.weight <= 0:
            return "of weight 0"
        return _REFUSALS.get(self.node_intents.get(name, ""), "")

    @property
    def missing(self) -> list[str]:
        """
        The members that are gone and have work.
        """
        return [
            name
            for name, items in self.assignments.items()
            if name not in self.members and not self.work.keys().isdisjoint(items)
        ]

    @property
    def receivers(self) -> dict[str, float]:
        """
        The members that may be given work, in order of their ids, with their
        weights.
        """
        return {
            name: member.weight
            for name, member in sorted(self.members.items())
            if not self.refusal(name)
        }

    @property
    def keepers(self) -> frozenset[str]:
        """
        The members that are given nothing and keep what they have: those in
        maintenance.  One that leaves, or is of weight 0, gives up its work even
        so.
        """
        return frozenset(
            name
            for name in self.members
            if self.refusal(name) == _REFUSALS[MAINTENANCE]
        )


def plans_by_resources(planner: object) -> bool:
    """
    Whether a planner, or a leader's plugin, plans by what members report of
    their resources and of their work, and waits for those that are gone.
    """
    return getattr(planner, "by_resources", False) is True


class _Reading:
    """
    Takes keys and values apart, and lists what it could not use.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.stray: list[str] = []
        self.problems: dict[str, str] = {}
        self.node_intents: dict[str, str] = {}
        self.relocations: dict[str, str] = {}
        self.relocation_index: dict[str, int] = {}
        self.work_index: dict[str, int] = {}
        self.freeze_reason: str | None = None

    def members(self, entries: Sequence[Entry]) -> dict[str, Member]:
        members = {}
        for entry in entries:
            try:
                member = Member.from_entry(entry, self._keys)
            except RecordError as error:
                self.stray.append(error.key)
                continue
            if member.problem:
                self.problems[shown(entry.key)] = member.problem
            if member.live:
                members[member.id] = member
        return members

    def work(self, entries: Sequence[Entry]) -> dict[str, bytes]:
        start = len(self._keys.work)
        work = {}
        for entry in entries:
            name = entry.key[start:]
            if is_work_id(name):
                work[name] = entry.value
                self.work_index[name] = entry.modify_index
            else:
                self.stray.append(shown(entry.key))
        return work

    def owner_entries(
        self, entries: Sequence[Entry], known: Mapping[str, bytes]
    ) -> dict[str, Entry]:
        start = len(self._keys.owners)
        owners = {}
        for entry in entries:
            name = entry.key[start:]
            if name in known or is_work_id(name):
                owners[name] = entry
            else:
                self.stray.append(shown(entry.key))
        return owners

    def assignments(
        self, entries: Sequence[Entry], known: Mapping[str, bytes]
    ) -> dict[str, dict[str, bytes]]:
        start = len(self._keys.assignments)
        assignments: dict[str, dict[str, bytes]] = {}
        for entry in entries:
            member, _, work = entry.key[start:].partition("/")
            mine = assignments.get(member)
            if mine is None:
                if not is_instance_id(member) or not is_work_id(work):
                    self.stray.append(shown(entry.key))
                    continue
                mine = assignments[member] = {}
            if work in known or is_work_id(work):
                mine[work] = entry.value
            else:
                self.stray.append(shown(entry.key))
        return assignments

    def owners(self, entries: Mapping[str, Entry]) -> dict[str, OwnerRecord]:
        # All items of one member have the same owner record, byte for byte.
        read: dict[bytes, OwnerRecord] = {}
        owners = {}
        for work, entry in entries.items():
            record = read.get(entry.value)
            if record is None:
                try:
                    record = OwnerRecord.from_entry(entry)
                except RecordError as error:
                    self.problems[shown(entry.key)] = error.reason
                    continue
                read[entry.value] = record
            owners[work] = record
        return owners

    def chunks(self, entries: Sequence[Entry]) -> dict[str, dict[int, bytes]]:
        start = len(self._keys.statuses)
        chunks: dict[str, dict[int, bytes]] = {}
        for entry in entries:
            member, _, number = entry.key[start:].partition("/")
            if is_instance_id(member) and number.isdecimal() and number.isascii():
                chunks.setdefault(member, {})[int(number)] = entry.value
            else:
                self.stray.append(shown(entry.key))
        return chunks

    def statuses(
        self,
        chunks: Mapping[str, Mapping[int, bytes]],
        former: ClusterState | None,
    ) -> dict[str, StatusReport]:
        before, known = ({}, {}) if former is None else (former.chunks, former.statuses)
        reports = {}
        for member, values in chunks.items():
            if member in known and before.get(member) == values:
                reports[member] = known[member]
                continue
            prefix = self._keys.status_of(member).removesuffix("/")
            try:
                report = decode_status(values, prefix)
            except RecordError as error:
                self.problems[error.key] = error.reason
                continue
            if report is not None:
                reports[member] = report
        return reports

    def lost(self, entries: Sequence[Entry]) -> dict[str, Entry]:
        start = len(self._keys.lost)
        lost = {}
        for entry in entries:
            member = entry.key[start:]
            if is_instance_id(member):
                lost[member] = entry
            else:
                self.stray.append(shown(entry.key))
        return lost

    def intent(self, entries: Sequence[Entry]) -> None:
        start = len(self._keys.intent)
        for entry in entries:
            what, _, name = entry.key[start:].partition("/")
            text = entry.value.decode("utf-8", errors="replace").strip()
            if entry.key == self._keys.freeze:
                self.freeze_reason = text
            elif entry.key == self._keys.transfer:
                # Whoever leads answers it; planning has no part in it.
                try:
                    TransferRequest.from_entry(entry)
                except RecordError as error:
                    self.problems[shown(entry.key)] = error.reason
            elif what == "nodes" and is_instance_id(name):
                if text in (MAINTENANCE, LEAVE):
                    self.node_intents[name] = text
                else:
                    self._refuse(entry, f"neither {MAINTENANCE} nor {LEAVE}")
            elif what == "relocations" and is_work_id(name):
                if not text or is_instance_id(text):
                    self.relocations[name] = text
                    self.relocation_index[name] = entry.modify_index
                else:
                    self._refuse(entry, "neither empty nor an instance id")
            else:
                self.stray.append(shown(entry.key))

    def _refuse(self, entry: Entry, reason: str) -> None:
        self.problems[shown(entry.key)] = f"the value is {reason}"
