"""
The flags by which ``work add`` and ``work update`` say what an item is.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from .changes import Changes

_F = TypeVar("_F", bound=Callable[..., Any])

#: Where what follows ``--`` is kept.
_REST = "voltha_coord.ctl.rest"


class ItemCommand(click.Command):
    """
    A command of which all that follows ``--`` is the command of an item.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """
        Part it from ours.  Without any id before it, ids follow, as with any
        other command.
        """
        at = args.index("--") if "--" in args else 0
        if any(not text.startswith("-") for text in args[:at]):
            ctx.meta[_REST] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def _read(convert: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """
    Read a flag, or each of those that may be repeated, with what has that name
    among :mod:`.changes`.
    """

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        from . import changes

        if value is None:
            return None
        make = getattr(changes, convert)
        try:
            if isinstance(value, tuple):
                return dict(make(text) for text in value)
            return make(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return read


def _percent(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"{value!r} is not a number of 0 or more")
    return int(number) if number.is_integer() else number


_OPTIONS = (
    click.option(
        "--command",
        metavar="'CMD ARG…'",
        callback=_read("words"),
        help="What to run (config.command), parted as a shell parts it. For one ID "
        "it may also be written after --, as it is.",
    ),
    click.option(
        "--cpu",
        metavar="N",
        callback=_percent,
        help="What it may use of the CPU, in percent of one core (limits.cpu).",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        callback=_read("size"),
        help="What it may use of memory (limits.memory): bytes, or 512K, 200M, 2G; "
        "a K is 1024.",
    ),
    click.option(
        "--reference",
        metavar="R",
        help="Items of one reference like to be on one member.",
    ),
    click.option(
        "--order",
        type=click.Choice(["start", "stop"]),
        help="Run it, or place it and do not run it.",
    ),
    click.option(
        "--metadata",
        multiple=True,
        metavar="KEY=JSON",
        callback=_read("json_pair"),
        help="A value of the application's; null takes the key out; may be repeated.",
    ),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_read("pair"),
        help="A variable of its environment (config.environment); may be repeated.",
    ),
    click.option(
        "--directory", metavar="D", help="Where it is run (config.directory)."
    ),
    click.option(
        "--force",
        is_flag=True,
        help="Ask for it to be started anew; only the resource leader heeds it.",
    ),
)


def item_flags(command: _F) -> _F:
    """
    Give a command the flags; it gets them by the names of :func:`changes_of`.
    """
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def changes_of(ids: tuple[str, ...], flags: dict[str, Any]) -> Changes:
    """
    Give what the flags say.

    :param ids: the items it is said of.
    :raises UsageError: when they exclude each other.
    """
    from .changes import Changes

    rest = click.get_current_context().meta.get(_REST)
    command = flags["command"]
    if rest is not None:
        if command is not None:
            raise click.UsageError("--command and what follows -- exclude each other")
        if len(ids) != 1:
            raise click.UsageError("a command after -- is for one ID; use --command")
        if not rest:
            raise click.UsageError("no command after --")
    return Changes(
        command=rest or command or (),
        cpu=flags["cpu"],
        memory=flags["memory"],
        reference=flags["reference"],
        order=flags["order"],
        metadata=flags["metadata"],
        environment=flags["env"],
        directory=flags["directory"],
        force=flags["force"],
    )
