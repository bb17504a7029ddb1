"""
Playing a schedule: the trouble, the recovery, and the exam at the end.

1. Trouble, as the schedule has it.
2. All of it is over at once.  Within the bound of G4 and G7 all must be well:
   one leads, everything runs once and is divided evenly.
3. Quiet: nothing writes (G5).
4. The exam: an item is added, and runs at once; the leader is killed, and
   everything goes on elsewhere; everybody shuts down, and leaves nothing (G8).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

from attrs import frozen
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import implementer

from .laws import Breach
from .recovery import Recovery
from .schedule import Schedule
from .world import World


@frozen
class Outcome:
    """
    What became of a run.

    :ivar schedule: what was played.
    :ivar breach: the first thing that did not hold; ``None`` when all did.
    :ivar world: as it was at the end.
    :ivar standing: who led, and what ran where, when a law was broken.
    :ivar seconds: how long it took, in the world.
    :ivar cost: how long it took the processor, in seconds.
    """

    schedule: Schedule
    breach: Breach | None
    world: World
    seconds: float
    cost: float
    standing: tuple[str, ...] = ()


def play(schedule: Schedule, *, exam: bool = True) -> Outcome:
    """
    Play a schedule.

    :param exam: whether to go on when the trouble is over.
    """
    began = process_time()
    collecting = gc.isenabled()
    gc.disable()
    world = World(schedule)
    breach: Breach | None = None
    standing: tuple[str, ...] = ()
    try:
        with world.history.listening(), _errors_heard(world):
            try:
                world.begin()
                world.run(schedule.trouble)
                if exam:
                    Recovery(world).check()
            except Breach as found:
                breach = found
                standing = tuple(world.standing())
            seconds = world.clock.seconds()
            world.close()
        cost = process_time() - began
        return Outcome(schedule, breach, world, seconds, cost, standing)
    finally:
        if collecting:
            gc.enable()


@contextmanager
def _errors_heard(world: World) -> Iterator[None]:
    """
    Let no error go unheard that nobody handles.
    """

    @implementer(ILogObserver)
    def hear(event: LogEvent) -> None:
        failure: Any = event.get("log_failure")
        if failure is not None:
            world.laws.break_("defect", failure.getTraceback())

    globalLogPublisher.addObserver(hear)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(hear)
