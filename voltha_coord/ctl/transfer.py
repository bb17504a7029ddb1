"""
Asking the leader to hand leadership over, and waiting for what comes of it.
"""

from __future__ import annotations

from attrs import frozen
from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from .._loops import bounded, sleep
from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry, Op
from ..errors import ConsulError, CoordinationError, TransferRefused
from ..keys import Keys
from ..records import TransferRequest
from .actions import look
from .findings import one_line
from .leadership import Seen, readable, refusal
from .view import View

#: Between two looks, in seconds.
LOOK_SECONDS = 0.1

#: Taking a request back may take so many seconds.
TAKE_BACK_SECONDS = 1.5


@frozen
class Transferred:
    """
    Who leads now.

    :ivar before: who led before.
    :ivar asked: whether anything was asked for; not when the target led already.
    :ivar seconds: from the question until that one leads.
    """

    leader_id: str
    token: int | None
    before: str
    asked: bool
    seconds: float

    def to_json(self) -> dict[str, object]:
        """
        Give it as the ``--json`` document has it.
        """
        return {
            "leader_id": self.leader_id,
            "fencing_token": self.token,
            "before": self.before,
            "asked": self.asked,
            "seconds": round(self.seconds, 3),
        }


class Transfer:
    """
    One hand-over of leadership.

    :param clock: measures time and waits.
    :param target: the member that is to lead; empty for any other.
    :param timeout: for how long an answer is waited for, in seconds.
    :param id: of the request, like no other.
    """

    def __init__(
        self, clock: IReactorTime, target: str, *, timeout: float, id: str
    ) -> None:
        self._clock = clock
        self._target = target
        self._timeout = timeout
        self._id = id
        self._leader = ""
        self._session: str | None = None
        self._began = 0.0

    @inlineCallbacks
    def run(self, api: ConsulApi, keys: Keys) -> Steps[Transferred]:
        """
        Ask, and wait for the answer.  The request is gone afterwards, whatever
        comes of it.

        :return: a Deferred that fires with who leads.  It fails with
            :class:`TransferRefused` when leadership stays where it is, and with
            :class:`CoordinationError` when that is not certain.
        """
        view: View = yield look(api, keys)
        leader, token = view.leader_id, view.fencing_token
        if leader is not None and leader == self._target:
            return Transferred(leader, token, leader, asked=False, seconds=0.0)
        why = refusal(view, self._target)
        if why:
            raise TransferRefused(why)
        assert leader is not None and token is not None and view.leader is not None
        self._leader, self._session = leader, view.leader.session
        self._began = self._clock.seconds()
        try:
            yield self._ask(api, keys, TransferRequest(self._target, token, self._id))
            try:
                outcome: Transferred = yield bounded(
                    self._clock, self._timeout, lambda: self._answer(api, keys)
                )
            except TimeoutError:
                outcome = yield self._in_the_end(api, keys)
        except (CancelledError, CoordinationError):
            # Nobody waits for an answer any more.
            yield self._take_back(api, keys)
            raise
        return outcome

    @inlineCallbacks
    def _ask(self, api: ConsulApi, keys: Keys, request: TransferRequest) -> Steps[None]:
        entry: Entry | None = (yield api.get(keys.transfer)).entry
        if entry is not None:
            pending = readable(TransferRequest.from_entry, entry)
            if pending and pending.token == request.token and pending.refused is None:
                raise TransferRefused(
                    f"{self._leader} is asked already to hand leadership over to "
                    f"{one_line(pending.target) or 'any other'}; if nobody waits for "
                    f"that any more: consul kv delete {keys.transfer}"
                )
        index = 0 if entry is None else entry.modify_index
        written: bool = yield api.put(keys.transfer, request.encode(), cas=index)
        if not written:
            raise TransferRefused("somebody else asks for a hand-over at this moment")

    @inlineCallbacks
    def _look(self, api: ConsulApi, keys: Keys) -> Steps[Seen]:
        trees = (keys.leader, keys.term, keys.transfer)
        entries: tuple[Entry, ...] = yield api.txn([Op.get_tree(key) for key in trees])
        return Seen.of(keys, entries)

    @inlineCallbacks
    def _answer(self, api: ConsulApi, keys: Keys) -> Steps[Transferred]:
        while True:
            try:
                seen: Seen = yield self._look(api, keys)
            except ConsulError as error:
                if not error.retryable:
                    raise
            else:
                outcome = self._outcome(seen)
                if outcome is not None:
                    return outcome
            yield sleep(self._clock, LOOK_SECONDS)

    def _outcome(self, seen: Seen) -> Transferred | None:
        """
        Give who leads now, ``None`` while there is no answer.

        :raises TransferRefused: when it is not the member that was to lead.
        """
        request = seen.request
        if request is not None and request.id == self._id and request.refused:
            raise TransferRefused(one_line(request.refused))
        term = seen.led_by_other_than(self._session)
        if term is None:
            return None
        if term.holder == self._leader:
            raise TransferRefused(f"{self._leader} has begun to lead anew")
        if self._target and term.holder != self._target:
            raise TransferRefused(f"{term.holder} leads now, not {self._target}")
        seconds = self._clock.seconds() - self._began
        return Transferred(
            term.holder, term.token, self._leader, asked=True, seconds=seconds
        )

    @inlineCallbacks
    def _in_the_end(self, api: ConsulApi, keys: Keys) -> Steps[Transferred]:
        """
        Take the request back, and see what came of it meanwhile.
        """
        unread: bool = yield self._take_back(api, keys)
        seen: Seen = yield self._look(api, keys)
        outcome = self._outcome(seen)
        if outcome is not None:
            return outcome
        late = f"within {self._timeout:g} s"
        if unread:
            raise TransferRefused(
                f"{self._leader} has not answered {late}; the request is taken back"
            )
        if seen.holder is None:
            raise CoordinationError(
                f"{self._leader} leads no more, but nobody else has begun to {late}"
            )
        if seen.leader is not None and seen.leader.session != self._session:
            raise CoordinationError(
                f"{one_line(seen.holder)} holds the leader key, but has not begun to "
                f"lead {late}"
            )
        raise TransferRefused(
            f"the request is gone, but {self._leader} still leads after "
            f"{self._timeout:g} s"
        )

    @inlineCallbacks
    def _take_back(self, api: ConsulApi, keys: Keys) -> Steps[bool]:
        """
        Delete our request, if it is still there.

        :return: a Deferred that fires with whether it was; never fails, as there
            is nothing more to be done about it.
        """
        try:
            unread: bool = yield bounded(
                self._clock, TAKE_BACK_SECONDS, lambda: self._delete(api, keys)
            )
        except (ConsulError, TimeoutError):
            # A leader that reads it later finds the token of an older term, or
            # does what it is asked.
            return False
        return unread

    @inlineCallbacks
    def _delete(self, api: ConsulApi, keys: Keys) -> Steps[bool]:
        entry: Entry | None = (yield api.get(keys.transfer)).entry
        request = entry and readable(TransferRequest.from_entry, entry)
        if entry is None or request is None or request.id != self._id:
            return False
        deleted: bool = yield api.delete(entry.key, cas=entry.modify_index)
        return deleted
