"""
What runs where, and what is said to be wrong: pure, from a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..errors import CoordinationError
from ..keys import shown
from ..ownership import error_mark
from ..records import PREPARE, Assignment
from .changing import near
from .documents import Document
from .ids import expand
from .relocating import who_is_there
from .view import Item, View

#: Who says that something is wrong.
LEADER = "leader"
OWNER = "owner"

#: What an item is where it is only to be made ready.
PREPARING = "preparing"


def processes(
    view: View,
    patterns: Sequence[str] = (),
    member: str | None = None,
    only_wrong: bool = False,
) -> Document:
    """
    Give each item on each member that has it, and items that nobody has.

    :param patterns: only these, as of :func:`chosen`.
    :param member: only what this one has.
    :param only_wrong: only what is not as it is to be.
    :raises CoordinationError: when a pattern names an item that is not there, or
        ``member`` is neither a member nor has anything.
    """
    rows = [
        row
        for id in chosen(patterns, view.items)
        for row in _rows(view, view.items[id])
        if member is None or row["node"] == member
    ]
    if member is not None and member not in view.members and not rows:
        raise CoordinationError(f"no member {member} ({who_is_there(view)})")
    return {
        "processes": [row for row in rows if row["error"] or not only_wrong],
        "unreadable": {
            name: reason
            for name, reason in _unreadable(view).items()
            if member is None or name == member
        },
    }


def chosen(patterns: Sequence[str], ids: Mapping[str, object]) -> list[str]:
    """
    Give the ids that are meant: all without a pattern.  A pattern may hold ranges
    and ``*``; the ``@`` at the end of an id without a domain may be there.

    :raises CoordinationError: when one without ``*`` is not among them.
    """
    if not patterns:
        return list(ids)
    wanted: dict[str, None] = {}
    for pattern in patterns:
        for text in expand(pattern):
            id = text.removesuffix("@")
            if id in ids:
                wanted[id] = None
            elif any(sign in id for sign in "*?["):
                fits = (name for name in ids if fnmatchcase(name, id))
                wanted |= dict.fromkeys(fits)
            else:
                raise CoordinationError(f"nothing is known of {id} ({near(id, ids)})")
    return list(wanted)


def _rows(view: View, item: Item) -> Iterator[Document]:
    by_member = {assignment.member: assignment for assignment in item.assignments}
    places = sorted(by_member.keys() | item.reports.keys())
    main = item.assigned_to if item.owner is None else item.owner.owner
    if main is not None and main not in places:
        places.append(main)
    for name in places:
        yield _row(view, item, name, by_member.get(name), name == main)
    if not places and item.work is not None:
        yield _row(view, item, None, None, True)


def _row(
    view: View,
    item: Item,
    node: str | None,
    assignment: Assignment | None,
    main: bool,
) -> Document:
    report = None if node is None else item.reports.get(node)
    state = None if report is None else report.state
    if report is None and assignment is not None and assignment.phase == PREPARE:
        state = PREPARING
    told = view.trouble(item) if main else ""
    order = None if item.work is None else item.work.order
    limits = {} if item.work is None else dict(item.work.limits)
    details: Mapping[str, Any] = {} if report is None else report.details
    return {
        "id": item.id,
        "node": node,
        "owner": None if item.owner is None else item.owner.owner,
        "phase": None if assignment is None else assignment.phase,
        "order": order if report is None else report.order,
        "state": state,
        "usage": {} if report is None else dict(report.usage),
        "limits": limits,
        "since": None if report is None else report.since,
        "restarts": details.get("restarts"),
        "error": (report.error if report is not None else "") or told or None,
        "details": dict(details),
    }


def _unreadable(view: View) -> dict[str, str]:
    """
    Give the members whose reports cannot be read, and why.
    """
    place = shown(view.keys.statuses)
    return {
        key.removeprefix(place).split("/")[0]: reason
        for key, reason in sorted(view.unreadable.items())
        if key.startswith(place)
    }


def errors(view: View, patterns: Sequence[str] = ()) -> Document:
    """
    Give what stands under ``errors/``, and who said it.

    :param patterns: only of these, as of :func:`chosen`.
    :raises CoordinationError: when a pattern names an item that is not there.
    """
    marks = {
        error_mark(member.session): id
        for id, member in view.members.items()
        if member.session
    }
    rows = []
    for id in chosen(patterns, view.items):
        item = view.items[id]
        if item.error is None:
            continue
        rows.append(
            {
                "id": id,
                "error": item.error,
                "said_by": OWNER if item.error_mark else LEADER,
                "member": marks.get(item.error_mark) if item.error_mark else None,
            }
        )
    return {"errors": rows}
