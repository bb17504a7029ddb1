"""
A member's report on its work, cut into chunks that fit into Consul.

# Note [Chunks of a report]

A report lies in ``status/<id>/0``, ``status/<id>/1`` and so on.  Every chunk
names the report it belongs to; chunk 0 says how many there are and is written
last.  A reader that finds chunks of two reports, or too few, came in the middle
of a write: it has no report yet, and its next look will find one.  The name of
a report is a digest of what it says, so an unchanged report changes no key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from ._json import Fields, RecordError, dump, parse_object

#: The size no chunk of a report exceeds, in bytes.
CHUNK_BYTES = 256 * 1024

#: The longest error text that is reported, in characters.
ERROR_CHARACTERS = 2000

#: The state of an item of which the status cannot be read.
UNKNOWN = "unknown"

# What a chunk holds beside its items: the report's name, count, punctuation.
_ENVELOPE_BYTES = 200


@frozen
class WorkStatus:
    """
    How one work item fares on one member.

    :ivar order: what was asked for: ``start`` or ``stop``.
    :ivar state: what it is doing: the runner's word, ``running`` when it runs.
    :ivar usage: what it uses, by resource.
    :ivar since: wall clock of its last change of state, for people.
    :ivar digest: of the item as applied (:attr:`WorkItem.digest`).
    :ivar error: why it does not run; empty when it does.
    :ivar details: what else its runner has to say, for people.
    """

    order: str = "start"
    state: str = "running"
    usage: Mapping[str, Any] = field(factory=dict)
    since: float | None = None
    digest: str = ""
    error: str = ""
    details: Mapping[str, Any] = field(factory=dict)
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def _from_fields(cls, fields: Fields) -> WorkStatus:
        status = cls(
            order=fields.text("order", "start"),
            state=fields.text("state", "running"),
            usage=fields.mapping("usage"),
            since=fields.number("since", None),
            digest=fields.text("digest"),
            error=fields.text("error"),
            details=fields.mapping("details"),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return status

    def _to_json(self) -> dict[str, Any]:
        known: dict[str, Any] = {"order": self.order, "state": self.state}
        if self.usage:
            known["usage"] = _without_holes(self.usage)
        if self.since is not None:
            known["since"] = self.since
        if self.digest:
            known["digest"] = self.digest
        if self.error:
            known["error"] = self.error[:ERROR_CHARACTERS]
        if self.details:
            known["details"] = _without_holes(self.details)
        return {**self.extra, **known}


@frozen
class StatusReport:
    """
    What one member says of all the work it has: ``status/<id>/<n>``.

    :ivar items: by work id.
    :ivar node: what the member measures of itself, by resource; empty where it
        does not.
    """

    items: Mapping[str, WorkStatus] = field(factory=dict)
    node: Mapping[str, Any] = field(factory=dict)


def _without_holes(value: Any) -> Any:
    """
    Leave out the numbers JSON has no word for.
    """
    if isinstance(value, Mapping):
        cleaned = {name: _without_holes(v) for name, v in value.items()}
        return {name: v for name, v in cleaned.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_holes(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _encoded(work: str, status: WorkStatus, limit: int) -> bytes:
    pair = dump({work: status._to_json()})[1:-1]
    if len(pair) > limit:
        # One item must not keep all the others from being reported.
        bare = evolve(
            status, usage={}, details={}, extra={}, error="its report is too large"
        )
        pair = dump({work: bare._to_json()})[1:-1]
    return pair


def encode_status(report: StatusReport, limit: int = CHUNK_BYTES) -> list[bytes]:
    """
    Give the chunks of a report, each of at most ``limit`` bytes.  Write them
    from the last to the first; see Note [Chunks of a report].
    """
    node = b'"node":%s,' % dump(_without_holes(report.node)) if report.node else b""
    room = limit - _ENVELOPE_BYTES - len(node)
    groups: list[list[bytes]] = [[]]
    size = 0
    for work in sorted(report.items):
        pair = _encoded(work, report.items[work], room)
        if groups[-1] and size + len(pair) + 1 > room:
            groups.append([])
            size = 0
        groups[-1].append(pair)
        size += len(pair) + 1
    bodies = [b",".join(group) for group in groups]
    name = hashlib.sha256(b"\n".join([*bodies, node])).hexdigest()[:16].encode()
    head = b'{"report":"%s",' % name
    firsts = [b'"count":%d,' % len(bodies) + node] + [b""] * (len(bodies) - 1)
    return [
        head + first + b'"items":{' + body + b"}}"
        for first, body in zip(firsts, bodies, strict=True)
    ]


def decode_status(
    chunks: Mapping[int, bytes], key: str = "status"
) -> StatusReport | None:
    """
    Give the report the chunks make up, ``None`` while it is incomplete.  Chunks
    beyond the count, left over from a longer report, are passed over.  An item
    of which the status cannot be read has the state ``unknown`` and says why;
    so does a ``node`` that cannot be.

    :param chunks: the values by chunk number.
    :param key: the prefix they were read under, for error texts.
    :raises RecordError: when a chunk is not one.
    """
    if 0 not in chunks:
        return None
    first = Fields(f"{key}/0", parse_object(f"{key}/0", chunks[0]))
    name = first.required_text("report")
    count = first.whole("count")
    first.refuse_problems()
    node = first.mapping("node")
    if first.problems:
        node, first.problems = {"error": first.problems[0]}, []
    items = _items(first)
    for number in range(1, count):
        if number not in chunks:
            return None
        place = f"{key}/{number}"
        fields = Fields(place, parse_object(place, chunks[number]))
        if fields.required_text("report") != name:
            fields.refuse_problems()
            return None
        items.update(_items(fields))
    return StatusReport(items, node)


def _items(fields: Fields) -> dict[str, WorkStatus]:
    values = fields.mapping("items")
    fields.refuse_problems()
    return {work: _read(fields.key, value) for work, value in values.items()}


def _read(key: str, value: object) -> WorkStatus:
    if not isinstance(value, dict):
        return WorkStatus(state=UNKNOWN, error="its status is not an object")
    try:
        return WorkStatus._from_fields(Fields(key, value))
    except RecordError as error:
        return WorkStatus(state=UNKNOWN, error=f"its status: {error.reason}")
