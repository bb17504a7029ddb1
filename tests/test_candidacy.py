"""
Tests for acquiring the leader key, keeping it in our name, and giving it back.
"""

from __future__ import annotations

from typing import cast

from attrs import define
from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.candidacy import HELD_RETRY, Candidacy
from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.errors import AccessDenied, ConsulUnavailable
from voltha_coord.leader_key import LeaderKey
from voltha_coord.office import Office

from .support.keeping import Bench

KEY = "p/leader"


@define
class FakeOffice:
    """
    An office that counts what is asked of it.
    """

    named: bool = False
    looks: int = 0
    leaves: int = 0
    problem: Exception | None = None

    def look(self) -> Deferred[None]:
        """
        Look.
        """
        self.looks += 1
        return succeed(None)

    def leave(self) -> Deferred[None]:
        """
        Leave.
        """
        self.leaves += 1
        return succeed(None) if self.problem is None else fail(self.problem)


class CandidacyTests(SynchronousTestCase):
    """
    A candidate and the leader key, which it does not watch.
    """

    def setUp(self) -> None:
        """
        Make it, and two sessions.
        """
        self.bench = bench = Bench()
        self.office = FakeOffice()
        self.key = LeaderKey(
            bench.clock,
            bench.api,
            KEY,
            30.0,
            noted=lambda: None,
            differed=lambda before: None,
            found=lambda holder: None,
            news=lambda: None,
            leader_changed=lambda leader: None,
            rewound=None,
            random=bench.random,
            tally=None,
            retries=None,
            log=bench.log,
        )
        self.candidacy = Candidacy(
            bench.clock,
            bench.api,
            KEY,
            self.key,
            cast(Office, self.office),
            instance_id="m1",
            random=bench.random,
            log=bench.log,
        )
        self.ours, self.theirs = self.make_session(), self.make_session()

    def make_session(self) -> str:
        """
        Make a session.
        """
        session: str = self.bench.result(
            self.bench.api.create_session(SessionSpec("s", 3600.0, 15.0))
        )
        return session

    def take_it(self, session: str, value: bytes = b"m9") -> None:
        """
        Let a session acquire it, unnoticed.
        """
        self.bench.result(self.bench.api.txn((Op.lock(KEY, value, session),)))

    def entry(self) -> Entry | None:
        """
        Give what stands there.
        """
        return self.bench.consul_entry(KEY)

    def test_acquired(self) -> None:
        """
        What was acquired is known at once, with its index.
        """
        self.assertIsNone(self.bench.result(self.candidacy.contend(self.ours)))

        self.assertEqual(self.key.entry, self.entry())
        self.assertTrue(self.key.held_by(self.ours))
        self.assertTrue(self.candidacy.owes(self.ours))

    def test_held(self) -> None:
        """
        Where somebody else was quicker one looks again later.
        """
        self.take_it(self.theirs)

        again = self.bench.result(self.candidacy.contend(self.ours))

        self.assertEqual((again, self.office.looks), (HELD_RETRY, 0))
        self.assertFalse(self.candidacy.owes(self.ours))

    def test_lock_delay(self) -> None:
        """
        In a lock-delay one tries again soon, and the time in which the
        predecessor may act begins to run.
        """
        self.take_it(self.theirs)
        self.bench.consul.destroy_session(self.theirs)

        again = self.bench.result(self.candidacy.contend(self.ours))

        self.assertGreater(HELD_RETRY, again)
        self.assertTrue(self.candidacy.lock_delayed)
        self.assertEqual(self.office.looks, 1)

    def test_overwritten(self) -> None:
        """
        A name that was overwritten is mended; one that was not, is not.
        """
        self.bench.result(self.candidacy.contend(self.ours))
        sent = len(self.bench.sent)
        self.bench.result(self.candidacy.keep_our_name(self.ours))
        self.assertEqual(len(self.bench.sent), sent)

        self.take_it(self.ours, b"x")
        self.key.note(self.entry())
        self.bench.result(self.candidacy.keep_our_name(self.ours))

        entry = self.entry()
        assert entry is not None
        self.assertEqual(entry.value, b"m1")
        self.assertEqual(self.key.entry, entry)

    def test_given_back(self) -> None:
        """
        Office is left first, if we may be named; then the key is gone.
        """
        self.bench.result(self.candidacy.contend(self.ours))
        self.office.named = True

        self.bench.result(self.candidacy.give_back(self.ours))

        self.assertEqual(self.office.leaves, 1)
        self.assertEqual((self.entry(), self.key.entry), (None, None))

    def test_office_not_left(self) -> None:
        """
        The key is given back even if Consul refuses to let us leave office; if
        it is away, that comes first.
        """
        self.bench.result(self.candidacy.contend(self.ours))
        self.office.named = True

        self.office.problem = ConsulUnavailable("away")
        with self.assertRaises(ConsulUnavailable):
            self.bench.result(self.candidacy.give_back(self.ours))
        self.assertIsNotNone(self.entry())

        self.office.problem = AccessDenied("no")
        self.bench.result(self.candidacy.give_back(self.ours))
        self.assertIsNone(self.entry())

    def test_resigned(self) -> None:
        """
        Whoever resigns gives back also what it does not know to hold, and
        nothing that is another's.
        """
        self.take_it(self.ours, b"m1")
        self.bench.result(self.candidacy.resign(self.ours))
        self.assertIsNone(self.entry())

        self.take_it(self.theirs)
        self.bench.result(self.candidacy.resign(self.ours))
        self.assertIsNotNone(self.entry())
        self.bench.result(self.candidacy.resign(None))
        self.assertEqual(self.office.leaves, 0)
