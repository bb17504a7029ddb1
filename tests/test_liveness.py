"""
Tests for the liveness check: what a pass proves, and what it does not.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import Bench
from voltha_coord._loops import Tasks
from voltha_coord.consul.model import SessionInfo
from voltha_coord.consul.transport import Request, Response
from voltha_coord.errors import RequestTimedOut
from voltha_coord.lease import LeaseEnd
from voltha_coord.liveness import CheckEnd, Liveness, Troubles
from voltha_coord.session import service_for
from voltha_coord.settings import Settings, guard_seconds

SETTINGS = Settings()
SPAN = SETTINGS.failure_detection - guard_seconds(SETTINGS.failure_detection)

REGISTER = "service/register"
PASS = "check/pass"
SELF = "agent/self"
INFO = "session/info"


class Base(SynchronousTestCase):
    """
    A session whose agent can be made to forget its check.
    """

    def setUp(self) -> None:
        """
        Begin a session.
        """
        self.bench = Bench()
        self.keeper = self.bench.keeper()
        self.keeper.start()
        self.bench.until(lambda: self.leased)
        self.session = self.keeper.session_id
        self.bench.advance(1.5)

    @property
    def leased(self) -> bool:
        """
        Whether there is a lease to act under.
        """
        return self.keeper.lease is not None and self.keeper.lease.active

    def forget(self) -> None:
        """
        Let the agent forget the check, and not tell the servers yet: it was
        replaced by another of the same node.
        """
        agent = self.bench.consul.agents[0]
        for local in agent.checks.values():
            local.cancel()
        agent.checks.clear()
        agent.services.clear()

    def leave_unanswered(self, *paths: str) -> None:
        """
        Let requests to some paths get no answer.
        """
        self.bench.hook = lambda request: (
            RequestTimedOut("no answer")
            if any(path in request.path for path in paths)
            else None
        )


class ForgottenTests(Base):
    """
    An agent that does not know the check.
    """

    def test_told_again_and_the_session_kept(self) -> None:
        """
        It is told of the check again; the session, found by a consistent read,
        goes on under the same lease.
        """
        lease = self.keeper.lease
        self.forget()
        self.bench.advance(30.0)

        self.assertIs(self.keeper.lease, lease)
        self.assertTrue(self.leased)
        self.assertEqual(len(self.bench.requests(REGISTER)), 2)
        self.assertEqual(len(self.bench.requests(SELF)), 1)
        self.assertIn(("consistent", None), self.bench.requests(INFO)[-1].params)
        self.assertEqual(len(self.bench.log.of("liveness-check-lost")), 1)

    def test_agent_reloaded(self) -> None:
        """
        An agent that dropped the check, and told the servers, took the session
        with it: another one is made within a pass.
        """
        self.bench.consul.agents[0].reload()

        took = self.bench.until(lambda: not self.leased)

        self.assertLessEqual(took, SETTINGS.pass_interval)
        self.bench.until(lambda: self.leased, 1.0)
        self.assertNotEqual(self.keeper.session_id, self.session)
        (lost,) = self.bench.log.of("lost-consul-session")
        self.assertEqual(lost["reason"], CheckEnd.SESSION_GONE.value)

    def test_no_pass_counts_until_the_session_is_found(self) -> None:
        """
        Until it is known that agent and session are still the same, a pass
        that is answered 200 extends nothing.
        """
        for unanswered in (SELF, INFO, REGISTER):
            self.setUp()
            lease = self.keeper.lease
            assert lease is not None
            deadline = lease.deadline
            self.leave_unanswered(unanswered)
            self.forget()

            self.bench.until(lambda: not self.leased, SPAN)

            self.assertEqual(lease.deadline, deadline)
            self.assertIs(lease.ended, LeaseEnd.CHECK)

    def test_doubt_is_settled_by_a_later_pass(self) -> None:
        """
        What was not answered is asked again with the next pass.
        """
        lease = self.keeper.lease
        self.leave_unanswered(SELF)
        self.forget()
        self.bench.advance(0.8)
        self.leave_unanswered()

        self.bench.advance(30.0)

        self.assertIs(self.keeper.lease, lease)
        self.assertTrue(self.leased)
        self.assertEqual(len(self.bench.requests(REGISTER)), 2)

    def test_settled_doubt_counts_from_when_it_was_told_again(self) -> None:
        """
        Once the session was found the lease counts from when the agent was told
        of the check again, however long the answers took.
        """
        lease = self.keeper.lease
        assert lease is not None
        self.forget()
        self.bench.network.reply_latency = lambda request: (
            0.0 if PASS in request.path else 0.3
        )
        before = lease.deadline
        self.bench.until(lambda: lease.deadline > before, 3.0)

        told = [sent.at for sent in self.bench.sent if REGISTER in sent.request.path]
        self.assertAlmostEqual(lease.deadline, told[-1] + SPAN)

    def test_unknown_right_after_it_was_told_again(self) -> None:
        """
        An agent that does not know the check it was just told of is not the
        one that was told: the next session does without.
        """
        self.bench.hook = lambda request: (
            Response(404, {}, b'Unknown check ID "x"') if PASS in request.path else None
        )
        self.bench.until(lambda: self.keeper.session_id not in (self.session, None))
        self.bench.advance(1.0)

        self.assertTrue(self.leased)
        self.assertEqual(self.keeper.liveness, "ttl")
        self.assertEqual(len(self.bench.requests(REGISTER)), 2)
        self.assertEqual(len(self.bench.log.of("liveness-check-unusable")), 1)

    def test_another_agent_at_the_same_address(self) -> None:
        """
        If the agent that answers is another node's, passes are of no use.
        """
        self.bench.hook = lambda request: (
            Response(200, {}, b'{"Config": {"NodeName": "other"}}')
            if SELF in request.path
            else None
        )
        self.forget()

        self.bench.until(lambda: self.keeper.session_id not in (self.session, None))

        self.assertEqual(self.keeper.liveness, "ttl")

    def test_agent_that_may_not_be_asked(self) -> None:
        """
        Where the agent may not be asked who it is, the session is given up,
        and the next one has a check.
        """
        self.bench.hook = lambda request: (
            Response(403, {}, b"Permission denied") if SELF in request.path else None
        )
        self.forget()

        self.bench.until(lambda: self.keeper.session_id not in (self.session, None))

        self.assertEqual(self.keeper.liveness, "check")
        (lost,) = self.bench.log.of("lost-consul-session")
        self.assertEqual(lost["reason"], CheckEnd.LOST.value)

    def test_denied_when_told_again(self) -> None:
        """
        Where it may not be registered any more, the next session does without.
        """
        self.bench.consul.deny = lambda resource, name, access, token: (
            resource == "service"
        )
        self.forget()

        self.bench.until(lambda: self.keeper.session_id not in (self.session, None))

        self.assertEqual(self.keeper.liveness, "ttl")
        self.assertEqual(len(self.bench.log.of("liveness-check-denied")), 1)
        (lost,) = self.bench.log.of("lost-consul-session")
        self.assertEqual(lost["reason"], CheckEnd.DENIED.value)

    def test_answer_older_than_the_registration(self) -> None:
        """
        A pass that was on its way before the check was registered again is not
        judged by it, nor does it register it a third time.
        """
        self.bench.network.reply_latency = lambda request: (
            0.79 if PASS in request.path else 0.0
        )
        self.bench.network.latency = lambda request: (
            0.5 if REGISTER in request.path else 0.0
        )
        self.forget()

        self.bench.advance(30.0)

        self.assertEqual(self.keeper.session_id, self.session)
        self.assertEqual(self.keeper.liveness, "check")
        self.assertEqual(len(self.bench.requests(REGISTER)), 2)

    def test_removed_from_the_catalog_alone(self) -> None:
        """
        A check gone from the catalog takes the session, though passes go on
        being answered 200: the renewal says so.
        """
        self.bench.consul.remove_check(self.keeper.check_id, "n1")

        self.bench.until(lambda: not self.leased, SETTINGS.renew_interval + 0.1)
        self.bench.until(lambda: self.leased, 1.0)

        self.assertNotEqual(self.keeper.session_id, self.session)


class OtherTokenTests(Base):
    """
    Requests carry another token than the one the check was registered with.
    """

    def use_another_token(self) -> None:
        """
        Let requests carry another token from now on.
        """
        self.bench.requester.token.set("another")

    def test_told_again(self) -> None:
        """
        The agent, which tells the catalog with the token that it was told with, is
        told of the check again with the new one; the session goes on under the
        same lease (field report 109).
        """
        lease = self.keeper.lease
        self.use_another_token()
        self.bench.advance(30.0)

        first, second = self.bench.requests(REGISTER)
        self.assertNotIn("X-Consul-Token", first.headers)
        self.assertEqual(second.headers["X-Consul-Token"], "another")
        self.assertIs(self.keeper.lease, lease)
        self.assertTrue(self.leased)
        self.assertIn(("consistent", None), self.bench.requests(INFO)[-1].params)

    def test_told_until_it_answers(self) -> None:
        """
        It is told so often until it has answered.
        """
        self.leave_unanswered(REGISTER)
        self.use_another_token()
        self.bench.advance(1.1)
        self.leave_unanswered()

        self.bench.advance(30.0)

        self.assertGreaterEqual(len(self.bench.requests(REGISTER)), 3)
        self.assertLessEqual(len(self.bench.requests(REGISTER)), 4)
        self.assertEqual(self.keeper.session_id, self.session)

    def test_may_not_register(self) -> None:
        """
        A token that may not register it gets a session without a check.
        """
        self.bench.consul.deny = lambda resource, name, access, token: (
            (resource, token) == ("service", "another")
        )
        self.use_another_token()

        self.bench.until(lambda: self.keeper.session_id not in (self.session, None))

        self.assertEqual(self.keeper.liveness, "ttl")

    def test_agent_that_may_not_be_asked(self) -> None:
        """
        Where the agent may not be asked who it is, the next session has a check
        that was registered with the new token.
        """
        self.bench.hook = lambda request: (
            Response(403, {}, b"Permission denied") if SELF in request.path else None
        )
        self.use_another_token()

        self.bench.until(lambda: self.keeper.session_id not in (self.session, None))

        self.assertEqual(self.keeper.liveness, "check")
        last = self.bench.requests(REGISTER)[-1]
        self.assertEqual(last.headers["X-Consul-Token"], "another")


class AloneTests(SynchronousTestCase):
    """
    A check without a keeper.
    """

    def setUp(self) -> None:
        """
        Register one.
        """
        self.bench = Bench()
        self.requests = Tasks(self.bench.log)
        self.passed: list[float] = []
        self.ends: list[CheckEnd] = []
        self.check = Liveness(
            self.bench.clock,
            self.bench.api,
            SETTINGS,
            service_for("m1", "1", SETTINGS, "h", 1),
            requests=self.requests,
            troubles=Troubles(self.bench.log),
            passed=lambda: self.passed.append(self.bench.clock.seconds()),
            failed=self.ends.append,
        )
        self.bench.result(self.check.register())

    def test_passes_carry_it_on(self) -> None:
        """
        Passed every third of its TTL, it holds.
        """
        self.bench.advance(10.05)

        self.assertEqual(len(self.passed), 10)
        self.assertTrue(self.check.holds())
        self.assertEqual(self.ends, [])

    def test_counts_from_when_it_was_registered(self) -> None:
        """
        Registering counts as a pass from when it was sent, and not from when it
        was answered.
        """
        self.check.stop()
        self.bench.network.reply_latency = lambda request: 0.5
        sent = self.bench.clock.seconds()

        self.bench.result(self.check.register())

        self.assertGreaterEqual(self.bench.clock.seconds(), sent + 0.5)
        self.assertAlmostEqual(self.check.passes.deadline, sent + SPAN)

    def test_agent_that_is_restarted(self) -> None:
        """
        While connections to the agent are refused, passes come four times as often:
        one that listens again is met at once, and passed as ever from then on.
        """
        self.bench.advance(1.05)
        self.bench.network.refuses = True
        self.bench.advance(1.25)
        self.bench.network.refuses = False
        self.bench.advance(SETTINGS.pass_interval / 4 + 0.05)

        self.assertEqual(len(self.passed), 2)
        self.bench.advance(3 * SETTINGS.pass_interval)
        self.assertEqual(len(self.passed), 5)

    def test_agent_that_is_silent(self) -> None:
        """
        An agent that does not answer is not asked any more often.
        """
        self.bench.network.loses_request = lambda request: True
        before = len(self.bench.requests(PASS))
        self.bench.advance(2.9 * SETTINGS.pass_interval)

        self.assertEqual(len(self.bench.requests(PASS)) - before, 2)

    def test_gap_ends_it_once(self) -> None:
        """
        A gap in its passes ends it, is told once, and no more is passed.
        """
        self.bench.network.partition()
        self.bench.advance(SETTINGS.failure_detection + 1.0)
        self.bench.network.heal()
        self.bench.advance(5.0)

        self.assertFalse(self.check.holds())
        self.assertEqual(self.ends, [CheckEnd.GAP])
        self.assertTrue(self.bench.silent)

    def test_unknown_while_nothing_rests_on_it(self) -> None:
        """
        Forgotten before a session was made, another one takes its place; told
        of just now, it is of no use.
        """
        self.bench.advance(1.5)
        self.bench.consul.agents[0].reload()
        self.bench.advance(1.0)
        self.assertEqual(self.ends, [CheckEnd.LOST])

        self.setUp()
        self.bench.consul.agents[0].reload()
        self.bench.advance(1.5)

        self.assertEqual(self.ends, [CheckEnd.UNUSABLE])

    def test_says_nothing_after_stop(self) -> None:
        """
        Stopped, whatever its last pass comes to is nobody's concern any more,
        and does not register it again.
        """
        self.bench.advance(1.5)
        self.check.bind(SessionInfo("s1", node="n1"))
        self.bench.network.reply_latency = lambda request: 0.5
        self.bench.consul.agents[0].reload()
        self.bench.advance(0.6)

        self.check.stop()
        self.bench.advance(10.0)

        self.assertFalse(self.check.holds())
        self.assertEqual(self.ends, [])
        self.assertEqual(len(self.bench.requests(REGISTER)), 1)
        self.assertTrue(self.bench.silent)

    def test_constant_output(self) -> None:
        """
        Each pass is the same, so that the servers hear nothing of it.
        """
        index = self.bench.consul.index
        self.bench.advance(10.0)

        self.assertEqual(self.bench.consul.index, index)
        shapes = {(r.path, r.params, r.body) for r in self.passes()}
        self.assertEqual(len(shapes), 1)

    def passes(self) -> list[Request]:
        """
        Give the passes that were sent.
        """
        return self.bench.requests(PASS)


class TroublesTests(SynchronousTestCase):
    """
    Trouble that is said once.
    """

    def test_once_until_it_is_over(self) -> None:
        """
        The same trouble is one line until it was over; others are their own.
        """
        log = Bench().log
        troubles = Troubles(log)
        troubles.say("a", ValueError("1"))
        troubles.say("a", ValueError("2"))
        troubles.say("b", ValueError("3"))
        troubles.over("a", "c")

        troubles.say("a", ValueError("4"))
        troubles.say("b", ValueError("5"))

        self.assertEqual([f["error"] for f in log.of("a", "warning")], ["1", "4"])
        self.assertEqual([f["error"] for f in log.of("b", "warning")], ["3"])
