"""
A named lock in Consul: how it is read, taken, renewed, and given back.

# Note [Two keys of a lock]

``locks/<name>`` is there while somebody holds the lock.  One that is bound to a
session is held by it in Consul's own sense, and goes with it.  Then nothing is
left that says whose lease has to be over before another may act, so
``locks/<name>/last`` says it, and stays.  Both are written by one transaction:
it compares what was read, so that the owner token decides who holds the lock, and
not the session, which may acquire a key of its own again and again.

# Note [A take that got no answer]

It may be applied, now or later.  Each one compares ``last`` with the index that
was read, so whoever writes ``last`` since shuts it out.  After a lost answer
``last`` tells whether the take was applied; where it was not, another write of
``last`` sees to it that it never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from attrs import evolve, frozen
from twisted.internet.defer import inlineCallbacks

from ._lock import LockRecord, LockTrace
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op
from .errors import ConsulUnavailable, TransactionRefused
from .keys import Keys, is_lock_name
from .records import RecordError

#: How often keys that change under our hands are looked at again.
ATTEMPTS = 5

_R = TypeVar("_R", LockRecord, LockTrace)


@frozen
class Found:
    """
    What stands in the two keys of a lock.

    :ivar entry: of the lock; ``None`` when nobody holds it.
    :ivar record: what the entry says; ``None`` when it cannot be read.
    :ivar last: of who held it last.
    :ivar trace: what that entry says; ``None`` when it cannot be read.
    """

    entry: Entry | None = None
    record: LockRecord | None = None
    last: Entry | None = None
    trace: LockTrace | None = None

    @property
    def token(self) -> int:
        """
        The fencing token of who holds it; 0 for nobody.
        """
        if self.entry is None or self.record is None:
            return 0
        return self.record.token or self.entry.modify_index

    @property
    def last_index(self) -> int:
        """
        The ModifyIndex of who held it last; 0 for none.
        """
        return 0 if self.last is None else self.last.modify_index

    def held_by(self, owner_token: str) -> bool:
        """
        Whether the lock is held under that owner token.
        """
        return self.record is not None and self.record.owner_token == owner_token

    def left_by(self, owner_token: str) -> bool:
        """
        Whether that owner token was the last one, and has not released.
        """
        trace = self.trace
        return (
            trace is not None
            and trace.owner_token == owner_token
            and not trace.released
        )


@frozen
class Taken:
    """
    A lock that is ours.

    :ivar record: as it was written.
    :ivar index: the ModifyIndex of the lock, which is the fencing token.
    :ivar last: the ModifyIndex of ``last``.
    """

    record: LockRecord
    index: int
    last: int


def _readable(read: Callable[[Entry], _R], entry: Entry | None) -> _R | None:
    if entry is None:
        return None
    try:
        return read(entry)
    except RecordError:
        return None


def locks_in(keys: Keys, entries: Iterable[Entry]) -> dict[str, Found]:
    """
    Sort what was listed under ``locks/``, by the names of the locks; what has no
    name that a lock may have is left out.
    """
    pairs: dict[str, list[Entry | None]] = {}
    for entry in entries:
        name, slash, rest = entry.key[len(keys.locks) :].partition("/")
        if is_lock_name(name) and (not slash or rest == "last"):
            pairs.setdefault(name, [None, None])[bool(slash)] = entry
    return {
        name: Found(
            lock,
            _readable(LockRecord.from_entry, lock),
            last,
            _readable(LockTrace.from_entry, last),
        )
        for name, (lock, last) in pairs.items()
    }


def given_back(keys: Keys, name: str, found: Found) -> tuple[Op, ...]:
    """
    Give the operations that free a lock as it was found, and say of its last
    holder that it has released.
    """
    ops: tuple[Op, ...] = ()
    if found.entry is not None:
        key = keys.lock(name)
        ops = (Op.check_index(key, found.entry.modify_index), Op.delete(key))
    if found.trace is not None and not found.trace.released:
        value = evolve(found.trace, released=True).encode()
        ops += (Op.cas(keys.lock_trace(name), value, found.last_index),)
    return ops


class LockStore:
    """
    Reads and writes the keys of locks; see Note [Two keys of a lock].

    :param unique: gives a random text, another one each time.
    """

    def __init__(self, api: ConsulApi, keys: Keys, unique: Callable[[], str]) -> None:
        self._api = api
        self._keys = keys
        self.unique = unique

    @inlineCallbacks
    def look(self, name: str, *, consistent: bool = False) -> Steps[Found]:
        """
        Read a lock.

        :return: a Deferred that fires with what was found, or fails with
            :class:`ConsulError`; so it does when nothing is there because it may
            not be read.
        """
        entries: tuple[Entry, ...] = yield self._api.txn(
            (Op.get_tree(self._keys.lock(name)),), consistent=consistent
        )
        found = locks_in(self._keys, entries).get(name)
        if found is None:
            # A denied tree looks like an empty one.
            yield self._api.get(self._keys.lock(name))
            found = Found()
        return found

    @inlineCallbacks
    def take(
        self,
        name: str,
        found: Found,
        record: LockRecord,
        trace: LockTrace,
    ) -> Steps[Taken]:
        """
        Take a lock that may be taken, unless anything is otherwise than it was
        found.

        :param trace: says under which session, if it is bound to one.
        :return: a Deferred that fires with it.  It fails with
            :class:`TransactionRefused` when it was not taken, and with another
            :class:`ConsulError`; if :func:`~.consul.transaction.reply_lost` says
            so, it may be taken: see :meth:`settle`.
        """
        key, value = self._keys.lock(name), record.encode()
        guard = (
            Op.check_not_exists(key)
            if found.entry is None
            else Op.check_index(key, found.entry.modify_index)
        )
        written = (
            Op.set(key, value)
            if trace.session is None
            else Op.lock(key, value, trace.session)
        )
        last = Op.cas(self._keys.lock_trace(name), trace.encode(), found.last_index)
        entries: tuple[Entry, ...] = yield self._api.txn((guard, written, last))
        index = max((entry.modify_index for entry in entries), default=0)
        if not index:
            raise ConsulUnavailable(f"no result for {key!r}")
        return Taken(record, index, index)

    @inlineCallbacks
    def settle(
        self, name: str, found: Found, record: LockRecord
    ) -> Steps[Taken | None]:
        """
        Find out whether a take that got no answer was applied, and if it was not,
        see to it that it never is; see Note [A take that got no answer].

        :param found: what that take compared with.
        :return: a Deferred that fires with what was taken, ``None`` for nothing,
            or fails with :class:`ConsulError`; then nothing is known.
        """
        for _ in range(ATTEMPTS):
            now: Found = yield self.look(name, consistent=True)
            if now.entry is not None and now.held_by(record.owner_token):
                return Taken(record, now.entry.modify_index, now.last_index)
            if now.last_index != found.last_index:
                return None
            barrier = now.trace or LockTrace(released=True)
            value = evolve(barrier, attempt=self.unique()).encode()
            key = self._keys.lock_trace(name)
            try:
                yield self._api.txn((Op.cas(key, value, now.last_index),))
            except TransactionRefused:
                continue
            return None
        raise ConsulUnavailable(f"lock {name}: what became of it is not known")

    @inlineCallbacks
    def renew(self, name: str, record: LockRecord, index: int) -> Steps[int]:
        """
        Write a lock with a term again, unless it is otherwise than it was.

        :return: a Deferred that fires with its ModifyIndex, or fails with
            :class:`TransactionRefused` or another :class:`ConsulError`.
        """
        key = self._keys.lock(name)
        entries: tuple[Entry, ...] = yield self._api.txn(
            (Op.cas(key, record.encode(), index),)
        )
        return max((entry.modify_index for entry in entries), default=index)

    @inlineCallbacks
    def give_back(self, name: str, owner_token: str) -> Steps[bool]:
        """
        Free a lock if it is held under that owner token, and let nobody wait for
        the end of what it was held under.

        :return: a Deferred that fires with whether it was held so, or fails with
            :class:`ConsulError`; giving back again does no harm.
        """
        for _ in range(ATTEMPTS):
            found: Found = yield self.look(name, consistent=True)
            ours = found.held_by(owner_token)
            if not found.left_by(owner_token):
                found = evolve(found, trace=None)
            if not ours:
                found = evolve(found, entry=None)
            ops = given_back(self._keys, name, found)
            if not ops:
                return False
            try:
                yield self._api.txn(ops)
            except TransactionRefused:
                continue
            return ours
        raise ConsulUnavailable(f"lock {name}: it changes again and again")

    def fence(self, name: str, last: int, session: str | None) -> tuple[Op, ...]:
        """
        Give the operations that refuse a transaction once the lock is another's.
        """
        ops: tuple[Op, ...] = (Op.check_index(self._keys.lock_trace(name), last),)
        if session is not None:
            ops += (Op.check_session(self._keys.lock(name), session),)
        return ops
