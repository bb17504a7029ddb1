"""
Tests for the sessions of this process, and how they are ended.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord._loops import Tasks
from voltha_coord.consul.backoff import Backoff
from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.leftovers import Leftovers
from voltha_coord.own_sessions import OwnSessions
from voltha_coord.pausing import Pausing

from .support.keeping import Bench


class OwnSessionsTests(SynchronousTestCase):
    """
    A session of ours, which holds a key.
    """

    def setUp(self) -> None:
        """
        Make it.
        """
        self.bench = bench = Bench()
        self.ended: list[None] = []
        self.leftovers = Leftovers(bench.api, ("held",), bench.log)
        self.requests = Tasks(bench.log)
        self.sessions = OwnSessions(
            bench.clock.seconds,
            self.leftovers,
            requests=self.requests,
            pausing=Pausing(bench.clock.seconds, bench.clock, bench.log),
            ended=lambda: self.ended.append(None),
            log=bench.log,
        )
        self.mine = self.make_session()
        self.sessions.add(self.mine)
        self.hold(self.mine)

    def make_session(self) -> str:
        """
        Make a session.
        """
        session: str = self.bench.result(
            self.bench.api.create_session(SessionSpec("s", 15.0, 1.0))
        )
        return session

    def hold(self, session: str) -> None:
        """
        Let it hold the key.
        """
        self.bench.result(self.bench.api.txn((Op.lock("held", b"", session),)))

    def test_not_ours_or_current(self) -> None:
        """
        Nobody, a stranger and the session that ought to be there have not come
        back; nothing is asked of Consul.
        """
        sent = len(self.bench.sent)

        found = [
            self.sessions.came_back(session, self.mine)
            for session in (None, "stranger", self.mine)
        ]

        self.assertEqual(found, [False, False, False])
        self.assertEqual((len(self.bench.sent), len(self.requests)), (sent, 0))

    def test_came_back(self) -> None:
        """
        One that ought to be gone is ended, once however often it is seen
        meanwhile, and whoever waits is told.
        """
        self.leftovers.sessions.clear()

        self.assertTrue(self.sessions.came_back(self.mine, "new"))
        self.assertTrue(self.sessions.came_back(self.mine, "new"))
        self.bench.until(lambda: self.ended)

        self.assertEqual(len(self.ended), 1)
        self.assertEqual(self.bench.alive, [])
        self.assertEqual(len(self.bench.log.of("old-session-came-back")), 1)

    def test_abandon(self) -> None:
        """
        What is abandoned gives its keys back, so that no lock-delay follows.
        """
        backoff = Backoff(lambda: 0.0)

        self.bench.result(self.sessions.abandon(self.mine, backoff, 30.0))

        self.assertEqual(self.bench.alive, [])
        other = self.make_session()
        self.hold(other)
        entry = self.bench.consul_entry("held")
        assert entry is not None
        self.assertEqual(entry.session, other)

    def test_abandon_in_an_outage(self) -> None:
        """
        It is tried for as long as the session may live, and no longer.
        """
        self.bench.network.refuses = True
        backoff = Backoff(lambda: 0.0)
        began = self.bench.clock.seconds()

        self.bench.result(self.sessions.abandon(self.mine, backoff, 10.0))

        self.assertGreaterEqual(self.bench.clock.seconds() - began, 10.0)
        self.assertIn(self.mine, self.leftovers.sessions)

    def test_tidy_up(self) -> None:
        """
        All but the current session is taken away.
        """
        current = self.make_session()
        self.sessions.add(current)

        self.sessions.tidy_up({current})
        self.bench.until(lambda: not len(self.requests))

        self.assertEqual(self.bench.alive, [current])
