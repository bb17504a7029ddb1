"""
Tests for keys that a session holds.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import Bench
from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.transport import Response
from voltha_coord.errors import (
    AccessDenied,
    ConsulUnavailable,
    InvalidSession,
    RequestTimedOut,
)
from voltha_coord.held import LOCK_DELAY_STEPS, Acquisition, Hindrance, acquire, release
from voltha_coord.settings import MAX_LOCK_DELAY

KEY = "service/voltha/leader"


class Base(SynchronousTestCase):
    """
    Two sessions and a key.
    """

    def setUp(self) -> None:
        """
        Make them.
        """
        self.bench = Bench()
        self.mine, self.other = self.make_session(), self.make_session()

    def make_session(self) -> str:
        """
        Make a session with a lock-delay.
        """
        session: str = self.bench.result(
            self.bench.api.create_session(SessionSpec("s", 15.0, 1.0))
        )
        return session

    def acquire(self, session: str, value: bytes = b"m1") -> Acquisition:
        """
        Try to acquire the key.
        """
        got: Acquisition = self.bench.result(
            acquire(self.bench.api, KEY, value, session)
        )
        return got

    def index(self) -> int:
        """
        Give the key's ModifyIndex.
        """
        entry = self.bench.result(self.bench.api.get(KEY)).entry
        assert entry is not None
        index: int = entry.modify_index
        return index


class AcquireTests(Base):
    """
    ``acquire``.
    """

    def test_free_key(self) -> None:
        """
        A free key is acquired and written; its ModifyIndex comes along.
        """
        got = self.acquire(self.mine)

        assert got.entry is not None
        self.assertIsNone(got.hindrance)
        entry = self.bench.result(self.bench.api.get(KEY)).entry
        self.assertEqual((entry.value, entry.session), (b"m1", self.mine))
        self.assertEqual(got.entry.modify_index, entry.modify_index)

    def test_report_61_held_by_itself(self) -> None:
        """
        What the session holds already it may write anew; written as it is,
        nothing changes (field report 61).
        """
        self.acquire(self.mine)
        before = self.index()

        same = self.acquire(self.mine)
        changed = self.acquire(self.mine, b"m1 again")

        assert same.entry is not None and changed.entry is not None
        self.assertEqual(same.entry.modify_index, before)
        self.assertGreater(changed.entry.modify_index, before)

    def test_held_by_another(self) -> None:
        """
        A key that another session holds is not acquired (field report 67).
        """
        self.acquire(self.other)

        self.assertEqual(self.acquire(self.mine), Acquisition(hindrance=Hindrance.HELD))

    def test_lock_delay(self) -> None:
        """
        After a session ended with it, a lock-delay stands in the way, and is
        told from a holder; then the key is free.
        """
        self.acquire(self.other)
        self.bench.consul.destroy_session(self.other)

        got = self.acquire(self.mine)
        self.bench.advance(1.1)

        self.assertEqual(got, Acquisition(hindrance=Hindrance.LOCK_DELAY))
        self.assertIsNotNone(self.acquire(self.mine).entry)

    def test_report_13_session_that_is_gone(self) -> None:
        """
        Without its session it fails as a lost session does (field report 13).
        """
        self.bench.consul.destroy_session(self.mine)

        with self.assertRaises(InvalidSession):
            self.acquire(self.mine)

    def test_denied(self) -> None:
        """
        A key it may not write is denied, not held by another.
        """
        self.bench.consul.deny = lambda resource, name, access, token: access == "write"

        with self.assertRaises(AccessDenied):
            self.acquire(self.mine)

    def test_report_66_lost_reply(self) -> None:
        """
        After a lost reply the key is held, and acquiring it again says so with
        the same index: it was acquired once (field report 66).
        """
        self.bench.network.loses_reply = lambda request: True
        with self.assertRaises(RequestTimedOut):
            self.acquire(self.mine)
        self.bench.network.loses_reply = lambda request: False
        before = self.index()

        again = self.acquire(self.mine)

        assert again.entry is not None
        self.assertEqual(again.entry.modify_index, before)

    def test_answer_without_a_result(self) -> None:
        """
        An answer that says nothing of the key is none.
        """
        self.bench.hook = lambda request: Response(200, {}, b'{"Results": null}')

        with self.assertRaises(ConsulUnavailable):
            self.acquire(self.mine)

    def test_pauses_of_a_lock_delay(self) -> None:
        """
        The usual second is met closely; the longest delay costs few attempts (field
        report 40).
        """
        self.assertLessEqual(max(LOCK_DELAY_STEPS[:10]), 0.1)
        spent, attempts = 0.0, 0
        while spent < MAX_LOCK_DELAY:
            spent += LOCK_DELAY_STEPS[min(attempts, len(LOCK_DELAY_STEPS) - 1)] / 2
            attempts += 1
        self.assertLess(attempts, 150)


class ReleaseTests(Base):
    """
    ``release``.
    """

    def release(self, session: str) -> bool:
        """
        Give the key back.
        """
        released: bool = self.bench.result(release(self.bench.api, KEY, session))
        return released

    def test_v3_no_lock_delay_and_no_key(self) -> None:
        """
        What is given back can be acquired at once by another, and is no longer
        there for an original to count (V3).
        """
        self.acquire(self.mine)

        self.assertTrue(self.release(self.mine))

        self.assertIsNone(self.bench.result(self.bench.api.get(KEY)).entry)
        self.assertIsNotNone(self.acquire(self.other).entry)

    def test_held_by_another(self) -> None:
        """
        Another session's key is left alone.
        """
        self.acquire(self.other)

        self.assertFalse(self.release(self.mine))

        self.assertEqual(
            self.bench.result(self.bench.api.get(KEY)).entry.session, self.other
        )

    def test_not_there(self) -> None:
        """
        A key that is not there is not held: no error, also the second time (field
        report 65).
        """
        self.assertFalse(self.release(self.mine))

    def test_denied(self) -> None:
        """
        Where it may not be written, that is said.
        """
        self.acquire(self.mine)
        self.bench.consul.deny = lambda resource, name, access, token: access == "write"

        with self.assertRaises(AccessDenied):
            self.release(self.mine)

    def test_has_the_deadline_of_the_session(self) -> None:
        """
        It waits no longer than the session's other requests.
        """
        self.release(self.mine)

        (request,) = self.bench.requests("txn")
        self.assertEqual(request.deadline, self.bench.api.session_timeout)
