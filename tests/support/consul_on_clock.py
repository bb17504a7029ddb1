"""
The embedded Consul on a clock, with requests in few words, for unit tests.
"""

from __future__ import annotations

import json
import random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from voltha_coord.consul.transport import Request, Response
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import Agent, ConsulState


class Embedded:
    """
    An embedded Consul with one agent, on a clock of its own.
    """

    def __init__(self, seed: int = 0) -> None:
        self.clock = Clock()
        self.state = ConsulState(self.clock, random.Random(seed))
        self.agent: Agent = self.state.agent("node-1")
        self.transport = MemoryTransport(self.agent, self.clock)

    def send(
        self,
        method: str,
        path: str,
        body: object = b"",
        deadline: float = 1000.0,
        agent: Agent | None = None,
        **params: object,
    ) -> Deferred[Response]:
        """
        Make a request; a parameter that is ``True`` is a bare flag.
        """
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        query = tuple((k, None if v is True else str(v)) for k, v in params.items())
        transport = (
            self.transport if agent is None else MemoryTransport(agent, self.clock)
        )
        result = transport.request(
            Request(method, "/v1/" + path, query, body, deadline=deadline)
        )
        self.clock.advance(0)
        return result

    def ask(
        self, method: str, path: str, body: object = b"", **params: Any
    ) -> Response:
        """
        Make a request that is answered at once.

        :raises AssertionError: if it is not.
        """
        found: list[Response | Failure] = []
        self.send(method, path, body, **params).addBoth(found.append)
        assert found, f"{method} {path} is not answered"
        (answer,) = found
        if isinstance(answer, Failure):
            answer.raiseException()
        assert isinstance(answer, Response)
        return answer

    def json(self, method: str, path: str, body: object = b"", **params: Any) -> Any:
        """
        Make a request, and give the JSON of its answer.
        """
        return json.loads(self.ask(method, path, body, **params).body)

    def session(self, **fields: object) -> str:
        """
        Create a session, bound to nothing unless the fields say so.
        """
        wanted = {"NodeChecks": [], "TTL": "10s", "LockDelay": 0} | fields
        session_id = self.json("PUT", "session/create", wanted)["ID"]
        assert isinstance(session_id, str)
        return session_id

    def alive(self, session_id: str) -> bool:
        """
        Whether a session exists.
        """
        return self.state.sessions.get(session_id) is not None

    def service(self, check_id: str = "check", **more: object) -> None:
        """
        Register a service with a passing TTL check of 3 s.
        """
        check = {"CheckID": check_id, "TTL": "3s", "Status": "passing"} | more
        self.ask(
            "PUT",
            "agent/service/register",
            {"ID": check_id, "Name": "voltha-coord", "Check": check},
        )

    def check_status(self, check_id: str = "check") -> str | None:
        """
        Give the status of a check in the catalog.
        """
        check = self.state.catalog.checks.get(("node-1", check_id))
        return None if check is None else check.status
