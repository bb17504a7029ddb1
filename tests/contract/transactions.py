"""
The contract of transactions: specs 4.3.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import inlineCallbacks

from voltha_coord._types import Steps

from .base import ContractBase
from .calls import Answer, op, value_of
from .kv import NO_SESSION


def _errors(answer: Answer) -> list[tuple[int, str]]:
    return [(error["OpIndex"], error["What"]) for error in answer.json["Errors"]]


def _entries(answer: Answer) -> list[dict[str, Any]]:
    return [result["KV"] for result in answer.json["Results"]]


class TransactionContract(ContractBase):
    """
    Several operations, all or none.
    """

    @inlineCallbacks
    def test_all_or_none(self) -> Steps[None]:
        """
        4.3: 409 rolls everything back, and names every operation at fault.
        """
        a, none = self.key("a"), self.key("none")
        answer = yield self.calls.txn(
            op("check-index", none, index=3),
            op("set", a, b"1"),
            op("check-session", a, session=NO_SESSION),
        )
        written = yield self.calls.get(a)

        self.assertEqual(answer.status, 409)
        self.assertEqual(
            _errors(answer),
            [
                (0, f'failed to check index, key "{none}" doesn\'t exist'),
                (
                    2,
                    f'failed session check for key "{a}", current session "" != '
                    f'"{NO_SESSION}"',
                ),
            ],
        )
        self.assertIsNone(answer.json["Results"])
        self.assertEqual(written.status, 404)

    @inlineCallbacks
    def test_one_index_and_no_values(self) -> Steps[None]:
        """
        4.3: all writes of a transaction have one index; results omit values.
        """
        answer = yield self.calls.txn(
            op("set", self.key("a"), b"1", flags=7),
            op("cas", self.key("b"), b"2", index=0),
        )

        entries = _entries(answer)
        self.assertEqual(answer.status, 200)
        self.assertEqual([e["Value"] for e in entries], [None, None])
        self.assertEqual(len({e["ModifyIndex"] for e in entries}), 1)
        self.assertEqual(entries[0]["Flags"], 7)
        written = (yield self.calls.get(self.key("b"))).entry
        self.assertEqual(value_of(written), b"2")

    @inlineCallbacks
    def test_reads(self) -> Steps[None]:
        """
        4.3: get and get-tree answer values; a missing key refuses a get, an
        empty prefix nothing.
        """
        for name in ("a/1", "a/2"):
            yield self.calls.put(self.key(name), name.encode())
        found = yield self.calls.txn(
            op("get", self.key("a/1")),
            op("get-tree", self.key("a/")),
            op("get-tree", self.key("none/")),
        )
        missing = yield self.calls.txn(op("get", self.key("none")))

        self.assertEqual(
            [value_of(e) for e in _entries(found)], [b"a/1", b"a/1", b"a/2"]
        )
        self.assertEqual(
            _errors(missing), [(0, f'key "{self.key("none")}" doesn\'t exist')]
        )

    @inlineCallbacks
    def test_reads_see_earlier_writes(self) -> Steps[None]:
        """
        4.3: operations are done in order, and see what went before.
        """
        yield self.calls.put(self.key("a/1"), b"old")
        answer = yield self.calls.txn(
            op("set", self.key("a/0"), b"new"),
            op("delete", self.key("a/1")),
            op("get-tree", self.key("a/")),
        )

        tree = _entries(answer)[1:]
        self.assertEqual([value_of(e) for e in tree], [b"new"])

    @inlineCallbacks
    def test_written_and_read_at_once(self) -> Steps[None]:
        """
        4.3: what a transaction writes and what it reads comes in one answer; a
        tree may be empty, and holds all that begins with its name.
        """
        for name in ("r/1", "r/12", "w/1"):
            yield self.calls.put(self.key(name), name.encode())
        answer = yield self.calls.txn(
            op("cas", self.key("o/1"), b"x", index=0),
            op("get", self.key("w/1")),
            op("get-tree", self.key("r/1")),
            op("get-tree", self.key("r/2")),
        )
        refused = yield self.calls.txn(
            op("cas", self.key("o/2"), b"x", index=0), op("get", self.key("w/2"))
        )

        self.assertEqual(
            [(e["Key"], value_of(e)) for e in _entries(answer)],
            [
                (self.key("o/1"), b""),
                (self.key("w/1"), b"w/1"),
                (self.key("r/1"), b"r/1"),
                (self.key("r/12"), b"r/12"),
            ],
        )
        self.assertEqual([position for position, _ in _errors(refused)], [1])

    @inlineCallbacks
    def test_all_that_is_wrong(self) -> Steps[None]:
        """
        4.3: of a transaction of checks alone each one that fails is named, and
        no other.
        """
        yield self.calls.put(self.key("a"), b"1")
        yield self.calls.put(self.key("b"), b"1")
        index = (yield self.calls.get(self.key("b"))).entry["ModifyIndex"]
        answer = yield self.calls.txn(
            op("check-not-exists", self.key("a")),
            op("check-not-exists", self.key("c")),
            op("check-index", self.key("a"), index=1),
            op("check-index", self.key("b"), index=index),
            op("check-index", self.key("c"), index=1),
        )

        self.assertEqual([position for position, _ in _errors(answer)], [0, 2, 4])

    @inlineCallbacks
    def test_read_only_consistent(self) -> Steps[None]:
        """
        4.3: a transaction of reads alone may be consistent or stale, and takes
        no entry of the log.
        """
        yield self.calls.put(self.key("a"), b"1")
        for mode in ("consistent", "stale"):
            answer = yield self.calls.txn(op("get", self.key("a")), **{mode: True})
            self.assertEqual(value_of(_entries(answer)[0]), b"1")

    @inlineCallbacks
    def test_checks(self) -> Steps[None]:
        """
        4.3: check-index, check-session and check-not-exists pass when true,
        and say what is there when not.
        """
        mine = yield self.calls.session()
        a = self.key("a")
        yield self.calls.put(a, b"1", acquire=mine)
        index = (yield self.calls.get(a)).entry["ModifyIndex"]
        good = yield self.calls.txn(
            op("check-index", a, index=index),
            op("check-session", a, session=mine),
            op("check-not-exists", self.key("none")),
        )
        bad = yield self.calls.txn(
            op("check-index", a, index=index + 1),
            op("check-session", a, session=NO_SESSION),
            op("check-not-exists", a),
        )

        self.assertEqual(good.status, 200)
        self.assertEqual(
            _errors(bad),
            [
                (
                    0,
                    f'failed index check for key "{a}", current modify index {index} '
                    f"!= {index + 1}",
                ),
                (
                    1,
                    f'failed session check for key "{a}", current session "{mine}" '
                    f'!= "{NO_SESSION}"',
                ),
                (2, f'key "{a}" exists'),
            ],
        )

    @inlineCallbacks
    def test_cas_and_delete_cas(self) -> Steps[None]:
        """
        4.3: cas and delete-cas refuse a stale index; deleting what is not
        there is no error.
        """
        a = self.key("a")
        yield self.calls.put(a, b"1")
        index = (yield self.calls.get(a)).entry["ModifyIndex"]
        stale = yield self.calls.txn(
            op("cas", a, b"2", index=index - 1), op("delete-cas", a, index=index - 1)
        )
        done = yield self.calls.txn(
            op("delete-cas", a, index=index),
            op("delete-cas", self.key("none"), index=index),
            op("delete", self.key("none")),
        )

        self.assertEqual(
            _errors(stale),
            [
                (0, f'failed to set key "{a}", index is stale'),
                (1, f'failed to delete key "{a}", index is stale'),
            ],
        )
        self.assertEqual((done.status, done.json["Results"] or []), (200, []))

    @inlineCallbacks
    def test_lock_gives_the_token(self) -> Steps[None]:
        """
        4.3: the result of a lock carries the key's ModifyIndex, which rises
        from holder to holder: the fencing token.
        """
        mine = yield self.calls.session()
        other = yield self.calls.session()
        a = self.key("a")
        first = yield self.calls.txn(op("lock", a, b"1", session=mine))
        yield self.calls.txn(op("unlock", a, b"1", session=mine), op("delete", a))
        second = yield self.calls.txn(op("lock", a, b"2", session=other))
        entry = (yield self.calls.get(a)).entry

        one, two = (_entries(answer)[0] for answer in (first, second))
        self.assertEqual((one["Session"], one["LockIndex"]), (mine, 1))
        self.assertEqual(two["ModifyIndex"], entry["ModifyIndex"])
        self.assertGreater(two["ModifyIndex"], one["ModifyIndex"])
        self.assertEqual(two["LockIndex"], 1)

    @inlineCallbacks
    def test_lock_refused(self) -> Steps[None]:
        """
        4.3: a lock for a session that is not there is refused, and so is an
        unlock by who does not hold.
        """
        mine = yield self.calls.session()
        a = self.key("a")
        answer = yield self.calls.txn(
            op("lock", a, b"1", session=NO_SESSION), op("unlock", a, b"1", session=mine)
        )

        self.assertEqual(answer.status, 409)
        (_, invalid), (_, unheld) = _errors(answer)
        self.assertEqual(invalid, f'invalid session "{NO_SESSION}"')
        self.assertIn("lock isn't held, or is held by another session", unheld)

    @inlineCallbacks
    def test_hand_over(self) -> Steps[None]:
        """
        Measured later: one transaction unlocks a key and locks it for another
        session; if that one is over, nothing changes.
        """
        mine = yield self.calls.session()
        heir = yield self.calls.session()
        a = self.key("a")
        yield self.calls.put(a, b"1", acquire=mine)

        def hand_over(session: str) -> Any:
            return self.calls.txn(
                op("check-session", a, session=mine),
                op("unlock", a, b"1", session=mine),
                op("lock", a, b"2", session=session),
            )

        refused = yield hand_over(NO_SESSION)
        before = (yield self.calls.get(a)).entry
        done = yield hand_over(heir)
        after = (yield self.calls.get(a)).entry

        self.assertEqual(refused.status, 409)
        self.assertIn("invalid session", _errors(refused)[0][1])
        self.assertEqual(before["Session"], mine)
        self.assertEqual((done.status, after["Session"]), (200, heir))

    @inlineCallbacks
    def test_hand_over_whole(self) -> Steps[None]:
        """
        A hand-over as it is made: with a fence, with checks of three keys, and
        with a request that it deletes.  Each thing that has changed meanwhile
        refuses it whole and is named; all that is written has one index.
        """
        mine = yield self.calls.session()
        heir = yield self.calls.session()
        leader, term, member, request = map(
            self.key, ("leader", "term", "members/b", "intent/transfer")
        )
        yield self.calls.put(leader, b"a", acquire=mine)
        yield self.calls.put(member, b"1", acquire=heir)
        yield self.calls.put(term, b"1")
        yield self.calls.put(request, b"1")
        index = {}
        for name in (leader, member, term, request):
            index[name] = (yield self.calls.get(name)).entry["ModifyIndex"]

        def hand_over() -> Any:
            return self.calls.txn(
                op("check-session", leader, session=mine),
                op("cas", term, b"2", index=index[term]),
                op("check-index", leader, index=index[leader]),
                op("check-index", member, index=index[member]),
                op("unlock", leader, b"a", session=mine),
                op("lock", leader, b"b", session=heir),
                op("check-index", request, index=index[request]),
                op("delete", request),
            )

        refused = []
        for name, position in ((term, 1), (member, 3), (request, 6)):
            yield self.calls.put(name, b"other")
            refused.append((_errors((yield hand_over()))[0][0], position))
            index[name] = (yield self.calls.get(name)).entry["ModifyIndex"]
        yield self.calls.delete(request)
        gone = yield hand_over()
        yield self.calls.put(request, b"1")
        index[request] = (yield self.calls.get(request)).entry["ModifyIndex"]
        done = yield hand_over()
        key = (yield self.calls.get(leader)).entry
        record = (yield self.calls.get(term)).entry
        left = yield self.calls.get(request)

        for found, position in refused:
            self.assertEqual(found, position)
        self.assertEqual((gone.status, _errors(gone)[0][0]), (409, 6))
        self.assertEqual((done.status, left.status), (200, 404))
        self.assertEqual((value_of(key), key["Session"]), (b"b", heir))
        self.assertEqual(key["ModifyIndex"], record["ModifyIndex"])

    @inlineCallbacks
    def test_fence(self) -> Steps[None]:
        """
        Measured later: check-session alone lets a late write of the same
        session through; with a cas on a record written each time it is refused
        whole.
        """
        mine = yield self.calls.session()
        leader, term, item = (self.key(name) for name in ("leader", "term", "item"))
        yield self.calls.put(leader, b"m1", acquire=mine)
        first = yield self.calls.txn(op("cas", term, b"1", index=0))
        index = _entries(first)[0]["ModifyIndex"]

        def write(value: bytes) -> Any:
            return self.calls.txn(
                op("check-session", leader, session=mine),
                op("cas", term, value, index=index),
                op("set", item, value),
            )

        done = yield write(b"2")
        late = yield write(b"3")
        entry = (yield self.calls.get(item)).entry

        self.assertEqual((done.status, late.status), (200, 409))
        self.assertEqual(value_of(entry), b"2")

    @inlineCallbacks
    def test_unlock_and_delete_leave_no_delay(self) -> Steps[None]:
        """
        Measured later: unlock and delete in one transaction leave no
        lock-delay behind.
        """
        mine = yield self.calls.session(LockDelay="15s")
        other = yield self.calls.session()
        a = self.key("a")
        yield self.calls.put(a, b"1", acquire=mine)
        yield self.calls.txn(
            op("check-session", a, session=mine),
            op("unlock", a, b"", session=mine),
            op("delete", a),
        )
        yield self.calls.destroy(mine)
        taken = yield self.calls.put(a, b"2", acquire=other)

        self.assertEqual(taken.text, "true")

    @inlineCallbacks
    def test_delete_tree(self) -> Steps[None]:
        """
        4.3: delete-tree deletes all under a prefix.
        """
        for name in ("a/1", "a/2", "b"):
            yield self.calls.put(self.key(name), b"v")
        yield self.calls.txn(op("delete-tree", self.key("a/")))
        names = yield self.calls.get(self.backend.prefix, keys=True)

        self.assertEqual(names.json, [self.key("b")])

    @inlineCallbacks
    def test_limits(self) -> Steps[None]:
        """
        4.3: 64 operations are taken; 129 are too many in every version (65 up
        to 1.13); so is a body above 512 KiB.
        """
        one = op("get-tree", self.key("none/"))
        full = yield self.calls.txn(*[one] * 64)
        many = yield self.calls.txn(*[one] * 129)
        large = yield self.calls.txn(op("set", self.key("a"), bytes(400 * 1024)))

        self.assertEqual((full.status, many.status, large.status), (200, 413, 413))
        self.assertIn("too many operations", many.text)

    @inlineCallbacks
    def test_malformed(self) -> Steps[None]:
        """
        4.6: a body that is no list of operations is a bad request; an unknown
        verb refuses the transaction.
        """
        garbage = yield self.calls.ask("PUT", "/v1/txn", b"{")
        verb = yield self.calls.txn(op("no-verb", self.key("a")))

        self.assertEqual((garbage.status, verb.status), (400, 409))
        self.assertEqual(_errors(verb), [(0, 'unknown KV verb "no-verb"')])
