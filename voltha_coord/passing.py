"""
Passing leadership on: the look before it, the transaction, and what comes of it.

The story is told in Note [Handing over] of :mod:`~voltha_coord.handover`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import bounded, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import Entry, Op
from .election import Election
from .errors import (
    ConsulError,
    CoordinationError,
    NotLeading,
    ShutDownError,
    TransactionRefused,
    TransferRefused,
)
from .keys import Keys
from .listing import refuse_denied
from .prospect import Prospect, take_prospect
from .records import Member
from .settings import RETRY_STEPS
from .term import Term

#: So many transactions are tried.
ATTEMPTS = 3

#: A write of the term that is under way is waited for so many seconds.
WRITE_SECONDS = 1.0

#: Between two questions about what became of it, in seconds: leadership stands
#: still meanwhile.
QUESTION_STEPS = tuple(step for step in RETRY_STEPS if step <= 1.0)


@define(eq=False)
class Asked:
    """
    One hand-over that was asked for.

    :ivar to: the member that is to lead; ``None`` for any.
    :ivar request: the key that asks for it, deleted in the same transaction.
    :ivar told: what who asked waits on.
    :ivar tried: the members that were tried.
    :ivar sent: whether a transaction may have been sent.
    :ivar began: when, once a member was chosen.
    """

    to: str | None
    request: Entry | None
    told: Deferred[None] = field(factory=Deferred)
    tried: list[str] = field(factory=list)
    sent: bool = False
    began: float = 0.0
    _over: bool = False

    def tell(self, outcome: Exception | None = None) -> None:
        """
        Tell who asked, once.
        """
        if not self._over:
            self._over = True
            if outcome is None:
                self.told.callback(None)
            else:
                self.told.errback(outcome)

    def forget(self) -> None:
        """
        Tell nobody: nobody waits any more.
        """
        self._over = True


class Passing:
    """
    Passes leadership on; see the head of the module.

    :param instance_id: of this member.
    :param random: for jitter, in [0, 1).
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        election: Election,
        *,
        instance_id: str,
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._keys = keys
        self._election = election
        self._instance_id = instance_id
        self._random = random
        self._log = log

    @inlineCallbacks
    def pass_on(self, asked: Asked) -> Steps[Term | None]:
        """
        Hand over to the member that is meant.

        :return: a Deferred that fires with the term that is over; with ``None``
            when nothing was to be done.  It fails with
            :class:`TransferRefused` or :class:`ConsulError`, and we lead on, or
            with :class:`NotLeading` or :class:`ShutDownError`.
        """
        term = self._election.term
        if term is None or term.over:
            raise self._not_leading()
        if asked.to == self._instance_id:
            return None
        prospect: Prospect = yield self._look(term)
        target = self._choose(prospect, asked)
        asked.began = self._reactor.seconds()
        self._log.info(
            "handing-over-leadership", target=target.id, fencing_token=term.token
        )
        yield self._suspend(term)
        try:
            yield self._try(term, asked, prospect, target)
        finally:
            term.resume()
        if not asked.sent:
            raise self._not_leading()
        return term

    @inlineCallbacks
    def _try(
        self, term: Term, asked: Asked, prospect: Prospect, target: Member
    ) -> Steps[None]:
        """
        Try until the term is over, while it is suspended; see :meth:`pass_on`.
        """
        while not term.over:
            refused: str = yield self._attempt(term, asked, prospect, target)
            if term.over:
                return
            seen: Prospect | None = yield self._look_back(term)
            if seen is None:
                return
            if len(asked.tried) == ATTEMPTS:
                raise TransferRefused(f"{target.id!r} {refused}")
            prospect, target = seen, self._choose(seen, asked)

    # The look before it.

    @inlineCallbacks
    def _look(self, term: Term) -> Steps[Prospect]:
        """
        Read the leader key, the members and what is wanted of them, at one
        moment, and see whether we lead.

        :return: a Deferred that fires with it, or fails with
            :class:`NotLeading` or :class:`ConsulError`.
        """
        prospect: Prospect = yield take_prospect(self._api, self._keys, consistent=True)
        if not term.over:
            self._election.key.note(prospect.key)
        if term.over:
            raise self._not_leading()
        if self._instance_id not in prospect.state.members:
            yield refuse_denied(self._api, self._keys.members)
        return prospect

    @inlineCallbacks
    def _look_back(self, term: Term) -> Steps[Prospect | None]:
        """
        Look again, while we do not act as leader.

        :return: a Deferred that fires with what was seen, or with ``None`` when
            the term is over; it fails with :class:`ConsulError` where asking
            again cannot help.
        """
        backoff = Backoff(self._random, QUESTION_STEPS)
        while True:
            try:
                prospect: Prospect = yield self._look(term)
            except (NotLeading, ShutDownError):
                return None
            except ConsulError as error:
                if not error.retryable:
                    raise
                self._log.debug("hand-over-not-read-back", error=str(error))
            else:
                return prospect
            yield sleep(self._reactor, backoff.next())

    def _choose(self, prospect: Prospect, asked: Asked) -> Member:
        """
        Give the member to try next.

        :raises TransferRefused: when there is none.
        """
        to = asked.to
        if to is None:
            to = prospect.heir(self._instance_id, asked.tried)
            if to is None:
                tried = f"; tried in vain: {', '.join(asked.tried)}"
                raise TransferRefused(
                    "no other member can lead" + (tried if asked.tried else "")
                )
        why = prospect.unfit(to)
        if why:
            raise TransferRefused(f"{to!r} {why}")
        return prospect.state.members[to]

    def _not_leading(self) -> CoordinationError:
        """
        Give what fails a hand-over of somebody who does not lead.
        """
        if self._election.retired:
            return ShutDownError("the Coordinator is shutting down")
        leader = self._election.leader_id
        why = f"{self._instance_id!r} does not lead"
        if leader is None or leader == self._instance_id:
            return NotLeading(why)
        return NotLeading(f"{why}: {leader!r} does")

    # The transaction.

    @inlineCallbacks
    def _suspend(self, term: Term) -> Steps[None]:
        """
        Suspend the term, even if a write of it hangs.
        """
        try:
            yield bounded(self._reactor, WRITE_SECONDS, term.suspend)
        except TimeoutError:
            # First in line by then: no other write has its turn before.
            suspended = term.suspend()
            term.interrupt()
            yield suspended

    @inlineCallbacks
    def _attempt(
        self, term: Term, asked: Asked, prospect: Prospect, target: Member
    ) -> Steps[str]:
        """
        Try to hand over to one member.

        :return: a Deferred that fires with why that one could not take over,
            unless the term is over; or fails with :class:`ConsulError`, when
            trying another one cannot help.
        """
        key, heir = prospect.key, target.session
        assert key is not None and heir is not None
        ops: tuple[Op, ...] = (
            Op.check_index(key.key, key.modify_index),
            Op.check_index(self._keys.member(target.id), target.modify_index),
            Op.unlock(key.key, key.value, term.lease.session_id),
            Op.lock(key.key, target.id.encode(), heir),
        )
        if asked.request is not None:
            # To delete what is gone is no error, by its index or not.
            ops += (
                Op.check_index(asked.request.key, asked.request.modify_index),
                Op.delete(asked.request.key),
            )
        asked.tried.append(target.id)
        asked.sent = True
        backoff = Backoff(self._random, QUESTION_STEPS)
        try:
            applied: bool | None = yield term.conclude(ops, heir)
            while applied is None and not term.over:
                yield sleep(self._reactor, backoff.next())
                applied = yield term.concluded()
        except TransactionRefused as refused:
            return self._why(refused)
        except ConsulError as error:
            if not error.retryable:
                raise
            return f"could not be handed leadership: {error}"
        if applied:
            self._election.handed_over(term, target.id.encode())
        return "could not be handed leadership: the request got lost"

    def _why(self, refused: TransactionRefused) -> str:
        """
        Say what a refusal means.
        """
        keys = {refusal.key for refusal in refused.refusals}
        if self._keys.transfer in keys:
            return "is not wanted any more: the request was changed or taken back"
        if refused.session_invalid:
            return "could not be handed leadership: its session has just ended"
        if any(key.startswith(self._keys.members) for key in keys):
            return "could not be handed leadership: its record has just changed"
        return f"could not be handed leadership: {refused}"
