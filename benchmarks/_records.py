"""
What members recorded: which items ran where, and when.

Pure, but for reading the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attrs import frozen

STARTED, STOPPED, KILLED = "started", "stopped", "killed"


@frozen(order=True)
class Record:
    """
    One thing that happened.

    :ivar at: when, in seconds of the monotonic clock.
    :ivar what: ``started`` and ``stopped`` of an item, ``killed`` of a member,
        or something else that is to be known.
    """

    at: float
    member: str
    what: str
    item: str = "-"

    @classmethod
    def read(cls, line: str) -> Record:
        """
        Read a line of the file.
        """
        at, member, what, item = line.split()
        return cls(float(at), member, what, item)


class Records:
    """
    The file that all members of a cluster append to, and the benchmark as well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._all: list[Record] = []
        self._read = 0
        path.touch()

    def note(self, member: str, what: str) -> float:
        """
        Write down something that the benchmark does to a member, and give when.
        """
        at = time.monotonic()
        with self.path.open("a") as file:
            file.write(f"{at:.6f} {member} {what} -\n")
        return at

    def all(self) -> Sequence[Record]:
        """
        Give all that is in the file by now, in the order of time.
        """
        with self.path.open() as file:
            file.seek(self._read)
            lines = file.readlines()
            self._read = file.tell()
        if lines:
            self._all = sorted([*self._all, *map(Record.read, lines)])
        return self._all

    def since(self, at: float) -> list[Record]:
        """
        Give what has happened from then on.
        """
        return [record for record in self.all() if record.at >= at]


def running(records: Iterable[Record]) -> dict[str, str]:
    """
    Give where each item runs in the end: work id to member.
    """
    found: dict[str, str] = {}
    for record in records:
        if record.what == STARTED:
            found[record.item] = record.member
        elif record.what == STOPPED and found.get(record.item) == record.member:
            del found[record.item]
        elif record.what == KILLED:
            found = {w: m for w, m in found.items() if m != record.member}
    return found


def twice(records: Iterable[Record]) -> list[Record]:
    """
    Give each start of an item that ran already somewhere.
    """
    found: list[Record] = []
    places: dict[str, set[str]] = {}
    for record in records:
        if record.what == STARTED:
            here = places.setdefault(record.item, set())
            if here - {record.member}:
                found.append(record)
            here.add(record.member)
        elif record.what == STOPPED:
            places.get(record.item, set()).discard(record.member)
        elif record.what == KILLED:
            for here in places.values():
                here.discard(record.member)
    return found


def restarted(
    records: Iterable[Record], items: Iterable[str], elsewhere: Callable[[str], bool]
) -> float | None:
    """
    Give when the last of these items was first started on a member of that
    kind; ``None`` while one was not.
    """
    first: dict[str, float] = {}
    for record in records:
        if record.what == STARTED and elsewhere(record.member):
            first.setdefault(record.item, record.at)
    times = [first.get(item) for item in items]
    return None if None in times else max(t for t in times if t is not None)
