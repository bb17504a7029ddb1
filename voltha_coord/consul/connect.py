"""
From settings to a requester over real connections.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from twisted.internet.interfaces import IReactorTime

from .address import ConnectionSettings, UnusableFile
from .http import HttpTransport
from .requester import Outcome, Requester, _unobserved
from .tls import TLSContext
from .token import TokenSource
from .transport import ITransport


def credentials(settings: ConnectionSettings) -> tuple[TLSContext | None, TokenSource]:
    """
    Read the files it takes to be let in; those of TLS for https addresses alone.

    :raises UnusableFile: naming the file that does not serve, and what named it.
    """
    secure = any(address.scheme == "https" for address in settings.addresses)
    try:
        return (
            TLSContext(settings.tls) if secure else None,
            TokenSource(settings.token, settings.token_file),
        )
    except UnusableFile as error:
        source = settings.sources.get(error.setting)
        if source is None:
            raise
        raise UnusableFile(error.setting, f"{source}: {error}") from error


def connect(
    reactor: Any,
    settings: ConnectionSettings,
    transports: Sequence[ITransport] | None = None,
    *,
    connect_timeout: float = 2.0,
    on_outcome: Callable[[Outcome], None] = _unobserved,
    clock: IReactorTime | None = None,
    now: Callable[[], float] = monotonic,
) -> Requester:
    """
    Make a requester to the agents of ``settings``.  Opens no connection yet.

    :param reactor: a whole reactor; another one will do with ``transports``.
    :param transports: carry the requests, in place of connections to those
        agents.
    :param connect_timeout: seconds for name, TCP and TLS together.
    :param on_outcome: as for :class:`~voltha_coord.consul.requester.Requester`.
    :param clock: measures deadlines, the reactor by default.
    :raises UnusableFile: as :func:`credentials`.
    """
    tls, token = credentials(settings)
    if transports is None:
        transports = [
            HttpTransport(
                reactor, address, tls, connect_timeout=connect_timeout, clock=clock
            )
            for address in settings.addresses
        ]
    headers = {}
    if settings.basic_auth is not None:
        user, _, password = settings.basic_auth.partition(":")
        pair = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        headers["Authorization"] = f"Basic {pair}"
    return Requester(
        transports,
        token=token,
        datacenter=settings.datacenter,
        namespace=settings.namespace,
        headers=headers,
        on_outcome=on_outcome,
        now=now,
    )
