"""
What a container may use, and uses: Linux's control groups, of both versions.

Nothing is read but through a function that is handed in.

# Note [The group that counts]

A process is in a group, that one in another, up to the root, or to as much of it
as can be seen from within a container.  Each may limit what it and those within
it use, and the tightest limit is the one that counts.  What is used of it is what
the group uses that has it.  Of two equal limits the outer one counts: more runs
there.

Which cores a group may use need not be read: the kernel keeps the affinity of its
processes to them.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from .hierarchy import Hierarchy, Read, find, maybe

_UNLIMITED = "max"


@frozen
class Limited:
    """
    A group with a limit; see Note [The group that counts].

    :ivar limit: in percent of one core, or in bytes.
    :ivar place: the directory that tells what it uses.
    :ivar version: of control groups, 1 or 2.
    """

    limit: float
    place: str
    version: int


def cpu_limit(read: Read) -> Limited | None:
    """
    Give what limits the CPU time of this process, ``None`` for nothing.

    :raises OSError: when what there is cannot be read.
    :raises ValueError: when it makes no sense.
    """
    hierarchy = find(read, "cpu")
    if hierarchy is None:
        return None
    if hierarchy.version == 2:
        return _tightest(hierarchy, lambda place: _quota_of_version_2(read, place))
    told = find(read, "cpuacct") or hierarchy
    found = _tightest(hierarchy, lambda place: _quota_of_version_1(read, place))
    if found is None:
        return None
    # Time may be accounted for in a hierarchy of its own, with equal names.
    name = found.place.removeprefix(hierarchy.mount)
    same = [place for place in told.places if place == told.mount + name]
    return Limited(found.limit, (same or told.places)[0], 1)


def memory_limit(read: Read) -> Limited | None:
    """
    Give what limits the memory of this process, ``None`` for nothing.

    Version 1 has no word for unlimited, but a number that is larger than any
    machine.

    :raises OSError: when what there is cannot be read.
    :raises ValueError: when it makes no sense.
    """
    hierarchy = find(read, "memory")
    if hierarchy is None:
        return None
    version_2 = hierarchy.version == 2
    name = "memory.max" if version_2 else "memory.limit_in_bytes"

    def limit(place: str) -> float | None:
        text = maybe(read, f"{place}/{name}")
        if text is None or text == _UNLIMITED:
            return None
        return _number(f"{place}/{name}", text)

    return _tightest(hierarchy, limit)


def cpu_seconds(read: Read, group: Limited) -> float:
    """
    Give the CPU time that a group has used so far, in seconds.

    :raises OSError: when that cannot be read.
    :raises ValueError: when it makes no sense.
    """
    if group.version == 2:
        return _statistic(read, f"{group.place}/cpu.stat", "usage_usec") / 1e6
    path = f"{group.place}/cpuacct.usage"
    return _number(path, read(path).strip()) / 1e9


def memory_used(read: Read, group: Limited) -> float:
    """
    Give the bytes a group uses, without the pages of files that are the first to
    be given back.

    :raises OSError: when that cannot be read.
    :raises ValueError: when it makes no sense.
    """
    version_2 = group.version == 2
    path = f"{group.place}/{'memory.current' if version_2 else 'memory.usage_in_bytes'}"
    cached = "inactive_file" if version_2 else "total_inactive_file"
    used = _number(path, read(path).strip())
    return max(0.0, used - _statistic(read, f"{group.place}/memory.stat", cached))


def _tightest(
    hierarchy: Hierarchy, limit: Callable[[str], float | None]
) -> Limited | None:
    found: Limited | None = None
    for place in hierarchy.places:
        amount = limit(place)
        if amount is not None and (found is None or amount <= found.limit):
            found = Limited(amount, place, hierarchy.version)
    return found


def _quota_of_version_2(read: Read, place: str) -> float | None:
    path = f"{place}/cpu.max"
    text = maybe(read, path)
    if text is None:
        return None
    quota, _, period = text.partition(" ")
    if quota == _UNLIMITED:
        return None
    return _percent(path, text, quota, period or "100000")


def _quota_of_version_1(read: Read, place: str) -> float | None:
    path = f"{place}/cpu.cfs_quota_us"
    quota, period = (
        maybe(read, f"{place}/cpu.cfs_{name}_us") for name in ("quota", "period")
    )
    if quota is None or period is None or quota.startswith("-"):
        return None
    return _percent(path, f"{quota} of {period}", quota, period)


def _percent(path: str, text: str, quota: str, period: str) -> float:
    if _number(path, period) <= 0:
        raise ValueError(f"{path}: {text!r} is no share of a core")
    return 100 * _number(path, quota) / _number(path, period)


def _statistic(read: Read, path: str, name: str) -> float:
    for line in read(path).splitlines():
        word, _, value = line.partition(" ")
        if word == name:
            return _number(path, value)
    raise ValueError(f"{path}: it has no {name}")


def _number(path: str, text: str) -> float:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{path}: {text[:40]!r} is not a number")
    return float(text)
