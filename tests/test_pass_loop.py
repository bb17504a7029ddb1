"""
Tests for when the leader makes a pass, and what becomes of one that failed.
"""

from __future__ import annotations

from typing import cast

from attrs import Factory, define
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import AccessDenied, ConsulUnavailable, LeaseOverError
from voltha_coord.pace import Pace
from voltha_coord.pass_loop import PREDECESSOR_RETRY, PassLoop
from voltha_coord.pass_report import PassReport
from voltha_coord.passes import Passes
from voltha_coord.tally import PassTally
from voltha_coord.term import Term

from .support.keeping import RecordingLog

RESYNC = 100.0


@define
class FakeTerm:
    """
    A term that is over when it is said to be.
    """

    over: bool = False


@define
class FakePasses:
    """
    Passes that come to what they are told.

    :ivar made: when, and whether on a consistent snapshot.
    """

    clock: Clock
    pace: Pace
    outcomes: list[Exception] = Factory(list)
    made: list[tuple[float, bool]] = Factory(list)
    looks: list[float] = Factory(list)
    last: PassReport = Factory(PassReport)
    waits: bool = False
    over: bool = False

    def make(self, *, consistent: bool) -> Deferred[None]:
        """
        Make one.
        """
        self.pace.begin()
        self.made.append((self.clock.seconds(), consistent))
        if self.outcomes:
            return fail(self.outcomes.pop(0))
        if consistent:
            self.pace.looked(self.clock.seconds())
        return succeed(None)

    def look(self, *, consistent: bool, thorough: bool) -> Deferred[str]:
        """
        Look.
        """
        self.looks.append(self.clock.seconds())
        return fail(self.outcomes.pop(0)) if self.outcomes else succeed("look")

    def any_over(self) -> Deferred[bool]:
        """
        Say whether a lease is over.
        """
        over, self.over = self.over, False
        return succeed(over)


class PassLoopTests(SynchronousTestCase):
    """
    A term whose first look was just now.
    """

    def setUp(self) -> None:
        """
        Draw no jitter.
        """
        self.clock = Clock()
        self.log = RecordingLog()
        self.term = FakeTerm()
        self.tally = PassTally()
        self.given_up: list[str] = []
        pace = Pace(self.clock.seconds, RESYNC)
        pace.looked(0.0)
        self.passes = FakePasses(self.clock, pace)
        self.loop = PassLoop(
            self.clock,
            self.clock,
            cast(Term, self.term),
            cast(Passes, self.passes),
            pace,
            patience=10.0,
            give_up=self.given_up.append,
            tally=self.tally,
            random=lambda: 0.5,
            log=self.log,
        )

    def test_due(self) -> None:
        """
        A pass is made once it is due, and one on a consistent snapshot at the
        latest after the interval of those.
        """
        self.loop.run().addErrback(lambda _: None)
        self.loop.want(3.0)
        self.clock.pump([0.5] * 210)

        self.assertEqual(self.passes.made, [(3.0, False), (RESYNC, True)])

    def test_failed(self) -> None:
        """
        A pass that failed is made again after a back-off; it is counted, and
        said aloud unless Consul is away.
        """
        self.passes.outcomes = [ValueError("planner"), ConsulUnavailable("away")]
        self.loop.run().addErrback(lambda _: None)
        self.loop.want(1.0)

        self.clock.pump([0.05] * 60)

        self.assertEqual(len(self.passes.made), 3)
        self.assertEqual(self.tally.outcomes.counts["failed"], 2)
        self.assertEqual([level for level, *_ in self.log.said], ["error", "debug"])

    def test_denied_at_once(self) -> None:
        """
        A leader that never made a pass and is denied one lets others try.
        """
        self.passes.outcomes = [AccessDenied("no")]
        running = self.loop.run()
        self.loop.want(1.0)

        self.clock.advance(1)

        self.successResultOf(running)
        self.assertEqual(self.given_up, ["denied"])

    def test_denied_for_long(self) -> None:
        """
        One that has made some lets others try only once it lasts.
        """
        self.passes.last = PassReport(number=1)
        self.passes.outcomes = [AccessDenied("no") for _ in range(100)]
        running = self.loop.run()
        self.loop.want(1.0)

        self.clock.pump([0.5] * 20)
        self.assertEqual(self.given_up, [])
        self.clock.pump([0.5] * 20)

        self.successResultOf(running)
        self.assertEqual(self.given_up, ["denied"])

    def test_waiting(self) -> None:
        """
        While a lease is waited for it is looked at often, and a pass follows at
        once when it is over.
        """
        self.passes.waits = self.passes.over = True
        self.loop.run().addErrback(lambda _: None)

        self.clock.advance(PREDECESSOR_RETRY)
        self.clock.advance(0)

        self.assertEqual(self.passes.made, [(PREDECESSOR_RETRY, False)])

    def test_term_over(self) -> None:
        """
        No pass is made when the term is over.
        """
        self.passes.outcomes = [LeaseOverError("over")]
        running = self.loop.run()
        self.loop.want(1.0)
        self.clock.advance(1)
        self.successResultOf(running)

        self.term.over = True
        self.successResultOf(self.loop.run())
        self.assertEqual((len(self.passes.made), self.log.said), (1, []))

    def test_first_look(self) -> None:
        """
        The first look is made through outages; what Consul refuses ends it, and
        so does cancelling it.
        """
        self.passes.outcomes = [ConsulUnavailable("away"), ConsulUnavailable("away")]
        looking = self.loop.first_look()
        self.clock.pump([0.5] * 4)
        self.assertEqual(
            (self.successResultOf(looking), len(self.passes.looks)), ("look", 3)
        )

        self.passes.outcomes = [AccessDenied("no")]
        self.failureResultOf(self.loop.first_look(), AccessDenied)

        self.passes.outcomes = [ConsulUnavailable("away")]
        looking = self.loop.first_look()
        looking.cancel()
        self.failureResultOf(looking, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
