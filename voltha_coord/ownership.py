"""
The owner record of each work item: who may run it, and nobody else.

# Note [Owning an item]

An item may run on a member only while an owner record names that member and
the session whose lease lasts.  It is taken in one transaction that also checks
that our session still holds our member key and that the assignment is still
the one we saw: a request that arrives late, from an owner that is dead or was
relieved, is refused.  It is released, after the item has stopped, by deleting
it at the index we wrote, with what the next owner is to know set beside it.  It
outlives its session: after an outage the same member confirms what it owned and
goes on.

Many items share a transaction.  One that is refused is singled out by the keys
Consul names, and the others are sent again without it.

# Note [Claimed and read at once]

Whoever takes an item to run it needs to know what it is, and what its last
owner handed over.  Both are read in the transaction that takes it: nothing lies
between, and nothing is asked twice.  A ``get`` of a missing key would refuse
the transaction, and reports are missing as a rule: they are read as trees, which
may be empty.  (The tree ``reports/w1`` holds the report of ``w10`` as well;
there are few at any time.)  Descriptions are there as a rule; an item without
one is taken once more, without reading it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred, inlineCallbacks, succeed

from ._types import Steps
from .consul.api import ConsulApi
from .consul.encoding import encoded_size
from .consul.model import Entry, Op, Reading
from .consul.transaction import pack
from .errors import InvalidSession, TransactionRefused
from .keys import Keys, is_session_id, is_work_id
from .lease import Lease
from .listing import list_again
from .records import OwnerRecord, RecordError
from .succession import LONGEST_TTL, Predecessor

#: The largest report a move hands over, in bytes.
REPORT_BYTES = 256 * 1024

_NODE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class Judge(Protocol):
    """
    Who knows whether the lease of a session that is gone must be over:
    :class:`~.succession.Succession`.
    """

    def is_over(self, predecessor: Predecessor) -> Deferred[bool]:
        """
        Whether that lease must be over.
        """

    def waited(self, name: str) -> bool:
        """
        Whether one session TTL has passed since this was first asked.
        """


def lease_over(judge: Judge, owner: OwnerRecord) -> Deferred[bool]:
    """
    Find out whether the lease that an owner record rests on must be over.

    Anybody may write anything into a record, and Consul answers an error to a
    question about an impossible session.  Nobody holds one, so it counts as a
    session that is gone.

    :return: a Deferred that fires with the answer, or fails with
        :class:`ConsulError`.
    """
    if not is_session_id(owner.session):
        return succeed(judge.waited(f"session {owner.session}"))
    node = owner.node or ""
    check = owner.check or ""
    return judge.is_over(
        Predecessor(
            owner.session,
            check if _NODE_NAME.fullmatch(node) else "",
            node,
            min(owner.ttl or 0.0, LONGEST_TTL),
        )
    )


def error_mark(session: str) -> int:
    """
    Give the flags of what an owner writes under ``errors/``: they tell under
    which session it was written, and so when it is out of date.

    :return: 0, which nobody writes, for what is no session's id.
    """
    if not is_session_id(session):
        return 0
    return int(session.replace("-", "")[:15], 16)


@frozen
class Claim:
    """
    An item to be taken.

    :ivar work: its id.
    :ivar assignment: the ModifyIndex of our assignment of it; 0 when there must
        be none.
    :ivar owner: the ModifyIndex of the owner record to be replaced, a former
        one of ours; 0 when there must be none.
    :ivar described: whether its description under ``work/`` is to be read.
    :ivar reported: whether what was handed over is to be read.
    """

    work: str
    assignment: int
    owner: int = 0
    described: bool = True
    reported: bool = True


@frozen
class Claims:
    """
    What came of claiming.

    :ivar owned: the ModifyIndex of our owner record, by work id.
    :ivar held: items that have another owner record.
    :ivar unassigned: items whose assignment is no longer the one we saw.
    :ivar read: the descriptions and reports that were found, by key.
    :ivar term: the term record as it was then, ``None`` for none.
    """

    owned: Mapping[str, int] = field(factory=dict)
    held: tuple[str, ...] = ()
    unassigned: tuple[str, ...] = ()
    read: Mapping[str, Entry] = field(factory=dict)
    term: Entry | None = None


@frozen
class Release:
    """
    An item to be given up.

    :ivar index: the ModifyIndex of our owner record.
    :ivar report: what the next owner is to know, of ``REPORT_BYTES`` at most.
    :ivar served: the ModifyIndex of a report that has served us and was not
        removed yet; 0 for none.
    """

    index: int
    report: bytes | None = None
    served: int = 0


@frozen
class OwnRecord:
    """
    An owner record in our name, as found in Consul.
    """

    index: int
    record: OwnerRecord


@frozen
class _Applied:
    """
    What became of groups of operations.

    :ivar results: of those that were applied, by key.
    :ivar refused: the keys Consul found fault with, by the group's name.
    """

    results: dict[str, Entry] = field(factory=dict)
    refused: dict[str, frozenset[str]] = field(factory=dict)


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
            key, or with another :class:`ConsulError`; then some of the items
            may be owned.
        """
        value = record.encode()
        lead = (
            Op.check_session(self._keys.member(self._instance_id), lease.session_id),
            Op.get_tree(self._keys.term),
        )
        groups = {claim.work: self._claim_ops(claim, value) for claim in claims}
        try:
            applied: _Applied = yield self._apply(groups, *lead)
            bare = {
                claim.work: self._claim_ops(evolve(claim, described=False), value)
                for claim in claims
                if applied.refused.get(claim.work)
                == frozenset({self._keys.work_item(claim.work)})
            }
            again: _Applied = yield self._apply(bare, *lead)
        except TransactionRefused as refused:
            # No item is to blame: it is our own member key.
            raise InvalidSession(f"member key not ours: {refused}") from refused
        refusals = {w: k for w, k in applied.refused.items() if w not in bare}
        return self._claimed(
            claims, refusals | again.refused, applied.results | again.results
        )

    def _claim_ops(self, claim: Claim, value: bytes) -> tuple[Op, ...]:
        keys, work = self._keys, claim.work
        assignment = keys.assignment(self._instance_id, work)
        ops: tuple[Op, ...] = (
            Op.check_index(assignment, claim.assignment)
            if claim.assignment
            else Op.check_not_exists(assignment),
            Op.cas(keys.owner(work), value, claim.owner),
        )
        if claim.described:
            ops += (Op.get(keys.work_item(work)),)
        if claim.reported:
            ops += (Op.get_tree(keys.report(work)),)
        return ops

    def _claimed(
        self,
        claims: Sequence[Claim],
        refused: Mapping[str, frozenset[str]],
        results: Mapping[str, Entry],
    ) -> Claims:
        """
        Say what came of claims.
        """
        keys = self._keys
        owned: dict[str, int] = {}
        held, unassigned = [], []
        for claim in claims:
            work = claim.work
            if work not in refused:
                owned[work] = results[keys.owner(work)].modify_index
            elif keys.assignment(self._instance_id, work) in refused[work]:
                unassigned.append(work)
            else:
                held.append(work)
        read = {
            key: entry
            for key, entry in results.items()
            if key.startswith((keys.work, keys.reports))
        }
        term = results.get(keys.term)
        return Claims(owned, tuple(held), tuple(unassigned), read, term)

    @inlineCallbacks
    def release(self, releases: Mapping[str, Release]) -> Steps[tuple[str, ...]]:
        """
        Release items that have stopped.

        An owner record that is not as we left it is not ours any more, and is
        left alone.  What was to be handed over of an item that does not exist
        any more is dropped.

        :param releases: by work id.
        :return: a Deferred that fires with the items whose records were left
            alone, or fails with :class:`ConsulError`; releasing the same again
            does no harm.
        """
        groups = {work: self._release_ops(work, r) for work, r in releases.items()}
        applied: _Applied = yield self._apply(groups)
        deleted = {
            work: self._release_ops(work, Release(releases[work].index))
            for work, keys in applied.refused.items()
            if self._keys.owner(work) not in keys
        }
        again: _Applied = yield self._apply(deleted)
        return (*(applied.refused.keys() - deleted.keys()), *again.refused)

    def _release_ops(self, work: str, release: Release) -> tuple[Op, ...]:
        owner = self._keys.owner(work)
        released = Op.delete_cas(owner, release.index)
        if release.report is None and release.served:
            return (Op.delete_cas(self._keys.report(work), release.served), released)
        if release.report is None:
            return (released,)
        # A deletion finds no fault with a missing record, but the report must
        # not be set twice: the next owner may have read and removed it.
        return (
            Op.check_index(owner, release.index),
            Op.get(self._keys.work_item(work)),
            Op.set(self._keys.report(work), release.report),
            released,
        )

    @inlineCallbacks
    def records(self) -> Steps[dict[str, OwnRecord]]:
        """
        Find the owner records in our name.

        :return: a Deferred that fires with them by work id, or fails with
            :class:`ConsulError`; so it does when none are there because they
            may not be read.
        """
        reading: Reading = yield self._api.list(self._keys.owners, consistent=True)
        if not reading.entries:
            reading = yield list_again(self._api, self._keys.owners)
        return dict(self._ours(reading.entries))

    @inlineCallbacks
    def look_up(
        self, work_ids: Sequence[str]
    ) -> Steps[tuple[dict[str, OwnRecord], list[str]]]:
        """
        Find out which of these items have an owner record in our name, and
        which have none at all.

        :return: a Deferred that fires with both, or fails with
            :class:`ConsulError`.
        """
        owner = self._keys.owner
        found: dict[str, Entry] = yield self.read(map(owner, work_ids))
        free = [work for work in work_ids if owner(work) not in found]
        return dict(self._ours(found.values())), free

    def _ours(self, entries: Iterable[Entry]) -> Iterator[tuple[str, OwnRecord]]:
        for entry in entries:
            work = entry.key[len(self._keys.owners) :]
            if not is_work_id(work):
                continue
            try:
                record = OwnerRecord.from_entry(entry)
            except RecordError:
                # The leader says so, and sees to it.
                continue
            if record.owner == self._instance_id:
                yield work, OwnRecord(entry.modify_index, record)

    # What lies beside the owner records.

    @inlineCallbacks
    def read(self, keys: Iterable[str]) -> Steps[dict[str, Entry]]:
        """
        Read keys, many at once.

        :return: a Deferred that fires with those that exist, by key, or fails
            with :class:`ConsulError`.
        """
        applied: _Applied = yield self._apply({key: (Op.get(key),) for key in keys})
        return applied.results

    @inlineCallbacks
    def changed(self, indexes: Mapping[str, int]) -> Steps[tuple[str, ...]]:
        """
        Find out which keys are not as they were, without reading any.

        :param indexes: their ModifyIndex, by key; 0 for one that was missing.
        :return: a Deferred that fires with those keys, or fails with
            :class:`ConsulError`.
        """
        applied: _Applied = yield self._apply(
            {
                key: (Op.check_index(key, i) if i else Op.check_not_exists(key),)
                for key, i in indexes.items()
            }
        )
        return tuple(applied.refused)

    @inlineCallbacks
    def forget_reports(self, indexes: Mapping[str, int]) -> Steps[None]:
        """
        Remove reports that have served.

        :param indexes: their ModifyIndex, by work id; one that is another by
            now is left alone.
        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        keys = self._keys
        groups = {w: (Op.delete_cas(keys.report(w), i),) for w, i in indexes.items()}
        yield self._apply(groups)

    @inlineCallbacks
    def tell_errors(
        self, session: str, errors: Mapping[str, tuple[int, str]]
    ) -> Steps[tuple[str, ...]]:
        """
        Say under ``errors/`` why items that we own do not run.

        :param errors: the ModifyIndex of our owner record and the reason, by
            work id; an empty reason removes what was said.
        :return: a Deferred that fires with the items that turn out not to be
            ours any more, or fails with :class:`ConsulError`.
        """
        mark = error_mark(session)
        groups = {}
        for work, (index, text) in errors.items():
            key = self._keys.error(work)
            said = Op("set", key, value=text.encode("utf-8", "replace"), flags=mark)
            groups[work] = (
                Op.check_index(self._keys.owner(work), index),
                said if text else Op.delete(key),
            )
        applied: _Applied = yield self._apply(groups)
        return tuple(applied.refused)

    @inlineCallbacks
    def _apply(
        self, groups: Mapping[str, tuple[Op, ...]], *lead: Op
    ) -> Steps[_Applied]:
        """
        Apply groups of operations, each whole or not at all, each for itself.

        :param lead: what every transaction begins with.
        :return: a Deferred that fires with what became of them, or fails with
            :class:`TransactionRefused` when ``lead`` was refused, with
            :class:`AccessDenied` when the token may not do some of it, or with
            another :class:`ConsulError`.
        """
        applied = _Applied()
        for names in _shares(groups, lead):
            left = names
            while left:
                ops = [*lead, *(op for name in left for op in groups[name])]
                try:
                    results: tuple[Entry, ...] = yield self._api.txn(ops)
                except TransactionRefused as refused:
                    found = {refusal.key for refusal in refused.refusals}
                    faults = {
                        name: found.intersection(op.key for op in groups[name])
                        for name in left
                    }
                    if not any(faults.values()):
                        raise
                    applied.refused.update(
                        (name, frozenset(keys)) for name, keys in faults.items() if keys
                    )
                    left = [name for name in left if not faults[name]]
                else:
                    applied.results.update((entry.key, entry) for entry in results)
                    break
        return applied


def _shares(
    groups: Mapping[str, tuple[Op, ...]], lead: Sequence[Op]
) -> Iterator[list[str]]:
    """
    Divide groups among transactions.
    """
    names = iter(groups)
    room = sum(map(encoded_size, lead))
    for chunk in pack(
        tuple(groups.values()), reserved_operations=len(lead), reserved_bytes=room
    ):
        share: list[str] = []
        count = 0
        while count < len(chunk):
            share.append(next(names))
            count += len(groups[share[-1]])
        yield share
