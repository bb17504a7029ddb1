"""
From a plan to the writes that carry it out.

Pure but for one question: whether the lease of a session that is gone must be
over (see :mod:`~voltha_coord.succession`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks

from ._types import Steps
from .consul.model import Op
from .keys import Keys
from .planning.operations import Assign, Operation, Plan, Unassign
from .planning.state import ClusterState
from .records import OwnerRecord
from .succession import Predecessor


@frozen
class Application:
    """
    The writes of a pass.

    :ivar groups: operations that belong together, in order.
    :ivar operations: how many operations of the plan they carry out.
    :ivar held: how many must wait for the lease of somebody who is gone.
    :ivar waiting: for whose.
    """

    groups: tuple[tuple[Op, ...], ...]
    operations: int
    held: int
    waiting: tuple[Predecessor, ...] = ()


def predecessor_of(owner: OwnerRecord) -> Predecessor:
    """
    Give whose lease must be over before others may run what it owns.
    """
    return Predecessor(
        owner.session, owner.check or "", owner.node or "", owner.ttl or 0.0
    )


def _ops(keys: Keys, operation: Operation) -> tuple[Op, ...]:
    if isinstance(operation, Assign):
        return (Op.set(keys.assignment(operation.member, operation.work), b""),)
    if isinstance(operation, Unassign):
        return (Op.delete(keys.assignment(operation.member, operation.work)),)
    return (
        Op.delete(keys.assignment(operation.source, operation.work)),
        Op.set(keys.assignment(operation.target, operation.work), b""),
    )


@inlineCallbacks
def prepare(
    keys: Keys,
    state: ClusterState,
    plan: Plan,
    is_over: Callable[[Predecessor], Deferred[bool]],
) -> Steps[Application]:
    """
    Give the writes that carry out a plan.

    Items whose owner is gone are moved in the transaction that clears their
    owner record, and not before that owner's lease is over.  Owner records
    nobody answers for any more are cleared as well.

    :param is_over: whether that predecessor's lease must be over.
    :return: a Deferred that fires with the writes, or fails with what
        ``is_over`` fails with.
    """
    orphans = _orphans(state, plan)
    gone = {
        owner.session: predecessor_of(owner)
        for owner in (state.owners[work] for work in orphans)
    }
    over: dict[str, bool] = {}
    for session, predecessor in gone.items():
        over[session] = yield is_over(predecessor)
    groups: list[tuple[Op, ...]] = []
    held = 0
    for operation in plan.operations:
        work = operation.work
        ops = _ops(keys, operation)
        if work in orphans:
            del orphans[work]
            if not over[state.owners[work].session]:
                held += 1
                continue
            ops += (_clear(keys, state, work),)
        groups.append(ops)
    done = len(groups)
    for work in orphans:
        if over[state.owners[work].session]:
            groups.append((_clear(keys, state, work),))
        else:
            held += 1
    waiting = tuple(gone[session] for session in gone if not over[session])
    return Application(tuple(groups), done, held, waiting)


def _clear(keys: Keys, state: ClusterState, work: str) -> Op:
    return Op.delete_cas(keys.owner(work), state.owner_entries[work].modify_index)


def _orphans(state: ClusterState, plan: Plan) -> dict[str, None]:
    """
    Give the items whose owner's session is gone, and which that same instance
    is not to go on with: a new session of it confirms its own items.
    """
    living = {member.session for member in state.members.values()}
    return {
        work: None
        for work, owner in _sorted(state.owners.items())
        if owner.session not in living
        and not (
            owner.owner in state.members and plan.placements.get(work) == owner.owner
        )
    }


def _sorted(
    items: Iterable[tuple[str, OwnerRecord]],
) -> list[tuple[str, OwnerRecord]]:
    return sorted(items, key=lambda item: item[0])
