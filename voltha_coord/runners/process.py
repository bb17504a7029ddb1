"""
The runner ``process``: an item is a command that is kept running.

Each item is a :class:`~.supervised.Supervised` command.  Its processes are a
kernel session of their own that the guard knows of (:mod:`~.guarding`), and that is
written down for a later life of this member (:mod:`~.orphans`).

# Note [The environment of a command]

It is not the member's own, which may hold secrets: of that it has only the
variables of ``INHERITED``.  What the item says is added, and last
``VOLTHA_COORD_WORK_ID``, ``VOLTHA_COORD_INSTANCE_ID`` and
``VOLTHA_COORD_REFERENCE``.

# Note [Limits]

What the processes use is measured every ``MEASURE_EVERY`` seconds.  More memory
than the item's limit kills the command; it is started again, after a delay, like
one that failed.  More CPU is told, and is the planner's business: it sees what
is used.
"""

from __future__ import annotations

import os
import random as chance
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from zope.interface import implementer

from .._json import RecordError, dump, parse_object
from .._loops import Timer
from .._types import Steps
from ..condition import Condition
from ..errors import CommandError
from ..interfaces import IRunner
from ..planning.limits import read_limits
from ..planning.shares import Share
from ..records import WorkItem
from ..settings import STOP
from . import launcher
from .allowed import check_allowed, find_program
from .command import Command
from .guarding import Guarding
from .life import Life
from .orphans import Orphans, default_directory
from .supervised import Supervised
from .usage import SessionMeter, SessionUsage

if TYPE_CHECKING:
    from ..coordinator import Coordinator

#: Variables of the member's environment that commands get.
INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")

#: Seconds between two measurements.
MEASURE_EVERY = 2.0


@implementer(IRunner)
class ProcessRunner:
    """
    Runs the commands of items; see the head of the module.

    :param allow: patterns of the commands that may be run; see Note [What a
        pattern is matched against] of :mod:`~.allowed`.
    :param clock: waits.  ``None`` for the global reactor.
    :param processes: starts processes.  ``None`` for the global reactor.
    :param deadline: gives until when they may run, on the boot-time clock;
        ``None`` for as long as this process lives.
    :param state_directory: for the records of what runs; ``None`` for one of
        this user's, by prefix and instance id.
    """

    def __init__(
        self,
        allow: Sequence[str] = (),
        *,
        clock: IReactorTime | None = None,
        processes: IReactorProcess | None = None,
        deadline: Callable[[], float | None] = lambda: None,
        state_directory: str | None = None,
        prefix: str = "service/voltha",
        instance_id: str = "",
        environ: Mapping[str, str] = os.environ,
        wall_clock: Callable[[], float] = time.time,
        random: Callable[[], float] = chance.random,
        log: Any = None,
    ) -> None:
        if clock is None or processes is None:
            from twisted.internet import reactor

            clock = clock or reactor
            processes = processes or reactor
        assert clock is not None and processes is not None
        self._allow = tuple(allow)
        self._clock = clock
        self._processes = processes
        self._instance_id = instance_id
        self._environ = {n: environ[n] for n in INHERITED if n in environ}
        self._wall_clock = wall_clock
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        directory = (
            default_directory(prefix, instance_id or "member")
            if state_directory is None
            else Path(state_directory)
        )
        self._orphans = Orphans(directory, self._log)
        self._guarding = Guarding(clock, processes, deadline, self._log)
        self._measuring = Timer(clock, self._measure)
        self._meter = SessionMeter(clock.seconds)
        self._used: dict[int, SessionUsage] = {}
        self._changed: Callable[[str], None] = lambda work: None
        self._supervised: dict[str, Supervised] = {}
        self._limits: dict[str, Share] = {}
        self._stopped: dict[str, Supervised] = {}
        self._opened = False

    # What the worker asks.

    def listen(self, changed: Callable[[str], None]) -> None:
        """
        Tell whenever how an item fares has changed by itself.
        """
        self._changed = changed

    def prepare_work(self, item: WorkItem) -> None:
        """
        Make sure that the command may be run here, and can be found.

        :raises CommandError: when it cannot, or may not.
        """
        command = Command.from_config(item.config)
        self._find(command, self._environment(item, command))

    @inlineCallbacks
    def start_work(self, item: WorkItem, report: bytes | None) -> Steps[None]:
        """
        Run the command.

        :return: a Deferred that fires when it runs.  It fails with
            :class:`CommandError` when it cannot be run, or may not; and with
            :class:`ConfigurationError` when there is no place for records.
        """
        yield self.stop_work(item)
        command = Command.from_config(item.config)
        self._find(command, self._environment(item, command))
        self._open()
        self._guarding.start()
        supervised = Supervised(
            self._clock,
            command,
            spawn=partial(self._spawn, item),
            ended=partial(self._ended, item.id),
            changed=lambda: self._changed(item.id),
            wall_clock=self._wall_clock,
            random=self._random,
            previous=_log_of(report),
            log=self._log.bind(work=item.id),
        )
        self._supervised[item.id] = supervised
        self._limits[item.id] = read_limits(item.limits)[0]
        self._stopped.pop(item.id, None)
        try:
            yield supervised.start()
        except CommandError:
            self._remove(item.id)
            raise
        self._measure_on()

    @inlineCallbacks
    def update_work(self, item: WorkItem) -> Steps[None]:
        """
        Go on with a changed item: another command is started in place of the one
        that runs; anything else counts from now on.

        :return: a Deferred as of :meth:`start_work`.
        """
        command = Command.from_config(item.config)
        supervised = self._supervised.get(item.id)
        if supervised is None or supervised.command.process != command.process:
            self._find(command, self._environment(item, command))
            yield self.start_work(item, None)
        else:
            supervised.command = command
            self._limits[item.id] = read_limits(item.limits)[0]

    @inlineCallbacks
    def stop_work(self, item: WorkItem) -> Steps[None]:
        """
        Ask the command to end.

        :return: a Deferred that fires when nothing of it is left; never fails.
        """
        yield self._end(item.id, signal.SIGTERM)

    @inlineCallbacks
    def kill_work(self, item: WorkItem) -> Steps[None]:
        """
        Kill the command.

        :return: a Deferred that fires when nothing of it is left; never fails.
        """
        yield self._end(item.id, signal.SIGKILL)

    def report(self, item: WorkItem) -> bytes | None:
        """
        Give how the command ended, and its last lines, for the next owner.
        """
        supervised = self._stopped.pop(item.id, None)
        if supervised is None:
            return None
        last = supervised.last
        return dump(
            {
                "exit": None if last is None else last.how,
                "restarts": supervised.restarts,
                "log": [*supervised.output.last],
            }
        )

    def usage(self, item: WorkItem) -> Mapping[str, Any]:
        """
        Give what the command and its children use; nothing before that could be
        measured.
        """
        supervised = self._supervised.get(item.id)
        if supervised is None or supervised.life is None:
            return {}
        used = self._used.get(supervised.life.pid)
        if used is None or used.cpu is None:
            return {}
        return {"cpu": round(used.cpu, 1), "memory": used.memory}

    def condition(self, item: WorkItem) -> Condition | None:
        """
        Give how the command fares; ``None`` when there is none.
        """
        supervised = self._supervised.get(item.id)
        return None if supervised is None else supervised.condition

    # Starting and ending.

    def _open(self) -> None:
        """
        Have a place for records, and see to what an earlier life has left.
        """
        if not self._opened:
            self._orphans.open()
            self._orphans.clear()
            self._opened = True

    def _environment(self, item: WorkItem, command: Command) -> dict[str, str]:
        return {
            **self._environ,
            **command.environment,
            "VOLTHA_COORD_WORK_ID": item.id,
            "VOLTHA_COORD_INSTANCE_ID": self._instance_id,
            "VOLTHA_COORD_REFERENCE": item.reference,
        }

    def _find(self, command: Command, environment: Mapping[str, str]) -> str:
        directory = command.directory or os.getcwd()
        if not os.path.isdir(directory):
            raise CommandError(f"config.directory: there is no directory {directory}")
        program = find_program(command.arguments[0], environment, directory)
        check_allowed(program, command.arguments, self._allow)
        return program

    def _spawn(self, item: WorkItem, command: Command, life: Life) -> None:
        environment = self._environment(item, command)
        program = self._find(command, environment)
        launch = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid())]
        arguments = [*launch, command.directory, program, *command.arguments[1:]]
        try:
            life.spawn(self._processes, arguments, environment)
        except OSError as error:
            raise CommandError(f"no process can be started: {error}") from error
        self._guarding.watch(life.pid)
        self._orphans.note(item.id, life.pid)

    def _ended(self, work: str, life: Life) -> None:
        self._guarding.forget(life.pid)
        self._orphans.forget(work)

    @inlineCallbacks
    def _end(self, work: str, number: int) -> Steps[None]:
        supervised = self._supervised.get(work)
        if supervised is None:
            return
        yield supervised.stop(number)
        if self._supervised.get(work) is supervised:
            self._stopped[work] = supervised
            self._remove(work)

    def _remove(self, work: str) -> None:
        self._supervised.pop(work, None)
        self._limits.pop(work, None)
        if not self._supervised:
            # There is nothing to be guarded, nor to be measured.
            self._guarding.stop()
            self._measuring.cancel()

    # Measuring.

    def _measure_on(self) -> None:
        if self._supervised:
            self._measuring.set(MEASURE_EVERY)

    def _measure(self) -> None:
        """
        See Note [Limits].
        """
        lives = {
            supervised.life.pid: work
            for work, supervised in self._supervised.items()
            if supervised.life is not None
        }
        self._used = self._meter.measure(lives.keys())
        for session, used in self._used.items():
            work = lives[session]
            self._heed(self._supervised[work], self._limits[work], used)
        self._measure_on()

    def _heed(self, supervised: Supervised, limits: Share, used: SessionUsage) -> None:
        if 0 < limits.memory < used.memory:
            supervised.kill(
                f"it used {used.memory:.0f} bytes of memory, its limit is "
                f"{limits.memory:.0f}"
            )
        cpu = used.cpu or 0.0
        over = 0 < limits.cpu < cpu
        supervised.over_limit = f"cpu above {limits.cpu:g}" if over else ""


def _log_of(report: bytes | None) -> tuple[str, ...]:
    """
    Give the last lines that a report hands over.
    """
    if report is None:
        return ()
    try:
        lines = parse_object("report", report).get("log")
    except RecordError:
        return ()
    if not isinstance(lines, list):
        return ()
    return tuple(line for line in lines if isinstance(line, str))


def make_runner(coordinator: Coordinator) -> ProcessRunner:
    """
    Make the runner of a member that twistd runs.
    """
    settings = coordinator.settings
    bounded = settings.isolation == STOP
    return ProcessRunner(
        settings.allow_command,
        clock=coordinator.steady,
        processes=IReactorProcess(coordinator.reactor),
        # With the other isolations work goes on beyond its lease on purpose.
        deadline=(lambda: coordinator.work_deadline) if bounded else (lambda: None),
        state_directory=settings.state_directory,
        prefix=settings.prefix,
        instance_id=coordinator.instance_id,
        wall_clock=coordinator.wall_clock,
        random=coordinator.random,
        log=coordinator.log,
    )
