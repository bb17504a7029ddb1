"""
Tests for what a member counts.
"""

from __future__ import annotations

from math import inf

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord import errors
from voltha_coord.consul.requester import Outcome
from voltha_coord.consul.transport import (
    Lane,
    LaneBusy,
    NotConnected,
    Overtaken,
    Request,
)
from voltha_coord.errors import ConsulError
from voltha_coord.planning.operations import Assign, Move, Reassign, Unassign
from voltha_coord.tally import (
    MOST_REASONS,
    OTHER,
    OUTCOMES,
    Durations,
    Reasons,
    Tally,
    outcome_of,
)


def ended(
    lane: Lane, error: ConsulError | None = None, seconds: float = 0.02
) -> Outcome:
    """
    Make the outcome of a request.
    """
    return Outcome(Request("GET", "/v1/kv/a", lane=lane), error, seconds)


class OutcomeTests(SynchronousTestCase):
    """
    Tests of :func:`outcome_of`.
    """

    def test_words(self) -> None:
        """
        An outcome is told by the error that says most about it.
        """
        words: list[tuple[ConsulError | None, str]] = [
            (None, "ok"),
            (LaneBusy(""), "lane-busy"),
            (Overtaken(""), "overtaken"),
            (NotConnected(""), "not-connected"),
            (errors.RequestTimedOut(""), "timed-out"),
            (errors.NoClusterLeader(""), "no-cluster-leader"),
            (errors.RateLimited(""), "rate-limited"),
            (errors.ConsulUnavailable(""), "unavailable"),
            (errors.TransactionRefused(()), "refused"),
            (errors.AccessDenied(""), "denied"),
            (errors.InvalidSession(""), "error"),
        ]

        for error, word in words:
            self.assertEqual(outcome_of(error), word)
        self.assertEqual(sorted(word for _, word in words), sorted(OUTCOMES))

    def test_bounded(self) -> None:
        """
        Whatever error there is or will be, it is one of a few words.
        """
        kinds = [
            kind
            for kind in vars(errors).values()
            if isinstance(kind, type) and issubclass(kind, ConsulError)
        ]

        self.assertGreater(len(kinds), 10)
        for kind in kinds:
            self.assertIn(outcome_of(kind.__new__(kind)), OUTCOMES)


class ReasonsTests(SynchronousTestCase):
    """
    Tests of :class:`Reasons`.
    """

    def test_known(self) -> None:
        """
        A known reason is there before it is met, so that its first step is one
        from 0 to 1.
        """
        reasons = Reasons(("a", "b"))
        reasons.note("b")
        reasons.note("c")

        self.assertEqual(reasons.counts, {"a": 0, "b": 1, "c": 1})

    def test_bounded(self) -> None:
        """
        Whoever makes up reasons without end makes no counts without end.
        """
        reasons = Reasons()
        for number in range(3 * MOST_REASONS):
            reasons.note(f"reason-{number}")
        reasons.note("reason-0")

        self.assertEqual(len(reasons.counts), MOST_REASONS + 1)
        self.assertEqual(reasons.counts["reason-0"], 2)
        self.assertEqual(reasons.counts[OTHER], 2 * MOST_REASONS)


class DurationsTests(SynchronousTestCase):
    """
    Tests of :class:`Durations`.
    """

    def test_bounds(self) -> None:
        """
        What took exactly a bound is within it, and what took longer than the
        last is within infinity.
        """
        durations = Durations((0.1, 1.0))
        for seconds in (0.05, 0.1, 0.5, 3.0):
            durations.note(seconds)

        self.assertEqual(list(durations.cumulated()), [(0.1, 2), (1.0, 3), (inf, 4)])
        self.assertEqual((durations.count, durations.total), (4, 3.65))


class TallyTests(SynchronousTestCase):
    """
    Tests of :class:`Tally` and its parts.
    """

    def test_requests(self) -> None:
        """
        Requests are counted by lane and by what they came to.
        """
        requests = Tally().requests
        requests.ended(ended(Lane.COMMAND))
        requests.ended(ended(Lane.COMMAND))
        requests.ended(ended(Lane.WATCH, errors.AccessDenied("")))

        self.assertEqual(
            {key: count for key, count in requests.outcomes.items() if count},
            {(Lane.COMMAND, "ok"): 2, (Lane.WATCH, "denied"): 1},
        )
        self.assertEqual(len(requests.outcomes), len(Lane) * len(OUTCOMES))

    def test_latency(self) -> None:
        """
        Only requests that were answered have a latency, and only where an
        answer comes at once.
        """
        requests = Tally().requests
        requests.ended(ended(Lane.SESSION, errors.TransactionRefused(())))
        requests.ended(ended(Lane.SESSION, errors.RequestTimedOut(""), 2.0))
        requests.ended(ended(Lane.WATCH, None, 30.0))

        self.assertEqual(
            {lane: d.count for lane, d in requests.durations.items()},
            {Lane.SESSION: 1, Lane.COMMAND: 0},
        )

    def test_passes(self) -> None:
        """
        Passes are counted by what they came to; those that failed took no time.
        """
        passes = Tally().passes
        passes.made(0.1, frozen=False)
        passes.made(0.1, frozen=True)
        passes.failed()

        self.assertEqual(passes.outcomes.counts, {"made": 1, "frozen": 1, "failed": 1})
        self.assertEqual(passes.durations.count, 2)

    def test_operations(self) -> None:
        """
        What is applied of a plan is counted by kind.
        """
        passes = Tally().passes
        passes.applied((Assign("w", "a"), Move("v", "a", "b"), Assign("u", "a")))
        passes.applied((Unassign("w", "a"), Reassign("u", "a")))

        self.assertEqual(
            passes.operations, {"assign": 2, "move": 1, "reassign": 1, "unassign": 1}
        )

    def test_watches(self) -> None:
        """
        Watches of one name, one after the other, count in one place.
        """
        tally = Tally()
        tally.watch("work").wakes += 1
        tally.watch("work").wakes += 1

        self.assertEqual(tally.watches["work"].wakes, 2)
