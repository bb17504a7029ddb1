"""
Tests for the rule of succession: when a predecessor's lease must be over.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import Bench, Hook
from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.transport import Request, Response
from voltha_coord.errors import NoClusterLeader, RequestTimedOut
from voltha_coord.lease import Acknowledged
from voltha_coord.session import service_for
from voltha_coord.settings import Settings
from voltha_coord.succession import (
    CLOCK_RATE_MARGIN,
    LONGEST_TTL,
    REMEMBERED,
    Predecessor,
    Succession,
)

TTL = 15.0
WAIT = TTL * CLOCK_RATE_MARGIN
SETTINGS = Settings()


class Base(SynchronousTestCase):
    """
    A predecessor with a session, bound to a check.
    """

    def setUp(self) -> None:
        """
        Let the predecessor begin.
        """
        self.bench = Bench()
        self.succession = Succession(self.bench.clock.seconds, self.bench.api, TTL)
        service = service_for("m0", "1", SETTINGS, "h", 1)
        self.check = service.check_id
        self.bench.result(self.bench.api.register_service(service))
        self.session = self.bench.result(
            self.bench.api.create_session(
                SessionSpec("m0", TTL, 1.0, service_checks=(self.check,))
            )
        )
        self.predecessor = Predecessor(self.session, self.check, "n1", TTL)

    def over(self, predecessor: Predecessor | None = None) -> bool:
        """
        Ask whether its lease is over.
        """
        answer: bool = self.bench.result(
            self.succession.is_over(predecessor or self.predecessor)
        )
        return answer

    def waits(self, predecessor: Predecessor | None = None) -> float:
        """
        Ask again and again; give the seconds until it was over.
        """
        return self.bench.until(lambda: self.over(predecessor), 200.0)


class SuccessionTests(Base):
    """
    Note [Taking over], line by line.
    """

    def test_not_while_the_session_lives(self) -> None:
        """
        While its session lives nobody succeeds it, whatever became of its keys.
        """
        self.assertFalse(self.over())
        (request,) = self.bench.requests("session/info")
        self.assertIn(("consistent", None), request.params)

    def test_at_once_when_its_own_timer_fired(self) -> None:
        """
        A check that is critical because its timer fired is proof enough: the
        lease ended before it did.
        """
        self.bench.advance(SETTINGS.failure_detection + 0.1)

        self.assertTrue(self.over())
        (request,) = self.bench.requests("health/node/n1")
        self.assertIn(("consistent", None), request.params)

    def test_the_lease_is_over_before_the_timer_fires(self) -> None:
        """
        What the timer proves is true also for a clock that runs a percent
        slower than the agent's.
        """
        passes = Acknowledged(lambda: 0.0, SETTINGS.failure_detection, 0.0)

        self.assertLess(passes.deadline * 1.01, SETTINGS.failure_detection)

    def test_critical_by_hand_proves_nothing(self) -> None:
        """
        A check that somebody else made critical is no proof: one TTL is waited.
        """
        agent = self.bench.consul.agents[0]
        agent.update(self.check, "critical", "")

        self.assertGreaterEqual(self.waits(), WAIT - 0.1)

    def test_one_ttl_after_it_was_first_seen_gone(self) -> None:
        """
        A session that is gone for another reason is waited for one TTL, and a
        percent each for two clocks, from when it was first seen gone.
        """
        self.bench.consul.destroy_session(self.session)
        self.bench.consul.agents[0].remove_service("voltha-coord:m0:1")
        self.bench.advance(100.0)

        waited = self.waits()

        self.assertGreaterEqual(waited, WAIT - 0.02)
        self.assertLess(waited, WAIT + 0.5)

    def test_a_clock_that_runs_fast(self) -> None:
        """
        By a clock that runs a percent fast a whole TTL of true time is waited
        all the same.
        """
        self.bench.consul.destroy_session(self.session)

        waited = self.waits(Predecessor(self.session, ttl=TTL))

        self.assertGreaterEqual(waited / 1.01, TTL)

    def test_by_the_ttl_of_the_predecessor(self) -> None:
        """
        What counts is the TTL its record names, not our own.
        """
        self.bench.consul.destroy_session(self.session)

        waited = self.waits(Predecessor(self.session, ttl=40.0))

        self.assertGreaterEqual(waited, 40.0 * CLOCK_RATE_MARGIN - 0.02)

    def test_without_a_ttl_by_our_own(self) -> None:
        """
        A record that names no TTL is waited for by ours.
        """
        self.bench.consul.destroy_session(self.session)

        waited = self.waits(Predecessor(self.session))

        self.assertGreaterEqual(waited, WAIT - 0.02)
        self.assertLess(waited, WAIT + 0.5)

    def test_no_record_hastens_or_blocks(self) -> None:
        """
        A TTL no session can have is neither believed nor waited for (G9).
        """
        self.bench.consul.destroy_session(self.session)
        hasty = Predecessor(self.session, ttl=0.001)
        self.assertFalse(self.over(hasty))
        self.assertGreater(self.waits(hasty), 10.0)

        self.bench.consul.destroy_session(self.session)
        other = Succession(self.bench.clock.seconds, self.bench.api, TTL)
        endless = Predecessor(self.session, ttl=1e18)
        self.bench.result(other.is_over(endless))
        self.bench.clock.advance(LONGEST_TTL * CLOCK_RATE_MARGIN + 1)

        self.assertTrue(self.bench.result(other.is_over(endless)))

    def test_what_is_no_session(self) -> None:
        """
        A record that names what cannot be a session is waited for like one
        that is gone, and no such path is asked of Consul (G9).
        """
        for session in ("x", "../kv/leader", "a" * 36):
            succession_ = Succession(self.bench.clock.seconds, self.bench.api, TTL)
            asked = len(self.bench.sent)
            junk = Predecessor(session, "c", "n1", TTL)
            self.assertFalse(self.bench.result(succession_.is_over(junk)))
            self.bench.advance(WAIT + 0.1, step=0.1)

            self.assertTrue(self.bench.result(succession_.is_over(junk)))
            self.assertEqual(len(self.bench.requests("session/info")), 0)
            self.assertGreaterEqual(len(self.bench.sent), asked)

    def test_alive_again(self) -> None:
        """
        A session that is there after all (a restored Consul) begins anew.
        """
        before = self.bench.consul.snapshot()
        self.bench.consul.destroy_session(self.session)
        self.assertFalse(self.over(Predecessor(self.session)))
        self.bench.advance(10.0, step=0.1)
        self.bench.consul.restore(before)
        self.assertFalse(self.over(Predecessor(self.session)))
        self.bench.consul.destroy_session(self.session)

        self.assertGreaterEqual(self.waits(Predecessor(self.session)), WAIT - 0.02)

    def test_unanswered_nothing_is_known(self) -> None:
        """
        Without an answer it fails, and no time runs.
        """
        self.bench.hook = lambda request: RequestTimedOut("no answer")
        self.bench.consul.destroy_session(self.session)
        with self.assertRaises(RequestTimedOut):
            self.over()
        self.bench.advance(60.0, step=0.1)
        self.bench.hook = lambda request: None
        self.bench.consul.agents[0].remove_service("voltha-coord:m0:1")

        self.assertFalse(self.over())

    def test_unanswered_check(self) -> None:
        """
        A check of which nothing is heard fails too; after the TTL it is not
        even asked for.
        """
        self.bench.consul.destroy_session(self.session)
        self.bench.hook = lambda request: (
            Response(500, {}, b"No cluster leader")
            if "health" in request.path
            else None
        )
        with self.assertRaises(NoClusterLeader):
            self.over()
        self.bench.advance(WAIT, step=0.1)

        self.assertTrue(self.over())

    def test_check_that_may_not_be_read(self) -> None:
        """
        Without the right to read nodes, and with a node that cannot be one,
        the wait is all there is.
        """
        self.bench.consul.destroy_session(self.session)
        for answer in (
            Response(403, {}, b"Permission denied"),
            Response(400, {}, b"bad node"),
        ):
            self.bench.hook = self.answers_health(answer)
            self.assertFalse(self.over())

    @staticmethod
    def answers_health(answer: Response) -> Hook:
        """
        Make a hook for the health of a node.
        """

        def hook(request: Request) -> Response | None:
            return answer if "health" in request.path else None

        return hook

    def test_over_is_remembered(self) -> None:
        """
        Once over it is over, and costs no request; only so many are kept.
        """
        self.bench.advance(SETTINGS.failure_detection + 0.1)
        self.assertTrue(self.over())
        asked = len(self.bench.sent)

        self.assertTrue(self.over())

        self.assertEqual(len(self.bench.sent), asked)

    def test_remembers_a_bounded_number(self) -> None:
        """
        Names that never come again are forgotten in the end.
        """
        for number in range(REMEMBERED + 1):
            self.succession.waited(f"term-{number}")
        self.bench.advance(WAIT + 0.1, step=0.1)

        self.assertTrue(self.succession.waited(f"term-{REMEMBERED}"))
        self.assertFalse(self.succession.waited("term-0"))

    def test_waited_for_what_has_no_name(self) -> None:
        """
        For a predecessor that no record names, one TTL from when that was seen.
        """
        self.assertFalse(self.succession.waited("term-7"))
        self.bench.advance(WAIT - 0.1, step=0.1)
        self.assertFalse(self.succession.waited("term-7"))
        self.assertFalse(self.succession.waited("term-8"))

        self.bench.advance(0.2)

        self.assertTrue(self.succession.waited("term-7"))
        self.assertFalse(self.succession.waited("term-8"))
