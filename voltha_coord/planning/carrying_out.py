"""
From what was decided about items to operations on assignments.

An assignment carries the item as it is to be run, so that its member needs to
read nothing else, and the leader can tell what it was given last.  What several
decisions change about one item is written once.

# Note [What lies about]

Beside what was decided there may be assignments nobody needs: of members that
are gone, where the item has another place by now or is no item any more; and of
moves that are over.  They are taken back.  An item that waits for a member that
is gone keeps its assignment there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, field, frozen

from ..records import PREPARE, RUN, START, STOP, Assignment
from .actions import (
    Action,
    Add,
    Delete,
    Error,
    Move,
    Null,
    Reject,
    Skip,
    Start,
    Stop,
    Update,
)
from .moves import Moves
from .observe import assignment, runs, wanted_item
from .operations import Assign, Operation, Plan, Reassign, Spent, Unassign
from .operations import Move as Transfer
from .state import ClusterState


@frozen
class Decided:
    """
    What was decided in all phases.

    :ivar actions: in order.
    :ivar placements: work id to member, moves aside.
    :ivar done: the work ids of wishes for another place that are fulfilled with
        the actions, or by themselves.
    :ivar exhausted: whether there is more to decide.
    """

    actions: tuple[Action, ...] = ()
    placements: Mapping[str, str] = field(factory=dict)
    done: tuple[str, ...] = ()
    exhausted: bool = False


def carry_out(state: ClusterState, moves: Moves, decided: Decided) -> Plan:
    """
    Give the plan that carries out what was decided.
    """
    return _Carrying(state, moves, decided).plan()


@frozen
class _Change:
    """
    What changes about an item.

    :ivar updated: whether it becomes what is wanted by now.
    :ivar order: the one it is given; ``None`` for the one it has.
    """

    updated: bool = False
    order: str | None = None


_UNCHANGED = _Change()


class _Carrying:
    """
    Makes one plan.
    """

    def __init__(self, state: ClusterState, moves: Moves, decided: Decided) -> None:
        self._state = state
        self._moves = moves
        self._decided = decided
        self._gone = sorted(state.assignments.keys() - state.members.keys())
        self._last_places = {
            work: member
            for member in reversed(self._gone)
            for work in state.assignments[member]
            if runs(state, member, work)
        }
        self._changes: dict[str, _Change] = {}
        self._adds: dict[str, Add] = {}
        self._deletes: list[Delete] = []
        self._starting: dict[str, Move] = {}
        self._errors: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._judged: set[str] = set()

    def plan(self) -> Plan:
        decided = self._decided
        for action in decided.actions:
            self._judged.add(action.work)
            self._sort(action)
        placements = {**decided.placements, **self._moves.ready}
        kept = frozenset(
            work for work, m in placements.items() if m not in self._state.members
        )
        waiting = {work: _why_kept(placements[work]) for work in sorted(kept)}
        pending: frozenset[str] = frozenset()
        if decided.exhausted:
            pending = frozenset(self._state.work.keys() - self._judged - kept)
        return Plan(
            operations=(*self._takings(placements), *self._givings()),
            placements=placements,
            errors={**waiting, **self._errors},
            pending=pending,
            unfinished=decided.exhausted,
            kept=kept,
            relocated=tuple(self._relocated()),
            moving={
                **self._moves.going_on,
                **{work: move.target for work, move in self._starting.items()},
            },
            skipped={
                **self._state.recalled.held,
                **self._skipped,
                **self._moves.given_up,
            },
            given_up=frozenset(self._moves.given_up),
            steps=tuple(a for a in decided.actions if not isinstance(a, Null)),
        )

    def _sort(self, action: Action) -> None:
        work = action.work
        match action:
            case Update():
                self._changes[work] = evolve(self._change(work), updated=True)
            case Start():
                self._changes[work] = evolve(self._change(work), order=START)
            case Stop():
                self._changes[work] = evolve(self._change(work), order=STOP)
            case Add():
                self._adds[work] = action
            case Delete():
                self._deletes.append(action)
            case Move():
                self._starting[work] = action
            case Reject(_, reason) | Error(_, reason):
                self._errors[work] = reason
            case Skip(_, _, reason):
                why_not = _why_not_there(self._state, work)
                self._skipped[work] = f"{why_not}; {reason}" if why_not else reason

    def _change(self, work: str) -> _Change:
        return self._changes.get(work, _UNCHANGED)

    # What is taken away.

    def _takings(self, placements: Mapping[str, str]) -> Iterator[Unassign]:
        """
        See Note [What lies about].
        """
        found = {(action.work, action.node) for action in self._deletes}
        found.update(self._moves.over)
        state = self._state
        for member in self._gone:
            for work in state.assignments[member]:
                place = placements.get(work)
                if work not in state.work or place not in (None, member):
                    found.add((work, member))
        for work in self._changes:
            # It is overwritten.
            found.discard((work, self._decided.placements[work]))
        for work, add in self._adds.items():
            # Or it is moved away in one step.
            found.discard((work, add.node))
            found.discard((work, self._last_places.get(work, "")))
        for work, member in sorted(found):
            if work in state.assignments.get(member, ()):
                yield Unassign(work, member)

    # What is given.

    def _givings(self) -> list[Operation]:
        state = self._state
        givings: list[Operation] = []
        for work, target in self._moves.ready.items():
            source = self._moves.sources[work]
            told = self._told(work, source, target, self._change(work))
            givings.append(Transfer(work, source, target, *told))
        for work in self._changes.keys() - self._moves.ready.keys():
            member = self._decided.placements[work]
            told = self._told(work, member, member, self._changes[work])
            known = work in state.assignments.get(member, ())
            give = Reassign if known else Assign
            givings.append(give(work, member, *told))
        for work, move in self._starting.items():
            change = self._change(work)
            value, _ = self._told(work, move.source, move.target, change, PREPARE)
            givings.append(Assign(work, move.target, value))
        for work, add in self._adds.items():
            told = self._told(work, "", add.node, _Change(True, add.order))
            last = self._last_places.get(work)
            if last is None:
                givings.append(Assign(work, add.node, *told))
            else:
                givings.append(Transfer(work, last, add.node, *told))
        # What one member is told is written together: it reads its assignments
        # once for each transaction that has something for it.
        told_first: dict[str, str] = {}
        for giving in givings:
            told_first.setdefault(giving.work, _receiver(giving))
        givings.sort(key=lambda giving: (told_first[giving.work], giving.work))
        return givings

    def _told(
        self, work: str, source: str, target: str, change: _Change, phase: str = RUN
    ) -> tuple[bytes, Spent | None]:
        """
        Give what an assignment is to say, and the wish that is used up with it.

        :param source: the member that has the item; empty for none.
        """
        wanted = wanted_item(self._state, work)
        before = assignment(self._state, source, work)
        applied = None if before is None else before.item
        item = wanted if change.updated or applied is None else applied
        order = change.order or (wanted if applied is None else applied).order
        restart = 0 if before is None else before.restart
        spent = None
        if wanted.force and change.updated:
            index = self._state.work_index[work]
            spent = Spent(evolve(wanted, force=False).encode(), index)
            # One that is placed anew is started anyway.
            restart = index if source else 0
        item = evolve(item, order=order, force=False)
        return Assignment(target, work, phase, item, restart).encode(), spent

    def _relocated(self) -> list[str]:
        """
        Give the wishes that are fulfilled by now.
        """
        wishes, done = self._state.relocations, set(self._decided.done)
        by_itself = done - self._starting.keys() - self._moves.going_on.keys()
        with_a_move = (
            w for w, m in self._moves.ready.items() if wishes.get(w) in (m, "")
        )
        return sorted({*by_itself, *with_a_move} & wishes.keys())


def _why_not_there(state: ClusterState, work: str) -> str:
    """
    Say why an item is not moved where an operator wants it; empty where nobody
    has named a member.
    """
    wish = state.relocations.get(work)
    if not wish:
        return ""
    if wish not in state.members:
        return f"{wish}, where it is wanted, is no member"
    refusal = state.refusal(wish) or "without room for it"
    return f"{wish}, where it is wanted, is {refusal}"


def _receiver(operation: Operation) -> str:
    """
    Give the member that is told.
    """
    if isinstance(operation, Transfer):
        return operation.target
    return operation.member


def _why_kept(member: str) -> str:
    return (
        f"its member {member} is gone; the item waits for it for node_recover_timeout, "
        f"and is placed anew then"
    )
