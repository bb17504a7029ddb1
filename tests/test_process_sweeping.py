"""
Reaching all processes of many kernel sessions.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Collection
from threading import Event

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.runners.guard import members, members_of, send
from voltha_coord.runners.sweeping import LONGEST_PAUSE, SWEEP_EVERY, Sweeper


class SweeperTests(SynchronousTestCase):
    """
    Sessions of real processes, on a clock.
    """

    def setUp(self) -> None:
        """
        Count the looks.
        """
        self.clock = Clock()
        self.looks: list[set[int]] = []
        self.sweeper = Sweeper(self.clock, self.look)

    def look(self, sessions: Collection[int]) -> dict[int, list[int]]:
        """
        Look at the machine.
        """
        self.looks.append({*sessions})
        return members_of(sessions)

    def start(self, script: str, processes: int) -> subprocess.Popen[bytes]:
        """
        Start a shell that leads a session, and wait until there are so many
        processes in it.
        """
        process = subprocess.Popen(
            ["sh", "-c", f"{script} & wait"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(self.end, process)
        self.until(lambda: len(members(process.pid)) == processes)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """
        Leave nothing behind.
        """

        def nothing_left() -> bool:
            send((process.pid,), signal.SIGKILL)
            return not [pid for pid in members(process.pid) if pid != process.pid]

        self.until(nothing_left)

    def until(self, holds: Callable[[], bool]) -> None:
        """
        Let time pass, on the clock, and a little of it for the machine, which
        takes some to end what is killed.
        """
        machine = Event()
        for _ in range(1000):
            if holds():
                return
            self.clock.advance(LONGEST_PAUSE)
            machine.wait(0.005)

    def test_empty(self) -> None:
        """
        All processes of a session are killed, those in groups of their own too,
        and that it is empty is told.
        """
        process = self.start("timeout 1000 sleep 1000", 3)

        empty = self.sweeper.empty(process.pid)
        process.wait()
        self.assertNoResult(empty)
        self.until(lambda: empty.called)

        self.successResultOf(empty)
        self.assertEqual(members(process.pid), [])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_many_at_once(self) -> None:
        """
        Many sessions are served by one look.
        """
        processes = [self.start("sleep 1000", 2) for _ in range(5)]
        emptied = [self.sweeper.empty(process.pid) for process in processes]
        for process in processes:
            process.wait()

        self.clock.advance(SWEEP_EVERY)

        self.assertEqual(self.looks, [{process.pid for process in processes}])
        self.until(lambda: all(empty.called for empty in emptied))
        for empty in emptied:
            self.successResultOf(empty)

    def test_signal(self) -> None:
        """
        A signal goes to the group at once, and to other groups with the sweep;
        nobody is killed for it.
        """
        process = self.start("timeout 1000 sleep 1000", 3)
        before = members(process.pid)

        self.sweeper.send(process.pid, signal.SIGCONT)
        self.clock.advance(SWEEP_EVERY)

        self.assertEqual(members(process.pid), before)
        self.assertEqual(len(self.looks), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stopped(self) -> None:
        """
        A command that was stopped ends when it is asked to.
        """
        process = self.start("sleep 1000", 2)
        os.killpg(process.pid, signal.SIGSTOP)

        self.sweeper.send(process.pid, signal.SIGTERM)

        self.assertEqual(process.wait(timeout=10), -signal.SIGTERM)

    def test_never_put_off(self) -> None:
        """
        However much is wanted meanwhile, the sweep comes when it was due.
        """
        process = self.start("sleep 1000", 2)
        for _ in range(10):
            self.sweeper.send(process.pid, signal.SIGCONT)
            self.clock.advance(SWEEP_EVERY / 4)

        self.assertGreaterEqual(len(self.looks), 2)

    def test_later_each_time(self) -> None:
        """
        Where something cannot be killed it is looked at less and less often.
        """
        empty = Sweeper(self.clock, self.unkillable).empty(2**22 + 1)
        for _ in range(400):
            self.clock.advance(SWEEP_EVERY)

        self.assertNoResult(empty)
        self.assertLess(len(self.looks), 25)
        self.assertGreater(len(self.looks), 10)

    def unkillable(self, sessions: Collection[int]) -> dict[int, list[int]]:
        """
        See something that is always there; no process has its id.
        """
        self.looks.append({*sessions})
        return {session: [session] for session in sessions}

    def test_nobody_there(self) -> None:
        """
        A session of which there is nothing is empty.
        """
        empty = self.sweeper.empty(2**22 + 1)
        self.clock.advance(SWEEP_EVERY)

        self.successResultOf(empty)
