"""
One item of the runner ``process``: its command, started again when it ends.

# Note [The states of a supervised command]

    starting ──it is the command──▶ running ──it ends──▶ finished, failed, killed
        ▲                                                         │
        └───────────── after a delay, if it is to reconnect ──────┘
    any ──stop──▶ stopped: nothing of it is left

*finished*: with status 0.  *failed*: with another one, by a signal, or it could
not be executed.  *killed*: by us, for its memory, or because it had nothing to
say for too long.  The delay is ``reconnect_delay``; it doubles each time the
command has run for less than ``STEADY_SECONDS``, up to ``LONGEST_DELAY``, and is
jittered.

The loop ends when the item is stopped, and when a command that is not to
reconnect has ended.  Whoever stops it sends a signal to the life there is, or
ends the delay; the loop does the rest, and tells when it is through.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    inlineCallbacks,
    succeed,
)
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from .._loops import Timer, Wake
from .._types import Steps
from ..condition import Condition
from ..errors import CommandError
from ..turns import Turns
from ..waiters import Waiters
from .command import Command
from .life import Exit, Life
from .output import Output

_T = TypeVar("_T")

STARTING = "starting"
RUNNING = "running"
FINISHED = "finished"
FAILED = "failed"
KILLED = "killed"

#: A command that ran for so many seconds is not in a loop of failures.
STEADY_SECONDS = 10.0

#: So many characters of its last lines are in the status report of an item: with
#: a thousand that fail the reports should still be some megabytes at most.
SHOWN_CHARACTERS = 2000

#: The longest delay that doubling comes to, in seconds.
LONGEST_DELAY = 60.0


@frozen
class Ended:
    """
    How a command ended last.

    :ivar how: in words.
    :ivar state: what that makes of the item.
    """

    how: str
    state: str


def tail(lines: Iterable[str]) -> list[str]:
    """
    Give the last of some lines, as many as may be shown in a status report.
    """
    left, found = SHOWN_CHARACTERS, list[str]()
    for line in reversed([*lines]):
        left -= len(line)
        if left < 0 and found:
            break
        found.append(line)
    return found[::-1]


class Supervised:
    """
    Keeps a command running; see Note [The states of a supervised command].

    :param spawn: lets a process begin, for a life; raises
        :class:`CommandError` when it cannot, or may not.
    :param launches: each life that follows another waits for its turn to be
        launched; whoever starts this sees to the first one's.
    :param ended: told of each life of which nothing is left.
    :param changed: called whenever :attr:`condition` is another one.
    :param previous: what the last owner handed over of its output.
    """

    def __init__(
        self,
        clock: IReactorTime,
        command: Command,
        *,
        spawn: Callable[[Command, Life], None],
        launches: Turns,
        ended: Callable[[Life], None],
        changed: Callable[[], None],
        wall_clock: Callable[[], float],
        random: Callable[[], float],
        previous: tuple[str, ...] = (),
        log: Any,
    ) -> None:
        self._clock = clock
        self._spawn = spawn
        self._launches = launches
        self._line: Deferred[None] | None = None
        self._ended = ended
        self._changed = changed
        self._wall_clock = wall_clock
        self._random = random
        self._previous = previous
        self._log = log
        self._wake = Wake(clock)
        self._stale = Timer(clock, self._went_stale)
        self._steady = Timer(clock, self._is_steady)
        self._stopped: Waiters[None] = Waiters()
        self._through = False
        self._stopping = False
        self._why_killed = ""
        self._short = 0
        self._trouble = ""
        self._begun: Deferred[None] | None = None
        self._state, self._since = STARTING, wall_clock()
        self.command = command
        self.output = Output(clock.seconds, log)
        self.life: Life | None = None
        self.last: Ended | None = None
        self.restarts = 0
        self.over_limit = ""

    @property
    def is_through(self) -> bool:
        """
        Whether nothing of it runs, nor will by itself.
        """
        return self._through

    @property
    def is_running(self) -> bool:
        """
        Whether what runs has become the command.
        """
        return self._state == RUNNING

    @property
    def condition(self) -> Condition:
        """
        How the item fares.
        """
        details: dict[str, Any] = {"restarts": self.restarts}
        if self.life is not None:
            details["pid"] = self.life.pid
        if self.last is not None:
            details["exit"] = self.last.how
        if self.over_limit:
            details["over_limit"] = self.over_limit
        if self.output.last:
            details["log"] = tail(self.output.last)
        if self._previous:
            details["previous"] = [*self._previous]
        return Condition(self._state, self._since, self._trouble, details)

    # What is to become of it.

    def start(self) -> Deferred[None]:
        """
        Begin.

        :return: a Deferred that fires when it is the command, or fails with
            :class:`CommandError` when it cannot be; then it has not begun.
        """
        life = self._make_life()
        self._spawn(self.command, life)
        self.life = life
        # Without a canceller: what comes after a cancellation goes nowhere.
        begun: Deferred[None] = Deferred()
        self._begun = begun
        self._run(life).addErrback(self._broke)
        return begun

    def stop(self, number: int = signal.SIGTERM) -> Deferred[None]:
        """
        Stop it.

        :param number: of the signal that is sent, to all of it.
        :return: a Deferred that fires when nothing of it is left; never fails.
        """
        self._stopping = True
        if self._through:
            return succeed(None)
        # Asked for before: leaving the line is the end at once.
        stopped = self._stopped.wait()
        if self.life is not None:
            self.life.send(number)
        elif self._line is not None:
            self._line.cancel()
        else:
            self._wake.set()
        return stopped

    def change(self, command: Command) -> None:
        """
        Go on with another one, which is the same process.
        """
        self.command = command
        if self._state == RUNNING and command.stale_timeout:
            self._stale.set(command.stale_timeout)
        else:
            self._stale.cancel()

    def send(self, number: int) -> None:
        """
        Send a signal to all of it that runs now.
        """
        if self.life is not None:
            self.life.send(number)

    def kill(self, why: str) -> None:
        """
        Kill what runs now; it is started again like one that failed.

        :param why: for people.
        """
        if self.life is not None and not self._why_killed:
            self._why_killed = why
            self.life.send(signal.SIGKILL)

    # The loop.

    def _make_life(self) -> Life:
        return Life(self._clock, self._received)

    def _received(self, stream: str, data: bytes) -> None:
        self.output.received(stream, data)
        if self.command.stale_timeout and self.life is not None:
            self._stale.set(self.command.stale_timeout)

    def _went_stale(self) -> None:
        self.kill(f"no output for {self.command.stale_timeout:g} s")

    @inlineCallbacks
    def _run(self, life: Life | None) -> Steps[None]:
        while life is not None:
            self.last = yield self._live(life)
            self.life = None
            if self._stopping:
                break
            self._enter(self.last.state)
            if not self.command.reconnect:
                break
            life = yield self._begin_again()
        self._end()

    def _end(self) -> None:
        self._through = True
        self._stopped.fire(None)

    def _broke(self, failure: Failure) -> None:
        """
        What nobody foresaw: people are told, and what runs is stopped as ever.
        """
        error = failure.value
        self._log.error(
            "process-not-supervised",
            error=str(error),
            exc_info=(failure.type, error, failure.getTracebackObject()),
        )
        self.last = Ended(f"{type(error).__name__}: {error}", FAILED)
        self._state, self._since = FAILED, self._wall_clock()
        self._trouble = self.last.how
        life = self.life
        if life is None:
            self._end()
        else:
            life.send(signal.SIGKILL)
            life.over.addBoth(lambda _: self._ended(life))
            life.over.addBoth(lambda _: self._end())
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.errback(CommandError(self._trouble))
        else:
            self._changed()

    @inlineCallbacks
    def _live(self, life: Life) -> Steps[Ended]:
        """
        See a life to its end.
        """
        trouble = ""
        try:
            yield life.began
        except CommandError as error:
            trouble = str(error)
        else:
            self._begins()
        how: Exit = yield life.over
        self._stale.cancel()
        self._steady.cancel()
        self.output.ended()
        self._ended(life)
        killed, self._why_killed = self._why_killed, ""
        if trouble:
            ended = Ended(trouble, FAILED)
            self._cannot_begin(trouble)
        elif killed:
            ended = Ended(f"killed: {killed}", KILLED)
        else:
            ended = Ended(str(how), FINISHED if how.well else FAILED)
        if not self._stopping:
            say = self._log.info if ended.state == FINISHED else self._log.warning
            say("process-ended", how=ended.how, restarts=self.restarts)
        return ended

    def _begins(self) -> None:
        self._enter(RUNNING)
        self._steady.set(STEADY_SECONDS)
        if self.command.stale_timeout:
            self._stale.set(self.command.stale_timeout)
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.callback(None)

    def _cannot_begin(self, trouble: str) -> None:
        """
        If it is the first one, whoever started it is told, and may try again.
        """
        begun, self._begun = self._begun, None
        if begun is not None:
            self._stopping = True
            begun.errback(CommandError(trouble))

    def _is_steady(self) -> None:
        """
        It has run for some time: whatever there was is over.
        """
        self._short = 0
        if self._trouble:
            self._trouble = ""
            self._changed()

    @inlineCallbacks
    def _begin_again(self) -> Steps[Life | None]:
        """
        Wait, and let another process begin.

        :return: a Deferred that fires with it; ``None`` when it is stopped
            meanwhile.
        """
        while True:
            self._short += 1
            yield self._wake.wait(self._delay())
            if self._stopping or not (yield self._has_its_turn()):
                return None
            self.restarts += 1
            self._enter(STARTING)
            life = self._make_life()
            life.began.addBoth(self._launched)
            try:
                self._spawn(self.command, life)
            except CommandError as error:
                self._launches.give_back()
                self.last = Ended(str(error), FAILED)
                self._log.warning("process-not-started", error=str(error))
                self._enter(FAILED)
                continue
            self.life = life
            return life

    @inlineCallbacks
    def _has_its_turn(self) -> Steps[bool]:
        """
        Wait until it may be launched.

        :return: a Deferred that fires with whether it may: it is not to be when it
            is stopped meanwhile.
        """
        turn = self._line = self._launches.take()
        try:
            yield turn
        except CancelledError:
            # By whoever stops it.
            return False
        finally:
            self._line = None
        return True

    def _launched(self, result: _T) -> _T:
        self._launches.give_back()
        return result

    def _delay(self) -> float:
        base = self.command.reconnect_delay
        longest = max(base, LONGEST_DELAY)
        doubled = max(base, 0.1) * 2 ** max(0, min(self._short, 20) - 1)
        return float(min(doubled, longest) * (0.75 + 0.5 * self._random()))

    def _enter(self, state: str) -> None:
        self._state, self._since = state, self._wall_clock()
        if state == FINISHED:
            self._trouble = ""
        elif state in (FAILED, KILLED) and self.last is not None:
            # It stays until it has run for some time, whatever it tries, and
            # does not change with each attempt: it stands in Consul.
            again = "; it is started again" if self.command.reconnect else ""
            self._trouble = f"{self.last.how}{again}"
        self._changed()
