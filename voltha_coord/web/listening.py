"""
The port of the web face.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IListeningPort
from twisted.web.http import Request
from twisted.web.server import Site

from .exposing import service_registry
from .face import Face

if TYPE_CHECKING:
    from ..coordinator import Coordinator


class QuietSite(Site):
    """
    A site that does not fill the log with the questions of health checkers.
    """

    noisy = False
    displayTracebacks = False

    def log(self, request: Request) -> None:
        """
        Say nothing of a request that was answered.
        """


def listen(
    reactor: Any, host: str, port: int, shown: Callable[[], Coordinator | None]
) -> IListeningPort:
    """
    Serve the face of a Coordinator.

    :param reactor: provides ``IReactorTCP`` and ``IReactorTime``.
    :param port: 0 picks one.
    :param shown: gives the Coordinator, ``None`` while there is none.
    :raises CannotListenError: when the port cannot be had.
    """
    face = Face(reactor, shown, service_registry(shown))
    site = QuietSite(face.app.resource())
    listening: IListeningPort = reactor.listenTCP(port, site, interface=host)
    return listening
