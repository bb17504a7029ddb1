"""
Shutting down: steps in order, each with a bound, each surviving a failing one.

# Note [Shutting down]

The order is what makes it safe, and quick for the others: stop leading and
give the leader key back, so that somebody else can move our work; say that we
leave, so that it does; stop our work, and release it; give the member key back;
destroy the session; deregister the service.  A key that is given back leaves no
lock-delay.  Once Consul has left a step unanswered, the next ones are tried
only briefly: it ends the session by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import bounded
from ._types import Steps

#: A step that only stops things of our own is given so many seconds.
LOCAL_SECONDS = 1.0

#: A step that asks Consul is given so many seconds …
CONSUL_SECONDS = 2.0

#: … and so many once Consul has left one unanswered.
BRIEF_SECONDS = 0.5

#: Of the budget, so many seconds are kept for the steps after the work.
RESERVED_SECONDS = 1.5


class ShutdownSteps:
    """
    Makes the steps; see Note [Shutting down].

    :param answering: whether Consul answers, as far as is known.
    :param leased: whether there is a lease to work under.
    :param budget: seconds for all steps together; once they are used up, those
        that are left are tried only briefly.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        log: Any,
        *,
        answering: bool,
        leased: Callable[[], bool],
        budget: float,
    ) -> None:
        self._reactor = reactor
        self._log = log
        self._answering = answering
        self._leased = leased
        self._give_up = reactor.seconds() + budget

    def local(self, name: str, call: Callable[[], Any]) -> Any:
        """
        Make a step that stops something of our own.

        :return: a Deferred that fires with whether it was done; never fails.
        """
        return self._step(name, call, LOCAL_SECONDS)

    def work(self, name: str, call: Callable[[], Any]) -> Any:
        """
        Make a step that waits for the application, for what is left of the
        budget.

        :return: as :meth:`local`.
        """
        left = self._left() - RESERVED_SECONDS
        if not self._leased():
            # Others may begin with it: work has stopped, or must now.
            left = min(left, CONSUL_SECONDS)
        return self._step(name, call, max(BRIEF_SECONDS, left))

    def _left(self) -> float:
        return self._give_up - self._reactor.seconds()

    @inlineCallbacks
    def consul(self, name: str, call: Callable[[], Any]) -> Steps[bool]:
        """
        Make a step that asks Consul.

        :return: as :meth:`local`.
        """
        seconds = CONSUL_SECONDS if self._answering else BRIEF_SECONDS
        seconds = max(BRIEF_SECONDS, min(seconds, self._left()))
        done: bool = yield self._step(name, call, seconds, expected=self._answering)
        self._answering = done
        return done

    @inlineCallbacks
    def _step(
        self,
        name: str,
        call: Callable[[], Any],
        seconds: float,
        *,
        expected: bool = True,
    ) -> Steps[bool]:
        try:
            yield bounded(self._reactor, seconds, call)
        except CancelledError:
            raise
        except Exception as error:
            # That Consul does not answer has been said already.
            log = self._log.warning if expected else self._log.info
            log(
                "shutdown-step-failed",
                step=name,
                error=str(error) or type(error).__name__,
                effect="the other steps go on; Consul ends the session by itself",
            )
            return False
        return True
