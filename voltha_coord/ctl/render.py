"""
How documents look on a terminal, or plain where there is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .documents import Document
from .findings import frozen_words, one_line
from .plan import summary

#: Columns of output that nobody looks at in a terminal: nothing is cut there.
PLAIN_WIDTH = 4000

#: So many rows of what is only a part of an answer are shown.
MOST_ROWS = 10

#: How a state looks; others have no colour.
_STYLES = {
    "leader": "bold cyan",
    "online": "green",
    "running": "green",
    "finished": "dim",
    "stopped": "dim",
    "killed": "red",
    "leaving": "yellow",
    "maintenance": "yellow",
    "no-lead": "dim",
    "leave": "yellow",
    "lost": "red",
    "failed": "red",
    "ok": "green",
    "warn": "yellow",
    "wrong": "bold red",
}


def console(file: Any = None) -> Console:
    """
    Give where to write: in colour and as wide as the terminal is, or plain.
    ``NO_COLOR`` and ``COLUMNS`` are honoured.
    """
    target = sys.stdout if file is None else file
    plain = not target.isatty()
    told = os.environ.get("COLUMNS", "").isdigit()
    return Console(
        file=target,
        width=PLAIN_WIDTH if plain and not told else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )


def styled(word: object) -> Text:
    """
    Give a word with the colour of what it stands for.
    """
    text = "-" if word is None or word == "" else str(word)
    return Text(text, style=_STYLES.get(text, ""))


def table(*columns: str, right: Iterable[str] = (), wide: str = "") -> Table:
    """
    Make an empty table.

    :param right: columns of numbers.
    :param wide: the column that gives way, over several lines, when there is
        not room for all.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column != wide and not column.startswith("id"),
        )
    return made


def show_status(out: Console, document: Document) -> None:
    """
    Show ``status``.
    """
    work = document["work"]
    leader = document["leader_id"]
    told = {
        "cluster": f"{document['prefix']} on {document['consul']['address']}",
        "leader": leader or "none",
        "fencing token": document["fencing_token"],
        **_wanted(document),
        "members": len([m for m in document["members"] if m["state"] != "lost"]),
        "work": ", ".join(f"{count} {name}" for name, count in work.items()),
        "errors": len(document["errors"]),
    }
    facts(out, told)
    if document["members"]:
        out.print()
        show_members(out, document)
    if document["errors"]:
        out.print()
        errors = table("id", "error", wide="error")
        for work_id, text in list(document["errors"].items())[:MOST_ROWS]:
            errors.add_row(work_id, Text(text, style="red"))
        out.print(errors)
        more = len(document["errors"]) - MOST_ROWS
        if more > 0:
            out.print(f"… and {more} more: assignments --wrong")


def _wanted(document: Document) -> dict[str, str]:
    """
    Say what operators want, but for what the members' states show.
    """
    facts = {}
    if document["frozen"]:
        facts["planning"] = frozen_words(document["freeze_reason"])
    request = document["transfer"]
    if request is not None:
        target = one_line(request["target"] or "any other")
        refused = request["refused"]
        told = "asked for" if refused is None else f"refused: {one_line(refused)}"
        facts["hand-over"] = f"to {target}, {told}"
    there = {member["id"] for member in document["members"]}
    away = [f"{id} ({w})" for id, w in document["intents"].items() if id not in there]
    if away:
        facts["not there"] = ", ".join(away)
    return facts


def facts(out: Console, told: Mapping[str, object]) -> None:
    """
    Show some facts, each by its name.
    """
    width = max(map(len, told))
    for name, value in told.items():
        out.print(Text(f"{name:{width}}  ", style="dim") + styled(value))


def points(out: Console, lines: Iterable[str]) -> None:
    """
    Show some lines, one under the other, each marked as one.
    """
    made = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        made.add_row("-", line)
    if made.row_count:
        out.print(made)


def show_members(out: Console, document: Document) -> None:
    """
    Show ``members``; where there is not room for all columns, without the last.
    """
    rows = document["members"]
    if not rows:
        out.print("no members")
        return
    columns = _MEMBER_COLUMNS
    if not any(row["resources"] for row in rows):
        columns = tuple(name for name in columns if name not in _MEASURED)
    boundless = out.options.update_width(PLAIN_WIDTH)
    for count in range(len(columns), _COLUMNS_NEEDED - 1, -1):
        made = _members(columns[:count], rows)
        if out.measure(made, options=boundless).maximum <= out.width:
            break
    out.print(made)


#: The columns of ``members``, the dispensable ones last.
_MEMBER_COLUMNS: tuple[str, ...] = (
    *("id", "role", "state", "items", "running", "cpu", "memory"),
    *("address", "liveness", "weight"),
)
#: Those only shown where members tell what they have and use.
_MEASURED = ("cpu", "memory")
_COLUMNS_NEEDED = 3


def _members(columns: Sequence[str], rows: Sequence[Document]) -> Table:
    made = table(*columns, right=("items", "running", "weight", *_MEASURED))
    for row in rows:
        address = row["host_address"] or "-"
        if row["rest_port"]:
            address += f":{row['rest_port']}"
        cells = {
            "id": Text(row["id"]),
            "role": styled(_role(row)),
            "state": styled(row["state"]),
            "items": Text(str(row["items"])),
            "running": Text(str(row["running"])),
            **_use(row["resources"]),
            "address": Text(address),
            "liveness": Text("original" if row["foreign"] else row["liveness"]),
            "weight": Text(f"{row['weight']:g}"),
        }
        made.add_row(*(cells[column] for column in columns))
    return made


def _use(resources: Document | None) -> dict[str, Text]:
    """
    Show what is in use, and the limit of it.
    """
    if resources is None:
        return dict.fromkeys(_MEASURED, Text("-"))
    if resources["error"]:
        return dict.fromkeys(_MEASURED, Text("unknown", style="red"))
    style = "yellow" if resources["throttling"] else ""
    cpu = f"{resources['cpu']:.0f}/{resources['cpu_limit']:.0f}%"
    used, limit = (resources[name] / 2**30 for name in ("memory", "memory_limit"))
    return {
        "cpu": Text(cpu, style=style),
        "memory": Text(f"{used:.1f}/{limit:.1f} GiB", style=style),
    }


def _role(row: Document) -> str | None:
    role: str | None = row["role"]
    return "no-lead" if role == "follower" and not row["can_lead"] else role


def show_work(out: Console, document: Document) -> None:
    """
    Show ``work list``.
    """
    if not document["work"]:
        out.print("no work")
        return
    made = table("id", "order", "weight", "bytes", right=("weight", "bytes"))
    for row in document["work"]:
        made.add_row(row["id"], row["order"], f"{row['weight']:g}", str(row["bytes"]))
    out.print(made)


def show_assignments(out: Console, document: Document) -> None:
    """
    Show ``assignments``.
    """
    rows = document["assignments"]
    if not rows:
        out.print("nothing to show")
        return
    made = table("id", "assigned to", "owner", "state", "wrong", wide="wrong")
    for row in rows:
        places = ", ".join(
            member if phase == "run" else f"{member} ({phase})"
            for member, phase in zip(row["assigned"], row["phases"], strict=True)
        )
        made.add_row(
            row["id"],
            places or "-",
            row["owner"] or "-",
            styled(row["state"]),
            Text(row["wrong"] or "", style="red"),
        )
    out.print(made)
    wrong = sum(row["wrong"] is not None for row in rows)
    out.print(f"{len(rows)} items, {wrong} not as they are to be")


#: Of so many nodes it is shown by default why they are not the one.
NODES_SHOWN = 5


def show_explanations(
    out: Console, explanations: list[Document], most: int | None = NODES_SHOWN
) -> None:
    """
    Show why operations are what they are.

    :param most: of so many nodes it is shown why they are not the one; ``None``
        for all.
    """
    for row in explanations:
        where = f" {row['node']}" if row["node"] else ""
        out.print(Text(f"{row['op']} {row['work']}{where}: {row['why']}", style="bold"))
        others = [*row["why_not"].items()]
        for node, why in others[:most]:
            out.print(Text(f"    not {node}: {why}"))
        if most is not None and len(others) > most:
            out.print(f"    nor {len(others) - most} more; --json has them")


def show_plan(out: Console, document: Document) -> None:
    """
    Show ``plan``.
    """
    operations = document["operations"]
    if operations:
        made = table("op", "id", "from", "to")
        for row in operations:
            made.add_row(row["op"], row["work"], row["from"] or "-", row["to"] or "-")
        out.print(made)
    show_explanations(out, document["explanations"])
    for work_id, why in document["errors"].items():
        out.print(Text(f"{work_id}: {why}", style="red"))
    for work_id, why in document["skipped"].items():
        out.print(Text(f"{work_id} is not moved: {why}", style="yellow"))
    if document["pending"]:
        out.print(f"{document['pending']} items are left for the next pass")
    out.print(f"{document['leader']}: {summary(operations)}")
    if document["assumed"]:
        out.print(
            f"assumed: members run with --leader {document['leader']}; "
            "plan --leader NAME plans as another"
        )
    if document["frozen"]:
        words = frozen_words(document["freeze_reason"])
        out.print(Text(f"{words}: a leader plans nothing now", style="yellow"))


def show_findings(out: Console, document: Document) -> None:
    """
    Show ``doctor``.
    """
    lines = Table.grid(padding=(0, 2, 0, 0))
    for finding in document["findings"]:
        text = Text(f"{finding['check']}: ", style="bold")
        text.append(finding["found"], style="not bold")
        if finding["advice"]:
            text.append(f" → {finding['advice']}", style="not bold italic")
        lines.add_row(styled(finding["level"]), text)
    out.print(lines)
