"""
The arithmetic of planning by resources: what each node has left.

# Note [Room]

A node has room for a share if it is online, says what it uses, holds nothing
back, and what it uses together with the share stays *below* its limits of CPU
and memory.  A share of a GPU has to fit into one of its GPUs, by all four
numbers.  Among several nodes that have room the best one uses the least CPU;
then the least memory; then its id comes first.

# Note [What found no room]

Within a phase shares are mostly added.  As long as nothing is taken away a share
that found no room is a bound: no larger one will find any.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping

from attrs import evolve

from .deployment import ONLINE, Node
from .shares import Gpu, GpuShare, Resources, Share, brief

_GPU_PARTS = ("memory", "usage", "encoder", "decoder")


class Ledger:
    """
    Keeps account of what nodes use while a plan is made; see Note [Room].

    Nodes that are not known have no room, and what is added to them or removed
    from them is not counted.  Nothing that is given is changed.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._given = {name: node.resources for name, node in nodes.items()}
        self._states = {name: node.state for name, node in nodes.items()}
        self._cpu = {name: r.cpu for name, r in self._given.items()}
        self._memory = {name: r.memory for name, r in self._given.items()}
        self._gpus = {name: r.gpus for name, r in self._given.items()}
        self._throttling = {n for n, r in self._given.items() if r.throttling}
        self._order: list[tuple[float, float, str]] = []
        self._most_cpu: float
        self._refused: list[tuple[float, float]] = []
        self._sort()

    def _sort(self) -> None:
        """
        Put the nodes that may be given anything in order, the best first.
        """
        able = [name for name in self._given if not self._unable(name)]
        self._order = sorted((self._cpu[n], self._memory[n], n) for n in able)
        self._most_cpu = max((self._given[n].cpu_limit for n in able), default=0.0)
        self._refused.clear()

    def _unable(self, node: str) -> str:
        """
        Say why a node may be given nothing at all; empty when it may.
        """
        if node not in self._given:
            return "is not known"
        given = self._given[node]
        if given.error:
            return f"does not tell what it uses: {given.error}"
        if self._states[node] != ONLINE:
            return f"is {self._states[node]}"
        return "is throttling" if node in self._throttling else ""

    @property
    def blocked(self) -> tuple[str, ...]:
        """
        The nodes that are given nothing, whatever they have left, in order.
        """
        return tuple(sorted(n for n, state in self._states.items() if state != ONLINE))

    @property
    def resources(self) -> dict[str, Resources]:
        """
        What the nodes use by now, and their limits.
        """
        return {
            name: evolve(
                given,
                cpu=self._cpu[name],
                memory=self._memory[name],
                gpus=self._gpus[name],
                throttling=name in self._throttling,
            )
            for name, given in self._given.items()
        }

    # Looking.

    def overloaded(self, node: str) -> bool:
        """
        Whether a node has reached a limit, or is throttling.  One that does not
        tell what it uses is not.
        """
        given = self._given[node]
        if given.error:
            return False
        return (
            self._cpu[node] >= given.cpu_limit
            or self._memory[node] >= given.memory_limit
            or node in self._throttling
        )

    def has_room(self, node: str, share: Share) -> bool:
        """
        Whether there is room for a share; see Note [Room].
        """
        return not self._unable(node) and self._fits(node, share)

    def _fits(self, node: str, share: Share) -> bool:
        given = self._given[node]
        if not self._cpu[node] + share.cpu < given.cpu_limit:
            return False
        if not self._memory[node] + share.memory < given.memory_limit:
            return False
        gpu = share.gpu
        return gpu is None or not gpu.wanted or self._gpu_for(node, gpu) is not None

    def _gpu_for(self, node: str, share: GpuShare) -> int | None:
        """
        Give the first GPU that has room.
        """
        for place, gpu in enumerate(self._gpus[node]):
            highest = max(
                gpu.usage + share.usage,
                gpu.encoder + share.encoder,
                gpu.decoder + share.decoder,
            )
            if (
                highest < gpu.usage_limit
                and gpu.memory + share.memory < gpu.memory_limit
            ):
                return place
        return None

    def why_not(self, node: str, share: Share) -> str:
        """
        Say, for people, why a node has no room for a share; empty when it has.
        """
        unable = self._unable(node)
        if unable:
            return unable
        given = self._given[node]
        for what, used, more, limit in (
            ("cpu", self._cpu[node], share.cpu, given.cpu_limit),
            ("memory", self._memory[node], share.memory, given.memory_limit),
        ):
            if not used + more < limit:
                numbers = f"{brief(used)} and {brief(more)} more"
                return f"{what} {numbers} is not below {brief(limit)}"
        return "" if self._fits(node, share) else "no GPU has room for it"

    def best(self, share: Share, excluding: str = "") -> str | None:
        """
        Give the best node that has room; see Note [Room].

        :param excluding: a node that is not to be it.
        :return: ``None`` when there is none.
        """
        cpu, memory = share.cpu, share.memory
        if self._was_refused(cpu, memory):
            return None
        most = self._most_cpu
        for used, _, node in self._order:
            if used + cpu >= most:
                break
            if node != excluding and self._fits(node, share):
                return node
        if not excluding and share.gpu is None:
            self._note_refused(cpu, memory)
        return None

    def _was_refused(self, cpu: float, memory: float) -> bool:
        """
        Whether no more than this found no room.
        """
        place = bisect_right(self._refused, (cpu, math.inf))
        return place > 0 and self._refused[place - 1][1] <= memory

    def _note_refused(self, cpu: float, memory: float) -> None:
        """
        Remember what found no room, in place of all that is larger: so what is
        remembered grows in CPU and shrinks in memory.
        """
        begin = end = bisect_left(self._refused, (cpu, memory))
        while end < len(self._refused) and self._refused[end][1] >= memory:
            end += 1
        self._refused[begin:end] = [(cpu, memory)]

    # Counting.

    def add(self, node: str, share: Share) -> None:
        """
        Count a share as used.  Its part of a GPU goes to the first that has room
        for it; where none has it is not counted.
        """
        if node not in self._given:
            return
        gpu = share.gpu
        if gpu is not None and gpu.wanted:
            place = self._gpu_for(node, gpu)
            if place is not None:
                self._change_gpu(node, place, gpu, 1)
        self._change(node, share.cpu, share.memory)

    def remove(self, node: str, share: Share) -> None:
        """
        Count a share as not used any more; nothing is used less than not at all.
        """
        if node not in self._given:
            return
        gpu = share.gpu
        place = None if gpu is None else gpu.index
        known = place is not None and 0 <= place < len(self._gpus[node])
        if gpu is not None and place is not None and known:
            self._change_gpu(node, place, gpu, -1)
        self._change(
            node,
            -min(self._cpu[node], share.cpu),
            -min(self._memory[node], share.memory),
        )
        self._refused.clear()

    def move(self, target: str, source: str, share: Share) -> None:
        """
        Count a share on one node instead of on another.
        """
        self.add(target, share)
        self.remove(source, share)

    def throttle(self, node: str, on: bool = True) -> None:
        """
        Note whether a node holds its processes back.
        """
        if node not in self._given or on == (node in self._throttling):
            return
        if on:
            self._throttling.add(node)
        else:
            self._throttling.remove(node)
        self._sort()

    def _change(self, node: str, cpu: float, memory: float) -> None:
        before = (self._cpu[node], self._memory[node], node)
        self._cpu[node] += cpu
        self._memory[node] += memory
        place = bisect_left(self._order, before)
        if place < len(self._order) and self._order[place] == before:
            del self._order[place]
            insort(self._order, (self._cpu[node], self._memory[node], node))

    def _change_gpu(self, node: str, place: int, share: GpuShare, sign: int) -> None:
        gpus = [*self._gpus[node]]
        gpus[place] = _changed(gpus[place], share, sign)
        self._gpus[node] = tuple(gpus)


def _changed(gpu: Gpu, share: GpuShare, sign: int) -> Gpu:
    parts = {
        part: max(0.0, getattr(gpu, part) + sign * getattr(share, part))
        for part in _GPU_PARTS
    }
    return evolve(gpu, **parts)
