"""
Tests for :mod:`voltha_coord.runners.life`.
"""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.runners.launcher import REPORT_FD
from voltha_coord.runners.life import LOOK_EVERY, LOOKS_FOR_OUTPUT, Life


class Empties:
    """
    Finds every session empty.
    """

    def empty(self, session: int) -> Deferred[None]:
        """
        Say so.
        """
        return succeed(None)


class Process:
    """
    A process, as its protocol sees it.
    """

    pid = 4711

    def __init__(self) -> None:
        self.lost = 0

    def loseConnection(self) -> None:  # noqa: N802
        """
        Note it.
        """
        self.lost += 1


class Spawning:
    """
    Lets a process begin that is none.
    """

    def __init__(self) -> None:
        self.process = Process()

    def spawnProcess(self, protocol: Any, *args: Any, **kw: Any) -> None:  # noqa: N802
        """
        Connect it.
        """
        protocol.makeConnection(self.process)


class OutputTests(SynchronousTestCase):
    """
    What a process wrote, after its end.
    """

    def setUp(self) -> None:
        """
        Have one that has ended.
        """
        self.clock = Clock()
        self.spawning = Spawning()
        self.life = Life(self.clock, lambda stream, data: None)
        self.life.spawn(cast(Any, self.spawning), cast(Any, Empties()), ["x"], {})
        self.life.childConnectionLost(REPORT_FD)
        self.life.processExited(Failure(ProcessDone(0)))

    def test_read(self) -> None:
        """
        It is over once all that it wrote has been read.
        """
        self.assertNoResult(self.life.over)
        self.life.processEnded(Failure(ProcessDone(0)))
        self.clock.advance(LOOK_EVERY)

        self.assertTrue(self.successResultOf(self.life.over).well)
        self.assertEqual(self.spawning.process.lost, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_held_by_another(self) -> None:
        """
        Where somebody who escaped holds the other ends, ours are closed: a command
        that leaves such behind again and again takes no more of them.
        """
        self.clock.pump([LOOK_EVERY] * LOOKS_FOR_OUTPUT)

        self.assertTrue(self.successResultOf(self.life.over).well)
        self.assertEqual(self.spawning.process.lost, 1)
