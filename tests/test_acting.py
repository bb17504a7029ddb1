"""
Tests for the role of a member, by what is known of the leader key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord.acting import Acting
from voltha_coord.events import Event, RoleChanged
from voltha_coord.role import (
    CANDIDATE,
    DRAINING,
    EMERGENCY,
    FOLLOWER,
    LEADER,
    STOPPED,
)
from voltha_coord.term import Term

TERM = cast(Term, object())


class ActingTests(SynchronousTestCase):
    """
    One member, ``a``.
    """

    def setUp(self) -> None:
        """
        Know of no leader.
        """
        self.leader_id: str | None = None
        self.is_leader = False
        self.halting: Deferred[None] = Deferred()
        self.told: list[Event] = []
        self.rested: list[str] = []
        self.acting = Acting(
            instance_id="a",
            leader_id=lambda: self.leader_id,
            is_leader=lambda: self.is_leader,
            begin=self.begin,
            at_rest=lambda: self.rested.append(self.acting.name),
            tell=self.told.append,
            can_lead=True,
            log=RecordingLog(),
        )

    def begin(self, term: Term) -> Callable[[], Deferred[None]]:
        """
        Lead, until told to halt, and then for as long as it pleases us.
        """
        return lambda: self.halting

    def know(self, leader_id: str | None) -> str:
        """
        Know who leads; give the role.
        """
        self.leader_id = leader_id
        self.acting.look()
        return self.acting.name

    def lead(self) -> None:
        """
        Be elected.
        """
        self.leader_id, self.is_leader = "a", True
        self.acting.elected(TERM)

    def depose(self) -> None:
        """
        Lead no more.
        """
        self.is_leader = False
        self.acting.deposed()

    def test_look(self) -> None:
        """
        It follows another, and nobody else: neither nobody nor itself.
        """
        roles = [self.know(who) for who in (None, "b", None, "a", "b", "a")]

        self.assertEqual(
            roles, [CANDIDATE, FOLLOWER, CANDIDATE, CANDIDATE, FOLLOWER, CANDIDATE]
        )

    def test_told(self) -> None:
        """
        Each role is told together with the one before, and none twice.
        """
        self.know("b")
        self.know("c")
        self.lead()

        self.assertEqual(
            self.told, [RoleChanged(FOLLOWER, CANDIDATE), RoleChanged(LEADER, FOLLOWER)]
        )

    def test_at_the_deadline(self) -> None:
        """
        Once it does not lead any more it is no leader, though nothing was told.
        """
        self.lead()
        before = self.acting.name
        self.is_leader = False

        self.assertEqual((before, self.acting.name), (LEADER, CANDIDATE))

    def test_at_rest(self) -> None:
        """
        Nobody waits while none is halting; once one is, until it is at rest.
        """
        self.successResultOf(self.acting.when_at_rest())
        self.lead()
        self.depose()
        waiting = self.acting.when_at_rest()
        self.assertEqual((self.acting.settled, self.rested), (False, []))
        self.assertNoResult(waiting)

        self.halting.callback(None)

        self.assertIsNone(self.successResultOf(waiting))
        self.assertTrue(self.acting.settled)

    def test_look_too_early(self) -> None:
        """
        What became known while one was halting counts once it is at rest, and that
        is told once.
        """
        self.lead()
        self.depose()
        self.assertEqual(self.know("b"), CANDIDATE)

        self.halting.callback(None)

        self.assertEqual((self.acting.name, len(self.rested)), (FOLLOWER, 1))

    def test_emergency(self) -> None:
        """
        After an emergency it is what follows from who leads by then.
        """
        self.know("b")
        self.acting.alarm()
        meanwhile = self.acting.name
        self.acting.all_clear()

        self.assertEqual((meanwhile, self.acting.name), (EMERGENCY, FOLLOWER))

    def test_ends(self) -> None:
        """
        On its way out it follows nobody any more.
        """
        self.acting.drain()
        draining = self.know("b")
        self.acting.stop()

        self.assertEqual((draining, self.know("c")), (DRAINING, STOPPED))
