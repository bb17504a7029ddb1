"""
Tests for :mod:`voltha_coord.runners.supervised`, with lives that the test ends.
"""

from __future__ import annotations

import signal

import structlog
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import CommandError
from voltha_coord.runners.command import Command
from voltha_coord.runners.life import Exit, Life
from voltha_coord.runners.supervised import (
    LONGEST_DELAY,
    SHOWN_CHARACTERS,
    STEADY_SECONDS,
    Supervised,
    tail,
)
from voltha_coord.turns import Turns

PLAIN = Command(("a",), reconnect_delay=2.0)


class SupervisedTests(SynchronousTestCase):
    """
    A command is started again when it ends.
    """

    def setUp(self) -> None:
        """
        Have one that is about to begin.
        """
        self.logs = self.enterContext(capture_logs())
        self.clock = Clock()
        self.launches = Turns(1)
        self.lives: list[Life] = []
        self.sent: list[tuple[int, int]] = []
        self.failing: Exception | None = None
        self.over: list[Life] = []
        self.states: list[str] = []
        self.one = self.make(PLAIN)

    def make(self, command: Command) -> Supervised:
        """
        Make one that runs a command.
        """
        self.one = Supervised(
            self.clock,
            command,
            spawn=self.spawn,
            launches=self.launches,
            ended=self.over.append,
            changed=lambda: self.states.append(self.one.condition.state),
            wall_clock=lambda: 1000.0 + self.clock.seconds(),
            random=lambda: 0.5,
            log=structlog.get_logger(),
        )
        return self.one

    def spawn(self, command: Command, life: Life) -> None:
        """
        Note a life; its signals are noted, too.
        """
        if self.failing is not None:
            raise self.failing
        self.lives.append(life)
        number = life.pid = len(self.lives)

        def send(signal_number: int) -> None:
            self.sent.append((number, signal_number))

        life.send = send  # type: ignore[assignment, method-assign]

    def begin(self) -> None:
        """
        Start it, and let it be the command.
        """
        starting = self.one.start()
        self.lives[-1].began.callback(None)
        self.successResultOf(starting)

    def end(self, **how: int) -> None:
        """
        End the life there is.
        """
        self.lives[-1].over.callback(Exit(**how))

    def waits(self) -> float:
        """
        Give the seconds until the next timer.
        """
        return min(call.getTime() for call in self.clock.getDelayedCalls()) - (
            self.clock.seconds()
        )

    def again(self) -> float:
        """
        Let the delay pass, and the next life be the command.

        :return: how long the delay was.
        """
        seconds = self.waits()
        before = len(self.lives)
        self.clock.advance(seconds)
        self.assertEqual(len(self.lives), before + 1)
        self.lives[-1].began.callback(None)
        return seconds

    def test_begins(self) -> None:
        """
        It is starting until it is the command.
        """
        starting = self.one.start()
        self.assertNoResult(starting)
        self.assertEqual(self.one.condition.state, "starting")
        self.assertEqual(self.one.condition.details["pid"], 1)

        self.lives[0].began.callback(None)

        self.successResultOf(starting)
        self.assertEqual(self.states, ["running"])
        self.assertEqual(self.one.condition.error, "")
        self.assertEqual(self.one.condition.since, 1000.0)

    def test_cannot_begin(self) -> None:
        """
        What cannot be the command fails the start, once nothing of it is left.
        """
        starting = self.one.start()
        self.lives[0].began.errback(CommandError("no such file"))
        self.assertNoResult(starting)
        self.end(status=127)

        self.assertIn("no such file", str(self.failureResultOf(starting, CommandError)))
        self.assertEqual(self.over, self.lives)
        self.successResultOf(self.one.stop())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_delays(self) -> None:
        """
        What ends again and again is started less and less often.
        """
        self.begin()
        delays = []
        for _ in range(8):
            self.end(status=1)
            self.assertEqual(self.one.condition.state, "failed")
            delays.append(self.again())

        self.assertEqual(delays, [2.0, 4.0, 8.0, 16.0, 32.0, *[LONGEST_DELAY] * 3])
        self.assertEqual(self.one.condition.details["restarts"], 8)

    def test_steady(self) -> None:
        """
        What ran for some time is well again, and is started soon if it ends.
        """
        self.begin()
        for _ in range(4):
            self.end(status=1)
            self.again()
        self.assertIn("exit status 1", self.one.condition.error)

        self.clock.advance(STEADY_SECONDS)
        self.assertEqual(self.one.condition.error, "")

        self.end(status=1)
        self.assertEqual(self.again(), 2.0)

    def test_delay_of_nothing(self) -> None:
        """
        A delay of 0 is none that holds the processor.
        """
        self.make(Command(("a",), reconnect_delay=0.0))
        self.begin()
        self.end(status=0)
        self.assertEqual(self.one.condition.state, "finished")
        self.assertEqual(self.again(), 0.1)

    def test_once(self) -> None:
        """
        What is not to reconnect stays ended, and says how.
        """
        self.make(Command(("a",), reconnect=False))
        self.begin()
        self.end(signal=signal.SIGSEGV)

        self.assertEqual(self.one.condition.state, "failed")
        self.assertEqual(self.one.condition.error, "signal SIGSEGV")
        self.assertTrue(self.one.is_through)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.successResultOf(self.one.stop())

    def test_stop(self) -> None:
        """
        To stop it is to send a signal, and to wait until nothing is left.
        """
        self.begin()
        stopping, twice = self.one.stop(), self.one.stop(signal.SIGKILL)
        self.assertNoResult(stopping)
        self.assertEqual(self.sent, [(1, signal.SIGTERM), (1, signal.SIGKILL)])

        self.end(signal=signal.SIGTERM)

        self.successResultOf(stopping)
        self.successResultOf(twice)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop_while_starting(self) -> None:
        """
        It can be stopped before it is the command.
        """
        starting = self.one.start()
        stopping = self.one.stop()
        self.lives[0].began.callback(None)
        self.end(signal=signal.SIGTERM)

        self.successResultOf(stopping)
        self.successResultOf(starting)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop_while_waiting(self) -> None:
        """
        It can be stopped while it is to be started again, and is not then.
        """
        self.begin()
        self.end(status=1)
        stopping = self.one.stop()
        self.clock.advance(0)

        self.successResultOf(stopping)
        self.assertEqual(len(self.lives), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_start_cancelled(self) -> None:
        """
        Whoever gave up the start can stop what came of it.
        """
        starting = self.one.start()
        starting.addErrback(lambda _: None)
        starting.cancel()
        stopping = self.one.stop()
        self.lives[0].began.callback(None)
        self.end(signal=signal.SIGTERM)

        self.successResultOf(stopping)
        self.assertNotIn("process-not-supervised", [one["event"] for one in self.logs])

    def test_kill(self) -> None:
        """
        What we killed says why, and is started again.
        """
        self.begin()
        self.one.kill("it used too much")
        self.one.kill("for another reason")
        self.assertEqual(self.sent, [(1, signal.SIGKILL)])
        self.end(signal=signal.SIGKILL)

        self.assertEqual(self.one.condition.state, "killed")
        self.assertIn("it used too much", self.one.condition.error)
        self.again()
        self.end(status=0)
        self.assertEqual(self.one.condition.state, "finished")

    def test_not_spawned(self) -> None:
        """
        Where no process can be started again it is tried again, later.
        """
        self.begin()
        self.end(status=1)
        self.failing = CommandError("no process")
        self.clock.advance(2.0)
        self.assertEqual(self.one.condition.state, "failed")
        self.assertIn("no process", self.one.condition.error)
        self.failing = None

        self.assertEqual(self.again(), 4.0)
        self.assertEqual(self.one.condition.state, "running")

    def test_waits_to_be_launched(self) -> None:
        """
        It is started again when its turn has come, which is over once it is the
        command, or cannot be.  If it is stopped meanwhile it is at once, whoever is
        before it in the line, and does not begin.
        """
        self.begin()
        for number, outcome in enumerate((None, Failure(CommandError("no"))), 2):
            self.launches.take()
            self.end(status=1)
            self.clock.advance(self.waits())
            self.assertEqual(len(self.lives), number - 1)
            self.launches.give_back()
            self.assertEqual(len(self.lives), number)
            self.assertNoResult(turn := self.launches.take())
            self.lives[-1].began.callback(outcome)
            self.successResultOf(turn)
            self.launches.give_back()

        self.launches.take()
        self.end(status=1)
        self.clock.advance(self.waits())
        self.successResultOf(self.one.stop())
        self.launches.give_back()
        self.assertEqual(len(self.lives), 3)
        self.successResultOf(self.launches.take())

    def test_defect(self) -> None:
        """
        What nobody foresaw is told, and what is left can be stopped.
        """
        self.begin()
        self.end(status=1)
        self.failing = ZeroDivisionError("oh")
        self.clock.advance(2.0)

        self.assertEqual(self.one.condition.state, "failed")
        self.assertIn("ZeroDivisionError: oh", self.one.condition.error)
        self.assertIn("process-not-supervised", [log["event"] for log in self.logs])
        self.successResultOf(self.one.stop())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stale(self) -> None:
        """
        What says nothing for too long is killed; whatever it says counts.
        """
        self.make(Command(("a",), stale_timeout=5.0))
        self.begin()
        self.clock.advance(4.0)
        self.one._received("stderr", b".")
        self.clock.advance(4.0)
        self.assertEqual(self.sent, [])

        self.clock.advance(1.0)

        self.assertEqual(self.sent, [(1, signal.SIGKILL)])

    def test_stale_no_more(self) -> None:
        """
        A timeout that is taken away kills nothing.
        """
        self.make(Command(("a",), stale_timeout=5.0))
        self.begin()
        self.one.change(Command(("a",)))
        self.clock.advance(9.0)

        self.assertEqual(self.sent, [])

    def test_cancelled_wait(self) -> None:
        """
        Whoever waits no more for the end keeps nobody else from it.
        """
        self.begin()
        first: Deferred[None] = self.one.stop()
        first.addErrback(lambda _: None)
        second = self.one.stop()
        first.cancel()
        self.end(signal=signal.SIGTERM)

        self.successResultOf(second)


class TailTests(SynchronousTestCase):
    """
    What is shown of the last lines.
    """

    def test_tail(self) -> None:
        """
        As many as there is room for, the last ones; one at least.
        """
        lines = [f"{n:0100}" for n in range(50)]

        self.assertEqual(tail(lines), lines[-SHOWN_CHARACTERS // 100 :])
        self.assertEqual(tail(["x" * 5000]), ["x" * 5000])
        self.assertEqual(tail([]), [])
