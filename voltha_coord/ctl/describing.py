"""
The commands that say what work items are, and what is to become of them.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import flags, parameters
from .invocation import Invocation

if TYPE_CHECKING:
    from rich.console import Console

    from .changes import Changes
    from .documents import Document

_T = TypeVar("_T")

_ids = click.argument("ids", nargs=-1, required=True, metavar="ID…")

_file_option = click.option(
    "--file",
    type=click.File("rb"),
    metavar="F",
    help="File with what the items hold, as it is; called .yaml or .yml it is "
    "written as JSON, called .json it has to be some; - is standard input.",
)


@click.command("add", cls=flags.ItemCommand)
@parameters.json_option
@click.argument("ids", nargs=-1, metavar="ID… [-- CMD ARG…]")
@click.option(
    "--value",
    metavar="TEXT",
    help="What the items hold, as it is.",
)
@_file_option
@click.option(
    "--from",
    "many",
    type=click.File("rb"),
    metavar="F",
    help="File with many items: {ID: {…}, …}, or a list of {id: ID, …}; JSON if it "
    "is called .json, else YAML; - is standard input.  All are checked before any "
    "is written.",
)
@click.option(
    "--if-absent", is_flag=True, help="Leave items that are there as they are."
)
@flags.item_flags
@click.pass_obj
def add(
    invocation: Invocation,
    /,
    ids: tuple[str, ...],
    value: str | None,
    file: Any,
    many: Any,
    if_absent: bool,
    **said: Any,
) -> None:
    """
    Add work items, or give them another value.

    An ID may hold ranges: 'device_group_{0001..0100}'.  What an item is, is said by
    flags, which make a JSON object of it, or by --value, --file or --from; without
    any of them items are empty, and those that are there stay as they are.

    \b
      work add cam_7 --cpu 50 --memory 200M -- /usr/bin/record --camera 7
      work add 'idle_{1..3}' --command 'sleep 3600' --cpu 1 --memory 8M
      work add --from items.yaml

    The resource leader places only what has --cpu and --memory.

    A runner that can (update_work) is told of the new value of an item that runs;
    else it takes effect when the item is started next, on its member or another.
    """  # noqa: D301
    from . import changing, files, written

    if (value is not None) + (file is not None) + (many is not None) > 1:
        raise click.UsageError("--value, --file and --from exclude each other")
    changes = flags.changes_of(ids, said)
    if many is not None:
        if ids or changes:
            raise click.UsageError("--from names the items, and has all of them")
        values = _told(lambda: files.items(_name(many), many.read()))
    elif not ids:
        raise click.UsageError("name the items (ID…), or give a file of them (--from)")
    else:
        chosen = work_ids(ids)
        content = _content(value, file)
        if_absent = if_absent or (content is None and not changes)
        made = _changed(chosen[0], content or b"", changes)
        values = dict.fromkeys(chosen, made)
    warnings = _warned(invocation, values, bool(many or changes or _typed(file)))
    added = invocation.do(
        lambda api, keys: changing.add_work(api, keys, values, if_absent)
    )
    document = {
        "added": list(added.added),
        "changed": list(added.changed),
        "unchanged": list(added.unchanged),
        "warnings": warnings,
    }
    invocation.answer(document, written.show_written)


@click.command("update", cls=flags.ItemCommand)
@parameters.json_option
@click.argument("ids", nargs=-1, required=True, metavar="ID… [-- CMD ARG…]")
@_file_option
@flags.item_flags
@click.pass_obj
def update(
    invocation: Invocation, /, ids: tuple[str, ...], file: Any, **said: Any
) -> None:
    """
    Change some of what work items are; the rest stays.

    Only what the flags name is changed, in items whose value is a JSON object or
    empty; also if somebody else changes them at the same moment.  --file gives
    another value as a whole, before the flags are applied to it.

    \b
      work update cam_7 --memory 300M --metadata 'place="Berlin"'
      work update 'cam_{1..9}' --env DEBUG=1 --force
    """  # noqa: D301
    from . import written

    changes = flags.changes_of(ids, said)
    content = _content(None, file)
    if content is None and not changes:
        raise click.UsageError("say what is to change; see --help for the flags")
    if content is not None:
        _warned(invocation, dict.fromkeys(work_ids(ids), content), _typed(file))
    _change(invocation, ids, changes, written.show_written, content)


@click.command("start")
@parameters.json_option
@_ids
@click.pass_obj
def start(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """
    Order work items to run.
    """
    _order(invocation, ids, "start")


@click.command("stop")
@parameters.json_option
@_ids
@click.pass_obj
def stop(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """
    Order work items to be kept, and not to run.

    They stay with a member, which stops them; work start lets them run again, and
    work remove takes them away.
    """
    _order(invocation, ids, "stop")


@click.command("restart")
@parameters.json_option
@_ids
@click.pass_obj
def restart(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """
    Ask for work items to be started anew, where they are.

    Writes force: true into them, which the resource leader takes out again once it
    has seen to it.  No other leader heeds it, and keys do not tell which one
    leads: with the balanced one use work stop and work start.
    """
    from . import written
    from .changes import Changes

    _change(invocation, ids, Changes(force=True), written.show_restart)


def _order(invocation: Invocation, ids: tuple[str, ...], order: str) -> None:
    from . import written
    from .changes import Changes

    _change(invocation, ids, Changes(order=order), written.show_orders)


def _change(
    invocation: Invocation,
    ids: tuple[str, ...],
    changes: Changes,
    show: Callable[[Console, Document], None],
    content: bytes | None = None,
) -> None:
    """
    Change items that are there.

    :param content: what they are to hold before the changes; ``None`` for what
        they hold.
    """
    from . import changing
    from .changes import changed

    made: dict[str, bytes] = {}

    def change(id: str, raw: bytes) -> bytes:
        made[id] = changed(id, raw if content is None else content, changes)
        return made[id]

    chosen = work_ids(ids)
    done = invocation.do(
        lambda api, keys: changing.change_work(api, keys, chosen, change)
    )
    warnings = []
    if changes.cpu is not None or changes.memory is not None:
        warnings = _warned(invocation, made, False)
    document = {
        "changed": list(done.changed),
        "unchanged": list(done.unchanged),
        "warnings": warnings,
    }
    invocation.answer(document, show)


def work_ids(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """
    Give the ids of several patterns.

    :raises UsageError: when one of them can be no id.
    """
    from ..errors import InvalidIdError
    from . import ids

    try:
        return ids.work_ids(patterns)
    except InvalidIdError as error:
        raise click.UsageError(str(error)) from error


def _content(value: str | None, file: Any) -> bytes | None:
    from . import files

    if value is not None:
        return value.encode("utf-8", "surrogateescape")
    if file is None:
        return None
    return _told(lambda: files.value(_name(file), file.read()))


def _name(file: Any) -> str:
    return str(getattr(file, "name", "-"))


def _typed(file: Any) -> bool:
    from . import files

    return file is not None and files.is_typed(_name(file))


def _changed(id: str, raw: bytes, changes: Changes) -> bytes:
    from .changes import changed

    return _told(lambda: changed(id, raw, changes))


def _warned(invocation: Invocation, values: dict[str, bytes], ours: bool) -> list[str]:
    from . import written

    warnings = _told(lambda: written.warnings_of(values, ours))
    for line in written.told(warnings):
        invocation.progress(line)
    return warnings


def _told(make: Callable[[], _T]) -> _T:
    """
    Do what needs no Consul, or end the command with one line on stderr.
    """
    from ..errors import CoordinationError

    try:
        return make()
    except CoordinationError as error:
        raise click.ClickException(str(error)) from error


#: All of them.
COMMANDS: tuple[click.Command, ...] = (add, update, start, stop, restart)
