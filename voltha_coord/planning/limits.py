"""
What a work item may use, read from its ``limits``; and what members report.

Anybody may write anything there.  Numbers that mean nothing are told, each by
its name, and nothing is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._json import in_short
from .shares import Gpu, GpuShare, Resources, Share

#: The limits of an item, and those of its ``gpu``.
_PLAIN = ("cpu", "memory")
_GPU = ("memory", "usage", "encoder", "decoder")


def read_limits(limits: Mapping[str, Any]) -> tuple[Share, str]:
    """
    Read the limits of a work item.

    What is missing is 0, which means that there is none: such an item is not
    deployed.

    :return: the limits, and what is wrong with them; empty for nothing.
    """
    wrong: list[str] = []
    cpu, memory = (_number(limits, name, "limits.", wrong) for name in _PLAIN)
    gpu = limits.get("gpu")
    if gpu is not None and not isinstance(gpu, Mapping):
        wrong.append("limits.gpu is not an object")
        gpu = None
    return Share(cpu, memory, _gpu(gpu, "limits.gpu.", wrong)), "; ".join(wrong)


def read_usage(usage: Mapping[str, Any]) -> Share | None:
    """
    Read what a member says that an item uses.

    :return: ``None`` when it does not say, or nothing that means anything.
    """
    if "cpu" not in usage or "memory" not in usage:
        return None
    wrong: list[str] = []
    cpu, memory = (_number(usage, name, "", wrong) for name in _PLAIN)
    gpu = usage.get("gpu")
    share = Share(cpu, memory, _gpu(gpu if _maps(gpu) else None, "", wrong))
    return None if wrong or min(cpu, memory) < 0 else share


def read_resources(capacity: Mapping[str, Any], used: Mapping[str, Any]) -> Resources:
    """
    Read what a member has, and uses of it.

    :param capacity: what its record says (``resources``).
    :param used: what its status report says (``node``); empty for no report.
    :return: the resources, with an ``error`` when they are not known.
    """
    wrong: list[str] = []
    cpu_limit = _number(capacity, "cpu_limit", "resources.", wrong)
    memory_limit = _number(capacity, "memory_limit", "resources.", wrong)
    cpu, memory = (_number(used, name, "node.", wrong) for name in _PLAIN)
    gpus = _gpus(capacity.get("gpus"), used.get("gpus"), wrong)
    error = used.get("error")
    if not capacity:
        wrong.insert(0, "it does not tell what resources it has")
    elif "cpu" not in used or "memory" not in used:
        wrong.insert(0, "it has not told yet what it uses")
    if isinstance(error, str) and error:
        wrong.insert(0, error)
    return Resources(
        cpu=max(cpu, 0.0),
        cpu_limit=cpu_limit,
        memory=max(memory, 0.0),
        memory_limit=memory_limit,
        throttling=used.get("throttling") is True,
        error="; ".join(wrong),
        gpus=gpus,
    )


def _number(
    values: Mapping[str, Any], name: str, where: str, wrong: list[str]
) -> float:
    value = values.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrong.append(f"{where}{name}: {in_short(value)} is not a number")
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        wrong.append(f"{where}{name}: {in_short(value)} is out of range")
        return 0.0
    if number < 0 and where.startswith("limits."):
        wrong.append(f"{where}{name}: {in_short(value)} is negative")
    return number


def _maps(value: object) -> bool:
    return isinstance(value, Mapping)


def _gpu(
    values: Mapping[str, Any] | None, where: str, wrong: list[str]
) -> GpuShare | None:
    if values is None:
        return None
    numbers = {name: _number(values, name, where, wrong) for name in _GPU}
    index = values.get("index")
    known = isinstance(index, int) and not isinstance(index, bool) and index >= 0
    return GpuShare(**numbers, index=index if known else None)


def _gpus(capacity: object, used: object, wrong: list[str]) -> tuple[Gpu, ...]:
    if not isinstance(capacity, list | tuple):
        return ()
    uses = used if isinstance(used, list | tuple) else ()
    found = []
    for place, limits in enumerate(capacity):
        use = uses[place] if place < len(uses) else {}
        if not isinstance(limits, Mapping) or not isinstance(use, Mapping):
            wrong.append(f"resources.gpus: number {place} is not an object")
            continue
        numbers = {name: _number(use, name, "node.gpus.", wrong) for name in _GPU}
        for name in ("memory_limit", "usage_limit"):
            numbers[name] = _number(limits, name, "resources.gpus.", wrong)
        found.append(Gpu(**numbers))
    return tuple(found)
