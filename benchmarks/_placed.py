"""
Some members of a large cluster in one process, which tells on demand what runs
here, when it began, and how long each part of that took.

Every line on standard input is a question, every line on standard output the
answer to it, as JSON.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from attrs import frozen

#: So often the reactor is to come by; what is later than that was held.
TICK = 0.01


@frozen
class Span:
    """
    That something was done.

    :ivar began: on the monotonic clock, which all processes share.
    :ivar seconds: how long it took.
    :ivar cpu: CPU seconds of the whole process meanwhile, of a pass.
    """

    what: str
    began: float
    seconds: float
    cpu: float


class Spans:
    """
    Takes the time of calls.
    """

    def __init__(self) -> None:
        self.found: list[Span] = []

    def around(self, owner: Any, name: str, what: str | Callable[..., str]) -> None:
        """
        Take the time of a function from now on; of one that gives a Deferred until
        that fires.

        :param what: how that is called, or what gives it for the arguments; empty
            for what is not counted.
        """
        from twisted.internet.defer import Deferred

        function = getattr(owner, name)

        def timed(*args: Any, **kw: Any) -> Any:
            kind = what if isinstance(what, str) else what(*args)
            began = time.monotonic()
            cpu = time.process_time() if kind == "pass" else 0.0

            def note(result: Any) -> Any:
                if kind:
                    now = time.monotonic()
                    used = time.process_time() - cpu if cpu else 0.0
                    self.found.append(Span(kind, began, now - began, used))
                return result

            result = function(*args, **kw)
            return (
                result.addBoth(note) if isinstance(result, Deferred) else note(result)
            )

        setattr(owner, name, timed)

    def take(self) -> list[Span]:
        """
        Give what was found since the last time.
        """
        found, self.found = self.found, []
        return found


def take_times() -> Spans:
    """
    Take the times of all that a cluster does, in this process.
    """
    from voltha_coord import passes
    from voltha_coord.consul.requester import Requester
    from voltha_coord.ownership import Ownership
    from voltha_coord.passes import Passes
    from voltha_coord.planning import placing
    from voltha_coord.planning.balanced import BalancedPlanner
    from voltha_coord.reporting import StatusWriter
    from voltha_coord.term import Term

    spans = Spans()
    resource = placing.ResourcePlanner
    for owner, name, what in (
        (Passes, "make", "pass"),
        (passes, "take_look", "read"),
        (Passes, "state_of", "take apart"),
        (BalancedPlanner, "plan", "plan"),
        (resource, "plan", "plan"),
        (placing, "observe", "observe"),
        (resource, "decide", "decide"),
        (placing, "carry_out", "carry out"),
        (passes, "prepare", "prepare"),
        (Term, "write", "write"),
        (Ownership, "claim", "claim"),
        (StatusWriter, "_write", "report"),
    ):
        spans.around(owner, name, what)

    def what_is_read(_: Any, request: Any) -> str:
        snapshot = request.path == "/v1/txn" and b'"get-tree"' in request.body
        return "answer" if snapshot else ""

    spans.around(Requester, "request", what_is_read)
    return spans


def run_members(address: str, prefix: str, leader: str, names: list[str]) -> None:
    """
    Be these members, and answer.
    """
    import structlog
    from twisted.internet import reactor as the_reactor
    from twisted.internet.defer import DeferredList, inlineCallbacks
    from twisted.internet.stdio import StandardIO
    from twisted.internet.task import LoopingCall
    from twisted.protocols.basic import LineOnlyReceiver

    from voltha_coord._types import Steps
    from voltha_coord.coordinator import Coordinator
    from voltha_coord.plugins import find_leader
    from voltha_coord.records import WorkItem
    from voltha_coord.runners.track import TrackRunner
    from voltha_coord.settings import Settings
    from voltha_coord.testing import FixedMeter

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    reactor: Any = the_reactor
    spans = take_times()
    started: dict[str, tuple[str, float]] = {}
    held = 0.0
    ticked = time.monotonic()

    class Noting(TrackRunner):
        """
        Notes where and when an item was started.
        """

        def __init__(self, member: str) -> None:
            self._member = member

        def start_work(self, item: WorkItem, report: bytes | None) -> None:
            started[item.id] = (self._member, time.monotonic())

        def stop_work(self, item: WorkItem) -> None:
            started.pop(item.id, None)

    def meter() -> FixedMeter:
        made = FixedMeter()
        # Room for all that is wanted, and then some.
        made.has |= {"ncpu": 1e4, "cpu_limit": 1e6, "memory_limit": 2**50}
        return made

    members = [
        Coordinator(
            "127.0.0.1",
            "127.0.0.1",
            name,
            0,
            address,
            find_leader(leader),
            runner=Noting(name),
            settings=Settings(prefix=prefix, failure_detection=60.0, session_ttl=60.0),
            meter=meter(),
        )
        for name in names
    ]

    def tick() -> None:
        nonlocal held, ticked
        now = time.monotonic()
        held, ticked = max(held, now - ticked - TICK), now

    def answer(question: str, *about: str) -> Any:
        nonlocal held
        if question == "running":
            last = max((at for _, at in started.values()), default=0.0)
            return len(started), last
        if question == "where":
            return started.get(about[0])
        longest, held = held, 0.0
        found = [[s.what, s.began, s.seconds, s.cpu] for s in spans.take()]
        return {"held": longest, "cpu": time.process_time(), "spans": found}

    class Answering(LineOnlyReceiver):
        """
        Answers each line.
        """

        delimiter = b"\n"

        def lineReceived(self, line: bytes) -> None:  # noqa: N802 (Twisted's name)
            self.sendLine(json.dumps(answer(*line.decode().split())).encode())

        def connectionLost(self, reason: object = None) -> None:  # noqa: N802 (its too)
            end()

    @inlineCallbacks
    def begin() -> Steps[None]:
        for member in members:
            yield member.when_ready()
        # What a member tells anybody is told when it is there.
        StandardIO(Answering())
        print(json.dumps("ready"), flush=True)

    @inlineCallbacks
    def end() -> Steps[None]:
        # In order: what is left behind would be written about for minutes.
        yield DeferredList([member.shutdown() for member in members])
        reactor.stop()

    LoopingCall(tick).start(TICK)
    reactor.callWhenRunning(begin)
    reactor.run()


if __name__ == "__main__":
    run_members(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
