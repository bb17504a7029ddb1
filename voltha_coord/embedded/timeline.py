"""
Virtual time: one timeline, and the clocks of the processes that live on it.

Time jumps from one timer to the next; nothing is looked at in between.  All
timers of all processes lie on one heap, so that what happens, and in which
order, is decided by their times alone, and for equal times by which was set
first.

# Note [Processes]

A process has a clock of its own, which may run a little fast or slow, and it
can stand still: what would have been called meanwhile is called when it goes
on.  What travels between it and the world takes the world's time, not its own:
a request that was sent arrives though its sender stands still, and an answer
waits at its door.  Going on, a process finds answers and overdue timers at
once; in a real one either may come first, so that is asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

#: So many things happen at one instant at most, unless something goes round in
#: circles.
MOST_AT_ONCE = 1_000_000

#: What a timer that waits for nothing has in place of its number.
_CALLED, _CANCELLED = -1, -2


class TimeStandsStill(Exception):
    """
    At one instant ever more is called: time does not go on.
    """


@implementer(IDelayedCall)
class _Timer:
    """
    Something that is to be called.

    :ivar due: when, on the clock it was set on.
    :ivar when: when, on the timeline.
    :ivar number: of its one valid entry in the heap; entries with another
        number are left over from before, and mean nothing.
    :ivar arriving: whether it comes from outside the process.
    """

    __slots__ = (
        "args",
        "arriving",
        "call",
        "clock",
        "due",
        "kw",
        "number",
        "when",
    )

    def __init__(
        self,
        clock: ProcessClock,
        due: float,
        when: float,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kw: dict[str, Any],
        arriving: bool,
    ) -> None:
        self.clock = clock
        self.due = due
        self.when = when
        self.call = call
        self.args = args
        self.kw = kw
        self.arriving = arriving
        self.number = 0

    def active(self) -> bool:
        """
        Whether it is still to be called.
        """
        return self.number >= 0

    def _must_be_active(self) -> None:
        if self.number == _CANCELLED:
            raise AlreadyCancelled
        if self.number == _CALLED:
            raise AlreadyCalled

    def cancel(self) -> None:
        """
        Do not call.

        :raises AlreadyCalled, AlreadyCancelled: as every ``IDelayedCall``.
        """
        if self.number < 0:
            self._must_be_active()
        self.number = _CANCELLED

    def getTime(self) -> float:
        """
        When it is due, on its clock.
        """
        return self.due

    def delay(self, secondsLater: float) -> None:
        """
        Call that much later than planned.

        :raises AlreadyCalled, AlreadyCancelled: as every ``IDelayedCall``.
        """
        self._must_be_active()
        self.clock.put_off(self, self.due + secondsLater)

    def reset(self, secondsFromNow: float) -> None:
        """
        Call that long from now instead.

        :raises AlreadyCalled, AlreadyCancelled: as every ``IDelayedCall``.
        """
        self._must_be_active()
        self.clock.put_off(self, self.clock.seconds() + secondsFromNow)


#: Where a timer lies on the heap: when, its number, itself.
_Entry = tuple[float, int, _Timer]


class _Heap:
    """
    All timers of a timeline; those that were cancelled are thrown out when
    their time comes.

    :ivar outside: the clock of what is in no process.
    :ivar most_at_once: so many things may happen at one instant.
    """

    outside: ProcessClock

    def __init__(self, now: float, numbers: int = 0) -> None:
        self.now = now
        self.entries: list[_Entry] = []
        self.numbers = numbers
        self.most_at_once = MOST_AT_ONCE
        self._at_once = 0

    def push(self, timer: _Timer) -> None:
        """
        Let a timer wait for its time.
        """
        self.numbers = timer.number = self.numbers + 1
        heapq.heappush(self.entries, (timer.when, timer.number, timer))

    def step(self, until: float) -> ProcessClock | None:
        """
        Call the next timer that is due, and say on which clock it was.

        :return: ``None`` when nothing more is due by that time; then it is
            that time.
        :raises TimeStandsStill: when it never comes.
        """
        entries = self.entries
        while entries:
            when, number, timer = entries[0]
            if timer.number != number:
                heapq.heappop(entries)
                continue
            if when > until:
                break
            heapq.heappop(entries)
            if timer.when > when:
                # Put off since; where it lay does not matter to the new place.
                self.push(timer)
                continue
            self._reach(when)
            clock = timer.clock
            if clock.paused:
                clock.hold(timer)
                continue
            timer.number = _CALLED
            # Its clock shows no less, whatever was lost in rounding.
            if timer.due > clock.shown:
                clock.shown = timer.due
            timer.call(*timer.args, **timer.kw)
            return clock
        self._reach(until)
        return None

    def _reach(self, when: float) -> None:
        if when > self.now:
            self.now = when
            self._at_once = 0
            return
        self._at_once += 1
        if self._at_once > self.most_at_once:
            # Should anybody go on all the same, it is said again after as many.
            self._at_once = 0
            raise TimeStandsStill(f"at {self.now} s")


@implementer(IReactorTime)
class ProcessClock:
    """
    The clock of one process; see Note [Processes].

    :ivar rate: how fast it runs; the timeline runs at 1.
    :ivar paused: whether the process stands still.
    :ivar shown: what it showed when somebody last looked.
    """

    def __init__(
        self, heap: _Heap, rate: float = 1.0, now: float | None = None
    ) -> None:
        self._heap = heap
        self.rate = rate
        self.paused = False
        self._held: list[_Timer] = []
        self.shown = heap.now if now is None else now
        self._ahead = self.shown - heap.now * rate
        self._read_at = heap.now

    def seconds(self) -> float:
        """
        Give the time on this clock.
        """
        world = self._heap.now
        if world != self._read_at:
            self._read_at = world
            mine = world * self.rate + self._ahead
            if mine > self.shown:
                self.shown = mine
        return self.shown

    def skip(self, seconds: float) -> None:
        """
        Let it be so much later on this clock alone, and call nothing: the
        process has not come round to it.
        """
        self._ahead += seconds
        self.shown = self.seconds() + seconds

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> IDelayedCall:
        """
        Call after so many seconds of this clock.
        """
        assert delay >= 0, f"negative delay {delay}"
        due = self.seconds() + delay
        timer = _Timer(self, due, self._world(due), callable, args, kw, False)
        self._heap.push(timer)
        return timer

    def leave_later(self, seconds: float, call: Callable[[], Any]) -> IDelayedCall:
        """
        Let something happen outside after so many seconds of the world,
        whatever becomes of the process meanwhile.
        """
        return self._heap.outside.callLater(seconds, call)

    def arrive_later(self, seconds: float, call: Callable[[], Any]) -> IDelayedCall:
        """
        Let something arrive from outside after so many seconds of the world.
        """
        when = self._heap.now + seconds
        timer = _Timer(self, when * self.rate + self._ahead, when, call, (), {}, True)
        self._heap.push(timer)
        return timer

    def _world(self, due: float) -> float:
        if self.rate == 1.0:
            return due - self._ahead
        return (due - self._ahead) / self.rate

    def put_off(self, timer: _Timer, due: float) -> None:
        """
        Let a timer be called at another time.
        """
        when = self._world(due)
        timer.due = due
        earlier, timer.when = when < timer.when, when
        # A later one goes on when its old time comes; while the process stands
        # still that may never be, as it is not on the heap.
        if earlier or timer in self._held:
            if timer in self._held:
                self._held.remove(timer)
            self._heap.push(timer)

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        """
        Give what is still to be called.
        """
        return [timer for timer in self._timers() if not timer.arriving]

    def _timers(self) -> list[_Timer]:
        on_heap = [
            timer
            for _, number, timer in sorted(self._heap.entries)
            if timer.clock is self and timer.number == number
        ]
        return [*(timer for timer in self._held if timer.active()), *on_heap]

    # Standing still.

    def pause(self) -> None:
        """
        Let the process stand still, as SIGSTOP does.
        """
        self.paused = True

    def hold(self, timer: _Timer) -> None:
        """
        Keep something for when the process goes on.
        """
        self._held.append(timer)

    def resume(self, arrivals_first: bool = False) -> None:
        """
        Let the process go on: what it missed is called now, in the order it
        was due.

        :param arrivals_first: whether all that arrived meanwhile comes before
            the timers.
        """
        self.paused = False
        held, self._held = self._held, []
        if arrivals_first:
            held.sort(key=lambda timer: not timer.arriving)
        for timer in held:
            if timer.active():
                timer.when = self._heap.now
                self._heap.push(timer)

    def die(self) -> Timeline:
        """
        Let the process be gone: nothing of it is ever called.

        :return: a timeline of its own, on which what it had set can be called
            all the same.
        """
        timers = self._timers()
        self._held = []
        # Numbers go on, so that no entry on the old heap is valid any more.
        afterlife = Timeline(self._heap.now, self._heap.numbers)
        afterlife.heap.most_at_once = self._heap.most_at_once
        self._heap = afterlife.heap
        self.paused = False
        for timer in timers:
            self._heap.push(timer)
        return afterlife


class Timeline(ProcessClock):
    """
    The time of the world, and the clock of what runs at that rate.
    """

    def __init__(self, now: float = 0.0, numbers: int = 0) -> None:
        self.heap = _Heap(now, numbers)
        super().__init__(self.heap)
        self.heap.outside = self

    def process(self, rate: float = 1.0, now: float | None = None) -> ProcessClock:
        """
        Give the clock of a new process.

        :param now: what it shows now; by default the time of the world.
        """
        return ProcessClock(self.heap, rate, now)

    def step(self, until: float) -> ProcessClock | None:
        """
        Let one thing happen, the next one.

        :return: the clock of the process it happened to; ``None`` when nothing
            is to happen by that time.  Then it is that time.
        """
        return self.heap.step(until)

    def advance(self, seconds: float) -> None:
        """
        Let so much time pass.
        """
        until = self.heap.now + seconds
        while self.heap.step(until) is not None:
            pass
