"""
After the trouble: is all well again, within the bounds, and does it stay so?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from voltha_coord.planning.limits import read_limits
from voltha_coord.records import STOP, Member, WorkItem
from voltha_coord.settings import CONSUL_TTL_MULTIPLIER
from voltha_coord.succession import CLOCK_RATE_MARGIN
from voltha_coord.testing import FixedMeter

from .audit import read_term
from .cast import BALANCED, item_value

if TYPE_CHECKING:
    from .life import Life
    from .world import World

#: Beyond what the settings ask for, everything takes so many seconds at most.
MARGIN = 2.0

#: How long nothing must be written, in seconds.
QUIET_SECONDS = 4.0

#: How often one looks whether it is so by now, in seconds.
LOOK_SECONDS = 0.1

#: In no more seconds does everybody shut down while Consul answers.
SHUTDOWN_SECONDS = 4.0

#: What is added in the exam.
EXTRA = "extra"


class Recovery:
    """
    Looks whether all is well again.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        cast = world.schedule.cast
        settings = [cast.settings_of(actor) for actor in cast.actors]
        self._ttl = max(one.session_ttl for one in settings)
        self._lock_delay = max(one.lock_delay for one in settings)
        self._soak = max(one.soak + one.worker_soak for one in settings)
        self._departed = max(one.departed_soak + one.worker_soak for one in settings)
        # A blocking query whose answer was lost is given up so late.
        self._patience = max(
            max(one.watch_deadline, one.command_timeout) for one in settings
        )
        # Who leads clears up at its next look at everything.
        self._resync = max(one.resync_interval for one in settings)
        # Who plans by resources waits for members that are gone, and for moves to
        # be prepared, and looks again after so many seconds.
        self._placing = world.schedule.leader != BALANCED
        self._kept = self._moves = 0.0
        if self._placing:
            sync = max(one.sync_interval for one in settings)
            self._kept = max(one.node_recover_timeout for one in settings) + sync
            self._moves = max(one.move_timeout for one in settings) + sync
        self._calm = 0.0
        self._detection = max(one.detection_bound for one in settings)

    def check(self) -> None:
        """
        Look through all of it; see the head of :mod:`~tests.simulation.play`.

        :raises Breach: when something does not hold.
        """
        world = self._world
        world.history.note("world", "calm")
        self._calm = world.clock.seconds()
        world.calm()
        # A session may have been made without a check, and its maker be gone.
        ends = (
            CONSUL_TTL_MULTIPLIER + CLOCK_RATE_MARGIN
        ) * self._ttl + self._lock_delay
        # And a watch may have been left without an answer at the very end.
        bound = max(ends, self._patience) + self._soak + MARGIN
        bound += self._kept + self._moves
        self._within("G7", bound, self._well)
        world.history.note("world", "recovered")
        self._be_quiet()
        self._add_work()
        self._kill_the_leader()
        self._shut_down()

    def _within(
        self, law: str, seconds: float, wrong: Callable[[], str | None]
    ) -> None:
        """
        Let time pass until nothing is wrong.
        """
        world = self._world
        end = world.clock.seconds() + seconds
        while (what := wrong()) is not None:
            if world.clock.seconds() >= end:
                world.laws.break_(law, f"{what}, {seconds:g} s later")
                world.laws.demand()
            world.run(world.clock.seconds() + LOOK_SECONDS)

    # Is all well?

    def _well(self) -> str | None:
        """
        Say what is wrong.
        """
        lives = list(self._world.lives.values())
        leaders = [life for life in lives if life.member.is_leader]
        if len(leaders) != 1:
            waiting = {str(life): life.member.status()["waiting_for"] for life in lives}
            return f"{len(leaders)} lead: {waiting}"
        if self._placing:
            return self._misplaced()
        return self._misplaced() or self._uneven(lives)

    def _misplaced(self) -> str | None:
        """
        Say which item does not run where it should.
        """
        world = self._world
        start = len(world.keys.work)
        wanted, placed = [], []
        for entry in world.consul.kv.walk(world.keys.work):
            item = WorkItem.from_value(entry.key[start:], entry.value)
            wanted.append(item.id)
            owned = world.consul.kv.get(world.keys.owner(item.id)) is not None
            if owned or not self._placing or _can_be_placed(item):
                placed.append(item.id)
            if (wrong := self._wrong(item, item.id in placed)) is not None:
                return wrong
        for hold in world.floor:
            if hold.item not in wanted:
                return f"{hold.item} runs on {hold.life}, and is no work"
        told = {
            "assignments": list(self._assigned(placed)),
            "owners": [
                entry.key.rpartition("/")[2]
                for entry in world.consul.kv.walk(world.keys.owners)
            ],
        }
        for name, items in told.items():
            if sorted(items) != placed:
                return f"{name}/ has {sorted(items)} in place of {placed}"
        return None

    def _assigned(self, placed: list[str]) -> Iterator[str]:
        """
        Give what is assigned.  What has no place any more may still be assigned to
        a member that is gone, should that come back.
        """
        world = self._world
        start = len(world.keys.assignments)
        for entry in world.consul.kv.walk(world.keys.assignments):
            member, _, item = entry.key[start:].partition("/")
            if item in placed or member in world.lives or not self._placing:
                yield item

    def _wrong(self, item: WorkItem, placed: bool) -> str | None:
        """
        Say what is wrong with an item.

        :param placed: whether it has a place.
        """
        holds = self._world.floor.on(item.id)
        most = 1 if not self._placing or item.order != STOP else 0
        if len(holds) != (most if placed else 0):
            return f"{item.id} runs {len(holds)} times"
        for hold in holds:
            if item.id not in hold.life.member.worker.my_workload:
                return f"{item.id} runs on {hold.life}, which does not know"
        if self._placing and placed and item.force and not _problem(item):
            return f"{item.id} is still to be started anew"
        return None

    def _uneven(self, lives: list[Life]) -> str | None:
        """
        Say who has too much and who too little (G5).
        """
        weights = {}
        for life in lives:
            entry = self._world.consul.kv.get(self._world.keys.member(life.name))
            if entry is None:
                return f"{life} is no member"
            weights[life.name] = Member.from_entry(entry, self._world.keys).weight
            if weights[life.name] != life.actor.weight:
                return f"{life} has not told its weight"
        counts = {life.name: len(self._world.floor.of(life)) for life in lives}
        for one, count in counts.items():
            for other in counts:
                room = (1 / weights[one] + 1 / weights[other]) / 2
                more = count / weights[one] - counts[other] / weights[other]
                if more > room + 1e-9:
                    return f"{one} has too much beside {other}: {counts}"
        return None

    # Quiet.

    def _be_quiet(self) -> None:
        world = self._world
        # Reports and errors are told a little later; and what was lost in the
        # trouble is noticed, and sent again, once it is given up.
        cleared_up = world.clock.seconds() + self._resync
        world.run(max(cleared_up, self._calm + self._patience) + 3.0)
        index, count = world.consul.kv.index, len(world.history)
        world.run(world.clock.seconds() + QUIET_SECONDS)
        if world.consul.kv.index != index:
            written = [
                happening.text
                for happening in list(world.history)[count:]
                if happening.what == "applies"
            ]
            world.laws.break_("G5", f"written though nothing changes: {written[:3]}")
        elif self._placing and (what := self._said_wrongly()):
            world.laws.break_("told", what)
        world.laws.demand()

    def _said_wrongly(self) -> str | None:
        """
        Say what is told to be wrong, and is not.
        """
        world, keys = self._world, self._world.keys
        for entry in world.consul.kv.walk(keys.errors):
            name = entry.key[len(keys.errors) :]
            work = world.consul.kv.get(keys.work_item(name))
            item = WorkItem.from_value(name, b"" if work is None else work.value)
            if world.floor.on(name) and not _problem(item):
                return f"{name} runs, and {entry.key} says {entry.value!r}"
        for name in world.lives:
            if world.consul.kv.get(keys.lost_member(name)) is not None:
                return f"{name} is there, and is told to be lost"
        return None

    # The exam.

    def _add_work(self) -> None:
        """
        Work that is added runs soon (G4): nobody is left waiting in vain.
        """
        world = self._world
        world.history.note("world", "adds-work")
        value = item_value(world.schedule.random("extra")) if self._placing else ""
        world.by_hand(world.api.put(world.keys.work_item(EXTRA), value.encode()))

        def wrong() -> str | None:
            return None if world.floor.on(EXTRA) else f"{EXTRA} does not run"

        world.run(world.clock.seconds() + 0.1)
        self._within("G4", self._soak + MARGIN + self._succession(), wrong)

    def _succession(self) -> float:
        """
        Give the seconds that a new leader has to wait since somebody wrote over
        the term record, which nobody notices before it is written.
        """
        entry = self._world.consul.kv.get(self._world.keys.term)
        return (
            0.0 if entry is None or read_term(entry) else CLOCK_RATE_MARGIN * self._ttl
        )

    def _kill_the_leader(self) -> None:
        """
        When the leader is killed, all its work soon runs elsewhere (G4).
        """
        world = self._world
        leader = world.target("leader")
        if leader is None:
            world.laws.break_("G7", "nobody leads")
            world.laws.demand()
            return
        heirs = [life for life in world.lives.values() if life.actor.can_lead]
        slow = leader.member.session.liveness == "ttl"
        if len(heirs) < 2 or slow:
            # Its death would be noticed after twice the TTL only.
            return
        world.kill(leader)
        self._within(
            "G4",
            self._detection
            + self._lock_delay
            + self._soak
            + MARGIN
            + self._kept
            + self._succession(),
            self._well,
        )

    def _shut_down(self) -> None:
        """
        Everybody shuts down in order, and leaves nothing behind (G8).
        """
        world = self._world
        random = world.schedule.random("exam")
        lives = list(world.lives.values())
        random.shuffle(lives)
        for life in lives:
            world.stop(life)
            world.run(world.clock.seconds() + random.choice((0.0, 0.0, 0.05, 1.0)))

        def wrong() -> str | None:
            left = ", ".join(map(str, world.lives.values()))
            return f"{left} still there" if left else None

        self._within("G8", SHUTDOWN_SECONDS, wrong)
        keys = world.keys
        left = [
            entry.key
            for prefix in (keys.leader, keys.members, keys.owners, keys.statuses)
            for entry in world.consul.kv.walk(prefix)
        ]
        if left:
            world.laws.break_("G8", f"left behind: {left}")
            world.laws.demand()


def _problem(item: WorkItem) -> str | None:
    """
    Say why an item cannot be deployed as it is.
    """
    return item.problem or read_limits(item.limits)[1]


def _can_be_placed(item: WorkItem) -> bool:
    """
    Whether an item says what it may use, and there is room for that.  One that
    does not, and has a place already, keeps it.
    """
    limits = read_limits(item.limits)[0]
    fits = 0 < limits.cpu < FixedMeter().has["cpu_limit"] and limits.memory > 0
    return fits and not _problem(item)
