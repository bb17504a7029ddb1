"""
Launching many commands at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorProcess
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord.errors import CommandError
from voltha_coord.records import WorkItem
from voltha_coord.runners.launcher import REPORT_FD
from voltha_coord.runners.life import Exit, Life
from voltha_coord.runners.process import MEASURE_EVERY, ProcessRunner, launched_at_once
from voltha_coord.runners.usage import SessionUsage

from .support.keeping import RecordingLog

#: So many are launched at a time.
MOST = launched_at_once()

#: So many seconds each launch holds up the reactor.
HELD_UP = 0.25


@implementer(IReactorProcess)
class Launches:
    """
    Lets nothing begin, and remembers what was to.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lives: list[Life] = []

    def spawnProcess(  # type: ignore[override]  # noqa: N802
        self, protocol: Any, *args: Any, **kw: Any
    ) -> None:
        """
        Note it, unless it is a guard.
        """
        if isinstance(protocol, Life):
            # No session of this machine has so high a number.
            protocol.pid = 2**30 + len(self.lives)
            self.lives.append(protocol)
            self.clock.rightNow += HELD_UP


class Meter:
    """
    Remembers what is measured.
    """

    def __init__(self) -> None:
        self.measured: list[list[int]] = []

    def measure(self, sessions: Collection[int]) -> dict[int, SessionUsage]:
        """
        Note it.
        """
        self.measured.append([*sessions])
        return {}


class LaunchesTests(SynchronousTestCase):
    """
    More commands than are launched at a time.
    """

    def setUp(self) -> None:
        """
        Have a runner that is to start twice as many.
        """
        self.clock = Clock()
        self.launches = Launches(self.clock)
        self.runner = ProcessRunner(
            ["*"],
            clock=self.clock,
            processes=self.launches,
            state_directory=self.mktemp(),
            log=RecordingLog(),
        )
        self.addCleanup(self.runner._guarding.stop)
        self.addCleanup(self.runner._measuring.cancel)
        self.items = [
            WorkItem.from_value(f"x{n}", b'{"config": {"command": ["sh"]}}')
            for n in range(2 * MOST + 2)
        ]
        self.starts: list[Deferred[None]] = [
            self.runner.start_work(item, None) for item in self.items
        ]

    def test_few_at_a_time(self) -> None:
        """
        The others wait in line; each that cannot become its command, or has become
        it, lets another one begin, after as long as it has held up the reactor.
        """
        lives = self.launches.lives
        self.assertEqual(len(lives), MOST)

        lives[0].childDataReceived(REPORT_FD, b"no")
        lives[0].childConnectionLost(REPORT_FD)
        lives[0].over.callback(Exit(127))
        self.failureResultOf(self.starts[0], CommandError)
        self.assertEqual(len(lives), MOST + 1)

        lives[MOST].childConnectionLost(REPORT_FD)
        self.clock.advance(HELD_UP - 0.01)
        self.assertEqual(len(lives), MOST + 1)
        self.clock.advance(0.01)
        self.successResultOf(self.starts[MOST])
        self.assertEqual(len(lives), MOST + 2)

    def test_cancelled(self) -> None:
        """
        One that waits in line can be given up, and so can one that is launched.
        """
        self.starts[MOST].cancel()
        self.starts[0].cancel()

        for number in (MOST, 0):
            self.failureResultOf(self.starts[number], CancelledError)
        begun = [self.runner.condition(item) is not None for item in self.items]
        self.assertEqual(begun.index(False), MOST)
        self.assertEqual(len(self.launches.lives), MOST + 1)

    def test_not_measured(self) -> None:
        """
        What is not its command yet is an interpreter, which may use more memory than
        the command is allowed; it is not measured, and not killed for that.
        """
        meter = self.runner._meter = cast(Any, Meter())
        self.launches.lives[0].childConnectionLost(REPORT_FD)
        self.clock.advance(MEASURE_EVERY)

        self.assertEqual(meter.measured, [[self.launches.lives[0].pid]])
