"""
One call of ``voltha-coordctl``: what all commands do alike.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

import json as _json
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from attrs import define

if TYPE_CHECKING:
    from rich.console import Console
    from twisted.internet.interfaces import IReactorTime

    from .documents import Document
    from .run import Action, Target


@define
class Invocation:
    """
    One call of the command.

    :ivar run: does an action on a target; tests have one without a reactor.
    :ivar clock: gives what measures time and waits.
    """

    run: Callable[[Target, Action], Any]
    clock: Callable[[], IReactorTime]
    target: Target | None = None
    json: bool = False

    def do(self, action: Action) -> Any:
        """
        Do it, or end the command with one line on stderr.

        :raises ClickException: exit 1, or 2 where the usage was wrong.
        :raises Abort: when it was interrupted.
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

    def progress(self, line: str) -> None:
        """
        Tell people how far it has come, apart from the answer.
        """
        if not self.json:
            click.echo(line, err=True)


def _plain(error: Exception) -> str:
    from ..errors import AccessDenied

    if isinstance(error, AccessDenied):
        return f"denied by Consul: {error}; see --token-file, CONSUL_HTTP_TOKEN"
    return str(error)


def make_invocation() -> Invocation:
    """
    Give one that runs a reactor.
    """
    return Invocation(_run, _clock)


def _run(target: Target, action: Action) -> Any:
    from .run import run

    return run(target, action)


def _clock() -> IReactorTime:
    from twisted.internet import reactor
    from twisted.internet.interfaces import IReactorTime

    from ..clock import SteadyReactor, boot_time

    return SteadyReactor(IReactorTime(reactor), boot_time)


def confirm(question: str) -> None:
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
