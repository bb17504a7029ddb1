"""
Tests of the embedded Consul's ordered map and of what wakes its readers.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.embedded.radix import RadixTree, Signal

#: Keys as a cluster has them, few enough to collide often.
_KEYS = st.text("ab/", min_size=1, max_size=6)
_CHANGES = st.lists(st.tuples(st.sampled_from(["put", "remove", "prefix"]), _KEYS))

#: What real Consul 1.8.7 woke, measured with these keys and these writes in
#: this order; a watch on what exists wakes with its own changes alone.
_START = ("members/m1", "assignments/m2/a", "assignments/m2/b", "status/m1", "leader")
_NEAR = ("transfer", "relocations/", "assignments/m1/", "status/m2", "lead")
_WOKEN = (
    ("put", "status/m1", {"transfer", "relocations/", "status/m2"}),
    ("put", "assignments/m2/a", {"transfer", "relocations/", "assignments/m1/"}),
    ("put", "assignments/m2/c", {"transfer", "relocations/", "assignments/m1/"}),
    ("put", "leader", {"transfer", "relocations/", "lead"}),
    ("put", "lea", {"transfer", "relocations/", "lead"}),
    ("remove", "lea", {"transfer", "relocations/", "lead"}),
    ("put", "members/m0", {"transfer", "relocations/"}),
    ("prefix", "assignments/", {"transfer", "relocations/", "assignments/m1/"}),
    ("put", "assignments/m2/a", {"transfer", "relocations/", "assignments/m1/"}),
)


def _change(tree: RadixTree[str], verb: str, key: str) -> None:
    if verb == "put":
        tree.put(key, key)
    elif verb == "remove":
        tree.remove(key)
    else:
        tree.remove_prefix(key)


class MapTests(SynchronousTestCase):
    """
    The tree is a sorted map.
    """

    @given(_CHANGES, _KEYS)
    def test_as_a_sorted_dict(
        self, changes: list[tuple[str, str]], prefix: str
    ) -> None:
        """
        After any changes it holds what a dict holds, and gives it in order.
        """
        tree: RadixTree[str] = RadixTree()
        model: dict[str, str] = {}
        for verb, key in changes:
            _change(tree, verb, key)
            if verb == "put":
                model[key] = key
            else:
                gone = [
                    k
                    for k in model
                    if k == key or (verb == "prefix" and k.startswith(key))
                ]
                for k in gone:
                    del model[k]

        self.assertEqual(list(tree.walk()), sorted(model))
        self.assertEqual(
            list(tree.walk(prefix)), sorted(k for k in model if k.startswith(prefix))
        )
        self.assertEqual(tree.get(prefix), model.get(prefix))
        self.assertEqual(len(tree), len(model))

    @given(_CHANGES, _KEYS, st.tuples(st.sampled_from(["put", "remove"]), _KEYS))
    def test_no_change_is_missed(
        self, changes: list[tuple[str, str]], prefix: str, last: tuple[str, str]
    ) -> None:
        """
        Whatever went before, a change under a prefix wakes who watches it.
        """
        tree: RadixTree[str] = RadixTree()
        for verb, key in changes:
            _change(tree, verb, key)
        before = list(tree.walk(prefix))
        signal = tree.watch_prefix(prefix)
        tree.touched.clear()
        _change(tree, *last)

        if list(tree.walk(prefix)) != before:
            self.assertIn(signal, tree.touched)


class WakeTests(SynchronousTestCase):
    """
    Whom a write wakes.
    """

    def _watch(self, tree: RadixTree[str], name: str) -> Signal:
        if name.endswith("/"):
            return tree.watch_prefix("w/" + name)
        return tree.watch("w/" + name)

    def test_as_measured(self) -> None:
        """
        Watches of missing keys and empty prefixes are woken as by real Consul.
        """
        tree: RadixTree[str] = RadixTree()
        for name in _START:
            tree.put("w/" + name, "1")
        for verb, name, expected in _WOKEN:
            signals = {near: self._watch(tree, near) for near in _NEAR}
            tree.touched.clear()
            _change(tree, verb, "w/" + name)
            woken = {near for near, s in signals.items() if s in tree.touched}

            self.assertEqual(woken, expected, (verb, name))

    def test_existing_key_sleeps(self) -> None:
        """
        A watch of a key that exists is not woken by a neighbour.
        """
        tree: RadixTree[str] = RadixTree()
        for name in _START:
            tree.put(name, "1")
        signal = tree.watch("leader")
        tree.put("status/m1", "2")

        self.assertNotIn(signal, tree.touched)

    def test_signal(self) -> None:
        """
        A signal calls each waiter once, in order, but not one that left.
        """
        signal, calls = Signal(), list[str]()

        def first() -> None:
            calls.append("first")

        def second() -> None:
            calls.append("second")

        def third() -> None:
            calls.append("third")

        for waiter in (second, third, first):
            signal.wait(waiter)
        signal.forget(third)
        signal.fire()
        signal.fire()

        self.assertEqual(calls, ["second", "first"])
        self.assertEqual(signal.waiting, 0)
