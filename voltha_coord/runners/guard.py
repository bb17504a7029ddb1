"""
A program: kills the processes of a member that can do so no more.

One guard runs beside each member that runs commands, as a file, by an
interpreter that imports nothing but the standard library.  The member tells it
on its standard input which process groups are its own, and until when they may
run.

# Note [What the guard does]

It kills all groups it knows of, at once and for good, when

- its input ends: the member is dead, however it died;
- the deadline passes that it was told last: the member was stopped, or hangs.
  What it knows of it goes on knowing: a member that wakes finds its processes
  dead, and says which are over.

When the input has ended nothing is left to do, and it ends too.  It is the leader
of a session of its own, so that what is sent to the member's group does not
reach it, and it heeds no signal that can be heeded.

# Note [What it is told]

Lines of a word and a number: ``+ 4711``, such a group is there; ``- 4711``, it is
no more; ``until 123.5``, the deadline on the boot-time clock, ``until inf`` for
none.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import time

#: The longest it sleeps without looking at the clock, in seconds: a machine that
#: slept wakes it late.
LONGEST_SLEEP = 0.2


def now() -> float:
    """
    Give seconds of a clock that runs on while the machine sleeps.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def kill(group: int) -> None:
    """
    Kill a process group, and its leader also if that is not in it yet.
    """
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(group, signal.SIGKILL)


class Guard:
    """
    What the guard knows; see the notes at the head of the module.
    """

    def __init__(self) -> None:
        self.groups: set[int] = set()
        self.until = math.inf
        self._rest = b""

    def told(self, data: bytes) -> None:
        """
        Heed what the member says.  A line that means nothing is passed over.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            with contextlib.suppress(ValueError):
                if word == b"until":
                    self.until = float(number)
                elif word == b"+" and int(number) > 1:
                    self.groups.add(int(number))
                elif word == b"-":
                    self.groups.discard(int(number))

    def kill_all(self) -> None:
        """
        Kill all groups.
        """
        for group in self.groups:
            kill(group)

    def run(self, source: int) -> None:
        """
        Go on until the member is dead.
        """
        while True:
            left = self.until - now()
            if left <= 0:
                self.kill_all()
                # A group that is killed may not be dead yet when it forks.
                left = LONGEST_SLEEP
            wait = min(left, LONGEST_SLEEP) if self.groups else LONGEST_SLEEP
            ready, _, _ = select.select([source], [], [], wait)
            if ready:
                data = os.read(source, 65536)
                if not data:
                    self.kill_all()
                    return
                self.told(data)


def main() -> None:
    """
    Guard the processes of the member at the other end of standard input.
    """
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    Guard().run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
