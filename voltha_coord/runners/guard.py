"""
A program: kills the processes of a member that can do so no more.

Each command is the leader of a kernel session, and so of a process group, both of
which have its process id.  What it starts may make groups of its own, as shells
and ``timeout`` do, and is in its session all the same.  So whatever is done to a
command is done to all processes of its session.

One guard runs beside each member that runs commands, as a file, by an
interpreter that imports nothing but the standard library.  The member tells it
on its standard input which sessions are its own, and until when they may run.

# Note [What the guard does]

It kills all sessions it knows of, at once and for good, when

- its input ends: the member is dead, however it died;
- the deadline passes that it was told last: the member was stopped, or hangs.
  What it knows of it goes on knowing: a member that wakes finds its processes
  dead, and says which are over.

When the input has ended nothing is left to do, and it ends too.  It is the leader
of a session of its own, so that what is sent to the member's group does not
reach it, and it heeds no signal that can be heeded.

# Note [What it is told]

Lines of a word and a number: ``+ 4711``, such a session is there; ``- 4711``, it is
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
from collections.abc import Collection

#: The longest it sleeps without looking at the clock, in seconds: a machine that
#: slept wakes it late.
LONGEST_SLEEP = 0.2


def now() -> float:
    """
    Give seconds of a clock that runs on while the machine sleeps.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def members(session: int) -> list[int]:
    """
    Give the processes of a session that are not dead, the leader last.
    """
    return members_of((session,)).get(session, [])


def members_of(sessions: Collection[int]) -> dict[int, list[int]]:
    """
    Give the processes of sessions that are not dead, the leader last, with one
    look at the machine; sessions that have none are not among them.
    """
    processes = _processes()
    if not processes:
        # Another system than Linux: there is the group, and no more.
        return {session: [session] for session in sessions if _is_there(session)}
    found: dict[int, list[int]] = {}
    for pid in processes:
        with contextlib.suppress(OSError):
            session = os.getsid(pid)
            if session in sessions and not _is_dead(pid):
                found.setdefault(session, []).append(pid)
    for session, pids in found.items():
        pids.sort(key=lambda pid: (pid == session, pid))
    return found


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_dead(pid: int) -> bool:
    """
    Whether a process is dead, and only waits for its parent to notice.
    """
    with open(f"/proc/{pid}/stat", "rb") as stat:
        # The name comes before, in brackets, and may hold any.
        return stat.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")


def send(sessions: Collection[int], number: int, fresh: Collection[int] = ()) -> None:
    """
    Send a signal to all processes of sessions.

    :param fresh: those whose leader may not have come so far as to lead them.
    """
    left = []
    for session in sessions:
        try:
            os.killpg(session, number)
        except (ProcessLookupError, PermissionError):
            if session in fresh:
                left.append(session)
    for pid in [*left, *_apart(sessions)]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _apart(sessions: Collection[int]) -> list[int]:
    """
    Give the processes of sessions that are in groups of their own.
    """
    found = []
    for pid in _processes():
        with contextlib.suppress(OSError):
            session = os.getsid(pid)
            if session in sessions and os.getpgid(pid) != session:
                found.append(pid)
    return found


def _processes() -> list[int]:
    """
    Give the processes of the machine; none where that cannot be seen.
    """
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


class Guard:
    """
    What the guard knows; see the notes at the head of the module.
    """

    def __init__(self) -> None:
        self.sessions: set[int] = set()
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
                    self.sessions.add(int(number))
                elif word == b"-":
                    self.sessions.discard(int(number))

    def kill_all(self) -> None:
        """
        Kill all sessions.
        """
        send(self.sessions, signal.SIGKILL, self.sessions)

    def run(self, source: int) -> None:
        """
        Go on until the member is dead.
        """
        wait = 0.0
        while True:
            ready, _, _ = select.select([source], [], [], wait)
            if ready:
                data = os.read(source, 65536)
                if not data:
                    self.kill_all()
                    return
                # It judges by all that it was told: if it was stopped itself,
                # there may be a later deadline to be read.
                self.told(data)
                wait = 0.0
                continue
            left = self.until - now()
            if left <= 0:
                self.kill_all()
                # What is killed may have forked meanwhile.
                left = LONGEST_SLEEP
            wait = min(left, LONGEST_SLEEP)


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
