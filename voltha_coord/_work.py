"""
The records of work: the item, and that a member is to run it.

Both count because their keys exist, whatever their values are.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from ._json import Fields, RecordError, dump, parse_object, present

#: The largest weight a member or an item may have.
MAX_WEIGHT = 1_000_000_000

#: The phases of an assignment.
PREPARE = "prepare"
RUN = "run"

#: The orders of a work item.
START = "start"
STOP = "stop"


@frozen
class WorkItem:
    """
    Something to be run: ``work/<work_id>``.

    :ivar order: ``start``, or ``stop`` for an item that is kept but not run; any
        other word is a problem, and counts as ``start``.
    :ivar limits: what it may use, by resource.
    :ivar reference: items of one reference like to run together.
    :ivar config: what to run; the runner's business.
    :ivar metadata: the application's.
    :ivar force: start it anew, once; the leader that does removes it.
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
        order = fields.text("order", START)
        if order not in (START, STOP):
            fields.problems.append(
                f"order {order[:20]!r} is neither {START} nor {STOP}"
            )
        return cls(
            work_id,
            order=order,
            limits=fields.mapping("limits"),
            reference=fields.text("reference"),
            config=fields.extra.pop("config", None),
            metadata=fields.mapping("metadata"),
            force=fields.truth("force", False),
            weight=fields.number("weight", 1, MAX_WEIGHT) or 0,
            problem=fields.problem,
            extra=fields.extra,
        )

    @property
    def is_to_run(self) -> bool:
        """
        Whether it is to be run where it is, and not only kept.
        """
        return self.order != STOP

    def to_json(self) -> dict[str, Any]:
        """
        Give the object that stands for the item: only what is not default.
        """
        return {
            **self.extra,
            **present(
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
    :ivar restart: the ModifyIndex of the work item whose ``force`` asked last for
        it to be started anew; 0 for never.
    :ivar problem: why ``item`` could not be read; ``None`` when it could.
    """

    member: str
    work: str
    phase: str = RUN
    item: WorkItem | None = None
    restart: int = 0
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
        restart = fields.whole("restart")
        item = None
        plain = fields.optional_text("raw")
        if plain is not None:
            try:
                item = WorkItem(work, raw=base64.b64decode(plain, validate=True))
            except ValueError:
                fields.problems.append("raw is not base64")
        elif "item" in fields.extra:
            item = WorkItem._from_fields(work, Fields(key, fields.mapping("item")))
        return cls(member, work, phase, item, restart, fields.problem, fields.extra)

    def encode(self) -> bytes:
        """
        Give the value of the assignment: empty when it says no more than its
        key.
        """
        known: dict[str, Any] = {"phase": self.phase}
        if self.restart:
            known["restart"] = self.restart
        if self.item is None:
            if self.phase == RUN and not self.restart and not self.extra:
                return b""
        elif self.item.raw is None:
            known["item"] = self.item.to_json()
        else:
            known["raw"] = base64.b64encode(self.item.raw).decode("ascii")
        return dump({**self.extra, **known})
