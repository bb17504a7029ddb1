"""
For tests of applications: a whole cluster in memory, on a clock of one's own.

Real Coordinators over the embedded Consul; nothing is faked above the
transport, nothing listens, nothing sleeps::

    class MyTests(SynchronousTestCase):
        def test_takeover(self):
            cluster = EmbeddedCluster()
            self.addCleanup(cluster.close)
            first, second = cluster.add("a"), cluster.add("b")
            cluster.put_work("cam-1", "cam-2")
            cluster.advance(10)
            cluster.crash(first)
            cluster.advance(10)
            self.assertEqual(second.worker.my_workload, {"cam-1", "cam-2"})
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from .consul.api import ConsulApi
from .consul.model import Entry
from .consul.requester import Requester
from .coordinator import Coordinator
from .embedded.memory import MemoryTransport, Network
from .embedded.state import ConsulState
from .keys import Keys
from .records import OwnerRecord, decode_status
from .settings import Settings

#: By how much the clock is advanced at a time, in seconds.
STEP_SECONDS = 0.01

#: A member that is cut off has shut down after so many half seconds.
CLOSING_STEPS = 40


class EmbeddedCluster:
    """
    Coordinators, the embedded Consul, and the clock they all run on.

    :ivar clock: advance it through :meth:`advance`.
    :ivar consul: the embedded Consul, with its levers.
    :ivar api: Consul's verbs, over an undisturbed network.
    :ivar members: the Coordinators that were added and not crashed, by
        instance id.

    :param seed: of all randomness; the same seed gives the same history.
    :param settings: of members for whom :meth:`add` names none.
    """

    def __init__(self, seed: int = 0, settings: Settings | None = None) -> None:
        self.clock = Clock()
        self._random = Random(seed)
        self.settings = Settings() if settings is None else settings
        self.keys = Keys(self.settings.prefix)
        self.consul = ConsulState(self.clock, random=Random(seed))
        self.members: dict[str, Coordinator] = {}
        self._networks: dict[str, Network] = {}
        self._clocks: dict[str, _ProcessClock] = {}
        self._transports: dict[str, MemoryTransport] = {}
        self._crashed: list[tuple[Coordinator, _ProcessClock]] = []
        self._observer = MemoryTransport(self.consul.agent("observer"), self.clock)
        self.api = ConsulApi(
            Requester([self._observer], now=self.clock.seconds), command_timeout=3600
        )

    def add(
        self,
        instance_id: str,
        *,
        node: str | None = None,
        clock_rate: float = 1.0,
        coordinator_class: type[Coordinator] = Coordinator,
        **kw: Any,
    ) -> Coordinator:
        """
        Add a member, in a "process" of its own.

        :param node: the node of its agent; by default one of its own.
        :param clock_rate: how fast its clock runs; Consul's runs at 1.
        :param coordinator_class: what to make.
        :param kw: for the Coordinator's constructor.
        """
        agent = self.consul.agent(node or f"node-of-{instance_id}")
        clock = _ProcessClock(self.clock.seconds(), clock_rate)
        network = Network()
        # A double of a member that runs already is another process.
        name = instance_id
        while name in self.members:
            name += "'"
        self._networks[name] = network
        self._clocks[name] = clock
        transport = MemoryTransport(agent, clock, network)
        self._transports[name] = transport
        kw.setdefault("settings", self.settings)
        member = coordinator_class(
            "127.0.0.1",
            "127.0.0.1",
            instance_id,
            kw.pop("rest_port", 8880),
            reactor=clock,
            transports=[transport],
            random=Random(self._random.random()).random,
            registry={},
            **kw,
        )
        self.members[name] = member
        return member

    def network(self, member: Coordinator) -> Network:
        """
        Give what lies between a member and its agent, to be disturbed.
        """
        return self._networks[self._name(member)]

    def _name(self, member: Coordinator) -> str:
        return next(name for name, one in self.members.items() if one is member)

    def advance(self, seconds: float, step: float = STEP_SECONDS) -> None:
        """
        Let that much time pass, in small steps.
        """
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end - 1e-9:
            self._tick(min(step, end - self.clock.seconds()))

    def _tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for clock in tuple(self._clocks.values()):
            clock.pass_time(seconds)

    def until(self, condition: Callable[[], object], seconds: float = 30.0) -> float:
        """
        Let time pass until something is so, at most so many seconds.

        :return: how many seconds that took.
        :raises TimeoutError: when it does not come to be.
        """
        began = self.clock.seconds()
        while not condition():
            if self.clock.seconds() - began > seconds:
                raise TimeoutError(f"not so within {seconds} s")
            self._tick(STEP_SECONDS)
        return self.clock.seconds() - began

    def result(self, deferred: Deferred[Any], seconds: float = 10.0) -> Any:
        """
        Let time pass until a Deferred fires, at most so many seconds.

        :raises TimeoutError: when it does not.
        :raises Exception: what it fails with.
        """
        results: list[Any] = []
        deferred.addBoth(results.append)
        end = self.clock.seconds() + seconds
        while not results:
            if self.clock.seconds() > end:
                raise TimeoutError(f"nothing within {seconds} s: {deferred!r}")
            self._tick(STEP_SECONDS)
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def crash(self, member: Coordinator) -> None:
        """
        Let a member's process end without a word, as SIGKILL does.
        """
        name = self._name(member)
        self._networks.pop(name).partition()
        # Kept until the end, so that nothing of a dead process is finalized and
        # acts, or says something, in the middle of a test.
        self._crashed.append((self.members.pop(name), self._clocks.pop(name)))

    def pause(self, member: Coordinator) -> None:
        """
        Let a member's process stand still, as SIGSTOP does.
        """
        self._clocks[self._name(member)].paused = True

    def resume(self, member: Coordinator) -> None:
        """
        Let a paused process go on: everything overdue happens now.
        """
        self._clocks[self._name(member)].resume()

    def left_behind(self, member: Coordinator) -> tuple[int, int]:
        """
        Count the timers a member has set, and the requests it has under way:
        none of either once it has shut down.
        """
        name = self._name(member)
        timers = self._clocks[name].getDelayedCalls()
        return len(timers), self._transports[name].under_way

    def put_work(self, *work_ids: str, value: bytes = b"") -> None:
        """
        Add work items.
        """
        for work in work_ids:
            self.result(self.api.put(self.keys.work_item(work), value))

    def remove_work(self, *work_ids: str) -> None:
        """
        Remove work items.
        """
        for work in work_ids:
            self.result(self.api.delete(self.keys.work_item(work)))

    def entry(self, key: str) -> Entry | None:
        """
        Read a key.
        """
        entry: Entry | None = self.result(self.api.get(key)).entry
        return entry

    def entries(self, prefix: str) -> tuple[Entry, ...]:
        """
        Read a prefix.
        """
        entries: tuple[Entry, ...] = self.result(self.api.list(prefix)).entries
        return entries

    def assignments(self) -> dict[str, set[str]]:
        """
        Give the work ids assigned to each member.
        """
        found: dict[str, set[str]] = {}
        start = len(self.keys.assignments)
        for entry in self.entries(self.keys.assignments):
            member, _, work = entry.key[start:].partition("/")
            found.setdefault(member, set()).add(work)
        return found

    def owners(self) -> dict[str, str]:
        """
        Give the owner of each item, by its owner record.
        """
        return {
            entry.key[len(self.keys.owners) :]: OwnerRecord.from_entry(entry).owner
            for entry in self.entries(self.keys.owners)
        }

    def reported(self, instance_id: str) -> set[str]:
        """
        Give the work ids that a member reports to run.
        """
        prefix = self.keys.status_of(instance_id)
        chunks = {
            int(entry.key[len(prefix) :]): entry.value for entry in self.entries(prefix)
        }
        report = decode_status(chunks)
        if report is None:
            return set()
        return {w for w, status in report.items.items() if status.state == "running"}

    @property
    def leaders(self) -> list[Coordinator]:
        """
        The members that believe to lead now; a paused one does not answer.
        """
        return [member for member in self.awake if member.is_leader]

    @property
    def awake(self) -> list[Coordinator]:
        """
        The members that are not paused.
        """
        return [
            member
            for name, member in self.members.items()
            if not self._clocks[name].paused
        ]

    def close(self) -> None:
        """
        End everything.  Consul learns nothing of it.
        """
        for member in tuple(self.members.values()):
            self.crash(member)
        while self._crashed:
            member, clock = self._crashed.pop()
            member.shutdown()
            clock.pump([0.5] * CLOSING_STEPS)


class _ProcessClock(Clock):
    """
    The clock of one member's process, which can stand still.
    """

    def __init__(self, now: float, rate: float) -> None:
        super().__init__()
        self.rightNow = now
        self._rate = rate
        self.paused = False
        self._missed = 0.0

    def pass_time(self, seconds: float) -> None:
        """
        Let time pass; nothing is called while paused.
        """
        self._missed += seconds * self._rate
        if not self.paused:
            missed, self._missed = self._missed, 0.0
            self.advance(missed)

    def resume(self) -> None:
        """
        Go on: what is overdue is called now, at the time it is now.
        """
        self.paused = False
        self.pass_time(0.0)
