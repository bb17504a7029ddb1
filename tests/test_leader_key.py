"""
Tests for what is known of the leader key.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.leader_key import LeaderKey

from .support.keeping import Bench

KEY = "p/leader"


class LeaderKeyTests(SynchronousTestCase):
    """
    A key that somebody takes, and leaves.
    """

    def setUp(self) -> None:
        """
        Follow it.
        """
        self.bench = bench = Bench()
        self.differed: list[Entry | None] = []
        self.found: list[str | None] = []
        self.leaders: list[str | None] = []
        self.noted: list[bool] = []
        self.key = LeaderKey(
            bench.clock,
            bench.api,
            KEY,
            30.0,
            noted=lambda: self.noted.append(self.key.known),
            differed=self.differed.append,
            found=self.found.append,
            news=lambda: None,
            leader_changed=self.leaders.append,
            rewound=None,
            random=bench.random,
            tally=None,
            retries=None,
            log=bench.log,
        )
        self.session: str = bench.result(
            bench.api.create_session(SessionSpec("s", 3600.0, 0.0))
        )
        self.key.start()
        bench.until(lambda: self.key.known)

    def take_it(self) -> None:
        """
        Let somebody acquire it.
        """
        self.bench.result(self.bench.api.txn((Op.lock(KEY, b"m9", self.session),)))

    def test_nobody(self) -> None:
        """
        A key that is not there is known to be nobody's.
        """
        self.assertEqual((self.key.entry, self.key.leader_id), (None, None))
        self.assertFalse(self.key.held)
        self.assertEqual((self.differed, self.leaders), ([], []))
        self.assertIn(None, self.found)

    def test_taken(self) -> None:
        """
        Who takes it is told once, after how long.
        """
        self.bench.advance(5)
        waited = self.key.leaderless_for

        self.take_it()
        self.bench.until(lambda: self.leaders)

        self.assertEqual(self.leaders, ["m9"])
        self.assertEqual(self.differed, [None])
        self.assertTrue(self.key.held_by(self.session))
        self.assertGreaterEqual(self.key.vacancy, waited)
        self.assertEqual(self.key.leaderless_for, 0.0)
        self.assertEqual(self.key.leaderless_seconds, self.key.vacancy)

    def test_held_by_nobody(self) -> None:
        """
        A value without a session is nobody's, and no news of a leader.
        """
        self.bench.result(self.bench.api.put(KEY, b"junk"))
        self.bench.until(lambda: self.differed)

        self.assertEqual((self.key.held, self.leaders), (False, []))

    def test_overtaken(self) -> None:
        """
        A read that is older than what we have written ourselves is passed over.
        """
        self.key.written(b"m1", 10**6, "ours")
        noted, sent = len(self.noted), len(self.bench.sent)

        self.take_it()
        self.bench.advance(1)

        self.assertGreater(len(self.bench.sent), sent + 1)
        self.assertEqual((len(self.noted), self.key.leader_id), (noted, "m1"))

    def test_not_overtaken(self) -> None:
        """
        A consistent read is believed, whatever we have written ourselves.
        """
        self.key.written(b"m1", 10**6, "ours")
        self.take_it()

        self.key.look_again()
        self.bench.advance(1)

        self.assertEqual(self.key.leader_id, "m9")
        self.assertEqual(self.found[-1], self.session)

    def test_forgotten(self) -> None:
        """
        Who is cut off knows nothing, and no leader.
        """
        self.take_it()
        self.bench.until(lambda: self.leaders)

        self.key.forget()

        self.assertEqual((self.key.known, self.key.entry), (False, None))
        self.assertEqual(self.leaders, ["m9", None])
        self.assertFalse(self.noted[-1])

    def test_stopped(self) -> None:
        """
        Who has stopped asks for nothing more.
        """
        self.bench.result(self.key.stop())
        sent = len(self.bench.sent)

        self.bench.advance(60)

        self.assertEqual(len(self.bench.sent), sent)
