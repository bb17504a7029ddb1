"""
What stands in the keys: frozen values, and their encoding as JSON.

Pure.  Three rules hold for every record:

- A field this version does not know is kept in ``extra`` and written back, so
  that a member of a later version loses nothing by passing through us.
- Reading raises :class:`RecordError` or nothing.  Where a record has to count
  whatever is in it (a member is a member because it holds its key, an item is
  to be run because its key exists), reading does not raise either: what is
  wrong is told in ``problem`` and the defaults stand in.
- Writing is canonical: an equal record gives equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from ._intent import TransferRequest
from ._json import Fields, RecordError, dump, parse_object
from ._status import StatusReport, WorkStatus, decode_status, encode_status
from ._tenure import OwnerRecord, TermRecord
from ._work import MAX_WEIGHT, PREPARE, RUN, START, STOP, Assignment, WorkItem
from .keys import Keys, is_instance_id

if TYPE_CHECKING:
    from .consul.model import Entry

__all__ = [
    "ALIVE",
    "MAX_WEIGHT",
    "PREPARE",
    "RUN",
    "START",
    "STOP",
    "Assignment",
    "Member",
    "OwnerRecord",
    "RecordError",
    "StatusReport",
    "TermRecord",
    "TransferRequest",
    "WorkItem",
    "WorkStatus",
    "decode_status",
    "encode_status",
]

#: The status a member's record has carried since 2016.
ALIVE = "alive"


@frozen
class Member:
    """
    A member's record: ``members/<id>``.

    :ivar host_address: where the others reach it (``external_host_address``).
    :ivar rest_port: of its HTTP face, ``None`` without one.
    :ivar weight: its share of the work, 0 for none.
    :ivar check: id of its liveness check, ``None`` when it lives by TTL alone.
    :ivar node: the Consul node its check is on.
    :ivar started_at: wall clock, for people.
    :ivar session: of the key; see :attr:`live`.
    :ivar foreign: written by the original coordinator, or not a record at all.
    :ivar problem: what could not be read, in one line; ``None`` when all could.
    """

    id: str
    status: str = ALIVE
    host_address: str = ""
    rest_port: int | None = None
    weight: float = 1
    resources: Mapping[str, Any] = field(factory=dict)
    app: str | None = None
    can_lead: bool = True
    leaving: bool = False
    check: str | None = None
    node: str | None = None
    version: str = ""
    started_at: float | None = None
    session: str | None = None
    modify_index: int = 0
    foreign: bool = False
    problem: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @property
    def live(self) -> bool:
        """
        Whether a session holds the key.  A member, ours or the original's,
        writes its key by acquiring it; a key without a session was written by
        hand or outlived its member, and counts for nothing.  (The original's
        own leader of 2016 counted it.)
        """
        return self.session is not None

    @classmethod
    def from_entry(cls, entry: Entry, keys: Keys) -> Member:
        """
        Read a member's key.  Whatever its value is, it gives a member: the
        original's are the bare text ``alive``, or an object without
        ``version``; anything else is a member of weight 1 with a ``problem``.

        :raises RecordError: when the key is not one of a member.
        """
        member_id = entry.key.removeprefix(keys.members)
        if member_id == entry.key or not is_instance_id(member_id):
            raise RecordError(entry.key, "not the key of a member")
        bare = cls(
            member_id,
            session=entry.session,
            modify_index=entry.modify_index,
            foreign=True,
        )
        if entry.value == ALIVE.encode():
            return bare
        try:
            fields = Fields(entry.key, parse_object(entry.key, entry.value))
        except RecordError as error:
            return evolve(bare, problem=error.reason)
        return evolve(
            bare,
            foreign="version" not in fields.extra,
            status=fields.text("status", ALIVE),
            host_address=fields.text("host_address"),
            rest_port=fields.optional_port("rest_port"),
            weight=fields.number("weight", 1, MAX_WEIGHT) or 0,
            resources=fields.mapping("resources"),
            app=fields.optional_text("app"),
            can_lead=fields.truth("can_lead", True),
            leaving=fields.truth("leaving", False),
            check=fields.optional_text("check"),
            node=fields.optional_text("node"),
            version=fields.text("version"),
            started_at=fields.number("started_at", None),
            problem=fields.problem,
            extra=fields.extra,
        )

    def encode(self) -> bytes:
        """
        Give the value of the member's key.
        """
        return dump(
            {
                **self.extra,
                "status": self.status,
                "host_address": self.host_address,
                "rest_port": self.rest_port,
                "weight": self.weight,
                "resources": self.resources,
                "app": self.app,
                "can_lead": self.can_lead,
                "leaving": self.leaving,
                "check": self.check,
                "node": self.node,
                "version": self.version,
                "started_at": self.started_at,
            }
        )
