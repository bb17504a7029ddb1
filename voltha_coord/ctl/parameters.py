"""
The options of ``voltha-coordctl``: how they are read, and refused.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.core import ParameterSource

from .findings import MOST_CHARACTERS


class Option(click.Option):
    """
    An option that is named in an error as what it was given as.
    """

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """
        Name the environment variable when the value came from there, and only
        then.
        """
        option = click.Parameter.get_error_hint(self, ctx)
        if ctx is None or self.name is None:
            return option
        if ctx.get_parameter_source(self.name) is not ParameterSource.ENVIRONMENT:
            return option
        names = [self.envvar] if isinstance(self.envvar, str) else self.envvar or ()
        return next((f"{name} ({option})" for name in names if os.getenv(name)), option)


@contextmanager
def _checked(value: str = "") -> Iterator[None]:
    """
    Make wrong usage of what cannot be used.
    """
    from ..errors import ConfigurationError, InvalidIdError

    try:
        yield
    except (ConfigurationError, InvalidIdError) as error:
        raise click.BadParameter(str(error).removeprefix(value)) from error


def consul(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """
    Take addresses of agents.

    :raises BadParameter: for one that is none, or that another process keeps to
        itself under this name.
    """
    given = tuple(address for text in value if text for address in text.split(","))
    if not given:
        return given
    from ..consul.address import DEFAULT_PORT, parse_addresses

    for address in given:
        name, _, port = address.partition(":")
        if name == "embedded":
            raise click.BadParameter(
                f"{address!r} is inside a twistd process: ask it at "
                f"127.0.0.1:{port or DEFAULT_PORT}"
            )
    with _checked():
        parse_addresses(given)
    return given


def prefix(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """
    Take a prefix; a slash at its ends does not matter.
    """
    from ..keys import check_prefix

    with _checked("prefix: "):
        return check_prefix(value.strip("/"))


def datacenter(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """
    Take the name of a datacenter.
    """
    if not value:
        return None
    from ..consul.address import check_name

    with _checked():
        return check_name(value)


def instance_id(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """
    Take the instance id of a member.
    """
    if value is None:
        return None
    from ..keys import check_instance_id

    with _checked("instance id "):
        return check_instance_id(value)


def work_id(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """
    Take a work id; the ``@`` of one without a domain may be at its end.
    """
    if value is None:
        return None
    from ..keys import check_work_id

    with _checked("work id "):
        return check_work_id(value.removesuffix("@"))


def lock_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """
    Take the name of a lock.
    """
    from ..keys import check_lock_name

    with _checked("lock name "):
        return check_lock_name(value)


def valid_for(
    context: click.Context, parameter: click.Parameter, value: float
) -> float | None:
    """
    Take the term of a lock.
    """
    from .._lock import check_valid_for

    with _checked("valid_for: "):
        return check_valid_for(value)


def reason(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """
    Take a reason, for people: one line.
    """
    if value is None:
        return None
    if len(value) > MOST_CHARACTERS or not value.isprintable():
        raise click.BadParameter(
            f"is to be one line of at most {MOST_CHARACTERS} characters"
        )
    return value.strip()


def leader(
    context: click.Context, parameter: click.Parameter, value: str
) -> tuple[str, Callable[[], Any]]:
    """
    Take the name of a leader, and give what makes its planner with it.
    """
    from .plan import planner_of

    with _checked():
        return value, planner_of(value)


def _version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from .._version import __version__

        click.echo(__version__)
        context.exit()


def _json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.obj.json = True


version_option = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)

#: For every command: people write it at the end as readily as at the front.
json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_json,
    help="Answer with a JSON document.",
)
