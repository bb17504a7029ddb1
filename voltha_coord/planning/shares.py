"""
What a node has, and what an item needs or uses of it.
"""

from __future__ import annotations

from attrs import frozen


def brief(amount: float) -> str:
    """
    Write a number for people: large ones, which are bytes as a rule, with K, M, G
    or T, a K being 1024.
    """
    for unit in ("", "K", "M", "G"):
        if abs(amount) < 1024:
            return f"{amount:.4g}{unit}"
        amount /= 1024
    return f"{amount:.4g}T" if amount < 10_000 else f"{amount:.0f}T"


@frozen
class GpuShare:
    """
    What an item needs or uses of one GPU.

    :ivar memory: in bytes, or whatever unit the node's is in.
    :ivar usage: in percent, as ``encoder`` and ``decoder`` are.
    :ivar index: of the GPU it uses; ``None`` where any will do.
    """

    memory: float = 0.0
    usage: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    index: int | None = None

    @property
    def wanted(self) -> bool:
        """
        Whether it asks for anything at all.
        """
        return max(self.memory, self.usage, self.encoder, self.decoder) > 0


@frozen
class Share:
    """
    What an item needs or uses of a node.

    :ivar cpu: in percent of one core.
    :ivar memory: in bytes, or whatever unit the node's is in.
    :ivar gpu: of a GPU; ``None`` for nothing.
    """

    cpu: float = 0.0
    memory: float = 0.0
    gpu: GpuShare | None = None


@frozen
class Gpu:
    """
    One GPU of a node: what is in use of it, and the limits of that.

    :ivar memory: in bytes, or whatever unit its limit is in.
    :ivar usage: in percent, as ``encoder`` and ``decoder`` are; all three share
        one limit.
    """

    memory: float = 0.0
    memory_limit: float = 0.0
    usage: float = 0.0
    usage_limit: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0


@frozen
class Resources:
    """
    What is in use on a node, and the limits of that.

    :ivar cpu: in percent of one core: 0 … 100 times the number of cores.
    :ivar memory: in bytes, or whatever unit its limit is in.
    :ivar throttling: whether the node holds its processes back at present.
    :ivar error: why it cannot tell; empty when it can.
    """

    cpu: float = 0.0
    cpu_limit: float = 0.0
    memory: float = 0.0
    memory_limit: float = 0.0
    throttling: bool = False
    error: str = ""
    gpus: tuple[Gpu, ...] = ()
