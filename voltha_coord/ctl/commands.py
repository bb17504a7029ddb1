"""
The command line of ``voltha-coordctl``.

Nothing that is slow to import is imported before a command needs it, so that
``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from . import looking, operating, parameters
from .invocation import Invocation, make_invocation
from .lock import lock
from .work import work

if TYPE_CHECKING:
    from .documents import Document

#: Seconds to wait for one answer, unless told otherwise.
DEFAULT_TIMEOUT = 10.0


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
        context.obj = make_invocation()
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


voltha_coordctl.add_command(work)
voltha_coordctl.add_command(lock)
for _command in (*looking.COMMANDS, *operating.COMMANDS):
    voltha_coordctl.add_command(_command)


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
    "hash-ring, resource, or a plugin's that has a planner.  Keys do not tell which "
    "it is: where members tell what resources they have resource is assumed, and "
    "balanced elsewhere.",
)
@click.option(
    "--state",
    type=click.File("rb"),
    metavar="F",
    help="File with the state to plan on, in place of the cluster's: JSON, or a "
    "whole case with its state; the resource leader plans it, without any Consul.",
)
@click.option(
    "--phase",
    type=click.Choice(["synchronize", "rebalance", "relocate"]),
    help="Which part of planning, with --state.  [default: the file's phase, or "
    "synchronize]",
)
@click.pass_context
def plan(
    context: click.Context,
    leader: tuple[str, Callable[[], Any]],
    state: Any,
    phase: str | None,
) -> None:
    """
    What a leader would do now; nothing of it is done.
    """
    from . import plan as planning
    from . import render

    name, make_planner = leader
    source = context.get_parameter_source("leader")
    assumed = source is ParameterSource.DEFAULT
    invocation: Invocation = context.obj
    if state is not None:
        if source is ParameterSource.COMMANDLINE and name != "resource":
            raise click.UsageError("--state is planned by --leader resource alone")
        _plan_file(invocation, state, phase)
        return
    if phase is not None:
        raise click.UsageError("--phase goes with --state")
    document = invocation.do(
        lambda api, keys: planning.plan(api, keys, name, make_planner, assumed)
    )
    invocation.answer(document, render.show_plan)


def _plan_file(invocation: Invocation, state: Any, phase: str | None) -> None:
    from ..errors import CoordinationError
    from .plan_file import plan_file

    try:
        document, show = plan_file(
            str(getattr(state, "name", "-")), state.read(), phase
        )
    except CoordinationError as error:
        raise click.ClickException(str(error)) from error
    invocation.answer(document, show)


@voltha_coordctl.command()
@parameters.json_option
@click.pass_obj
def doctor(invocation: Invocation) -> None:
    """
    What is wrong, and what to do about it.
    """
    import time

    from .._loops import sleep
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
            wait=lambda seconds: sleep(invocation.clock(), seconds),
        ).examine()

    findings = invocation.do(action)
    document = {"findings": [finding.to_json() for finding in findings]}
    invocation.answer(document, render.show_findings)
    if any(finding.level is Level.WRONG for finding in findings):
        sys.exit(1)
