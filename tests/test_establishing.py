"""
Tests for establishing a session, apart from what becomes of it.

What a member makes of it all is in :mod:`tests.test_session`.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord._loops import Tasks
from voltha_coord.consul.model import ServiceSpec
from voltha_coord.consul.transport import Request, Response
from voltha_coord.establishing import Established, Establishing
from voltha_coord.leftovers import Leftovers
from voltha_coord.liveness import CheckEnd, Liveness, Troubles
from voltha_coord.own_sessions import OwnSessions
from voltha_coord.pausing import Pausing
from voltha_coord.session import service_for
from voltha_coord.settings import Settings

from .support.keeping import Bench


class EstablishingTests(SynchronousTestCase):
    """
    One session after the other.
    """

    def setUp(self) -> None:
        """
        Have made none yet.
        """
        self.bench = bench = Bench()
        self.settings = Settings()
        self.requests = Tasks(bench.log)
        self.leftovers = Leftovers(bench.api, (), bench.log)
        pausing = Pausing(bench.clock.seconds, bench.clock, bench.log)
        self.sessions = OwnSessions(
            bench.clock.seconds,
            self.leftovers,
            requests=self.requests,
            pausing=pausing,
            ended=lambda: None,
            log=bench.log,
        )
        self.establishing = Establishing(
            bench.clock,
            bench.api,
            self.settings,
            make_service=lambda unique: service_for(
                "m1", unique, self.settings, "h", 1
            ),
            make_check=self.make_check,
            session_name="m1",
            sessions=self.sessions,
            leftovers=self.leftovers,
            pausing=pausing,
            random=bench.random,
            log=bench.log,
        )

    def make_check(self, service: ServiceSpec) -> Liveness:
        """
        Make the check that a service carries.
        """
        return Liveness(
            self.bench.clock,
            self.bench.api,
            self.settings,
            service,
            requests=self.requests,
            troubles=Troubles(self.bench.log),
            passed=lambda: None,
            failed=lambda end: None,
        )

    def establish(self) -> Established:
        """
        Make one.
        """
        made: Established = self.bench.result(self.establishing.establish())
        return made

    def test_established(self) -> None:
        """
        A session is there, it rests on the check, and it is remembered as ours.
        """
        made = self.establish()

        check = self.establishing.check
        assert check is not None
        self.assertIs(made.created.check, check)
        self.assertEqual(made.info.service_checks, (check.service.check_id,))
        self.assertEqual(list(self.sessions.known), [made.created.id])
        self.assertIn(check.service.service_id, self.leftovers.services)

    def test_check_dropped(self) -> None:
        """
        The next session has a check of its own; the last one's is left to its
        agent.
        """
        first = self.establish().created

        self.assertIs(self.establishing.drop_check(), first.check)
        self.assertIsNone(self.establishing.drop_check())
        self.establishing.begin_anew(first.check)
        second = self.establish().created

        assert first.check is not None and second.check is not None
        self.assertNotEqual(first.check.service.check_id, second.check.service.check_id)
        self.assertNotIn(first.check.service.service_id, self.leftovers.services)

    def test_without_check_once(self) -> None:
        """
        A session without a check is a way out for one session only.
        """
        self.establishing.do_without_check(CheckEnd.UNUSABLE)
        self.assertIsNone(self.establish().created.check)

        self.establishing.begin_anew(None)

        self.assertIsNotNone(self.establish().created.check)

    def test_raised_ttl(self) -> None:
        """
        The servers' minimum is taken in place of a TTL they refuse.
        """

        def refuse(request: Request) -> Response | None:
            if "session/create" in request.path and b'"15s"' in (request.body or b""):
                text = (
                    b"Invalid Session TTL '15000000000', must be between [20s=24h0m0s]"
                )
                return Response(500, {}, text)
            return None

        self.bench.hook = refuse

        self.assertEqual(self.establish().created.ttl, 20.0)
        self.assertEqual(self.establishing.session_ttl, 20.0)
