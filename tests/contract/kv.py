"""
The contract of keys and values: specs 4.1.
"""

from __future__ import annotations

from twisted.internet.defer import inlineCallbacks

from voltha_coord._types import Steps

from .base import ContractBase
from .calls import value_of

#: A session id that never was.
NO_SESSION = "11111111-1111-1111-1111-111111111111"


class KvContract(ContractBase):
    """
    Reading, writing, locking and deleting keys.
    """

    @inlineCallbacks
    def test_missing_key(self) -> Steps[None]:
        """
        4.1: a missing key answers 404, with an index of at least 1.
        """
        answer = yield self.calls.get(self.key("none"))

        self.assertEqual((answer.status, answer.body), (404, b""))
        self.assertGreaterEqual(answer.index, 1)

    @inlineCallbacks
    def test_entry(self) -> Steps[None]:
        """
        4.1: a key answers a list of one, with all fields; ``Session`` is
        absent when free, and the index is its ModifyIndex.
        """
        written = yield self.calls.put(self.key("a"), b"\x00value", flags=42)
        answer = yield self.calls.get(self.key("a"))

        self.assertEqual((written.status, written.text), (200, "true"))
        entry = answer.entry
        self.assertEqual(value_of(entry), b"\x00value")
        self.assertEqual(
            (entry["Key"], entry["Flags"], entry["LockIndex"]), (self.key("a"), 42, 0)
        )
        self.assertEqual(entry["CreateIndex"], entry["ModifyIndex"])
        self.assertEqual(entry["ModifyIndex"], answer.index)
        self.assertNotIn("Session", entry)

    @inlineCallbacks
    def test_empty_value(self) -> Steps[None]:
        """
        4.1: an empty value is null.
        """
        yield self.calls.put(self.key("a"))
        answer = yield self.calls.get(self.key("a"))

        self.assertIsNone(answer.entry["Value"])

    @inlineCallbacks
    def test_raw(self) -> Steps[None]:
        """
        4.1: ``raw`` answers the bytes alone.
        """
        yield self.calls.put(self.key("a"), b"\xff\x00")
        answer = yield self.calls.get(self.key("a"), raw=True)

        self.assertEqual(answer.body, b"\xff\x00")

    @inlineCallbacks
    def test_recurse_is_a_string_prefix(self) -> Steps[None]:
        """
        4.1: ``recurse`` matches the beginning of the string, in order; without
        a slash at its end it takes in neighbours.
        """
        for name in ("m1/b", "m1/a", "m10/a"):
            yield self.calls.put(self.key(name), b"v")
        loose = yield self.calls.get(self.key("m1"), recurse=True)
        strict = yield self.calls.get(self.key("m1/"), recurse=True)

        self.assertEqual(
            [e["Key"] for e in loose.json],
            [self.key(name) for name in ("m1/a", "m1/b", "m10/a")],
        )
        self.assertEqual(
            [e["Key"] for e in strict.json], [self.key("m1/a"), self.key("m1/b")]
        )
        self.assertEqual(strict.index, max(e["ModifyIndex"] for e in strict.json))

    @inlineCallbacks
    def test_recurse_on_nothing(self) -> Steps[None]:
        """
        4.1: ``recurse`` of an empty prefix answers 404, with an index.
        """
        answer = yield self.calls.get(self.key("none/"), recurse=True)

        self.assertEqual(answer.status, 404)
        self.assertGreaterEqual(answer.index, 1)

    @inlineCallbacks
    def test_keys(self) -> Steps[None]:
        """
        4.1: ``keys`` answers names, up to the separator if there is one.
        """
        for name in ("a/1", "a/2", "b"):
            yield self.calls.put(self.key(name), b"v")
        names = yield self.calls.get(self.backend.prefix, keys=True)
        cut = yield self.calls.get(self.backend.prefix, keys=True, separator="/")

        self.assertEqual(names.json, [self.key(name) for name in ("a/1", "a/2", "b")])
        self.assertEqual(cut.json, [self.key(name) for name in ("a/", "b")])

    @inlineCallbacks
    def test_keys_of_nothing(self) -> Steps[None]:
        """
        4.1: ``keys`` of an empty prefix answers 404.
        """
        answer = yield self.calls.get(self.key("none/"), keys=True)

        self.assertEqual((answer.status, answer.body), (404, b""))

    @inlineCallbacks
    def test_conflicting_flags(self) -> Steps[None]:
        """
        4.1: more than one of cas, acquire and release is refused.
        """
        answer = yield self.calls.put(self.key("a"), b"", cas=0, acquire=NO_SESSION)

        self.assertEqual(answer.status, 400)
        self.assertIn("Conflicting flags", answer.text)

    @inlineCallbacks
    def test_cas(self) -> Steps[None]:
        """
        4.1: ``cas=0`` creates only; another index must be the key's own.
        """
        first = yield self.calls.put(self.key("a"), b"1", cas=0)
        again = yield self.calls.put(self.key("a"), b"2", cas=0)
        entry = (yield self.calls.get(self.key("a"))).entry
        index = entry["ModifyIndex"]
        stale = yield self.calls.put(self.key("a"), b"3", cas=index - 1)
        fresh = yield self.calls.put(self.key("a"), b"4", cas=index)
        missing = yield self.calls.put(self.key("b"), b"5", cas=index)

        self.assertEqual(
            [a.text for a in (first, again, stale, fresh, missing)],
            ["true", "false", "false", "true", "false"],
        )
        entry = (yield self.calls.get(self.key("a"))).entry
        self.assertEqual(value_of(entry), b"4")
        self.assertEqual(entry["CreateIndex"], index)
        self.assertGreater(entry["ModifyIndex"], index)

    @inlineCallbacks
    def test_unchanged_write_keeps_index(self) -> Steps[None]:
        """
        4.1: a write that changes nothing keeps the ModifyIndex.
        """
        yield self.calls.put(self.key("a"), b"1", flags=1)
        before = (yield self.calls.get(self.key("a"))).entry
        yield self.calls.put(self.key("a"), b"1", flags=1)
        same = (yield self.calls.get(self.key("a"))).entry
        yield self.calls.put(self.key("a"), b"1", flags=2)
        changed = (yield self.calls.get(self.key("a"))).entry

        self.assertEqual(same, before)
        self.assertGreater(changed["ModifyIndex"], before["ModifyIndex"])

    @inlineCallbacks
    def test_acquire(self) -> Steps[None]:
        """
        4.1: acquiring a free key sets Session and counts LockIndex up; the
        holder may do it again, which writes and does not count; another may
        not.
        """
        mine = yield self.calls.session()
        other = yield self.calls.session()
        key = self.key("a")
        taken = yield self.calls.put(key, b"1", acquire=mine)
        first = (yield self.calls.get(key)).entry
        again = yield self.calls.put(key, b"1", acquire=mine)
        same = (yield self.calls.get(key)).entry
        refused = yield self.calls.put(key, b"3", acquire=other)
        updated = yield self.calls.put(key, b"2", acquire=mine)
        last = (yield self.calls.get(key)).entry

        self.assertEqual(
            [a.text for a in (taken, again, refused, updated)],
            ["true", "true", "false", "true"],
        )
        self.assertEqual(refused.status, 200)
        self.assertEqual((first["Session"], first["LockIndex"]), (mine, 1))
        self.assertEqual(same, first)
        self.assertEqual((value_of(last), last["LockIndex"]), (b"2", 1))
        self.assertGreater(last["ModifyIndex"], first["ModifyIndex"])

    @inlineCallbacks
    def test_acquire_without_session(self) -> Steps[None]:
        """
        4.1: acquiring for a session that is not there is an error of its own,
        by text.
        """
        unknown = yield self.calls.put(self.key("a"), b"", acquire=NO_SESSION)
        malformed = yield self.calls.put(self.key("a"), b"", acquire="no-uuid")
        empty = yield self.calls.put(self.key("a"), b"", acquire="")

        self.assertEqual(
            (unknown.status, unknown.text), (500, f'invalid session "{NO_SESSION}"')
        )
        self.assertEqual(malformed.status, 500)
        self.assertIn("failed session lookup: index error", malformed.text)
        self.assertEqual((empty.status, empty.text), (500, "missing session"))

    @inlineCallbacks
    def test_locks_are_advisory(self) -> Steps[None]:
        """
        4.1: anyone may overwrite a held key; the holder stays, and LockIndex
        goes to 0: it is no fencing token.
        """
        mine = yield self.calls.session()
        key = self.key("a")
        yield self.calls.put(key, b"1", acquire=mine)
        yield self.calls.put(key, b"2")
        entry = (yield self.calls.get(key)).entry

        self.assertEqual(
            (value_of(entry), entry["Session"], entry["LockIndex"]), (b"2", mine, 0)
        )

    @inlineCallbacks
    def test_delete_of_held_key(self) -> Steps[None]:
        """
        4.1: deleting a held key frees it with no lock-delay, and its LockIndex
        begins at 1 again.
        """
        mine = yield self.calls.session(LockDelay="15s")
        other = yield self.calls.session()
        key = self.key("a")
        yield self.calls.put(key, b"1", acquire=mine)
        yield self.calls.delete(key)
        taken = yield self.calls.put(key, b"2", acquire=other)
        entry = (yield self.calls.get(key)).entry

        self.assertEqual(taken.text, "true")
        self.assertEqual((entry["Session"], entry["LockIndex"]), (other, 1))

    @inlineCallbacks
    def test_release(self) -> Steps[None]:
        """
        4.1: only the holder releases; its value is kept, no lock-delay follows.
        """
        mine = yield self.calls.session(LockDelay="15s")
        other = yield self.calls.session()
        key = self.key("a")
        yield self.calls.put(key, b"1", acquire=mine)
        wrong = yield self.calls.put(key, b"x", release=other)
        right = yield self.calls.put(key, b"2", release=mine)
        entry = (yield self.calls.get(key)).entry
        again = yield self.calls.put(key, b"3", release=mine)
        taken = yield self.calls.put(key, b"4", acquire=other)

        self.assertEqual(
            [a.text for a in (wrong, right, again, taken)],
            ["false", "true", "false", "true"],
        )
        self.assertNotIn("Session", entry)
        self.assertEqual((value_of(entry), entry["LockIndex"]), (b"2", 1))
        last = (yield self.calls.get(key)).entry
        self.assertEqual(last["LockIndex"], 2)

    @inlineCallbacks
    def test_delete(self) -> Steps[None]:
        """
        4.1: a delete is true also of a missing key; with cas the index must be
        the key's, 0 never is, and a missing key is well deleted.
        """
        key = self.key("a")
        yield self.calls.put(key, b"1")
        index = (yield self.calls.get(key)).entry["ModifyIndex"]
        zero = yield self.calls.delete(key, cas=0)
        stale = yield self.calls.delete(key, cas=index + 1)
        done = yield self.calls.delete(key, cas=index)
        missing = yield self.calls.delete(key, cas=index)
        plain = yield self.calls.delete(key)

        self.assertEqual(
            [a.text for a in (zero, stale, done, missing, plain)],
            ["false", "false", "true", "true", "true"],
        )
        gone = yield self.calls.get(key)
        self.assertEqual(gone.status, 404)

    @inlineCallbacks
    def test_delete_tree(self) -> Steps[None]:
        """
        4.1: ``recurse`` deletes all under a prefix, and nothing beside it.
        """
        for name in ("a/1", "a/2", "b"):
            yield self.calls.put(self.key(name), b"v")
        yield self.calls.delete(self.key("a/"), recurse=True)
        names = yield self.calls.get(self.backend.prefix, keys=True)

        self.assertEqual(names.json, [self.key("b")])

    @inlineCallbacks
    def test_list_index_after_delete(self) -> Steps[None]:
        """
        4.1: a delete leaves a tombstone, so that the index of a listing goes
        on rising, also when nothing is left.
        """
        for name in ("a/1", "a/2"):
            yield self.calls.put(self.key(name), b"v")
        indexes = [(yield self.calls.get(self.key("a/"), recurse=True)).index]
        for name in ("a/2", "a/1"):
            yield self.calls.delete(self.key(name))
            indexes.append((yield self.calls.get(self.key("a/"), recurse=True)).index)

        self.assertEqual(indexes, sorted(set(indexes)))

    @inlineCallbacks
    def test_value_size(self) -> Steps[None]:
        """
        4.1: 512 KiB are taken, one byte more is refused with 413.
        """
        fits = yield self.calls.put(self.key("a"), bytes(512 * 1024))
        large = yield self.calls.put(self.key("a"), bytes(512 * 1024 + 1))

        self.assertEqual((fits.status, large.status), (200, 413))
        self.assertIn("too large", large.text)

    @inlineCallbacks
    def test_paths_are_cleaned(self) -> Steps[None]:
        """
        4.1: ``//``, ``.`` and ``..`` are redirected, for reads and writes, and
        nothing is stored.
        """
        moves = {"/a": "a", "./a": "a", "b/../a": "a", "a/.": "a", "a/./": "a/"}
        for name, clean in moves.items():
            for method in ("GET", "PUT", "DELETE"):
                moved = yield self.calls.ask(method, f"/v1/kv/{self.key(name)}")
                self.assertEqual(
                    (moved.status, moved.headers["location"]),
                    (301, f"/v1/kv/{self.key(clean)}"),
                )
        names = yield self.calls.get(self.backend.prefix, keys=True)

        self.assertEqual(names.status, 404)

    @inlineCallbacks
    def test_escaped_slash(self) -> Steps[None]:
        """
        4.1: ``%2F`` is a slash of the key.
        """
        status = yield self.backend.put_encoded(f"/v1/kv/{self.key('a%2Fb')}")
        names = yield self.calls.get(self.backend.prefix, keys=True)

        self.assertEqual(status, 200)
        self.assertEqual(names.json, [self.key("a/b")])

    @inlineCallbacks
    def test_control_characters(self) -> Steps[None]:
        """
        4.1: a control character in a key is refused with 400.
        """
        answer = yield self.calls.put(self.key("a\x01b"), b"v")

        self.assertEqual(answer.status, 400)

    @inlineCallbacks
    def test_empty_key(self) -> Steps[None]:
        """
        4.6: 400 for a bad parameter, in plain text.
        """
        answer = yield self.calls.put("", b"v")

        self.assertEqual((answer.status, answer.text), (400, "Missing key name"))
        self.assertTrue(answer.headers["content-type"].startswith("text/plain"))
