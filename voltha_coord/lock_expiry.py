"""
When nobody can act under a lock any more: judged on one's own clock.

# Note [An expired lock]

The holder of a lock with a term acts until the term, counted from when its last
acknowledged request was *sent*, and shortened by a guard.  Somebody else may take
the lock once the record has stood unchanged for the whole term, and a margin for
clocks that run apart, since it was first *seen*.  What was seen was there before,
and what is unchanged was not renewed: so no time of one machine is compared with
one of another.  A member that comes new has to look for one term; it remembers
what it has seen, so that it looks once and not at every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from twisted.internet.defer import Deferred, succeed

from .lock_store import Found
from .ownership import Judge, lease_over
from .records import OwnerRecord
from .succession import CLOCK_RATE_MARGIN


class Sightings:
    """
    Remembers since when each lock has stood as it does; see Note [An expired
    lock].

    :param now: the lease clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seen: dict[str, tuple[int, float]] = {}

    def expires_in(self, name: str, found: Found) -> float | None:
        """
        Note how a lock was found, and give the seconds after which it must have
        expired if it stays so; 0 when it has, ``None`` for one that has no term.
        """
        entry, record = found.entry, found.record
        valid_for = None if record is None else record.valid_for
        if entry is None or entry.session is not None or valid_for is None:
            self._seen.pop(name, None)
            return None
        index, since = self._seen.get(name, (0, 0.0))
        now = self._now()
        if index != entry.modify_index:
            since = now
            self._seen[name] = entry.modify_index, since
        return max(0.0, since + valid_for * CLOCK_RATE_MARGIN - now)

    def keep(self, names: Container[str]) -> None:
        """
        Forget all locks but these.
        """
        self._seen = {n: seen for n, seen in self._seen.items() if n in names}


def lease_ended(judge: Judge, name: str, found: Found) -> Deferred[bool]:
    """
    Find out whether the lease that a lock was last held under must be over.

    :return: a Deferred that fires with the answer, or fails with
        :class:`ConsulError`.
    """
    trace = found.trace
    if found.last is not None and trace is None:
        # Whoever wrote that is not known, and so neither is their session.
        return succeed(judge.waited(f"lock {name}"))
    if trace is None or trace.released or trace.session is None:
        return succeed(True)
    return lease_over(
        judge,
        OwnerRecord(trace.owner, trace.session, trace.check, trace.node, trace.ttl),
    )
