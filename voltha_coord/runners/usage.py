"""
What the commands of this member use, measured for each with all it has started.

One sweep over the processes of the machine serves all kernel sessions.  CPU is
what one used between two sweeps, so nothing is known of one before the second.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator

import psutil
from attrs import field, frozen


@frozen
class SessionUsage:
    """
    What a session uses.

    :ivar memory: resident, in bytes.
    :ivar cpu: in percent of one core; ``None`` before it could be measured.
    :ivar seconds: of CPU so far, by process id.
    """

    memory: int = 0
    cpu: float | None = None
    seconds: dict[int, float] = field(factory=dict)


class SessionMeter:
    """
    Measures kernel sessions.

    :param now: the time, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: dict[int, psutil.Process] = {}
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
        seconds: dict[int, dict[int, float]] = {}
        for session, process in self._members(sessions):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                memory[session] += process.memory_info().rss
                used = seconds.setdefault(session, {})
                used[process.pid] = times.user + times.system
        self._found = {
            session: SessionUsage(
                memory[session], _cpu(before.get(session), used, passed), used
            )
            for session, used in seconds.items()
        }
        self._at = now
        return self._found

    def _members(
        self, sessions: Collection[int]
    ) -> Iterator[tuple[int, psutil.Process]]:
        if not sessions:
            self._known.clear()
            return
        known, self._known = self._known, {}
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):
                session = os.getsid(pid)
                if session in sessions:
                    process = known.get(pid)
                    if process is None or not process.is_running():
                        process = psutil.Process(pid)
                    self._known[pid] = process
                    yield session, process


def _cpu(
    before: SessionUsage | None, used: dict[int, float], passed: float
) -> float | None:
    if before is None or passed <= 0:
        return None
    spent = sum(
        max(0.0, seconds - before.seconds.get(pid, 0.0))
        for pid, seconds in used.items()
    )
    return 100.0 * spent / passed
