"""
What is registered with an agent of the embedded Consul, and how the catalog
comes to know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import evolve
from twisted.internet.interfaces import IDelayedCall

from .agent_checks import LocalCheck
from .answers import Problem
from .catalog import Node, Service

if TYPE_CHECKING:
    from .state import ConsulState

#: A service is reaped no sooner than this after its check turned critical.
REAP_MINIMUM_SECONDS = 60.0
#: How far apart an agent looks for services to reap.
REAP_INTERVAL_SECONDS = 30.0
#: An agent compares itself with the catalog after so long, and a part more.
DRIFT_SECONDS = (60.0, 34.0)


class Registry:
    """
    The services and TTL checks of a node.

    :ivar running: whether the agent is there at all.
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
        self._untold: list[Callable[[], None]] = []
        self._drift: IDelayedCall | None = None

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
                self._be_in_the_catalog()
                state.register_service(self.node, service)
        for local in tuple(self.checks.values()):
            if not local.in_sync:
                local.in_sync = True
                self._be_in_the_catalog()
                state.register_check(local.check)

    def _be_in_the_catalog(self) -> None:
        """
        What an agent registers brings its node along.
        """
        self.state.put_back_node(Node(self.node, self.node_id))

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

    def drift(self) -> None:
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
        self.arm(local)
        self.reap_later(local)

    def arm(self, local: LocalCheck, seconds: float | None = None) -> None:
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
        self.arm(local)
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
            self.reap_later(local)
            self._sync_soon()

    def reap_later(self, local: LocalCheck) -> None:
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

    def cancel_timers(self) -> None:
        """
        Let no timer run: the agent is not there.
        """
        for local in self.checks.values():
            local.cancel()
        if self._drift is not None and self._drift.active():
            self._drift.cancel()
