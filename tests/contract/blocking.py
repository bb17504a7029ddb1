"""
The contract of blocking queries and consistency modes: specs 4.4 and 4.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks

from voltha_coord._types import Steps

from .base import ContractBase
from .calls import Answer


class BlockingContract(ContractBase):
    """
    Waiting for a change.
    """

    @inlineCallbacks
    def test_change_wakes(self) -> Steps[None]:
        """
        4.4: a query with the last index waits for a change, and answers it.
        """
        a = self.key("a")
        yield self.calls.put(a, b"1")
        index = (yield self.calls.get(a)).index
        watch = self.calls.get(a, index=index, wait="10s")
        yield self.backend.wait(0.1)
        waited = not watch.called
        yield self.calls.put(a, b"2")
        answer: Answer = yield self.backend.until(watch, 2.0)

        self.assertTrue(waited)
        self.assertGreater(answer.index, index)
        self.assertEqual(answer.entry["ModifyIndex"], answer.index)

    @inlineCallbacks
    def test_wait_ends(self) -> Steps[None]:
        """
        4.4: without a change it answers at the end of the wait, which is
        longer by a sixteenth at most; the index is the same.
        """
        a = self.key("a")
        yield self.calls.put(a, b"1")
        index = (yield self.calls.get(a)).index
        watch = self.calls.get(a, index=index, wait="400ms")
        yield self.backend.wait(0.3)
        early = watch.called
        answer: Answer = yield self.backend.until(watch, 1.0)

        self.assertFalse(early)
        self.assertEqual((answer.status, answer.index), (200, index))

    @inlineCallbacks
    def test_index_zero_never_blocks(self) -> Steps[None]:
        """
        4.4: index 0 answers at once.
        """
        answer = yield self.calls.get(self.key("a"), index=0, wait="10s")

        self.assertEqual(answer.status, 404)

    @inlineCallbacks
    def test_bad_parameters(self) -> Steps[None]:
        """
        4.4: a wait without a unit and an index that is no number are refused.
        """
        wait = yield self.calls.get(self.key("a"), index=1, wait="1")
        index = yield self.calls.get(self.key("a"), index="x")

        self.assertEqual(
            [(a.status, a.text) for a in (wait, index)],
            [(400, "Invalid wait time"), (400, "Invalid index")],
        )

    @inlineCallbacks
    def test_wait_out_of_bounds(self) -> Steps[None]:
        """
        4.4: a negative wait is the default one, and does not end at once; one
        above ten minutes is taken, up to what Go can count.
        """
        a = self.key("a")
        yield self.calls.put(a, b"1")
        index = (yield self.calls.get(a)).index
        watches = [
            self.calls.get(a, index=index, wait=wait) for wait in ("-1s", "11m", _MOST)
        ]
        yield self.backend.wait(0.1)
        ended = [watch.called for watch in watches]
        yield self.calls.put(a, b"2")
        answers: list[Answer] = yield self.backend.until(gatherResults(watches), 2.0)
        beyond = yield self.calls.get(a, index=index, wait="2562048h")

        self.assertEqual(ended, [False] * 3)
        self.assertEqual([answer.status for answer in answers], [200] * 3)
        self.assertEqual((beyond.status, beyond.text), (400, "Invalid wait time"))

    @inlineCallbacks
    def test_delete_wakes_list(self) -> Steps[None]:
        """
        4.4: deleting the last key under a prefix wakes who watches it.
        """
        yield self.calls.put(self.key("a/1"), b"1")
        index = (yield self.calls.get(self.key("a/"), recurse=True)).index
        watch = self.calls.get(self.key("a/"), recurse=True, index=index, wait="10s")
        yield self.backend.wait(0.1)
        yield self.calls.delete(self.key("a/1"))
        answer: Answer = yield self.backend.until(watch, 2.0)

        self.assertEqual(answer.status, 404)
        self.assertGreater(answer.index, index)

    @inlineCallbacks
    def test_keys_alone_wake(self) -> Steps[None]:
        """
        4.4: a watch of names is woken by a new name and by a changed value.
        """
        yield self.calls.put(self.key("a/1"), b"1")
        for name, value in (("a/2", b"1"), ("a/1", b"2")):
            index = (yield self.calls.get(self.key("a/"), keys=True)).index
            watch = self.calls.get(self.key("a/"), keys=True, index=index, wait="10s")
            yield self.backend.wait(0.1)
            yield self.calls.put(self.key(name), value)
            answer: Answer = yield self.backend.until(watch, 2.0)
            self.assertIn(self.key(name), answer.json)

    @inlineCallbacks
    def test_one_name_for_all(self) -> Steps[None]:
        """
        4.4: a watch of names that is cut off at a separator is woken by every
        change of what lies beyond it, deletions included, and answers one name;
        what lies elsewhere does not wake it.
        """
        for name in ("w/1", "w/2", "w/3", "v/1"):
            yield self.calls.put(self.key(name), b"1")
        changes: tuple[tuple[Callable[[], Deferred[Any]], list[str]], ...] = (
            (lambda: self.calls.put(self.key("w/2"), b"2"), ["w/"]),
            (lambda: self.calls.put(self.key("w/4"), b"1"), ["w/"]),
            (lambda: self.calls.delete(self.key("w/1")), ["w/"]),
            (lambda: self.calls.delete(self.key("w/"), recurse=True), []),
            (lambda: self.calls.put(self.key("w/5"), b"1"), ["w/"]),
        )
        for change, left in changes:
            first = yield self.calls.get(self.key("w"), keys=True, separator="/")
            watch = self.calls.get(
                self.key("w"), keys=True, separator="/", index=first.index, wait="10s"
            )
            yield self.backend.wait(0.05)
            yield self.calls.put(self.key("v/1"), str(first.index).encode())
            yield self.backend.wait(0.05)
            self.assertFalse(watch.called)
            yield change()
            answer: Answer = yield self.backend.until(watch, 2.0)

            self.assertGreater(answer.index, first.index)
            names = answer.json if answer.status == 200 else []
            self.assertEqual(names, [self.key(name) for name in left])

    @inlineCallbacks
    def test_unchanged_write_wakes_nobody(self) -> Steps[None]:
        """
        4.1: a write that changes nothing wakes nobody.
        """
        a = self.key("a")
        yield self.calls.put(a, b"1")
        index = (yield self.calls.get(a)).index
        watch = self.calls.get(a, index=index, wait="600ms")
        yield self.backend.wait(0.1)
        yield self.calls.put(a, b"1")
        yield self.backend.wait(0.2)

        self.assertFalse(watch.called)
        yield self.backend.until(watch, 1.0)

    @inlineCallbacks
    def test_session_end_wakes(self) -> Steps[None]:
        """
        4.2, 4.4: the end of a session wakes who watches the key it held.
        """
        mine = yield self.calls.session(Behavior="delete")
        a = self.key("a")
        yield self.calls.put(a, b"1", acquire=mine)
        index = (yield self.calls.get(a)).index
        watch = self.calls.get(a, index=index, wait="10s")
        yield self.backend.wait(0.1)
        yield self.calls.destroy(mine)
        answer: Answer = yield self.backend.until(watch, 2.0)

        self.assertEqual(answer.status, 404)

    @inlineCallbacks
    def test_what_a_neighbour_wakes(self) -> Steps[None]:
        """
        4.4: a write wakes the watches of missing keys and empty prefixes near
        it; those on existing keys and filled prefixes stay asleep.
        """
        for name in ("members/m1", "assignments/m2/a", "status/m1", "leader"):
            yield self.calls.put(self.key(name), b"1")

        @inlineCallbacks
        def woken(name: str, value: bytes) -> Steps[set[str]]:
            watches: dict[str, Deferred[Answer]] = {}
            for key, params in _WATCHED.items():
                index = (yield self.calls.get(self.key(key), **params)).index
                watches[key] = self.calls.get(
                    self.key(key), index=index, wait="500ms", **params
                )
            yield self.backend.wait(0.15)
            yield self.calls.put(self.key(name), value)
            yield self.backend.wait(0.15)
            early = {key for key, watch in watches.items() if watch.called}
            yield self.backend.until(gatherResults([*watches.values()]), 2.0)
            return early

        status = yield woken("status/m1", b"2")
        assignment = yield woken("assignments/m2/a", b"2")
        nothing = yield woken("leader", b"1")

        self.assertEqual(status, {"transfer", "relocations/"})
        self.assertEqual(assignment, {"transfer", "relocations/", "assignments/m1/"})
        self.assertEqual(nothing, set())

    @inlineCallbacks
    def test_index_from_the_future_is_silent(self) -> Steps[None]:
        """
        4.4: an index larger than the server's sleeps its whole wait, although
        a write happens.
        """
        a = self.key("a")
        yield self.calls.put(a, b"1")
        index = (yield self.calls.get(a)).index
        watch = self.calls.get(a, index=index + 1_000_000, wait="500ms")
        yield self.backend.wait(0.1)
        yield self.calls.put(a, b"2")
        yield self.backend.wait(0.2)
        early = watch.called
        answer: Answer = yield self.backend.until(watch, 1.0)

        self.assertFalse(early)
        self.assertLess(answer.index, index + 1_000_000)

    @inlineCallbacks
    def test_index_one_on_missing_key(self) -> Steps[None]:
        """
        4.4: index 1 on a missing key answers at once when the store has
        changed since.
        """
        yield self.calls.put(self.key("a"), b"1")
        answer: Answer = yield self.calls.get(self.key("none"), index=1, wait="10s")

        self.assertEqual(answer.status, 404)
        self.assertGreater(answer.index, 1)

    @inlineCallbacks
    def test_sessions_and_health_block(self) -> Steps[None]:
        """
        4.4: session and health reads block as well.
        """
        check_id = self.check_id()
        yield self.calls.register(check_id)
        yield self.eventually(
            lambda: self.calls.check(check_id), lambda check: check is not None
        )
        sessions = self.follow(
            "/v1/session/list",
            lambda rows: any(row["Name"] == check_id for row in rows),
        )
        checks = self.follow(
            "/v1/health/checks/voltha-coord",
            lambda rows: any(
                (row["CheckID"], row["Status"]) == (check_id, "warning") for row in rows
            ),
        )
        yield self.backend.wait(0.1)
        self.assertFalse(sessions.called or checks.called)
        yield self.calls.session(Name=check_id)
        yield self.calls.report("warn", check_id)
        waits = yield self.backend.until(gatherResults([sessions, checks]), 2.0)

        self.assertTrue(all(waits), "one of them never blocked")
        yield self.calls.deregister(check_id)

    @inlineCallbacks
    def follow(self, path: str, found: Callable[[Any], bool]) -> Steps[int]:
        """
        Read with blocking queries until that is found; give how many it took.

        A wake is no proof of a change: others use this Consul too.
        """
        answer: Answer = yield self.calls.ask("GET", path)
        waits = 0
        while not found(answer.json):
            answer = yield self.calls.ask("GET", path, index=answer.index, wait="10s")
            waits += 1
        return waits

    @inlineCallbacks
    def test_consistency(self) -> Steps[None]:
        """
        4.5: consistent and stale reads answer, and say how fresh they are;
        both together are refused.
        """
        yield self.calls.put(self.key("a"), b"1")
        for mode in ({}, {"consistent": True}, {"stale": True}):
            answer = yield self.calls.get(self.key("a"), **mode)
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers["x-consul-knownleader"], "true")
            self.assertEqual(answer.headers["x-consul-lastcontact"], "0")
        both = yield self.calls.get(self.key("a"), consistent=True, stale=True)
        self.assertEqual(both.status, 400)


#: The longest duration there is, 292 years.
_MOST = "9223372036854775807ns"

#: What is watched while a neighbour is written; an empty key's parameters are
#: those of a single read.
_WATCHED: dict[str, dict[str, object]] = {
    "transfer": {},
    "relocations/": {"recurse": True},
    "assignments/m1/": {"recurse": True},
    "leader": {},
    "members/": {"keys": True},
}
