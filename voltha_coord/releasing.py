"""
Giving back what has stopped.

A loop of its own, so that whoever waits for an item has it at once, whatever
else the worker is waiting for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Wake
from ._types import Steps
from .consul.backoff import Backoff
from .errors import ConsulError, CoordinationError
from .ownership import Ownership, Release


class Releasing:
    """
    Releases owner records.

    :ivar waiting: what is to be released, or is being released, by work id.

    :param retries: its clock waits out the back-offs.
    :param released: called when something has been released.
    :param left_alone: called when a record was not as we left it.
    """

    def __init__(
        self,
        retries: IReactorTime,
        ownership: Ownership,
        *,
        released: Callable[[], None],
        left_alone: Callable[[], None],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._ownership = ownership
        self._released = released
        self._left_alone = left_alone
        self._backoff = Backoff(random)
        self._log = log
        self._tasks = Tasks(log)
        self._wake = Wake(retries)
        self.waiting: dict[str, Release] = {}

    def start(self) -> None:
        """
        Begin to release what is added.
        """
        self._tasks.spawn("release-work", self._run)

    def add(self, releases: Mapping[str, Release]) -> None:
        """
        Release these, soon.
        """
        if releases:
            self.waiting.update(releases)
            self._wake.set()

    @inlineCallbacks
    def finish(self) -> Steps[None]:
        """
        Release what is left, once, and nothing any more after that.

        :return: a Deferred that fires when that was tried; does not fail.
        """
        yield self.stop()
        try:
            yield self._release()
        except ConsulError as error:
            self._log.warning(
                "work-not-released",
                items=len(self.waiting),
                error=str(error),
                effect="others take it over once our lease must be over",
            )

    def stop(self) -> Deferred[None]:
        """
        Release nothing any more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._tasks.stop()

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        pause: float | None = None
        while True:
            yield self._wake.wait(pause)
            pause = None
            try:
                yield self._release()
                self._backoff.clear()
            except CancelledError:
                raise
            except Exception as error:
                # Nobody else may have it before: it is tried for ever.
                pause = self._backoff.next(error)
                if self._backoff.grew:
                    self._log.warning(
                        "work-not-released",
                        items=len(self.waiting),
                        retry_in=round(pause, 3),
                        error=str(error),
                        exc_info=not isinstance(error, CoordinationError),
                    )

    @inlineCallbacks
    def _release(self) -> Steps[None]:
        releasing = dict(self.waiting)
        if not releasing:
            return
        left: tuple[str, ...] = yield self._ownership.release(releasing)
        for work, release in releasing.items():
            if self.waiting.get(work) is release:
                del self.waiting[work]
        if left:
            # Written by others in our name, or not ours at all.
            self._left_alone()
        self._released()
