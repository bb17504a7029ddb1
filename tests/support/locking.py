"""
What tests of named locks have in common.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from voltha_coord.consul.model import Entry
from voltha_coord.coordinator import Coordinator
from voltha_coord.lock import Lock
from voltha_coord.lock_holding import Held
from voltha_coord.lock_store import Found, locks_in

from .embedded import ClusterTestCase

#: The name of the lock.
NAME = "backup"


class LocksCase(ClusterTestCase):
    """
    Has two members, of which the first leads.

    :ivar a, b: the members.
    """

    def setUp(self) -> None:
        """
        Make them.
        """
        super().setUp()
        self.a, self.b = self.add("a", "b")

    def acquired(self, lock: Lock, seconds: float = 10.0) -> Held:
        """
        Acquire a lock.
        """
        held: Held = self.cluster.result(lock.acquire(), seconds)
        self.assertEqual(lock.held, held)
        return held

    def waiting(self, lock: Lock) -> list[Any]:
        """
        Begin to acquire a lock, and give where its outcome comes to stand.
        """
        outcome: list[Any] = []
        acquiring: Deferred[Held] = lock.acquire()
        acquiring.addBoth(outcome.append)
        self.cluster.advance(0.5)
        return outcome

    def found(self, name: str = NAME) -> Found:
        """
        Give what stands in the keys of a lock.
        """
        keys = self.cluster.keys
        return locks_in(keys, self.cluster.entries(keys.locks)).get(name, Found())

    def entry(self, name: str = NAME) -> Entry | None:
        """
        Give the key of a lock.
        """
        return self.cluster.entry(self.cluster.keys.lock(name))

    def at_once(self, member: Coordinator, valid_for: float | None = None) -> bool:
        """
        Tell whether a member can have the lock now; then it has it no more.
        """
        lock = member.lock(NAME, valid_for)
        outcome: list[Any] = []
        lock.acquire(0).addBoth(outcome.append)
        self.cluster.until(lambda: bool(outcome), 5)
        if not isinstance(outcome[0], Held):
            return False
        self.cluster.result(lock.release())
        return True
