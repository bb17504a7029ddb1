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

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from .consul.api import ConsulApi
from .consul.model import Entry
from .consul.requester import Requester
from .coordinator import Coordinator
from .embedded.memory import MemoryTransport, Network
from .embedded.state import Agent, ConsulState
from .embedded.timeline import ProcessClock, Timeline, TimeStandsStill
from .interfaces import IMeter
from .keys import Keys
from .plugins import wants_measures
from .records import OwnerRecord, decode_status
from .settings import Settings

#: How long a condition may go unlooked at while nothing happens, in seconds.
LOOK_SECONDS = 0.01

#: A member that reaches no Consul has shut down within so many seconds.
CLOSING_SECONDS = 20.0


@define(eq=False)
class Process:
    """
    The process one member lives in.

    :ivar name: the member's instance id; a second process of one id has it
        with a prime.
    :ivar clock: its own; it may run fast or slow, and stand still.
    :ivar network: what lies between it and its agent, to be disturbed.
    :ivar transport: carries its requests.
    """

    name: str
    member: Coordinator
    clock: ProcessClock
    network: Network
    transport: MemoryTransport


@implementer(IMeter)
class FixedMeter:
    """
    A machine of four cores and 8 GiB, of which work may use all; on which nothing
    runs but what a test says, and the items of its member as far as their runner
    tells what they use.

    :ivar has: what there is, and how much of it may be used.
    :ivar uses: what is in use beside the items.
    """

    def __init__(self, **uses: Any) -> None:
        self.has: dict[str, Any] = {
            "ncpu": 4.0,
            "cpu_limit": 400.0,
            "memory_total": 8 * 2**30,
            "memory_limit": 8 * 2**30,
        }
        self.uses: dict[str, Any] = {"cpu": 0.0, "memory": 0, **uses}
        self._used: Callable[[], Mapping[str, float]] = dict

    def follow(self, used: Callable[[], Mapping[str, float]]) -> None:
        """
        Ask this what the items use, from now on.
        """
        self._used = used

    def capacity(self) -> Mapping[str, Any]:
        """
        Give what there is.
        """
        return dict(self.has)

    def measure(self) -> Mapping[str, Any]:
        """
        Give what is in use.
        """
        used = dict(self.uses)
        for name, much in self._used().items():
            if name in used:
                used[name] += much
        return used


class EmbeddedCluster:
    """
    Coordinators, the embedded Consul, and the timeline they all live on.

    Time jumps from one event to the next, so that quiet hours cost nothing.

    :ivar clock: the world's, and Consul's; advance it through :meth:`advance`.
    :ivar consul: the embedded Consul, with its levers.
    :ivar api: Consul's verbs, over an undisturbed network.
    :ivar processes: those that were added and not crashed, by name.

    :param seed: of all randomness; the same seed gives the same history.
    :param settings: of members for whom :meth:`add` names none.
    """

    def __init__(self, seed: int = 0, settings: Settings | None = None) -> None:
        self.clock = Timeline()
        self._random = Random(seed)
        self.settings = Settings() if settings is None else settings
        self.keys = Keys(self.settings.prefix)
        self.consul = ConsulState(self.clock, random=Random(seed))
        self.processes: dict[str, Process] = {}
        self._crashed: list[tuple[Process, Timeline]] = []
        self._observer = MemoryTransport(self.consul.agent("observer"), self.clock)
        self.api = ConsulApi(
            Requester([self._observer], now=self.clock.seconds), command_timeout=3600
        )

    @property
    def members(self) -> dict[str, Coordinator]:
        """
        The Coordinators that were added and not crashed, by name.
        """
        return {name: process.member for name, process in self.processes.items()}

    def add(
        self,
        instance_id: str,
        *,
        node: str | None = None,
        clock_rate: float = 1.0,
        clock_ahead: float = 0.0,
        coordinator_class: type[Coordinator] = Coordinator,
        **kw: Any,
    ) -> Coordinator:
        """
        Add a member, in a "process" of its own.

        :param node: the node of its agent; by default one of its own.
        :param clock_rate: how fast its clock runs; Consul's runs at 1.
        :param clock_ahead: what its clock shows more than Consul's now.
        :param coordinator_class: what to make.
        :param kw: for the Coordinator's constructor.
        """
        # A double of a member that runs already is another process.
        name = instance_id
        while name in self.processes:
            name += "'"
        agent = self.consul.agent(node or f"node-of-{instance_id}")
        clock = self.clock.process(clock_rate, self.clock.seconds() + clock_ahead)
        transport = self._make_transport(name, agent, clock)
        kw.setdefault("settings", self.settings)
        if wants_measures(kw.get("leader_class")):
            # What this machine is busy with is no part of a history.
            kw.setdefault("meter", FixedMeter())
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
        self.processes[name] = Process(
            name, member, clock, transport.network, transport
        )
        return member

    def _make_transport(
        self, name: str, agent: Agent, clock: ProcessClock
    ) -> MemoryTransport:
        return MemoryTransport(agent, clock)

    def process(self, member: Coordinator) -> Process:
        """
        Give the process a member lives in.
        """
        return next(one for one in self.processes.values() if one.member is member)

    def network(self, member: Coordinator) -> Network:
        """
        Give what lies between a member and its agent, to be disturbed.
        """
        return self.process(member).network

    # Time.

    def advance(self, seconds: float) -> None:
        """
        Let that much time pass.
        """
        self.clock.advance(seconds)

    def until(self, condition: Callable[[], object], seconds: float = 30.0) -> float:
        """
        Let time pass until something is so, at most so many seconds.

        :return: how many seconds that took.
        :raises TimeoutError: when it does not come to be.
        """
        clock = self.clock
        began = clock.seconds()
        while not condition():
            if clock.seconds() - began > seconds:
                raise TimeoutError(f"not so within {seconds} s")
            clock.step(clock.seconds() + LOOK_SECONDS)
            # What follows from it at this very instant belongs to it.
            clock.advance(0)
        return clock.seconds() - began

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
            if self.clock.step(end) is None and not results:
                raise TimeoutError(f"nothing within {seconds} s: {deferred!r}")
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    # What may happen to a process.

    def crash(self, member: Coordinator) -> None:
        """
        Let a member's process end without a word, as SIGKILL does.
        """
        process = self.processes.pop(self.process(member).name)
        process.transport.sever()
        # Kept until the end, so that nothing of a dead process is finalized and
        # acts, or says something, in the middle of a test.
        self._crashed.append((process, process.clock.die()))

    def pause(self, member: Coordinator) -> None:
        """
        Let a member's process stand still, as SIGSTOP does.
        """
        self.process(member).clock.pause()

    def resume(self, member: Coordinator, arrivals_first: bool = False) -> None:
        """
        Let a paused process go on: everything overdue happens now.

        :param arrivals_first: whether what came from Consul meanwhile is taken
            before what timers are overdue.
        """
        self.process(member).clock.resume(arrivals_first)
        self.advance(0)

    def left_behind(self, member: Coordinator) -> tuple[int, int]:
        """
        Count the timers a member has set, and the requests it has under way:
        none of either once it has shut down.
        """
        process = self.process(member)
        timers = process.clock.getDelayedCalls()
        return len(timers), process.transport.under_way

    # Work, and looking at it.

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
            process.member
            for process in self.processes.values()
            if not process.clock.paused
        ]

    def close(self) -> None:
        """
        End everything.  Consul learns nothing of it.
        """
        for process in tuple(self.processes.values()):
            self.crash(process.member)
        while self._crashed:
            process, afterlife = self._crashed.pop()
            process.transport.close()
            process.member.shutdown()
            # Should it never come to rest, that has been seen before.
            with suppress(TimeStandsStill):
                afterlife.advance(CLOSING_SECONDS)
