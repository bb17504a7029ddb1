"""
The commands that say what is to be run.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

import click

from . import describing, parameters
from .invocation import Invocation, confirm


@click.group()
@parameters.json_option
def work() -> None:
    """
    What is to be run.
    """


for _command in describing.COMMANDS:
    work.add_command(_command)


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
    from . import actions, written

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
        chosen = describing.work_ids(ids)
        gone = invocation.do(lambda api, keys: actions.remove_work(api, keys, chosen))
    document = {"removed": list(gone.removed), "missing": list(gone.missing)}
    invocation.answer(document, written.show_counts)
