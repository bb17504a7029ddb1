"""
Shutting down: steps in order, each with a bound, each surviving a failing one.

# Note [Shutting down]

The order is what makes it safe, and quick for the others: stop leading and
give the leader key back, so that somebody else can move our work; say that we
leave, so that it does, and let it; stop what is left of our work, and release
it; give the member key back, and a leader key that was handed to us meanwhile;
destroy the session; deregister the service.  A key that is given back leaves no
lock-delay.

Which steps there are is told by whoever is to be shut down; how long each may
take, here.  A step that can be pressed is, when most of its time is over: work
that does not stop when it is asked to is killed then, and still given back.  Once
Consul has left a step unanswered, the next ones are tried only briefly: it ends
the session by itself.  Once the budget is used up, so are all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Timer, bounded
from ._types import Steps
from .waiters import Waiters

#: A step that only stops things of our own is given so many seconds …
LOCAL_SECONDS = 1.0

#: … and so many once the budget is used up.
LEAST_SECONDS = 0.1

#: A step that asks Consul is given so many seconds …
CONSUL_SECONDS = 2.0

#: … and so many once Consul has left one unanswered, or the budget is used up.
BRIEF_SECONDS = 0.5

#: Of the budget, so many seconds are kept for the steps after the work.
RESERVED_SECONDS = 1.5

#: Of what is left for the work, such a part may be spent on letting it be moved
#: away; the rest is for stopping what was not.
DRAIN_SHARE = 2 / 3

#: A step is pressed when such a part of its time is over.
PRESS_SHARE = 3 / 4


class Kind(Enum):
    """
    What a step waits for.
    """

    #: Things of our own.
    LOCAL = "local"
    #: Consul.
    CONSUL = "consul"
    #: The application, and other members.
    WORK = "work"


def _always() -> bool:
    return True


def _nothing() -> None:
    pass


@frozen
class Step:
    """
    One step.

    :ivar name: for the log, in kebab-case.
    :ivar call: makes it; may return a Deferred.
    :ivar needed: whether there is anything to be done, when its turn comes.
    :ivar press: makes it end soon, when most of its time is over.
    """

    kind: Kind
    name: str
    call: Callable[[], Any]
    needed: Callable[[], Any] = _always
    press: Callable[[], object] = _nothing


class Shutdown:
    """
    Ends a member, once; see Note [Shutting down].

    :ivar asked: whether it has been asked for.

    :param budget: seconds for all steps together.
    :param at_once: called in the turn in which it is asked for.
    :param steps: gives the steps, in order.
    :param ended: called when all have been made.
    :param answering: whether Consul answers, as far as is known at first.
    :param lease_remaining: seconds left of the lease to work under.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        log: Any,
        *,
        budget: float,
        at_once: Callable[[], None],
        steps: Callable[[], Iterable[Step]],
        ended: Callable[[], None],
        answering: Callable[[], bool],
        lease_remaining: Callable[[], float],
    ) -> None:
        self._reactor = reactor
        self._log = log
        self._budget = budget
        self._at_once = at_once
        self._steps = steps
        self._ended = ended
        self._is_answering = answering
        self._lease_remaining = lease_remaining
        self._answering = True
        self._until = 0.0
        self._over = False
        self._waiting: Waiters[None] = Waiters()
        self.asked = False

    def ask(self) -> Deferred[None]:
        """
        Shut down, if that has not begun yet.

        :return: a Deferred that fires when it is over; never fails.  Cancelling
            it ends nothing but the waiting.
        """
        waiting = self._waiting.wait()
        if self._over:
            self._waiting.fire(None)
        elif not self.asked:
            self.asked = True
            self._log.info("shutting-down")
            self._at_once()
            # In a turn of its own: whoever calls may be called by what is to
            # be stopped, as a listener is by the election.
            self._reactor.callLater(0, self._begin)
        return waiting

    @property
    def drain_seconds(self) -> float:
        """
        For how many seconds from now work may be let be moved away.
        """
        return DRAIN_SHARE * max(0.0, self._left() - RESERVED_SECONDS)

    def _begin(self) -> None:
        self._until = self._reactor.seconds() + self._budget
        self._answering = self._is_answering()
        self._make_all().addErrback(
            lambda failure: self._log.error(
                "shutdown-failed", error=failure.getErrorMessage()
            )
        ).addCallback(self._all_made)

    def _all_made(self, _: object) -> None:
        self._over = True
        self._ended()
        self._log.info("shut-down")
        self._waiting.fire(None)

    @inlineCallbacks
    def _make_all(self) -> Steps[None]:
        for step in self._steps():
            yield self._make(step)

    @inlineCallbacks
    def _make(self, step: Step) -> Steps[None]:
        """
        Make a step, if it is needed, within its bound.
        """
        expected = self._answering or step.kind is not Kind.CONSUL
        done = False
        pressing = Timer(self._reactor, lambda: self._press(step))
        try:
            if not step.needed():
                return
            bound = self._bound(step.kind)
            pressing.set(PRESS_SHARE * bound)
            yield bounded(self._reactor, bound, step.call)
            done = True
        except Exception as error:
            # Nobody cancels a shutdown: also a CancelledError is the step's own.
            # That Consul does not answer has been said already.
            log = self._log.warning if expected else self._log.info
            log(
                "shutdown-step-failed",
                step=step.name,
                error=str(error) or type(error).__name__,
                effect="the other steps go on; Consul ends the session by itself",
            )
        finally:
            pressing.cancel()
        if step.kind is Kind.CONSUL:
            self._answering = done

    def _press(self, step: Step) -> None:
        try:
            step.press()
        except Exception as error:
            self._log.warning(
                "shutdown-step-not-pressed",
                step=step.name,
                error=str(error) or type(error).__name__,
            )

    def _left(self) -> float:
        return self._until - self._reactor.seconds()

    def _bound(self, kind: Kind) -> float:
        """
        Give the seconds that a step may take now.
        """
        if kind is Kind.LOCAL:
            return max(LEAST_SECONDS, min(LOCAL_SECONDS, self._left()))
        if kind is Kind.CONSUL:
            most = CONSUL_SECONDS if self._answering else BRIEF_SECONDS
            return max(BRIEF_SECONDS, min(most, self._left()))
        left = self._left() - RESERVED_SECONDS
        remaining = self._lease_remaining()
        if not self._answering or not remaining:
            # Others may begin with it then: work has stopped, or must.
            left = min(left, remaining + CONSUL_SECONDS)
        return max(BRIEF_SECONDS, left)
