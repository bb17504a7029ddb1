"""
How it looks what came of what an operator wants; see :mod:`.render`.
"""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from .documents import Document
from .findings import counted, frozen_words, one_line
from .intents import ONLINE
from .render import MOST_ROWS, points, styled, table

#: Where an item is that has no place.
NOWHERE = "nobody"


def show_nodes(out: Console, document: Document) -> None:
    """
    Show ``node`` without a wish.
    """
    if not document["nodes"]:
        out.print("nothing is wanted of any member")
        return
    made = table("id", "wanted", "state", "items", right=("items",))
    for row in document["nodes"]:
        wanted = styled(row["intent"] or ONLINE)
        state = styled(row["state"] or "no member")
        made.add_row(row["id"], wanted, state, str(row["items"]))
    out.print(made)


def show_node_change(out: Console, document: Document) -> None:
    """
    Show ``node`` with a wish.
    """
    wanted, before = document["intent"] or ONLINE, document["before"] or ONLINE
    was = f"was {before}" if document["written"] else "already"
    out.print(Text(f"{document['id']}: ") + styled(wanted) + f", {was}")
    points(out, document["follows"])


def show_drained(out: Console, document: Document) -> None:
    """
    Show ``drain``.
    """
    id, left = document["id"], document["left"]
    seconds = f"{document['seconds']:.1f} s"
    if document["drained"]:
        out.print(Text(f"{id} is empty after {seconds}", style="green"))
    else:
        text = f"{id} is not empty after {seconds}: {counted(len(left))} left"
        out.print(Text(text, style="red"))
    if document["error"]:
        out.print(Text(one_line(document["error"]), style="red"))
    points(out, document["hindrances"])
    if left:
        still = table("id", "still")
        for work_id, ways in list(left.items())[:MOST_ROWS]:
            still.add_row(work_id, ways)
        out.print(still)
        if len(left) > MOST_ROWS:
            out.print(f"… and {len(left) - MOST_ROWS} more: assignments --member {id}")
    if document["moved"]:
        targets = Counter(target or NOWHERE for target in document["moved"].values())
        made = table("moved to", "items", right=("items",))
        for target, items in sorted(targets.items()):
            made.add_row(target, str(items))
        out.print(made)
    after = [f"it is given no work until: voltha-coordctl node {id} online"]
    if document["leads"]:
        after.append("it leads on; voltha-coordctl transfer hands leadership over")
    points(out, after)


def show_freeze_change(out: Console, document: Document) -> None:
    """
    Show ``freeze`` and ``unfreeze``.
    """
    if not document["frozen"]:
        was = document["was_frozen"]
        out.print("planning goes on" if was else "planning was not frozen")
        return
    words = frozen_words(document["freeze_reason"])
    was = "" if document["written"] else ", already"
    if document["written"] and document["was_frozen"]:
        was = f"; it was {frozen_words(document['was_freeze_reason'])}"
    out.print(Text(f"planning is {words}{was}", style="yellow"))
    points(
        out,
        (
            "new work waits, and so does the work of a member that dies",
            "leadership, locks, and the work that runs go on",
            "voltha-coordctl unfreeze ends it",
        ),
    )


def show_transferred(out: Console, document: Document) -> None:
    """
    Show ``transfer``.
    """
    leads = Text(document["leader_id"]) + " leads"
    if not document["asked"]:
        out.print(leads + " already")
        return
    out.print(
        leads + f" after {document['seconds']:.1f} s, as {document['before']} did; "
        f"fencing token {document['fencing_token']}"
    )
