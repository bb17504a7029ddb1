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

import base64
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from ._json import Fields, dump, parse_object
from ._json import RecordError as RecordError
from ._status import StatusReport as StatusReport
from ._status import WorkStatus as WorkStatus
from ._status import decode_status as decode_status
from ._status import encode_status as encode_status
from .keys import Keys, is_instance_id

if TYPE_CHECKING:
    from .consul.model import Entry

#: The status a member's record has carried since 2016.
ALIVE = "alive"

#: The largest weight a member or an item may have.
MAX_WEIGHT = 1_000_000_000

#: The phases of an assignment.
PREPARE = "prepare"
RUN = "run"

#: The orders of a work item.
START = "start"
STOP = "stop"


def _present(**values: Any) -> dict[str, Any]:
    """
    Give the fields that say something: neither missing nor an empty object.
    """
    return {name: v for name, v in values.items() if v is not None and v != {}}


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


@frozen
class TermRecord:
    """
    Who leads, or led last: ``term``.

    :ivar holder: its instance id.
    :ivar session: whose end ends the term.
    :ivar token: the fencing token of the term.
    :ivar check: id of the check bound to the session, ``None`` without one.
    :ivar node: the Consul node of that check.
    :ivar seq: counts the transactions of the term.
    :ivar released: the leader leads no more, by its own word.
    :ivar ttl: seconds of the session's TTL, so that a successor waits by the
        holder's settings and not by its own; ``None`` when not told.
    """

    holder: str
    session: str
    token: int = 0
    check: str | None = None
    node: str | None = None
    seq: int = 0
    released: bool = False
    ttl: float | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_entry(cls, entry: Entry) -> TermRecord:
        """
        Read the term's key.

        :raises RecordError: when its value is not a term.
        """
        fields = Fields(entry.key, parse_object(entry.key, entry.value))
        record = cls(
            holder=fields.required_text("holder"),
            session=fields.required_text("session"),
            token=fields.whole("token"),
            check=fields.optional_text("check"),
            node=fields.optional_text("node"),
            seq=fields.whole("seq"),
            released=fields.truth("released", False),
            ttl=fields.number("ttl", None),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return record

    def encode(self) -> bytes:
        """
        Give the value of the term's key.
        """
        known = {
            "holder": self.holder,
            "session": self.session,
            "token": self.token,
            "check": self.check,
            "node": self.node,
            "seq": self.seq,
            "released": self.released,
        }
        return dump({**self.extra, **known, **_present(ttl=self.ttl)})


@frozen
class OwnerRecord:
    """
    Who runs an item: ``owners/<work_id>``.  Equal for all items of one member
    and session.

    :ivar owner: its instance id.
    :ivar session: the item may run only while this session's lease lasts.
    :ivar check: id of the check bound to the session, ``None`` without one.
    :ivar node: the Consul node of that check.
    :ivar ttl: as in :class:`TermRecord`.
    """

    owner: str
    session: str
    check: str | None = None
    node: str | None = None
    ttl: float | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_entry(cls, entry: Entry) -> OwnerRecord:
        """
        Read an owner's key.

        :raises RecordError: when its value is not an owner.
        """
        fields = Fields(entry.key, parse_object(entry.key, entry.value))
        record = cls(
            owner=fields.required_text("owner"),
            session=fields.required_text("session"),
            check=fields.optional_text("check"),
            node=fields.optional_text("node"),
            ttl=fields.number("ttl", None),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return record

    def encode(self) -> bytes:
        """
        Give the value of the owner's key.
        """
        known = {
            "owner": self.owner,
            "session": self.session,
            "check": self.check,
            "node": self.node,
        }
        return dump({**self.extra, **known, **_present(ttl=self.ttl)})


@frozen
class WorkItem:
    """
    Something to be run: ``work/<work_id>``.

    :ivar order: ``start``, or ``stop`` for an item that is kept but not run.
    :ivar limits: what it may use, by resource.
    :ivar reference: items of one reference like to run together.
    :ivar config: what to run; the runner's business.
    :ivar metadata: the application's.
    :ivar force: start it even where it does not fit.
    :ivar weight: how much it counts where items do not all count one.
    :ivar raw: the value when it is no JSON object, else ``None``.
    :ivar problem: which fields could not be read; ``None`` when all could.
    """

    id: str
    order: str = START
    limits: Mapping[str, Any] = field(factory=dict)
    reference: str = ""
    config: Any = None
    metadata: Mapping[str, Any] = field(factory=dict)
    force: bool = False
    weight: float = 1
    raw: bytes | None = None
    problem: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_value(cls, work_id: str, raw: bytes) -> WorkItem:
        """
        Read the value of a work item's key.  Never raises: a value that is no
        JSON object is a plain item, kept as it is.
        """
        try:
            values = parse_object(work_id, raw)
        except RecordError:
            return cls(work_id, raw=raw)
        return cls._from_fields(work_id, Fields(work_id, values))

    @classmethod
    def _from_fields(cls, work_id: str, fields: Fields) -> WorkItem:
        return cls(
            work_id,
            order=fields.text("order", START),
            limits=fields.mapping("limits"),
            reference=fields.text("reference"),
            config=fields.extra.pop("config", None),
            metadata=fields.mapping("metadata"),
            force=fields.truth("force", False),
            weight=fields.number("weight", 1, MAX_WEIGHT) or 0,
            problem=fields.problem,
            extra=fields.extra,
        )

    def to_json(self) -> dict[str, Any]:
        """
        Give the object that stands for the item: only what is not default.
        """
        return {
            **self.extra,
            **_present(
                order=self.order if self.order != START else None,
                limits=dict(self.limits),
                reference=self.reference or None,
                config=self.config,
                metadata=dict(self.metadata),
                force=self.force or None,
                weight=self.weight if self.weight != 1 else None,
            ),
        }

    def encode(self) -> bytes:
        """
        Give the value of the item's key.
        """
        return dump(self.to_json()) if self.raw is None else self.raw

    @property
    def digest(self) -> str:
        """
        What tells one description of the item from another; blanks and the
        order of fields make no difference.
        """
        return hashlib.sha256(self.encode()).hexdigest()[:16]


@frozen
class Assignment:
    """
    That a member is to run an item: ``assignments/<id>/<work_id>``.

    :ivar phase: ``run``, or ``prepare`` for a move that is being prepared.
    :ivar item: the item as applied; ``None`` where the value is empty, as the
        original's and those of our simple leaders are.
    :ivar problem: why ``item`` could not be read; ``None`` when it could.
    """

    member: str
    work: str
    phase: str = RUN
    item: WorkItem | None = None
    problem: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_value(cls, member: str, work: str, raw: bytes) -> Assignment:
        """
        Read the value of an assignment.  Never raises: the key alone already
        says that the member is to run the item.
        """
        if not raw:
            return cls(member, work)
        key = f"assignments/{member}/{work}"
        try:
            fields = Fields(key, parse_object(key, raw))
        except RecordError as error:
            return cls(member, work, problem=error.reason)
        phase = fields.text("phase", RUN)
        item = None
        plain = fields.optional_text("raw")
        if plain is not None:
            try:
                item = WorkItem(work, raw=base64.b64decode(plain, validate=True))
            except ValueError:
                fields.problems.append("raw is not base64")
        elif "item" in fields.extra:
            item = WorkItem._from_fields(work, Fields(key, fields.mapping("item")))
        return cls(member, work, phase, item, fields.problem, fields.extra)

    def encode(self) -> bytes:
        """
        Give the value of the assignment: empty when it says no more than its
        key.
        """
        known: dict[str, Any] = {"phase": self.phase}
        if self.item is None:
            if self.phase == RUN and not self.extra:
                return b""
        elif self.item.raw is None:
            known["item"] = self.item.to_json()
        else:
            known["raw"] = base64.b64encode(self.item.raw).decode("ascii")
        return dump({**self.extra, **known})
