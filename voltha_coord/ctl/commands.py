"""
The command line of ``voltha-coordctl``.

Nothing that is slow to import is imported before a command needs it, so that
``--help`` answers at once.
"""

from __future__ import annotations

import json as _json
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from attrs import define
from click.core import ParameterSource

from . import parameters

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


def _confirm(question: str) -> None:
    """
    Ask a person.  Everything else stands still meanwhile, and signals do what
    they do to any program that waits for an answer: the reactor would only
    note them, and the question would stay.

    :raises Abort: when the answer is no, or none.
    """
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, usual[number]) for number in usual}
    try:
        click.confirm(question, abort=True, err=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--consul",
    cls=parameters.Option,
    callback=parameters.consul,
    multiple=True,
    metavar="ADDR",
    envvar=("VOLTHA_COORD_CONSUL", "CONSUL"),
    help="Agent to ask: host:port, URL or unix:///path; may be repeated, the first "
    "that can be reached is used.  [env: VOLTHA_COORD_CONSUL, CONSUL, "
    "CONSUL_HTTP_ADDR; default: 127.0.0.1:8500]",
)
@click.option(
    "--prefix",
    cls=parameters.Option,
    default="service/voltha",
    show_default=True,
    metavar="P",
    envvar="VOLTHA_COORD_PREFIX",
    show_envvar=True,
    callback=parameters.prefix,
    help="Where the cluster's keys are.",
)
@click.option(
    "--token-file",
    cls=parameters.Option,
    metavar="F",
    type=click.Path(exists=True, dir_okay=False),
    envvar="VOLTHA_COORD_TOKEN_FILE",
    show_envvar=True,
    help="File with the ACL token; CONSUL_HTTP_TOKEN and all other CONSUL_* "
    "variables mean what they mean to Consul.",
)
@click.option(
    "--datacenter",
    cls=parameters.Option,
    callback=parameters.datacenter,
    metavar="DC",
    envvar="VOLTHA_COORD_DATACENTER",
    show_envvar=True,
    help="Consul datacenter, the agent's own by default.",
)
@click.option(
    "--timeout",
    cls=parameters.Option,
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="S",
    type=click.FloatRange(0.05, 600),
    envvar="VOLTHA_COORD_TIMEOUT",
    show_envvar=True,
    help="Seconds to wait for an answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer with a JSON document.")
@parameters.version_option
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
        consul=consul,
        prefix=prefix,
        token_file=token_file,
        datacenter=datacenter,
        timeout=timeout,
        environ=dict(os.environ),
    )


@voltha_coordctl.command()
@parameters.json_option
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
@parameters.json_option
@click.pass_obj
def members(invocation: Invocation) -> None:
    """
    Who is there.
    """
    from . import actions, documents, render

    view = invocation.do(actions.look)
    invocation.answer(documents.members(view), render.show_members)


@voltha_coordctl.group()
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

    An item that runs goes on with the value it was started with; another value
    takes effect when the item is started next, on its member or another.
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
            "a changed item that runs takes its new value when it is next started"
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

    def confirm(count: int) -> None:
        if not yes:
            assert invocation.target is not None
            where = invocation.target.prefix
            _confirm(f"Remove all {count} items under {where}?")

    if everything:
        gone = invocation.do(
            lambda api, keys: actions.remove_all_work(api, keys, confirm)
        )
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


@voltha_coordctl.command()
@parameters.json_option
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
@parameters.json_option
@click.option(
    "--leader",
    cls=parameters.Option,
    callback=parameters.leader,
    default="balanced",
    metavar="NAME",
    envvar="VOLTHA_COORD_LEADER",
    show_envvar=True,
    help="The leader whose plan it is, by the name that the members' --leader has: "
    "hash-ring, or a plugin's that has a planner.  Keys do not tell which it is; "
    "balanced is assumed.",
)
@click.pass_context
def plan(context: click.Context, leader: tuple[str, Callable[[], Any]]) -> None:
    """
    What a leader would do now; nothing of it is done.
    """
    from . import plan as planning
    from . import render

    name, make_planner = leader
    source = context.get_parameter_source("leader")
    assumed = source is ParameterSource.DEFAULT
    invocation: Invocation = context.obj
    document = invocation.do(
        lambda api, keys: planning.plan(api, keys, name, make_planner, assumed)
    )
    invocation.answer(document, render.show_plan)


@voltha_coordctl.command()
@parameters.json_option
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
