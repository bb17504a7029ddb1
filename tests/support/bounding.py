"""
A bound for tests on virtual time, which may go round in circles without end.

What is counted is the time this process computes, so that a busy machine makes
no difference.
"""

from __future__ import annotations

import signal
from typing import Any
from unittest import TestCase

from voltha_coord.embedded.timeline import Timeline

#: So many seconds a test may compute, …
BOUND_SECONDS = 60.0

#: … and so many more where time is not even asked for.
AFTER_SECONDS = 5.0


class NeverOver(AssertionError):
    """
    A test computes for too long: something goes round in circles.
    """


def bound(
    case: TestCase,
    time: Timeline,
    seconds: float = BOUND_SECONDS,
    after: float = AFTER_SECONDS,
) -> None:
    """
    Let a test fail that computes for too long: nothing more happens on its
    timeline, and whoever lets time pass is told.

    A call that never returns is interrupted some seconds later, again and again,
    as somebody on the way may take that for an error of his own.

    :param time: the test's.
    :param seconds: for how long it may compute.
    :param after: for how long more a call that does not return.
    """
    heap: Any = time.heap

    def give_up(until: float) -> None:
        raise NeverOver(f"not over after computing for {seconds:g} s, at {heap.now} s")

    def interrupt(number: int, frame: object) -> None:
        if heap.step != give_up:
            heap.step = give_up
        else:
            give_up(heap.now)

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, after)

    def end() -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
        heap.__dict__.pop("step", None)

    case.addCleanup(end)
