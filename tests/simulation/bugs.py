"""
Twelve deliberate bugs, each a small change of the product that breaks one rule.

They show what the simulator is worth: it has to find each of them.  A bug is
there for as long as its context lasts, and in no way afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import Deferred, inlineCallbacks, succeed

from voltha_coord import apply
from voltha_coord._types import Steps
from voltha_coord.consul.history import History, Sign
from voltha_coord.consul.model import Op
from voltha_coord.consul.watch import Watch
from voltha_coord.election import Election
from voltha_coord.fence import Fence
from voltha_coord.lease import Acknowledged, Lease, LeaseEnd
from voltha_coord.leasing import Leasing
from voltha_coord.liveness import CheckEnd, Liveness
from voltha_coord.planning import carrying_out, moves, placing
from voltha_coord.records import TermRecord, WorkItem
from voltha_coord.running import RunningItems
from voltha_coord.succession import Predecessor, Succession

from .cast import BALANCED, RESOURCE

#: A change: whose attribute it is, its name, and what is there instead.
Change = tuple[Any, str, Any]


@frozen
class Bug:
    """
    One rule that is broken.

    :ivar name: in kebab-case.
    :ivar rule: what the product does not do any more, or does wrongly.
    :ivar leader: the leader under which it is to be found.
    """

    name: str
    rule: str
    _changes: Callable[[], tuple[Change, ...]]
    leader: str = BALANCED

    @contextmanager
    def planted(self) -> Iterator[None]:
        """
        Let it be there.

        :raises KeyError: when what it changes is not there.
        """
        before = []
        for where, name, instead in self._changes():
            before.append((where, name, vars(where)[name]))
            setattr(where, name, instead)
        try:
            yield
        finally:
            for where, name, original in reversed(before):
                setattr(where, name, original)


#: Every bug, by name.
BUGS: dict[str, Bug] = {}


def _bug(
    name: str, rule: str, leader: str = BALANCED
) -> Callable[[Callable[[], tuple[Change, ...]]], Callable[[], tuple[Change, ...]]]:
    def register(
        changes: Callable[[], tuple[Change, ...]],
    ) -> Callable[[], tuple[Change, ...]]:
        BUGS[name] = Bug(name, rule, changes, leader)
        return changes

    return register


@_bug("no-session-fence", "a leader's writes do not check that it holds the key")
def _no_session_fence() -> tuple[Change, ...]:
    def lead(self: Any, record: TermRecord, index: int) -> tuple[Op, ...]:
        return (Op.cas(self._keys.term, record.encode(), index),)

    return ((Fence, "_lead", lead),)


@_bug("no-term-cas", "a leader's writes do not compare the term's index")
def _no_term_cas() -> tuple[Change, ...]:
    def lead(self: Any, record: TermRecord, index: int) -> tuple[Op, ...]:
        return (
            Op.check_session(self._keys.leader, record.session),
            Op.set(self._keys.term, record.encode()),
        )

    return ((Fence, "_lead", lead),)


@_bug("reply-clock", "the lease is counted from the reply, not from the request")
def _reply_clock() -> tuple[Change, ...]:
    def note(self: Any, sent: float) -> None:
        if self.carries:
            self._sent = self._now()

    return ((Acknowledged, "note", note),)


@_bug("release-first", "an item is released before it has stopped")
def _release_first() -> tuple[Change, ...]:
    def stop_one(self: Any, item: Any, stopping: Any) -> Deferred[None]:
        self._tasks.spawn("stop-unwatched", stopping.begin)
        self._gone(item)
        return succeed(None)

    return ((RunningItems, "_stop_one", stop_one),)


@_bug("index-not-reset", "a watch goes on from an index that Consul no longer has")
def _index_not_reset() -> tuple[Change, ...]:
    take = Watch._take

    def taken(self: Any, reading: Any, index: int) -> None:
        take(self, reading, index)
        if reading.index < index:
            self._index = index

    def note(self: Any, asked: int, found: int, took: float) -> Sign:
        return Sign.NONE

    return ((Watch, "_take", taken), (History, "note", note))


@_bug("no-demotion", "a leader whose session is made again goes on leading")
def _no_demotion() -> tuple[Change, ...]:
    wake = Election.wake

    def awake(self: Any) -> None:
        lease = self._session.lease
        terms = self.terms
        if terms.term is not None and lease is not None and lease.active:
            terms.term.lease = lease
        term, terms.term = terms.term, None
        wake(self)
        terms.term = terms.term or term

    return ((Election, "wake", awake),)


@_bug("no-taking-over-rule", "items of a vanished member are cleared at once")
def _no_taking_over_rule() -> tuple[Change, ...]:
    return ((apply, "lease_over", lambda judge, owner: succeed(True)),)


@_bug("timer-on-key", "whom to succeed is timed from its key, not its session")
def _timer_on_key() -> tuple[Change, ...]:
    @inlineCallbacks
    def is_over(self: Any, predecessor: Predecessor) -> Steps[bool]:
        session = predecessor.session
        over: bool = self._waited(session, predecessor.ttl or self._session_ttl)
        if not over and predecessor.check and predecessor.node:
            over = yield self._timer_fired(predecessor)
        return over

    return ((Succession, "is_over", is_over),)


@_bug("late-pass", "a pass that is answered too late revives the lease")
def _late_pass() -> tuple[Change, ...]:
    def note(self: Any, sent: float) -> None:
        self._sent = max(self._sent, sent)

    def active(self: Any) -> bool:
        deadline: float = self.deadline
        return self._end is None and bool(self._now() < deadline)

    def ended(self: Any) -> LeaseEnd | None:
        return None if self.active else self._end or LeaseEnd.CHECK

    def end(self: Any, reason: LeaseEnd) -> None:
        if self._end is None:
            self._stands = self._now()
            self._end = reason

    look = Leasing._look

    def looked(self: Any) -> None:
        if self.lease is not None and not self.lease.active:
            self._timer.set(0.1)
        else:
            look(self)

    fail = Liveness._fail

    def failed(self: Any, end: CheckEnd) -> None:
        if end is not CheckEnd.GAP:
            fail(self, end)

    return (
        (Acknowledged, "note", note),
        (Lease, "active", property(active)),
        (Lease, "ended", property(ended)),
        (Lease, "end", end),
        (Leasing, "_look", looked),
        (Liveness, "_fail", failed),
    )


@_bug("prepare-runs", "a move is completed before its target is ready", RESOURCE)
def _prepare_runs() -> tuple[Change, ...]:
    return ((moves, "_is_ready", lambda state, work, target: True),)


@_bug("kept-forgotten", "what is kept for a member is given up meanwhile", RESOURCE)
def _kept_forgotten() -> tuple[Change, ...]:
    carry_out = carrying_out.carry_out

    def carried(state: Any, under_way: Any, decided: Any) -> Any:
        return evolve(carry_out(state, under_way, decided), kept=frozenset())

    return ((placing, "carry_out", carried),)


@_bug("order-unheard", "what is ordered to stop runs all the same", RESOURCE)
def _order_unheard() -> tuple[Change, ...]:
    return ((WorkItem, "is_to_run", property(lambda self: True)),)
