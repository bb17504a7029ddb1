"""
The embedded Consul: what the servers of one cluster know, and its levers.

Pure but for an injected clock.  :class:`ConsulState` is what the servers agree
on; the :class:`~.agent.Agent` objects it makes are the members' own agents,
each on its node, and take the requests.
"""

from __future__ import annotations

import random as _random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import evolve, frozen
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from ..consul.model import Entry
from ..errors import ConsulUnavailable
from .agent import Agent
from .answers import Problem
from .catalog import SERF_HEALTH, Catalog, Check, Node, Service
from .durations import SECOND
from .kv import Draft, KVStore
from .radix import Signal
from .sessions import MAX_LOCK_DELAY, Session, Sessions

__all__ = ["Agent", "ConsulState", "Deny", "Snapshot"]

#: What decides that a token may not do something: resource (``key``,
#: ``session``, ``service``, ``node``), its name, ``read`` or ``write``, token.
Deny = Callable[[str, str, str, str], bool]


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


class ConsulState:
    """
    The servers.

    :param clock: tells the time and wakes for what expires.
    :param random: where ids and jitter come from; the same seed gives the same
        run.
    :ivar index: the index of the last entry in the Raft log.
    :ivar deny: decides that a token may not do something; nothing by default.
    """

    def __init__(
        self, clock: IReactorTime, random: _random.Random | None = None
    ) -> None:
        self.clock = clock
        self.random = _random.Random(0) if random is None else random
        self.deny: Deny = lambda resource, name, access, token: False
        self.index = 10
        self.has_leader = True
        self._agents: dict[str, Agent] = {}
        self._election: IDelayedCall | None = None
        self._leader_elected = Signal()
        self._sessions_changed = Signal()
        self._catalog_changed = Signal()
        self._begin_empty()

    def _begin_empty(self) -> None:
        self.kv = KVStore(self.clock.seconds)
        self.sessions = Sessions(self.clock, self._expire)
        self.catalog = Catalog()

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

    def make_id(self) -> str:
        """
        Give a new id.
        """
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    # The log, and what it changes.

    @contextmanager
    def entry(self) -> Iterator[int]:
        """
        Append an entry to the Raft log: what the body changes has the index it
        is given, and who waits for it is woken after.
        """
        self.index += 1
        sessions, catalog = self.sessions.index, self.catalog.index
        yield self.index
        for signal in self.kv.take_touched():
            signal.fire()
        if self.sessions.index != sessions:
            self._sessions_changed.fire()
        if self.catalog.index != catalog:
            self._catalog_changed.fire()

    @contextmanager
    def draft(self) -> Iterator[Draft]:
        """
        Append an entry that changes keys; nothing is changed if the body
        raises.
        """
        with self.entry() as index:
            draft = Draft(self.kv, index)
            try:
                yield draft
            except Problem:
                draft.changes.clear()
                raise
            finally:
                self.kv.apply(draft.changes, index)

    def watch_sessions(self) -> Signal:
        """
        Give what fires when a session begins or ends.
        """
        return self._sessions_changed

    def watch_catalog(self) -> Signal:
        """
        Give what fires when a node, a service or a check changes.
        """
        return self._catalog_changed

    def watch_leader(self) -> Signal:
        """
        Give what fires when there is a leader again.
        """
        return self._leader_elected

    def create_session(self, session: Session) -> str:
        """
        Let a session begin, and give its id.

        :raises Problem: 500, in Consul's words.
        """
        with self.entry() as index:
            if session.behavior not in ("release", "delete"):
                raise Problem(500, f"Invalid Behavior setting '{session.behavior}'")
            if session.node not in self.catalog.nodes:
                raise Problem(500, "Missing node registration")
            for check_id in session.checks:
                check = self.catalog.checks.get((session.node, check_id))
                if check is None:
                    raise Problem(500, f"Missing check '{check_id}' registration")
                if check.status == "critical":
                    raise Problem(500, f"Check '{check_id}' is in critical state")
            session = evolve(session, id=self.make_id(), create_index=index)
            self.sessions.add(session)
            if self.has_leader:
                self.sessions.renew(session)
        return session.id

    def _expire(self, session_id: str) -> None:
        self.destroy_session(session_id)

    def _end_session(self, session_id: str, index: int) -> None:
        """
        Let a session be over, and with it what it holds.
        """
        session = self.sessions.get(session_id)
        assert session is not None
        self.sessions.remove(session_id, index)
        delay = min(session.lock_delay, MAX_LOCK_DELAY) / SECOND
        draft = Draft(self.kv, index)
        for key in self.kv.held_by(session_id):
            if delay > 0:
                self.kv.delay(key, delay)
            if session.behavior == "delete":
                draft.delete(key)
            else:
                draft.let_go(key)
        self.kv.apply(draft.changes, index)

    def register_node(self, node: Node) -> None:
        """
        Add a node with a healthy ``serfHealth``.
        """
        if node.name not in self.catalog.nodes:
            with self.entry() as index:
                self.catalog.put_node(node, index)
        self.fail_node(node.name, critical=False)

    def register_service(self, node: str, service: Service) -> None:
        """
        Add or replace a service.
        """
        with self.entry() as index:
            self.catalog.put_service(node, service, index)

    def register_check(self, check: Check) -> None:
        """
        Add or replace a check.  A critical one ends the sessions bound to it.
        """
        with self.entry() as index:
            self.catalog.put_check(check, index)
            if check.status == "critical":
                self._end_bound(check.node, check.id, index)

    def _end_bound(self, node: str, check_id: str, index: int) -> None:
        for session_id in self.sessions.bound_to(node, check_id):
            self._end_session(session_id, index)

    def _drop_check(self, node: str, check_id: str, index: int) -> None:
        if self.catalog.remove_check(node, check_id, index):
            self._end_bound(node, check_id, index)

    def deregister_service(self, node: str, service_id: str) -> None:
        """
        Remove a service and its checks from the catalog, and with the checks
        the sessions bound to them.
        """
        with self.entry() as index:
            for check in self.catalog.checks_of(node, service_id):
                self._drop_check(node, check.id, index)
            self.catalog.remove_service(node, service_id, index)

    def deregister_check(self, node: str, check_id: str) -> None:
        """
        Remove a check from the catalog, and the sessions bound to it.
        """
        with self.entry() as index:
            self._drop_check(node, check_id, index)

    # Levers: what may happen to a cluster.

    def destroy_session(self, session_id: str) -> bool:
        """
        End a session by force, and say whether there was one.
        """
        with self.entry() as index:
            if self.sessions.get(session_id) is None:
                return False
            self._end_session(session_id, index)
        return True

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
        self.agent(node).drift(check_id)

    def remove_service(self, service_id: str, node: str = "node-1") -> None:
        """
        Take a service and its checks out of the catalog alone.
        """
        checks = self.catalog.checks_of(node, service_id)
        self.deregister_service(node, service_id)
        for check in checks:
            self.agent(node).drift(check.id)

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
        if node in self._agents:
            self._agents[node].drift()

    def fail_node(self, node: str, critical: bool = True) -> None:
        """
        Let gossip find a node's agent unreachable, or reachable again.
        """
        self.register_check(
            Check(
                node,
                SERF_HEALTH,
                "Serf Health Status",
                "critical" if critical else "passing",
                "Agent not live or unreachable"
                if critical
                else "Agent alive and reachable",
            )
        )

    def lose_leader(self, seconds: float | None = None) -> None:
        """
        Let the servers have no leader, for some seconds or until
        :meth:`elect_leader`.  Meanwhile no TTL runs.
        """
        self._cancel_election()
        self.has_leader = False
        self.sessions.stop_timers()
        if seconds is not None:
            self._election = self.clock.callLater(seconds, self.elect_leader)

    def elect_leader(self) -> None:
        """
        Let the servers have a leader, which gives every session its full TTL.
        """
        self._cancel_election()
        self.has_leader = True
        self.sessions.stop_timers()
        self.sessions.start_timers()
        self._leader_elected.fire()
        for agent in self.agents:
            agent.sync()

    def _cancel_election(self) -> None:
        if self._election is not None and self._election.active():
            self._election.cancel()
        self._election = None

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
        they last saw.

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
