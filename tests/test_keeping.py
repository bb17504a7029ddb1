"""
Tests for keeping a session, apart from how it was made.

What a member makes of it all is in :mod:`tests.test_session`.
"""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord._loops import Tasks
from voltha_coord.consul.model import SessionInfo, SessionSpec
from voltha_coord.consul.transport import Response
from voltha_coord.establishing import Created, Established
from voltha_coord.keeping import RENEWAL_REFUSED, SESSION_GONE, Keeping
from voltha_coord.liveness import Troubles
from voltha_coord.settings import Settings

from .support.keeping import Bench


class KeepingTests(SynchronousTestCase):
    """
    A session without a check.
    """

    def setUp(self) -> None:
        """
        Begin with one.
        """
        self.bench = bench = Bench()
        self.requests = Tasks(bench.log)
        self.keeping = Keeping(
            bench.clock,
            bench.api,
            Settings(),
            requests=self.requests,
            troubles=Troubles(bench.log),
            changed=lambda: None,
            distrust=lambda: None,
            random=bench.random,
            log=bench.log,
        )
        self.begin(self.make_session())
        self.lost: Deferred[str] = self.keeping.until_lost()

    def make_session(self) -> str:
        """
        Make a session.
        """
        session: str = self.bench.result(
            self.bench.api.create_session(SessionSpec("s", 15.0, 0.0))
        )
        return session

    def begin(self, session: str) -> None:
        """
        Begin with a session.
        """
        sent = self.bench.clock.seconds()
        info = SessionInfo(session, node="n1", ttl=15.0)
        self.keeping.begin(Established(Created(session, 15.0, sent, None), info))

    @property
    def leased(self) -> bool:
        """
        Whether there is a lease to act under.
        """
        lease = self.keeping.leasing.lease
        return lease is not None and lease.active

    def test_renewed(self) -> None:
        """
        It is renewed for as long as one likes, and so is the lease.
        """
        self.bench.advance(120)

        self.assertNoResult(self.lost)
        self.assertTrue(self.leased)
        self.assertEqual(self.keeping.node, "n1")

    def test_gone(self) -> None:
        """
        A session that was destroyed is found lost once somebody suspects so;
        its lease is over.
        """
        self.bench.consul.destroy_session(self.keeping.session_id or "")

        self.keeping.suspect()
        self.bench.until(lambda: self.lost.called)

        self.assertEqual(self.successResultOf(self.lost), SESSION_GONE)
        self.assertFalse(self.leased)

    def test_refused_but_there(self) -> None:
        """
        A renewal that is answered 404 alone proves nothing.
        """
        self.bench.hook = lambda request: (
            Response(404, {}, b"Session id 'x' not found")
            if "renew" in request.path
            else None
        )

        self.bench.advance(5)
        self.assertNoResult(self.lost)

        self.bench.consul.destroy_session(self.keeping.session_id or "")
        self.bench.until(lambda: self.lost.called)
        self.assertEqual(self.successResultOf(self.lost), RENEWAL_REFUSED)

    def test_found_out_too_late(self) -> None:
        """
        That an earlier session is gone does not end the one there is now.
        """
        following = self.make_session()
        self.bench.consul.destroy_session(self.keeping.session_id or "")
        self.keeping.suspect()
        self.begin(following)

        self.bench.advance(2)

        self.assertEqual(len(self.bench.requests("session/info")), 1)

        self.assertNoResult(self.lost)
        self.assertTrue(self.leased)

    def test_given_up(self) -> None:
        """
        Without a session nothing is suspected, and nothing can be lost.
        """
        self.keeping.give_up()
        sent = len(self.bench.sent)

        self.keeping.suspect()
        self.keeping.lost("why")

        self.assertNoResult(self.lost)
        self.assertEqual(len(self.bench.sent), sent)

    def test_cancelled(self) -> None:
        """
        Who is cancelled renews no more.
        """
        self.lost.cancel()
        self.failureResultOf(self.lost, CancelledError)
        self.bench.until(lambda: not len(self.requests))
        sent = len(self.bench.sent)

        self.bench.advance(10)

        self.assertEqual(len(self.bench.sent), sent)
