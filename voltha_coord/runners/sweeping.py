"""
Reaching all processes of many kernel sessions with one look at the machine.

Which processes are in a session is seen by looking at all there are.  A thousand
commands that are stopped at once must not mean a thousand such looks: what has
to be reached beyond a command's own process group waits for the next sweep,
which serves everybody.

# Note [A sweep]

One comes ``SWEEP_EVERY`` seconds after somebody wants something.  It sends the
signals that are wanted to what is in groups of its own; and of sessions that are
to be empty it kills what is left, and tells those that are.  Where something is
left there is another one, later each time, up to ``LONGEST_PAUSE``.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from .._loops import Timer
from .guard import members_of

#: Seconds until a sweep, at first.
SWEEP_EVERY = 0.02

#: The longest time between two.
LONGEST_PAUSE = 0.5


class Sweeper:
    """
    Sends signals to sessions, and sees them empty; see Note [A sweep].

    :param clock: waits.
    :param look: gives the processes of sessions that are not dead.
    """

    def __init__(
        self,
        clock: IReactorTime,
        look: Callable[[Collection[int]], Mapping[int, Sequence[int]]] = members_of,
    ) -> None:
        self._clock = clock
        self._look = look
        self._timer = Timer(clock, self._sweep)
        self._due = math.inf
        self._pause = SWEEP_EVERY
        self._wanted: dict[int, int] = {}
        self._emptying: dict[int, Deferred[None]] = {}

    def send(self, session: int, number: int, fresh: bool = False) -> None:
        """
        Send a signal to all processes of a session: to the group of its leader
        at once, to others soon.  Who is asked to end and was stopped goes on, so
        that it can.

        :param fresh: whether its leader may not have come so far as to lead it.
        """
        try:
            os.killpg(session, number)
            if number == signal.SIGTERM:
                os.killpg(session, signal.SIGCONT)
        except (ProcessLookupError, PermissionError):
            if fresh:
                _kill(session, number)
        self._wanted[session] = number
        self._soon()

    def empty(self, session: int) -> Deferred[None]:
        """
        Kill all processes of a session.

        :return: a Deferred that fires when nothing is left of it; never fails.
        """
        empty: Deferred[None] = Deferred()
        self.send(session, signal.SIGKILL)
        self._emptying[session] = empty
        return empty

    def _soon(self) -> None:
        self._pause = SWEEP_EVERY
        self._in(SWEEP_EVERY)

    def _in(self, seconds: float) -> None:
        """
        Sweep then, or sooner if that was wanted before.
        """
        due = self._clock.seconds() + seconds
        if due < self._due:
            self._due = due
            self._timer.set(seconds)

    def _sweep(self) -> None:
        self._due = math.inf
        wanted, self._wanted = self._wanted, {}
        left = self._look({*wanted, *self._emptying})
        for session, number in wanted.items():
            for pid in left.get(session, ()):
                if _group(pid) not in (session, 0):
                    _kill(pid, number)
                    if number == signal.SIGTERM:
                        _kill(pid, signal.SIGCONT)
        emptied = [s for s in self._emptying if not left.get(s)]
        for session in self._emptying.keys() - {*emptied}:
            for pid in left[session]:
                _kill(pid, signal.SIGKILL)
        # What these do may come back here.
        for done in [self._emptying.pop(session) for session in emptied]:
            done.callback(None)
        if self._emptying:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._in(self._pause)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
