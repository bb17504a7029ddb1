"""
How it stands with Consul, judged by what became of each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .consul.requester import Outcome
from .consul.transport import Lane, LaneBusy, Overtaken
from .events import Connection, ConnectionChanged, Event


class Link:
    """
    Follows the outcomes of all requests.

    :ivar connection: how it stands now.
    :ivar unanswered: requests in a row that went unanswered.
    :ivar reconnects: how often Consul answered again after it had not.

    :param now: the lease clock, in seconds.
    :param leased: whether there is a lease to act on.
    :param tell: told of :class:`~.events.ConnectionChanged`.
    :param answers_again: called when Consul answers after an outage.  What fails
        while the session's own requests are answered is none.
    """

    def __init__(
        self,
        now: Callable[[], float],
        leased: Callable[[], bool],
        tell: Callable[[Event], None],
        log: Any,
        answers_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._now = now
        self._leased = leased
        self._tell = tell
        self._log = log
        self._answers_again = answers_again
        self._answered_at: float | None = None
        self._outage = False
        self.connection = Connection.SUSPENDED
        self.unanswered = 0
        self.reconnects = 0

    @property
    def last_answer_age(self) -> float | None:
        """
        Seconds since Consul last answered; ``None`` if it never did.
        """
        return None if self._answered_at is None else self._now() - self._answered_at

    def ended(self, outcome: Outcome) -> None:
        """
        Note what became of a request.

        An agent goes on answering for itself while its servers have no leader:
        that alone mends nothing.  A request that was never sent, or that we gave up
        ourselves, says nothing.
        """
        if isinstance(outcome.error, LaneBusy | Overtaken):
            return
        if not outcome.answered:
            self.unanswered += 1
            self._outage |= outcome.request.lane is Lane.SESSION
            self._become(self._broken(), str(outcome.error))
            return
        self._answered_at = self._now()
        if outcome.request.of_agent and self.unanswered:
            return
        missed, self.unanswered = self.unanswered, 0
        if missed:
            self.reconnects += 1
            self._log.info("reconnected-to-consul", after_retries=missed)
        self._become(Connection.CONNECTED)
        outage, self._outage = self._outage, False
        if outage:
            self._answers_again()

    def lease_changed(self) -> None:
        """
        There is a lease now, or none any more.
        """
        if self.connection is not Connection.CONNECTED:
            self._become(self._broken())

    def _broken(self) -> Connection:
        if self._answered_at is None or self._leased():
            return Connection.SUSPENDED
        return Connection.LOST

    def _become(self, connection: Connection, error: str | None = None) -> None:
        previous, self.connection = self.connection, connection
        if previous is not connection:
            good = connection is Connection.CONNECTED
            log = self._log.info if good else self._log.warning
            log(
                "connection-changed",
                connection=connection.value,
                previous=previous.value,
                **({} if error is None else {"error": error}),
            )
            self._tell(ConnectionChanged(connection, previous))
