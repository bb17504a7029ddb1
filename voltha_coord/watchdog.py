"""
A thread that ends the process when its work keeps the reactor from ending it.

# Note [Work that blocks the reactor]

Work is stopped, killed, and in the end left no process to run in, by timers of
the reactor.  Work that blocks the reactor's thread keeps all of them from firing,
and the passes of the liveness check from being sent: it makes the lease run out,
and then overruns it.  So a thread of its own sleeps until the lease ends.  If the
lease has been extended by then, as it always is when all is well, it sleeps
again.  If not, and there is work here that has not stopped, it asks the reactor
for a sign of life.  A reactor that gives one does what is to be done by itself.
One that gives none until the deadline ends here: with the exit status of stuck
work, and the place in which it was blocked in the log.

# Note [A thread that wakes late]

A process that was stopped and goes on, and a machine that slept, wake up with
the deadline behind them.  That is no blocked reactor: it has woken up just now
like this thread, and is to stop its work first.  So a thread that wakes late has
patience once more.

# Note [What no thread can do]

A thread needs the interpreter to run.  Code that never gives it away (an
extension module that computes for seconds without releasing it) stops this
thread too.  Such work belongs into a process of its own.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Collection, Sequence

import structlog
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorFromThreads

from .ending import STUCK_STATUS

log = structlog.get_logger(__name__)

#: The reactor is asked for a sign of life so many seconds before the deadline …
ASKED_BEFORE_SECONDS = 0.1

#: … again and again, so many seconds after each sign …
ASKED_AGAIN_SECONDS = 0.02

#: … and is blocked if it gave none for so many.
SILENT_SECONDS = 0.05

#: A thread that wakes so many seconds late was not alone in standing still …
LATE_SECONDS = 0.1

#: … and waits so many seconds before it concludes anything.
PATIENCE_SECONDS = 1.0

#: So many of the innermost calls are told of a blocked thread, and so many ids.
MOST_CALLS = 5
MOST_NAMED = 5


class Watchdog(Service):
    """
    Watches over the reactor while the service runs; see Note [Work that blocks
    the reactor].

    All it is given is called in its thread.

    :param reactor: is asked for signs of life.
    :param now: the lease clock, in seconds.
    :param deadline: gives when work must have stopped, on that clock; ``None``
        while there is nothing to be late for.
    :param here: gives the ids of the work that has not stopped.
    :param idle: how often to look while there is no deadline, in seconds: less
        than what is left of a lease when work begins.
    :param end: ends the process, after what it is given has been called.
    """

    def __init__(
        self,
        reactor: IReactorFromThreads,
        now: Callable[[], float],
        deadline: Callable[[], float | None],
        here: Callable[[], Collection[str]],
        idle: float,
        end: Callable[[Callable[[], object]], object],
    ) -> None:
        self._reactor = reactor
        self._now = now
        self._deadline = deadline
        self._here = here
        self._idle = idle
        self._end = end
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = 0
        self._due = 0.0
        self._patient_until = 0.0
        self._asked_at: float | None = None
        self._sign = threading.Event()

    def startService(self) -> None:
        """
        Begin to watch over the thread that calls this.
        """
        super().startService()
        self._watched = threading.get_ident()
        self._over.clear()
        self._due = self._now()
        self._thread = threading.Thread(
            target=self._run, name="voltha-coord-watchdog", daemon=True
        )
        self._thread.start()

    def stopService(self) -> None:
        """
        Watch no more; the thread has ended then.
        """
        super().stopService()
        thread, self._thread = self._thread, None
        self._over.set()
        if thread is not None:
            # It waits for nothing but the event.
            thread.join()

    def _run(self) -> None:
        while not self._over.wait(self.look()):
            pass

    def look(self) -> float:
        """
        Look once, and end the process if it is time.

        :return: the seconds until the next look.
        """
        now = self._now()
        if now - self._due > LATE_SECONDS:
            self._patient_until = now + PATIENCE_SECONDS
        wait = self._judge(now)
        self._due = now + wait
        return wait

    def _judge(self, now: float) -> float:
        deadline = self._deadline()
        if deadline is not None and now < deadline - ASKED_BEFORE_SECONDS:
            self._asked_at = None
            return deadline - ASKED_BEFORE_SECONDS - now
        here = () if deadline is None else self._unstopped()
        if deadline is None or not here:
            self._asked_at = None
            return self._idle
        if self._asked_at is None or self._sign.is_set():
            self._ask(now)
            return ASKED_AGAIN_SECONDS
        give_up = max(deadline, self._patient_until, self._asked_at + SILENT_SECONDS)
        if now < give_up:
            return min(ASKED_AGAIN_SECONDS, give_up - now)
        self._end(lambda: self._say(here))
        return self._idle

    def _ask(self, now: float) -> None:
        """
        Ask the reactor for a sign of life.
        """
        self._asked_at = now
        self._sign = sign = threading.Event()
        self._reactor.callFromThread(sign.set)

    def _unstopped(self) -> tuple[str, ...]:
        try:
            return tuple(sorted(self._here()))
        except RuntimeError:
            # It changed while it was read, so the reactor's thread is alive.
            return ()

    def _say(self, here: Sequence[str]) -> None:
        log.critical(
            "reactor-blocked",
            items=len(here),
            some=list(here[:MOST_NAMED]),
            blocked_in=_innermost_calls(self._watched),
            status=STUCK_STATUS,
            effect="this process ends: work has not stopped, and other members may "
            "begin it",
            action="let the work not block the reactor's thread: see blocked_in",
        )


def _innermost_calls(thread: int) -> list[str]:
    """
    Give what a thread is doing, the innermost call first.
    """
    frame = sys._current_frames().get(thread)
    calls = traceback.StackSummary.extract(
        traceback.walk_stack(frame), limit=MOST_CALLS, lookup_lines=False
    )
    return [f"{call.filename}:{call.lineno} in {call.name}" for call in calls]
