"""
The world of one simulated run: the cluster, the faults, and who looks on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from voltha_coord.consul.transport import Request
from voltha_coord.embedded.state import Agent, Snapshot
from voltha_coord.embedded.timeline import ProcessClock, TimeStandsStill
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster

from .audit import Audit
from .faults.fault import Fault
from .floor import Floor
from .history import History
from .laws import Laws
from .life import Life, Line
from .schedule import Schedule

#: Snapshots of Consul are taken so often, to be restored; in seconds.
SNAPSHOT_SECONDS = 4.0

#: Meanwhile others write so much to Consul; no more once it has gone back, so
#: that it stays behind what everybody has seen.
OTHERS_WRITE = 1000

#: So many things happen at one instant at most.
MOST_AT_ONCE = 3000


@frozen
class Sent:
    """
    A request, who sent it, and as which one.
    """

    request: Request
    life: Life
    number: int


class World(EmbeddedCluster):
    """
    A cluster that a schedule is played on.

    :ivar history: everything that happens.
    :ivar lives: the process of each member that is there, by instance id.
    :ivar floor: what really runs.
    :ivar laws: what must hold.
    :ivar busy: whether others write to Consul as well.
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.seed, Settings())
        self.clock.heap.most_at_once = MOST_AT_ONCE
        self.schedule = schedule
        self.lives: dict[str, Life] = {}
        self.laws = Laws(self)
        self.history = History(self.clock.seconds, self.laws.logged)
        self.floor = Floor(self.laws.began)
        self.audit = Audit(self)
        self.consul.audit = self.audit
        self.coming: Life
        self.busy = True
        self.snapshots: list[tuple[float, Snapshot]] = []
        self._born: dict[str, int] = {}
        self._sent: dict[int, Sent] = {}
        self._numbers = count(1)
        self._healing: dict[int, Callable[[], None]] = {}

    # Requests.

    def _make_transport(self, name: str, agent: Agent, clock: ProcessClock) -> Line:
        return Line(agent, clock, self.coming)

    def sent(self, life: Life, request: Request) -> str:
        """
        Take down that a process sends a request.

        :return: what it is called in the history.
        """
        number = next(self._numbers)
        self._sent[id(request)] = Sent(request, life, number)
        return f"#{number}"

    def number_of(self, request: Request) -> str:
        """
        Give what a request is called in the history.
        """
        return f"#{self._sent[id(request)].number}"

    def sender(self, request: Request | None) -> Sent | None:
        """
        Give which process sent a request; ``None`` for operators.
        """
        return self._sent.get(id(request))

    # Playing.

    def begin(self) -> None:
        """
        Set the schedule going.
        """
        for actor in self.schedule.cast.actors:
            self.clock.callLater(actor.joins, self.start, actor.name)
        for item in self.schedule.cast.work:
            value = self.schedule.cast.values.get(item, "")
            self.by_hand(self.api.put(self.keys.work_item(item), value.encode()))
        for fault in self.schedule.faults:
            self.clock.callLater(fault.at, self._strike, fault)
        if any(fault.kind == "restore" for fault in self.schedule.faults):
            self._take_snapshot()

    def _take_snapshot(self) -> None:
        self.snapshots.append((self.clock.seconds(), self.consul.snapshot()))
        if self.busy:
            self.consul.index += OTHERS_WRITE
        if self.clock.seconds() < self.schedule.trouble:
            self.clock.callLater(SNAPSHOT_SECONDS, self._take_snapshot)

    def _strike(self, fault: Fault) -> None:
        end = fault.strike(self)
        self.history.note("world", "fault", f"{fault.number}:", fault)
        if end is not None:
            self._healing[fault.number] = end
            self.clock.callLater(fault.lasts, self._heal, fault.number)
        self.laws.look_at_all()

    def _heal(self, number: int) -> None:
        end = self._healing.pop(number, None)
        if end is not None:
            self.history.note("world", "over", f"{number}")
            end()
            self.laws.look_at_all()

    def run(self, until: float) -> None:
        """
        Let time pass, looking whether everything holds after each event.

        :raises Violation: when something does not.
        """
        step, laws = self.clock.step, self.laws
        try:
            while (clock := step(until)) is not None:
                laws.look(clock)
        except TimeStandsStill as error:
            laws.break_("rest", f"somebody never comes to rest: {error}")
            laws.demand()

    def calm(self) -> None:
        """
        Let all trouble be over.
        """
        for number in list(self._healing):
            self._heal(number)
        for life in self.lives.values():
            if life.shutting_down_since is None:
                life.member.set_weight(life.actor.weight)
        self.floor.calm = True
        self.consul.reconcile()
        # Where Consul had no leader, it has not been taken back.
        self.by_hand(self.api.delete(self.keys.intent, recurse=True))
        for name in self.schedule.cast.names:
            self.start(name)

    def standing(self) -> Iterator[str]:
        """
        Tell of each process what it believes, and what runs there.
        """
        for life in self.lives.values():
            member = life.member
            token = member.lease.token
            traits = [
                f"leads with token {token}" if member.is_leader else member.role,
                f"lease {member.lease.remaining:.3f} s",
                "" if life.awake else "asleep",
            ]
            holds = " ".join(
                f"{hold.item}{' (stopping)' if hold.stopping else ''}"
                for hold in self.floor.of(life)
            )
            yield f"{life.title:<5} {', '.join(filter(None, traits))}; runs {holds}"

    def close(self) -> None:
        """
        End everything.  The history is over.
        """
        self.history.end()
        for life in list(self.lives.values()):
            self.kill(life)
        super().close()

    # What faults are made of.

    def start(self, name: str) -> None:
        """
        Start the process of a member, if there is none.
        """
        if name not in self.lives:
            self._born[name] = number = self._born.get(name, 0) + 1
            actor = next(a for a in self.schedule.cast.actors if a.name == name)
            life = self.lives[name] = Life(self, actor, number)
            life.begin()
            self.laws.add(life)

    def kill(self, life: Life) -> None:
        """
        Let a process end without a word.
        """
        if not life.gone:
            life.note("is-gone")
            life.gone = True
            del self.lives[life.name]
            self.crash(life.member)
            self.floor.clear(life)
            self.laws.remove(life)

    def stop(self, life: Life) -> Deferred[None]:
        """
        Shut a member down in order; its process ends after that.
        """
        life.note("is-shut-down")
        life.shutting_down_since = life.clock.seconds()

        def over(_: object) -> None:
            if not life.gone:
                self.laws.shut_down(life)
                self.kill(life)

        return life.member.shutdown().addCallback(over)

    def target(self, name: str) -> Life | None:
        """
        Give the process a fault is meant for, if it is there.

        :param name: of a member, or ``leader``.
        """
        if name != "leader":
            return self.lives.get(name)
        leading = (life for life in self.lives.values() if life.member.is_leader)
        return next(leading, None)

    def by_hand(self, done: Deferred[Any]) -> None:
        """
        Let an operator do something; it may fail.
        """

        def failed(failure: Failure) -> None:
            self.history.note("operator", "fails", failure)

        done.addErrback(failed)
