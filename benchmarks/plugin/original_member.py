"""
A member as the 2016 original was, as a process; what it works on is recorded.

Called with its name, ``host:port`` of its agent, and the prefix of its cluster.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from recording import Record
from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall

from voltha_coord.consul.address import from_environment
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.connect import connect

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.support.original import OriginalMember

#: Its worker tells nobody what it has: it is looked at so often, in seconds.
LOOK_SECONDS = 0.005


def main(name: str, address: str, prefix: str) -> None:
    """
    Be that member until SIGTERM, or until killed.
    """
    reactor: Any = the_reactor
    requester = connect(reactor, from_environment({}, [address]))
    member = OriginalMember(reactor, ConsulApi(requester), name, prefix)
    record = Record(name)
    works: set[str] = set()

    def look() -> None:
        nonlocal works
        now = set(member.worker.my_workload)
        for item in sorted(works - now):
            record.note("stopped", item)
        for item in sorted(now - works):
            record.note("started", item)
        works = now

    def leave() -> Deferred[Any]:
        # Like the original: nothing is stopped before others may begin.
        return member.shutdown().addBoth(lambda _: look())

    looking = LoopingCall(look)
    reactor.callWhenRunning(member.start)
    reactor.callWhenRunning(looking.start, LOOK_SECONDS)
    reactor.addSystemEventTrigger("before", "shutdown", leave)
    reactor.callWhenRunning(
        signal.signal, signal.SIGTERM, lambda *_: reactor.callFromThread(reactor.stop)
    )
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
