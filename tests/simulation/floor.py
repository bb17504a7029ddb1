"""
The floor on which work really runs: who runs what, whatever anybody believes.

The runner of each process acts on it: starting takes time and may fail, stopping
takes up to nearly the grace; so may making ready, which may also hang.  An item
is on the floor from the call of ``start_work`` until what ``stop_work`` gave has
fired, the item is killed, or its process is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from voltha_coord.condition import Condition
from voltha_coord.interfaces import IRunner
from voltha_coord.records import WorkItem

from .cast import BALANCED

if TYPE_CHECKING:
    from .life import Life

#: Starting takes so many seconds at most …
START_SECONDS = 0.8

#: Making ready does as well, and hangs for so many at times.
HANG_SECONDS = 40.0

#: An item uses little at first, for so many seconds.
GROWING_SECONDS = 3.0

#: … and stopping such a share of the grace.
STOP_SHARE = 0.9


class StartFailed(Exception):
    """
    An item could not be started.
    """


class NotReady(Exception):
    """
    An item could not be made ready.
    """


@define(eq=False)
class Hold:
    """
    One run of an item in one process.

    :ivar stopping: whether it has been told to stop.
    :ivar overslept: whether its process slept through the end of its lease: it
        was told to stop as soon as it woke, which is all one can ask for.
    """

    life: Life
    item: str
    since: float
    stopping: bool = False
    overslept: bool = False


class Floor:
    """
    All that runs.

    :ivar calm: whether nothing fails any more.
    :ivar ready: when each item was made ready on a member last, in seconds of the
        world, by instance id and item.

    :param began: called with each hold that begins.
    """

    def __init__(self, began: Callable[[Hold], None]) -> None:
        self._began = began
        self.calm = False
        self.ready: dict[tuple[str, str], float] = {}
        self._holds: dict[str, dict[Life, Hold]] = {}

    def begin(self, hold: Hold) -> None:
        """
        Let an item run.
        """
        self._holds.setdefault(hold.item, {})[hold.life] = hold
        self._began(hold)

    def find(self, life: Life, item: str) -> Hold | None:
        """
        Give the hold of a process on an item, if it has one.
        """
        return self._holds.get(item, {}).get(life)

    def end(self, hold: Hold) -> None:
        """
        Let an item run no more.
        """
        self._holds[hold.item].pop(hold.life, None)

    def clear(self, life: Life) -> None:
        """
        Let everything of a process be over: it is gone.
        """
        for holds in self._holds.values():
            holds.pop(life, None)

    def of(self, life: Life) -> list[Hold]:
        """
        Give what runs in a process.
        """
        return [holds[life] for holds in self._holds.values() if life in holds]

    def on(self, item: str) -> list[Hold]:
        """
        Give where an item runs.
        """
        return list(self._holds.get(item, {}).values())

    def __iter__(self) -> Iterator[Hold]:
        for holds in self._holds.values():
            yield from holds.values()


@implementer(IRunner)
class FloorRunner:
    """
    Runs the items of one process on the floor.

    :param random: how long things take, and what fails.
    :param fails: how often a start does, as a share.
    :param grace: the seconds in which everything has to stop.
    """

    def __init__(
        self,
        life: Life,
        floor: Floor,
        clock: IReactorTime,
        random: Random,
        *,
        fails: float,
        grace: float,
    ) -> None:
        self._life = life
        self._floor = floor
        self._clock = clock
        self._random = random
        self._fails = fails
        self._grace = grace
        self._ends: dict[Hold, IDelayedCall] = {}
        self._preparing = life.random("preparing")

    def prepare_work(self, item: WorkItem) -> Deferred[None] | None:
        """
        Make it ready, at once, or half a while later; or fail, or hang.
        """
        life, random, calm = self._life, self._preparing, self._floor.calm
        life.note("prepares", item.id)
        seconds = random.choice((0.0, random.uniform(0, START_SECONDS)))
        fails = random.random() < self._fails and not calm
        if random.random() < self._fails and not calm:
            seconds = HANG_SECONDS
        if not seconds and not fails:
            life.made_ready(item.id)
            return None

        def end() -> None:
            if fails:
                done.errback(NotReady(f"{item.id} cannot be made ready"))
            else:
                life.made_ready(item.id)
                done.callback(None)

        timer: IDelayedCall = self._clock.callLater(seconds, end)
        done: Deferred[None] = Deferred(lambda _: timer.cancel())
        return done

    def start_work(self, item: WorkItem, report: bytes | None) -> Deferred[None] | None:
        """
        Let it run, at once, or half a while later; or fail.
        """
        life, random = self._life, self._random
        seconds = random.choice((0.0, random.uniform(0, START_SECONDS)))
        fails = random.random() < self._fails and not self._floor.calm
        life.note("starts", item.id)
        life.world.laws.starts(life, item)
        hold = Hold(life, item.id, self._clock.seconds())
        self._floor.begin(hold)
        if not seconds and not fails:
            return None

        def end() -> None:
            if fails:
                life.note("fails", item.id)
                self._floor.end(hold)
                done.errback(StartFailed(f"{item.id} does not start"))
            else:
                done.callback(None)

        timer: IDelayedCall = self._clock.callLater(seconds, end)
        # Whoever cancels a start stops the item.
        done: Deferred[None] = Deferred(lambda _: timer.cancel())
        return done

    def stop_work(self, item: WorkItem) -> Deferred[None] | None:
        """
        Let it run for a little longer.
        """
        hold = self._floor.find(self._life, item.id)
        self._life.note("stops", item.id)
        if hold is None:
            return None
        hold.stopping = True
        most = STOP_SHARE * self._grace
        seconds = self._random.choice((0.0, self._random.uniform(0, most)))
        if not seconds:
            self._end(hold, "stopped")
            return None
        done: Deferred[None] = Deferred()

        def end() -> None:
            self._end(hold, "stopped")
            done.callback(None)

        self._ends[hold] = self._clock.callLater(seconds, end)
        return done

    def kill_work(self, item: WorkItem) -> None:
        """
        Let it run no more, at this instant.
        """
        hold = self._floor.find(self._life, item.id)
        if hold is not None:
            self._end(hold, "killed")

    def _end(self, hold: Hold, how: str) -> None:
        self._life.note(how, hold.item)
        self._floor.end(hold)
        timer = self._ends.pop(hold, None)
        if timer is not None and timer.active():
            timer.cancel()

    def update_work(self, item: WorkItem) -> None:
        """
        Nothing to change.
        """

    def report(self, item: WorkItem) -> bytes | None:
        """
        Hand over who ran it, or nothing.
        """
        if self._random.random() < 0.5:
            return None
        return self._life.title.encode()

    def usage(self, item: WorkItem) -> Mapping[str, Any]:
        """
        Where that matters every other item shows what it uses: more once it has run
        for a while.
        """
        hold = self._floor.find(self._life, item.id)
        plain = self._life.world.schedule.leader == BALANCED
        if plain or hold is None or item.id[-1] not in "02468":
            return {}
        ran = self._clock.seconds() - hold.since
        return {"cpu": 2.0 if ran < GROWING_SECONDS else 8.0, "memory": 50_000_000}

    def listen(self, changed: Callable[[str], None]) -> None:
        """
        Nothing changes by itself.
        """

    def condition(self, item: WorkItem) -> Condition | None:
        """
        What was started runs.
        """
        return None
