"""
The processes of the demo: started, watched, and ended in any case.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from voltha_coord._types import Steps

#: They are told to stop, and killed when they have not after so long.
STOP_SECONDS = 12.0

#: A child that dies with the demo, whatever becomes of it, and that does not
#: get the Ctrl-C that is meant for the demo.
CHILD = """
import ctypes, os, signal, sys
os.setsid()
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the demo has gone")
del sys.argv[1]
"""
TWISTD = CHILD + "from twisted.scripts.twistd import run\nrun()\n"
EMBEDDED = CHILD + "from voltha_coord.embedded.__main__ import run\nrun()\n"


class Child(ProcessProtocol):
    """
    A process of the demo.

    :param log: file for what it prints.
    """

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.pid = 0
        self.end = ""
        self._ended: list[Deferred[None]] = []

    def start(self, reactor: Any, code: str, args: Sequence[str], env: Any) -> None:
        """
        Start it.
        """
        with self.log.open("wb") as log, open(os.devnull, "rb") as null:
            started = reactor.spawnProcess(
                self,
                sys.executable,
                [sys.executable, "-c", code, str(os.getpid()), *args],
                env=env,
                path=str(self.log.parent),
                childFDs={0: null.fileno(), 1: log.fileno(), 2: log.fileno()},
            )
        self.pid = started.pid

    def processEnded(self, reason: Failure) -> None:
        """
        Remember how it ended.
        """
        over: Any = reason.value
        number = over.signal
        if number is None:
            self.end = f"ended ({over.exitCode})"
        else:
            self.end = f"killed ({signal.Signals(number).name})"
        waiting, self._ended = self._ended, []
        for d in waiting:
            d.callback(None)

    def lines(self) -> list[str]:
        """
        Give the end of what it printed.
        """
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - 16384))
                return log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []

    def tail(self) -> str:
        """
        Say where its log is, and how that ends.
        """
        return "\n".join([f"{self.log}:", *(f"  {line}" for line in self.lines()[-8:])])

    def signal(self, name: str) -> None:
        """
        Send it a signal, unless it has ended.
        """
        if self.transport is not None and not self.end:
            with suppress(ProcessExitedAlready):
                self.transport.signalProcess(name)

    @inlineCallbacks
    def stop(self, reactor: Any) -> Steps[None]:
        """
        End it, by force if it takes too long.
        """
        if self.end or not self.pid:
            return
        ended: Deferred[None] = Deferred()
        self._ended.append(ended)
        self.signal("TERM")
        kill = reactor.callLater(STOP_SECONDS, self.signal, "KILL")
        yield ended
        if kill.active():
            kill.cancel()
