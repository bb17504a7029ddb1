"""
Items run by a runner on strings, on a clock, without a cluster.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.testing import capture_logs
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.working import KillingRunner
from voltha_coord._types import Steps
from voltha_coord.isolation import Rights
from voltha_coord.item import Item
from voltha_coord.lease import Lease
from voltha_coord.records import WorkItem
from voltha_coord.running import RunningItems
from voltha_coord.settings import Settings

#: TTL of the leases, in seconds.
TTL = 1000.0


@inlineCallbacks
def deaf(until: Deferred[Any]) -> Steps[Any]:
    """
    Give a Deferred that heeds no cancellation: it ends when ``until`` does.
    """
    try:
        yield Deferred()
    except CancelledError:
        result = yield until
        return result


class RunningCase(SynchronousTestCase):
    """
    A test with items and a runner.

    :ivar stopped: what has stopped, in order.
    :ivar attended: how often the worker was called.
    :ivar failing: what it then fails with, ``None`` for nothing.
    :ivar beginning: whether anything may begin.
    """

    settings = Settings()

    def setUp(self) -> None:
        """
        Begin with nothing running.
        """
        self.logs = self.enterContext(capture_logs())
        self.clock = Clock()
        self.runner = self.make_runner()
        self.stopped: list[Item] = []
        self.attended = 0
        self.failing: Exception | None = None
        self.beginning = True
        self.lease = self.make_lease()
        self.rights = Rights(self.clock.seconds, lambda: self.lease)
        self.items = RunningItems(
            self.clock,
            self.runner,
            self.settings,
            rights=self.rights,
            may_begin=lambda item: self.beginning,
            stopped=self.stopped.append,
            changed=lambda: None,
            attend=self.attend,
            wall_clock=lambda: 1000.0 + self.clock.seconds(),
            random=lambda: 1.0,
            log=structlog.get_logger(),
        )

    def make_runner(self) -> Any:
        """
        Make the runner.
        """
        return KillingRunner()

    def attend(self) -> None:
        """
        Count.
        """
        self.attended += 1
        if self.failing is not None:
            raise self.failing

    def make_lease(self) -> Lease:
        """
        Give a lease that begins now.
        """
        now = self.clock.seconds()
        return Lease(self.clock.seconds, "s", session_ttl=TTL, renewed=now)

    def item(self, work: str, value: bytes = b"", **kw: Any) -> Item:
        """
        Give an item that we own.
        """
        kw.setdefault("index", 5)
        kw.setdefault("lease", self.lease)
        return Item(WorkItem.from_value(work, value), **kw)

    def start(self, work: str, value: bytes = b"", **kw: Any) -> Item:
        """
        Start an item.
        """
        item = self.item(work, value, **kw)
        self.items.start(item)
        return item

    def stop(self, item: Item, release: bool = True) -> None:
        """
        Stop an item.
        """
        self.items.stop(item, release=release)

    def pass_time(self, seconds: float, step: float = 0.05) -> None:
        """
        Let time pass, and do what is due again, as the worker does.
        """
        end = self.clock.seconds() + seconds + 1e-6
        while self.clock.seconds() < end - 1e-9:
            self.clock.advance(min(step, end - self.clock.seconds()))
            self.items.try_again()

    def events(self, name: str) -> list[Any]:
        """
        Give what was logged under a name.
        """
        return [entry for entry in self.logs if entry["event"] == name]
