"""
What it costs the reactor of a member to tell what its processes use.

Prints a table: medians of many looks, all in one process on one core.  Run it as
``python -m benchmarks.bench_reporting`` from the project's root.  Of Consul it
needs nothing: what is measured is what is done before the write.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import structlog

from voltha_coord.collecting import Collector
from voltha_coord.consul.encoding import encode_body
from voltha_coord.consul.model import Op
from voltha_coord.consul.transaction import pack
from voltha_coord.hysteresis import MIB
from voltha_coord.item import RUNNING, Item
from voltha_coord.load import Load
from voltha_coord.measuring import MachineMeter
from voltha_coord.records import WorkItem, encode_status
from voltha_coord.runners.track import TrackRunner
from voltha_coord.usages import Sampling, Usages

LOOKS = 50
SIZES = (100, 1_000, 10_000)


class Restless(TrackRunner):
    """
    Items that use more and less at each look.
    """

    def __init__(self, restless: bool) -> None:
        self._step = 7 if restless else 0
        self._looks: Iterator[int] = count()

    def usage(self, item: WorkItem) -> Mapping[str, Any]:
        """
        Another usage than last time.
        """
        much = next(self._looks) * self._step % 37
        return {"cpu": 20.3 + much, "memory": (100 + much) * MIB + 17}


def items(number: int) -> dict[str, Item]:
    """
    Give items that run.
    """
    ids = (f"process-{n:06}" for n in range(number))
    return {
        work: Item(WorkItem(work, limits={"cpu": 90}), state=RUNNING, since=1.7e9)
        for work in ids
    }


def median(call: Callable[[], object]) -> float:
    """
    Give the milliseconds that a call takes.
    """
    times = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def line(number: int, restless: bool) -> str:
    """
    Measure, and give a line of the table.
    """
    log = structlog.get_logger()
    here = items(number)
    load = Load(MachineMeter(), 0.0, time.monotonic, log)
    usages = Usages(Restless(restless), here, log)
    sampling = Sampling(load, usages, 5.0)
    collector = Collector(here, usages, load)
    sampling.take()
    chunks = encode_status(collector.collect())

    def write() -> int:
        found = encode_status(collector.collect())
        ops = [Op.lock(str(n), chunk, "s") for n, chunk in enumerate(found)]
        return sum(len(encode_body(some)) for some in pack(ops))

    look = median(sampling.take)
    report = f"{median(write):.1f} ms" if restless else "none"
    kind = "all restless" if restless else "all calm"
    size = sum(map(len, chunks)) / 1024
    return (
        f"| {number:,}, {kind} | {look:.1f} ms | {report} | {size:,.0f} KiB in"
        f" {len(chunks)} |"
    )


def main() -> None:
    """
    Print the table.
    """
    print("| processes | a look | a report | its size, in chunks |")
    print("|---|---|---|---|")
    for number in SIZES:
        for restless in (False, True):
            print(line(number, restless), flush=True)


if __name__ == "__main__":
    main()
