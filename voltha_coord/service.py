"""
A Coordinator as a service: for twistd, and for an application's own tree.

# Note [Order of starting and stopping]

Ports come first: the embedded Consul must listen before anybody talks to it,
and the port of the web face is what the member record publishes.  Then the
Coordinator is made, which starts itself.  Stopping goes the other way, step by
step: the Coordinator is shut down while all it needs is still there, and only
then the ports close.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from twisted.application.service import MultiService, Service
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    inlineCallbacks,
    maybeDeferred,
    succeed,
)
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IReactorTime

from ._logging import connect
from ._types import Steps
from .errors import CoordinationError

if TYPE_CHECKING:
    from .coordinator import Coordinator

log = structlog.get_logger(__name__)


class CannotServe(CoordinationError, SystemExit):
    """
    What the service needs on this machine cannot be had.

    It is a ``SystemExit`` too: twistd, which removes its pid file and tells
    whoever started it, then ends with exit code 1 and without a traceback for
    what the log has said already.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 1


class ListeningService(Service):
    """
    A port that listens while the service runs.

    :param listen: begins to listen.
    :param option: what chose the port, named when it cannot be had.
    :param host_option: what chose the address, named when it is not one of this
        machine's.
    """

    def __init__(
        self,
        listen: Callable[[], IListeningPort],
        option: str,
        host_option: str | None = None,
    ) -> None:
        self._listen = listen
        self._option = option
        self._host_option = host_option or option
        self._port: IListeningPort | None = None

    @property
    def port(self) -> int:
        """
        The number of the port it listens on.
        """
        assert self._port is not None
        address: Any = self._port.getHost()
        return int(address.port)

    @property
    def host(self) -> str:
        """
        The address it listens on.
        """
        assert self._port is not None
        address: Any = self._port.getHost()
        return str(address.host)

    def privilegedStartService(self) -> None:
        """
        Listen, while the process may still have the right to low ports.

        :raises CannotServe: when the port cannot be had.
        """
        if self._port is not None:
            return
        try:
            self._port = self._listen()
        except CannotListenError as error:
            why = str(error.socketError)
            option = self._host_option if _no_such_host(error) else self._option
            log.critical(
                "cannot-listen",
                option=option,
                interface=error.interface,
                port=error.port,
                error=why,
            )
            raise CannotServe(
                f"{option}: cannot listen on {error.interface}:{error.port}: {why}"
            ) from error

    def startService(self) -> None:
        """
        Listen, if that has not been done yet.
        """
        self.privilegedStartService()
        super().startService()

    def stopService(self) -> Deferred[None]:
        """
        Listen no more.
        """
        super().stopService()
        port, self._port = self._port, None
        if port is None:
            return succeed(None)
        close: Callable[[], Any] = port.stopListening
        return maybeDeferred(close)


def _no_such_host(error: CannotListenError) -> bool:
    """
    Say whether it is the address, and not its port, that cannot be had.
    """
    why = error.socketError
    return isinstance(why, socket.gaierror) or (
        isinstance(why, OSError) and why.errno == errno.EADDRNOTAVAIL
    )


class CoordinatorService(MultiService):
    """
    Runs one Coordinator, from its start to its orderly end.

    :param reactor: keeps the bound of stopping.
    :param make_coordinator: makes the Coordinator, which starts itself; called
        with the keyword ``rest_port`` (where the web face listens, 0 without
        one) and, with an embedded Consul, ``consul``.  A
        ``functools.partial(Coordinator, …)`` is one.
    :param web: makes the web face's port listen; called with this service.
    :param embedded: makes the embedded Consul's port listen.
    :param stop_bound: seconds after which stopping goes on without the
        Coordinator, should its own bound not hold.
    :ivar coordinator: the Coordinator, ``None`` while there is none.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        make_coordinator: Callable[..., Coordinator],
        *,
        web: Callable[[CoordinatorService], IListeningPort] | None = None,
        embedded: Callable[[], IListeningPort] | None = None,
        stop_bound: float = 15.0,
    ) -> None:
        super().__init__()
        connect()
        self._reactor = reactor
        self._make_coordinator = make_coordinator
        self._stop_bound = stop_bound
        self._stopping: Deferred[None] | None = None
        self.coordinator: Coordinator | None = None
        self._embedded: ListeningService | None = None
        if embedded is not None:
            self._embedded = ListeningService(embedded, "--consul embedded")
            self._embedded.setServiceParent(self)
        self._web: ListeningService | None = None
        if web is not None:
            self._web = ListeningService(
                lambda: web(self), "--rest-port", "--rest-host"
            )
            self._web.setServiceParent(self)

    def startService(self) -> None:
        """
        Listen, and start the Coordinator; see Note [Order of starting and
        stopping].

        :raises CannotServe: when a port cannot be had, or there can be no such
            Coordinator; nothing is left running then.
        """
        if self.running:
            return
        self._stopping = None
        try:
            super().startService()
            self.coordinator = self._make_coordinator(**self._bound())
        except CannotServe:
            self._abandon()
            raise
        except CoordinationError as error:
            log.critical("cannot-start", error=str(error))
            self._abandon()
            raise CannotServe(str(error)) from error

    def _bound(self) -> dict[str, Any]:
        """
        Say what only the ports that now listen know.
        """
        bound: dict[str, Any] = {"rest_port": 0}
        if self._web is not None:
            bound["rest_port"] = self._web.port
            log.info("rest-listening", host=self._web.host, port=self._web.port)
        if self._embedded is not None:
            port = self._embedded.port
            bound["consul"] = f"127.0.0.1:{port}"
            log.info("embedded-consul-listening", host="127.0.0.1", port=port)
        return bound

    def _abandon(self) -> None:
        """
        Close what did get open, when starting fails.
        """
        close: Callable[[], Any] = super().stopService
        closing = maybeDeferred(close)
        closing.addErrback(
            lambda failure: log.error("closing-failed", error=failure.getErrorMessage())
        )

    def stopService(self) -> Deferred[None]:
        """
        Shut the Coordinator down, then close the ports; see Note [Order of
        starting and stopping].

        :return: a Deferred that fires when all is done, within a bound; it never
            fails.  Calling again waits for the same end.
        """
        if self._stopping is None:
            self._stopping = self._stop()
        waiting: Deferred[None] = Deferred()

        def ended(result: Any) -> Any:
            waiting.callback(None)
            return result

        self._stopping.addBoth(ended)
        return waiting

    @inlineCallbacks
    def _stop(self) -> Steps[None]:
        if self.coordinator is not None:
            yield self._step("shutdown", self.coordinator.shutdown)
        yield self._step("close-ports", super().stopService)

    @inlineCallbacks
    def _step(self, name: str, call: Callable[[], Any]) -> Steps[None]:
        """
        Do one step of stopping, which neither failing nor hanging may spoil.
        """
        doing = maybeDeferred(call)
        bound = self._reactor.callLater(self._stop_bound, doing.cancel)
        try:
            yield doing
        except CancelledError:
            log.error("stop-step-too-slow", step=name, bound=self._stop_bound)
        except Exception:
            log.error("stop-step-failed", step=name, exc_info=True)
        if bound.active():
            bound.cancel()

    def set_weight(self, weight: float) -> None:
        """
        Change the member's weight.
        """
        if self.coordinator is not None:
            self.coordinator.set_weight(weight)

    def reload_token(self) -> bool:
        """
        Read the token file again.

        :return: whether the token is another one now.
        """
        return self.coordinator is not None and bool(self.coordinator.reload_token())
