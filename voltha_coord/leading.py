"""
Leading a term: the leader is made, started, and put to rest.

A leader that cannot be made, or that cannot establish itself, does not keep the
others waiting: leadership is offered to them.  One that does not come to rest
is given up after a while, so that this member may stand again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import (
    CancelledError,
    Deferred,
    inlineCallbacks,
    maybeDeferred,
)
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, bounded, sleep
from ._types import Steps
from .errors import CoordinationError
from .interfaces import ILeader
from .term import Term

#: A leader that is not at rest so many seconds after it was told to is given up.
HALT_SECONDS = 5.0


class Leading:
    """
    Makes the leader of each term; see the head of the module.

    :ivar leader: the leader of the term that is led, ``None`` without one.

    :param make: makes a leader.
    :param give_up: called with the reason when there is none after all.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        make: Callable[[], ILeader],
        give_up: Callable[[str], None],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._make = make
        self._give_up = give_up
        self._log = log
        self._tasks = Tasks(log)
        self.leader: ILeader | None = None

    def begin(self, term: Term) -> Callable[[], Deferred[None] | None]:
        """
        Make the leader of a term that has begun; never raises.

        :return: what puts it to rest.
        """
        try:
            leader = self._make()
        except Exception as error:
            self._log.exception("leader-not-made", error=str(error))
            self._tasks.spawn("give-up", self._give_up_later, "leader-not-made")
            return lambda: None
        self.leader = leader
        starting = self._tasks.spawn("leader-start", self._start, leader)

        def halt() -> Deferred[None] | None:
            if self.leader is leader:
                self.leader = None
            if starting is not None:
                # It may be reading the cluster, for as long as Consul is away.
                starting.cancel()
            return self._tasks.spawn(
                "leader-halt", bounded, self._reactor, HALT_SECONDS, leader.halt
            )

        return halt

    @inlineCallbacks
    def _start(self, leader: ILeader) -> Steps[None]:
        try:
            yield maybeDeferred(leader.start)
        except CancelledError:
            raise
        except Exception as error:
            if self.leader is not leader:
                # Halted meanwhile, which is why it failed.
                return
            self._log.error(
                "could-not-establish-leadership",
                error=str(error),
                effect="another member is offered leadership",
                exc_info=not isinstance(error, CoordinationError),
            )
            self._give_up("could-not-establish")

    @inlineCallbacks
    def _give_up_later(self, reason: str) -> Steps[None]:
        # The role is only about to lead: let it, before it leads no more.
        yield sleep(self._reactor, 0)
        self._give_up(reason)

    def stop(self) -> Deferred[None]:
        """
        Wait for nothing any more: what is still starting or halting is
        cancelled.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._tasks.stop()
