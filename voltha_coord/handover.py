"""
Handing leadership over to a member that is named, or to the next one.

# Note [Handing over]

One transaction does it.  It checks that the leader key is still ours and the
heir's record still as it was read, says in the term record that we lead no
more, and passes the key to the heir's session: there is no moment without a
holder, and none with two leaders.  The heir finds the key in its own hands, and
takes office.

From before that transaction is sent until a read-back has said that the key is
still ours, the term is suspended (see Note [The last transaction] of
:mod:`~voltha_coord.term`).  It does not wait for a pass of the leader, nor long
for a write of it.

Several members may be tried where none was named, and the same one again where
it was only its record that had changed.  Who asks is told once leadership is
gone, however it went; or that it stays, and why.  One hand-over at a time:
another one waits, and finds that we do not lead any more, or has its turn.

An heir may be alive and yet not take office: it stands still, or what should
tell it hangs.  As long as it has not, the term record is as we left it; after a
while whoever handed over frees the key, in one transaction that checks that, and
everybody may stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredLock,
    fail,
    inlineCallbacks,
)
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, bounded, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import Entry, Op
from .consul.transport import Lane
from .election import HANDED_OVER, Election
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
from .planning.state import LEAVE
from .records import Member, RecordError
from .settings import RETRY_STEPS
from .term import Term

#: So many transactions are tried.
ATTEMPTS = 3

#: A write of the term that is under way is waited for so many seconds.
WRITE_SECONDS = 1.0

#: An heir that has not taken office after so many seconds is not waited for.
HEIR_SECONDS = 2.0

#: Between two questions about what became of it, in seconds: leadership stands
#: still meanwhile.
QUESTION_STEPS = tuple(step for step in RETRY_STEPS if step <= 1.0)


@frozen
class Prospect:
    """
    What is to be known before leadership is handed over.

    :ivar key: the leader key, ``None`` when there is none.
    :ivar members: all of them, by id, in order.
    :ivar unwanted: the members that operators want away.
    """

    key: Entry | None
    members: Mapping[str, Member]
    unwanted: frozenset[str]

    @classmethod
    def of(cls, keys: Keys, entries: tuple[Entry, ...]) -> Prospect:
        """
        Take apart what was read.
        """
        intents = keys.node_intent("")
        key, members, unwanted = None, {}, set()
        for entry in entries:
            if entry.key == keys.leader:
                key = entry
            elif entry.key.startswith(intents):
                if entry.value.strip() == LEAVE.encode():
                    unwanted.add(entry.key[len(intents) :])
            else:
                try:
                    member = Member.from_entry(entry, keys)
                except RecordError:
                    continue
                members[member.id] = member
        return cls(key, members, frozenset(unwanted))

    def unfit(self, instance_id: str) -> str:
        """
        Say why a member cannot lead; empty when it can.
        """
        member = self.members.get(instance_id)
        if member is None:
            return "is no member"
        if not member.live:
            return "is not alive: no session holds its key"
        if member.foreign:
            return "is an original coordinator, which nobody can hand leadership to"
        if not member.can_lead:
            return "never leads: its can_lead is false"
        if member.leaving:
            return "is leaving"
        if instance_id in self.unwanted:
            return "is wanted away by an operator"
        return ""


@define(eq=False)
class _Asked:
    """
    One hand-over that was asked for.

    :ivar told: what who asked waits on.
    :ivar tried: the members that were tried.
    :ivar sent: whether a transaction may have been sent.
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


class HandOver:
    """
    Hands over leadership; see Note [Handing over].

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
        self._tasks = Tasks(log)
        self._one_at_a_time = DeferredLock()
        self._under_way: _Asked | None = None

    def transfer(
        self, to: str | None = None, request: Entry | None = None
    ) -> Deferred[None]:
        """
        Hand leadership over.

        :param to: the member that is to lead; the next that can, if ``None``.
        :param request: the key that asks for it, deleted in the same
            transaction.
        :return: a Deferred that fires once we lead no more, at once when we are
            to hand over to ourselves.  While we lead on it fails with
            :class:`TransferRefused`, or with :class:`ConsulError` when the
            members could not be read; else with :class:`NotLeading` or
            :class:`ShutDownError`.  Cancelling it ends a hand-over that has not
            been sent.
        """
        asked = _Asked(to, request)
        running = self._tasks.spawn("hand-over", self._run, asked)
        if running is None:
            return fail(ShutDownError("the Coordinator is shutting down"))

        def cancelled(told: Deferred[None]) -> None:
            asked.forget()
            if not asked.sent:
                running.cancel()

        # Not before it is known what there is to cancel.
        told: Deferred[None] = Deferred(cancelled)
        asked.told.addCallbacks(told.callback, told.errback)
        return told

    def deposed(self, reason: str) -> None:
        """
        Note that the term is over: who asked for that need not wait.
        """
        asked = self._under_way
        if asked is not None and asked.sent:
            if reason == HANDED_OVER:
                self._log.info(
                    "leadership-handed-over",
                    target=asked.tried[-1],
                    seconds=round(self._reactor.seconds() - asked.began, 3),
                )
            asked.tell()

    def stop(self) -> Deferred[None]:
        """
        Hand over nothing any more.  Who waits is told with
        :class:`ShutDownError`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._tasks.stop()

    @inlineCallbacks
    def _run(self, asked: _Asked) -> Steps[None]:
        """
        Hand over once it is the turn, and tell who asked.
        """
        try:
            yield self._one_at_a_time.acquire()
            self._under_way = asked
            try:
                yield self._hand_over(asked)
            finally:
                self._under_way = None
                self._one_at_a_time.release()
        except CancelledError:
            asked.tell(ShutDownError("the Coordinator is shutting down"))
            raise
        except Exception as error:
            asked.tell(error)
            if not isinstance(error, CoordinationError):
                raise
            if not isinstance(error, NotLeading | ShutDownError):
                # Consul that is away is told by whoever makes the session.
                away = isinstance(error, ConsulError) and error.retryable
                log = self._log.debug if away else self._log.warning
                log(
                    "hand-over-refused",
                    target=asked.to,
                    reason=str(error),
                    effect="this member leads on",
                )
        else:
            asked.tell()

    @inlineCallbacks
    def _hand_over(self, asked: _Asked) -> Steps[None]:
        term = self._election.term
        if term is None or term.over:
            raise self._not_leading()
        if asked.to == self._instance_id:
            return
        prospect: Prospect | None = yield self._look(term)
        assert prospect is not None
        target = self._choose(prospect, asked)
        asked.began = self._reactor.seconds()
        self._log.info(
            "handing-over-leadership", target=target.id, fencing_token=term.token
        )
        yield self._suspend(term)
        try:
            while not term.over:
                refused: str = yield self._attempt(term, asked, prospect, target)
                prospect = yield self._look_back(term)
                if prospect is None:
                    break
                if len(asked.tried) == ATTEMPTS:
                    raise TransferRefused(f"{target.id!r} {refused}")
                target = self._choose(prospect, asked)
        finally:
            term.resume()
        if not asked.sent:
            raise self._not_leading()
        self._tasks.spawn("see-to-heir", self._see_to_heir, term, target.id)

    # What is known before.

    @inlineCallbacks
    def _look(self, term: Term) -> Steps[Prospect]:
        """
        Read the leader key, the members and what is wanted of them, at one
        moment, and see whether we lead.

        :return: a Deferred that fires with it, or fails with
            :class:`NotLeading` or :class:`ConsulError`.
        """
        entries: tuple[Entry, ...] = yield self._api.txn(
            (
                Op.get_tree(self._keys.leader),
                Op.get_tree(self._keys.members),
                Op.get_tree(self._keys.node_intent("")),
            ),
            consistent=True,
            lane=Lane.SESSION,
        )
        prospect = Prospect.of(self._keys, entries)
        if not term.over:
            self._election.note(prospect.key)
        if term.over:
            raise self._not_leading()
        if self._instance_id not in prospect.members:
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

    def _choose(self, prospect: Prospect, asked: _Asked) -> Member:
        """
        Give the member to try next.

        Where none is named that is the one after us in the order of the ids, as
        on a ring: it needs no memory, and those who hand over one after the
        other give everybody the same turn.

        :raises TransferRefused: when there is none.
        """
        if asked.to is not None:
            why = prospect.unfit(asked.to)
            if why:
                raise TransferRefused(f"{asked.to!r} {why}")
            return prospect.members[asked.to]
        known = {self._instance_id, *asked.tried}
        fit = [name for name in prospect.members if not prospect.unfit(name)]
        left = [name for name in fit if name not in known]
        if not left:
            raise TransferRefused(
                "no other member can lead"
                + (f"; tried in vain: {', '.join(asked.tried)}" if asked.tried else "")
            )
        name = min(left, key=lambda name: (name < self._instance_id, name))
        return prospect.members[name]

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
            term.interrupt()
            yield term.suspend()

    @inlineCallbacks
    def _attempt(
        self, term: Term, asked: _Asked, prospect: Prospect, target: Member
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

    @inlineCallbacks
    def _see_to_heir(self, term: Term, target: str) -> Steps[None]:
        """
        Free the leader key if the heir does not take office.
        """
        for _ in range(ATTEMPTS):
            yield sleep(self._reactor, HEIR_SECONDS)
            try:
                freed: bool = yield self._free(term)
            except TransactionRefused:
                # It has just done so.
                return
            except ConsulError as error:
                self._log.debug("heir-not-seen-to", error=str(error))
                continue
            if freed:
                self._log.warning(
                    "heir-did-not-begin",
                    target=target,
                    effect="every member that can lead may stand",
                )
            return

    @inlineCallbacks
    def _free(self, term: Term) -> Steps[bool]:
        """
        Free the leader key, if the heir of our term has it and our term is
        still the last one.

        :return: a Deferred that fires with whether that was so, or fails with
            :class:`ConsulError`.
        """
        entries: tuple[Entry, ...] = yield self._api.txn(
            (Op.get_tree(self._keys.leader), Op.get_tree(self._keys.term)),
            consistent=True,
            lane=Lane.SESSION,
        )
        found = {entry.key: entry for entry in entries}
        key, last = found.get(self._keys.leader), found.get(self._keys.term)
        if key is None or key.session != term.heir or last is None:
            return False
        if not term.wrote(last):
            return False
        yield self._api.txn(
            (
                Op.check_index(key.key, key.modify_index),
                Op.check_index(last.key, last.modify_index),
                Op.delete(key.key),
            ),
            lane=Lane.SESSION,
        )
        return True

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
