"""
What a leader that plans by resources looks out for beside the others.

That an item is another one than it was is a reason for a pass, and not only
that it came or went.  And while members make ready what is to be moved to them,
their reports are: the moves go on as soon as they say that they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._types import Steps
from .changes import Changes
from .consul.api import ConsulApi
from .consul.watch import WatchTally
from .keys import Keys
from .settings import Settings

#: Between two looks at reports, in seconds, at least.
REPORTS_PAUSE = 0.1


class CloserLook:
    """
    Watches the values of work, and reports; see the head of the module.

    :param want_pass: as of :class:`~.lookout.Lookout`.
    :param moving: whether members are making something ready.
    :param tally: gives what counts the watch of that name.
    :param retries: waits out the back-offs of the watches.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        settings: Settings,
        *,
        want_pass: Callable[[float], None],
        moving: Callable[[], bool],
        random: Callable[[], float],
        tally: Callable[[str], WatchTally],
        retries: IReactorTime,
        log: Any,
    ) -> None:
        self._soak = settings.soak
        self._want_pass = want_pass
        self._moving = moving

        def look(name: str, prefix: str, changed: Callable[[], None]) -> Changes:
            return Changes(
                reactor,
                api,
                prefix,
                changed,
                name=name,
                wait=settings.watch_wait,
                pause=REPORTS_PAUSE,
                random=random,
                tally=tally(name),
                retries=retries,
                log=log,
            )

        self._looks = (
            look("leader-work", keys.work, self._work_changed),
            look("reports", keys.statuses, self._reported),
        )

    def start(self) -> None:
        """
        Look out, until :meth:`stop`.
        """
        for look in self._looks:
            look.start()

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Look out no more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        for look in self._looks:
            yield look.stop()

    def _work_changed(self) -> None:
        self._want_pass(self._soak)

    def _reported(self) -> None:
        if self._moving():
            self._want_pass(0.0)
