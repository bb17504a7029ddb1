"""
What there is for this process: of the machine, or of the container.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from attrs import frozen

from .cgroup import Limited, cpu_limit, memory_limit
from .hierarchy import Read


@frozen
class Room:
    """
    What there is.

    :ivar cores: the numbers of those that this process may run on.
    :ivar cpu: what limits its CPU time further, ``None`` for nothing.
    :ivar memory: the same of memory.
    :ivar total: the memory of the machine, in bytes.
    """

    cores: tuple[int, ...]
    cpu: Limited | None
    memory: Limited | None
    total: int

    @property
    def whole_cpu(self) -> float:
        """
        In percent of one core.
        """
        return 100.0 * len(self.cores) if self.cpu is None else self.cpu.limit

    @property
    def whole_memory(self) -> int:
        """
        In bytes.
        """
        return self.total if self.memory is None else int(self.memory.limit)


def own_cores() -> Collection[int]:
    """
    Give the numbers of the cores that this process may run on.
    """
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def survey(system: Any, read: Read, cores: Collection[int]) -> Room:
    """
    Find out what there is.

    :param system: psutil, or what answers like it.
    :param read: reads a file.
    :param cores: the numbers of those that this process may run on.
    :raises OSError: when that cannot be read; also ``ValueError`` and whatever
        else the system may fail with.
    """
    cpu, memory = cpu_limit(read), memory_limit(read)
    total = system.virtual_memory().total
    # What is more than there is limits nothing.
    if cpu is not None and cpu.limit >= 100 * len(cores):
        cpu = None
    if memory is not None and memory.limit >= total:
        memory = None
    return Room(tuple(sorted(cores)), cpu, memory, total)
