"""
``twistd voltha_coord``: the service its options make.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import evolve
from twisted.application.service import IServiceCollection
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IListeningPort
from twisted.logger import ILogObserver
from twisted.python.components import Componentized
from twisted.python.logfile import LogFile

from . import _logging, plugins
from ._reload import OnSignal, Reloading, StopOnce
from .clock import boot_time
from .consul.address import Address
from .ending import end_process
from .interfaces import IMeter
from .options import Options
from .service import CoordinatorService
from .settings import EXIT, STOP
from .watchdog import Watchdog

__all__ = ["Options", "makeService"]

#: The watchdog does not look more often than every so many seconds for a lease.
MIN_IDLE_SECONDS = 0.05


class TwistdService(CoordinatorService):
    """
    A CoordinatorService that is all its process does, and so has a say in what
    the process's log looks like, and in what its signals do.
    """

    log_output: _logging.LogOutput | None = None
    stop_once: StopOnce | None = None

    def setServiceParent(self, parent: IServiceCollection) -> None:
        """
        Join the application; give it our log, unless it has one.
        """
        if (
            self.log_output is not None
            and isinstance(parent, Componentized)
            and parent.getComponent(ILogObserver, None) is None
        ):
            # twistd asks for it before it begins to log.
            parent.setComponent(ILogObserver, self.log_output.observer)
        super().setServiceParent(parent)

    def stopService(self) -> Deferred[None]:
        """
        Stop; another signal on the way changes nothing.
        """
        if self.stop_once is not None:
            self.stop_once.take_over()
        return super().stopService()


def _log_stream(twistd: Mapping[str, Any]) -> _logging.Written | None:
    """
    Open what twistd was told to log to; ``None`` when that is not a file.
    """
    # Not twistd but another runner, which keeps its own log: no such option.
    if "nodaemon" not in twistd or twistd.get("syslog") or twistd.get("logger"):
        return None
    name = twistd.get("logfile")
    daemon = not (twistd.get("nodaemon") or twistd.get("debug"))
    if name == "-" or (not name and not daemon):
        # twistd itself refuses a daemon that logs to standard output.
        return None if daemon else sys.stdout
    file: LogFile = LogFile.fromFullPath(name or "twistd.log")
    return file


def use_steady_clock(reactor: Any) -> None:
    """
    Let the reactor's timers run on a clock that nobody can set.
    """
    # What is scheduled already counts on the clock it was scheduled by; the
    # Coordinator looks after itself then (clock.SteadyReactor).
    if isinstance(reactor, ReactorBase) and not reactor.getDelayedCalls():
        reactor.seconds = boot_time


def _make_coordinator(
    options: Options, reactor: Any, end: Callable[[], object]
) -> Callable[..., Any]:
    def make(rest_port: int, consul: str | None = None) -> Any:
        from .coordinator import Coordinator

        connection = options.connection
        if options.embedded_port is not None:
            assert consul is not None
            port = int(consul.rpartition(":")[2])
            connection = evolve(connection, addresses=(Address(port=port),))
        return Coordinator(
            options["internal-host-address"],
            options["external-host-address"],
            options["instance-id"],
            rest_port,
            leader_class=options.leader,
            worker_class=plugins.as_worker_class(options.worker),
            settings=options.settings,
            reactor=reactor,
            connection=connection,
            weight=options["weight"],
            can_lead=not options["no-lead"],
            meter=meter_of(options),
            on_stuck=lambda items: end(),
        )

    return make


def meter_of(options: Options) -> IMeter | None:
    """
    Make what measures this member, if its leaders want to know.
    """
    if not plugins.wants_measures(options.leader):
        return None
    from .measuring import make_meter

    return make_meter(options["measure"], options["max-cpu"], options["max-memory"])


def _watch_over(service: CoordinatorService, options: Options, reactor: Any) -> None:
    """
    Have this process end also when its work blocks the reactor, where it is to
    end when work does not stop.
    """
    settings = options.settings
    if settings.stuck_work != EXIT or settings.isolation != STOP:
        # With the other isolations work goes on beyond its lease on purpose.
        return

    def deadline() -> float | None:
        coordinator = service.coordinator
        return None if coordinator is None else coordinator.work_deadline

    def here() -> Collection[str]:
        coordinator = service.coordinator
        return () if coordinator is None else coordinator.unstopped_work

    idle = max(settings.grace, MIN_IDLE_SECONDS)
    watchdog = Watchdog(reactor, boot_time, deadline, here, idle, end_process)
    watchdog.setServiceParent(service)


def makeService(
    options: Options,
    reactor: Any = None,
    make_coordinator: Callable[..., Any] | None = None,
) -> CoordinatorService:
    """
    Make the service that ``twistd voltha_coord`` runs.  Nothing is sent, read or
    scheduled before it is started.

    :param reactor: the global reactor unless given.
    :param make_coordinator: makes the Coordinator, see
        :class:`~voltha_coord.service.CoordinatorService`.
    """
    if reactor is None:
        from twisted.internet import reactor
    use_steady_clock(reactor)
    from .web.listening import listen as listen_web

    stream = _log_stream(options.parent or {"nodaemon": True})
    output = _logging.configure(
        options["log-format"], options["log-level"], stream or sys.stdout
    )

    def web(service: CoordinatorService) -> IListeningPort:
        where = options["rest-host"], options["rest-port"]
        return listen_web(reactor, *where, lambda: service.coordinator)

    def embedded() -> IListeningPort:
        from .embedded.http import listen

        assert options.embedded_port is not None
        return listen(reactor, options.embedded_port)

    service = TwistdService(
        reactor,
        make_coordinator
        or _make_coordinator(
            options, reactor, lambda: end_process((stream or sys.stdout).flush)
        ),
        web=None if options["rest-port"] is None else web,
        embedded=None if options.embedded_port is None else embedded,
        stop_bound=options.settings.drain_timeout + 5.0,
    )
    if stream is not None:
        service.log_output = output
    _watch_over(service, options, reactor)
    service.stop_once = StopOnce(reactor)
    reloading = Reloading(reactor, options.read_again, service, output, options.files)
    reloading.setServiceParent(service)
    if isinstance(stream, LogFile):
        OnSignal(reactor, signal.SIGUSR1, stream.rotate).setServiceParent(service)
    return service
