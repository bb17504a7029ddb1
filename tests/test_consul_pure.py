"""
Tests for the Consul layer's pure modules: back-off, durations, encoding,
token bucket, classification.
"""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.backoff import Backoff
from voltha_coord.consul.classify import (
    EXCERPT_CHARACTERS,
    decode,
    error_of,
    excerpt,
    index_of,
)
from voltha_coord.consul.durations import from_go, from_json, to_go
from voltha_coord.consul.encoding import BODY_FRAME_BYTES, encode_body, encoded_size
from voltha_coord.consul.model import Op
from voltha_coord.consul.throttle import TokenBucket
from voltha_coord.consul.transport import Response
from voltha_coord.errors import (
    AccessDenied,
    BadRequest,
    CheckLost,
    ConsulError,
    ConsulUnavailable,
    InvalidSession,
    InvalidSessionTTL,
    KeyNotFound,
    NoClusterLeader,
    NodeMissing,
    RateLimited,
    TransactionRefused,
    ValueTooLarge,
)
from voltha_coord.settings import RETRY_STEPS


def answer(status: int, body: str | bytes = b"", **headers: str) -> Response:
    """
    Make a response.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(
        status, named, body.encode("utf-8") if isinstance(body, str) else body
    )


class BackoffTests(SynchronousTestCase):
    """
    How long to wait before trying again.
    """

    def test_original_steps(self) -> None:
        """
        Without luck the pauses are the original's, the last one for ever (field report
        136).
        """
        backoff = Backoff(lambda: 1.0)

        pauses = [backoff.next() for _ in range(len(RETRY_STEPS) + 2)]

        self.assertEqual(pauses, [*RETRY_STEPS, RETRY_STEPS[-1], RETRY_STEPS[-1]])

    def test_jitter(self) -> None:
        """
        A pause is between half of its step and all of it (field report 135).
        """
        self.assertEqual(Backoff(lambda: 0.0, [4.0]).next(), 2.0)
        self.assertEqual(Backoff(lambda: 0.5, [4.0]).next(), 3.0)

    def test_clear(self) -> None:
        """
        Success begins again with the first step.
        """
        backoff = Backoff(lambda: 1.0)
        backoff.next()
        backoff.next()

        backoff.clear()

        self.assertFalse(backoff.grew)
        self.assertEqual(backoff.next(), RETRY_STEPS[0])

    def test_grew(self) -> None:
        """
        It says when a step was reached for the first time, and no longer once
        the last one is repeated.
        """
        backoff = Backoff(lambda: 1.0, [1.0, 2.0])

        grew = []
        for _ in range(4):
            backoff.next()
            grew.append(backoff.grew)

        self.assertEqual(grew, [True, True, False, False])

    def test_asked_to_wait(self) -> None:
        """
        A pause is as long as Consul asks for, but no longer than the last step;
        an error that asks for nothing changes nothing.
        """
        steps = [1.0, 2.0, 5.0]
        asked = (0.0, 3.0, 1e9)

        pauses = [Backoff(lambda: 1.0, steps).next(RateLimited("", a)) for a in asked]

        self.assertEqual(pauses, [1.0, 3.0, 5.0])
        self.assertEqual(Backoff(lambda: 1.0, steps).next(ValueError()), 1.0)

    def test_apart(self) -> None:
        """
        Two activities do not slow each other down (B12).
        """
        one, other = Backoff(lambda: 1.0), Backoff(lambda: 1.0)
        for _ in range(5):
            one.next()

        self.assertEqual(other.next(), RETRY_STEPS[0])


class DurationTests(SynchronousTestCase):
    """
    Durations as Go writes and reads them.
    """

    def test_write(self) -> None:
        """
        Whole seconds are seconds, the rest milliseconds, and something is
        never nothing.
        """
        self.assertEqual(
            [to_go(x) for x in (0, 15, 15.0, 1.5, 0.0001, 86400)],
            ["0s", "15s", "15s", "1500ms", "1ms", "86400s"],
        )

    def test_read(self) -> None:
        """
        All of Go's units are read.
        """
        self.assertEqual(from_go("24h0m0s"), 86400.0)
        self.assertEqual(from_go("1m30.5s"), 90.5)
        self.assertEqual(from_go("-1s"), -1.0)
        self.assertEqual(from_go("0"), 0.0)
        self.assertAlmostEqual(from_go("1ms2us3ns"), 0.001002003)

    def test_read_nonsense(self) -> None:
        """
        What Go would not read is refused.
        """
        for text in ("", "10", "s", "1s ", "1x", "1s2", "ten"):
            self.assertRaises(ValueError, from_go, text)

    def test_read_json(self) -> None:
        """
        Nanoseconds, texts and nothing are read; the rest is refused.
        """
        self.assertEqual(from_json(1500000000), 1.5)
        self.assertEqual(from_json(1.5e10), 15.0)
        self.assertEqual(from_json("15s"), 15.0)
        self.assertEqual((from_json(None), from_json("")), (0.0, 0.0))
        values: tuple[object, ...] = (True, [], {})
        for value in values:
            self.assertRaises(ValueError, from_json, value)

    @given(st.integers(0, 10**8))
    def test_round_trip(self, milliseconds: int) -> None:
        """
        What is written is read back, to the millisecond.
        """
        seconds = milliseconds / 1000
        self.assertAlmostEqual(from_go(to_go(seconds)), seconds, places=6)


_OPS = st.builds(
    Op,
    verb=st.sampled_from(["set", "cas", "delete-cas", "check-session"]),
    key=st.text(min_size=1, max_size=30),
    value=st.none() | st.binary(max_size=50),
    index=st.none() | st.integers(0, 2**64 - 1),
    session=st.none() | st.text(max_size=36),
    flags=st.integers(0, 2**64 - 1),
)


class EncodingTests(SynchronousTestCase):
    """
    A transaction's body.
    """

    @given(st.lists(_OPS, min_size=1, max_size=5))
    def test_as_json(self, ops: list[Op]) -> None:
        """
        The body is the JSON of the operations.
        """
        self.assertEqual(json.loads(encode_body(ops)), [op.to_json() for op in ops])

    @given(st.lists(_OPS, min_size=1, max_size=5))
    def test_size(self, ops: list[Op]) -> None:
        """
        The size is known to the byte before anything is encoded.
        """
        size = BODY_FRAME_BYTES + sum(map(encoded_size, ops))

        self.assertEqual(size, len(encode_body(ops)))


class TokenBucketTests(SynchronousTestCase):
    """
    A burst, and then one at a time.
    """

    def test_burst_and_refill(self) -> None:
        """
        Two at once, then one every half a second, and never more than two.
        """
        clock = Clock()
        bucket = TokenBucket(clock.seconds, 2, 0.5)

        delays = []
        for _ in range(3):
            delays.append(bucket.delay())
            bucket.take()
        clock.advance(0.5)
        delays.append(bucket.delay())
        clock.advance(100)
        bucket.take()
        bucket.take()
        delays.append(bucket.delay())

        self.assertEqual(delays, [0.0, 0.0, 0.5, 0.5, 0.5])

    def test_clock_backwards(self) -> None:
        """
        A clock that goes backwards takes no token away.
        """
        now = [100.0]
        bucket = TokenBucket(lambda: now[0], 1, 1.0)
        now[0] = 0.0

        self.assertEqual(bucket.delay(), 0.0)


class ClassifyTests(SynchronousTestCase):
    """
    What an answer means; the words are those of Consul 1.8.7 unless said.
    """

    def assert_means(
        self, kind: type[ConsulError], status: int, body: str, **headers: str
    ) -> ConsulError:
        """
        Check which error an answer stands for, exactly.
        """
        error = error_of(answer(status, body, **headers))
        self.assertIs(type(error), kind, f"{status} {body}")
        assert error is not None
        return error

    def test_good(self) -> None:
        """
        2xx is no error, nor is Consul's own 404.
        """
        self.assertIsNone(error_of(answer(200, "true")))
        self.assertIsNone(error_of(answer(404)))
        self.assertIsNone(error_of(answer(404, "Session id 'x' not found")))

    def test_by_status(self) -> None:
        """
        Most answers are told by their status.
        """
        for status, kind in (
            (400, BadRequest),
            (401, AccessDenied),
            (403, AccessDenied),
            (405, BadRequest),
            (408, ConsulUnavailable),
            (413, ValueTooLarge),
            (429, RateLimited),
            (500, ConsulUnavailable),
            (502, ConsulUnavailable),
            (503, RateLimited),
            (504, ConsulUnavailable),
        ):
            self.assert_means(kind, status, "some words")

    def test_by_words(self) -> None:
        """
        A 500 is told by Consul's words, also when agents wrapped them (field report
        100).
        """
        for words, kind in (
            ("No cluster leader", NoClusterLeader),
            ("rpc error making call: No cluster leader", NoClusterLeader),
            ("No known Consul servers", NoClusterLeader),
            (
                "rpc error making call: Not ready to serve consistent reads",
                NoClusterLeader,
            ),
            ('invalid session "11111111-1111-1111-1111-111111111111"', InvalidSession),
            (
                "failed session lookup: index error: UUID must be 36 characters",
                InvalidSession,
            ),
            ("missing session", InvalidSession),
            ("Missing check 'zz' registration", CheckLost),
            ("Missing node registration", NodeMissing),
            ("Check 'zz' is in critical state", CheckLost),
            ('CheckID "nope" does not have associated TTL', CheckLost),
            ('Unknown service {"id" {}}', KeyNotFound),
            ("rpc error making call: Permission denied", AccessDenied),
            ("rpc error making call: ACL not found", AccessDenied),
            ("rpc error getting client: failed to get conn", ConsulUnavailable),
        ):
            self.assert_means(kind, 500, words)

    def test_session_ttl(self) -> None:
        """
        A refused TTL tells the smallest that is taken.
        """
        error = self.assert_means(
            InvalidSessionTTL,
            500,
            "Invalid Session TTL '5000000000', must be between [10s=24h0m0s]",
        )

        assert isinstance(error, InvalidSessionTTL)
        self.assertEqual(error.minimum, 10.0)

    def test_session_ttl_in_other_words(self) -> None:
        """
        Bounds that cannot be read are no bounds.
        """
        for words in (
            "Invalid Session TTL 'x', must be between [soon=late]",
            "Invalid Session TTL 'x'",
        ):
            error = self.assert_means(InvalidSessionTTL, 500, words)
            assert isinstance(error, InvalidSessionTTL)
            self.assertIsNone(error.minimum)

    def test_transaction(self) -> None:
        """
        A refused transaction names positions and Consul's words.
        """
        body = json.dumps({"Results": None, "Errors": [{"OpIndex": 3, "What": "no"}]})

        error = self.assert_means(TransactionRefused, 409, body)

        assert isinstance(error, TransactionRefused)
        self.assertEqual([(r.position, r.what) for r in error.refusals], [(3, "no")])

    def test_transaction_denied(self) -> None:
        """
        A transaction the token may not make is denied, not refused: nothing
        has moved on, and it is never worth a retry.
        """
        row = {"OpIndex": 0, "What": "Permission denied"}
        body = json.dumps({"Results": None, "Errors": [row]})

        self.assert_means(AccessDenied, 409, body)

    def test_token_unknown(self) -> None:
        """
        A token that does not exist is called that.
        """
        error = self.assert_means(AccessDenied, 403, "ACL not found")

        self.assertIn("the token is unknown", str(error))

    def test_datacenter_unknown(self) -> None:
        """
        A datacenter that does not exist is an answer, and no outage.
        """
        self.assert_means(BadRequest, 500, "No path to datacenter")

    def test_transaction_of_a_proxy(self) -> None:
        """
        A 409 that is not Consul's is no refusal.
        """
        for body in ("conflict", "{}", '{"Errors": [{"What": "x"}]}', "[]", "null"):
            self.assert_means(ConsulUnavailable, 409, body)

    def test_retry_after(self) -> None:
        """
        What 429 and 503 ask for is kept; a date, or nonsense, asks for nothing.
        """
        for status in (429, 503):
            for text, seconds in (("7", 7.0), ("", 0.0), ("-1", 0.0), ("²", 0.0)):
                error = error_of(answer(status, "slow down", retry_after=text))
                assert error is not None
                self.assertEqual(error.retry_after, seconds, text)
        date = error_of(answer(503, retry_after="Fri, 31 Dec 1999 23:59:59 GMT"))
        assert date is not None
        self.assertEqual(date.retry_after, 0.0)

    def test_html(self) -> None:
        """
        What a proxy wrote is no answer of Consul, whatever its status: a 404
        of it is not a missing key (field report 97).
        """
        for status in (400, 404, 500, 502):
            self.assert_means(
                ConsulUnavailable, status, "  <html>invalid session</html>"
            )
            self.assert_means(
                ConsulUnavailable, status, "x", content_type="text/html; charset=x"
            )

    def test_redirect(self) -> None:
        """
        Consul's own redirect is a bad key; any other is somebody else's.
        """
        error = self.assert_means(
            BadRequest, 301, "<a>Moved</a>", location="/v1/kv/a/b"
        )
        self.assertIn("/v1/kv/a/b", str(error))
        self.assert_means(ConsulUnavailable, 302, "", location="https://login/")
        self.assert_means(ConsulUnavailable, 304, "")

    def test_text(self) -> None:
        """
        An error's text has the status and the beginning of the body, on one
        line.
        """
        error = self.assert_means(BadRequest, 400, "two\nlines " + "x" * 5000)

        self.assertTrue(str(error).startswith("400 two lines x"))
        self.assertLessEqual(len(str(error)), EXCERPT_CHARACTERS + len("400 "))

    def test_excerpt_of_bytes(self) -> None:
        """
        A binary body does not break an error's text.
        """
        self.assertEqual(excerpt(b"a\xffb"), "a�b")

    def test_decode(self) -> None:
        """
        What is not JSON is no answer: empty, cut short, HTML, binary, absurd.
        """
        self.assertEqual(decode(answer(200, "true\n")), True)
        for body in (b"", b'[{"Key"', b"<html>", b"\xff\xfe", b"[" * 200_000):
            self.assertRaises(ConsulUnavailable, decode, answer(200, body))

    def test_index(self) -> None:
        """
        The index is a number of at least 1; without one it is not Consul (field reports
        82, 84).
        """
        self.assertEqual(index_of(answer(200, x_consul_index="42")), 42)
        self.assertEqual(index_of(answer(200, x_consul_index="0")), 1)
        largest = 2**64 - 1
        self.assertEqual(index_of(answer(200, x_consul_index=f"{largest}")), largest)
        for text in ("", "x", "-1", "1.5", "²"):
            self.assertRaises(
                ConsulUnavailable, index_of, answer(200, x_consul_index=text)
            )
        self.assertRaises(ConsulUnavailable, index_of, answer(200))
