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
from .consul.model import Entry, KeyNames, Op, Reading
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
class Release:
    """
    An item to be given up.

    :ivar index: the ModifyIndex of our owner record.
    :ivar report: what the next owner is to know, of ``REPORT_BYTES`` at most.
    """

    index: int
    report: bytes | None = None


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
        keys, value = self._keys, record.encode()
        member = Op.check_session(keys.member(self._instance_id), lease.session_id)
        assignments = {
            claim.work: keys.assignment(self._instance_id, claim.work)
            for claim in claims
        }
        groups = {
            claim.work: (
                Op.check_index(assignments[claim.work], claim.assignment),
                Op.cas(keys.owner(claim.work), value, claim.owner),
            )
            for claim in claims
        }
        try:
            applied: _Applied = yield self._apply(groups, member)
        except TransactionRefused as refused:
            # No item is to blame: it is our own member key.
            raise InvalidSession(f"member key not ours: {refused}") from refused
        unassigned = [w for w, k in applied.refused.items() if assignments[w] in k]
        held = [w for w, k in applied.refused.items() if assignments[w] not in k]
        owned = {
            claim.work: applied.results[keys.owner(claim.work)].modify_index
            for claim in claims
            if claim.work not in applied.refused
        }
        return Claims(owned, tuple(held), tuple(unassigned))

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
            work: self._release_ops(work, evolve(releases[work], report=None))
            for work, keys in applied.refused.items()
            if self._keys.owner(work) not in keys
        }
        again: _Applied = yield self._apply(deleted)
        return (*(applied.refused.keys() - deleted.keys()), *again.refused)

    def _release_ops(self, work: str, release: Release) -> tuple[Op, ...]:
        owner = self._keys.owner(work)
        released = Op.delete_cas(owner, release.index)
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
    def look_up(self, work_ids: Sequence[str]) -> Steps[dict[str, OwnRecord]]:
        """
        Find out which of these items have an owner record in our name.

        :return: as :meth:`records`.
        """
        found: dict[str, Entry] = yield self.read(map(self._keys.owner, work_ids))
        return dict(self._ours(found.values()))

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
    def reported(self) -> Steps[set[str]]:
        """
        Find out for which items a report was handed over.

        :return: a Deferred that fires with their keys, or fails with
            :class:`ConsulError`.
        """
        names: KeyNames = yield self._api.keys(self._keys.reports)
        return set(names.names)

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
