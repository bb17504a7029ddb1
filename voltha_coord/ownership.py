"""
The owner record of each work item: who may run it, and nobody else.

# Note [Owning an item]

An item may run on a member only while an owner record names that member and
the session whose lease lasts.  It is taken in one transaction that also checks
that our session still holds our member key and that the assignment is still
the one we saw: a request that arrives late, from an owner that is dead or was
relieved, is refused.  It is released, after the item has stopped, by deleting
it at the index we wrote.  It outlives its session: after an outage the same
member confirms what it owned and goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import field, frozen
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op, Reading
from .errors import InvalidSession, TransactionRefused
from .keys import Keys, is_work_id
from .lease import Lease
from .records import OwnerRecord, RecordError

_T = TypeVar("_T")

#: Operations of one transaction that Consul takes in every version.
MOST_OPS = 64


@frozen
class Claim:
    """
    An item to be taken.

    :ivar work: its id.
    :ivar assignment: the ModifyIndex of our assignment of it.
    :ivar owner: the ModifyIndex of the owner record to be replaced, a former
        one of ours; 0 when there must be none.
    """

    work: str
    assignment: int
    owner: int = 0


@frozen
class Claims:
    """
    What came of claiming.

    :ivar owned: the ModifyIndex of our owner record, by work id.
    :ivar held: items that have another owner record.
    :ivar unassigned: items whose assignment is no longer the one we saw.
    """

    owned: Mapping[str, int] = field(factory=dict)
    held: tuple[str, ...] = ()
    unassigned: tuple[str, ...] = ()


@frozen
class OwnRecord:
    """
    An owner record in our name, as found in Consul.
    """

    index: int
    record: OwnerRecord


class Ownership:
    """
    Takes, confirms and releases owner records; see Note [Owning an item].

    :param instance_id: in whose name.
    """

    def __init__(self, api: ConsulApi, keys: Keys, instance_id: str) -> None:
        self._api = api
        self._keys = keys
        self._instance_id = instance_id

    @inlineCallbacks
    def claim(
        self, lease: Lease, record: OwnerRecord, claims: Sequence[Claim]
    ) -> Steps[Claims]:
        """
        Take items, as many of them as may be had.

        :param lease: whose session must hold our member key.
        :param record: what to write.
        :return: a Deferred that fires with what came of it, or fails with
            :class:`InvalidSession` when our session does not hold our member
            key, or with another :class:`ConsulError`; after
            ``ConsulUnavailable`` some of the items may be owned.
        """
        owned: dict[str, int] = {}
        held: list[str] = []
        unassigned: list[str] = []
        value = record.encode()
        for batch in _batches(claims, (MOST_OPS - 1) // 2):
            left = list(batch)
            while left:
                try:
                    results: tuple[Entry, ...] = yield self._api.txn(
                        self._claim_ops(lease, value, left)
                    )
                except TransactionRefused as refused:
                    refusals = {r.key: r.what for r in refused.refusals}
                    left = self._without(refusals, left, held, unassigned)
                    continue
                indexes = {entry.key: entry.modify_index for entry in results}
                for claim in left:
                    owned[claim.work] = indexes[self._keys.owner(claim.work)]
                break
        return Claims(owned, tuple(held), tuple(unassigned))

    def _claim_ops(
        self, lease: Lease, value: bytes, claims: Iterable[Claim]
    ) -> list[Op]:
        member = self._keys.member(self._instance_id)
        ops = [Op.check_session(member, lease.session_id)]
        for claim in claims:
            assignment = self._keys.assignment(self._instance_id, claim.work)
            ops.append(Op.check_index(assignment, claim.assignment))
            ops.append(Op.cas(self._keys.owner(claim.work), value, claim.owner))
        return ops

    def _without(
        self,
        refusals: Mapping[str, str],
        claims: Sequence[Claim],
        held: list[str],
        unassigned: list[str],
    ) -> list[Claim]:
        """
        Single out the claims that were refused, and give the others.
        """
        left = []
        for claim in claims:
            assignment = self._keys.assignment(self._instance_id, claim.work)
            if assignment in refusals:
                unassigned.append(claim.work)
            elif self._keys.owner(claim.work) in refusals:
                held.append(claim.work)
            else:
                left.append(claim)
        if len(left) == len(claims):
            # None of them is to blame: it is our own member key.
            raise InvalidSession(f"member key not ours: {refusals}")
        return left

    @inlineCallbacks
    def release(self, owned: Mapping[str, int]) -> Steps[None]:
        """
        Release items that have stopped.

        An owner record that is not as we left it is not ours any more, and is
        left alone.

        :param owned: the ModifyIndex of our owner record, by work id.
        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        for batch in _batches(tuple(owned.items()), MOST_OPS):
            left = dict(batch)
            while left:
                ops = [
                    Op.delete_cas(self._keys.owner(work), index)
                    for work, index in left.items()
                ]
                try:
                    yield self._api.txn(ops)
                except TransactionRefused as refused:
                    gone = {r.key for r in refused.refusals}
                    kept = {
                        work: index
                        for work, index in left.items()
                        if self._keys.owner(work) not in gone
                    }
                    if len(kept) == len(left):
                        raise
                    left = kept
                else:
                    break

    @inlineCallbacks
    def records(self) -> Steps[dict[str, OwnRecord]]:
        """
        Find the owner records in our name.

        :return: a Deferred that fires with them by work id, or fails with
            :class:`ConsulError`.
        """
        reading: Reading = yield self._api.list(self._keys.owners, consistent=True)
        found = {}
        for entry in reading.entries:
            work = entry.key[len(self._keys.owners) :]
            if not is_work_id(work):
                continue
            try:
                record = OwnerRecord.from_entry(entry)
            except RecordError:
                # The leader says so; it is nobody's.
                continue
            if record.owner == self._instance_id:
                found[work] = OwnRecord(entry.modify_index, record)
        return found

    @inlineCallbacks
    def read_work(self, work_ids: Sequence[str]) -> Steps[dict[str, bytes]]:
        """
        Read what the items are.

        :return: a Deferred that fires with the values by work id, without the
            items that do not exist (any more), or fails with
            :class:`ConsulError`.
        """
        found: dict[str, bytes] = {}
        for batch in _batches(work_ids, MOST_OPS):
            left = {self._keys.work_item(work): work for work in batch}
            while left:
                try:
                    entries: tuple[Entry, ...] = yield self._api.txn(
                        [Op.get(key) for key in left]
                    )
                except TransactionRefused as refused:
                    missing = {r.key for r in refused.refusals}
                    kept = {k: w for k, w in left.items() if k not in missing}
                    if len(kept) == len(left):
                        raise
                    left = kept
                else:
                    found.update((left[e.key], e.value) for e in entries)
                    break
        return found


def _batches(items: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
