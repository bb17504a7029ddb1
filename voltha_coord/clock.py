"""
Time: a lease clock that no wall-clock step and no sleep can fool, and timers on it.

Twisted's ``reactor.seconds()`` is the wall clock.  A step backwards would hold
every timer back, a step forwards would fire them all at once.  Everything in
this package therefore takes its time from a :class:`SteadyReactor`: an
``IReactorTime`` over the real one whose ``seconds()`` is the lease clock.

# Note [Steps of the wall clock]

A :class:`SteadyReactor` remembers for each timer when it is due on the *lease*
clock.  A timer that the reactor fires too early is armed again; all timers are
armed again by :meth:`SteadyReactor.resync`, which compares the two clocks and
is cheap enough to be called at every wake-up (each answer from Consul).  Where
the reactor itself runs on a monotonic clock, as ``tap`` arranges, neither ever
has anything to do.

A step backwards holds back the timers that would ask Consul, too, so that no
answer may come for half a minute, and the lease be over by then.  So beside a
reactor on the wall clock a thread compares the two (:class:`StepWatch`), and
wakes the reactor when there was a step.

# Note [Machine sleep]

The lease clock is ``CLOCK_BOOTTIME`` where there is one: unlike the monotonic
clock it goes on while the machine sleeps, and Consul's servers do not wait for
us to wake up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Any

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import (
    IDelayedCall,
    IReactorFromThreads,
    IReactorTime,
)
from zope.interface import implementer

#: A difference between the clocks' advances that counts as a step, in seconds.
STEP_SECONDS = 0.25

#: A :class:`StepWatch` looks every so many seconds.
LOOK_SECONDS = 0.25

#: A reactor whose clock is so near to the wall clock is on it.
_WALL_SECONDS = 60.0


def boot_time() -> float:
    """
    Give seconds of a clock that is monotonic and runs on while the machine
    sleeps; where there is none, of the monotonic clock.
    """
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:  # pragma: no cover - other systems than Linux
        return time.monotonic()
    return time.clock_gettime(boottime)


class StepWatch:
    """
    A thread that notices when the wall clock is set; see Note [Steps of the wall
    clock].

    :param stepped: called in that thread after each step.
    :param wall: the wall clock, in seconds.
    :param now: a clock that nobody sets, in seconds.
    :param interval: between two looks, in seconds.
    """

    def __init__(
        self,
        stepped: Callable[[], object],
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = boot_time,
        interval: float = LOOK_SECONDS,
    ) -> None:
        self._stepped = stepped
        self._wall = wall
        self._now = now
        self._interval = interval
        self._ended = Event()

    def start(self) -> None:
        """
        Begin to look.  The thread keeps no process alive.
        """
        Thread(target=self._run, name="wall-clock", daemon=True).start()

    def stop(self) -> None:
        """
        Look no more; at once, whether it was started or not.
        """
        self._ended.set()

    def _run(self) -> None:
        offset = self._wall() - self._now()
        while not self._ended.wait(self._interval):
            # That the clock is slewed, a little at a time, is no step.
            before, offset = offset, self._wall() - self._now()
            if abs(offset - before) >= STEP_SECONDS:
                self._stepped()


@implementer(IDelayedCall)
class _SteadyCall:
    """
    A timer that is due on the lease clock, whatever the reactor's clock does.
    """

    def __init__(
        self, owner: SteadyReactor, due: float, call: Callable[[], None]
    ) -> None:
        self._owner = owner
        self._due = due
        self._call = call
        self._inner: IDelayedCall | None = None
        self._cancelled = False
        self.arm()

    def arm(self) -> None:
        """
        Wait on the reactor for what is left on the lease clock.
        """
        if self._inner is not None and self._inner.active():
            self._inner.cancel()
        left = max(0.0, self._due - self._owner.seconds())
        self._inner = self._owner.reactor.callLater(left, self._fire)

    def _fire(self) -> None:
        if self._due - self._owner.seconds() > 1e-6:
            self.arm()
            return
        self._owner.forget(self)
        self._call()

    def _must_be_active(self) -> None:
        if self._cancelled:
            raise AlreadyCancelled
        if not self.active():
            raise AlreadyCalled

    def active(self) -> bool:
        """
        Whether it is still to be called.
        """
        return self._owner.remembers(self)

    def cancel(self) -> None:
        """
        Do not call.

        :raises AlreadyCalled, AlreadyCancelled: as every ``IDelayedCall``.
        """
        self._must_be_active()
        assert self._inner is not None
        self._cancelled = True
        self._owner.forget(self)
        self._inner.cancel()

    def getTime(self) -> float:
        """
        When it is due, on the lease clock.
        """
        return self._due

    def delay(self, secondsLater: float) -> None:
        """
        Call that much later than planned.

        :raises AlreadyCalled, AlreadyCancelled: as every ``IDelayedCall``.
        """
        self._must_be_active()
        self._due += secondsLater
        self.arm()

    def reset(self, secondsFromNow: float) -> None:
        """
        Call that long from now instead.

        :raises AlreadyCalled, AlreadyCancelled: as every ``IDelayedCall``.
        """
        self._must_be_active()
        self._due = self._owner.seconds() + secondsFromNow
        self.arm()


@implementer(IReactorTime)
class SteadyReactor:
    """
    An ``IReactorTime`` on the lease clock; see Note [Steps of the wall clock].

    :param reactor: the reactor that does the waiting.
    :param now: the lease clock, in seconds; ``None`` takes the reactor's own
        ``seconds``, for a reactor whose clock is steady already (a ``Clock``).
    :param on_step: called with the seconds of a step when one is noticed,
        positive when the reactor's clock went ahead of the lease clock.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        now: Callable[[], float] | None = None,
        on_step: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.reactor = reactor
        self._now = reactor.seconds if now is None else now
        self._on_step = on_step
        self._calls: dict[_SteadyCall, None] = {}
        self._offset = self._measure()
        self._watch: StepWatch | None = None

    def _measure(self) -> float:
        return self.reactor.seconds() - self._now()

    def seconds(self) -> float:
        """
        Give the lease clock.
        """
        return self._now()

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: object, **kw: object
    ) -> IDelayedCall:
        """
        Call ``callable`` after ``delay`` seconds of the lease clock.
        """
        assert delay >= 0, f"negative delay {delay}"
        call = _SteadyCall(self, self.seconds() + delay, lambda: callable(*args, **kw))
        self._calls[call] = None
        return call

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        """
        Give the timers that are still to fire.
        """
        return tuple(self._calls)

    def remembers(self, call: _SteadyCall) -> bool:
        """
        Whether that timer is still to fire.
        """
        return call in self._calls

    def forget(self, call: _SteadyCall) -> None:
        """
        Take a timer off the list.
        """
        self._calls.pop(call, None)

    def watch(
        self, make: Callable[[Callable[[], object]], StepWatch] = StepWatch
    ) -> None:
        """
        Notice steps though no answer comes, until :meth:`unwatch`; where the
        reactor is not on the wall clock there is nothing to notice.

        :param make: makes what notices.
        """
        reactor: Any = self.reactor
        threads = IReactorFromThreads.providedBy(reactor)
        if threads and abs(reactor.seconds() - time.time()) < _WALL_SECONDS:
            self._watch = make(lambda: reactor.callFromThread(self.resync))
            self._watch.start()

    def unwatch(self) -> None:
        """
        End what :meth:`watch` began, if it did.
        """
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def resync(self) -> None:
        """
        Notice a step of the reactor's clock, and arm every timer again if
        there was one.
        """
        offset = self._measure()
        step = offset - self._offset
        if abs(step) < STEP_SECONDS:
            return
        self._offset = offset
        for call in tuple(self._calls):
            call.arm()
        self._on_step(step)
