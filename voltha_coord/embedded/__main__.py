"""
``python -m voltha_coord.embedded``: an embedded Consul of its own.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import click
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError

from ..consul.transport import Request, Response
from ..errors import ConfigurationError
from .http import check_loopback, listen
from .memory import Handler
from .state import ConsulState


class _Telling:
    """
    Says every request before it is handled.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def handle(self, request: Request) -> Deferred[Response]:
        """
        Say and handle.
        """
        query = "&".join(k if v is None else f"{k}={v}" for k, v in request.params)
        click.echo(f"{request.method} {request.path}{'?' if query else ''}{query}")
        return self._handler.handle(request)


def _loopback(context: click.Context, option: click.Parameter, value: str) -> str:
    try:
        return check_loopback(value)
    except ConfigurationError as e:
        raise click.BadParameter(str(e)) from None


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8500,
    show_default=True,
    help="TCP port to listen on; 0 picks a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    callback=_loopback,
    help="Loopback address to listen on.",
)
@click.option("--verbose", is_flag=True, help="Say every request.")
def main(port: int, host: str, verbose: bool) -> None:
    """
    Run a Consul for development, of one process and for this machine alone.

    It keeps nothing on disk: what is written to it is gone when it ends.
    """
    from twisted.internet import reactor

    serve(reactor, port, host, verbose)


def serve(reactor: Any, port: int, host: str, verbose: bool) -> None:
    """
    Listen, say where, and run the reactor until it is stopped.
    """
    state = ConsulState(reactor, random.Random())
    agent = state.agent("embedded")
    handler: Handler = _Telling(agent) if verbose else agent
    try:
        listening = listen(reactor, port, host, handler)
    except CannotListenError as e:
        click.echo(f"cannot listen on {host}:{port}: {e.socketError}", err=True)
        sys.exit(1)
    address: Any = listening.getHost()
    shown = f"[{address.host}]" if ":" in address.host else address.host
    click.echo(f"embedded Consul on http://{shown}:{address.port}")
    click.echo("For development: it keeps nothing on disk, and all is lost at its end.")
    sys.stdout.flush()
    reactor.run()


def run(arguments: Sequence[str] | None = None) -> None:
    """
    Run as the command line says.
    """
    main(args=arguments, prog_name="python -m voltha_coord.embedded")


if __name__ == "__main__":
    run()
