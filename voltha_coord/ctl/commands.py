"""
The command line of ``voltha-coordctl``.

Nothing that is slow to import is imported before a command needs it, so that
``--help`` answers at once.
"""

from __future__ import annotations

import json as _json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from attrs import define

if TYPE_CHECKING:
    from rich.console import Console

    from .documents import Document
    from .run import Action, Target

#: Seconds to wait for one answer, unless told otherwise.
DEFAULT_TIMEOUT = 10.0


@define
class Invocation:
    """
    One call of the command.

    :ivar run: does an action on a target; tests have one without a reactor.
    :ivar wait: gives a Deferred that fires after so many seconds.
    """

    run: Callable[[Target, Action], Any]
    wait: Callable[[float], Any]
    target: Target | None = None
    json: bool = False

    def do(self, action: Action) -> Any:
        """
        Do it, or end the command with one line on stderr.

        :raises ClickException: exit 1, or 2 where the usage was wrong.
        """
        from ..errors import ConfigurationError, ConsulUnavailable, CoordinationError

        assert self.target is not None
        try:
            return self.run(self.target, action)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from error
        except ConsulUnavailable as error:
            raise click.ClickException(f"no answer from Consul: {error}") from error
        except CoordinationError as error:
            raise click.ClickException(_plain(error)) from error
        except KeyboardInterrupt as error:
            raise click.Abort from error

    def answer(
        self, document: Document, show: Callable[[Console, Document], None]
    ) -> None:
        """
        Print a document: as JSON when that was asked for, else for people.
        """
        if self.json:
            click.echo(_json.dumps(document, indent=2, ensure_ascii=False))
            return
        from .render import console

        out = console()
        if out.is_terminal:
            show(out, document)
            return
        with out.capture() as captured:
            show(out, document)
        # Columns are padded; what reads this wants no blanks at the ends.
        for line in captured.get().splitlines():
            click.echo(line.rstrip())


def _plain(error: Exception) -> str:
    from ..errors import AccessDenied

    if isinstance(error, AccessDenied):
        return f"denied by Consul: {error}; see --token-file, CONSUL_HTTP_TOKEN"
    return str(error)


def _run(target: Target, action: Action) -> Any:
    from .run import run

    return run(target, action)


def _wait(seconds: float) -> Any:
    from twisted.internet import reactor
    from twisted.internet.interfaces import IReactorTime

    from .._loops import sleep

    return sleep(IReactorTime(reactor), seconds)


def _prefix(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from ..errors import ConfigurationError
    from ..keys import check_prefix

    try:
        return check_prefix(value.strip("/"))
    except ConfigurationError as error:
        raise click.BadParameter(str(error).removeprefix("prefix: ")) from error


def _version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from .._version import __version__

        click.echo(__version__)
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--consul",
    multiple=True,
    metavar="ADDR",
    envvar=("VOLTHA_COORD_CONSUL", "CONSUL"),
    help="Agent to ask: host:port, URL or unix:///path; may be repeated, the first "
    "that can be reached is used.  [env: VOLTHA_COORD_CONSUL, CONSUL, "
    "CONSUL_HTTP_ADDR; default: 127.0.0.1:8500]",
)
@click.option(
    "--prefix",
    default="service/voltha",
    show_default=True,
    metavar="P",
    envvar="VOLTHA_COORD_PREFIX",
    show_envvar=True,
    callback=_prefix,
    help="Where the cluster's keys are.",
)
@click.option(
    "--token-file",
    metavar="F",
    type=click.Path(exists=True, dir_okay=False),
    envvar="VOLTHA_COORD_TOKEN_FILE",
    show_envvar=True,
    help="File with the ACL token; CONSUL_HTTP_TOKEN and all other CONSUL_* "
    "variables mean what they mean to Consul.",
)
@click.option(
    "--datacenter",
    metavar="DC",
    envvar="VOLTHA_COORD_DATACENTER",
    show_envvar=True,
    help="Consul datacenter, the agent's own by default.",
)
@click.option(
    "--timeout",
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="S",
    type=click.FloatRange(0.05, 600),
    envvar="VOLTHA_COORD_TIMEOUT",
    show_envvar=True,
    help="Seconds to wait for an answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer with a JSON document.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
@click.pass_context
def voltha_coordctl(
    context: click.Context,
    consul: tuple[str, ...],
    prefix: str,
    token_file: str | None,
    datacenter: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """
    Look at a voltha_coord cluster, and tell it what to run.

    Reads Consul itself; opens no session, and writes only what it is told to.
    Exit status: 0 done, 1 failed, 2 wrong usage.
    """
    if context.obj is None:
        context.obj = Invocation(_run, _wait)
    from .run import Target

    context.obj.json = as_json
    context.obj.target = Target(
        consul=tuple(address for address in consul if address),
        prefix=prefix,
        token_file=token_file,
        datacenter=datacenter,
        timeout=timeout,
        environ=dict(os.environ),
    )


@voltha_coordctl.command()
@click.pass_obj
def status(invocation: Invocation) -> None:
    """
    Leader, members, and how the work fares.
    """
    from .._version import __version__
    from . import actions, documents, render

    def action(api: Any, keys: Any) -> Any:
        def document(view: Any) -> Document:
            return documents.status(view, api.requester.address, __version__)

        return actions.look(api, keys).addCallback(document)

    invocation.answer(invocation.do(action), render.show_status)


@voltha_coordctl.command()
@click.pass_obj
def members(invocation: Invocation) -> None:
    """
    Who is there.
    """
    from . import actions, documents, render

    view = invocation.do(actions.look)
    invocation.answer(documents.members(view), render.show_members)


@voltha_coordctl.group()
def work() -> None:
    """
    What is to be run.
    """


@work.command("list")
@click.pass_obj
def work_list(invocation: Invocation) -> None:
    """
    All work items.
    """
    from . import actions, documents, render

    view = invocation.do(actions.look)
    invocation.answer(documents.work(view), render.show_work)


@work.command("add")
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--value", metavar="TEXT", help="What the items hold.")
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
    """
    from . import actions

    if value is not None and file is not None:
        raise click.UsageError("--value and --file exclude each other")
    content = file.read() if file is not None else (value or "").encode()
    chosen = _ids(ids)
    added = invocation.do(
        lambda api, keys: actions.add_work(api, keys, chosen, content, if_absent)
    )
    document = {
        "added": list(added.added),
        "changed": list(added.changed),
        "kept": list(added.kept),
    }
    invocation.answer(document, _show_counts)


@work.command("remove")
@click.argument("ids", nargs=-1, metavar="ID…")
@click.option("--all", "everything", is_flag=True, help="Remove all there are.")
@click.option("--yes", is_flag=True, help="Do not ask.")
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
    chosen = invocation.do(actions.all_work) if everything else _ids(ids)
    if everything and chosen and not yes:
        assert invocation.target is not None
        click.confirm(
            f"Remove all {len(chosen)} items under {invocation.target.prefix}?",
            abort=True,
            err=True,
        )
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
    words = {"kept": "left as they were", "missing": "not there"}
    counts = [f"{len(v)} {words.get(k, k)}" for k, v in document.items() if v]
    out.print(", ".join(counts) or "nothing to do")


@voltha_coordctl.command()
@click.option("--member", metavar="ID", help="Only what it is to run, or owns.")
@click.option(
    "--work",
    "patterns",
    multiple=True,
    metavar="ID",
    help="Only these items; * stands for anything; may be repeated.",
)
@click.option("--wrong", is_flag=True, help="Only what is not as it is to be.")
@click.pass_obj
def assignments(
    invocation: Invocation, member: str | None, patterns: tuple[str, ...], wrong: bool
) -> None:
    """
    Who is to run each item, who does, and what is wrong.
    """
    from . import actions, documents, render

    view = invocation.do(actions.look)
    document = documents.assignments(view, member, patterns, wrong)
    invocation.answer(document, render.show_assignments)


@voltha_coordctl.command()
@click.option(
    "--leader",
    default="balanced",
    show_default=True,
    type=click.Choice(["balanced", "hash-ring"]),
    help="The leader whose plan it is.",
)
@click.pass_obj
def plan(invocation: Invocation, leader: str) -> None:
    """
    What a leader would do now; nothing of it is done.
    """
    from . import plan as planning
    from . import render

    document = invocation.do(lambda api, keys: planning.plan(api, keys, leader))
    invocation.answer(document, render.show_plan)


@voltha_coordctl.command()
@click.pass_obj
def doctor(invocation: Invocation) -> None:
    """
    What is wrong, and what to do about it.
    """
    import time

    from ..clock import boot_time
    from ..settings import Settings
    from . import render
    from .doctor import Doctor
    from .findings import Level

    def action(api: Any, keys: Any) -> Any:
        return Doctor(
            api,
            keys,
            Settings(prefix=keys.prefix),
            now=boot_time,
            wall=time.time,
            wait=invocation.wait,
        ).examine()

    findings = invocation.do(action)
    document = {"findings": [finding.to_json() for finding in findings]}
    invocation.answer(document, render.show_findings)
    if any(finding.level is Level.WRONG for finding in findings):
        sys.exit(1)
