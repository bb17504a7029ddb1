"""
What the processes of this member use, measured session by session.

One sweep over the processes of the machine serves all sessions.  CPU is what a
session used between two sweeps, so nothing is known of one before the second.

On Linux all that is asked of a process stands in one file, and a thousand of them
are read in some ten milliseconds.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator

import psutil
from attrs import field, frozen

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@frozen
class SessionUsage:
    """
    What a kernel session uses.

    :ivar memory: resident, in bytes.
    :ivar cpu: in percent of one core; ``None`` before it could be measured.
    :ivar seconds: of CPU so far, by process id and the time of its start.
    """

    memory: int = 0
    cpu: float | None = None
    seconds: dict[tuple[int, float], float] = field(factory=dict)


@frozen
class _Seen:
    memory: int
    seconds: float
    started: float


def look(pid: int) -> _Seen | None:
    """
    Look at a process.

    :return: what it uses, and when it was started; ``None`` when it is gone, or
        not ours to look at.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program comes before, in brackets, and may hold any.
            fields = file.read().rpartition(b")")[2].split()
        spent = (int(fields[11]) + int(fields[12])) / _TICKS
        return _Seen(int(fields[21]) * _PAGE, spent, float(fields[19]))
    except (OSError, LookupError, ValueError):
        pass
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            memory = process.memory_info().rss
            return _Seen(memory, times.user + times.system, process.create_time())
    except psutil.Error:
        return None


class SessionMeter:
    """
    Measures kernel sessions.

    :param now: the time, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._found: dict[int, SessionUsage] = {}
        self._at: float | None = None

    def measure(self, sessions: Collection[int]) -> dict[int, SessionUsage]:
        """
        Measure sessions.

        :return: what each uses; one of which nothing is left is not among them.
        """
        now = self._now()
        before, passed = self._found, 0.0 if self._at is None else now - self._at
        memory: dict[int, int] = dict.fromkeys(sessions, 0)
        seconds: dict[int, dict[tuple[int, float], float]] = {}
        for session, pid in _members(sessions):
            seen = look(pid)
            if seen is not None:
                memory[session] += seen.memory
                used = seconds.setdefault(session, {})
                used[pid, seen.started] = seen.seconds
        self._found = {
            session: SessionUsage(
                memory[session], _cpu(before.get(session), used, passed), used
            )
            for session, used in seconds.items()
        }
        self._at = now
        return self._found


def _members(sessions: Collection[int]) -> Iterator[tuple[int, int]]:
    for pid in psutil.pids() if sessions else ():
        with contextlib.suppress(OSError):
            session = os.getsid(pid)
            if session in sessions:
                yield session, pid


def _cpu(
    before: SessionUsage | None, used: dict[tuple[int, float], float], passed: float
) -> float | None:
    if before is None or passed <= 0:
        return None
    spent = sum(
        max(0.0, seconds - before.seconds.get(process, 0.0))
        for process, seconds in used.items()
    )
    return 100.0 * spent / passed
