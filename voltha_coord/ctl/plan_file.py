"""
What planning by resources comes to on a state that is in a file.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from ..errors import CaseError, CoordinationError
from ..planning.case import go_through, read_case
from ..planning.deployment import shown_id
from .documents import Document
from .files import document
from .plan import explained
from .render import show_explanations, table

#: Why operations are that have no node to be chosen.
_WHY = {
    "delete": "it is not wanted there any more",
    "stop": "its order is stop, and it runs",
    "start": "its order is start, and it does not run",
    "update": "what it is, or its metadata, has changed",
}

#: The operation that changes nothing.
_NOTHING = "null"

Show = Callable[[Console, Document], None]


def plan_file(name: str, raw: bytes, phase: str | None) -> tuple[Document, Show]:
    """
    Go through a phase of planning, and give what comes of it, with what shows it
    to people.

    :param name: of the file, for error texts.
    :param raw: what it holds: a state, or a whole case.
    :param phase: in place of the one that the file names.
    :raises CoordinationError: naming the file, and the place in it that cannot be
        read.
    """
    try:
        case = read_case(document(name, raw), phase)
    except CaseError as error:
        raise CoordinationError(f"{name}: {error}") from error
    outcome = go_through(case)
    explanations = [_worded(explained(one)) for one in outcome.explained]

    def show(out: Console, plan: Document) -> None:
        _show(out, plan, explanations, case.phase)

    return outcome.document, show


def _worded(row: Document) -> Document:
    return {
        **row,
        "work": shown_id(row["work"]),
        "why": row["why"] or _WHY.get(row["op"], ""),
    }


def _show(
    out: Console, plan: Document, explanations: list[Document], phase: str
) -> None:
    operations = [row for row in plan["operations"] if row["op"] != _NOTHING]
    if operations:
        made = table("op", "id", "node", "to", "order", "reason", wide="reason")
        for row in operations:
            made.add_row(
                row["op"],
                row["work"],
                row.get("node") or row.get("from_node") or "-",
                row.get("to_node") or "-",
                row.get("order") or "-",
                Text(_reason(row), style="yellow"),
            )
        out.print(made)
        out.print()
        told = [row for row in explanations if row["op"] != _NOTHING]
        show_explanations(out, told, most=None)
        out.print()
    nodes = table("node", "cpu", "memory", right=("cpu", "memory"))
    for name, used in plan["resources"].items():
        nodes.add_row(name, f"{used['cpu']:g}", f"{used['memory']:g}")
    if plan["resources"]:
        out.print(nodes)
    if plan["done"]:
        out.print(f"relocated: {', '.join(plan['done'])}")
    count, well = len(operations), len(plan["operations"]) - len(operations)
    words = "1 operation" if count == 1 else f"{count or 'no'} operations"
    rest = f", {well} as they are to be" if well else ""
    out.print(f"{phase}: {words}{rest}")


def _reason(row: Document) -> str:
    if row.get("reason"):
        return str(row["reason"])
    told = [f"metadata {', '.join(row['metadata'])}"] if row.get("metadata") else []
    return "; ".join([*told, *(["forced"] if row.get("force") else [])])
