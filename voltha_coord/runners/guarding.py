"""
The guard of this member's processes, seen from the member.

The guard is another process (:mod:`~voltha_coord.runners.guard`).  It has to know
of a kernel session before the member could die without having told it; so what it
is told is written into its pipe at once, and waits for no turn of the reactor.
With each session, and every ``TOLD_EVERY`` seconds, it is told until when they may
run.  A guard that is gone is replaced, and the new one is told of all sessions.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from .._loops import Tasks, sleep
from .._types import Steps
from . import guard

#: Seconds between two deadlines that the guard is told.
TOLD_EVERY = 0.5

#: A guard that is gone is replaced after so many seconds.
REPLACED_AFTER = 0.2


class _Watched(ProcessProtocol):
    """
    Tells when the guard is gone.
    """

    def __init__(self) -> None:
        self.gone: Deferred[None] = Deferred()

    def processEnded(self, reason: Failure) -> None:
        """
        It is gone.
        """
        self.gone.callback(None)


class Guarding:
    """
    Has a guard see to the member's kernel sessions; see the head of the module.

    :param clock: waits.
    :param processes: starts the guard.
    :param deadline: gives until when they may run, on the boot-time clock;
        ``None`` for as long as the member lives.
    """

    def __init__(
        self,
        clock: IReactorTime,
        processes: IReactorProcess,
        deadline: Callable[[], float | None],
        log: Any,
    ) -> None:
        self._clock = clock
        self._processes = processes
        self._deadline = deadline
        self._log = log
        self._tasks = Tasks(log)
        self._sessions: set[int] = set()
        self._pipe: int | None = None
        self._stopping = False

    @property
    def running(self) -> bool:
        """
        Whether there is a guard.
        """
        return self._pipe is not None

    def start(self) -> None:
        """
        Have a guard from now on; nothing more if there is one.

        :raises OSError: when it cannot be started.
        """
        if not self.running and not len(self._tasks):
            protocol = self._spawn()
            self._tasks.spawn("guard", self._keep, protocol)
            self._tasks.spawn("guard-deadline", self._tell_on)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Need no guard any more; it kills what is still there.

        :return: a Deferred that fires when it is gone; never fails.
        """
        self._stopping = True
        self._close()
        yield self._tasks.stop()

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
            os.write(self._pipe, text.encode())
        except OSError:
            # It is gone, or does not listen: another one takes over.
            self._close()

    @inlineCallbacks
    def _tell_on(self) -> Steps[None]:
        while True:
            self._tell(self._until())
            yield sleep(self._clock, TOLD_EVERY)

    # Having it.

    def _spawn(self) -> _Watched:
        protocol = _Watched()
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
        self._pipe = ours
        self._tell(self._until())
        for session in sorted(self._sessions):
            self._tell(f"+ {session}\n")
        return protocol

    def _close(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.close(self._pipe)
            self._pipe = None

    @inlineCallbacks
    def _keep(self, protocol: _Watched) -> Steps[None]:
        while True:
            yield protocol.gone
            self._close()
            if self._stopping:
                return
            self._log.error(
                "guard-lost",
                sessions=len(self._sessions),
                effect="until there is another one, processes may outlive the member",
            )
            protocol = yield self._replace()

    @inlineCallbacks
    def _replace(self) -> Steps[_Watched]:
        """
        Have another guard, as soon as one can be started.
        """
        while True:
            yield sleep(self._clock, REPLACED_AFTER)
            try:
                return self._spawn()
            except OSError as error:
                self._log.error("guard-not-started", error=str(error))
