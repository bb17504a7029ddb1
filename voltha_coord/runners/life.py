"""
One life of a process: from its start to when nothing of it is left.

# Note [The end of a life]

A process has ended for us when all that it started has: that may work on after
it, and must not when the item is stopped, or runs elsewhere.  So when the process
itself is gone the rest of its kernel session is killed, and only when that is
empty is the life over.  A process that makes itself the leader of another session
is out of our reach; the documentation says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.error import ProcessTerminated
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from .._loops import sleep
from .._types import Steps
from ..errors import CommandError
from .launcher import REPORT_FD
from .sweeping import Sweeper

#: Seconds between two looks whether all that was written has been read.
LOOK_EVERY = 0.02

#: So many times it is looked whether all that was written has been read: somebody
#: else may hold the other end, and keep it.
LOOKS_FOR_OUTPUT = 10

_STREAMS = {1: "stdout", 2: "stderr"}


@frozen
class Exit:
    """
    How a process ended.

    :ivar status: its exit status; ``None`` when a signal ended it.
    :ivar signal: the number of that signal; ``None`` for none.
    """

    status: int | None = None
    signal: int | None = None

    @property
    def well(self) -> bool:
        """
        Whether it ended as a success.
        """
        return self.status == 0

    def __str__(self) -> str:
        """
        Say it, for people.
        """
        if self.signal is None:
            return f"exit status {self.status}"
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(self.signal).name}"
        return f"signal {self.signal}"


class Life(ProcessProtocol):
    """
    One process; see the head of the module.

    :ivar pid: its id, and that of its kernel session.
    :ivar began: a Deferred that fires when it has become the command, or fails
        with :class:`CommandError` when it cannot; never cancelled.
    :ivar over: a Deferred that fires with its :class:`Exit` when nothing of it is
        left; never fails.

    :param clock: waits.
    :param received: told of what it writes: the stream, and the bytes.
    """

    def __init__(
        self, clock: IReactorTime, received: Callable[[str, bytes], None]
    ) -> None:
        self._clock = clock
        self._received = received
        self._trouble = b""
        self._reported: Deferred[None] = Deferred()
        self._exited = False
        self._closed = False
        self._gone = False
        self._sweeper: Sweeper | None = None
        self.pid = 0
        self.began: Deferred[None] = Deferred()
        self.over: Deferred[Exit] = Deferred()

    def spawn(
        self,
        processes: IReactorProcess,
        sweeper: Sweeper,
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        """
        Begin.

        :param sweeper: reaches all of it.
        :param arguments: the launcher, and what it is to become.
        :raises OSError: when there can be no process.
        """
        self._sweeper = sweeper
        with open(os.devnull, "rb") as nothing:
            processes.spawnProcess(
                self,
                arguments[0],
                [os.fsencode(argument) for argument in arguments],
                env={os.fsencode(n): os.fsencode(v) for n, v in environment.items()},
                childFDs={0: nothing.fileno(), 1: "r", 2: "r", REPORT_FD: "r"},
            )

    def connectionMade(self) -> None:  # noqa: N802
        """
        There is a process.  It may be gone before the reactor has returned.
        """
        assert self.transport is not None
        self.pid = self.transport.pid

    def send(self, number: int) -> None:
        """
        Send a signal to all of it.
        """
        if self.pid and not self._gone and self._sweeper is not None:
            self._sweeper.send(self.pid, number, fresh=not self._exited)

    # What the reactor tells.

    def childDataReceived(self, childFD: int, data: bytes) -> None:  # noqa: N802, N803
        """
        It wrote something.
        """
        if childFD == REPORT_FD:
            self._trouble += data
        else:
            self._received(_STREAMS[childFD], data)

    def childConnectionLost(self, childFD: int) -> None:  # noqa: N802, N803
        """
        It will write nothing more there.
        """
        if childFD == REPORT_FD:
            if self._trouble:
                text = self._trouble.decode("utf-8", "replace")
                self.began.errback(CommandError(f"it cannot be executed: {text}"))
            else:
                self.began.callback(None)
            self._reported.callback(None)

    def processExited(self, reason: Failure) -> None:  # noqa: N802
        """
        The process itself is gone.
        """
        reason.trap(Exception)
        error = reason.value
        ended = Exit(0)
        if isinstance(error, ProcessTerminated):
            ended = Exit(error.exitCode, error.signal)
        self._exited = True
        self._see_out(ended)

    def processEnded(self, reason: Failure) -> None:
        """
        All that it wrote has been read.
        """
        self._closed = True

    @inlineCallbacks
    def _see_out(self, ended: Exit) -> Steps[None]:
        """
        See to it that nothing is left.
        """
        yield self._reported
        assert self._sweeper is not None
        yield self._sweeper.empty(self.pid)
        self._gone = True
        for _ in range(LOOKS_FOR_OUTPUT):
            if self._closed:
                break
            yield sleep(self._clock, LOOK_EVERY)
        if not self._closed and self.transport is not None:
            # What escaped holds the other ends; ours would be held with each life.
            self.transport.loseConnection()
        self.over.callback(ended)
