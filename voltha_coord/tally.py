"""
What a member counts while it works: plain numbers, read by whoever looks.

Counting is a few additions and never fails; nobody need look.  What lives as
long as the member counts for itself (the election its terms, the session its
losses).  What comes and goes, as the leader of a term and its watches, counts in
the member's one :class:`Tally`, and so does what passes through many hands, as
the requests do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, product
from math import inf

from attrs import Factory, define, field

from .consul.requester import Outcome
from .consul.transport import Lane, LaneBusy, NotConnected, Overtaken
from .consul.watch import WatchTally
from .errors import (
    AccessDenied,
    ConsulError,
    ConsulUnavailable,
    NoClusterLeader,
    RateLimited,
    RequestTimedOut,
    TransactionRefused,
)
from .planning.operations import Operation

#: So many different reasons are told apart; what comes after them is ``other``.
MOST_REASONS = 32

#: What stands for the reasons beyond those.
OTHER = "other"

#: Bounds of how long a request may take, in seconds.
REQUEST_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

#: Bounds of how long a pass of the leader may take, in seconds.
PASS_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: The lanes whose requests are answered at once.  How long one of the others
#: takes is how long nothing changed.
PROMPT_LANES = (Lane.SESSION, Lane.COMMAND)

#: What a request may come to: the first that fits, and ``ok`` for no error.
_OUTCOMES: tuple[tuple[type[ConsulError], str], ...] = (
    (LaneBusy, "lane-busy"),
    (Overtaken, "overtaken"),
    (NotConnected, "not-connected"),
    (RequestTimedOut, "timed-out"),
    (NoClusterLeader, "no-cluster-leader"),
    (RateLimited, "rate-limited"),
    (ConsulUnavailable, "unavailable"),
    (TransactionRefused, "refused"),
    (AccessDenied, "denied"),
    (ConsulError, "error"),
)

#: Every outcome that :func:`outcome_of` gives.
OUTCOMES = ("ok", *(name for _, name in _OUTCOMES))


def outcome_of(error: ConsulError | None) -> str:
    """
    Give in one word what a request came to.
    """
    if error is None:
        return "ok"
    return next(name for kind, name in _OUTCOMES if isinstance(error, kind))


class Reasons:
    """
    Counts what happens for a reason, by reason, within a bound.

    :param known: reasons that are shown from the beginning, with 0, so that
        whoever watches a count sees its first step.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._counts = dict.fromkeys(known, 0)

    def note(self, reason: str) -> None:
        """
        Count one more.
        """
        if reason not in self._counts and len(self._counts) >= MOST_REASONS:
            reason = OTHER
        self._counts[reason] = self._counts.get(reason, 0) + 1

    @property
    def counts(self) -> Mapping[str, int]:
        """
        How often each reason was met.
        """
        return self._counts


class Durations:
    """
    How many things took how long.

    :ivar bounds: upper bounds in seconds, rising; above the last is a class
        of its own.
    :ivar total: seconds of all of them together.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.total = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def note(self, seconds: float) -> None:
        """
        Count one that took so long.
        """
        self._counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """
        How many there were.
        """
        return sum(self._counts)

    def cumulated(self) -> Iterator[tuple[float, int]]:
        """
        Give for each bound, and for infinity, how many took no longer.
        """
        yield from zip((*self.bounds, inf), accumulate(self._counts), strict=True)


@define
class RequestTally:
    """
    The requests to Consul.

    :ivar outcomes: how many, by lane and by what they came to.
    :ivar durations: how long those took that Consul answered, by lane; those of
        :data:`PROMPT_LANES` only.
    """

    outcomes: dict[tuple[Lane, str], int] = field(
        factory=lambda: dict.fromkeys(product(Lane, OUTCOMES), 0)
    )
    durations: dict[Lane, Durations] = field(
        factory=lambda: {lane: Durations(REQUEST_BOUNDS) for lane in PROMPT_LANES}
    )

    def ended(self, outcome: Outcome) -> None:
        """
        Count a request that has ended.
        """
        lane = outcome.request.lane
        self.outcomes[lane, outcome_of(outcome.error)] += 1
        if lane in self.durations and outcome.answered:
            self.durations[lane].note(outcome.seconds)


@define
class PassTally:
    """
    What the passes of this member's terms came to.

    :ivar durations: how long those took that were made.
    :ivar outcomes: how many were made, found planning frozen, or failed.
    :ivar operations: how many operations of plans were applied, by kind.
    """

    durations: Durations = Factory(lambda: Durations(PASS_BOUNDS))
    outcomes: Reasons = Factory(lambda: Reasons(("made", "frozen", "failed")))
    operations: dict[str, int] = Factory(
        lambda: {"assign": 0, "move": 0, "reassign": 0, "unassign": 0}
    )

    def made(self, seconds: float, *, frozen: bool) -> None:
        """
        Count a pass that was made, in so many seconds.
        """
        self.outcomes.note("frozen" if frozen else "made")
        self.durations.note(seconds)

    def failed(self) -> None:
        """
        Count a pass that failed.
        """
        self.outcomes.note("failed")

    def applied(self, operations: Sequence[Operation]) -> None:
        """
        Count operations of a plan that were applied.
        """
        for kind, count in Counter(map(type, operations)).items():
            name = kind.__name__.lower()
            self.operations[name] = self.operations.get(name, 0) + count


@define
class Tally:
    """
    What one member has counted since it was made.

    :ivar watches: by the name of the watch.
    """

    requests: RequestTally = field(factory=RequestTally)
    passes: PassTally = field(factory=PassTally)
    watches: dict[str, WatchTally] = field(factory=dict)

    def watch(self, name: str) -> WatchTally:
        """
        Give what watches of that name count in.
        """
        return self.watches.setdefault(name, WatchTally())
