"""
One member's agent of the embedded Consul: it takes the requests, and may come
and go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed

from ..consul.transport import Request, Response
from .answers import Problem
from .dispatch import dispatch
from .pending import Pending
from .registry import Registry

if TYPE_CHECKING:
    from .state import ConsulState


class Agent(Registry):
    """
    The agent of a node.
    """

    def __init__(self, state: ConsulState, node: str, server: bool) -> None:
        super().__init__(state, node, server)
        self._pending: dict[Pending, None] = {}

    # Requests.

    def handle(self, request: Request) -> Deferred[Response]:
        """
        Take a request.

        The Deferred fires with the answer, or fails with ``ConsulUnavailable``
        if the agent is not there or stops meanwhile.  Cancelled, it leaves
        nothing behind.
        """
        if not self.running:
            return fail(self.state.unavailable("connection refused"))
        try:
            response = dispatch(self, request)
        except Problem as e:
            response = e.response()
        return response if isinstance(response, Deferred) else succeed(response)

    def wait(self, pending: Pending) -> Deferred[Response]:
        """
        Answer a request that has to wait.
        """
        return pending.begin(self._remember, self._forget)

    def _remember(self, pending: Pending) -> None:
        self._pending[pending] = None

    def _forget(self, pending: Pending) -> None:
        self._pending.pop(pending, None)

    @property
    def waiting(self) -> int:
        """
        How many requests wait for their answer.
        """
        return len(self._pending)

    def break_connections(self, why: str) -> None:
        """
        Let every request that waits fail.
        """
        for pending in tuple(self._pending):
            pending.fail(self.state.unavailable(why))

    def answer_waiting(self) -> None:
        """
        Let every request that waits be answered with what there is.
        """
        for pending in tuple(self._pending):
            pending.end()

    # What may happen to an agent.

    def kill(self) -> None:
        """
        Stop at once.  The servers learn nothing of it: the node's sessions last
        until their TTL is over, or gossip fails the node.
        """
        self.running = False
        self.break_connections("the agent was killed")
        self.cancel_timers()

    def leave(self) -> None:
        """
        Stop in good order: the node is taken out of the catalog.
        """
        self.kill()
        self.state.deregister_node(self.node)

    def start(self) -> None:
        """
        Start again, with the services and checks it had: a check that lapsed
        while it was down is critical.
        """
        self.running = True
        left = {c: k.due - self.state.clock.seconds() for c, k in self.checks.items()}
        for check_id, local in self.checks.items():
            if left[check_id] > 0:
                self.arm(local, left[check_id])
            elif local.check.status != "critical":
                local.check = evolve(local.check, status="critical", output="")
            self.reap_later(local)
        self.join()

    def cut_off(self) -> None:
        """
        Let the agent reach no server.  It answers what it can by itself.
        """
        self.connected = False

    def reconnect(self) -> None:
        """
        Let the agent reach the servers again.
        """
        self.connected = True
        self.state.watch_leader().fire()
        self.sync()

    def reload(self) -> None:
        """
        Drop every service and check, as ``consul reload`` of a ``-dev`` agent
        does with what was registered over HTTP.
        """
        for service_id in tuple(self.services):
            self.remove_service(service_id)
        for check_id in tuple(self.checks):
            self.remove_check(check_id)
