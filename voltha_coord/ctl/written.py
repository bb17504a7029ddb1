"""
What commands that write work items say: before, what is odd; after, what came of
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .._json import RecordError, parse_object
from ..errors import CoordinationError
from ..work_checks import check_item, too_large

if TYPE_CHECKING:
    from rich.console import Console

    from .documents import Document

#: So many warnings are told one by one.
MOST_WARNINGS = 10

_WORDS = {"missing": "not there"}


def warnings_of(values: Mapping[str, bytes], ours: bool) -> list[str]:
    """
    Look at what is to be written, and give what is odd.

    :param ours: whether it was made to be read by the leader and its members; else
        what is wrong is the application's own business, and only odd.
    :raises CoordinationError: naming the item, and the field, when it cannot be
        written.
    """
    ids: dict[bytes, list[str]] = {}
    for id, value in values.items():
        ids.setdefault(value, []).append(id)
    return [
        f"{_named(those)}: {warning}"
        for value, those in ids.items()
        for warning in _odd(those[0], value, ours)
    ]


def _odd(id: str, value: bytes, ours: bool) -> Iterator[str]:
    size = too_large(len(value))
    if size:
        raise CoordinationError(f"{id}: {_largest(id, value)}{size}")
    try:
        found = check_item(parse_object(id, value))
    except RecordError:
        return
    if ours:
        if found.problems:
            raise CoordinationError(f"{id}: {'; '.join(found.problems)}")
        yield from found.warnings
    else:
        yield from found.problems
        # Other fields are the application's.
        yield from (w for w in found.warnings if "no field" not in w or "meant" in w)


def _largest(id: str, value: bytes) -> str:
    try:
        fields = parse_object(id, value)
    except RecordError:
        return ""
    return f"{max(fields, key=lambda name: len(str(fields[name])))}: "


def _named(ids: list[str]) -> str:
    more = len(ids) - 1
    return ids[0] + (f" and {more} more" if more else "")


def told(warnings: list[str]) -> Iterator[str]:
    """
    Give the lines that warn.
    """
    for warning in warnings[:MOST_WARNINGS]:
        yield f"Warning: {warning}"
    if len(warnings) > MOST_WARNINGS:
        yield f"Warning: … and {len(warnings) - MOST_WARNINGS} more; --json has them"


def show_counts(out: Console, document: Document) -> None:
    """
    Show how many items were written, and how many not.
    """
    counts = [
        f"{len(ids)} {_WORDS.get(name, name)}"
        for name, ids in document.items()
        if ids and name != "warnings"
    ]
    out.print(", ".join(counts) or "nothing to do")


def show_written(out: Console, document: Document) -> None:
    """
    Show ``work add`` and ``work update``.
    """
    show_counts(out, document)
    if document["changed"]:
        out.print(
            "a changed item that runs takes its new value at once if its runner can, "
            "else when it is next started"
        )


def show_orders(out: Console, document: Document) -> None:
    """
    Show ``work start`` and ``work stop``.
    """
    show_counts(out, document)


def show_restart(out: Console, document: Document) -> None:
    """
    Show ``work restart``.
    """
    show_counts(out, document)
    if document["changed"]:
        out.print(
            "the resource leader starts them anew, and takes the request away once it "
            "did; no other leader heeds it"
        )
