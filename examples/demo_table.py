"""
What the demo shows: counts, a table, a line.  Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attrs import frozen
from rich.console import Group
from rich.table import Table
from rich.text import Text

from voltha_coord.ctl.view import View

#: The hundred items of the 2016 original.
WORK = tuple(f"device_group_{number:04d}" for number in range(1, 101))


@frozen
class Counts:
    """
    What the last line says.
    """

    leader: str | None
    members: int
    work: int
    owned: int

    def __str__(self) -> str:
        return (
            f"leader={self.leader or 'none'} members={self.members} "
            f"work={self.work} owned={self.owned}"
        )

    @property
    def complete(self) -> bool:
        """
        Whether there is a leader and every item runs with its owner.
        """
        return self.leader is not None and self.owned == self.work >= len(WORK)


def count(view: View) -> Counts:
    """
    Count what Consul holds.
    """
    wanted = [item for item in view.items.values() if item.wanted]
    return Counts(
        leader=view.leader_id,
        members=len(view.live),
        work=len(wanted),
        owned=sum(map(view.running, wanted)),
    )


@frozen
class Row:
    """
    One member as it is shown.
    """

    member: str
    pid: int
    role: str
    items: int
    event: str


def last_event(lines: Sequence[str]) -> str:
    """
    Give the last event of a member's JSON log in words.
    """
    for line in reversed(lines):
        try:
            event = json.loads(line)
            name, time = event["event"], event["time"][11:19]
        except (ValueError, TypeError, KeyError):
            continue
        return f"{time} {_in_words(str(name), event)}"
    return ""


def _in_words(name: str, event: Mapping[str, object]) -> str:
    match name:
        case "my-assignments-changed":
            return f"work {event.get('old')} → {event.get('new')}"
        case "reassigned-work":
            return f"divided the work anew: {event.get('operations')} changes"
        case "leader-changed":
            return f"leader is {event.get('leader_id') or 'nobody'}"
    return name.replace("-", " ")


def shown(rows: Sequence[Row], counts: Counts, hint: str) -> Group:
    """
    Give what a terminal shows.
    """
    table = Table(box=None, pad_edge=False, expand=True)
    for column in ("member", "role", "items", "kill it with", "last event"):
        table.add_column(
            column,
            justify="right" if column == "items" else "left",
            no_wrap=True,
            overflow="ellipsis",
            # The last one has what room is left.
            ratio=1 if column == "last event" else None,
        )
    for row in rows:
        alive = not row.role.startswith(("killed", "ended"))
        style = {"leader": "bold cyan", "follower": "green"}.get(
            row.role, "yellow" if alive else "red"
        )
        table.add_row(
            row.member,
            Text(row.role, style=style),
            str(row.items),
            f"kill -9 {row.pid}" if alive else "",
            row.event,
        )
    return Group(
        table,
        Text(),
        Text(str(counts), style="green" if counts.complete else "yellow"),
        Text(hint, style="dim"),
    )


def plain(seconds: float, rows: Sequence[Row], counts: Counts) -> str:
    """
    Give one line of what there is.
    """
    members = "  ".join(f"{row.member}:{row.role}:{row.items}" for row in rows)
    return f"{seconds:5.1f} s  {counts}  {members}"
