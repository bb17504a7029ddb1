"""
The commands about named locks.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from . import parameters
from .invocation import Invocation

if TYPE_CHECKING:
    from rich.console import Console

    from .documents import Document


@click.group()
@parameters.json_option
def lock() -> None:
    """
    Named locks.
    """


@lock.command("list")
@parameters.json_option
@click.pass_obj
def lock_list(invocation: Invocation) -> None:
    """
    All locks that are held, and by whom.
    """
    from . import locking

    invocation.answer(invocation.do(locking.locks), _show_locks)


@lock.command("create")
@parameters.json_option
@click.argument("name", callback=parameters.lock_name)
@click.option(
    "--valid-for",
    required=True,
    metavar="S",
    type=float,
    callback=parameters.valid_for,
    help="Seconds until it expires; nobody renews it.",
)
@click.pass_obj
def lock_create(invocation: Invocation, name: str, valid_for: float) -> None:
    """
    Take a lock, for so many seconds.

    Its owner token is printed: who knows it may delete the lock.  It is tried
    once; exit status 1 when somebody else holds it.
    """
    from . import locking

    document = invocation.do(
        lambda api, keys: locking.create(api, keys, name, valid_for)
    )
    invocation.answer(document, _show_created)


@lock.command("delete")
@parameters.json_option
@click.argument("name", callback=parameters.lock_name)
@click.option("--owner-token", metavar="T", help="Under which it is held.")
@click.option("--force", is_flag=True, help="Whoever holds it.")
@click.pass_obj
def lock_delete(
    invocation: Invocation, name: str, owner_token: str | None, force: bool
) -> None:
    """
    Free a lock.

    With --force its holder learns of it within a moment; until then it may act
    beside the next one.
    """
    from . import locking

    if force == bool(owner_token):
        raise click.UsageError("give --owner-token T, or --force")
    deleted = invocation.do(
        lambda api, keys: locking.delete(api, keys, name, owner_token or None)
    )
    invocation.answer(deleted.to_json(), _show_deleted)


# How it looks.


def _show_locks(out: Console, document: Document) -> None:
    from .findings import one_line
    from .render import styled, table

    if not document["locks"]:
        out.print("no lock is held")
        return
    made = table("id", "state", "owner", "token", "until", right=("token",))
    for row in document["locks"]:
        owner = one_line(row["owner"] or "")
        if owner and not row["owner_is_member"]:
            owner += " (no member)"
        made.add_row(
            row["name"],
            styled(row["state"]),
            styled(owner),
            styled(row["fencing_token"]),
            _until(row),
        )
    out.print(made)


def _until(row: Document) -> str:
    if row["problem"]:
        return str(row["problem"])
    if row["bound_to"] == "session":
        return "its session ends"
    # Nobody knows when that was: no rule compares clocks of two machines.
    return f"{row['valid_for']:g} s after its last renewal"


def _show_created(out: Console, document: Document) -> None:
    from .render import points

    out.print(
        f"lock {document['name']} is held for {document['valid_for']:g} s; "
        f"fencing token {document['fencing_token']}"
    )
    out.print(f"owner token: {document['owner_token']}")
    free = f"voltha-coordctl lock delete {document['name']} --owner-token T"
    points(out, (f"nobody renews it; {free} frees it before",))


def _show_deleted(out: Console, document: Document) -> None:
    from .findings import one_line

    if not document["deleted"]:
        out.print(f"lock {document['name']} is not held")
        return
    owner = one_line(document["owner"] or "") or "nobody who can be named"
    out.print(f"lock {document['name']} is free; it was held by {owner}")
