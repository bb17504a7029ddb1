"""
Tests for what is to be taken away again.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import Bench
from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.errors import RequestTimedOut
from voltha_coord.leftovers import REMEMBERED, Leftovers
from voltha_coord.session import service_for
from voltha_coord.settings import Settings


class LeftoversTests(SynchronousTestCase):
    """
    Sessions and services.
    """

    def setUp(self) -> None:
        """
        Make some.
        """
        self.bench = Bench()
        self.leftovers = Leftovers(self.bench.api, ("held",), self.bench.log)
        self.sessions = [self.make_session(), self.make_session()]
        for session in self.sessions:
            self.leftovers.add_session(session)
        service = service_for("m1", "1", Settings(), "h", 1)
        self.bench.result(self.bench.api.register_service(service))
        self.service = service.service_id
        self.leftovers.add_service(self.service)

    def make_session(self) -> str:
        """
        Make a session.
        """
        session: str = self.bench.result(
            self.bench.api.create_session(SessionSpec("s", 15.0, 1.0))
        )
        return session

    def test_takes_everything_away(self) -> None:
        """
        All is taken away, once.
        """
        self.bench.result(self.leftovers.take_away())
        self.assertEqual(self.bench.alive, [])
        self.assertEqual(self.bench.consul.agents[0].services, {})
        asked = len(self.bench.sent)

        self.bench.result(self.leftovers.take_away())

        self.assertEqual(len(self.bench.sent), asked)

    def test_ends_a_session_without_a_lock_delay(self) -> None:
        """
        What a session holds is given back before it is destroyed: the next one
        may have it at once.
        """
        first, second = self.sessions
        held = [Op.lock("held", b"", first)]
        self.bench.result(self.bench.api.txn(held))

        self.bench.result(self.leftovers.end_session(first))

        self.assertEqual(self.bench.alive, [second])
        self.bench.result(self.bench.api.txn([Op.lock("held", b"", second)]))

    def test_key_it_may_not_write(self) -> None:
        """
        A key that it may not even write keeps no session from being ended.
        """
        self.bench.consul.deny = lambda resource, name, access, token: resource == "key"

        self.bench.result(self.leftovers.end_session(self.sessions[0]))

        self.assertEqual(self.bench.alive, [self.sessions[1]])
        said = self.bench.log.of("session-not-given-back", "info")
        self.assertEqual([one["key"] for one in said], ["held"])

    def test_keys_are_given_back_or_it_is_tried_again(self) -> None:
        """
        A session whose keys could not be given back for want of an answer is
        not destroyed yet, and remembered.
        """
        self.bench.hook = lambda request: (
            RequestTimedOut("no answer") if request.path == "/v1/txn" else None
        )
        with self.assertRaises(RequestTimedOut):
            self.bench.result(self.leftovers.end_session(self.sessions[0]))
        self.assertEqual(self.bench.alive, self.sessions)
        self.bench.hook = lambda request: None

        self.bench.result(self.leftovers.take_away(give_back=True))

        self.assertEqual(self.bench.alive, [])

    def test_but_what_is_in_use(self) -> None:
        """
        What is named stays, and is remembered.
        """
        keep = {self.sessions[0], self.service}

        self.bench.result(self.leftovers.take_away(but=keep))

        self.assertEqual(self.bench.alive, [self.sessions[0]])
        self.assertIn(self.service, self.bench.consul.agents[0].services)
        self.bench.result(self.leftovers.take_away())
        self.assertEqual(self.bench.alive, [])

    def test_tries_each(self) -> None:
        """
        One that fails keeps no other from being taken away; it is told, and
        tried again.
        """
        self.bench.hook = lambda request: (
            RequestTimedOut("no answer") if self.sessions[0] in request.path else None
        )
        with self.assertRaises(RequestTimedOut):
            self.bench.result(self.leftovers.take_away())
        self.assertEqual(self.bench.alive, [self.sessions[0]])
        self.assertEqual(self.bench.consul.agents[0].services, {})
        self.bench.hook = lambda request: None

        self.bench.result(self.leftovers.take_away())

        self.assertEqual(self.bench.alive, [])

    def test_left_to_its_agent(self) -> None:
        """
        A service that is left is not taken away.
        """
        self.leftovers.leave_service(self.service)
        self.leftovers.leave_service("unknown")

        self.bench.result(self.leftovers.take_away())

        self.assertIn(self.service, self.bench.consul.agents[0].services)

    def test_remembers_the_last_ones(self) -> None:
        """
        Only so many are remembered, the last ones.
        """
        for number in range(100):
            self.leftovers.add_session(f"s{number}")
            self.leftovers.add_service(f"v{number}")

        self.assertEqual(len(self.leftovers.sessions), REMEMBERED)
        self.assertIn("s99", self.leftovers.sessions)
        self.assertEqual(len(self.leftovers.services), REMEMBERED)
        self.assertIn("v99", self.leftovers.services)
