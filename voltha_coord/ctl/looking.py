"""
The commands about processes: how they fare, what is wrong, where they are wanted.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

import click

from . import parameters
from .invocation import Invocation


@click.command()
@parameters.json_option
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.option("--member", metavar="M", help="Only what this one has.")
@click.option("--wrong", is_flag=True, help="Only what is not as it is to be.")
@click.pass_obj
def processes(
    invocation: Invocation, ids: tuple[str, ...], member: str | None, wrong: bool
) -> None:
    """
    What runs where, and how it fares, as its members report.

    An ID may hold ranges, and * for anything.  Of a single one all is shown that
    its member knows, and the last lines of its log.
    """
    from . import actions, showing
    from . import processes as pure

    document = invocation.do(
        lambda api, keys: actions.look(api, keys).addCallback(
            pure.processes, ids, member, wrong
        )
    )
    shown = {row["id"] for row in document["processes"]}
    single = len(ids) == 1 and shown == {ids[0].removesuffix("@")}
    show = showing.show_process if single else showing.show_processes
    invocation.answer(document, show)


@click.command()
@parameters.json_option
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.pass_obj
def errors(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """
    Why items are not placed, or do not run, and who says so.

    The leader says why an item has no place; the member that owns it, why it does
    not run.  An ID may hold ranges, and * for anything.
    """
    from . import actions, showing
    from . import processes as pure

    document = invocation.do(
        lambda api, keys: actions.look(api, keys).addCallback(pure.errors, ids)
    )
    invocation.answer(document, showing.show_errors)


@click.command()
@parameters.json_option
@click.argument("id", required=False, callback=parameters.work_id)
@click.argument("target", required=False, metavar="[NODE]")
@click.option("--list", "listed", is_flag=True, help="Show what is to be relocated.")
@click.option("--cancel", is_flag=True, help="Let the item stay where it is.")
@click.pass_obj
def relocate(
    invocation: Invocation,
    id: str | None,
    target: str | None,
    listed: bool,
    cancel: bool,
) -> None:
    """
    Want an item on another member: on NODE, or on any other.

    The resource leader moves it once there is room, and takes the wish away then;
    no other leader heeds it.
    """
    from . import actions, relocating, showing

    if listed:
        if id is not None or cancel:
            raise click.UsageError("--list is of all items")
        view = invocation.do(actions.look)
        invocation.answer(relocating.relocations(view), showing.show_relocations)
        return
    if id is None:
        raise click.UsageError("name the item (ID), or --list")
    if cancel and target is not None:
        raise click.UsageError("--cancel needs no NODE")
    name, wanted = id, None if cancel else target or ""
    made = invocation.do(lambda api, keys: relocating.relocate(api, keys, name, wanted))
    invocation.answer(made.to_json(), showing.show_relocation)


#: All of them.
COMMANDS: tuple[click.Command, ...] = (processes, errors, relocate)
