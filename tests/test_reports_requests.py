"""
What users of such systems reported about the requests of their clients: some went
without a token, were answered by servers that lag behind, waited without end, or
took every connection there was.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from voltha_coord.consul.address import ConnectionSettings
from voltha_coord.consul.api import WAIT_JITTER
from voltha_coord.consul.durations import from_go
from voltha_coord.consul.http import CONNECTIONS
from voltha_coord.consul.transport import Lane, Request, Response
from voltha_coord.coordinator import Coordinator
from voltha_coord.settings import Settings

from .support.working import ClusterCase

TOKEN = "b1a6c5c0-9a0e-4d0c-8f4e-0e8f5f0c2d11"

#: Connections of one process, all together.
MOST_CONNECTIONS = 17

SETTINGS = Settings()


class EveryRequestTests(ClusterCase):
    """
    All that a member asks that leads, works, waits for work that another one has
    not stopped yet, follows the members, and is asked by its application.
    """

    def setUp(self) -> None:
        """
        Let it do all of that for a while.
        """
        super().setUp()
        agent = self.cluster.consul.agent("node-of-a")
        self.answers: list[tuple[Request, Response]] = []
        handle = agent.handle

        def handled(request: Request) -> Deferred[Response]:
            def note(response: Response) -> Response:
                self.answers.append((request, response))
                return response

            return handle(request).addCallback(note)

        self.patch(agent, "handle", handled)
        self.a = self.member("a", connection=ConnectionSettings(token=TOKEN))
        self.agent = agent
        self.a.listen(lambda event: None)
        self.cluster.until(lambda: self.a.is_leader)
        self.cluster.result(self.a.lock("mine").acquire())
        self.member("b", can_lead=False)
        self.cluster.put_work("w1", "w2")
        self.cluster.until(lambda: self.workload("b"))
        for work in self.workload("b"):
            self.runners["b"].stops[work] = Deferred()
        self.put(self.keys.node_intent("b"), b"leave")
        self.cluster.until(lambda: self.cluster.assignments().keys() == {"a"})
        self.advance(5.0)
        self.cluster.result(self.ask("mine"))

    @property
    def sent(self) -> list[Request]:
        """
        What it has asked so far.
        """
        return self.requests["a"]

    def ask(self, name: str) -> Deferred[Any]:
        """
        Let the application follow a key of its own.
        """
        asked: Deferred[Any] = self.a.kv_get(
            f"service/voltha/{name}", index="100000", wait="1s"
        )
        return asked

    def live_on(self) -> Coordinator:
        """
        Let it lose its session, and be a member again.
        """
        self.cluster.result(self.cluster.api.destroy_session(str(self.a.session_id)))
        self.advance(60.0)
        self.assertTrue(self.a.is_leader)
        return self.a

    def test_token(self) -> None:
        """
        Every request carries the token, in its header and nowhere else (field
        report 108).
        """
        self.cluster.result(self.live_on().shutdown(), 20.0)

        asked = {(one.method, one.path.split("/")[2]) for one in self.sent}
        session, agent, txn = (("PUT", what) for what in ("session", "agent", "txn"))
        self.assertGreaterEqual(asked, {session, agent, txn, ("GET", "kv")})
        self.assertEqual({one.lane for one in self.sent}, {*Lane})
        for request in self.sent:
            self.assertEqual(request.headers.get("X-Consul-Token"), TOKEN, request)
            self.assertNotIn(TOKEN, f"{request.path} {request.params}")

    def test_never_stale(self) -> None:
        """
        None may be answered by a server that lags behind: their indexes differ
        (field report 85).
        """
        self.live_on()

        for request in self.sent:
            self.assertNotIn("stale", dict(request.params), request)

    def test_indexes(self) -> None:
        """
        A blocking query of ours waits for what comes after an index that Consul
        has told, and after no other (field report 89).
        """
        self.live_on()

        told = {one.headers.get("x-consul-index") for _, one in self.answers}
        asked = [one for one in self.sent if one.lane is Lane.WATCH]
        for request in asked:
            self.assertIn(dict(request.params)["index"], told, request)
        self.assertGreater(len(asked), 50)

    def test_deadlines(self) -> None:
        """
        Each has a deadline: what blocks a little more than Consul may take for it,
        the session's own the shortest (field reports 91 and 98).
        """
        self.live_on()
        most = {
            Lane.SESSION: SETTINGS.renew_timeout,
            Lane.COMMAND: SETTINGS.command_timeout,
        }

        for request in self.sent:
            wait = dict(request.params).get("wait")
            if wait is None:
                self.assertLessEqual(request.deadline, most[request.lane], request)
            else:
                longest = from_go(wait) * WAIT_JITTER
                self.assertEqual(request.deadline, longest + SETTINGS.watch_margin)

    def test_connections(self) -> None:
        """
        Whatever a member follows at one time has connections of its own, so that
        nothing waits for the end of another query; all lanes together stay within
        what is promised (field reports 90 and 102).
        """
        watches = self.a.tally.watches
        idle = [name for name, tally in watches.items() if not tally.wakes]

        self.assertEqual(idle, [])
        self.assertEqual(self.agent.waiting, len(watches))
        self.assertLessEqual(self.agent.waiting, CONNECTIONS[Lane.WATCH])
        self.assertLessEqual(sum(CONNECTIONS.values()), MOST_CONNECTIONS)
