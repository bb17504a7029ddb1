"""
Tests for the loop that makes the steps of an election.
"""

from __future__ import annotations

from typing import cast

from attrs import define
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.election_loop import LEADERLESS_SECONDS, ElectionLoop
from voltha_coord.errors import AccessDenied, ConsulUnavailable, InvalidSession
from voltha_coord.leader_key import LeaderKey

from .support.keeping import RecordingLog


@define
class FakeKey:
    """
    What is known of the leader key.
    """

    leader_id: str | None = None
    leaderless_for: float = 7.0
    looks: int = 0

    def look_again(self) -> None:
        """
        Count it.
        """
        self.looks += 1


class ElectionLoopTests(SynchronousTestCase):
    """
    Steps that are told what to come to.
    """

    def setUp(self) -> None:
        """
        Have all steps wait to be woken.
        """
        self.clock = Clock()
        self.log = RecordingLog()
        self.key = FakeKey()
        self.outcomes: list[float | Exception | None] = []
        self.steps: list[float] = []
        self.told: list[str] = []
        self.over = False
        self.loop = ElectionLoop(
            self.clock,
            self.clock,
            cast(LeaderKey, self.key),
            step=self.step,
            over=lambda: self.over,
            invalid=lambda: self.told.append("invalid"),
            long=lambda: self.told.append("long"),
            random=lambda: 0.0,
            log=self.log,
        )

    def step(self) -> Deferred[float | None]:
        """
        Make a step.
        """
        self.steps.append(self.clock.seconds())
        outcome = self.outcomes.pop(0) if self.outcomes else None
        return fail(outcome) if isinstance(outcome, Exception) else succeed(outcome)

    def test_woken(self) -> None:
        """
        A step is made when woken, or when the last one said; and none any more
        once it is over.
        """
        self.outcomes = [3.0]
        running = self.loop.run()
        self.clock.advance(3)
        self.assertEqual(self.steps, [0.0, 3.0])

        self.loop.wake()
        self.clock.advance(0)
        self.assertEqual(self.steps, [0.0, 3.0, 3.0])

        self.over = True
        self.loop.wake()
        self.clock.advance(0)
        self.successResultOf(running)
        self.assertEqual(len(self.steps), 3)

    def test_failures(self) -> None:
        """
        Whatever a step fails with, another one is made; what is no outage is
        said aloud.
        """
        self.outcomes = [
            ConsulUnavailable("away"),
            InvalidSession("gone"),
            AccessDenied("no"),
            ValueError("ours"),
        ]
        running = self.loop.run()

        self.clock.pump([0.5] * 20)

        self.assertEqual(len(self.steps), 5)
        self.assertEqual(self.told, ["invalid"])
        levels = [level for level, *_ in self.log.said]
        self.assertEqual(levels, ["debug", "warning", "exception"])
        running.cancel()
        self.failureResultOf(running)

    def test_leaderless(self) -> None:
        """
        Where nobody leads for long that is said, and everything looked at anew.
        """
        self.loop.run().addErrback(lambda _: None)

        self.clock.advance(LEADERLESS_SECONDS)

        self.assertEqual([said["seconds"] for said in self.log.of("no-leader")], [7.0])
        self.assertEqual((self.key.looks, self.told), (1, ["long"]))
        self.assertEqual(len(self.steps), 2)

    def test_led(self) -> None:
        """
        While somebody leads it takes longer, and nothing is said.
        """
        self.key.leader_id = "m9"
        self.loop.run().addErrback(lambda _: None)

        self.clock.advance(LEADERLESS_SECONDS)
        self.assertEqual(self.told, [])
        self.clock.advance(300)

        self.assertEqual((self.key.looks, self.told), (0, ["long"]))
        self.assertEqual(self.log.said, [])
