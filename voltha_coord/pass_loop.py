"""
When the leader makes a pass, and what becomes of one that failed.

# Note [When a pass is made]

A term begins with a look at a consistent snapshot; that it can be read and
planned is what :meth:`~.leader.Leader.start` waits for.  The first pass that
writes comes ``departed_soak`` seconds after the last leader left where work was
assigned before, so that a takeover is quick: at once, after a lock-delay that
long.  In a new cluster it comes ``soak`` seconds later, so that all members are
there.  Members that joined and work that changed are given ``soak``
seconds to settle, a member that left or leaves ``departed_soak``; more changes
meanwhile begin the time anew, but hold a pass off for no longer than
``MOST_SOAKS`` times that.  Every ``resync_interval`` there is a pass on a
consistent snapshot.  A pass that failed is made again after a back-off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Wake, sleep
from ._types import Steps
from .consul.backoff import Backoff
from .errors import (
    AccessDenied,
    ConsulError,
    CoordinationError,
    LeaseOverError,
)
from .pace import Pace
from .passes import Passes
from .snapshot import Look
from .tally import PassTally
from .term import Term

#: Between two looks at predecessors whose leases may not be over, in seconds.
PREDECESSOR_RETRY = 0.25


class PassLoop:
    """
    Makes the passes of one term when they are due; see the head of the module.

    :param retries: waits out the back-offs.
    :param term: for as long as it lasts.
    :param passes: the passes.
    :param pace: says when one is due.
    :param patience: seconds after which a leader that may not do what a pass
        does lets another one try.
    :param give_up: called with the reason then.
    :param tally: counts what failed.
    :param random: for jitter, in [0, 1).
    """

    def __init__(
        self,
        reactor: IReactorTime,
        retries: IReactorTime,
        term: Term,
        passes: Passes,
        pace: Pace,
        *,
        patience: float,
        give_up: Callable[[str], None],
        tally: PassTally,
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._retries = retries
        self._term = term
        self._passes = passes
        self._pace = pace
        self._patience = patience
        self._give_up = give_up
        self._tally = tally
        self._random = random
        self._log = log
        self._wake = Wake(reactor)
        self._denied_since: float | None = None

    def want(self, soak: float) -> None:
        """
        Make a pass after so many seconds of quiet, or sooner if one is wanted
        sooner; see Note [When a pass is made].
        """
        self._pace.want(soak)
        self._wake.set()

    @inlineCallbacks
    def first_look(self) -> Steps[Look]:
        """
        Read the cluster, through outages as long as the term.

        :return: a Deferred that fires with a consistent snapshot, or fails with
            :class:`ConsulError` when Consul refuses to let it be read; it can be
            cancelled.
        """
        backoff = Backoff(self._random)
        while True:
            try:
                look: Look = yield self._passes.look(consistent=True, thorough=True)
            except ConsulError as error:
                if not error.retryable:
                    raise
                seconds = backoff.next(error)
                self._log.warning(
                    "first-look-failed", retry_in=round(seconds, 3), error=str(error)
                )
                yield sleep(self._retries, seconds)
            else:
                return look

    @inlineCallbacks
    def run(self) -> Steps[None]:
        """
        Make passes until the term is over.

        :return: a Deferred that fires then; it can be cancelled.
        """
        backoff = Backoff(self._random)
        while not self._term.over:
            try:
                passed: bool = yield self._step()
                if passed:
                    backoff.clear()
                    self._denied_since = None
            except CancelledError:
                raise
            except LeaseOverError:
                return
            except Exception as error:
                if self._term.over:
                    # The write that showed it has said so.
                    return
                # Whatever a planner or a snapshot comes up with: the loop of a
                # leader goes on, and says what is wrong.
                if isinstance(error, AccessDenied) and self._denied_for_long():
                    self._give_up("denied")
                    return
                seconds = backoff.next(error)
                self._tally.failed()
                self._say_failed(error, seconds, loud=backoff.grew)
                yield sleep(self._retries, seconds)
                self._pace.want_by(self._reactor.seconds())

    def _denied_for_long(self) -> bool:
        """
        Whether the token may not do what a pass does, and another member's may:
        at once for a leader that never made a pass, else once it lasts.
        """
        now = self._reactor.seconds()
        if self._denied_since is None:
            self._denied_since = now
        patience = self._patience if self._passes.last.number else 0.0
        return now >= self._denied_since + patience

    def _say_failed(self, error: Exception, seconds: float, *, loud: bool) -> None:
        # Consul that is away is told by whoever makes the session.
        away = isinstance(error, ConsulError) and error.retryable
        log = self._log.error if loud and not away else self._log.debug
        log(
            "failed-reassignment",
            retry_in=round(seconds, 3),
            error=str(error),
            exc_info=not isinstance(error, CoordinationError),
        )

    @inlineCallbacks
    def _step(self) -> Steps[bool]:
        """
        Make the pass that is due, or wait for one to be.

        :return: a Deferred that fires with whether it was made.
        """
        now = self._reactor.seconds()
        if now >= self._pace.due:
            yield self._passes.make(consistent=now >= self._pace.resync)
            return True
        wait = self._pace.due - now
        if self._passes.waits:
            wait = min(wait, PREDECESSOR_RETRY * (0.5 + self._random()))
        yield self._wake.wait(wait)
        over: bool = yield self._passes.any_over()
        if over:
            self._pace.want_by(self._reactor.seconds())
        return False
