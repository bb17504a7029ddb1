"""
How processes, relocations and errors look; see :mod:`.render`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from .documents import Document
from .findings import one_line, printable
from .processes import LEADER
from .render import PLAIN_WIDTH, facts, points, styled, table

#: The columns of ``processes`` without ``error``, and those that are left out one
#: by one where there is not room for all.
_COLUMNS = ("id", "node", "order", "state", "cpu", "memory", "since", "restarts")
_DISPENSABLE = ("restarts", "order", "since", "memory", "cpu")
_RIGHT = ("cpu", "memory", "since", "restarts")

#: An error has so many columns, if there is one.
_ERROR_WIDTH = 24

_AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def age(seconds: float) -> str:
    """
    Give a time that has passed, in the largest two units of it.
    """
    left = max(0, int(seconds))
    parts = []
    for length, unit in _AGES:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def memory(size: object) -> str:
    """
    Give bytes as people read them, as ``--memory`` takes them.
    """
    if isinstance(size, bool) or not isinstance(size, int | float):
        return "-"
    amount = float(size)
    for unit in ("", "K", "M", "G"):
        if abs(amount) < 1024:
            return f"{amount:.3g}{unit}" if amount < 1000 else f"{amount:.0f}{unit}"
        amount /= 1024
    return f"{amount:.3g}T" if amount < 1000 else f"{amount:.0f}T"


def percent(value: object) -> str:
    """
    Give a percentage.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-"
    return f"{value:.3g}%" if abs(value) < 1000 else f"{value:.0f}%"


def show_processes(out: Console, document: Document) -> None:
    """
    Show ``processes``.
    """
    rows = document["processes"]
    if rows:
        _table(out, rows, time.time())
        wrong = sum(row["error"] is not None for row in rows)
        out.print(f"{len(rows)} processes, {wrong} not as they are to be")
    else:
        out.print("nothing to show")
    _unreadable(out, document)


def _unreadable(out: Console, document: Document) -> None:
    for member, reason in document["unreadable"].items():
        out.print(
            Text(f"the report of {member} cannot be read: {one_line(reason)}", "yellow")
        )


def _table(out: Console, rows: list[Document], now: float) -> None:
    erroneous = any(row["error"] for row in rows)
    needed = _ERROR_WIDTH if erroneous else 0
    boundless = out.options.update_width(PLAIN_WIDTH)
    columns = list(_COLUMNS)
    for column in (*_DISPENSABLE, ""):
        made = table(*columns, right=_RIGHT)
        for row in rows:
            made.add_row(*(_cell(row, name, now) for name in columns))
        width = out.measure(made, options=boundless).maximum
        if width + needed <= out.width or not column:
            break
        columns.remove(column)
    if erroneous:
        made = table(*columns, "error", right=_RIGHT)
        room = max(_ERROR_WIDTH, out.width - width - 2)
        for row in rows:
            text = printable(row["error"] or "")
            short = text if len(text) <= room else f"{text[: room - 1]}…"
            cells = (_cell(row, name, now) for name in columns)
            made.add_row(*cells, Text(short, style="red"))
    out.print(made)


def _cell(row: Document, column: str, now: float) -> Text:
    usage: Mapping[str, Any] = row["usage"]
    if column == "cpu":
        return Text(percent(usage.get("cpu")))
    if column == "memory":
        return Text(memory(usage.get("memory")))
    if column == "since":
        since = row["since"]
        return Text("-" if since is None else age(now - since))
    if column == "state":
        return styled(one_line(row["state"] or ""))
    value = row[column]
    return Text("-" if value is None else one_line(str(value)))


def show_process(out: Console, document: Document) -> None:
    """
    Show ``processes`` of one item: all there is to know.
    """
    now = time.time()
    for number, row in enumerate(document["processes"]):
        if number:
            out.print()
        _details(out, row, now)
    _unreadable(out, document)


def _details(out: Console, row: Document, now: float) -> None:
    usage, limits, details = row["usage"], row["limits"], dict(row["details"])
    log = details.pop("log", None)
    known: dict[str, object] = {
        "id": row["id"],
        "node": row["node"],
        "order": row["order"],
        "state": one_line(row["state"] or ""),
    }
    if row["since"] is not None:
        moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(row["since"]))
        known["since"] = f"{moment}, {age(now - row['since'])} ago"
    for name, worded in (("cpu", percent), ("memory", memory)):
        if name in usage or name in limits:
            known[name] = f"{worded(usage.get(name))} of {worded(limits.get(name))}"
    if row["error"]:
        known["error"] = printable(row["error"])
    for name, value in details.items():
        text = value if isinstance(value, str) else json.dumps(value)
        known.setdefault(one_line(name), printable(text))
    facts(out, known)
    lines = log if isinstance(log, list) else [] if log is None else [log]
    if lines:
        out.print(Text("log", style="dim"))
    for line in lines:
        out.print(Text(f"  {printable(str(line))}"))


def show_errors(out: Console, document: Document) -> None:
    """
    Show ``errors``.
    """
    if not document["errors"]:
        out.print("no errors")
        return
    made = table("id", "said by", "error", wide="error")
    for row in document["errors"]:
        who = row["member"] or "an owner that is gone"
        said_by = LEADER if row["said_by"] == LEADER else who
        made.add_row(row["id"], said_by, Text(printable(row["error"]), style="red"))
    out.print(made)


def show_relocations(out: Console, document: Document) -> None:
    """
    Show ``relocate --list``.
    """
    if not document["relocations"]:
        out.print("nothing is to be relocated")
        return
    made = table("id", "on", "to")
    for row in document["relocations"]:
        on = (row["node"] or "-") if row["known"] else "no such item"
        made.add_row(row["id"], on, row["to"] or "any other")
    out.print(made)


def show_relocation(out: Console, document: Document) -> None:
    """
    Show ``relocate`` of an item.
    """
    id, to = document["id"], document["to"] or "any other member"
    if not document["wanted"]:
        was = document["was_wanted"] or document["written"]
        out.print(f"{id}: {'stays where it is' if was else 'no move was wanted'}")
        return
    already = "" if document["written"] else ", already"
    out.print(f"{id}: to {to}{already}")
    points(out, document["follows"])
