"""
Where the control groups of this process are, of either version.

# Note [Which mount]

A version 2 mount without controllers may stand beside those of version 1; then
the controllers are where ``/proc/self/cgroup`` names them.  From within a
container its own group may be all that is mounted, under its name on the host, or
in a namespace of its own under none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attrs import frozen

#: Gives the text of a file, or raises ``OSError``.
Read = Callable[[str], str]

#: Where a process sees its groups, and where they are mounted.
GROUPS, MOUNTS = "/proc/self/cgroup", "/proc/self/mountinfo"


def read_text(path: str) -> str:
    """
    Read a file of the kernel's.

    :raises OSError: when there is none, or it cannot be read.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


@frozen
class Hierarchy:
    """
    The groups of one controller.

    :ivar mount: where its root, as far as it can be seen, is mounted.
    :ivar places: the directories of this process's group and of those around it,
        the innermost first.
    """

    version: int
    mount: str
    places: tuple[str, ...]


def find(read: Read, controller: str) -> Hierarchy | None:
    """
    Find the groups of a controller; ``None`` where there are none.
    """
    groups = maybe(read, GROUPS)
    mounts = maybe(read, MOUNTS)
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
            return Hierarchy(version, mount, _upwards(mount, name))
        # Mounted from elsewhere: its top is all that can be seen.
        found = found or Hierarchy(version, mount, (mount,))
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


def maybe(read: Read, path: str) -> str | None:
    """
    Read a file that need not be there.
    """
    try:
        return read(path).strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
