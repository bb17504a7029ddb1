"""
What the runner is asked to do with items, but for stopping them.

# Note [One call at a time]

About one item the runner is called strictly one call after another; about
different items at the same time, ``Settings.concurrent_work`` of them.  Those
that are to be started, made ready or changed stand in one line.  What is to be
done is decided when an item's turn has come, from what it is to be by then: a
change that waits is superseded by a newer one, and an item that is to be run by
now is not made ready any more.  A call that is not done within
``Settings.work_timeout`` is cancelled and counts as failed.  If it goes on all
the same the item's next call waits for its end; other items never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks
from ._types import Steps
from .call import Call, told
from .consul.backoff import Backoff
from .interfaces import IRunner
from .item import (
    FAILED,
    PREPARED,
    PREPARING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    Item,
)
from .records import RUN, WorkItem
from .settings import Settings
from .turns import Turns


@frozen
class _Step:
    """
    What the runner may be asked to do with an item.

    :ivar doing: the item's state meanwhile.
    :ivar done: its state once that is done.
    :ivar failed: its state when that fails.
    :ivar failure: the log event then.
    """

    doing: str
    done: str
    failed: str
    failure: str


_PREPARE = _Step(PREPARING, PREPARED, FAILED, "work-not-prepared")
_START = _Step(STARTING, RUNNING, FAILED, "work-not-started")
_UPDATE = _Step(RUNNING, RUNNING, RUNNING, "work-not-changed")


class Attempts:
    """
    Asks the runner, again where that failed; see Note [One call at a time].

    :param order: has the order of an item heeded, as far as no call is needed but
        one that stops it.
    :param ask: asks the runner how an item fares by itself.
    :param may_begin: whether an item may be started, or made ready, now.
    :param changed: told whenever a status report would say something new.
    :param attend: told whenever the worker has something to do about an item.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        runner: IRunner,
        settings: Settings,
        *,
        order: Callable[[Item], None],
        ask: Callable[[Item], None],
        may_begin: Callable[[Item], bool],
        changed: Callable[[], None],
        attend: Callable[[], None],
        wall_clock: Callable[[], float],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._runner = runner
        self._settings = settings
        self._order = order
        self._ask = ask
        self._may_begin = may_begin
        self._changed = changed
        self._attend = attend
        self._wall_clock = wall_clock
        self._random = random
        self._log = log
        self._tasks = Tasks(log)
        self._turns = Turns(settings.concurrent_work)
        self._given_up = False

    def see_to(self, item: Item) -> None:
        """
        Have an item's order heeded; then have it stand in line if there is
        something to be done, and nothing under way.
        """
        self._order(item)
        if item.turn is not None or item.busy:
            return
        due = item.retry_at <= self._reactor.seconds()
        if due and self._next_step(item) is not None:
            self._tasks.spawn("call-runner", self._in_turn, item)

    def see_to_all(self, items: Iterable[Item]) -> float | None:
        """
        See to items.

        :return: the seconds until the next one is to be seen to again, ``None``
            for none.
        """
        now = self._reactor.seconds()
        waits = []
        for item in items:
            if _at_rest(item):
                continue
            self.see_to(item)
            if item.retry_at > now and self._next_step(item) is not None:
                waits.append(item.retry_at - now)
        return min(waits, default=None)

    def stop(self) -> Deferred[None]:
        """
        Ask for nothing any more, and wait for nothing.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._given_up = True
        return self._tasks.stop()

    def _next_step(self, item: Item) -> _Step | None:
        """
        Give what the runner is to be asked next about an item.
        """
        if item.state in (STOPPING, STOPPED):
            return None
        if item.state == RUNNING:
            return None if item.wanted is None else _UPDATE
        if not self._may_begin(item):
            return None
        if item.phase == RUN:
            return _START if item.newest.is_to_run else None
        ready = item.state == PREPARED and item.wanted is None
        return None if ready else _PREPARE

    @inlineCallbacks
    def _in_turn(self, item: Item) -> Steps[None]:
        item.turn = self._turns.take()
        try:
            yield item.turn
        finally:
            item.turn = None
        try:
            step = self._next_step(item)
            if step is not None:
                yield self._make(step, item)
        finally:
            self._turns.give_back()
        self.see_to(item)

    @inlineCallbacks
    def _make(self, step: _Step, item: Item) -> Steps[None]:
        """
        Ask the runner, and note what came of it.
        """
        description = item.newest
        call = item.call = Call(self._reactor, self._asking(step, item, description))
        item.touched = True
        if step is _START:
            item.begun, item.heeded = True, item.restart
        item.enter(step.doing, self._wall_clock())
        try:
            yield call.make(self._settings.work_timeout)
        except Exception as error:
            if self._given_up:
                raise
            if item.state == step.doing:
                self._failed(step, item, error)
            # Else a stop has cancelled it, and what it says is of no use.
            if not call.ended:
                self._tasks.spawn(
                    "wait-for-late-call",
                    self._see_out,
                    step,
                    item,
                    description,
                    call,
                )
        else:
            if item.state == step.doing:
                self._succeeded(step, item, description)

    def _asking(
        self, step: _Step, item: Item, description: WorkItem
    ) -> Callable[[], Any]:
        if step is _START:
            own = item.handover
            report = item.report if own is None else own
            return partial(self._runner.start_work, description, report)
        if step is _PREPARE:
            return partial(self._runner.prepare_work, description)
        return partial(self._runner.update_work, description)

    def _succeeded(self, step: _Step, item: Item, description: WorkItem) -> None:
        item.told(description)
        if item.error or (step is _START and item.report_index):
            self._attend()
        item.error, item.backoff, item.retry_at = "", None, 0.0
        if step is _START:
            item.report = item.handover = None
        item.enter(step.done, self._wall_clock())
        if item.state == RUNNING:
            self._ask(item)
        self._changed()

    def _failed(self, step: _Step, item: Item, error: Exception) -> None:
        if item.backoff is None:
            item.backoff = Backoff(self._random)
        seconds = item.backoff.next()
        item.retry_at = self._reactor.seconds() + seconds
        item.enter(step.failed, self._wall_clock())
        text = told(error)
        # What is tried again and fails again in the same way is no news.
        say = self._log.debug if text == item.error else self._log.error
        item.error = text
        say(
            step.failure,
            work=item.id,
            retry_in=round(seconds, 3),
            error=item.error,
        )
        self._changed()
        self._attend()

    @inlineCallbacks
    def _see_out(
        self, step: _Step, item: Item, description: WorkItem, call: Call
    ) -> Steps[None]:
        """
        Wait for the end of a call that had failed: then the item's next one need
        not wait for it any more; or none is needed, if it has ended well after
        all.
        """
        yield call.when_ended()
        if item.call is not call or item.state != step.failed:
            return
        if call.succeeded:
            self._succeeded(step, item, description)
        self._attend()


def _at_rest(item: Item) -> bool:
    """
    Whether there is nothing to be done about an item, as of most of thousands.
    """
    heeded = item.wanted is None and item.restart == item.heeded
    return heeded and item.state in (RUNNING, STOPPED)
