"""
What the servers of an embedded Consul agree on: their log, and what it made.
"""

from __future__ import annotations

import random as _random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import evolve
from twisted.internet.interfaces import IReactorTime

from .answers import Problem
from .catalog import SERF_HEALTH, Catalog, Check, Node, Service
from .durations import SECOND
from .kv import Draft, KVStore
from .radix import Signal
from .sessions import MAX_LOCK_DELAY, Session, Sessions

if TYPE_CHECKING:
    from ..consul.transport import Request

#: What decides that a token may not do something: resource (``key``,
#: ``session``, ``service``, ``node``), its name, ``read`` or ``write``, token.
Deny = Callable[[str, str, str, str], bool]

#: Who is shown what an entry of the log is about to change, and the request it
#: comes from; ``None`` for the end of a session.
Audit = Callable[[Draft, "Request | None"], None]


class Servers:
    """
    Keys, sessions and catalog, changed by one entry of the log after another.

    :ivar index: the index of the last entry in the log.
    :ivar has_leader: whether anything can be appended to it.
    :ivar deny: decides that a token may not do something; nothing by default.
    :ivar audit: is shown every change of keys before it is made, in the order
        of the log; nobody by default.
    """

    def __init__(self, clock: IReactorTime, random: _random.Random) -> None:
        self.clock = clock
        self.random = random
        self.deny: Deny = lambda resource, name, access, token: False
        self.audit: Audit | None = None
        self.index = 10
        self.has_leader = True
        self._leader_elected = Signal()
        self._sessions_changed = Signal()
        self._catalog_changed = Signal()
        self._begin_empty()

    def _begin_empty(self) -> None:
        self.kv = KVStore(self.clock.seconds)
        self.sessions = Sessions(self.clock, self._expire)
        self.catalog = Catalog()

    def make_id(self) -> str:
        """
        Give a new id.
        """
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

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
    def draft(self, cause: Request | None = None) -> Iterator[Draft]:
        """
        Append an entry that changes keys; nothing is changed if the body
        raises.

        :param cause: the request that asks for it, if one does.
        """
        with self.entry() as index:
            draft = Draft(self.kv, index)
            try:
                yield draft
            except Problem:
                draft.changes.clear()
                raise
            finally:
                self._apply(draft, cause)

    def _apply(self, draft: Draft, cause: Request | None) -> None:
        if self.audit is not None and draft.changes:
            self.audit(draft, cause)
        self.kv.apply(draft.changes, draft.index)

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

    def destroy_session(self, session_id: str) -> bool:
        """
        End a session by force, and say whether there was one.
        """
        with self.entry() as index:
            if self.sessions.get(session_id) is None:
                return False
            self._end_session(session_id, index)
        return True

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
        self._apply(draft, None)

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

    def register_node(self, node: Node) -> None:
        """
        Add a node with a healthy ``serfHealth``.
        """
        self.put_back_node(node)
        self.fail_node(node.name, critical=False)

    def put_back_node(self, node: Node) -> None:
        """
        Add a node, if it is not there; gossip has to say that it is healthy.
        """
        if node.name not in self.catalog.nodes:
            with self.entry() as index:
                self.catalog.put_node(node, index)

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
