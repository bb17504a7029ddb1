"""
The items that are here: to be run, made ready, changed, stopped.

What the runner is asked about one, and when, is told in Note [One call at a time]
of :mod:`~voltha_coord.attempts`; how it is stopped, in
:mod:`~voltha_coord.stopping`.

# Note [Stops stand in no line]

A stop waits for no turn.  It cancels what is under way about its item; an item
the runner was never asked about is simply gone.  A ``stop_work`` may go on
although its item was killed; should the item come back here, its start waits for
that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks
from ._types import Steps
from .attempts import Attempts
from .call import Call
from .faring import Faring
from .interfaces import IRunner
from .isolation import Rights
from .item import FAILED, PREPARED, STATES, STOPPED, STOPPING, WAITING, Item
from .orders import Demand, demand
from .records import PREPARE, RUN, WorkItem
from .settings import Settings
from .stopping import Stopping


class RunningItems:
    """
    Has the runner run items; see the head of the module.

    :param rights: for how long items may run.
    :param may_begin: whether an item may be started, or made ready, now.
    :param stopped: told of each item that has stopped, and of those that stay here
        all the same.
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
        self._stopped = stopped
        self._changed = changed
        self._attend = attend
        self._wall_clock = wall_clock
        self._random = random
        self._log = log
        self._tasks = Tasks(log)
        #: Every item that is here, by work id.
        self.items: dict[str, Item] = {}
        self._faring = Faring(
            runner, self.items, changed=changed, attend=attend, log=log
        )
        self._attempts = Attempts(
            reactor,
            runner,
            settings,
            order=self._heed_order,
            ask=self._faring.ask,
            may_begin=may_begin,
            changed=changed,
            attend=attend,
            wall_clock=wall_clock,
            random=random,
            log=log,
        )
        self._lingering: dict[str, Call] = {}

    def listen(self) -> None:
        """
        Ask the runner to say when items change by themselves, from now on.
        """
        self._faring.listen()

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
        How many items are in each state, as reports call it; those that have
        come to grief by themselves have failed.
        """
        counts = Counter(
            FAILED if item.condition and item.condition.error else item.shown_state
            for item in self.items.values()
        )
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
            self._wait_for(item, before)
        if not item.since:
            item.since = self._wall_clock()
        self._attempts.see_to(item)
        self._changed()

    def _wait_for(self, item: Item, call: Call) -> None:
        item.call = call
        item.error = "an earlier call of the runner goes on"

    def change(
        self, item: Item, description: WorkItem | None, restart: int = 0
    ) -> None:
        """
        Go on with a changed description; one that says the same is none.

        :param restart: start it anew if this is another number than it was asked
            with last; 0 asks for nothing.
        """
        news = False
        if description is not None and description != item.newest:
            item.wanted, news = description, True
        if restart and restart != item.restart:
            item.restart, news = restart, True
        if news:
            # Whatever failed may do so no more.
            item.retry_at = 0.0
            self._attempts.see_to(item)

    def _heed_order(self, item: Item) -> None:
        """
        Do what an item's order asks for at once.
        """
        asked = demand(item)
        if asked is Demand.STOP:
            item.stays = True
            self._begin_to_stop(item)
        elif asked is Demand.WAIT:
            self._be(item, WAITING)
            if item.busy:
                item.error = "an earlier call of the runner goes on"
        elif asked is not Demand.NOTHING:
            if item.turn is not None:
                item.turn.cancel()
            item.told(item.newest)
            item.heeded = item.restart
            self._be(item, STOPPED if asked is Demand.REST else PREPARED)

    def _be(self, item: Item, state: str) -> None:
        """
        Let an item be in a state in which nothing is the matter with it.
        """
        item.error, item.backoff, item.retry_at = "", None, 0.0
        item.enter(state, self._wall_clock())
        self._in_trouble()

    def try_again(self) -> float | None:
        """
        Do what is due again.

        :return: the seconds until the next item is, ``None`` for none.
        """
        return self._attempts.see_to_all(tuple(self.items.values()))

    # Stopping.

    def stop(self, item: Item, *, release: bool) -> None:
        """
        Stop an item that is not to be here any more.  Once it has stopped it is
        not in :attr:`items`.

        :param release: whether it is to be given up then, if we own it; asked
            for twice, only if both times.
        """
        item.release = item.release and release and item.index > 0
        item.stays = False
        if item.state != STOPPING:
            self._begin_to_stop(item)

    def _begin_to_stop(self, item: Item) -> None:
        item.error, item.condition = "", None
        item.enter(STOPPING, self._wall_clock())
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
        given = yield stopping.begin()
        if given is not None:
            item.handover = given
        if stopping.going_on is not None:
            self._let_linger(item.id, stopping.going_on)
        if item.stays:
            self._rest(item, stopping.going_on)
        else:
            self._gone(item)

    def _rest(self, item: Item, going_on: Call | None) -> None:
        """
        Go on with an item that has stopped and stays here.
        """
        item.stopping, item.call = None, going_on
        self._stopped(item)
        item.stays = item.touched = item.begun = False
        self._be(item, STOPPED)
        self._attempts.see_to(item)

    def _gone(self, item: Item) -> None:
        self.items.pop(item.id, None)
        self._stopped(item)
        self._changed()

    def _let_linger(self, work: str, call: Call) -> None:
        """
        Remember a call that goes on about an item that is gone.
        """
        self._lingering[work] = call
        self._tasks.spawn("wait-for-last-call", self._see_out, work, call)

    @inlineCallbacks
    def _see_out(self, work: str, call: Call) -> Steps[None]:
        yield call.when_ended()
        if self._lingering.get(work) is call:
            del self._lingering[work]
        self._attend()

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
        yield self._attempts.stop()
        yield self._tasks.stop()
