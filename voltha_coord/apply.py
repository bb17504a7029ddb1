"""
From a plan to the writes that carry it out.

Pure but for one question: whether the lease of somebody who is gone must be
over (see :mod:`~voltha_coord.succession`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import accumulate

from attrs import field, frozen
from twisted.internet.defer import inlineCallbacks

from ._status import ERROR_CHARACTERS
from ._types import Steps
from .consul.model import Entry, Op
from .keys import Keys, is_work_id, shown
from .ownership import Judge, error_mark, lease_over
from .planning.operations import Assign, Operation, Plan, Reassign, Spent, Unassign
from .planning.state import ClusterState
from .records import OwnerRecord


@frozen
class Application:
    """
    The writes of a pass.

    :ivar groups: operations that belong together, in order.
    :ivar carried: the operations of the plan they carry out: what the first
        groups are for, one each.
    :ivar held: how many must wait for the lease of somebody who is gone.
    :ivar waiting: an owner record of each session those wait for.
    :ivar errors: why items are not placed, or not running for want of an
        owner, by work id.
    """

    groups: tuple[tuple[Op, ...], ...] = ()
    carried: tuple[Operation, ...] = ()
    held: int = 0
    waiting: tuple[OwnerRecord, ...] = ()
    errors: Mapping[str, str] = field(factory=dict)

    @property
    def operations(self) -> int:
        """
        How many operations of the plan they carry out.
        """
        return len(self.carried)

    def done(self, applied: int) -> tuple[Operation, ...]:
        """
        Give the operations of the plan that are done once so many of the
        writes, counted from the first, are applied.
        """
        ends = list(accumulate(map(len, self.groups)))
        return self.carried[: bisect_right(ends, applied)]


def _ops(keys: Keys, operation: Operation) -> tuple[Op, ...]:
    work = operation.work
    if isinstance(operation, Unassign):
        return (Op.delete(keys.assignment(operation.member, work)),)
    spent = _spend(keys, work, operation.spent)
    if isinstance(operation, Assign | Reassign):
        return (
            Op.set(keys.assignment(operation.member, work), operation.value),
            *spent,
        )
    return (
        Op.delete(keys.assignment(operation.source, work)),
        Op.set(keys.assignment(operation.target, work), operation.value),
        *spent,
    )


def _spend(keys: Keys, work: str, spent: Spent | None) -> tuple[Op, ...]:
    if spent is None:
        return ()
    return (Op.cas(keys.work_item(work), spent.value, spent.index),)


@inlineCallbacks
def prepare(
    keys: Keys,
    state: ClusterState,
    plan: Plan,
    judge: Judge,
    told: Sequence[Entry] = (),
) -> Steps[Application]:
    """
    Give the writes that carry out a plan.

    Items whose owner is gone are moved in the transaction that clears their
    owner record, and not before that owner's lease is over.  Owner records
    nobody answers for any more are cleared as well; so are those that cannot be
    read, one session TTL after they were first seen.  Those of items that are
    kept for members that may come back are left alone.  Without any member
    nothing is written at all.

    :param judge: whether a predecessor's lease must be over.
    :param told: what lies under ``errors/``.
    :return: a Deferred that fires with the writes, or fails with
        :class:`ConsulError`.
    """
    if not state.members:
        return Application()
    lost = _lost(state, plan)
    orphans = [work for work in lost if work not in plan.kept]
    over: dict[str, bool] = {}
    for session, owner in _sessions(state, lost).items():
        # Also of what is kept: to ask is what starts the wait.
        over[session] = yield lease_over(judge, owner)
    free = {work: over[state.owners[work].session] for work in orphans}
    unreadable = sorted(state.owner_entries.keys() - state.owners.keys())
    for work in unreadable:
        if work in plan.kept:
            continue
        index = state.owner_entries[work].modify_index
        free[work] = judge.waited(f"owner {work} {index}")
    groups: list[tuple[Op, ...]] = []
    carried = []
    for operation in plan.operations:
        ops = _ops(keys, operation)
        work = operation.work
        if work in free:
            if not free[work]:
                continue
            del free[work]
            ops += (_clear(keys, state, work),)
        groups.append(ops)
        carried.append(operation)
    groups += [(_clear(keys, state, work),) for work, now in free.items() if now]
    errors = dict(plan.errors)
    for work in unreadable:
        if work in state.work:
            key = shown(keys.owner(work))
            errors[work] = f"{key} cannot be read: {state.problems.get(key)}"
    groups += [(_fulfilled(keys, state, work),) for work in plan.relocated]
    groups += _tell(keys, state, errors, plan.pending, told)
    return Application(
        groups=tuple(groups),
        carried=tuple(carried),
        held=sum(not now for now in free.values()),
        waiting=tuple(
            owner
            for session, owner in _sessions(state, orphans).items()
            if not over[session]
        ),
        errors=errors,
    )


def _clear(keys: Keys, state: ClusterState, work: str) -> Op:
    return Op.delete_cas(keys.owner(work), state.owner_entries[work].modify_index)


def _fulfilled(keys: Keys, state: ClusterState, work: str) -> Op:
    return Op.delete_cas(keys.relocation(work), state.relocation_index[work])


def _sessions(state: ClusterState, works: Iterable[str]) -> dict[str, OwnerRecord]:
    """
    Give an owner record for each session that owns some items.
    """
    return {state.owners[work].session: state.owners[work] for work in works}


def _lost(state: ClusterState, plan: Plan) -> list[str]:
    """
    Give the items whose owner's session is gone, and which that same instance
    is not to go on with: a new session of it confirms its own items.
    """
    living = {member.session for member in state.members.values()}
    return sorted(
        work
        for work, owner in state.owners.items()
        if owner.session not in living
        and not (
            owner.owner in state.members and plan.placements.get(work) == owner.owner
        )
    )


def _tell(
    keys: Keys,
    state: ClusterState,
    errors: Mapping[str, str],
    pending: Container[str],
    told: Sequence[Entry],
) -> list[tuple[Op, ...]]:
    """
    Make ``errors/`` say what is wrong, and nothing that is wrong no more.  Of
    items that are yet to be planned nothing is known.

    What an owner says of its item is its own business for as long as it owns
    the item under the session it said it with.
    """
    wanted = {
        work: text[:ERROR_CHARACTERS].encode("utf-8", "replace")
        for work, text in errors.items()
    }
    groups: list[tuple[Op, ...]] = []
    for entry in told:
        work = entry.key[len(keys.errors) :]
        if not is_work_id(work) or work in pending:
            continue
        if work in wanted:
            if (entry.value, entry.flags) == (wanted[work], 0):
                del wanted[work]
        elif not entry.flags or entry.flags != _owner_mark(state, work):
            groups.append((Op.delete_cas(entry.key, entry.modify_index),))
    groups += [(Op.set(keys.error(work), text),) for work, text in wanted.items()]
    return groups


def _owner_mark(state: ClusterState, work: str) -> int | None:
    owner = state.owners.get(work)
    return None if owner is None else error_mark(owner.session)
