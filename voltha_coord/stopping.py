"""
The stop of one item, until it has stopped.

# Note [What does not stop]

An item that may still run is never given up.  ``stop_work`` is called until it
succeeds, again after a back-off where it fails.  One that takes longer than
``Settings.stop_timeout`` is waited for all the same, but people are told, and
``kill_work`` is called if the runner has it; also when the lease is about to
end (see :mod:`~voltha_coord.overdue`).  When either has succeeded the item has
stopped; unless a call from before, which a stop cancels, goes on nevertheless:
it may bring the item up yet, so its end is waited for, and the item is stopped
once more.

Then the runner is asked for what the next owner should know, and so it is for an
item that stopped by its order: whoever starts it next is told, which may be this
member.  Of an item that was killed nothing is handed over, nor by a report that
never ends, nor where the lease ends: there is no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from ._loops import Timer
from .call import Call, told
from .consul.backoff import Backoff
from .interfaces import IRunner
from .item import Item
from .ownership import REPORT_BYTES
from .settings import Settings


class Stopping:
    """
    Stops one item; see Note [What does not stop].

    :ivar began: when, on the lease clock.

    :param told: called whenever what is the matter with the item has changed.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        runner: IRunner,
        settings: Settings,
        item: Item,
        *,
        told: Callable[[], None],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._runner = runner
        self._settings = settings
        self._item = item
        self._told = told
        self._log = log
        kill: object = getattr(runner, "kill_work", None)
        self._kill_work = kill if callable(kill) else None
        self._backoff = Backoff(random)
        self._patience = Timer(reactor, self._out_of_patience)
        self._again = Timer(reactor, self._ask)
        self._over: Deferred[bytes | None] = Deferred(lambda _: self._give_up())
        self._stop: Call | None = None
        self._kill: Call | None = None
        self._report: Call | None = None
        self._late: Deferred[None] | None = None
        self._was_killed = False
        self._done = False
        self.began = reactor.seconds()

    def begin(self) -> Deferred[bytes | None]:
        """
        Stop it.

        :return: a Deferred that fires, with what the next owner is to know, when
            it has stopped; never fails.  Cancelled, nothing is waited for any
            more, and nothing is known; a kill that is under way goes on.
        """
        self._patience.set(self._settings.stop_timeout)
        self._ask()
        return self._over

    def kill(self) -> None:
        """
        Wait no longer: kill it, if the runner can, unless that is under way.
        """
        if self._report is not None:
            # It has stopped; what it would hand over has come too late.
            self._finish(None)
        elif self._kill_work is not None and self._kill is None and not self._done:
            kill, item = self._kill_work, self._item.description
            self._kill = Call(self._reactor, lambda: kill(item))
            self._kill.make(self._settings.work_timeout).addCallbacks(
                self._killed, self._not_killed
            )

    # Asking it to stop.

    def _ask(self) -> None:
        item = self._item.description
        self._stop = Call(self._reactor, lambda: self._runner.stop_work(item))
        self._stop.make().addCallbacks(self._stopped, self._not_stopped)

    def _stopped(self, _: object) -> None:
        if self._done or self._kill_succeeded:
            return
        if not self._wait_for_the_last_call():
            if self._hands_over and not self._was_killed:
                self._ask_for_a_report()
            else:
                self._finish(None)

    def _not_stopped(self, failure: Failure) -> None:
        if self._done or self._kill_succeeded:
            return
        seconds = self._backoff.next()
        self._again.set(seconds)
        self._tell(told(failure.value), retry_in=round(seconds, 3))

    def _wait_for_the_last_call(self) -> bool:
        """
        Whether a call from before is to be waited for; then it is.
        """
        last = self._item.call
        if last is None or last.ended:
            return False
        self._late = last.when_ended()
        # It fails only when we wait for it no more.
        self._late.addCallbacks(self._last_call_ended, lambda _: None)
        self._tell("an earlier call of the runner goes on although it was cancelled")
        return True

    def _last_call_ended(self, _: object) -> None:
        self._late = None
        if self._kill_succeeded:
            self._kill = None
        self._ask()

    # Running out of patience.

    def _out_of_patience(self) -> None:
        instead = "the runner has no kill_work"
        if self._kill_work is not None:
            instead = "kill_work is called"
        self._tell(f"not done in {self._settings.stop_timeout:g} s: {instead}")
        self.kill()

    @property
    def _kill_succeeded(self) -> bool:
        return self._kill is not None and self._kill.succeeded

    def _killed(self, _: object) -> None:
        if self._done:
            return
        self._log.warning(
            "work-killed",
            work=self._item.id,
            seconds=round(self._reactor.seconds() - self.began, 3),
            effect="it hands over nothing",
        )
        self._was_killed = True
        self._again.cancel()
        if self._stop is not None:
            self._stop.cancel()
        if not self._wait_for_the_last_call():
            self._finish(None)

    def _not_killed(self, failure: Failure) -> None:
        self._kill = None
        if not self._done:
            self._log.error(
                "work-not-killed", work=self._item.id, error=told(failure.value)
            )
            self._patience.set(self._settings.stop_timeout)

    def _tell(self, why: str, **fields: object) -> None:
        self._item.error = f"not stopped: {why}"
        self._log.error(
            "work-not-stopped",
            work=self._item.id,
            error=why,
            effect="it counts as running until it has stopped",
            **fields,
        )
        self._told()

    # Handing over.

    @property
    def _hands_over(self) -> bool:
        item = self._item
        # One that was only made ready has nothing to say of its own.
        return item.begun if item.stays else item.release

    def _ask_for_a_report(self) -> None:
        self._patience.cancel()
        item = self._item.description
        self._report = Call(self._reactor, lambda: self._runner.report(item))
        self._report.make(self._settings.work_timeout).addCallbacks(
            self._reported, self._not_reported
        )

    def _reported(self, report: object) -> None:
        if report is None or self._done:
            self._finish(None)
        elif not isinstance(report, bytes):
            self._nothing_handed_over(f"{type(report).__name__} instead of bytes")
        elif len(report) > REPORT_BYTES:
            self._nothing_handed_over(f"{len(report)} bytes, at most {REPORT_BYTES}")
        else:
            self._finish(report)

    def _not_reported(self, failure: Failure) -> None:
        if not self._done:
            self._nothing_handed_over(told(failure.value))

    def _nothing_handed_over(self, why: str) -> None:
        self._log.error("nothing-handed-over", work=self._item.id, error=why)
        self._finish(None)

    # The end.

    @property
    def going_on(self) -> Call | None:
        """
        A call that has not ended, though it was cancelled; ``None`` for none.
        """
        calls = (self._stop, self._kill, self._report)
        return next((call for call in calls if call and not call.ended), None)

    def _finish(self, handover: bytes | None) -> None:
        if not self._done:
            if self._kill is not None:
                self._kill.cancel()
            self._give_up()
            self._over.callback(handover)

    def _give_up(self) -> None:
        """
        Wait for nothing any more.
        """
        self._done = True
        self._patience.cancel()
        self._again.cancel()
        if self._late is not None:
            self._late.cancel()
        if self._kill is not None:
            self._kill.leave()
        for call in (self._stop, self._report):
            if call is not None:
                call.cancel()
