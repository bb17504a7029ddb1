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

# Note [Launching]

That a command is launched holds up the reactor, for a moment or, on a machine
that is busy, for a tenth of a second; and what is launched takes the CPU that the
member needs, whose lease may end meanwhile.  So there are as many at a time as
half of the cores, and two at least; and after each the reactor has as long for
all else as it was held up.

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
from typing import TYPE_CHECKING, Any

import structlog
from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from zope.interface import implementer

from .._json import RecordError, dump, parse_object
from .._loops import Timer, sleep
from .._types import Steps
from ..condition import Condition
from ..errors import CommandError
from ..interfaces import IRunner
from ..planning.limits import read_limits
from ..planning.shares import Share, brief
from ..records import WorkItem
from ..settings import STOP
from ..turns import Turns
from . import launcher
from .allowed import check_allowed, find_program
from .command import Command
from .guarding import Guarding
from .life import Life
from .orphans import WORK_ID, Orphans, directory_of
from .output import LINES_KEPT, LONGEST_LINE
from .supervised import Supervised
from .sweeping import Sweeper
from .usage import SessionMeter, SessionUsage

if TYPE_CHECKING:
    from ..coordinator import Coordinator

#: Variables of the member's environment that commands get.
INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")

#: Seconds between two measurements.
MEASURE_EVERY = 2.0


def launched_at_once() -> int:
    """
    Give how many commands are launched at a time; see Note [Launching].
    """
    return max(2, (os.cpu_count() or 1) // 2)


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
    :param stop_timeout: seconds after which a command that is to make room for a
        changed one, and does not end, is killed.
    :param state_directory: that for the records of what runs is made in it, by
        prefix and instance id; ``None`` for one of this user's.
    """

    def __init__(
        self,
        allow: Sequence[str] = (),
        *,
        clock: IReactorTime | None = None,
        processes: IReactorProcess | None = None,
        deadline: Callable[[], float | None] = lambda: None,
        stop_timeout: float = 10.0,
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
        self._stop_timeout = stop_timeout
        self._orphans = Orphans(
            directory_of(state_directory, prefix, instance_id or "member"),
            self._log,
            private=state_directory is None,
        )
        self._guarding = Guarding(clock, processes, deadline, self._log)
        self._measuring = Timer(clock, self._measure)
        self._measures = False
        self._sweeper = Sweeper(clock)
        self._meter = SessionMeter(clock.seconds)
        self._used: dict[int, SessionUsage] = {}
        self._changed: Callable[[str], None] = lambda work: None
        self._supervised: dict[str, Supervised] = {}
        self._items: dict[str, WorkItem] = {}
        self._limits: dict[str, Share] = {}
        self._stopped: dict[str, Supervised] = {}
        self._launches = Turns(launched_at_once())
        self._opened = False

    def open(self) -> None:
        """
        Have a place for records, and kill what an earlier life of this member has
        left; nothing more if that is done.

        :raises ConfigurationError: when there can be no such place.
        """
        if not self._opened:
            self._orphans.open()
            self._orphans.clear()
            self._opened = True

    # What the worker asks.

    def listen(self, changed: Callable[[str], None]) -> None:
        """
        Tell whenever how an item fares has changed by itself.

        :raises ConfigurationError: as :meth:`open`.
        """
        self._changed = changed
        self.open()

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
        yield self._make_way(item.id)
        command = Command.from_config(item.config)
        self._find(command, self._environment(item, command))
        self.open()
        yield self._launches.take()
        try:
            yield self._launch(item, command, report)
        finally:
            self._launches.give_back()

    @inlineCallbacks
    def _launch(
        self, item: WorkItem, command: Command, report: bytes | None
    ) -> Steps[None]:
        try:
            self._guarding.start()
        except OSError as error:
            raise CommandError(f"no guard can be started: {error}") from error
        supervised = Supervised(
            self._clock,
            command,
            spawn=partial(self._spawn, item.id),
            launches=self._launches,
            ended=partial(self._ended, item.id),
            changed=lambda: self._changed(item.id),
            wall_clock=self._wall_clock,
            random=self._random,
            previous=_log_of(report),
            log=self._log.bind(work=item.id),
        )
        self._supervised[item.id] = supervised
        self._note(item)
        self._stopped.pop(item.id, None)
        before = self._clock.seconds()
        try:
            starting = supervised.start()
            took = self._clock.seconds() - before
            yield starting
        except CommandError:
            if self._supervised.get(item.id) is supervised:
                self._remove(item.id)
            raise
        if not self._measures:
            self._measure_on()
        yield sleep(self._clock, took)

    @inlineCallbacks
    def update_work(self, item: WorkItem) -> Steps[None]:
        """
        Go on with a changed item: another command is started in place of the one
        that runs; anything else counts from now on.

        :return: a Deferred as of :meth:`start_work`.
        """
        command = Command.from_config(item.config)
        supervised = self._supervised.get(item.id)
        if (
            supervised is None
            or supervised.command.process != command.process
            or (supervised.is_through and command.reconnect)
        ):
            self._find(command, self._environment(item, command))
            yield self.start_work(item, None)
        else:
            supervised.change(command)
            self._note(item)

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
        self._stopped.pop(item.id, None)

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

    def _note(self, item: WorkItem) -> None:
        self._items[item.id] = item
        self._limits[item.id] = read_limits(item.limits)[0]

    def _environment(self, item: WorkItem, command: Command) -> dict[str, str]:
        return {
            **self._environ,
            **command.environment,
            WORK_ID: item.id,
            "VOLTHA_COORD_INSTANCE_ID": self._instance_id,
            "VOLTHA_COORD_REFERENCE": item.reference,
        }

    def _find(self, command: Command, environment: Mapping[str, str]) -> str:
        try:
            directory = command.directory or os.getcwd()
        except OSError as error:
            raise CommandError(f"the member's own directory: {error}") from error
        if not os.path.isdir(directory):
            raise CommandError(f"config.directory: there is no directory {directory}")
        program = find_program(command.arguments[0], environment, directory)
        check_allowed(program, command.arguments, self._allow)
        return program

    def _spawn(self, work: str, command: Command, life: Life) -> None:
        environment = self._environment(self._items[work], command)
        program = self._find(command, environment)
        launch = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid())]
        launch += [environment.get("LC_CTYPE", ""), command.directory]
        arguments = [*launch, program, *command.arguments[1:]]
        try:
            life.spawn(self._processes, self._sweeper, arguments, environment)
        except OSError as error:
            raise CommandError(f"no process can be started: {error}") from error
        self._guarding.watch(life.pid)
        self._orphans.note(work, life.pid)

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

    @inlineCallbacks
    def _make_way(self, work: str) -> Steps[None]:
        """
        End what runs of an item; kill it, if it does not.
        """
        supervised = self._supervised.get(work)
        if supervised is None:
            return
        patience = Timer(self._clock, lambda: supervised.send(signal.SIGKILL))
        patience.set(self._stop_timeout)
        try:
            yield self._end(work, signal.SIGTERM)
        finally:
            patience.cancel()

    def _remove(self, work: str) -> None:
        self._supervised.pop(work, None)
        self._items.pop(work, None)
        self._limits.pop(work, None)
        if not self._supervised:
            # There is nothing to be guarded, nor to be measured.
            self._guarding.stop()
            self._measuring.cancel()
            self._measures = False

    # Measuring.

    def _measure_on(self) -> None:
        self._measures = True
        self._measuring.set(MEASURE_EVERY)

    def _measure(self) -> None:
        try:
            self._look()
        except Exception:
            # What is read is the machine's, and one look may go wrong.
            self._log.error("processes-not-measured", exc_info=True)
        self._measure_on()

    def _look(self) -> None:
        """
        See Note [Limits].
        """
        lives = {
            supervised.life.pid: work
            for work, supervised in self._supervised.items()
            # Before it is the command, it is an interpreter that uses more.
            if supervised.life is not None and supervised.is_running
        }
        self._used = self._meter.measure(lives.keys())
        for session, used in self._used.items():
            work = lives[session]
            self._heed(self._supervised[work], self._limits[work], used)

    def _heed(self, supervised: Supervised, limits: Share, used: SessionUsage) -> None:
        if 0 < limits.memory < used.memory:
            supervised.kill(
                f"it used {brief(used.memory)} of memory, its limit is "
                f"{brief(limits.memory)}"
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
    texts = [line[: LONGEST_LINE + 1] for line in lines if isinstance(line, str)]
    return tuple(texts[-LINES_KEPT:])


def make_runner(coordinator: Coordinator) -> ProcessRunner:
    """
    Make the runner of a member that twistd runs, and clear what an earlier life
    of it has left: it does so whether it will run anything or not.

    :raises ConfigurationError: when there is no place for records.
    """
    settings = coordinator.settings
    if not settings.allow_command:
        coordinator.log.warning(
            "no-command-allowed",
            effect="each item fails to start here",
            action="say with --allow-command which commands may run",
        )
    bounded = settings.isolation == STOP
    runner = ProcessRunner(
        settings.allow_command,
        clock=coordinator.steady,
        processes=IReactorProcess(coordinator.reactor),
        # With the other isolations work goes on beyond its lease on purpose.
        deadline=(lambda: coordinator.work_deadline) if bounded else (lambda: None),
        # It has to come before the call is given up.
        stop_timeout=min(settings.stop_timeout, settings.work_timeout / 2),
        state_directory=settings.state_directory,
        prefix=settings.prefix,
        instance_id=coordinator.instance_id,
        wall_clock=coordinator.wall_clock,
        random=coordinator.random,
        log=coordinator.log,
    )
    runner.open()
    return runner
