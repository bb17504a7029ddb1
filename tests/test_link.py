"""
Tests for how it stands with Consul.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord.consul.requester import Outcome
from voltha_coord.consul.transport import Lane, LaneBusy, Overtaken, Request
from voltha_coord.errors import ConsulUnavailable, NoClusterLeader
from voltha_coord.events import Connection, ConnectionChanged, Event
from voltha_coord.link import Link

CONNECTED, SUSPENDED, LOST = (
    Connection.CONNECTED,
    Connection.SUSPENDED,
    Connection.LOST,
)

OF_SERVERS = Request("GET", "/v1/kv/a")
OF_SESSION = Request("PUT", "/v1/session/renew/a", lane=Lane.SESSION)
OF_AGENT = Request("PUT", "/v1/agent/check/pass/a")
ANSWERED = Outcome(OF_SERVERS, None, 0.1)
UNANSWERED = Outcome(OF_SERVERS, ConsulUnavailable("refused"), 0.1)


class LinkTests(SynchronousTestCase):
    """
    What is made of the outcomes of requests.
    """

    def setUp(self) -> None:
        """
        Make one.
        """
        self.now = 100.0
        self.leased = False
        self.told: list[Event] = []
        self.log = RecordingLog()
        self.again = 0
        self.link = Link(
            lambda: self.now,
            lambda: self.leased,
            self.told.append,
            self.log,
            answers_again=self.answers_again,
        )

    def answers_again(self) -> None:
        """
        Count, and see that all is known by then.
        """
        self.again += 1
        self.assertEqual(self.link.unanswered, 0)
        self.assertIs(self.link.connection, CONNECTED)

    def connect(self) -> None:
        """
        Get an answer, and a lease.
        """
        self.link.ended(ANSWERED)
        self.leased = True
        self.link.lease_changed()
        self.told.clear()

    def test_suspended_until_the_first_answer(self) -> None:
        """
        Before Consul ever answered nothing is lost, and there is no age.
        """
        self.link.ended(UNANSWERED)

        self.assertIs(self.link.connection, SUSPENDED)
        self.assertIsNone(self.link.last_answer_age)
        self.assertEqual(self.link.unanswered, 1)
        self.assertEqual(self.told, [])

    def test_connected_by_an_answer(self) -> None:
        """
        An answer connects, is told once, and has an age.
        """
        self.link.ended(ANSWERED)
        self.now += 2.0
        self.link.ended(ANSWERED)
        self.now += 0.5

        self.assertEqual(self.told, [ConnectionChanged(CONNECTED, SUSPENDED)])
        self.assertEqual(self.link.last_answer_age, 0.5)

    def test_suspended_while_there_is_a_lease(self) -> None:
        """
        Requests that go unanswered suspend it; without a lease it is lost.
        """
        self.connect()
        self.link.ended(UNANSWERED)
        self.assertIs(self.link.connection, SUSPENDED)

        self.leased = False
        self.link.lease_changed()

        self.assertEqual(
            self.told,
            [
                ConnectionChanged(SUSPENDED, CONNECTED),
                ConnectionChanged(LOST, SUSPENDED),
            ],
        )

    def test_lost_at_once_without_a_lease(self) -> None:
        """
        Without a lease the first unanswered request loses it.
        """
        self.connect()
        self.leased = False

        self.link.ended(UNANSWERED)

        self.assertEqual(self.told, [ConnectionChanged(LOST, CONNECTED)])

    def test_end_of_a_lease_while_connected(self) -> None:
        """
        A lease that ends while Consul answers is no loss of the connection.
        """
        self.connect()
        self.leased = False

        self.link.lease_changed()

        self.assertEqual(self.told, [])

    def test_says_after_how_many_it_came_back(self) -> None:
        """
        The original's line says how many requests went unanswered.
        """
        self.connect()
        for _ in range(3):
            self.link.ended(UNANSWERED)
        self.assertEqual(self.link.unanswered, 3)

        self.link.ended(ANSWERED)
        self.link.ended(ANSWERED)

        self.assertEqual(self.log.of("reconnected-to-consul"), [{"after_retries": 3}])
        self.assertEqual((self.link.unanswered, self.link.reconnects), (0, 1))
        self.assertIs(self.link.connection, CONNECTED)

    def test_busy_lane(self) -> None:
        """
        A request that waited in vain for a connection of ours says nothing of
        Consul.
        """
        self.connect()

        self.link.ended(Outcome(OF_SERVERS, LaneBusy("all taken"), 10.0))
        self.link.ended(Outcome(OF_SERVERS, Overtaken("given up"), 5.0))

        self.assertEqual(self.told, [])
        self.assertEqual(self.link.unanswered, 0)

    def test_tells_when_consul_answers_again(self) -> None:
        """
        The first answer after an outage is told, once; the very first answer is
        none, and an agent that answers for itself ends no outage.
        """
        self.connect()
        self.assertEqual(self.again, 0)
        self.link.ended(Outcome(OF_SESSION, ConsulUnavailable("refused"), 0.1))
        self.link.ended(UNANSWERED)
        self.link.ended(Outcome(OF_AGENT, None, 0.1))
        self.assertEqual(self.again, 0)

        self.link.ended(ANSWERED)
        self.link.ended(ANSWERED)

        self.assertEqual(self.again, 1)

    def test_one_endpoint_that_fails_is_no_outage(self) -> None:
        """
        What fails while the session's requests are answered, fails by itself:
        its back-off is not cut short again and again (B6).
        """
        self.connect()

        for _ in range(3):
            self.link.ended(UNANSWERED)
            self.link.ended(Outcome(OF_SESSION, None, 0.1))

        self.assertEqual(self.again, 0)

    def test_agent_without_servers(self) -> None:
        """
        An agent that answers for itself, while its servers have no leader,
        mends nothing: the link does not flap.
        """
        self.connect()

        for _ in range(3):
            self.link.ended(Outcome(OF_SERVERS, NoClusterLeader("none"), 0.1))
            self.link.ended(Outcome(OF_AGENT, None, 0.1))

        self.assertEqual(self.told, [ConnectionChanged(SUSPENDED, CONNECTED)])
        self.assertEqual(self.link.unanswered, 3)
