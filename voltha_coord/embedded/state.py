"""
The embedded Consul: one cluster, its agents, and the levers of what may happen.

Pure but for an injected clock.  :class:`ConsulState` is what the servers agree
on; the :class:`~.agent.Agent` objects it makes are the members' own agents,
each on its node, and take the requests.
"""

from __future__ import annotations

import random as _random

from attrs import frozen
from twisted.internet.interfaces import IReactorTime

from .._loops import Timer
from ..consul.model import Entry
from ..errors import ConsulUnavailable
from .agent import Agent
from .catalog import SERF_HEALTH, Check, Node, Service
from .servers import Deny, Servers
from .sessions import Session

__all__ = ["Agent", "ConsulState", "Deny", "Snapshot"]

#: The servers compare the catalog with who is there by gossip so often.
RECONCILE_SECONDS = 60.0


@frozen
class Snapshot:
    """
    What a snapshot of the servers carries.  Lock-delays are not in it.
    """

    index: int
    kv_index: int
    entries: tuple[Entry, ...]
    sessions: tuple[Session, ...]
    nodes: tuple[Node, ...]
    services: tuple[tuple[str, Service], ...]
    checks: tuple[Check, ...]


class ConsulState(Servers):
    """
    A cluster.

    :param clock: tells the time and wakes for what expires.
    :param random: where ids and jitter come from; the same seed gives the same
        run.
    """

    def __init__(
        self, clock: IReactorTime, random: _random.Random | None = None
    ) -> None:
        super().__init__(clock, _random.Random(0) if random is None else random)
        self._agents: dict[str, Agent] = {}
        self._election = Timer(clock, self.elect_leader)
        self._reconciliation = Timer(clock, self.reconcile)

    def agent(self, node: str = "node-1") -> Agent:
        """
        Give the agent of a node; a new node joins.
        """
        agent = self._agents.get(node)
        if agent is None:
            agent = self._agents[node] = Agent(self, node, server=not self._agents)
            agent.join()
        return agent

    @property
    def agents(self) -> tuple[Agent, ...]:
        """
        Every agent there ever was, in the order they came.
        """
        return tuple(self._agents.values())

    # Levers: what may happen to a cluster.

    def lapse_check(self, check_id: str, node: str = "node-1") -> None:
        """
        Let the TTL of a check run out now.
        """
        self.agent(node).lapse(check_id)

    def remove_check(self, check_id: str, node: str = "node-1") -> None:
        """
        Take a check out of the catalog alone.  Its agent knows it still, goes
        on answering passes with 200, and puts it back within 94 seconds.
        """
        self.deregister_check(node, check_id)
        self._drift(node)

    def remove_service(self, service_id: str, node: str = "node-1") -> None:
        """
        Take a service and its checks out of the catalog alone.
        """
        checks = self.catalog.checks_of(node, service_id)
        self.deregister_service(node, service_id)
        if checks:
            self._drift(node)

    def deregister_node(self, node: str) -> None:
        """
        Take a node, its services, its checks and its sessions out: its agent
        has left, or the servers have reaped it.
        """
        with self.entry() as index:
            for session in self.sessions.all(node):
                self._end_session(session.id, index)
            for check in self.catalog.checks_of(node):
                self._drop_check(node, check.id, index)
            for service in self.catalog.services_of(node):
                self.catalog.remove_service(node, service.id, index)
            self.catalog.remove_node(node, index)
        self._drift(node)

    def _drift(self, node: str) -> None:
        """
        Let a node's agent differ from the catalog, if the node has one.
        """
        if node in self._agents:
            self._agents[node].drift()

    def lose_leader(self, seconds: float | None = None) -> None:
        """
        Let the servers have no leader, for some seconds or until
        :meth:`elect_leader`.  Meanwhile no TTL runs.
        """
        self._election.cancel()
        self.has_leader = False
        self.sessions.stop_timers()
        if seconds is not None:
            self._election.set(seconds)

    def elect_leader(self) -> None:
        """
        Let the servers have a leader, which gives every session its full TTL.
        """
        self._election.cancel()
        self.has_leader = True
        self.sessions.stop_timers()
        self.sessions.start_timers()
        self._leader_elected.fire()
        for agent in self.agents:
            agent.sync()

    def restart(self) -> None:
        """
        Stop and start everything that has its state on disk: connections
        break, lock-delays are lost, TTLs start anew; sessions stay.
        """
        for agent in self.agents:
            agent.break_connections("the agent was restarted")
        self.kv.forget_delays()
        self.elect_leader()

    def snapshot(self) -> Snapshot:
        """
        Give what the servers know.
        """
        return Snapshot(
            self.index,
            self.kv.index,
            tuple(self.kv.walk("")),
            tuple(self.sessions.all()),
            tuple(self.catalog.nodes.values()),
            tuple((node, s) for (node, _), s in self.catalog.services.items()),
            tuple(self.catalog.checks.values()),
        )

    def restore(self, snapshot: Snapshot, rewind: bool = False) -> None:
        """
        Go back to what the servers knew.  Blocking queries answer with what
        they last saw.  A node that was not known then has no ``serfHealth`` until
        the servers :meth:`reconcile`, within a minute.

        :param rewind: whether the log goes back as well, as when the servers'
            disks are replaced by a backup; indexes then come a second time.
        """
        index = snapshot.index if rewind else self.index + 1
        self.sessions.stop_timers()
        self._begin_empty()
        self.index = index
        kv_changes = [(e.key, e, False) for e in snapshot.entries]
        self.kv.apply(list(kv_changes), snapshot.kv_index)
        for session in sorted(snapshot.sessions, key=lambda s: s.create_index):
            self.sessions.add(session)
        for node in snapshot.nodes:
            self.catalog.put_node(node, node.modify_index)
        for where, service in snapshot.services:
            self.catalog.put_service(where, service, service.modify_index)
        for check in snapshot.checks:
            self.catalog.put_check(check, check.modify_index)
        for agent in self.agents:
            agent.answer_waiting()
        self.elect_leader()
        self._reconciliation.set(RECONCILE_SECONDS)

    def reconcile(self) -> None:
        """
        Let the catalog know of each node whose agent is there, as the servers
        do every minute.
        """
        for agent in self.agents:
            known = self.catalog.checks.get((agent.node, SERF_HEALTH))
            if agent.running and agent.connected and known is None:
                self.register_node(Node(agent.node, agent.node_id))

    def empty(self) -> None:
        """
        Lose everything: the servers come back with a new log.  The agents and
        what is registered with them stay, and are in the catalog again.
        """
        for agent in self.agents:
            agent.break_connections("the servers were replaced")
        self.sessions.stop_timers()
        self._begin_empty()
        self.index = 10
        for agent in self.agents:
            agent.join()
        self.elect_leader()

    def unavailable(self, why: str) -> ConsulUnavailable:
        """
        Give the failure of a request that finds nobody.
        """
        return ConsulUnavailable(f"embedded Consul: {why}")
