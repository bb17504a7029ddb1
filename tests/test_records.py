"""
The records: what is written is read back, and nothing that is read surprises.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord._json import MAX_DEPTH, dump, parse
from voltha_coord._status import CHUNK_BYTES, ERROR_CHARACTERS
from voltha_coord.consul.model import Entry
from voltha_coord.errors import CoordinationError
from voltha_coord.keys import Keys
from voltha_coord.records import (
    MAX_WEIGHT,
    PREPARE,
    Assignment,
    Member,
    OwnerRecord,
    RecordError,
    StatusReport,
    TermRecord,
    TransferRequest,
    WorkItem,
    WorkStatus,
    decode_status,
    encode_status,
)

KEYS = Keys()

#: Values anyone may write under the prefix, none of them a record (G9).
GARBAGE = (
    b"",
    b"\x00",
    b"\xff\xfe\x00binary",
    b"{",
    b"{}x",
    b"NaN",
    b"Infinity",
    b"[1e999]",
    b"null",
    b"3",
    b'"alive"',
    b"[]",
    b"alive ",
    b"[" * 200_000,
    b'{"a":' * 90 + b"1" + b"}" * 90,
    b"9" * 5000,
    b"x" * 512 * 1024,
    "ALÏVE".encode("utf-16"),
)

#: JSON whose numbers and texts survive a round trip.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=()), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=6), JSON, max_size=4)
FIELDS = [
    *("status", "host_address", "rest_port", "weight", "resources", "app"),
    *("can_lead", "leaving", "check", "node", "version", "started_at", "holder"),
    *("session", "token", "seq", "released", "ttl", "owner", "order", "limits"),
    *("reference", "config", "metadata", "force", "phase", "item", "raw", "report"),
    *("count", "items", "target", "id", "refused"),
]
#: Objects with the names of our fields and anything in them.
ODD_OBJECTS = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8)


#: What reads a record whose value has to be one.
READERS: tuple[Callable[[Entry], Any], ...] = (
    TermRecord.from_entry,
    OwnerRecord.from_entry,
    TransferRequest.from_entry,
)


def entry(value: bytes, key: str = KEYS.term, session: str | None = "s") -> Entry:
    """
    Give a key as it was read.
    """
    return Entry(key, value, modify_index=7, session=session)


def member(value: bytes, session: str | None = "s") -> Member:
    """
    Read a member's record.
    """
    return Member.from_entry(entry(value, KEYS.member("m1"), session), KEYS)


class JsonTests(SynchronousTestCase):
    """
    Reading and writing JSON.
    """

    def test_garbage(self) -> None:
        """
        What is no JSON object is a record error that names the key, shown.
        """
        for value in GARBAGE:
            for read in READERS:
                error = self.assertRaises(RecordError, read, entry(value, "a b"))
                self.assertEqual(error.key, "a%20b")
                self.assertIn(error.reason, str(error))
                self.assertLess(len(str(error)), 300)

    def test_reasons(self) -> None:
        """
        The reason says what is wrong.
        """
        for value, words in (
            (b"\xff", "binary"),
            (b"[" * 100_000, "too deeply"),
            (b'{"a":' * 90 + b"1" + b"}" * 90, "too deeply"),
            (b"[NaN]", "NaN"),
            (b"[1e999]", "out of range"),
            (b"{", "not JSON"),
            (b"[]", "a list, not"),
            (b"null", "null, not"),
        ):
            error = self.assertRaises(RecordError, TermRecord.from_entry, entry(value))
            self.assertIn(words, error.reason)

    def test_depth(self) -> None:
        """
        Nesting is limited, brackets in texts are not nesting.
        """
        deepest = b"[" * (MAX_DEPTH - 1) + b"1" + b"]" * (MAX_DEPTH - 1)

        self.assertEqual(dump(parse("k", deepest)), deepest)
        self.assertRaises(RecordError, parse, "k", b"[" + deepest + b"]")
        self.assertEqual(parse("k", b'["' + b"[" * 999 + b'"]'), ["[" * 999])

    def test_error_family(self) -> None:
        """
        It is one of ours, and a ValueError.
        """
        self.assertTrue(issubclass(RecordError, CoordinationError))
        self.assertTrue(issubclass(RecordError, ValueError))

    @given(JSON)
    def test_round_trip(self, value: Any) -> None:
        """
        Whatever can be read is written back, in one form only.
        """
        self.assertEqual(parse("k", dump(value)), value)
        self.assertEqual(dump(parse("k", dump(value))), dump(value))

    @given(st.binary(max_size=40) | ODD_OBJECTS.map(dump))
    def test_only_record_errors(self, value: bytes) -> None:
        """
        Whatever the bytes, reading gives a record or a record error, and a
        record can be written again.
        """
        for read in READERS:
            with contextlib.suppress(RecordError):
                read(entry(value)).encode()
        with contextlib.suppress(RecordError):
            decode_status({0: value, 1: value})
        member(value).encode()
        WorkItem.from_value("w", value).encode()
        Assignment.from_value("m", "w", value).encode()


class MemberTests(SynchronousTestCase):
    """
    Member records.
    """

    OURS = Member(
        "m1",
        host_address="10.0.0.1",
        rest_port=8880,
        weight=2.5,
        resources={"cpu": 400},
        app="blue",
        can_lead=False,
        leaving=True,
        check="service:x",
        node="n1",
        version="1.0",
        started_at=12.5,
        session="s",
        modify_index=7,
    )

    def test_round_trip(self) -> None:
        """
        A record of ours is read back as it was.
        """
        for record in (
            self.OURS,
            Member("m1", version="1", session="s", modify_index=7),
        ):
            self.assertEqual(member(record.encode()), record)

    def test_original(self) -> None:
        """
        The original's bare text is a member of weight 1 that may lead.
        """
        found = member(b"alive")

        self.assertEqual(found, Member("m1", session="s", modify_index=7, foreign=True))
        self.assertTrue(found.can_lead)

    def test_later_original(self) -> None:
        """
        So is the object its later versions write.
        """
        found = member(b'{"status": "alive", "host_address": "10.0.0.2"}')

        self.assertTrue(found.foreign)
        self.assertEqual(found.host_address, "10.0.0.2")
        self.assertIsNone(found.problem)

    def test_garbage_is_a_member(self) -> None:
        """
        Whatever its value is, a member is a member, of weight 1, and what is
        wrong is told (G9).
        """
        for value in GARBAGE:
            found = member(value)

            self.assertEqual(
                evolve(found, problem=None),
                Member("m1", session="s", modify_index=7, foreign=True),
            )
            self.assertTrue(found.problem)

    def test_wrong_fields(self) -> None:
        """
        A field of the wrong type counts as missing, is named, and spoils no
        other.
        """
        for field, value in (
            ("weight", "2"),
            ("weight", True),
            ("weight", -1),
            ("weight", MAX_WEIGHT + 1),
            ("rest_port", 65536),
            ("rest_port", 1.5),
            ("rest_port", -1),
            ("resources", []),
            ("app", 3),
            ("can_lead", "yes"),
            ("leaving", 0),
            ("started_at", "now"),
            ("status", {}),
            ("host_address", ["h"]),
        ):
            values = {**json.loads(self.OURS.encode()), field: value}
            found = member(json.dumps(values).encode())
            default = getattr(Member("m1"), field)

            self.assertIn(field, found.problem or "")
            self.assertEqual(
                evolve(found, problem=None), evolve(self.OURS, **{field: default})
            )

    def test_null_is_missing(self) -> None:
        """
        A field that is null is one that is not there.
        """
        values = dict.fromkeys(json.loads(self.OURS.encode()))
        found = member(json.dumps({**values, "version": "1"}).encode())

        self.assertEqual(found, Member("m1", version="1", session="s", modify_index=7))

    def test_weight_zero(self) -> None:
        """
        A weight of 0 is one.
        """
        self.assertEqual(member(b'{"version": "1", "weight": 0}').weight, 0)

    def test_later_version(self) -> None:
        """
        Fields this version does not know are kept and written back.
        """
        values = {**json.loads(self.OURS.encode()), "version": "9", "zone": {"a": [1]}}
        found = member(json.dumps(values).encode())

        self.assertIsNone(found.problem)
        self.assertEqual(found.extra, {"zone": {"a": [1]}})
        rewritten = json.loads(evolve(found, leaving=False).encode())
        self.assertEqual(rewritten, {**values, "leaving": False})

    def test_live_by_session(self) -> None:
        """
        A key that no session holds is no live member, ours or the original's.
        """
        for value in (b"alive", self.OURS.encode()):
            self.assertTrue(member(value).live)
            self.assertFalse(member(value, session=None).live)

    def test_other_keys(self) -> None:
        """
        A key that is not one of a member is a record error.
        """
        for key in (
            KEYS.members,
            KEYS.member("a/b"),
            KEYS.member("a b"),
            KEYS.member(".probe"),
            KEYS.term,
            "x",
        ):
            self.assertRaises(
                RecordError, Member.from_entry, entry(b"alive", key), KEYS
            )


class TermAndOwnerTests(SynchronousTestCase):
    """
    The records that say under which session somebody acts.
    """

    TERM = TermRecord("m1", "s", 4711, "service:x", "n1", 12, True, 15.0, {"new": 1})
    OWNER = OwnerRecord("m1", "s", "service:x", "n1", 15.0, {"new": [1]})

    def test_round_trip(self) -> None:
        """
        Both are read back as they were, unknown fields included.
        """
        term, owner = self.TERM, self.OWNER

        self.assertEqual(TermRecord.from_entry(entry(term.encode())), term)
        self.assertEqual(OwnerRecord.from_entry(entry(owner.encode())), owner)

    def test_documented_fields(self) -> None:
        """
        The documented fields are always written.
        """
        self.assertEqual(
            set(json.loads(TermRecord("m", "s").encode())),
            {"holder", "session", "token", "check", "node", "seq", "released"},
        )
        self.assertEqual(
            set(json.loads(OwnerRecord("m", "s").encode())),
            {"owner", "session", "check", "node"},
        )

    def test_needed_fields(self) -> None:
        """
        Without a holder or a session there is no such record.
        """
        for values, name in (
            ({"session": "s"}, "holder"),
            ({"holder": "m"}, "session"),
            ({"holder": "", "session": "s"}, "holder"),
            ({"holder": 3, "session": "s"}, "holder"),
            ({"holder": "m", "session": None}, "session"),
            ({"holder": "m", "session": "s", "token": -1}, "token"),
            ({"holder": "m", "session": "s", "token": 2**64}, "token"),
            ({"holder": "m", "session": "s", "released": "no"}, "released"),
            ({"holder": "m", "session": "s", "ttl": True}, "ttl"),
        ):
            error = self.assertRaises(
                RecordError, TermRecord.from_entry, entry(dump(values))
            )
            self.assertIn(name, error.reason)
        for values, name in (
            ({"session": "s"}, "owner"),
            ({"owner": "m"}, "session"),
            ({"owner": "m", "session": "s", "node": 3}, "node"),
        ):
            error = self.assertRaises(
                RecordError, OwnerRecord.from_entry, entry(dump(values))
            )
            self.assertIn(name, error.reason)

    def test_all_faults_are_named(self) -> None:
        """
        One error names every field that is wrong.
        """
        error = self.assertRaises(RecordError, TermRecord.from_entry, entry(b"{}"))

        self.assertIn("holder is missing", error.reason)
        self.assertIn("session is missing", error.reason)


class TransferRequestTests(SynchronousTestCase):
    """
    The request that leadership be handed over.
    """

    def test_round_trip(self) -> None:
        """
        It is read back as it was, refused or not, unknown fields included.
        """
        for request in (
            TransferRequest("m2", 4711, "x"),
            TransferRequest("", 4711, "x", "m2 is leaving", {"new": [1]}),
        ):
            read = TransferRequest.from_entry(entry(request.encode(), KEYS.transfer))
            self.assertEqual(read, request)

    def test_documented_fields(self) -> None:
        """
        The documented fields are always written, a refusal when there is one.
        """
        asked = json.loads(TransferRequest("m2", 4711, "x").encode())
        refused = json.loads(TransferRequest("", 1, "x", "no").encode())

        self.assertEqual(asked, {"target": "m2", "token": 4711, "id": "x"})
        self.assertEqual(refused["refused"], "no")

    def test_any_target(self) -> None:
        """
        Without a target any member is meant, without a token no leader.
        """
        found = TransferRequest.from_entry(entry(b'{"id": "x"}', KEYS.transfer))

        self.assertEqual((found.target, found.token), ("", 0))

    def test_wrong_fields(self) -> None:
        """
        With a wrong field, or without an id, it is no request (G9).
        """
        for values, name in (
            ({}, "id"),
            ({"id": "x", "target": 3}, "target"),
            ({"id": "x", "token": "4711"}, "token"),
            ({"id": "x", "refused": True}, "refused"),
        ):
            error = self.assertRaises(
                RecordError, TransferRequest.from_entry, entry(dump(values))
            )
            self.assertIn(name, error.reason)


class WorkItemTests(SynchronousTestCase):
    """
    Work items.
    """

    def test_plain(self) -> None:
        """
        What is no JSON object is a plain item of weight 1 that is to run, and
        keeps its bytes; the original's placeholders are such.
        """
        for value in (*GARBAGE, b"placeholder for device group 1 data"):
            item = WorkItem.from_value("w", value)

            self.assertEqual(item, WorkItem("w", raw=value))
            self.assertEqual((item.order, item.weight), ("start", 1))
            self.assertEqual(item.encode(), value)

    def test_round_trip(self) -> None:
        """
        An item is read back as it was, unknown fields included.
        """
        item = WorkItem(
            "w",
            order="stop",
            limits={"cpu": 10},
            reference="r",
            config={"command": ["x"]},
            metadata={"a": "b"},
            force=True,
            weight=0.5,
            extra={"new": 1},
        )

        self.assertEqual(WorkItem.from_value("w", item.encode()), item)

    def test_defaults_are_not_written(self) -> None:
        """
        An item that says nothing is an empty object.
        """
        self.assertEqual(WorkItem("w").encode(), b"{}")

    def test_wrong_fields(self) -> None:
        """
        A field of the wrong type counts as missing and is named.
        """
        item = WorkItem.from_value("w", b'{"order": 1, "limits": [], "weight": "x"}')

        self.assertEqual(evolve(item, problem=None), WorkItem("w"))
        for name in ("order", "limits", "weight"):
            self.assertIn(name, item.problem or "")

    def test_digest(self) -> None:
        """
        The digest follows the description, not its blanks or order.
        """
        one = WorkItem.from_value(
            "w", b'{"config": {"a": 1, "b": 2}, "reference": "r"}'
        )
        same = WorkItem.from_value("w", b'{"reference":"r","config":{"b":2,"a":1}}')

        self.assertEqual(one.digest, same.digest)
        for change in ({"config": 1}, {"limits": {"cpu": 1}}, {"reference": "s"}):
            self.assertNotEqual(evolve(one, **change).digest, one.digest)

    @given(OBJECTS)
    def test_nothing_is_lost(self, values: dict[str, Any]) -> None:
        """
        Whatever an operator wrote, an item without faults says the same when
        it is written again.
        """
        item = WorkItem.from_value("w", dump(values))
        assume(item.problem is None)

        self.assertEqual(WorkItem.from_value("w", item.encode()), item)


class OrderTests(SynchronousTestCase):
    """
    The order of a work item.
    """

    def test_orders(self) -> None:
        """
        Whatever is not ``stop`` is to run; what is neither of the two is kept, and
        a problem.
        """
        for value, runs, problem in (
            (b"", True, None),
            (b"{}", True, None),
            (b'{"order": "start"}', True, None),
            (b'{"order": "stop"}', False, None),
            (b'{"order": "Stop"}', True, "order 'Stop' is neither start nor stop"),
            (b'{"order": ""}', True, "order '' is neither start nor stop"),
        ):
            with self.subTest(value=value):
                item = WorkItem.from_value("w", value)

                self.assertEqual((item.is_to_run, item.problem), (runs, problem))
        self.assertEqual(
            WorkItem.from_value("w", b'{"order": "halt"}').encode(),
            b'{"order":"halt"}',
        )

    def test_long(self) -> None:
        """
        Of a long one the beginning is told.
        """
        value = b'{"order": "%s"}' % (b"x" * 10_000)

        self.assertLess(len(WorkItem.from_value("w", value).problem or ""), 60)


class AssignmentTests(SynchronousTestCase):
    """
    Assignments.
    """

    def test_empty(self) -> None:
        """
        The empty value, the original's, says: run.
        """
        found = Assignment.from_value("m", "w", b"")

        self.assertEqual(found, Assignment("m", "w"))
        self.assertEqual(found.phase, "run")
        self.assertEqual(found.encode(), b"")

    def test_round_trip(self) -> None:
        """
        An assignment is read back as it was, with any item.
        """
        odd = WorkItem("w", config=1, extra={"phase": "x", "raw": "y", "item": {}})
        for item in (None, WorkItem("w"), WorkItem("w", raw=b"\xff\x00"), odd):
            for phase in ("run", PREPARE):
                for extra in ({}, {"new": 1}):
                    whole = Assignment("m", "w", phase, item, 17, extra=extra)

                    self.assertEqual(
                        Assignment.from_value("m", "w", whole.encode()), whole
                    )

    def test_garbage(self) -> None:
        """
        The key alone says that the member is to run the item; what is wrong
        with the value is told.
        """
        for value in GARBAGE[1:]:
            found = Assignment.from_value("m", "w", value)

            self.assertEqual(evolve(found, problem=None), Assignment("m", "w"))
            self.assertTrue(found.problem)

    def test_wrong_fields(self) -> None:
        """
        What is wrong with a field is told.
        """
        for value, words in (
            (b'{"raw": "?"}', "base64"),
            (b'{"raw": 3}', "raw"),
            (b'{"item": 3}', "item"),
            (b'{"phase": 3}', "phase"),
            (b'{"restart": -1}', "restart"),
            (b'{"restart": "7"}', "restart"),
        ):
            self.assertIn(
                words, Assignment.from_value("m", "w", value).problem or "nothing"
            )

    def test_restart(self) -> None:
        """
        A restart is written when one was asked for, also without an item; what
        cannot be read of it asks for none.
        """
        bare = Assignment("m", "w", restart=7)
        full = Assignment("m", "w", item=WorkItem("w"), restart=7)

        for assignment in (bare, full):
            value = assignment.encode()
            self.assertEqual(Assignment.from_value("m", "w", value), assignment)
        self.assertEqual(Assignment("m", "w").encode(), b"")
        for value in (b'{"restart": -1}', b'{"restart": "7"}', b'{"restart": 1.5}'):
            self.assertEqual(Assignment.from_value("m", "w", value).restart, 0)

    def test_faults_of_the_item(self) -> None:
        """
        A fault inside the item is told by the item.
        """
        found = Assignment.from_value("m", "w", b'{"item": {"weight": "x"}}')

        assert found.item is not None
        self.assertIn("weight", found.item.problem or "")


class StatusTests(SynchronousTestCase):
    """
    Status reports and their chunks.
    """

    def report(self, items: int, error: str = "") -> StatusReport:
        """
        Give a report on some items.
        """
        return StatusReport(
            {
                f"w{n}": WorkStatus(
                    "start",
                    "running",
                    {"cpu": 1.5},
                    12.5,
                    "abc",
                    error,
                    extra={"new": n},
                )
                for n in range(items)
            }
        )

    def chunks(self, report: StatusReport) -> dict[int, bytes]:
        """
        Give the chunks by number.
        """
        return dict(enumerate(encode_status(report)))

    def test_round_trip(self) -> None:
        """
        A report is read back as it was, in one chunk or many.
        """
        for items in (0, 1, 10, 5000):
            report = self.report(items)

            self.assertEqual(decode_status(self.chunks(report)), report)

    def test_size(self) -> None:
        """
        No chunk is larger than 256 KiB, and chunks are filled (field report
        120: 10,000 items).
        """
        chunks = self.chunks(self.report(10_000))
        sizes = [len(chunk) for chunk in chunks.values()]

        self.assertLessEqual(max(sizes), CHUNK_BYTES)
        self.assertEqual(len(chunks), -(-sum(sizes) // CHUNK_BYTES))
        self.assertGreater(len(chunks), 3)

    @given(st.integers(0, 40), st.integers(300, 1500))
    def test_any_limit(self, items: int, limit: int) -> None:
        """
        Whatever the limit, chunks keep to it and nothing is lost.
        """
        report = self.report(items)
        chunks = encode_status(report, limit)

        self.assertLessEqual(max(map(len, chunks)), limit)
        self.assertEqual(decode_status(dict(enumerate(chunks))), report)

    def test_details(self) -> None:
        """
        What a runner has to say stands in ``details``; nothing where it has not.
        """
        status = WorkStatus(details={"pid": 7, "log": ["x"], "load": float("nan")})
        chunks = self.chunks(StatusReport({"w": status, "x": WorkStatus()}))
        found = decode_status(chunks)

        assert found is not None
        self.assertEqual(found.items["w"].details, {"pid": 7, "log": ["x"]})
        self.assertEqual(found.items["x"].details, {})
        self.assertEqual(chunks[0].count(b"details"), 1)

    def test_one_item_too_large(self) -> None:
        """
        An item whose status would fill a chunk alone does not keep the others
        from being reported.
        """
        much = {"x": "y" * CHUNK_BYTES}
        huge = WorkStatus(usage=much, details=much, digest="abc")
        report = StatusReport({**self.report(3).items, "huge": huge})
        chunks = self.chunks(report)
        found = decode_status(chunks)

        assert found is not None
        self.assertLessEqual(max(map(len, chunks.values())), CHUNK_BYTES)
        self.assertEqual(found.items["w2"], report.items["w2"])
        self.assertEqual(found.items["huge"].digest, "abc")
        self.assertIn("too large", found.items["huge"].error)

    def test_long_errors_are_cut(self) -> None:
        """
        An error text is reported up to a length.
        """
        found = decode_status(self.chunks(self.report(1, error="ä" * 100_000)))

        assert found is not None
        self.assertEqual(len(found.items["w0"].error), ERROR_CHARACTERS)

    def test_numbers_json_has_no_word_for(self) -> None:
        """
        NaN and infinity are left out of the usage.
        """
        usage = {"a": float("nan"), "b": [float("inf"), 1], "c": {"d": float("nan")}}
        found = decode_status(
            self.chunks(StatusReport({"w": WorkStatus(usage={**usage, "e": 2})}))
        )

        assert found is not None
        self.assertEqual(found.items["w"].usage, {"b": [None, 1], "c": {}, "e": 2})

    def test_unchanged_report_changes_nothing(self) -> None:
        """
        An equal report gives equal bytes, whatever the order of its items.
        """
        report = self.report(2000)
        turned = StatusReport(dict(reversed(list(report.items.items()))))

        self.assertEqual(encode_status(turned), encode_status(report))

    def test_incomplete(self) -> None:
        """
        While a chunk is missing there is no report.
        """
        chunks = self.chunks(self.report(10_000))

        self.assertIsNone(decode_status({}))
        for number in chunks:
            rest = {n: chunk for n, chunk in chunks.items() if n != number}
            self.assertIsNone(decode_status(rest))

    def test_mixed(self) -> None:
        """
        Chunks of two reports are noticed, at every moment of a write from the
        last chunk to the first.
        """
        old = self.chunks(self.report(10_000))
        new = self.chunks(self.report(10_000, error="down"))
        seen = dict(old)
        for number in sorted(new, reverse=True):
            if number < len(old) and seen != old:
                self.assertIn(decode_status(seen), (None, self.report(10_000)))
            seen[number] = new[number]

        self.assertEqual(decode_status(seen), self.report(10_000, error="down"))
        mixed = {**old, 1: new[1]}
        self.assertIsNone(decode_status(mixed))

    def test_left_over_chunks(self) -> None:
        """
        Chunks of an earlier, longer report are passed over.
        """
        short = self.report(2)
        chunks = {**self.chunks(self.report(10_000)), **self.chunks(short)}

        self.assertEqual(decode_status(chunks), short)

    def test_garbage(self) -> None:
        """
        A chunk that is none is a record error that names it.
        """
        for value in GARBAGE:
            error = self.assertRaises(
                RecordError, decode_status, {0: value}, "status/m1"
            )
            self.assertEqual(error.key, "status/m1/0")

    def test_wrong_fields(self) -> None:
        """
        A chunk of the wrong shape is a record error.
        """
        chunks = self.chunks(self.report(10_000))
        for value, words in (
            ({}, "report"),
            ({"report": "x", "count": 1, "items": []}, "items"),
            ({"report": "x", "count": -1}, "count"),
        ):
            error = self.assertRaises(RecordError, decode_status, {0: dump(value)})
            self.assertIn(words, error.reason)
        self.assertRaises(RecordError, decode_status, {**chunks, 1: b"{}"})

    def test_unreadable_items(self) -> None:
        """
        An item whose status cannot be read says so itself, and the others are
        reported all the same.
        """
        items = {"w1": 3, "w2": {"state": 3}, "w3": {"state": "running"}}
        found = decode_status({0: dump({"report": "x", "count": 1, "items": items})})

        assert found is not None
        self.assertEqual(found.items["w3"], WorkStatus())
        self.assertEqual(found.items["w1"].state, "unknown")
        self.assertIn("not an object", found.items["w1"].error)
        self.assertIn("state is a number", found.items["w2"].error)

    def test_node(self) -> None:
        """
        What the member measures of itself goes along, however many chunks there
        are; a change of it is another report, and nothing of it takes none of
        the room.
        """
        node = {"cpu": 12.5, "memory": 1024, "gpus": [{"usage": 3}]}
        for items in (0, 1, 5000):
            bare = self.report(items)
            report = StatusReport(bare.items, node)

            self.assertEqual(decode_status(self.chunks(report)), report)
            self.assertNotEqual(encode_status(report), encode_status(bare))

    @given(st.integers(0, 40), st.integers(0, 100))
    def test_node_and_limit(self, items: int, size: int) -> None:
        """
        With it, too, chunks keep to the limit.
        """
        report = StatusReport(self.report(items).items, {"x": "y" * size})
        chunks = encode_status(report, 500)

        self.assertLessEqual(max(map(len, chunks)), 500)
        self.assertEqual(decode_status(dict(enumerate(chunks))), report)

    def test_unreadable_node(self) -> None:
        """
        What cannot be read of it is what is wrong with the node.
        """
        found = decode_status({0: dump({"report": "x", "count": 1, "node": 3})})

        assert found is not None
        self.assertIn("node is a number", found.node["error"])

    def test_huge_count(self) -> None:
        """
        A count that no report has is no reason to count so far.
        """
        chunk = dump({"report": "x", "count": 2**63})

        self.assertIsNone(decode_status({0: chunk}))
