"""
Tests for :mod:`voltha_coord.runners.guard` and
:mod:`voltha_coord.runners.guarding`.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
from typing import Any

import structlog
from structlog.testing import capture_logs
from twisted.internet.error import ProcessDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.runners.guard import Guard, members, now, send
from voltha_coord.runners.guarding import REPLACED_AFTER, TOLD_EVERY, Guarding


class GuardTests(SynchronousTestCase):
    """
    The guard knows what it was told.
    """

    def test_told(self) -> None:
        """
        It heeds lines, whatever pieces they come in.
        """
        guard = Guard()
        for piece in (b"+ 47", b"11\n+ 12\nunt", b"il 5.5\n- 12\n", b"- 4711"):
            guard.told(piece)

        self.assertEqual(guard.sessions, {4711})
        self.assertEqual(guard.until, 5.5)

    def test_nonsense(self) -> None:
        """
        A line that means nothing is passed over; nobody's session is 0 or 1.
        """
        guard = Guard()
        guard.told(b"\n\xff\n+ x\n+ 0\n+ 1\n+ -5\nuntil x\nuntil\n- 9\n+\nzz 3\n")

        self.assertEqual(guard.sessions, set())
        self.assertEqual(guard.until, math.inf)

    def test_last_word(self) -> None:
        """
        Before it kills for a deadline it reads what it has not read.
        """
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        theirs, ours = os.pipe()
        self.addCleanup(os.close, theirs)
        guard = Guard()
        guard.told(f"+ {process.pid}\nuntil {now() - 5}\n".encode())
        os.write(ours, f"- {process.pid}\nuntil inf\n".encode())
        os.close(ours)

        guard.run(theirs)

        self.assertRaises(subprocess.TimeoutExpired, process.wait, 0.2)

    def test_end(self) -> None:
        """
        When its input ends it kills what it knows of, and ends.
        """
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.addCleanup(process.kill)
        theirs, ours = os.pipe()
        self.addCleanup(os.close, theirs)
        os.write(ours, f"+ {process.pid}\n".encode())
        os.close(ours)

        Guard().run(theirs)

        self.assertEqual(process.wait(5), -signal.SIGKILL)

    def test_fresh(self) -> None:
        """
        A process that does not lead its session yet is reached as well; its
        stranger of a group is not.
        """
        process = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(process.kill)
        send((process.pid,), signal.SIGKILL)
        self.assertIsNone(process.poll())

        send((process.pid,), signal.SIGKILL, (process.pid,))

        self.assertEqual(process.wait(5), -signal.SIGKILL)

    def test_members(self) -> None:
        """
        Those of a session are all that are not dead, its leader last.
        """
        script = "sleep 1000 & echo; exec sleep 1000"
        process = subprocess.Popen(
            ["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        self.addCleanup(process.communicate)
        process.stdout.readline()

        found = members(process.pid)
        self.assertEqual(len(found), 2)
        self.assertEqual(found[-1], process.pid)

        send((process.pid,), signal.SIGKILL)
        process.wait(5)
        # A child that nobody has waited for yet is dead all the same.
        while members(process.pid):
            pass


class _Transport:
    """
    A guard's process, as the reactor gives it.
    """

    def __init__(self) -> None:
        self.signals: list[str] = []

    def signalProcess(self, name: str) -> None:  # noqa: N802
        """
        Note a signal.
        """
        self.signals.append(name)


class _Reactor:
    """
    Starts nothing, and keeps what the guards would be told.
    """

    def __init__(self) -> None:
        self.protocols: list[Any] = []
        self.inputs: list[int] = []
        self.failing: OSError | None = None

    def spawnProcess(  # noqa: N802
        self, protocol: Any, *_: Any, **given: Any
    ) -> None:
        """
        Note a guard.
        """
        if self.failing is not None:
            raise self.failing
        protocol.transport = _Transport()
        self.protocols.append(protocol)
        self.inputs.append(os.dup(given["childFDs"][0]))

    def told(self, number: int = -1) -> list[str]:
        """
        Give what a guard was told since it was last asked.
        """
        os.set_blocking(self.inputs[number], False)
        try:
            return os.read(self.inputs[number], 65536).decode().splitlines()
        except BlockingIOError:
            return []

    def end(self, number: int = -1) -> None:
        """
        End a guard.
        """
        os.close(self.inputs[number])
        self.protocols[number].processEnded(Failure(ProcessDone(0)))


class GuardingTests(SynchronousTestCase):
    """
    The member keeps a guard, and keeps it told.
    """

    def setUp(self) -> None:
        """
        Have one that is not needed yet.
        """
        self.logs = self.enterContext(capture_logs())
        self.clock = Clock()
        self.reactor = _Reactor()
        self.deadline: float | None = 7.5
        processes: Any = self.reactor
        self.guarding = Guarding(
            self.clock, processes, lambda: self.deadline, structlog.get_logger()
        )
        self.addCleanup(self.guarding.stop)

    def test_told(self) -> None:
        """
        It is told of each session with the deadline, and of that all the time.
        """
        self.guarding.start()
        self.guarding.start()
        self.assertEqual(len(self.reactor.protocols), 1)
        self.assertEqual(self.reactor.told(), ["until 7.5"])

        self.guarding.watch(12)
        self.assertEqual(self.reactor.told(), ["until 7.5", "+ 12"])
        self.deadline = None
        self.clock.advance(TOLD_EVERY)
        self.assertEqual(self.reactor.told(), ["until inf"])
        self.guarding.forget(12)
        self.assertEqual(self.reactor.told(), ["- 12"])

    def test_again(self) -> None:
        """
        When it is needed again there is another, which is told all the time.
        """
        self.guarding.start()
        self.guarding.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertFalse(self.guarding.running)
        self.reactor.end()

        self.guarding.start()
        self.reactor.told()
        self.clock.advance(TOLD_EVERY)

        self.assertEqual(self.reactor.told(), ["until 7.5"])
        self.assertEqual(len(self.reactor.protocols), 2)

    def test_late_end(self) -> None:
        """
        One that ends after it was needed no more does not touch the next one.
        """
        self.guarding.start()
        self.guarding.stop()
        self.guarding.start()
        self.reactor.end(0)

        self.assertTrue(self.guarding.running)
        self.assertEqual(self.logs, [])

    def test_replaced(self) -> None:
        """
        One that is gone is replaced, and the next is told of all sessions.
        """
        self.guarding.start()
        self.guarding.watch(12)
        self.guarding.watch(11)
        self.guarding.forget(12)
        self.reactor.end()
        self.assertFalse(self.guarding.running)
        self.assertEqual(self.logs[0]["event"], "guard-lost")
        self.guarding.watch(13)

        self.clock.advance(REPLACED_AFTER)

        self.assertEqual(self.reactor.told(), ["until 7.5", "+ 11", "+ 13"])

    def test_not_replaced(self) -> None:
        """
        Where none can be started it is tried again.
        """
        self.guarding.start()
        self.reactor.end()
        self.reactor.failing = OSError("no more processes")
        self.clock.advance(REPLACED_AFTER)
        self.assertEqual(self.logs[-1]["event"], "guard-not-started")
        self.reactor.failing = None

        self.clock.advance(REPLACED_AFTER)

        self.assertTrue(self.guarding.running)

    def test_not_started(self) -> None:
        """
        Where none can be started at first, whoever needs it is told.
        """
        self.reactor.failing = OSError("no more processes")
        self.assertRaises(OSError, self.guarding.start)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.reactor.failing = None

        self.guarding.start()

        self.assertTrue(self.guarding.running)

    def test_does_not_read(self) -> None:
        """
        One that does not read what it is told is killed, so that it kills
        nothing, and is replaced.
        """
        self.guarding.start()
        for _ in range(20_000):
            self.guarding.watch(12)
        self.assertEqual(self.reactor.protocols[0].transport.signals, ["KILL"])
        self.assertFalse(self.guarding.running)
        self.reactor.end()

        self.clock.advance(REPLACED_AFTER)

        self.assertTrue(self.guarding.running)
