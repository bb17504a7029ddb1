"""
The commands that say what is to be run.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import parameters
from .invocation import Invocation, confirm

if TYPE_CHECKING:
    from rich.console import Console

    from .documents import Document


@click.group()
@parameters.json_option
def work() -> None:
    """
    What is to be run.
    """


@work.command("list")
@parameters.json_option
@click.pass_obj
def work_list(invocation: Invocation) -> None:
    """
    All work items.
    """
    from . import actions, documents, render

    view = invocation.do(actions.look)
    invocation.answer(documents.work(view), render.show_work)


@work.command("add")
@parameters.json_option
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option(
    "--value",
    metavar="TEXT",
    help="What the items hold; without it and --file, items that are there stay "
    "as they are.",
)
@click.option(
    "--file",
    type=click.File("rb"),
    metavar="F",
    help="File with what the items hold; - is standard input.",
)
@click.option(
    "--if-absent", is_flag=True, help="Leave items that are there as they are."
)
@click.pass_obj
def work_add(
    invocation: Invocation,
    ids: tuple[str, ...],
    value: str | None,
    file: Any,
    if_absent: bool,
) -> None:
    """
    Add work items, or give them another value.

    An ID may hold ranges: 'device_group_{0001..0100}'.

    A runner that can (update_work) is told of the new value of an item that runs;
    else it takes effect when the item is started next, on its member or another.
    """
    from . import actions

    if value is not None and file is not None:
        raise click.UsageError("--value and --file exclude each other")
    content = None if value is None else value.encode()
    if file is not None:
        content = file.read()
    chosen = _ids(ids)
    added = invocation.do(
        lambda api, keys: actions.add_work(api, keys, chosen, content, if_absent)
    )
    document = {
        "added": list(added.added),
        "changed": list(added.changed),
        "unchanged": list(added.unchanged),
    }
    invocation.answer(document, _show_added)


def _show_added(out: Console, document: Document) -> None:
    _show_counts(out, document)
    if document["changed"]:
        out.print(
            "a changed item that runs takes its new value at once if its runner can, "
            "else when it is next started"
        )


@work.command("remove")
@parameters.json_option
@click.argument("ids", nargs=-1, metavar="ID…")
@click.option("--all", "everything", is_flag=True, help="Remove all there are; asks.")
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@click.pass_obj
def work_remove(
    invocation: Invocation, ids: tuple[str, ...], everything: bool, yes: bool
) -> None:
    """
    Remove work items; whoever runs them stops.
    """
    from . import actions

    if everything == bool(ids):
        raise click.UsageError("name the items, or --all")

    def ask(count: int) -> None:
        if not yes:
            assert invocation.target is not None
            where = invocation.target.prefix
            confirm(f"Remove all {count} items under {where}?")

    if everything:
        gone = invocation.do(lambda api, keys: actions.remove_all_work(api, keys, ask))
    else:
        chosen = _ids(ids)
        gone = invocation.do(lambda api, keys: actions.remove_work(api, keys, chosen))
    document = {"removed": list(gone.removed), "missing": list(gone.missing)}
    invocation.answer(document, _show_counts)


def _ids(patterns: tuple[str, ...]) -> tuple[str, ...]:
    from ..errors import InvalidIdError
    from .ids import work_ids

    try:
        return work_ids(patterns)
    except InvalidIdError as error:
        raise click.UsageError(str(error)) from error


def _show_counts(out: Console, document: Document) -> None:
    words = {"missing": "not there"}
    counts = [f"{len(v)} {words.get(k, k)}" for k, v in document.items() if v]
    out.print(", ".join(counts) or "nothing to do")
