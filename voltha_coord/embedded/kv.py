"""
The embedded Consul's key/value store.

A :class:`Draft` is what one write would change: it is read through, and then
applied whole or thrown away.  The verbs work on drafts, so that a single PUT
and a transaction are judged by the same words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from attrs import frozen

from ..consul.model import Entry
from .radix import RadixTree, Signal

#: How long Consul remembers that a key was deleted, in seconds.
TOMBSTONE_SECONDS = 15 * 60.0


@frozen
class _Tombstone:
    key: str
    index: int


class KVStore:
    """
    The keys, what was deleted lately, and who waits for what.

    :ivar index: the index of the last change of any key.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._tree: RadixTree[Entry] = RadixTree()
        self._graves: RadixTree[_Tombstone] = RadixTree()
        self._burials: deque[tuple[float, str, int]] = deque()
        self._held: dict[str, dict[str, None]] = {}
        self._delays: dict[str, float] = {}
        self.index = 0

    def __len__(self) -> int:
        return len(self._tree)

    def get(self, key: str) -> Entry | None:
        """
        Give the entry of ``key``.
        """
        return self._tree.get(key)

    def walk(self, prefix: str) -> Iterator[Entry]:
        """
        Give the entries under ``prefix``, in key order.
        """
        return self._tree.walk(prefix)

    def held_by(self, session: str) -> tuple[str, ...]:
        """
        Give the keys a session holds, in order.
        """
        return tuple(sorted(self._held.get(session, ())))

    def list_index(self, prefix: str, entries: list[Entry]) -> int:
        """
        Give the index of a listing: of its newest entry or newest deletion,
        and of the whole store where neither is.
        """
        if not prefix:
            return self.index
        newest = max((e.modify_index for e in entries), default=0)
        buried = max((t.index for t in self._graves.walk(prefix)), default=0)
        return max(newest, buried) or self.index

    def watch(self, key: str) -> Signal:
        """
        Give what fires when a reader of ``key`` has to look again.
        """
        return self._tree.watch(key)

    def watch_prefix(self, prefix: str) -> Signal:
        """
        Give what fires when a reader of ``prefix`` has to look again.
        """
        return self._tree.watch_prefix(prefix)

    def delay(self, key: str, seconds: float) -> None:
        """
        Let nobody lock ``key`` for that long.
        """
        self._delays[key] = self._seconds() + seconds

    def delayed(self, key: str) -> bool:
        """
        Whether ``key`` is in its lock-delay.
        """
        until = self._delays.get(key)
        if until is None:
            return False
        if self._seconds() < until:
            return True
        del self._delays[key]
        return False

    def forget_delays(self) -> None:
        """
        Lose every lock-delay: they are kept in memory only.
        """
        self._delays.clear()

    def apply(self, changes: list[tuple[str, Entry | None, bool]], index: int) -> None:
        """
        Make the changes of a draft, and bury what they delete.
        """
        for key, entry, whole_tree in changes:
            if whole_tree:
                for old in list(self._tree.walk(key)):
                    self._let_go(old)
                if self._tree.remove_prefix(key) and key:
                    self._bury(key, index)
                continue
            before = self._tree.get(key)
            if before is not None:
                self._let_go(before)
            if entry is not None:
                self._tree.put(key, entry)
                if entry.session:
                    self._held.setdefault(entry.session, {})[key] = None
            elif before is not None:
                self._tree.remove(key)
                self._bury(key, index)
        if changes:
            self.index = index

    def _let_go(self, entry: Entry) -> None:
        if entry.session:
            keys = self._held[entry.session]
            del keys[entry.key]
            if not keys:
                del self._held[entry.session]

    def _bury(self, key: str, index: int) -> None:
        now = self._seconds()
        while self._burials and self._burials[0][0] <= now:
            _, old, since = self._burials.popleft()
            grave = self._graves.get(old)
            if grave is not None and grave.index == since:
                self._graves.remove(old)
        self._graves.put(key, _Tombstone(key, index))
        self._burials.append((now + TOMBSTONE_SECONDS, key, index))

    def take_touched(self) -> list[Signal]:
        """
        Take the signals that are to be fired for what has changed.
        """
        touched, self._tree.touched = self._tree.touched, []
        return touched


class Draft:
    """
    What one entry of the Raft log changes in the store.
    """

    def __init__(self, store: KVStore, index: int) -> None:
        self._store = store
        self._over: dict[str, Entry | None] = {}
        self.index = index
        self.changes: list[tuple[str, Entry | None, bool]] = []

    def get(self, key: str) -> Entry | None:
        """
        Give the entry of ``key`` as the draft leaves it.
        """
        return self._over[key] if key in self._over else self._store.get(key)

    def tree(self, prefix: str) -> list[Entry]:
        """
        Give the entries under ``prefix`` as the draft leaves them.
        """
        found = list(self._store.walk(prefix))
        if not self._over:
            return found
        merged: dict[str, Entry | None] = {e.key: e for e in found}
        merged |= {k: e for k, e in self._over.items() if k.startswith(prefix)}
        return [e for _, e in sorted(merged.items()) if e is not None]

    def _put(self, entry: Entry) -> Entry:
        """
        Write, unless it changes nothing.
        """
        old = self.get(entry.key)
        created = old.create_index if old else self.index
        if old and entry == old._replace(
            create_index=entry.create_index, modify_index=entry.modify_index
        ):
            return old
        new = entry._replace(create_index=created, modify_index=self.index)
        self._over[new.key] = new
        self.changes.append((new.key, new, False))
        return new

    def set(self, key: str, value: bytes, flags: int) -> Entry:
        """
        Write; the holder stays, the count of locks does not.
        """
        old = self.get(key)
        return self._put(Entry(key, value, flags, session=old.session if old else None))

    def cas(self, key: str, value: bytes, flags: int, index: int) -> Entry | None:
        """
        Write if the index is the entry's, 0 meaning no entry; else ``None``.
        """
        old = self.get(key)
        if (old.modify_index if old else 0) != index:
            return None
        return self.set(key, value, flags)

    def lock(self, key: str, value: bytes, flags: int, session: str) -> Entry | None:
        """
        Write and hold; ``None`` if another session holds it.
        """
        old = self.get(key)
        count = old.lock_index if old else 0
        if old and old.session not in (None, session):
            return None
        if not old or old.session is None:
            count += 1
        return self._put(Entry(key, value, flags, lock_index=count, session=session))

    def unlock(self, key: str, value: bytes, flags: int, session: str) -> Entry | None:
        """
        Write and let go; ``None`` if ``session`` does not hold it.
        """
        old = self.get(key)
        if old is None or old.session != session:
            return None
        return self._put(Entry(key, value, flags, lock_index=old.lock_index))

    def let_go(self, key: str) -> None:
        """
        Free a key whose session has ended.
        """
        old = self.get(key)
        if old is not None:
            self._put(old._replace(session=None))

    def delete(self, key: str) -> None:
        """
        Delete, if it exists.
        """
        if self.get(key) is not None:
            self._over[key] = None
            self.changes.append((key, None, False))

    def delete_cas(self, key: str, index: int) -> bool:
        """
        Delete if the index is the entry's; a missing one is well deleted.
        """
        old = self.get(key)
        if old is not None and old.modify_index != index:
            return False
        self.delete(key)
        return True

    def delete_tree(self, prefix: str) -> None:
        """
        Delete everything under ``prefix``.
        """
        found = self.tree(prefix)
        if found:
            self._over |= dict.fromkeys((e.key for e in found), None)
            self.changes.append((prefix, None, True))
