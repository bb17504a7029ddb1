"""
An ordered map of strings in which readers can wait for a change near a key.

# Note [What wakes a watch]

Consul keeps its keys in a radix tree and hangs a channel on every node.  A
reader waits on the deepest node its search has touched, and a writer closes the
channel of every node on its way.  Where the key, or a key under the prefix,
exists, that node is the reader's own, and only changes there wake it.  Where
nothing exists, the search ends at the nearest node there is, and a neighbour's
write wakes the reader.  The tree here has the same nodes at the same places,
splits and merges included, so that it wakes the same readers.

Every key ends, inside, with a NUL, as in Consul: no key is then the beginning
of another, and every key has a leaf of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_END = "\x00"

_V = TypeVar("_V")


class Signal:
    """
    Something that happens once, and calls whoever waited for it.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[Callable[[], None], None] = {}

    def wait(self, waiter: Callable[[], None]) -> None:
        """
        Call ``waiter`` when it happens.
        """
        self._waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        """
        Do not call ``waiter``; no error if it was not waiting.
        """
        self._waiters.pop(waiter, None)

    def fire(self) -> None:
        """
        Call those who wait, in the order they came.
        """
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter()

    @property
    def waiting(self) -> int:
        """
        How many wait.
        """
        return len(self._waiters)


class _Node(Generic[_V]):
    __slots__ = ("edges", "prefix", "signal", "value")

    def __init__(self, prefix: str, value: _V | None = None) -> None:
        self.prefix = prefix
        self.value = value
        self.edges: dict[str, _Node[_V]] = {}
        self.signal: Signal | None = None

    def leaves(self) -> Iterator[_V]:
        """
        Give the values below, in key order.
        """
        stack = [self]
        while stack:
            node = stack.pop()
            if node.value is not None:
                yield node.value
            if node.edges:
                stack += (node.edges[e] for e in sorted(node.edges, reverse=True))


def _common_length(one: str, other: str) -> int:
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


class RadixTree(Generic[_V]):
    """
    The ordered map; see Note [What wakes a watch].

    :ivar touched: signals of the nodes that changes went through.  Whoever
        changes the tree takes them, and fires them once the change is whole.
    """

    def __init__(self) -> None:
        self._root: _Node[_V] = _Node("")
        self._size = 0
        self.touched: list[Signal] = []

    def __len__(self) -> int:
        return self._size

    def _touch(self, node: _Node[_V]) -> None:
        if node.signal is not None:
            self.touched.append(node.signal)
            node.signal = None

    def _descend(self, search: str) -> tuple[_Node[_V], bool]:
        """
        Find the deepest node that ``search`` comes to, and whether everything
        below that node begins with ``search``.
        """
        node = self._root
        while search:
            child = node.edges.get(search[0])
            if child is None:
                return node, False
            node = child
            if not search.startswith(node.prefix):
                return node, node.prefix.startswith(search)
            search = search[len(node.prefix) :]
        return node, True

    def get(self, key: str) -> _V | None:
        """
        Give the value of ``key``, ``None`` if there is none.
        """
        node, found = self._descend(key + _END)
        return node.value if found else None

    def walk(self, prefix: str = "") -> Iterator[_V]:
        """
        Give the values of all keys that begin with ``prefix``, in key order.
        """
        node, found = self._descend(prefix)
        return node.leaves() if found else iter(())

    def watch(self, key: str) -> Signal:
        """
        Give what fires when ``key``, or what is nearest to it, changes.
        """
        return self.watch_prefix(key + _END)

    def watch_prefix(self, prefix: str) -> Signal:
        """
        Give what fires when a key under ``prefix``, or what is nearest to it,
        changes.
        """
        node, _ = self._descend(prefix)
        if node.signal is None:
            node.signal = Signal()
        return node.signal

    def put(self, key: str, value: _V) -> None:
        """
        Set the value of ``key``.
        """
        search = key + _END
        node = self._root
        self._touch(node)
        while search:
            child = node.edges.get(search[0])
            if child is None:
                child = node.edges[search[0]] = _Node(search, value)
                self._size += 1
                return
            self._touch(child)
            if not search.startswith(child.prefix):
                child = self._split(node, child, search)
            search = search[len(child.prefix) :]
            node = child
        node.value = value

    def _split(self, parent: _Node[_V], child: _Node[_V], search: str) -> _Node[_V]:
        common = _common_length(child.prefix, search)
        middle: _Node[_V] = _Node(child.prefix[:common])
        parent.edges[search[0]] = middle
        child.prefix = child.prefix[common:]
        middle.edges[child.prefix[0]] = child
        return middle

    def remove(self, key: str) -> bool:
        """
        Remove ``key``, and say whether it was there.
        """
        return self.remove_prefix(key + _END) > 0

    def remove_prefix(self, prefix: str) -> int:
        """
        Remove all keys that begin with ``prefix``, and say how many they were.
        """
        if not self._descend(prefix)[1]:
            return 0
        path, search = [self._root], prefix
        while search:
            node = path[-1].edges[search[0]]
            path.append(node)
            search = search[len(node.prefix) :]
        for node in path:
            self._touch(node)
        removed = self._clear(path[-1])
        if len(path) > 1:
            gone, parent = path[-1], path[-2]
            del parent.edges[gone.prefix[0]]
            if parent is not self._root and len(parent.edges) == 1:
                self._merge(parent)
        self._size -= removed
        return removed

    def _clear(self, top: _Node[_V]) -> int:
        removed, stack = 0, [top]
        while stack:
            node = stack.pop()
            self._touch(node)
            removed += node.value is not None
            stack += node.edges.values()
        top.edges = {}
        return removed

    def _merge(self, node: _Node[_V]) -> None:
        """
        Let a node take the place of its only child's: the two become one.
        """
        (child,) = node.edges.values()
        self._touch(child)
        node.prefix += child.prefix
        node.value = child.value
        node.edges = child.edges
