"""
Work that is nothing but recorded: when it started, and when it has stopped.

Every member of a benchmark appends to the one file that ``BENCH_RECORD`` names,
a line a time: the seconds of the monotonic clock, which all processes of a
machine share, the member, what happened, and the item.

An item may say how long stopping it takes: ``{"config": {"stop": 0.3}}``.  On
SIGUSR2 a member that leads hands leadership over, through its own interface.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, cast

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater

from voltha_coord._types import Steps
from voltha_coord.errors import CoordinationError
from voltha_coord.interfaces import IRunner
from voltha_coord.records import WorkItem
from voltha_coord.worker import Worker


class Record:
    """
    Where one member writes down what happens.
    """

    def __init__(self, member: str, path: str | None = None) -> None:
        name = os.environ["BENCH_RECORD"] if path is None else path
        self._member = member
        self._file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, item: str = "-") -> None:
        """
        Write down that something has just happened.
        """
        line = f"{time.monotonic():.6f} {self._member} {what} {item}\n"
        os.write(self._file, line.encode())


class RecordedRunner:
    """
    Runs items that do nothing, and records it.
    """

    def __init__(self, reactor: Any, record: Record) -> None:
        self._reactor = reactor
        self._record = record

    def start_work(self, item: WorkItem, report: bytes | None) -> None:
        """
        It runs from now on.
        """
        self._record.note("started", item.id)

    def stop_work(self, item: WorkItem) -> Deferred[None] | None:
        """
        It runs no more, once that has taken as long as the item says.
        """
        seconds = float(item.config.get("stop", 0.0))
        if not seconds:
            self._record.note("stopped", item.id)
            return None
        return deferLater(self._reactor, seconds, self._record.note, "stopped", item.id)


def make_worker(instance_id: str, coordinator: Any) -> Worker:
    """
    Make the worker of a member that is measured.
    """
    from twisted.internet import reactor as the_reactor

    reactor: Any = the_reactor
    record = Record(instance_id)

    @inlineCallbacks
    def transfer() -> Steps[None]:
        record.note("transfer-asked")
        try:
            yield coordinator.transfer_leadership()
        except CoordinationError as error:
            record.note("transfer-refused", type(error).__name__)
        else:
            record.note("transferred")

    def asked(*_: object) -> None:
        reactor.callFromThread(transfer)

    reactor.callWhenRunning(signal.signal, signal.SIGUSR2, asked)
    runner = cast(IRunner, RecordedRunner(reactor, record))
    return Worker(instance_id, coordinator, runner)
