"""
Tests for what outage is ridden out.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.outage import (
    election_seconds,
    longest_takeover,
    raft_heartbeat,
    ridden_out,
)
from voltha_coord.settings import Settings

from .support.embedded import ClusterTestCase


def agent(timeout: object) -> dict[str, Any]:
    """
    Give what ``agent/self`` answers.
    """
    return {"DebugConfig": {"ConsulRaftHeartbeatTimeout": timeout}}


class OutageTests(SynchronousTestCase):
    """
    The arithmetic.
    """

    def test_ridden_out(self) -> None:
        """
        The TTL, less the renewal that was just due, less the guard.
        """
        self.assertAlmostEqual(ridden_out(Settings(), 15.0), 15.0 - 3.0 - 0.3)

    def test_longest_takeover(self) -> None:
        """
        The longest is the death of a machine: until Consul ends the session,
        and one more TTL (field reports 1, 29).  Consul's own health check
        shortens the first part, if the check of the process does as well.
        """
        self.assertEqual(longest_takeover(Settings(), 15.0), 30 + 15 + 1 + 2)
        healthy = Settings(node_health=True)
        self.assertEqual(longest_takeover(healthy, 15.0), 7 + 15 + 1 + 2)
        patient = Settings(node_health=True, failure_detection=20.0)
        self.assertEqual(longest_takeover(patient, 15.0), 20 + 15 + 1 + 2)
        ttl_alone = Settings(node_health=True, failure_detection=0.0)
        self.assertEqual(longest_takeover(ttl_alone, 15.0), 30 + 15 + 1 + 2)

    def test_heartbeat(self) -> None:
        """
        What an agent tells is read; what it does not tell, or tells oddly, is
        not known.
        """
        self.assertEqual(raft_heartbeat(agent("5s")), 5.0)
        for odd in ({}, {"DebugConfig": None}, agent(None), agent("soon"), agent("0s")):
            self.assertIsNone(raft_heartbeat(odd))

    def test_election(self) -> None:
        """
        It grows with the servers' ``raft_multiplier``.
        """
        self.assertAlmostEqual(election_seconds(1.0), 4.4)
        self.assertAlmostEqual(election_seconds(5.0), 22.0)


class SaidAtStartTests(ClusterTestCase):
    """
    What a member says of it at its start.
    """

    def start(self, heartbeat: object) -> None:
        """
        Start a member at an agent that tells that.
        """
        member = self.cluster.add("a")

        async def told() -> dict[str, Any]:
            return agent(heartbeat)

        member.api.agent_self = told  # type: ignore[assignment,method-assign]  # an agent of another kind
        self.cluster.until(lambda: member.is_leader)
        self.cluster.advance(1)

    def test_enough(self) -> None:
        """
        Elections that are ridden out are no reason to worry.
        """
        self.start("1s")

        (said,) = self.logged("outage-ridden-out")
        self.assertEqual(said["consul_election_seconds"], 4.4)
        self.assertEqual(self.logged("session-ttl-short"), [])

    def test_short(self) -> None:
        """
        Elections that outlast the session are said, with what to do.
        """
        self.start("5s")

        (said,) = self.logged("session-ttl-short")
        self.assertEqual(said["consul_election_seconds"], 22.0)
        self.assertIn("raise session_ttl to 26", said["action"])
