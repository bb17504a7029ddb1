"""
One member's agent of the embedded Consul: it takes the requests, and keeps the
services and TTL checks that are registered with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall

from ..consul.transport import Request, Response
from .agent_checks import LocalCheck
from .answers import Problem
from .catalog import Node, Service
from .dispatch import dispatch
from .pending import Pending

if TYPE_CHECKING:
    from .state import ConsulState

#: A service is reaped no sooner than this after its check turned critical.
REAP_MINIMUM_SECONDS = 60.0
#: How far apart an agent looks for services to reap.
REAP_INTERVAL_SECONDS = 30.0
#: An agent compares itself with the catalog after so long, and a part more.
DRIFT_SECONDS = (60.0, 34.0)


class Agent:
    """
    The agent of a node.

    :ivar running: whether it answers at all.
    :ivar connected: whether it reaches the servers.
    :ivar sync_delay: seconds until what is registered or passed with it is in
        the catalog; 0 is at once.
    """

    def __init__(self, state: ConsulState, node: str, server: bool) -> None:
        self.state = state
        self.node = node
        self.server = server
        self.node_id = state.make_id()
        self.running = True
        self.connected = True
        self.sync_delay = 0.0
        self.services: dict[str, Service] = {}
        self.checks: dict[str, LocalCheck] = {}
        self._pending: dict[Pending, None] = {}
        self._untold: list[Callable[[], None]] = []
        self._drift: IDelayedCall | None = None

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

    def wait(self, pending: Pending) -> Response | Deferred[Response]:
        """
        Answer a request that may have to wait.
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
        self._cancel_timers()

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
                self._arm(local, left[check_id])
            elif local.check.status != "critical":
                local.check = evolve(local.check, status="critical", output="")
            self._reap_later(local)
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

    def _cancel_timers(self) -> None:
        for local in self.checks.values():
            local.cancel()
        if self._drift is not None and self._drift.active():
            self._drift.cancel()

    # The catalog.

    def join(self) -> None:
        """
        Be in the catalog, with everything that is registered here.
        """
        self.state.register_node(Node(self.node, self.node_id))
        if self.server:
            self.state.register_service(
                self.node, Service("consul", "consul", "", 8300)
            )
        for local in self.checks.values():
            local.in_sync = False
        self.sync()

    def sync(self) -> None:
        """
        Bring the catalog up to what is registered here.
        """
        state = self.state
        if not self.running or not self.reaches_leader:
            return
        untold, self._untold = self._untold, []
        for change in untold:
            change()
        for service in self.services.values():
            if state.catalog.services.get((self.node, service.id)) != service:
                state.register_service(self.node, service)
        for local in tuple(self.checks.values()):
            if not local.in_sync:
                local.in_sync = True
                state.register_check(local.check)

    @property
    def reaches_leader(self) -> bool:
        """
        Whether what is asked of the servers can be answered.
        """
        return self.connected and self.state.has_leader

    def _sync_soon(self) -> None:
        if self.sync_delay:
            self.state.clock.callLater(self.sync_delay, self.sync)
        else:
            self.sync()

    def drift(self, check_id: str | None = None) -> None:
        """
        Let something registered here be missing in the catalog until the agent
        compares the two, or it is registered anew.
        """
        if not self.running or (self._drift is not None and self._drift.active()):
            return
        least, more = DRIFT_SECONDS
        self._drift = self.state.clock.callLater(
            least + more * self.state.random.random(), self._repair
        )

    def _repair(self) -> None:
        for local in self.checks.values():
            local.in_sync = False
        if self.reaches_leader:
            self.join()

    # Services and checks.

    def put_service(self, service: Service, checks: list[LocalCheck]) -> None:
        """
        Register a service with its checks; those it had and has no longer are
        removed.
        """
        self.services[service.id] = service
        kept = {local.check.id for local in checks}
        for check_id, old in tuple(self.checks.items()):
            if old.check.service_id == service.id and check_id not in kept:
                self.remove_check(check_id)
        for local in checks:
            self._keep(local)
        self._sync_soon()

    def put_check(self, local: LocalCheck) -> None:
        """
        Register a check.
        """
        self._keep(local)
        self._sync_soon()

    def _keep(self, local: LocalCheck) -> None:
        """
        Keep a check.  One of that id that was here before leaves its status and
        output to it, whatever status was asked for, critical included.
        """
        old = self.checks.get(local.check.id)
        if old is not None:
            old.cancel()
            local.check = evolve(
                local.check, status=old.check.status, output=old.check.output
            )
        self.checks[local.check.id] = local
        self._arm(local)
        self._reap_later(local)

    def _arm(self, local: LocalCheck, seconds: float | None = None) -> None:
        """
        Let the TTL run from now on, or what is left of it.
        """
        seconds = local.ttl if seconds is None else seconds
        local.due = self.state.clock.seconds() + seconds
        if local.lapse is not None and local.lapse.active():
            local.lapse.reset(seconds)
        else:
            local.lapse = self.state.clock.callLater(
                seconds, self.lapse, local.check.id
            )

    def update(self, check_id: str, status: str, output: str) -> None:
        """
        Set the status of a check and let its TTL run from now on.

        :raises Problem: 500, if it is not registered here.
        """
        local = self.checks.get(check_id)
        if local is None:
            raise Problem(500, f'CheckID "{check_id}" does not have associated TTL')
        local.said = output
        self._arm(local)
        self._set(local, status, output)

    def lapse(self, check_id: str) -> None:
        """
        Let the TTL of a check be over.
        """
        local = self.checks[check_id]
        if local.lapse is not None and local.lapse.active():
            local.lapse.cancel()
        output = "TTL expired"
        if local.said:
            output = f"{output} (last output before timeout follows): {local.said}"
        self._set(local, "critical", output)

    def _set(self, local: LocalCheck, status: str, output: str) -> None:
        changed = local.check.status != status
        local.check = evolve(local.check, status=status, output=output)
        if changed:
            # A change of the output alone waits for minutes in an agent.
            local.in_sync = False
            self._reap_later(local)
            self._sync_soon()

    def _reap_later(self, local: LocalCheck) -> None:
        """
        Remove the service of a check that stays critical.
        """
        if local.reap is not None and local.reap.active():
            local.reap.cancel()
        check = local.check
        if check.status == "critical" and local.reap_after and check.service_id:
            local.reap = self.state.clock.callLater(
                max(local.reap_after, REAP_MINIMUM_SECONDS)
                + REAP_INTERVAL_SECONDS * self.state.random.random(),
                self.remove_service,
                check.service_id,
            )

    def remove_service(self, service_id: str) -> None:
        """
        Deregister a service with its checks; no error if it is not here.
        """
        if self.services.pop(service_id, None) is None:
            return
        for check_id, local in tuple(self.checks.items()):
            if local.check.service_id == service_id:
                self.checks.pop(check_id).cancel()
        self._tell(lambda: self.state.deregister_service(self.node, service_id))

    def remove_check(self, check_id: str) -> None:
        """
        Deregister a check; no error if it is not here.
        """
        local = self.checks.pop(check_id, None)
        if local is not None:
            local.cancel()
            self._tell(lambda: self.state.deregister_check(self.node, check_id))

    def _tell(self, change: Callable[[], None]) -> None:
        self._untold.append(change)
        self._sync_soon()
