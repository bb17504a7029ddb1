"""
In which order the parts of a member are started, and ended.

How long each of the last steps may take, and why they come in this order, is told
in Note [Shutting down] of :mod:`~voltha_coord.shutdown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred, inlineCallbacks

from ._types import Steps
from .ground import Ground
from .settings import TAKEOVER
from .shutdown import Kind, Step
from .wiring import Parts


def start(ground: Ground, parts: Parts) -> None:
    """
    Start the parts.  The worker is started once this is a member.
    """
    ground.steady.watch()
    parts.session.start()
    parts.membership.start()
    parts.election.start()
    if ground.settings.isolation == TAKEOVER:
        parts.last_known.start()


def lead_no_more(parts: Parts) -> None:
    """
    Do what is done in the turn in which a shutdown is asked for.
    """
    parts.election.retire()
    parts.emergency.stop()
    parts.acting.drain()
    parts.locks.close()


def last_steps(
    ground: Ground,
    parts: Parts,
    *,
    stop_starting: Callable[[], None],
    drain_seconds: Callable[[], float],
) -> Iterable[Step]:
    """
    Give the steps of shutting down; see Note [Shutting down].

    :param stop_starting: sees to it that nothing begins any more.
    :param drain_seconds: for how many seconds from now work may be let be moved
        away.
    """
    ours, consul, work = Kind.LOCAL, Kind.CONSUL, Kind.WORK
    session, membership, employing = parts.session, parts.membership, parts.employing
    election, leaving, locks = parts.election, parts.leaving, parts.locks

    def has_work() -> bool:
        return membership.joined and employing.has_work

    def drain() -> Deferred[None]:
        return leaving.drain(drain_seconds())

    @inlineCallbacks
    def stop_work() -> Steps[None]:
        # What has not stopped may need a lock: it is not given back then.
        try:
            halting = employing.halt() if employing.started else None
            if halting is not None:
                yield halting
            yield locks.release_all()
        finally:
            yield locks.stop()

    return (
        Step(ours, "stop-starting", stop_starting),
        Step(ours, "halt-leader", parts.acting.when_at_rest),
        Step(ours, "stop-hand-over", parts.hand_over.stop),
        Step(ours, "stop-election", election.stop),
        Step(ours, "stop-leading", parts.leading.stop),
        Step(ours, "stop-tasks", parts.tasks.stop),
        Step(ours, "stop-retries", parts.retrying.stop),
        Step(ours, "stop-view", parts.view.stop),
        Step(ours, "stop-last-known", parts.last_known.stop),
        Step(consul, "release-leadership", election.resign, lambda: election.owes),
        Step(consul, "say-leaving", leaving.say, has_work),
        Step(work, "drain", drain, lambda: leaving.can_drain),
        Step(
            work,
            "stop-work",
            stop_work,
            lambda: employing.started or locks.in_use,
            employing.press,
        ),
        Step(ours, "stop-membership", membership.stop),
        Step(consul, "leave", leaving.leave, lambda: session.session_id),
        Step(ours, "stop-session", session.stop),
        Step(consul, "destroy-session", session.destroy),
        Step(ours, "close-connections", ground.requester.close),
    )


def end(ground: Ground, parts: Parts) -> None:
    """
    Do what is done once all steps have been made.
    """
    ground.steady.unwatch()
    parts.acting.stop()
