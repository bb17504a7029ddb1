"""
Signals: SIGHUP reads the configuration again while the process runs; whoever is
impatient may send SIGTERM twice.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import structlog
from twisted.application.service import Service
from twisted.internet.error import ReactorNotRunning
from twisted.internet.interfaces import IReactorFromThreads

from .config import Value
from .errors import ConfigurationError

log = structlog.get_logger(__name__)


class Changeable(Protocol):
    """
    What can be changed while it runs.
    """

    def set_weight(self, weight: float) -> None:
        """
        Change the member's weight.
        """

    def reload_token(self) -> bool:
        """
        Read the token file again; say whether the token is another one now.
        """


class Levelled(Protocol):
    """
    A log with a level.
    """

    level: str


class OnSignal(Service):
    """
    Calls something when a signal arrives, while the service runs.

    :param reactor: runs the call, outside the signal's handler.
    """

    def __init__(
        self,
        reactor: IReactorFromThreads,
        number: signal.Signals,
        call: Callable[[], object],
    ) -> None:
        self._reactor = reactor
        self._number = number
        self._call = call
        self._before: Any = None

    def startService(self) -> None:
        """
        Take the signal, which might end the process otherwise.
        """
        super().startService()
        self._before = signal.signal(self._number, self._on_signal)

    def stopService(self) -> None:
        """
        Give the signal back.
        """
        super().stopService()
        signal.signal(self._number, self._before)

    def _on_signal(self, number: int, frame: Any) -> None:
        self._reactor.callFromThread(self._call)


class StopOnce:
    """
    Lets a reactor that is stopping be told to stop again, by SIGTERM or SIGINT;
    Twisted's own handlers would leave a traceback in the log.

    :param reactor: has to have installed its handlers when they are taken over.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def take_over(self) -> None:
        """
        Take the signals over, where they are that reactor's.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            if getattr(handler, "__self__", None) is self._reactor:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        self._reactor.callFromThread(self._stop, signal.Signals(number).name)

    def _stop(self, name: str) -> None:
        try:
            self._reactor.stop()
        except ReactorNotRunning:
            log.info("already-stopping", signal=name)


class Reloading(OnSignal):
    """
    Applies what has changed in the configuration whenever SIGHUP arrives.

    :param reactor: runs what the signal asks for.
    :param read: gives what each option is set to now.
    :param member: gets a new weight, a new token.
    :param output: gets a new level.
    :param files: what may have changed.
    """

    def __init__(
        self,
        reactor: IReactorFromThreads,
        read: Callable[[], Mapping[str, Value]],
        member: Changeable,
        output: Levelled,
        files: Sequence[str],
    ) -> None:
        super().__init__(reactor, signal.SIGHUP, self.reload)
        self._read = read
        self._member = member
        self._output = output
        self._files = files
        self._applied = {name: value.value for name, value in read().items()}

    def reload(self) -> None:
        """
        Read the configuration and apply what can be changed in a running
        member: weight, log level, token.  The log says what has changed, and
        what would need a restart.  A configuration with an error in it changes
        nothing.
        """
        if not self._files:
            log.info("nothing-to-reread", reason="no --config, no --token-file")
            return
        try:
            values = self._read()
        except ConfigurationError as error:
            log.error("configuration-refused", error=str(error))
            return
        changed = {
            name: value.value
            for name, value in values.items()
            if value.value != self._applied[name]
        }
        restart = sorted(set(changed) - {"weight", "log-level"})
        if "log-level" in changed:
            self._output.level = changed["log-level"]
        if "weight" in changed:
            self._member.set_weight(changed["weight"])
        token = self._member.reload_token()
        applied = {name: changed[name] for name in changed if name not in restart}
        self._applied.update(applied)
        log.info(
            "configuration-reread",
            files=[*self._files],
            changed=applied,
            token="changed" if token else "unchanged",
        )
        if restart:
            log.warning("restart-needed", options=restart)
