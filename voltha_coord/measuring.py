"""
What the machine of this member has, and what is used of it.

# Note [Whose usage]

Where nothing limits this process but the machine, the whole machine counts: all
that runs on it takes room from the work.  In a container with a limit it is the
container's usage that counts, of that resource: others cannot take what is
reserved.  A process that is kept to some cores has those, and what is done on
them counts.

Several members on one machine would each count what the others use, and all shun
it at once.  So they may count what their own items use instead
(:class:`WorkMeter`), each of a share of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import psutil
from attrs import frozen
from zope.interface import implementer

from .cgroup import cpu_seconds, memory_used
from .clock import boot_time
from .hierarchy import Read, read_text
from .interfaces import IMeter
from .load import MACHINE, MAX_PERCENT
from .machine import Room, own_cores, survey

#: In a shorter time CPU usage is not measured: the kernel's clock is coarse.
SHORTEST_SECONDS = 0.5

#: What the system may fail with.
_FAILURES = (OSError, ValueError, RuntimeError, psutil.Error)


@frozen
class _Counted:
    """
    CPU time so far.

    :ivar busy: what was used of it, in seconds.
    :ivar all: what there was, in seconds of one core.
    """

    busy: float
    all: float


@implementer(IMeter)
class MachineMeter:
    """
    Measures the machine, or the container; see Note [Whose usage].

    :param max_cpu: how much of its CPU may be used, in percent.
    :param max_memory: how much of its memory may be used, in percent.
    :param system: psutil, or what answers like it.
    :param read: reads a file.
    :param cores: gives the numbers of the cores to be used.
    :param now: a clock in seconds.
    """

    def __init__(
        self,
        max_cpu: float = MAX_PERCENT,
        max_memory: float = MAX_PERCENT,
        *,
        system: Any = psutil,
        read: Read = read_text,
        cores: Callable[[], Collection[int]] = own_cores,
        now: Callable[[], float] = boot_time,
    ) -> None:
        self._max_cpu = max_cpu
        self._max_memory = max_memory
        self._system = system
        self._read = read
        self._cores = cores
        self._now = now
        self._room: Room | None = None
        self._counted: _Counted | None = None
        self._cpu: float | None = None

    def capacity(self) -> Mapping[str, Any]:
        """
        Give what there is, and how much of it may be used.

        :raises OSError: when that cannot be read; also ``ValueError`` and
            whatever else the system may fail with.
        """
        room = self._look()
        return {
            "ncpu": room.whole_cpu / 100,
            "cpu_limit": room.whole_cpu * self._max_cpu / 100,
            "memory_total": room.whole_memory,
            "memory_limit": int(room.whole_memory * self._max_memory / 100),
        }

    def measure(self) -> Mapping[str, Any]:
        """
        Give what is in use: of CPU, since the last time it was measured.  It is
        missing as long as that is not long enough ago.
        """
        found: dict[str, Any] = {}
        wrong = []
        for name, measure in (("cpu", self._use_cpu), ("memory", self._use_memory)):
            try:
                value = measure(self._look())
            except _FAILURES as error:
                wrong.append(f"{name}: {error}")
            else:
                if value is not None:
                    found[name] = value
        if wrong:
            found["error"] = "; ".join(wrong)
        return found

    def _look(self) -> Room:
        """
        Find out what there is, once.
        """
        if self._room is None:
            room = survey(self._system, self._read, self._cores())
            self._counted = self._count(room)
            self._room = room
        return self._room

    def _use_cpu(self, room: Room) -> float | None:
        before, now = self._counted, self._count(room)
        if before is None or now.all < before.all or now.busy < before.busy:
            # A core that was taken away, or a counter that began anew.
            self._counted = now
            return self._cpu
        passed = now.all - before.all
        if passed >= SHORTEST_SECONDS:
            self._counted = now
            share = (now.busy - before.busy) / passed
            self._cpu = min(round(100 * share, 1), room.whole_cpu)
        return self._cpu

    def _count(self, room: Room) -> _Counted:
        if room.cpu is not None:
            return _Counted(cpu_seconds(self._read, room.cpu), self._now())
        times = self._system.cpu_times(percpu=True)
        mine = [times[core] for core in room.cores if core < len(times)] or times
        busy, passed = 0.0, 0.0
        for one in mine:
            fields = one._asdict()
            # Linux counts the time of guests twice.
            whole = sum(fields.values()) - sum(
                fields.get(name, 0.0) for name in ("guest", "guest_nice")
            )
            idle = fields["idle"] + fields.get("iowait", 0.0)
            busy, passed = busy + whole - idle, passed + whole
        return _Counted(busy, passed / len(mine))

    def _use_memory(self, room: Room) -> int:
        if room.memory is not None:
            return int(memory_used(self._read, room.memory))
        memory = self._system.virtual_memory()
        return max(0, int(memory.total - memory.available))


@implementer(IMeter)
class WorkMeter:
    """
    Counts what the items of this member use, as its runner tells; see Note
    [Whose usage].

    :param whole: tells what there is.
    """

    def __init__(self, whole: IMeter) -> None:
        self._whole = whole
        self._used: Callable[[], Mapping[str, Any]] = lambda: {"cpu": 0, "memory": 0}

    def capacity(self) -> Mapping[str, Any]:
        """
        Give what there is, and how much of it may be used.
        """
        capacity: Mapping[str, Any] = self._whole.capacity()
        return capacity

    def follow(self, used: Callable[[], Mapping[str, Any]]) -> None:
        """
        Ask this what the items use, from now on.
        """
        self._used = used

    def measure(self) -> Mapping[str, Any]:
        """
        Give what the items use.
        """
        return self._used()


def make_meter(measured: str, max_cpu: float, max_memory: float) -> IMeter:
    """
    Make what options ask for.

    :param measured: one of :data:`~voltha_coord.load.MEASURED`.
    """
    machine = MachineMeter(max_cpu, max_memory)
    return machine if measured == MACHINE else WorkMeter(machine)
