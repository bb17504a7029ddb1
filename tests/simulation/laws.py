"""
What must hold at every instant, and the first breach of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from voltha_coord.embedded.timeline import ProcessClock
from voltha_coord.records import STOP, WorkItem

if TYPE_CHECKING:
    from .floor import Hold
    from .life import Life
    from .world import World

#: Logged by a member only if something is wrong with the program itself.
DEFECTS = frozenset(
    {
        "task-failed",
        "watch-died",
        "watch-observer-failed",
        "session-loop-failed",
        "shutdown-failed",
        "listener-failed",
        "leader-not-made",
        "leader-not-halted",
    }
)

#: What holds of placing by resources; see :mod:`.placing`.
PLACING = ("kept", "moves")

#: For so many session TTLs after a disaster some guarantees are off.
DISASTER_TTLS = 3.0


@frozen
class Breach(Exception):
    """
    Something does not hold.

    :ivar at: when that was seen.
    :ivar law: which guarantee it is.
    :ivar what: in words.
    """

    at: float
    law: str
    what: str

    def __str__(self) -> str:
        return f"{self.law} at {self.at:.3f} s: {self.what}"


class Laws:
    """
    Looks whether everything holds, at every instant.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_clock: dict[ProcessClock, Life] = {}
        self._broken: Breach | None = None
        self._off_until = -1.0

    def add(self, life: Life) -> None:
        """
        A process has begun.
        """
        self._by_clock[life.clock] = life

    def remove(self, life: Life) -> None:
        """
        A process is gone.
        """
        self._by_clock.pop(life.clock, None)

    # Breaches.

    def disaster(self) -> None:
        """
        Consul has lost its memory, or some of it: what rests on it is off for a
        while.
        """
        cast = self._world.schedule.cast
        ttl = max(cast.settings_of(actor).session_ttl for actor in cast.actors)
        self._off_until = self._world.clock.seconds() + DISASTER_TTLS * ttl
        self._world.audit.forget()

    def break_(self, law: str, what: str) -> None:
        """
        Something does not hold: the first time is what counts.
        """
        if self._off and law in ("G1", "G2", "G3", "tokens", *PLACING):
            self._world.history.note("world", "excused", law, what)
            return
        if self._broken is None:
            self._broken = Breach(self._world.clock.seconds(), law, what)
            self._world.history.note("world", "BREACH", law, what)

    @property
    def _off(self) -> bool:
        return self._world.clock.seconds() < self._off_until

    def demand(self) -> None:
        """
        Let a breach be known.

        :raises Breach: if there is one.
        """
        if self._broken is not None:
            raise self._broken

    # Looking.

    def look(self, clock: ProcessClock) -> None:
        """
        Something has happened on that clock.

        :raises Breach: when something does not hold.
        """
        life = self._by_clock.get(clock)
        if life is not None:
            self._look_at(life)
        if self._broken is not None:
            raise self._broken

    def look_at_all(self) -> None:
        """
        Something may have happened to anybody.
        """
        for life in self._world.lives.values():
            self._look_at(life)

    def _look_at(self, life: Life) -> None:
        if life.pauses or not life.member.is_leader:
            return
        for other in self._world.lives.values():
            if other is not life and other.awake and other.member.is_leader:
                self.break_("G1", f"{other} and {life} lead")

    def began(self, hold: Hold) -> None:
        """
        An item begins to run, or counts again.
        """
        for other in self._world.floor.on(hold.item):
            if other is not hold and other.life.awake and not other.overslept:
                self.break_("G3", f"{other.life} and {hold.life} run {hold.item}")

    def starts(self, life: Life, item: WorkItem) -> None:
        """
        A process is about to start an item: its order has to allow that, and it
        has to own the item.
        """
        if item.order == STOP:
            self.break_("orders", f"{life} starts {item.id}, which is to be stopped")
        owner = self._world.audit.owner(item.id)
        if owner is None or owner.session not in life.sessions:
            self.break_("G3", f"{life} starts {item.id}, which it does not own")

    def woken(self, life: Life) -> None:
        """
        A process goes on: once it has taken what was due, whatever it still
        runs counts again.
        """
        self._world.clock.callLater(0, self._awake_again, life)

    def _awake_again(self, life: Life) -> None:
        if not life.awake:
            return
        for hold in self._world.floor.of(life):
            hold.overslept = not life.may_act
            if not hold.overslept:
                self.began(hold)
            elif not hold.stopping:
                self.break_("G3", f"{life} does not stop {hold.item} on waking")

    def shut_down(self, life: Life) -> None:
        """
        A member has shut down, and its process is about to end (G8).
        """
        timers = life.clock.getDelayedCalls()
        requests = life.process.transport.under_way
        if timers or requests:
            self.break_(
                "G8", f"{life} leaves {len(timers)} timers, {requests} requests behind"
            )

    def logged(self, who: str, event: str, fields: Mapping[str, Any]) -> None:
        """
        A member has logged something.
        """
        if event in DEFECTS or fields.get("raised"):
            self.break_("defect", f"{who} logs {event}: {fields}")
