"""
The guard of this member's processes, seen from the member.

The guard is another process (:mod:`~voltha_coord.runners.guard`).  It has to know
of a kernel session before the member could die without having told it; so what it
is told is written into its pipe at once, and waits for no turn of the reactor.
With each session, and every ``TOLD_EVERY`` seconds, it is told until when they may
run.

A guard that is gone is replaced, and the new one is told of all sessions.  One that
does not read what it is told is killed first: it would kill them, once it went on
and found its deadline passed or its pipe closed.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable
from typing import Any

from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from .._loops import Timer
from . import guard

#: Seconds between two deadlines that the guard is told.
TOLD_EVERY = 0.5

#: A guard that is gone is replaced after so many seconds.
REPLACED_AFTER = 0.2


class _Watched(ProcessProtocol):
    """
    A guard, as long as it is there.
    """

    def __init__(self, gone: Callable[[_Watched], None]) -> None:
        self._gone = gone

    def processEnded(self, reason: Failure) -> None:
        """
        It is gone.
        """
        self._gone(self)

    def kill(self) -> None:
        """
        Have it gone soon.
        """
        if self.transport is not None:
            with contextlib.suppress(ProcessExitedAlready):
                self.transport.signalProcess("KILL")


class Guarding:
    """
    Has a guard see to the member's kernel sessions; see the head of the module.

    :param clock: waits.
    :param processes: starts the guard.
    :param deadline: gives until when the sessions may run, on the boot-time clock;
        ``None`` for as long as the member lives.
    """

    def __init__(
        self,
        clock: IReactorTime,
        processes: IReactorProcess,
        deadline: Callable[[], float | None],
        log: Any,
    ) -> None:
        self._processes = processes
        self._deadline = deadline
        self._log = log
        self._telling = Timer(clock, self._tell_on)
        self._replacing = Timer(clock, self._replace)
        self._sessions: set[int] = set()
        self._guard: _Watched | None = None
        self._pipe: int | None = None
        self._wanted = False

    @property
    def running(self) -> bool:
        """
        Whether there is a guard that hears.
        """
        return self._pipe is not None

    def start(self) -> None:
        """
        Have a guard from now on; nothing more if there is one.

        :raises OSError: when it cannot be started.
        """
        if not self._wanted:
            self._spawn()
            self._wanted = True
            self._telling.set(TOLD_EVERY)

    def stop(self) -> None:
        """
        Need no guard any more: it kills what is still there, and ends.  There
        may be another one later.
        """
        self._wanted = False
        self._telling.cancel()
        self._replacing.cancel()
        self._close()
        self._guard = None

    def watch(self, session: int) -> None:
        """
        Have the guard see to a kernel session.
        """
        self._sessions.add(session)
        self._tell(f"{self._until()}+ {session}\n")

    def forget(self, session: int) -> None:
        """
        There is no such session any more.
        """
        self._sessions.discard(session)
        self._tell(f"- {session}\n")

    # Telling it.

    def _until(self) -> str:
        deadline = self._deadline()
        return f"until {math.inf if deadline is None else deadline!r}\n"

    def _tell(self, text: str) -> None:
        if self._pipe is None:
            return
        try:
            # It is short, so it is written whole or not at all.
            os.write(self._pipe, text.encode())
        except OSError:
            if self._guard is not None:
                self._guard.kill()
            self._close()

    def _tell_on(self) -> None:
        self._tell(self._until())
        self._telling.set(TOLD_EVERY)

    # Having it.

    def _spawn(self) -> None:
        protocol = _Watched(self._gone)
        theirs, ours = os.pipe()
        try:
            os.set_blocking(ours, False)
            self._processes.spawnProcess(
                protocol,
                sys.executable,
                [sys.executable, "-I", "-S", guard.__file__],
                env={},
                childFDs={0: theirs, 1: 1, 2: 2},
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._guard, self._pipe = protocol, ours
        self._tell(self._until())
        for session in sorted(self._sessions):
            self._tell(f"+ {session}\n")

    def _close(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.close(self._pipe)
            self._pipe = None

    def _gone(self, protocol: _Watched) -> None:
        if protocol is not self._guard:
            # It was needed no more.
            return
        self._guard = None
        self._close()
        self._log.error(
            "guard-lost",
            sessions=len(self._sessions),
            effect="until there is another one, processes may outlive the member",
        )
        self._replacing.set(REPLACED_AFTER)

    def _replace(self) -> None:
        try:
            self._spawn()
        except OSError as error:
            self._log.error("guard-not-started", error=str(error))
            self._replacing.set(REPLACED_AFTER)
