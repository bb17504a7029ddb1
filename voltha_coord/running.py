"""
The items that run here: made ready, started, changed, stopped; and all of it
again when it failed.

# Note [One call at a time]

About one item the runner is called strictly one call after another; about
different items at the same time, ``Settings.concurrent_work`` of them.  Those
that are to be started, made ready or changed stand in one line.  What is to be
done is decided when an item's turn has come, from what it is to be by then: a
change that waits is superseded by a newer one, and an item that is to be run by
now is not made ready any more.  A call that is not done within
``Settings.work_timeout`` is cancelled and counts as failed.  If it goes on all
the same the item's next call waits for its end; other items never do.

Stops stand in no line.  A stop cancels what is under way about its item; one
the runner was never asked about is simply gone.  How the rest is stopped is told
in :mod:`~voltha_coord.stopping`.  A ``stop_work`` may go on although the item was
killed; should the item come back here, its start waits for that, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from attrs import frozen
from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks
from ._types import Steps
from .call import Call, told
from .consul.backoff import Backoff
from .interfaces import IRunner
from .isolation import Rights
from .item import (
    FAILED,
    PREPARED,
    PREPARING,
    RUNNING,
    STARTING,
    STATES,
    STOPPING,
    Item,
)
from .records import PREPARE, RUN, WorkItem
from .settings import Settings
from .stopping import Stopping
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


class RunningItems:
    """
    Has the runner run items; see Note [One call at a time].

    :param rights: for how long items may run.
    :param may_begin: whether an item may be started, or made ready, now.
    :param stopped: told of each item that has stopped.
    :param changed: told whenever a status report would say something new.
    :param attend: told whenever the worker has something to do about an item.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        runner: IRunner,
        settings: Settings,
        *,
        rights: Rights,
        may_begin: Callable[[Item], bool],
        stopped: Callable[[Item], None],
        changed: Callable[[], None],
        attend: Callable[[], None],
        wall_clock: Callable[[], float],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._runner = runner
        self._settings = settings
        self._rights = rights
        self._may_begin = may_begin
        self._stopped = stopped
        self._changed = changed
        self._attend = attend
        self._wall_clock = wall_clock
        self._random = random
        self._log = log
        self._tasks = Tasks(log)
        self._turns = Turns(settings.concurrent_work)
        self._given_up = False
        self._lingering: dict[str, Call] = {}
        #: Every item that is here and has not stopped, by work id.
        self.items: dict[str, Item] = {}

    @property
    def workload(self) -> set[str]:
        """
        The ids of the items that run now, and may.
        """
        # Thousands of items run under one lease, or two.
        holds = cache(self._rights.hold)
        return {
            work for work, item in self.items.items() if item.runs and holds(item.lease)
        }

    @property
    def states(self) -> dict[str, int]:
        """
        How many items are in each state, as reports call it.
        """
        counts = Counter(item.shown_state for item in self.items.values())
        return {state: counts[state] for state in STATES}

    # What is to become of an item.

    def start(self, item: Item) -> None:
        """
        Run an item; when it cannot be started, try again later.
        """
        item.phase = RUN
        self._take_in(item)

    def prepare(self, item: Item) -> None:
        """
        Make ready what an item will need; when that fails, try again later.
        """
        item.phase = PREPARE
        self._take_in(item)

    def _take_in(self, item: Item) -> None:
        self.items[item.id] = item
        before = self._lingering.get(item.id)
        if before is not None and item.call is None:
            item.call = before
            item.error = "an earlier call of the runner goes on"
        if not item.since:
            item.since = self._wall_clock()
        self._see_to(item)
        self._changed()

    def change(self, item: Item, description: WorkItem) -> None:
        """
        Go on with a changed description; one that says the same is none.
        """
        newest = item.wanted or item.description
        if description == newest:
            return
        item.wanted = description
        # Whatever failed may do so no more.
        item.retry_at = 0.0
        self._see_to(item)

    def try_again(self) -> float | None:
        """
        Do what is due again.

        :return: the seconds until the next item is, ``None`` for none.
        """
        now = self._reactor.seconds()
        waits = []
        for item in tuple(self.items.values()):
            if item.state == RUNNING and item.wanted is None:
                continue
            self._see_to(item)
            if item.retry_at > now and self._next_step(item) is not None:
                waits.append(item.retry_at - now)
        return min(waits, default=None)

    # One call after another.

    def _next_step(self, item: Item) -> _Step | None:
        """
        Give what the runner is to be asked next about an item.
        """
        if item.state == STOPPING:
            return None
        if item.state == RUNNING:
            return None if item.wanted is None else _UPDATE
        if not self._may_begin(item):
            return None
        if item.phase == RUN:
            return _START
        ready = item.state == PREPARED and item.wanted is None
        return None if ready else _PREPARE

    def _see_to(self, item: Item) -> None:
        """
        Have an item stand in line if there is something to be done, and
        nothing under way.
        """
        if item.turn is not None or item.busy:
            return
        due = item.retry_at <= self._reactor.seconds()
        if due and self._next_step(item) is not None:
            self._tasks.spawn("call-runner", self._in_turn, item)

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
        self._see_to(item)

    @inlineCallbacks
    def _make(self, step: _Step, item: Item) -> Steps[None]:
        """
        Ask the runner, and note what came of it.
        """
        description = item.wanted or item.description
        call = item.call = Call(self._reactor, self._asking(step, item, description))
        item.touched = True
        self._enter(item, step.doing)
        try:
            yield call.make(self._settings.work_timeout)
        except Exception as error:
            if self._given_up:
                raise
            if item.state == step.doing:
                self._failed(step, item, error)
            # Else a stop has cancelled it, and what it says is of no use.
            if not call.ended:
                call.when_ended().addCallback(
                    lambda _: self._ended_late(step, item, description, call)
                )
        else:
            if item.state == step.doing:
                self._succeeded(step, item, description)

    def _asking(
        self, step: _Step, item: Item, description: WorkItem
    ) -> Callable[[], Any]:
        if step is _START:
            return partial(self._runner.start_work, description, item.report)
        if step is _PREPARE:
            return partial(self._runner.prepare_work, description)
        return partial(self._runner.update_work, description)

    def _succeeded(self, step: _Step, item: Item, description: WorkItem) -> None:
        item.told(description)
        if item.error or (step is _START and item.report_index):
            self._attend()
        item.error, item.backoff, item.retry_at = "", None, 0.0
        if step is _START:
            item.report = None
        self._enter(item, step.done)
        self._changed()

    def _failed(self, step: _Step, item: Item, error: Exception) -> None:
        if item.backoff is None:
            item.backoff = Backoff(self._random)
        seconds = item.backoff.next()
        item.retry_at = self._reactor.seconds() + seconds
        self._enter(item, step.failed)
        item.error = told(error)
        self._log.error(
            step.failure,
            work=item.id,
            retry_in=round(seconds, 3),
            error=item.error,
        )
        self._changed()
        self._attend()

    def _ended_late(
        self, step: _Step, item: Item, description: WorkItem, call: Call
    ) -> None:
        """
        A call has ended that had failed: the item's next one need not wait for
        it any more; or none is needed, if it has ended well after all.
        """
        if item.call is not call or item.state != step.failed:
            return
        if call.succeeded:
            self._succeeded(step, item, description)
        self._attend()

    def _enter(self, item: Item, state: str) -> None:
        """
        Let an item be in another state.  One that failed is not in another one
        for people until it succeeds.
        """
        before = item.shown_state
        item.state = state
        if item.shown_state != before:
            item.since = self._wall_clock()

    # Stopping.

    def stop(self, item: Item, *, release: bool) -> None:
        """
        Stop an item.  Once it has stopped it is not in :attr:`items` any more.

        :param release: whether it is to be given up then, if we own it; asked
            for twice, only if both times.
        """
        item.release = item.release and release and item.index > 0
        if item.state == STOPPING:
            return
        item.error = ""
        self._enter(item, STOPPING)
        if item.turn is not None:
            item.turn.cancel()
        if not item.touched:
            self._gone(item)
            return
        if item.call is not None:
            item.call.cancel()
        item.stopping = Stopping(
            self._reactor,
            self._runner,
            self._settings,
            item,
            told=self._in_trouble,
            random=self._random,
            log=self._log,
        )
        self._tasks.spawn("stop-work", self._stop_one, item, item.stopping)

    def stop_all(self, *, release: bool) -> None:
        """
        Stop everything.
        """
        for item in tuple(self.items.values()):
            self.stop(item, release=release)

    @inlineCallbacks
    def _stop_one(self, item: Item, stopping: Stopping) -> Steps[None]:
        item.handover = yield stopping.begin()
        self._gone(item)

    def _gone(self, item: Item) -> None:
        self.items.pop(item.id, None)
        stopping = item.stopping
        if stopping is not None and stopping.going_on is not None:
            self._let_linger(item.id, stopping.going_on)
        self._stopped(item)
        self._changed()

    def _let_linger(self, work: str, call: Call) -> None:
        """
        Remember a call that goes on about an item that is gone.
        """

        def ended(_: None) -> None:
            if self._lingering.get(work) is call:
                del self._lingering[work]
            self._attend()

        self._lingering[work] = call
        call.when_ended().addCallback(ended)

    def _in_trouble(self) -> None:
        self._changed()
        self._attend()

    def kill_all(self) -> None:
        """
        Kill what is being stopped, as far as the runner can.
        """
        for item in tuple(self.items.values()):
            if item.stopping is not None:
                item.stopping.kill()

    @inlineCallbacks
    def give_up(self) -> Steps[None]:
        """
        Wait for the runner no more.  What has not stopped stays in
        :attr:`items`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._given_up = True
        yield self._tasks.stop()
