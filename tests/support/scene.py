"""
Three members at work, looked at after every single event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime

from voltha_coord.consul.model import Op, SessionSpec
from voltha_coord.coordinator import Coordinator
from voltha_coord.embedded.agent import Agent
from voltha_coord.records import OwnerRecord
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster

from .stepping import SteppingReactor
from .working import Floor, StringRunner

#: The members of every cluster.
NAMES = ("a", "b", "c")

#: What they work on.
WORK = tuple(f"w{number}" for number in range(6))


class Violation(Exception):
    """
    A guarantee does not hold.
    """


class Scene:
    """
    Three members at work, looked at after every single event.

    :ivar cluster: what they live in.
    :ivar floor: where items run.
    :ivar paused: the members that stand still; what they run counts only when
        they act.

    :ivar clocks: the wall clock of each member.
    :ivar snapshot: of Consul, to be restored; by default of the work alone.

    :param seed: of all that is random.
    """

    def __init__(self, seed: int = 0, settings: Settings | None = None) -> None:
        self.cluster = EmbeddedCluster(seed, settings)
        self.clocks: dict[str, SteppingReactor] = {}
        self.snapshot = self.cluster.consul.snapshot()
        self.floor = Floor()
        self.runners: dict[str, StringRunner] = {}
        self.paused: set[str] = set()
        self._terms: dict[str, int] = {}
        self._token = 0
        #: Whether tokens may fall, and what was known of terms be lost, so that
        #: two may lead for a moment: Consul was emptied or restored.
        self.forgetful = False
        #: Whether what else must hold need not.
        self.excepted = False

    def populate(self) -> None:
        """
        Add the work, and then the members.
        """
        self.cluster.put_work(*WORK)
        self.snapshot = self.cluster.consul.snapshot()
        for name in NAMES:
            runner = self.runners[name] = StringRunner(self.floor)
            made: Any = self._on_a_wall_clock
            self.cluster.add(name, runner=runner, coordinator_class=made)

    def _on_a_wall_clock(
        self, *args: Any, reactor: IReactorTime, **kw: Any
    ) -> Coordinator:
        """
        Make a member whose reactor is on a clock that may be set.
        """
        clock = self.clocks[args[2]] = SteppingReactor(reactor)
        return Coordinator(*args, reactor=clock, now=reactor.seconds, **kw)

    @property
    def leader(self) -> Coordinator:
        """
        The member that leads.
        """
        (leader,) = self.cluster.leaders
        return leader

    @property
    def follower(self) -> Coordinator:
        """
        A member that does not lead.
        """
        return next(one for one in self.cluster.awake if not one.is_leader)

    def agent(self, member: Coordinator) -> Agent:
        """
        Give a member's agent.
        """
        return self.cluster.consul.agent(f"node-of-{member.instance_id}")

    @property
    def agents(self) -> list[Agent]:
        """
        The agents of all members, in order.
        """
        return [self.agent(member) for member in self.cluster.members.values()]

    @property
    def workloads(self) -> dict[str, set[str]]:
        """
        What runs, by member.
        """
        members = self.cluster.members.items()
        return {name: set(member.worker.my_workload) for name, member in members}

    @property
    def stops(self) -> int:
        """
        How often an item was stopped.
        """
        return sum(len(runner.asked("stop")) for runner in self.runners.values())

    @property
    def terms(self) -> int:
        """
        How many terms there have been.
        """
        members = self.cluster.members.values()
        return sum(member.election.terms.begun for member in members)

    # Time, and what must hold at every moment of it.

    def run(self, seconds: float) -> None:
        """
        Let time pass.

        :raises Violation: when a guarantee does not hold meanwhile.
        """
        end = self.cluster.clock.seconds() + seconds
        while self.cluster.clock.step(end) is not None:
            self.check()

    def until(self, condition: Callable[[], object], seconds: float) -> float:
        """
        Let time pass until something is so; give how many seconds that took.

        :raises Violation: when it does not come to be, or a guarantee does not
            hold meanwhile.
        """
        clock = self.cluster.clock
        began = clock.seconds()
        while not condition():
            if clock.seconds() - began > seconds:
                raise self.violation(f"not so within {seconds} s", self.situation())
            clock.step(clock.seconds() + 0.05)
            self.check()
        return clock.seconds() - began

    def check(self) -> None:
        """
        Look whether the guarantees hold at this instant.

        :raises Violation: when they do not.
        """
        if self.excepted:
            return
        leaders = self.cluster.leaders
        if len(leaders) > 1 and not self.forgetful:
            raise self.violation("G1", [one.instance_id for one in leaders])
        for leader in leaders:
            token = leader.lease.token
            if token is None or self._terms.get(leader.instance_id) == token:
                continue
            if token <= self._token and not self.forgetful:
                raise self.violation("G2: tokens fell", token, self._token)
            self._terms = {leader.instance_id: token}
            self._token = token
        if self.floor.clashes and not self.paused:
            raise self.violation("G3", self.floor.clashes)
        runs: dict[str, str] = {}
        for member in self.cluster.awake:
            for item in sorted(member.worker.my_workload):
                if item in runs:
                    raise self.violation("G3", item, runs[item], member.instance_id)
                runs[item] = member.instance_id

    def violation(self, *what: object) -> Violation:
        """
        Make a violation that says when.
        """
        return Violation(f"at {self.cluster.clock.seconds():.3f} s", *what)

    def situation(self) -> dict[str, object]:
        """
        Say how things stand, for people.
        """
        members = self.cluster.members.items()
        return {
            "leaders": [one.instance_id for one in self.cluster.leaders],
            "waiting": {name: one.status()["waiting_for"] for name, one in members},
            "workloads": {n: sorted(items) for n, items in self.workloads.items()},
        }

    def settled(self) -> bool:
        """
        Whether all is well: all are members, one leads, each item runs once, and
        Consul says the same.
        """
        members = self.cluster.members.values()
        leaders = self.cluster.leaders
        if len(leaders) != 1 or not all(member.is_ready for member in members):
            return False
        keys, holder = self.cluster.keys, self._holder
        if holder(keys.leader) != leaders[0].session_id or not all(
            holder(keys.member(one.instance_id)) == one.session_id for one in members
        ):
            return False
        runs = {w: name for name, items in self.workloads.items() for w in items}
        return sorted(runs) == sorted(WORK) and runs == self._owners()

    def _holder(self, key: str) -> str | None:
        entry = self.cluster.consul.kv.get(key)
        return None if entry is None else entry.session

    def _owners(self) -> dict[str, str]:
        start = len(self.cluster.keys.owners)
        return {
            entry.key[start:]: OwnerRecord.from_entry(entry).owner
            for entry in self.cluster.consul.kv.walk(self.cluster.keys.owners)
        }

    def begin(self) -> None:
        """
        Let three members divide the work, and come to rest.
        """
        self.populate()
        self.until(self.settled, 20.0)
        self.run(5.0)

    # What is done by hand.

    def do(self, *ops: Op) -> None:
        """
        Write keys as anybody may.
        """
        self.cluster.result(self.cluster.api.txn(ops))

    def stranger(self) -> str:
        """
        Make a session of somebody else's, without a check.
        """
        made: str = self.cluster.result(
            self.cluster.api.create_session(SessionSpec("stranger", 15.0, 0.0))
        )
        return made
