"""
Tests for the keeper of the session: made, kept alive, found lost, made again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import Bench
from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.consul.transport import Request, Response
from voltha_coord.errors import ConsulUnavailable, RequestTimedOut
from voltha_coord.lease import LeaseEnd
from voltha_coord.leftovers import REMEMBERED
from voltha_coord.liveness import CheckEnd
from voltha_coord.own_sessions import OWN_SESSIONS
from voltha_coord.settings import Settings, guard_seconds

CREATE = "session/create"
INFO = "session/info"
RENEW = "session/renew"
DESTROY = "session/destroy"
REGISTER = "service/register"
DEREGISTER = "service/deregister"
PASS = "check/pass"

#: A minute, and what the steps of the clock may add up to.
MINUTE = 60.5

SETTINGS = Settings()
CHECK_SPAN = SETTINGS.failure_detection - guard_seconds(SETTINGS.failure_detection)
RENEWAL_SPAN = SETTINGS.session_ttl - guard_seconds(SETTINGS.session_ttl)


def fails(error: Exception, *paths: str) -> Callable[[Request], Exception | None]:
    """
    Make a hook by which requests to some paths fail.
    """
    return lambda request: (
        error if any(path in request.path for path in paths) else None
    )


def silence() -> RequestTimedOut:
    """
    Make the failure of a request that got no answer.
    """
    return RequestTimedOut("no answer")


def says_gone(request: Request) -> Response | None:
    """
    Say that a session is gone, whether it is or not.
    """
    if RENEW in request.path:
        return Response(404, {}, b"Session id 'x' not found")
    return Response(200, {}, b"[]") if "session/info" in request.path else None


class Base(SynchronousTestCase):
    """
    A bench with a keeper on it.
    """

    settings = SETTINGS

    def setUp(self) -> None:
        """
        Make them.
        """
        self.use(Bench())

    def use(self, bench: Bench, settings: Settings | None = None) -> None:
        """
        Take another bench, or other settings.
        """
        self.bench = bench
        self.changes: list[bool] = []
        self.keeper = bench.keeper(settings or self.settings, changed=self.changed)

    def changed(self) -> None:
        """
        Note whether there was a lease when it changed.
        """
        self.changes.append(self.leased)

    @property
    def leased(self) -> bool:
        """
        Whether there is a lease to act under.
        """
        return self.keeper.lease is not None and self.keeper.lease.active

    def begin(self) -> str:
        """
        Start, and give the session.
        """
        self.keeper.start()
        self.bench.until(lambda: self.leased)
        assert self.keeper.session_id is not None
        return self.keeper.session_id

    def end(self) -> None:
        """
        Stop and destroy, and see that nothing is left.
        """
        self.bench.hook = lambda request: None
        self.bench.result(self.keeper.stop())
        self.bench.result(self.keeper.destroy())
        self.bench.advance(0.1)
        self.assertTrue(self.bench.silent)
        self.assertEqual(self.bench.alive, [])

    def lose_answers(self, *paths: str) -> None:
        """
        Let answers of some paths be lost, though the requests are served.
        """
        self.bench.network.loses_reply = lambda request: any(
            path in request.path for path in paths
        )

    def lose_requests(self, *paths: str) -> None:
        """
        Let requests to some paths be lost.
        """
        self.bench.network.loses_request = lambda request: any(
            path in request.path for path in paths
        )

    def assert_rate(self, most: int) -> None:
        """
        Assert that a state costs no more requests than so many a minute, once
        it has lasted for a while.
        """
        self.bench.advance(20.0)
        counted = self.bench.rate()
        self.assertLessEqual(sum(counted.values()), most, counted)
        self.assertGreater(sum(counted.values()), 0)


class EstablishingTests(Base):
    """
    How a session comes about.
    """

    def test_registers_the_check_before_the_session(self) -> None:
        """
        The session is bound to a service check that was registered before, and to
        nothing else (field reports 21, 22).
        """
        session = self.begin()

        paths = [request.path for request in self.bench.requests("/v1/")]
        self.assertEqual(
            paths,
            [
                "/v1/agent/service/register",
                "/v1/session/create",
                f"/v1/session/info/{session}",
            ],
        )
        (body,) = self.bench.bodies(CREATE)
        self.assertEqual(body["ServiceChecks"], [{"ID": self.keeper.check_id}])
        self.assertEqual(body["NodeChecks"], [])
        self.assertEqual(body["Behavior"], "delete")
        self.assertEqual(body["TTL"], "15s")
        self.assertEqual(body["LockDelay"], "1s")
        self.assertEqual(self.keeper.liveness, "check")
        self.assertEqual(self.keeper.node, "n1")
        self.end()

    def test_says_what_it_made(self) -> None:
        """
        It says in how many seconds a death is noticed (field reports 1, 29).
        """
        session = self.begin()

        (said,) = self.bench.log.of("created-consul-session", "info")
        self.assertEqual(said["session_id"], session)
        self.assertEqual(said["noticed_within"], 3.0)
        self.assertEqual(self.changes, [True])

    def test_without_failure_detection(self) -> None:
        """
        Without it there is the TTL alone: no check, no passes.
        """
        self.use(Bench(), Settings(failure_detection=0.0))
        self.begin()
        self.bench.advance(60.0)

        self.assertEqual(self.bench.requests("agent"), [])
        self.assertEqual(self.bench.bodies(CREATE)[0]["ServiceChecks"], [])
        self.assertEqual(self.keeper.liveness, "ttl")
        self.assertEqual(self.keeper.check_id, "")
        (said,) = self.bench.log.of("created-consul-session")
        self.assertEqual(said["noticed_within"], 30.0)
        self.end()

    def test_node_health(self) -> None:
        """
        Gossip's check is bound only when asked for (field reports 21, 22).
        """
        self.use(Bench(), Settings(node_health=True))
        self.begin()

        self.assertEqual(self.bench.bodies(CREATE)[0]["NodeChecks"], ["serfHealth"])

    def test_waits_for_the_catalog(self) -> None:
        """
        A check that takes seconds to reach the catalog is waited for, passed
        meanwhile, and not registered again; no session goes without it.
        """
        self.bench.consul.agents[0].sync_delay = 2.0
        self.begin()

        self.assertEqual(len(self.bench.requests(REGISTER)), 1)
        self.assertGreater(len(self.bench.requests(CREATE)), 3)
        self.end()

    def test_check_that_never_reaches_the_catalog(self) -> None:
        """
        A missing check does not make it spin, and is said.
        """
        self.bench.hook = lambda request: (
            Response(500, {}, b"Missing check 'x' registration")
            if CREATE in request.path
            else None
        )
        self.keeper.start()

        self.assert_rate(60 + 30)
        self.assertTrue(3 <= len(self.bench.requests(REGISTER)) <= 7)
        self.assertEqual(len({b["ID"] for b in self.bench.bodies(REGISTER)}), 1)
        self.assertTrue(self.bench.log.of("session-not-created", "error"))
        self.end()

    def test_node_that_is_not_in_the_catalog(self) -> None:
        """
        Where the agent's node was taken out of the catalog, a check that is
        registered anew puts it back; nobody waits for the agent to notice.
        """
        consul = self.bench.consul
        node = consul.agents[0].node

        def taken_out(request: Request) -> None:
            if CREATE in request.path and len(self.bench.requests(CREATE)) < 3:
                consul.deregister_node(node)

        self.bench.hook = taken_out
        self.begin()

        self.assertLess(self.bench.clock.seconds(), 2.0)
        self.assertEqual(self.keeper.liveness, "check")
        self.assertEqual(len(self.bench.alive), 1)
        self.bench.advance(70.0)
        self.assertEqual(len(self.bench.consul.agents[0].services), 1)
        self.end()

    def test_check_that_the_catalog_lost(self) -> None:
        """
        A check that the catalog had and lost, as when a backup is restored, is
        there again long before its agent compares the two.
        """
        consul = self.bench.consul
        removed: list[str] = []

        def lose(request: Request) -> None:
            if CREATE in request.path and not removed:
                (check_id,) = consul.agents[0].checks
                removed.append(check_id)
                consul.remove_check(check_id, consul.agents[0].node)

        self.bench.hook = lose
        self.begin()

        self.assertLess(self.bench.clock.seconds(), 20.0)
        self.assertEqual([self.keeper.check_id], removed)
        self.end()

    def test_lost_answer_of_create(self) -> None:
        """
        A session whose id was never learnt is followed by another on the same
        check; it holds nothing and ends.
        """
        self.lose_answers(CREATE)
        self.keeper.start()
        self.bench.advance(1.0)
        self.bench.network.loses_reply = lambda request: False

        self.bench.until(lambda: self.leased)

        self.assertEqual(len(self.bench.requests(REGISTER)), 1)
        self.assertEqual(len(self.bench.alive), 2)
        self.bench.advance(31.0)
        self.assertEqual(self.bench.alive, [self.keeper.session_id])
        self.end()

    def test_lost_answer_of_info(self) -> None:
        """
        A session that is made is not made again because nothing more is heard
        of it.
        """
        self.lose_answers(INFO)
        self.keeper.start()
        self.bench.advance(5.0)
        self.bench.network.loses_reply = lambda request: False

        self.bench.until(lambda: self.leased)

        self.assertEqual(len(self.bench.requests(CREATE)), 1)
        self.end()

    def test_lease_counts_from_the_creation(self) -> None:
        """
        However late one hears of the session, its lease counts from when its
        creation was sent, and here is over already: it is renewed first.
        """
        self.use(Bench(), Settings(failure_detection=0.0))
        self.lose_answers(INFO)
        self.keeper.start()
        self.bench.advance(RENEWAL_SPAN + 1.0)
        self.assertIsNone(self.keeper.lease)
        self.bench.network.loses_reply = lambda request: False

        self.bench.until(lambda: self.keeper.lease is not None)
        self.assertFalse(self.leased)

        self.bench.until(lambda: self.leased)
        self.assertEqual(len(self.bench.requests(CREATE)), 1)
        self.end()

    def test_lost_answer_of_register(self) -> None:
        """
        A service that may have been registered is taken away again.
        """
        self.lose_answers(REGISTER)
        self.keeper.start()
        self.bench.advance(1.0)
        self.bench.network.loses_reply = lambda request: False

        self.bench.until(lambda: self.leased)
        self.bench.advance(0.1)

        first, second = (body["ID"] for body in self.bench.bodies(REGISTER))
        self.assertEqual([*self.bench.consul.agents[0].services], [second])
        self.assertIn(first, self.bench.requests(DEREGISTER)[0].path)
        self.end()

    def test_long_loss_of_answers_leaves_a_bounded_rest(self) -> None:
        """
        After hours no more than a handful is taken away: older ones have ended
        by themselves.
        """
        self.lose_answers(REGISTER)
        self.keeper.start()
        self.bench.advance(600.0, step=0.05)
        self.bench.network.loses_reply = lambda request: False

        self.bench.until(lambda: self.leased)
        self.bench.advance(1.0)

        self.assertLess(len(self.bench.requests(DEREGISTER)), REMEMBERED + 1)
        self.bench.advance(100.0)
        self.assertEqual(len(self.bench.consul.agents[0].services), 1)
        self.end()

    def test_session_gone_before_it_was_known(self) -> None:
        """
        A session destroyed between its creation and the first look at it gives
        no lease; another one is made.
        """

        def destroy_first(request: Request) -> None:
            if INFO in request.path and len(self.bench.requests(INFO)) == 1:
                self.bench.consul.destroy_session(request.path.rsplit("/", 1)[1])

        self.bench.hook = destroy_first

        session = self.begin()

        self.assertEqual(len(self.bench.requests(CREATE)), 2)
        self.assertEqual(self.bench.alive, [session])
        self.assertEqual(len(self.keeper.own_sessions), 2)
        self.assertEqual(self.bench.log.of("session-loop-failed"), [])
        self.end()

    def test_check_lapses_while_creating(self) -> None:
        """
        No session rests on a check whose passes had a gap, even if a late pass
        is answered: the next one has another name.
        """
        self.lose_requests(CREATE, PASS)
        self.keeper.start()
        self.bench.advance(CHECK_SPAN + 0.5)
        self.bench.network.loses_request = lambda request: False

        self.bench.until(lambda: self.leased)

        first, second = (body["ID"] for body in self.bench.bodies(REGISTER))
        self.assertNotEqual(first, second)
        self.assertEqual(self.keeper.check_id, f"{second}:alive")
        self.end()

    def test_gap_between_creation_and_first_look(self) -> None:
        """
        A session whose check lapsed before anything more was heard of it is
        not taken; it is destroyed.
        """
        self.lose_answers(INFO, PASS)
        self.bench.network.reply_latency = lambda request: (
            1.9 if INFO in request.path else 0.0
        )
        self.keeper.start()
        self.bench.advance(1.0)
        self.lose_answers(PASS)
        self.bench.advance(CHECK_SPAN)
        self.bench.network.loses_reply = lambda request: False
        self.bench.network.reply_latency = lambda request: 0.0

        session = self.begin_after()

        self.assertEqual(self.bench.alive, [session])
        self.assertEqual(len(self.bench.requests(REGISTER)), 2)
        self.assertEqual(len(self.bench.log.of("created-consul-session")), 1)
        self.end()

    def begin_after(self) -> str:
        """
        Give the session once there is a lease.
        """
        self.bench.until(lambda: self.leased)
        self.bench.advance(0.1)
        assert self.keeper.session_id is not None
        return self.keeper.session_id

    def test_denied_check(self) -> None:
        """
        Where no service may be registered, the TTL is all there is: said, with
        what to do about it, and tried again for the next session.
        """
        self.bench.consul.deny = lambda resource, name, access, token: (
            resource == "service" and access == "write"
        )
        session = self.begin()
        self.assertEqual(self.keeper.liveness, "ttl")
        self.assertEqual(self.keeper.check_id, "")
        (said,) = self.bench.log.of("liveness-check-denied", "warning")
        self.assertIn("service:write", said["action"])
        self.assertEqual(self.bench.log.of("created-consul-session")[0]["ttl"], 15.0)

        self.bench.consul.deny = lambda resource, name, access, token: False
        self.bench.consul.destroy_session(session)
        self.bench.until(lambda: not self.leased)
        self.bench.until(lambda: self.leased)

        self.assertEqual(self.keeper.liveness, "check")
        self.end()

    def test_denied_check_is_asked_for_once(self) -> None:
        """
        While no session can be made either, the check is not asked for again
        and again.
        """
        self.bench.consul.deny = lambda resource, name, access, token: True
        self.keeper.start()

        self.assert_rate(20)

        self.assertEqual(len(self.bench.requests(REGISTER)), 1)
        self.bench.consul.deny = lambda resource, name, access, token: False
        self.end()

    def test_denied_session(self) -> None:
        """
        Where no session may be made, one check is kept, and attempts are rare.
        """
        self.bench.consul.deny = lambda resource, name, access, token: (
            resource == "session"
        )
        self.keeper.start()

        self.assert_rate(60 + 20)

        self.assertEqual(len(self.bench.requests(REGISTER)), 1)
        steps = len(self.bench.log.of("session-refused", "error"))
        # Seven steps, and once more after a minute.
        self.assertEqual(steps, 8)
        self.bench.consul.deny = lambda resource, name, access, token: False
        self.end()

    def test_no_agent(self) -> None:
        """
        Without an agent it is said once for each step of the back-off, and
        then once a minute.  The steps end at a second: no sooner is the agent
        back than there is a session.
        """
        self.bench.network.refuses = True
        self.keeper.start()
        self.assert_rate(100)

        said = self.bench.log.of("consul-not-up", "error")
        self.assertEqual(len(said), 6)
        self.assertGreaterEqual(said[4]["retry_in"], 0.5)
        self.bench.network.refuses = False
        self.assertLess(self.bench.until(lambda: self.leased), 1.1)
        self.end()

    def test_no_cluster_leader(self) -> None:
        """
        While the servers have no leader one check is kept and attempts are rare (field
        reports 104, 136); then all is well.
        """
        self.bench.consul.lose_leader()
        self.keeper.start()
        self.assert_rate(60 + 24)

        self.bench.consul.elect_leader()
        self.bench.until(lambda: self.leased, 8.0)

        self.assertEqual(len(self.bench.requests(REGISTER)), 1)
        self.end()

    def test_partition(self) -> None:
        """
        Cut off from its agent it tries now and then, and comes back.
        """
        self.bench.network.partition()
        self.keeper.start()
        self.assert_rate(24)

        self.bench.network.heal(deliver=False)
        self.bench.until(lambda: self.leased, 8.0)
        self.end()

    def test_report_28_ttl_below_the_minimum(self) -> None:
        """
        A TTL the servers refuse is raised to what they take, and said; the
        lease rests on the raised one (field report 28).
        """
        self.bench.hook = lambda request: (
            Response(
                500,
                {},
                b"Invalid Session TTL '15000000000', must be between [20s=24h0m0s]",
            )
            if CREATE in request.path and b'"TTL":"15s"' in request.body
            else None
        )
        self.use_settings_without_check()

        self.begin()

        self.assertEqual(self.keeper.session_ttl, 20.0)
        assert self.keeper.lease is not None
        self.assertGreater(self.keeper.lease.remaining, RENEWAL_SPAN)
        (said,) = self.bench.log.of("session-ttl-raised", "warning")
        self.assertEqual((said["asked"], said["now"]), (15.0, 20.0))
        self.end()

    def use_settings_without_check(self) -> None:
        """
        Take the same bench, without failure detection.
        """
        self.use(self.bench, Settings(failure_detection=0.0))

    def test_report_28_ttl_refused_for_good(self) -> None:
        """
        A refusal that names no greater minimum does not make it spin.
        """
        self.bench.hook = lambda request: (
            Response(500, {}, b"Invalid Session TTL '1', must be between [5s=10s]")
            if CREATE in request.path
            else None
        )
        self.use_settings_without_check()
        self.keeper.start()

        self.assert_rate(24)
        self.assertEqual(self.keeper.session_ttl, 15.0)
        self.end()

    def test_reports_33_34_35_lock_delay_is_sent(self) -> None:
        """
        Whatever the lock-delay, it is sent, with its unit: Consul would take
        15 s for none, and seconds for milliseconds (field reports 33, 34, 35).
        """
        for seconds, text, kept in ((0.0, "0s", 0.0), (0.001, "1ms", 0.001)):
            self.use(Bench(), Settings(lock_delay=seconds))
            session = self.begin()
            self.assertEqual(self.bench.bodies(CREATE)[0]["LockDelay"], text)
            info = self.bench.result(self.bench.api.session(session))
            self.assertEqual(info.lock_delay, kept)
            self.end()

        self.use(Bench(), Settings(lock_delay=60.0))
        session = self.begin()
        info = self.bench.result(self.bench.api.session(session))
        self.assertEqual(info.lock_delay, 60.0)
        self.end()

    def test_report_11_any_exception(self) -> None:
        """
        A bug below does not end the loop (field report 11).
        """
        self.bench.hook = fails(ValueError("bug"), CREATE)
        self.keeper.start()
        self.bench.advance(3.0)
        self.assertTrue(self.bench.log.of("session-loop-failed", "exception"))

        self.bench.hook = lambda request: None
        self.bench.until(lambda: self.leased)
        self.end()


class KeepingTests(Base):
    """
    How a session is kept, and how its loss is noticed.
    """

    def test_v5_renewals_and_passes(self) -> None:
        """
        In a quiet minute there are 60 passes, 20 renewals and nothing else; no pass
        changes anything in Consul (V5; field reports 5, 7, 69).
        """
        session = self.begin()
        # Somewhere between two of each.
        self.bench.advance(SETTINGS.renew_interval + 0.3)
        index = self.bench.consul.index

        counted = self.bench.rate(MINUTE)

        self.assertEqual(
            counted, {"agent/check/pass": 60, f"session/renew/{session}": 20}
        )
        self.assertEqual(self.bench.consul.index, index)
        self.assertEqual(self.changes, [True])
        self.end()

    def test_report_135_renewals_are_spread(self) -> None:
        """
        Members whose sessions were made at one instant, as after an outage, renew
        them at moments of their own, spread over the whole interval (field report
        135).
        """
        interval, members, waited = SETTINGS.renew_interval, 40, []
        for member in range(members):
            bench = Bench()
            bench.random = Random(member).random
            self.use(bench)
            self.begin()
            sent = bench.until(lambda: self.bench.requests(RENEW), interval + 0.1)
            waited.append(sent)
            self.end()

        quarters = Counter(min(3, int(4 * sent / interval)) for sent in waited)
        self.assertEqual(sorted(quarters), [0, 1, 2, 3])
        self.assertLess(max(quarters.values()), members / 2)

    def test_report_8_renewal_answered_404(self) -> None:
        """
        A renewal that says the session is gone ends the lease at once, and a
        new session is made (field reports 8, 12; B1).
        """
        first = self.begin()
        self.bench.consul.destroy_session(first)

        took = self.bench.until(lambda: not self.leased)

        self.assertLessEqual(took, SETTINGS.renew_interval + 0.1)
        self.bench.until(lambda: self.leased, 1.0)
        second = self.keeper.session_id
        self.assertNotEqual(second, first)
        self.assertEqual(list(self.keeper.own_sessions), [first, second])
        self.assertEqual(self.changes, [True, False, True])
        self.end()

    def test_renewal_answered_404_by_a_server_that_has_just_come_up(self) -> None:
        """
        A renewal that is answered 404 although the session lives, as by a server
        that has not read its own log yet, ends nothing and extends nothing.
        """
        session = self.begin()
        gone = Response(404, {}, f"Session id '{session}' not found".encode())
        self.bench.hook = lambda request: gone if RENEW in request.path else None
        self.bench.advance(RENEWAL_SPAN - 0.1)
        self.assertTrue(self.leased)
        self.bench.advance(0.2)
        self.assertFalse(self.leased)
        self.bench.hook = lambda request: None

        self.bench.until(lambda: self.leased, SETTINGS.renew_interval + 0.1)

        self.assertEqual(self.keeper.session_id, session)
        self.end()

    def test_report_50_losses_are_counted(self) -> None:
        """
        Sessions are counted, and so are losses, by reason; being stopped is
        none (field reports 23, 50).
        """
        self.bench.consul.destroy_session(self.begin())
        self.bench.until(lambda: not self.leased)
        self.bench.until(lambda: self.leased, 1.0)
        self.end()

        self.assertEqual(self.keeper.begun, 2)
        lost = {reason: n for reason, n in self.keeper.lost.counts.items() if n}
        self.assertEqual(lost, {"renewal-answered-404": 1})
        ended = self.keeper.leasing.ended.counts
        self.assertEqual((ended["session-gone"], ended["released"]), (1, 1))

    def test_told_once_of_the_end(self) -> None:
        """
        That the lease is over is told once, whichever of its reasons is seen
        first.
        """
        self.begin()
        self.bench.network.partition()

        self.bench.until(lambda: not self.leased)
        self.bench.advance(10.0)

        self.assertEqual(self.changes, [True, True, False])
        self.assertEqual(len(self.bench.log.of("lease-over")), 1)
        self.assertEqual(len(self.bench.log.of("lease-ending")), 1)

    def test_report_72_deadline_from_request_start(self) -> None:
        """
        A pass extends the lease from when it was sent, however late its answer
        comes (field report 72).
        """
        self.begin()
        assert self.keeper.lease is not None
        self.bench.network.reply_latency = lambda request: (
            0.7 if PASS in request.path else 0.0
        )
        self.bench.advance(10.0)

        passes = [s.at for s in self.bench.sent if PASS in s.request.path]
        answered = [at for at in passes if at + 0.7 <= self.bench.clock.seconds()]
        self.assertAlmostEqual(
            self.keeper.lease.deadline, answered[-1] + CHECK_SPAN, places=6
        )

    def test_report_72_renewal_counts_from_when_it_was_sent(self) -> None:
        """
        So does a renewal, and so does the creation of the session, where there
        is no check (field report 72).
        """
        settings = Settings(failure_detection=0.0)
        span = settings.session_ttl - guard_seconds(settings.session_ttl)
        self.use(Bench(), settings)
        self.bench.network.reply_latency = lambda request: (
            0.7 if RENEW in request.path or CREATE in request.path else 0.0
        )
        self.begin()
        assert self.keeper.lease is not None
        (created,) = [s.at for s in self.bench.sent if CREATE in s.request.path]
        self.assertAlmostEqual(self.keeper.lease.deadline, created + span, places=6)

        self.bench.advance(10.0)

        renewed = [s.at for s in self.bench.sent if RENEW in s.request.path]
        answered = [at for at in renewed if at + 0.7 <= self.bench.clock.seconds()]
        self.assertAlmostEqual(
            self.keeper.lease.deadline, answered[-1] + span, places=6
        )

    def answer_in_place_of_consul(self, headers: dict[str, str]) -> None:
        """
        Let somebody answer everything with an empty 200.
        """
        self.bench.hook = lambda request: Response(200, headers, b"")

    def test_somebody_acknowledges_everything(self) -> None:
        """
        Passes that a proxy acknowledges in the agent's place do not carry the
        lease past the check's TTL, where an agent's answers can be told apart.
        """
        self.begin()
        self.bench.advance(2.0)
        self.answer_in_place_of_consul({})

        self.assertLess(self.bench.until(lambda: not self.leased), 3.0)

        self.bench.hook = lambda request: None
        self.bench.until(lambda: self.leased, 5.0)
        self.end()

    def test_somebody_renews(self) -> None:
        """
        Where they cannot be told apart the next renewal shows it: the lease is
        over at once, and what was acknowledged meanwhile counts for nothing.
        """
        self.begin()
        self.bench.until(lambda: self.bench.requests(RENEW))
        self.answer_in_place_of_consul({"vary": "Accept-Encoding"})

        took = self.bench.until(lambda: not self.leased)

        self.assertLess(took, Settings().renew_interval + 0.05)
        said = self.bench.log.of("lost-consul-session", "warning")
        self.assertEqual(said[-1]["reason"], CheckEnd.FOREIGN.value)
        self.bench.advance(20.0)
        self.assertFalse(self.leased)
        self.bench.hook = lambda request: None
        self.bench.until(lambda: self.leased, 5.0)
        self.end()

    def test_broken_proxy_is_ridden_out(self) -> None:
        """
        A proxy that says it has lost its agent is like no answer: it costs
        nothing as long as it is brief.
        """
        session = self.begin()
        self.bench.until(lambda: self.bench.requests(RENEW))
        self.bench.advance(2.5)
        self.bench.hook = lambda request: Response(
            502, {"content-type": "text/html"}, b"<html>Bad Gateway</html>"
        )
        self.bench.advance(1.0)
        self.bench.hook = lambda request: None
        self.bench.advance(5.0)

        self.assertTrue(self.leased)
        self.assertEqual(self.keeper.session_id, session)
        self.end()

    def test_v4_silence_ends_the_lease_in_time(self) -> None:
        """
        Without any answer the lease ends by the last acknowledged pass, before
        Consul can have ended the session (V4; field reports 2, 41, 43).
        """
        session = self.begin()
        self.bench.advance(10.0)
        self.bench.network.partition()
        begun = self.bench.clock.seconds()
        self.bench.until(lambda: not self.leased)

        self.assertLessEqual(self.bench.clock.seconds() - begun, CHECK_SPAN)
        self.assertIn(session, self.bench.alive)

    def test_stopping_begins_before_the_end(self) -> None:
        """
        That the lease is about to end is told a grace before it does; an
        acknowledgement takes that back, and tells.
        """
        self.begin()
        assert self.keeper.lease is not None
        self.lose_requests(PASS)
        self.bench.advance(1.5)
        self.bench.network.loses_request = lambda request: False
        self.bench.network.reply_latency = lambda request: 0.7
        self.bench.until(lambda: len(self.changes) == 2)
        self.assertLessEqual(self.keeper.lease.remaining, SETTINGS.grace)
        self.assertGreater(self.keeper.lease.remaining, SETTINGS.grace - 0.02)

        self.bench.until(lambda: len(self.changes) == 3)

        self.assertGreater(self.keeper.lease.remaining, SETTINGS.grace)
        self.assertEqual(self.changes, [True, True, True])
        self.end()

    def test_late_pass_never_revives(self) -> None:
        """
        A pass that Consul answers 200 after its check had run out brings back
        nothing: the session is dead (seen 12 of 12).
        """
        first = self.begin()
        self.lose_requests(PASS)
        self.bench.advance(SETTINGS.failure_detection + 1.2)
        self.bench.network.loses_request = lambda request: False
        self.assertNotIn(first, self.bench.alive)

        self.bench.until(lambda: self.leased)

        self.assertNotEqual(self.keeper.session_id, first)
        assert self.keeper.lease is not None
        self.assertIs(self.changes.count(False), 1)
        self.end()

    def test_check_that_ran_out_stays_to_be_seen(self) -> None:
        """
        The check of a session that ran out is left to its agent: successors
        read in the catalog that its timer fired.
        """
        self.begin()
        check = self.keeper.check_id
        self.lose_requests(PASS)
        self.bench.advance(SETTINGS.failure_detection + 1.0)
        self.bench.network.loses_request = lambda request: False
        self.bench.until(lambda: self.leased)

        (state,) = (
            c
            for c in self.bench.result(self.bench.api.node_checks("n1"))
            if c.check_id == check
        )
        self.assertEqual(state.status, "critical")
        self.assertTrue(state.output.startswith("TTL expired"))
        self.assertNotEqual(self.keeper.check_id, check)
        self.end()

    def test_consul_election_is_ridden_out(self) -> None:
        """
        While the servers elect a leader passes go on and the lease lasts
        (field reports 2, 43).
        """
        session = self.begin()
        self.bench.consul.lose_leader(10.0)

        self.bench.advance(30.0)

        self.assertEqual(self.keeper.session_id, session)
        self.assertEqual(self.changes, [True])
        self.end()

    def test_renewals_ran_out_and_are_taken_up_again(self) -> None:
        """
        If only the renewals ran out, one that is answered begins a new lease
        for the same session; the old one stays over.
        """
        session = self.begin()
        old = self.keeper.lease
        assert old is not None
        self.bench.consul.lose_leader(20.0)
        self.bench.advance(16.0)
        self.assertIs(old.ended, LeaseEnd.RENEWAL)

        self.bench.until(lambda: self.leased)

        self.assertIsNot(self.keeper.lease, old)
        self.assertFalse(old.active)
        self.assertEqual(self.keeper.session_id, session)
        self.assertEqual(len(self.bench.requests(CREATE)), 1)
        self.assertEqual(len(self.bench.log.of("lease-restored")), 1)
        self.end()

    def test_renewals_are_tried_faster_while_they_fail(self) -> None:
        """
        Once renewals fail they come every second, and as seldom as before once one
        is answered: an outage that ends shortly before the lease is ridden out.
        """
        self.begin()
        self.lose_requests(RENEW)
        self.bench.advance(RENEWAL_SPAN - 1.5)
        self.bench.network.loses_request = lambda request: False

        self.bench.advance(6.0)

        self.assertTrue(self.leased)
        self.assertEqual(self.bench.log.of("lease-over"), [])
        before = len(self.bench.requests(RENEW))
        self.bench.advance(9.0)
        self.assertEqual(len(self.bench.requests(RENEW)) - before, 3)
        self.end()

    def test_renewals_ran_out_and_the_session_with_them(self) -> None:
        """
        If the renewal that is answered at last says 404, a new one is made.
        """
        session = self.begin()
        self.lose_requests(RENEW)
        self.bench.advance(RENEWAL_SPAN + 1.0)
        self.assertFalse(self.leased)
        self.bench.consul.destroy_session(session)
        self.bench.network.loses_request = lambda request: False

        self.bench.until(lambda: self.leased, 5.0)

        self.assertNotEqual(self.keeper.session_id, session)
        self.end()

    def test_gap_in_passes_while_renewals_have_run_out(self) -> None:
        """
        A gap in the passes after the renewals ran out is final as well, though
        a renewal would be answered 200.
        """
        session = self.begin()
        self.lose_requests(RENEW)
        self.bench.advance(RENEWAL_SPAN + 0.5)
        self.lose_requests(RENEW, PASS)
        self.bench.advance(CHECK_SPAN + 1.0)
        self.lose_requests(RENEW)

        self.bench.until(lambda: self.leased)

        self.assertNotEqual(self.keeper.session_id, session)
        self.assertEqual(self.bench.log.of("lease-restored"), [])
        self.bench.network.loses_request = lambda request: False
        self.end()

    def test_v5_renewal_with_its_own_deadline(self) -> None:
        """
        A renewal that hangs ends after its own two seconds, and the next one
        is sent in its turn (V5, B10; field report 58).
        """
        self.begin()
        self.lose_answers(RENEW)

        self.bench.advance(2 * SETTINGS.renew_interval)

        renewals = [s for s in self.bench.sent if RENEW in s.request.path]
        first, second = (s.at for s in renewals[:2])
        self.assertAlmostEqual(second - first, SETTINGS.renew_interval, places=1)
        self.assertEqual(
            {s.request.deadline for s in renewals}, {SETTINGS.renew_timeout}
        )

    def test_b10_every_request_has_a_deadline(self) -> None:
        """
        No request of the session waits longer than its time (B10).
        """
        self.begin()
        self.bench.advance(10.0)
        self.end()

        for request in self.bench.requests():
            most = (
                SETTINGS.pass_timeout
                if PASS in request.path
                else SETTINGS.renew_timeout
            )
            self.assertLessEqual(request.deadline, most, request.path)

    def test_report_31_larger_ttl(self) -> None:
        """
        A larger TTL in the answer means to renew less often, as long as two
        renewals fit into the lease, which our records promise (field report
        31); a usual one means the usual pace again.
        """
        session = self.begin()
        usual = [{"ID": session, "TTL": "15s", "LockDelay": 0, "Node": "n1"}]
        answer = {"ttl": "30s"}
        self.bench.hook = lambda request: (
            Response(
                200,
                {},
                str(usual)
                .replace("'", '"')
                .encode()
                .replace(b"15s", answer["ttl"].encode()),
            )
            if RENEW in request.path
            else None
        )
        self.bench.advance(6.1)

        self.assertEqual(self.renewals(24.0), 4)
        answer["ttl"] = "24h"
        self.bench.advance(12.0)
        self.assertIn(self.renewals(60.0), (9, 10))
        self.assertTrue(self.leased)
        answer["ttl"] = "15s"
        self.bench.advance(12.0)
        self.assertEqual(self.renewals(30.0), 10)

    def renewals(self, seconds: float) -> int:
        """
        Count the renewals of so many seconds.
        """
        return sum(
            count
            for path, count in self.bench.rate(seconds).items()
            if path.startswith(RENEW)
        )

    def test_suspect_finds_out(self) -> None:
        """
        A suspicion costs one consistent read, and ends a lease whose session
        is gone without waiting for a renewal (field report 16).
        """
        session = self.begin()
        self.keeper.suspect()
        self.keeper.suspect()
        self.bench.advance(0.1)
        self.assertTrue(self.leased)
        self.assertEqual(len(self.bench.requests(INFO)), 2)
        self.assertIn(("consistent", None), self.bench.requests(INFO)[1].params)

        self.bench.consul.destroy_session(session)
        self.keeper.suspect()

        self.assertLess(self.bench.until(lambda: not self.leased), 0.1)
        self.end()

    def test_suspect_without_an_answer(self) -> None:
        """
        A suspicion that gets no answer changes nothing and may be had again.
        """
        session = self.begin()
        self.lose_answers(INFO)
        self.keeper.suspect()
        self.bench.advance(2.5)
        self.assertTrue(self.leased)
        self.bench.network.loses_reply = lambda request: False
        self.bench.consul.destroy_session(session)

        self.keeper.suspect()

        self.bench.until(lambda: not self.leased, 0.1)
        self.end()

    def test_suspect_without_a_session(self) -> None:
        """
        Without a session there is nothing to suspect.
        """
        self.keeper.suspect()
        self.bench.advance(0.1)

        self.assertEqual(self.bench.sent, [])

    def test_report_11_any_exception_in_renewal_and_pass(self) -> None:
        """
        A bug in a renewal or a pass does not keep the next one from being made
        (field report 11).
        """
        self.begin()
        self.bench.hook = fails(ValueError("bug"), RENEW, PASS)
        self.bench.advance(1.5)
        self.bench.hook = fails(ValueError("bug"), RENEW)
        self.bench.advance(3.0)
        self.bench.hook = lambda request: None

        self.bench.advance(10.0)

        self.assertEqual(self.changes, [True])
        self.assertGreater(len(self.bench.log.of("task-failed", "error")), 1)
        self.end()

    def test_says_each_trouble_once(self) -> None:
        """
        Renewals that fail for long are one line, also while passes are fine.
        """
        self.begin()
        self.bench.consul.lose_leader(13.0)

        self.bench.advance(20.0)
        self.assertEqual(len(self.bench.log.of("could-not-renew-session")), 1)

        self.bench.consul.lose_leader(5.0)
        self.bench.advance(10.0)
        self.assertEqual(len(self.bench.log.of("could-not-renew-session")), 2)
        self.end()

    def test_report_17_agent_left(self) -> None:
        """
        An agent that leaves takes the session along; it is noticed, and made
        anew when the agent is back (field reports 16, 17, 18).
        """
        first = self.begin()
        agent = self.bench.consul.agents[0]
        agent.leave()
        self.assertNotIn(first, self.bench.alive)
        self.bench.until(lambda: not self.leased, CHECK_SPAN)
        agent.start()

        self.bench.until(lambda: self.leased, 10.0)

        self.assertEqual(self.bench.alive, [self.keeper.session_id])
        self.end()

    def test_report_24_never_without_ttl(self) -> None:
        """
        No session is made that nothing ends: each has a TTL (field report 24).
        """
        for detection in (3.0, 0.0):
            self.use(Bench(), Settings(failure_detection=detection))
            self.begin()
            self.assertEqual(self.bench.bodies(CREATE)[0]["TTL"], "15s")

    def test_report_74_paused_process(self) -> None:
        """
        A process that stood still has no lease on waking, whatever answers lie
        waiting, and makes another session (field report 74).
        """
        first = self.begin()
        self.bench.network.reply_latency = lambda request: 0.2
        self.bench.advance(1.1)
        self.bench.paused = True
        self.bench.advance(20.0)
        self.assertNotIn(first, self.bench.alive)

        self.bench.paused = False
        self.bench.advance(0.01)

        self.assertFalse(self.leased)
        self.bench.until(lambda: self.leased, 5.0)
        self.assertNotEqual(self.keeper.session_id, first)
        self.end()

    def test_consul_emptied(self) -> None:
        """
        A Consul that comes back empty costs the session; another is made.
        """
        first = self.begin()
        self.bench.consul.empty()

        self.bench.until(lambda: self.keeper.session_id not in (first, None))

        self.assertTrue(self.leased)
        self.end()

    def test_restored_from_an_older_snapshot(self) -> None:
        """
        A Consul that has forgotten the session costs it; another is made.
        """
        before = self.bench.consul.snapshot()
        first = self.begin()
        self.bench.consul.restore(before)

        self.bench.until(lambda: self.keeper.session_id not in (first, None))

        self.bench.until(lambda: self.leased)
        self.end()

    def next_session(self, session: str) -> str | None:
        """
        Destroy the session, wait until there is another one, and until the check
        of the first has run out.
        """
        self.bench.consul.destroy_session(session)
        self.bench.until(lambda: self.keeper.session_id not in (session, None))
        self.bench.advance(5.0)
        return self.keeper.session_id

    def test_old_session_comes_back(self) -> None:
        """
        A session of ours that Consul knows again, restored to an older state, is
        ended when it is told of, and said once; nobody else's is.
        """
        first = self.begin()
        before = self.bench.consul.snapshot()
        second = self.next_session(first)
        self.bench.consul.restore(before)
        self.bench.until(lambda: self.keeper.session_id not in (second, None))
        self.assertIn(first, self.bench.alive)
        stranger = self.bench.result(
            self.bench.api.create_session(SessionSpec("s", 15.0, 1.0))
        )
        current = self.keeper.session_id
        assert current is not None

        told = [
            self.keeper.haunted_by(one) for one in (first, first, stranger, current)
        ]
        self.bench.advance(0.1)

        self.assertEqual(told, [True, True, False, False])
        self.assertEqual(sorted(self.bench.alive), sorted([current, stranger]))
        said = self.bench.log.of("old-session-came-back", "warning")
        self.assertEqual([one["session_id"] for one in said], [first])
        self.bench.result(self.bench.api.destroy_session(stranger))
        self.end()

    def test_old_session_is_ended_when_consul_answers(self) -> None:
        """
        What could not be ended at first is, when it is told of again.
        """
        first = self.begin()
        before = self.bench.consul.snapshot()
        second = self.next_session(first)
        self.bench.consul.restore(before)
        self.bench.until(lambda: self.keeper.session_id not in (second, None))
        self.bench.hook = lambda request: (
            Response(500, {}, b"rpc error") if "destroy" in request.path else None
        )
        self.keeper.haunted_by(first)
        self.bench.advance(0.1)
        self.assertIn(first, self.bench.alive)
        self.bench.hook = lambda request: None

        self.keeper.haunted_by(first)
        self.bench.advance(0.1)

        self.assertNotIn(first, self.bench.alive)
        self.end()

    def test_two_old_sessions(self) -> None:
        """
        One that is told of while another is being ended is ended, too.
        """
        current = self.begin()
        spec = SessionSpec("old", 15.0, 1.0)
        create = self.bench.api.create_session
        old = [self.bench.result(create(spec)) for _ in range(2)]
        self.keeper.own_sessions.update(dict.fromkeys(old))

        for one in old:
            self.keeper.haunted_by(one)
        self.bench.advance(0.1)

        self.assertEqual(list(self.bench.alive), [current])
        self.end()

    def test_remembers_the_last_sessions(self) -> None:
        """
        However many sessions were ours, the last ones are remembered.
        """
        sessions = self.keeper.own_sessions
        for number in range(2 * OWN_SESSIONS):
            sessions[f"s{number}"] = None

        session = self.begin()

        self.assertEqual(len(sessions), OWN_SESSIONS)
        self.assertIn(session, sessions)
        self.assertIn(f"s{2 * OWN_SESSIONS - 1}", sessions)
        self.end()

    def test_lost_again_and_again(self) -> None:
        """
        Where one session after the other is lost at once, it slows down, and
        is quick again after a good one (field report 23).
        """
        self.begin()
        self.bench.hook = lambda request: (
            Response(404, {}, b"Session id 'x' not found")
            if RENEW in request.path
            else None
        )
        self.bench.advance(60.0)
        self.assertLessEqual(len(self.bench.requests(CREATE)), 20)
        self.bench.hook = lambda request: None
        self.bench.until(lambda: self.leased)
        self.bench.advance(20.0)
        assert self.keeper.session_id is not None
        self.bench.consul.destroy_session(self.keeper.session_id)
        self.bench.until(lambda: not self.leased)

        self.assertLess(self.bench.until(lambda: self.leased), 0.2)
        self.end()


class AbandoningTests(Base):
    """
    What becomes of a session that is given up.
    """

    def hold(self, key: str, session: str) -> None:
        """
        Let a session hold a key.
        """
        self.bench.result(self.bench.api.txn([Op.lock(key, b"m1", session)]))

    def keys(self) -> list[str]:
        """
        Give the keys there are.
        """
        return [
            entry.key for entry in self.bench.result(self.bench.api.list("")).entries
        ]

    def give_up(self) -> None:
        """
        Let the check look as if it were lost for good.
        """
        self.bench.networks[0].refuses = True
        self.bench.until(lambda: not self.leased)
        self.bench.networks[0].refuses = False

    def test_gives_its_keys_back_and_ends(self) -> None:
        """
        What a session that may still live holds is given back without a
        lock-delay, and it is destroyed before another is made.
        """
        self.use(Bench(), Settings(failure_detection=0.0))
        session = self.begin()
        self.hold("leader", session)
        self.bench.hook = says_gone
        self.bench.until(lambda: not self.leased)
        self.bench.hook = lambda request: None
        self.bench.until(lambda: self.leased)

        self.assertEqual(self.bench.alive, [self.keeper.session_id])
        self.assertEqual(self.keys(), [])
        assert self.keeper.session_id is not None
        self.hold("leader", self.keeper.session_id)
        self.end()

    def test_key_it_may_not_write(self) -> None:
        """
        A key it may not even write does not keep it from destroying the
        session: a member that may not lead has no right to the leader key.
        """
        self.use(Bench(), Settings(failure_detection=0.0))
        session = self.begin()
        self.hold("members/m1", session)
        self.bench.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name == "leader"
        )
        self.bench.hook = fails(silence(), RENEW)
        self.bench.advance(RENEWAL_SPAN + 0.5)
        self.bench.hook = says_gone
        self.bench.until(lambda: session not in self.bench.alive, 5.0)

        self.assertEqual(self.keys(), [])
        self.assertTrue(self.bench.log.of("session-not-given-back", "info"))

    def test_goes_on_until_consul_answers(self) -> None:
        """
        While Consul does not answer it is tried again, at a bounded rate.
        """
        first = self.begin()
        self.bench.network.partition()
        self.assert_rate(24)

        self.bench.network.heal(deliver=False)
        self.bench.until(lambda: self.leased, 10.0)

        self.assertNotIn(first, self.bench.alive)
        self.end()

    def test_does_not_wait_for_it_for_ever(self) -> None:
        """
        A session that cannot be destroyed is left to end by itself: another is
        made once it must have.
        """
        first = self.begin()
        self.bench.hook = fails(silence(), DESTROY)
        self.bench.consul.destroy_session(first)

        took = self.bench.until(lambda: self.keeper.session_id not in (first, None))

        self.assertGreater(took, 2 * SETTINGS.session_ttl)
        self.end()

    def test_stopped_meanwhile_the_old_one_is_destroyed(self) -> None:
        """
        Stopped while it gives a session up, it destroys that one.
        """
        self.use(Bench(), Settings(failure_detection=0.0))
        session = self.begin()
        self.bench.hook = says_gone
        self.lose_requests("txn")
        self.bench.until(lambda: self.keeper.session_id is None)
        self.assertIn(session, self.bench.alive)

        self.end()


class StoppingTests(Base):
    """
    How it ends.
    """

    def test_b11_before_start(self) -> None:
        """
        Stopped and destroyed before it was ever started, it does nothing (B11).
        """
        self.end()

        self.assertEqual(self.bench.sent, [])

    def test_v9_nothing_is_begun_after_stop(self) -> None:
        """
        Started after a stop it does nothing, and makes no session (V9, C5).
        """
        self.bench.result(self.keeper.stop())

        self.keeper.start()
        self.bench.advance(30.0)

        self.assertEqual(self.bench.sent, [])

    def test_stop_ends_the_lease(self) -> None:
        """
        Once nothing renews it, there is no lease; the session is left.
        """
        session = self.begin()
        assert self.keeper.lease is not None

        self.bench.result(self.keeper.stop())

        self.assertIs(self.keeper.lease.ended, LeaseEnd.RELEASED)
        self.assertEqual(self.bench.alive, [session])
        self.assertEqual(self.changes, [True, False])
        self.assertTrue(self.bench.silent)

    def test_twice(self) -> None:
        """
        Stopping and destroying twice is no error, and asks nothing again.
        """
        self.begin()
        self.end()
        asked = len(self.bench.sent)

        self.end()

        self.assertEqual(len(self.bench.sent), asked)

    def test_leaves_nothing_in_consul(self) -> None:
        """
        Session, service and check are taken away.
        """
        self.begin()

        self.end()

        agent = self.bench.consul.agents[0]
        self.assertEqual((agent.services, agent.checks), ({}, {}))

    def test_stop_at_every_request(self) -> None:
        """
        Wherever it is stopped, whatever request is under way, it ends at once,
        leaves no timer and no request, and destroys what it made (V1, V9).
        """
        for paths in (REGISTER, CREATE, INFO, PASS, RENEW, "txn", DESTROY):
            for lose in (self.lose_requests, self.lose_answers):
                self.use(Bench())
                lose(paths)
                self.keeper.start()
                self.bench.advance(2.5)
                if paths in ("txn", DESTROY) and self.keeper.session_id:
                    self.bench.consul.destroy_session(self.keeper.session_id)
                    self.keeper.suspect()
                    self.bench.advance(0.5)

                stopped = self.keeper.stop()

                self.successResultOf(stopped)
                self.assertTrue(self.bench.silent, paths)
                self.bench.network.loses_request = lambda request: False
                self.bench.network.loses_reply = lambda request: False
                self.bench.result(self.keeper.destroy())
                self.bench.advance(31.0)
                self.assertEqual(self.bench.alive, [], paths)
                self.assertTrue(self.bench.silent, paths)

    def test_stop_during_any_pause(self) -> None:
        """
        Wherever it backs off, it ends at once and leaves no timer.
        """
        for seconds in (0.0, 0.02, 0.1, 1.0, 5.0, 30.0):
            self.use(Bench())
            self.bench.network.refuses = True
            self.keeper.start()
            self.bench.advance(seconds)

            self.successResultOf(self.keeper.stop())

            self.assertTrue(self.bench.silent, seconds)

    def test_destroy_while_consul_hangs(self) -> None:
        """
        Given up while Consul hangs, destroying leaves no request and no timer.
        """
        self.begin()
        self.bench.network.partition()
        self.bench.result(self.keeper.stop())
        destroying = self.keeper.destroy()
        destroying.addErrback(lambda failure: None)
        self.bench.advance(0.5)

        destroying.cancel()

        self.assertTrue(self.bench.silent)

    def test_b11_destroy_tries_all(self) -> None:
        """
        That the session cannot be destroyed is said, and does not keep the
        service from being deregistered (B11).
        """
        self.begin()
        self.bench.hook = fails(silence(), DESTROY)
        self.bench.result(self.keeper.stop())

        with self.assertRaises(RequestTimedOut):
            self.bench.result(self.keeper.destroy())

        self.assertEqual(self.bench.consul.agents[0].services, {})
        self.assertTrue(self.bench.silent)


class NodesTests(Base):
    """
    More than one agent.
    """

    def switch(self) -> None:
        """
        Let requests go to the next agent from now on.
        """
        self.bench.networks[0].refuses = True
        while self.bench.requester.address != "http://n2:8500":
            with contextlib.suppress(ConsulUnavailable):
                self.bench.result(self.bench.api.get("x"))
        self.bench.networks[0].refuses = False

    def test_agent_switched(self) -> None:
        """
        Once requests go to another agent the session is made anew there, with a check
        of its own; the old check keeps nothing alive (field report 71).
        """
        self.use(Bench("n1", "n2"))
        first = self.begin()
        check = self.keeper.check_id
        self.switch()
        self.bench.until(lambda: self.keeper.session_id not in (first, None))

        (lost,) = self.bench.log.of("lost-consul-session")
        self.assertEqual(lost["reason"], CheckEnd.AGENT_CHANGED.value)
        self.assertEqual(self.keeper.node, "n2")
        self.assertNotEqual(self.keeper.check_id, check)
        self.bench.advance(5.0)
        self.assertEqual(self.bench.alive, [self.keeper.session_id])
        self.assertNotIn(check, self.bench.consul.agent("n2").checks)
        self.end()

    def test_pass_of_another_agent_extends_nothing(self) -> None:
        """
        No lease is ever longer than the passes that reached the agent of its
        session allow, even if the other agent knows a check of that name.
        """
        self.use(Bench("n1", "n2"))
        session = self.begin()
        (body,) = self.bench.requests(REGISTER)
        self.bench.consul.agent("n2").handle(body)
        lease = self.keeper.lease
        assert lease is not None
        deadline = lease.deadline
        self.switch()

        self.bench.until(lambda: not lease.active)

        self.assertEqual(lease.deadline, deadline)
        self.bench.until(lambda: self.keeper.session_id not in (session, None))

    def test_switched_while_establishing(self) -> None:
        """
        A check registered with one agent is of no use for a session made on
        another.
        """
        self.use(Bench("n1", "n2"))
        self.bench.networks[0].loses_request = lambda request: (
            REGISTER not in request.path
        )
        self.keeper.start()

        self.bench.until(lambda: self.leased, 60.0)

        self.assertEqual(self.keeper.node, "n2")
        self.bench.advance(10.0)
        self.assertTrue(self.leased)
        self.end()

    def test_load_balancer(self) -> None:
        """
        Where a balancer sends each request to another agent, it does without
        the check, says what to do, and lives by the TTL.
        """
        self.use(Bench("n1", "n2", balanced=True))
        self.keeper.start()
        self.bench.until(lambda: self.keeper.liveness == "ttl")
        self.bench.until(lambda: self.leased)
        (said,) = self.bench.log.of("liveness-check-unusable", "warning")
        self.assertIn("one agent", said["action"])
        session = self.keeper.session_id

        self.bench.advance(60.0)

        self.assertEqual(self.keeper.session_id, session)
        self.assertTrue(self.leased)
