"""
What a container may use, and uses: Linux's control groups, of both versions.

Nothing is read but through a function that is handed in.

# Note [The group that counts]

A process is in a group, that one in another, up to the root, or to as much of it
as can be seen from within a container.  Each may limit what it and those within
it use, and the tightest limit is the one that counts.  What is used of it is what
the group uses that has it.  Of two equal limits the outer one counts: more runs
there.

A version 2 mount without controllers may stand beside those of version 1; then
the controllers are where ``/proc/self/cgroup`` names them.  Which cores a group
may use need not be read: the kernel keeps the affinity of its processes to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attrs import frozen

#: Gives the text of a file, or raises ``OSError``.
Read = Callable[[str], str]

#: Where a process sees its groups, and where they are mounted.
GROUPS, MOUNTS = "/proc/self/cgroup", "/proc/self/mountinfo"

_UNLIMITED = "max"


def read_text(path: str) -> str:
    """
    Read a file of the kernel's.

    :raises OSError: when there is none, or it cannot be read.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


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
    hierarchy = _find(read, "cpu")
    if hierarchy is None:
        return None
    if hierarchy.version == 2:
        return _tightest(hierarchy, lambda place: _quota_of_version_2(read, place))
    told = _find(read, "cpuacct") or hierarchy
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
    hierarchy = _find(read, "memory")
    if hierarchy is None:
        return None
    version_2 = hierarchy.version == 2
    name = "memory.max" if version_2 else "memory.limit_in_bytes"

    def limit(place: str) -> float | None:
        text = _maybe(read, f"{place}/{name}")
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


@frozen
class _Hierarchy:
    """
    The groups of one controller.

    :ivar mount: where its root, as far as it can be seen, is mounted.
    :ivar places: the directories of this process's group and of those around it,
        the innermost first.
    """

    version: int
    mount: str
    places: tuple[str, ...]


def _find(read: Read, controller: str) -> _Hierarchy | None:
    """
    Find the groups of a controller; ``None`` where there are none.
    """
    groups = _maybe(read, GROUPS)
    mounts = _maybe(read, MOUNTS)
    if groups is None or mounts is None:
        return None
    paths: dict[str, str] = {}
    for line in groups.splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        paths.update(dict.fromkeys(names.split(","), path))
    version = 1 if controller in paths else 2
    path = paths.get(controller, paths.get("", ""))
    if not path:
        return None
    found = None
    for root, mount in _mounts(mounts, controller if version == 1 else ""):
        name = _within(root, path)
        if name is not None:
            return _Hierarchy(version, mount, _upwards(mount, name))
        # Mounted from elsewhere: its top is all that can be seen.
        found = found or _Hierarchy(version, mount, (mount,))
    return found


def _mounts(text: str, controller: str) -> Iterator[tuple[str, str]]:
    """
    Give what is mounted where of a controller; of version 2 for none.
    """
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        if controller:
            wanted = kind[0] == "cgroup" and controller in kind[2].split(",")
        else:
            wanted = kind[0] == "cgroup2"
        if wanted:
            yield _plain(fields[3]), _plain(fields[4])


def _plain(name: str) -> str:
    """
    Undo what the kernel does to blanks in names.
    """
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name)


def _within(root: str, path: str) -> str | None:
    """
    Give a group's name below the root of a mount, ``None`` when it is not there.
    """
    if ".." in path.split("/") or ".." in root.split("/"):
        return None
    root = root.rstrip("/")
    if path != root and not path.startswith(f"{root}/"):
        return None
    return path.removeprefix(root).strip("/")


def _upwards(mount: str, name: str) -> tuple[str, ...]:
    parts = name.split("/") if name else []
    return tuple(
        "/".join([mount, *parts[:count]]) for count in range(len(parts), -1, -1)
    )


def _tightest(
    hierarchy: _Hierarchy, limit: Callable[[str], float | None]
) -> Limited | None:
    found: Limited | None = None
    for place in hierarchy.places:
        amount = limit(place)
        if amount is not None and (found is None or amount <= found.limit):
            found = Limited(amount, place, hierarchy.version)
    return found


def _quota_of_version_2(read: Read, place: str) -> float | None:
    path = f"{place}/cpu.max"
    text = _maybe(read, path)
    if text is None:
        return None
    quota, _, period = text.partition(" ")
    if quota == _UNLIMITED:
        return None
    return _percent(path, text, quota, period or "100000")


def _quota_of_version_1(read: Read, place: str) -> float | None:
    path = f"{place}/cpu.cfs_quota_us"
    quota, period = (
        _maybe(read, f"{place}/cpu.cfs_{name}_us") for name in ("quota", "period")
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


def _maybe(read: Read, path: str) -> str | None:
    """
    Read a file that need not be there.
    """
    try:
        return read(path).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
