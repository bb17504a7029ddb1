"""
Tests for those who wait for a leader, or for a member to be ready.
"""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import ShutDownError
from voltha_coord.readiness import Readiness


class ReadinessTests(SynchronousTestCase):
    """
    Waiting.
    """

    def setUp(self) -> None:
        """
        Be a member that knows of no leader.
        """
        self.leader_id: str | None = None
        self.is_ready = False
        self.leaving = False
        self.readiness = Readiness(
            leader_id=lambda: self.leader_id,
            is_ready=lambda: self.is_ready,
            leaving=lambda: self.leaving,
        )

    def test_later(self) -> None:
        """
        Each is told once it is so, and not of the other.
        """
        leader = self.readiness.wait_for_a_leader()
        ready = self.readiness.when_ready()
        self.readiness.look()
        self.assertNoResult(leader)

        self.leader_id = "b"
        self.readiness.look()
        self.assertEqual(self.successResultOf(leader), "b")
        self.assertNoResult(ready)

        self.is_ready = True
        self.readiness.look()
        self.assertIsNone(self.successResultOf(ready))

    def test_at_once(self) -> None:
        """
        Who asks when it is so already is told at once.
        """
        self.leader_id, self.is_ready = "a", True

        self.assertEqual(self.successResultOf(self.readiness.wait_for_a_leader()), "a")
        self.assertIsNone(self.successResultOf(self.readiness.when_ready()))

    def test_stopped(self) -> None:
        """
        At the end everybody is told that it will not happen.
        """
        waiting = (self.readiness.wait_for_a_leader(), self.readiness.when_ready())

        self.readiness.stop()

        for one in waiting:
            self.failureResultOf(one, ShutDownError)

    def test_too_late(self) -> None:
        """
        On the way out nobody begins to wait, whatever is known.
        """
        self.leader_id, self.is_ready, self.leaving = "a", True, True

        self.failureResultOf(self.readiness.wait_for_a_leader(), ShutDownError)
        self.failureResultOf(self.readiness.when_ready(), ShutDownError)

    def test_cancelled(self) -> None:
        """
        Who waits no more is not told.
        """
        waiting = self.readiness.wait_for_a_leader()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)

        self.leader_id = "b"
        self.readiness.look()

        self.assertEqual(self.successResultOf(self.readiness.wait_for_a_leader()), "b")
