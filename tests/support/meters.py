"""
Machines and meters that say what a test wants.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from voltha_coord.interfaces import IMeter

GIB = 1024**3

_Times = namedtuple("_Times", "user system idle iowait guest")
_Memory = namedtuple("_Memory", "total available")


class Files:
    """
    Files by their paths.

    :ivar texts: what is in them; an exception is raised instead.
    """

    def __init__(self, **texts: Any) -> None:
        self.texts: dict[str, Any] = texts

    def put(self, place: str, **texts: Any) -> None:
        """
        Write files of one directory; ``__`` in a name stands for a dot.
        """
        for name, text in texts.items():
            self.texts[f"{place}/{name.replace('__', '.')}"] = text

    def read(self, path: str) -> str:
        """
        Read one.
        """
        text = self.texts.get(path)
        if isinstance(text, Exception):
            raise text
        if text is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return f"{text}\n"


class Machine:
    """
    Answers like psutil.

    :ivar busy: the seconds each core has worked.
    :ivar waited: the seconds each core has waited for disks.
    :ivar guests: of the seconds worked, those each core worked for guests.
    :ivar seconds: how long the machine has run.
    :ivar total: its memory.
    :ivar used: of that, what is in use.
    :ivar failing: what it raises, ``None`` for nothing.
    """

    def __init__(self, cores: int = 4, total: int = 8 * GIB) -> None:
        self.busy = [0.0] * cores
        self.waited = [0.0] * cores
        self.guests = [0.0] * cores
        self.seconds = 1000.0
        self.total = total
        self.used = 0
        self.failing: Exception | None = None

    def work(self, seconds: float, *shares: float) -> None:
        """
        Let time pass in which each core works such a share.
        """
        self.seconds += seconds
        for core, share in enumerate(shares):
            self.busy[core] += seconds * share

    def cpu_times(self, percpu: bool) -> list[Any]:
        """
        Tell what the cores did.
        """
        self._fail()
        return [
            # As on Linux, what guests took is told once more.
            _Times(busy, 0.0, self.seconds - busy - waited, waited, guests)
            for busy, waited, guests in zip(
                self.busy, self.waited, self.guests, strict=True
            )
        ]

    def virtual_memory(self) -> Any:
        """
        Tell what memory there is.
        """
        self._fail()
        return _Memory(self.total, self.total - self.used)

    def _fail(self) -> None:
        if self.failing is not None:
            raise self.failing


@implementer(IMeter)
class SetMeter:
    """
    Says what it is told to say.

    :ivar has: the capacity.
    :ivar uses: the usage; either may be an exception.
    :ivar asked: how often for its capacity.
    """

    def __init__(self, **uses: Any) -> None:
        self.has: Any = {
            "ncpu": 4,
            "cpu_limit": 360.0,
            "memory_total": 8 * GIB,
            "memory_limit": 7 * GIB,
        }
        self.uses: Any = {"cpu": 10.0, "memory": GIB, **uses}
        self.asked = 0
        self.used: Any = None

    def capacity(self) -> Mapping[str, Any]:
        """
        Tell.
        """
        self.asked += 1
        found: Mapping[str, Any] = self._answer(self.has)
        return found

    def measure(self) -> Mapping[str, Any]:
        """
        Tell.
        """
        found: Mapping[str, Any] = self._answer(self.uses)
        return found

    def follow(self, used: Any) -> None:
        """
        Remember whom to ask.
        """
        self.used = used

    @staticmethod
    def _answer(answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer
