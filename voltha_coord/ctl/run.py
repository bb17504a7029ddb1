"""
Runs one action against Consul on a reactor of its own, and ends.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import structlog
from attrs import evolve, frozen
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    inlineCallbacks,
    maybeDeferred,
)
from twisted.python.failure import Failure

from .._loops import bounded
from .._types import Steps
from ..consul.address import ConnectionSettings, from_environment
from ..consul.api import ConsulApi
from ..consul.connect import connect
from ..consul.transport import NotConnected
from ..keys import Keys

#: What a command does: with the verbs and the keys, give a Deferred.
Action: TypeAlias = Callable[[ConsulApi, Keys], Deferred[Any]]

#: How long an interrupted action may put things in order, in seconds.
TIDY_SECONDS = 2.0


@frozen(kw_only=True)
class Target:
    """
    Which cluster, and how it is reached.

    :ivar consul: addresses of agents; empty for what the environment says.
    :ivar timeout: seconds to wait for one answer.
    """

    consul: tuple[str, ...]
    prefix: str
    token_file: str | None
    datacenter: str | None
    timeout: float
    environ: Mapping[str, str]

    def connection(self) -> ConnectionSettings:
        """
        Give what it takes to reach Consul.

        :raises ConfigurationError: naming the address or variable that cannot
            be used.
        """
        settings = from_environment(
            self.environ, self.consul, token_file=self.token_file
        )
        return evolve(settings, datacenter=self.datacenter)


def run(target: Target, action: Action) -> Any:
    """
    Do it, and give what it gives.

    A signal cancels it; what it puts in order then is waited for, but for no
    longer than :data:`TIDY_SECONDS`, and not if another signal comes.

    :raises CoordinationError: when it cannot be done.
    :raises KeyboardInterrupt: when it is interrupted.
    """
    from twisted.internet import reactor

    structlog.configure(processors=[_silence])
    api = ConsulApi(
        connect(reactor, target.connection(), connect_timeout=min(2.0, target.timeout)),
        command_timeout=target.timeout,
        session_timeout=target.timeout,
    )
    outcome: list[Any] = []
    stopping: list[bool] = []

    def begin() -> None:
        doing = maybeDeferred(_reached, api, Keys(target.prefix), action, target)
        reactor.addSystemEventTrigger("before", "shutdown", interrupt, doing)
        doing.addBoth(outcome.append)
        doing.addCallback(lambda _: api.requester.close())
        doing.addBoth(lambda _: None if stopping else reactor.stop())

    def interrupt(doing: Deferred[Any]) -> Deferred[Any]:
        stopping.append(True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        doing.cancel()
        # What is not in order by then stays so; nobody is left to be told more.
        return bounded(reactor, TIDY_SECONDS, lambda: doing).addErrback(lambda _: None)

    reactor.callWhenRunning(begin)
    reactor.run()
    if not outcome:
        raise KeyboardInterrupt
    if isinstance(outcome[0], Failure):
        if outcome[0].check(CancelledError):
            raise KeyboardInterrupt
        outcome[0].raiseException()
    return outcome[0]


def _silence(*event: object) -> NoReturn:
    """
    Log nothing: what failed is told in one line, at the end.
    """
    raise structlog.DropEvent


@inlineCallbacks
def _reached(api: ConsulApi, keys: Keys, action: Action, target: Target) -> Steps[Any]:
    """
    Do it with the first agent that can be connected to.
    """
    agents = len(target.connection().addresses)
    for _ in range(agents - 1):
        try:
            yield api.status_leader()
            break
        except NotConnected:
            # The requester has turned to the next one.
            continue
    result = yield action(api, keys)
    return result
