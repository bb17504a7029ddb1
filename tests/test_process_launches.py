"""
Launching many commands at once.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorProcess
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord.errors import CommandError
from voltha_coord.records import WorkItem
from voltha_coord.runners.launcher import REPORT_FD
from voltha_coord.runners.life import Exit, Life
from voltha_coord.runners.process import LAUNCHED_AT_ONCE, ProcessRunner

from .support.keeping import RecordingLog

#: So many are launched at a time on this machine.
MOST = max(LAUNCHED_AT_ONCE, os.cpu_count() or 1)


@implementer(IReactorProcess)
class Launches:
    """
    Lets nothing begin, and remembers what was to.
    """

    def __init__(self) -> None:
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


class LaunchesTests(SynchronousTestCase):
    """
    More commands than are launched at a time.
    """

    def setUp(self) -> None:
        """
        Have a runner that is to start twice as many.
        """
        self.launches = Launches()
        self.runner = ProcessRunner(
            ["*"],
            clock=Clock(),
            processes=self.launches,
            state_directory=self.mktemp(),
            log=RecordingLog(),
        )
        self.addCleanup(self.runner._guarding.stop)
        self.items = [
            WorkItem.from_value(f"x{n}", b'{"config": {"command": ["sh"]}}')
            for n in range(2 * MOST)
        ]
        self.starts: list[Deferred[None]] = [
            self.runner.start_work(item, None) for item in self.items
        ]

    def test_few_at_a_time(self) -> None:
        """
        The others wait in line; each that has become its command, or cannot, lets
        another one begin.
        """
        self.assertEqual(len(self.launches.lives), MOST)

        self.launches.lives[0].childConnectionLost(REPORT_FD)
        self.successResultOf(self.starts[0])
        self.assertEqual(len(self.launches.lives), MOST + 1)

        self.launches.lives[1].childDataReceived(REPORT_FD, b"no")
        self.launches.lives[1].childConnectionLost(REPORT_FD)
        self.launches.lives[1].over.callback(Exit(127))
        self.failureResultOf(self.starts[1], CommandError)
        self.assertEqual(len(self.launches.lives), MOST + 2)

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
