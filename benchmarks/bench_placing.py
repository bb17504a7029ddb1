"""
What the resource leader takes for 10,000 items on 20 members, on a real Consul.

All items are added at once, each with limits, to a cluster that has none: from
the last of them being put until all run, and how that divides; the same with the
balanced leader.  Then what a pass costs when all are settled.  Then how long it
takes from the wish that an item be elsewhere until it runs there.

The one that leads has a process, the other members share one; they do nothing but
note what they would run.  Their leases are long: on a busy machine a process of
nineteen members is late.  Medians of ``--repeat`` clusters (3).
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _bench import load, say
from _consul import start_servers
from _http import ask, until
from _placed import Span
from _sandbox import Sandbox, contained
from attrs import frozen

from voltha_coord.keys import Keys

PATIENCE = 180.0

#: Consul takes so many operations at a time.
CHUNK = 64

VALUE = json.dumps(
    {
        "limits": {"cpu": 5, "memory": 50 * 2**20},
        "config": {"command": ["/usr/bin/serve", "--port", "8080", "--verbose"]},
        "metadata": {"wanted by": "somebody"},
    }
).encode()


@frozen
class Taken:
    """
    What a process did.

    :ivar held: how long its reactor was held at most, in seconds.
    :ivar cpu: seconds.
    """

    held: float
    cpu: float
    spans: list[Span]

    def of(self, what: str) -> list[Span]:
        """
        Give what was done of a kind.
        """
        return [span for span in self.spans if span.what == what]


class Members:
    """
    The members of one process.
    """

    def __init__(
        self, consul: str, prefix: str, leader: str, names: Sequence[str]
    ) -> None:
        script = str(Path(__file__).resolve().with_name("_placed.py"))
        self._process = subprocess.Popen(
            [sys.executable, script, consul, prefix, leader, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._cpu = 0.0
        assert self._read() == "ready"

    def ask(self, *question: str) -> Any:
        """
        Ask it something.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(question) + "\n")
        self._process.stdin.flush()
        return self._read()

    def take(self) -> Taken:
        """
        Give what it did since the last time.
        """
        found = self.ask("spans")
        spans = [Span(*span) for span in found["spans"]]
        before, self._cpu = self._cpu, found["cpu"]
        return Taken(found["held"], found["cpu"] - before, spans)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """
        End it.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Placing:
    """
    One cluster that is given work.
    """

    def __init__(self, consul: str, leader: str, items: int, members: int) -> None:
        self.keys = Keys(f"bench/placing-{leader}")
        self.consul = consul
        ask(consul, f"/v1/kv/{self.keys.prefix}/?recurse", "DELETE")
        self.names = [f"m-{number:02}" for number in range(members)]
        self.works = [f"process-{number:05}" for number in range(items)]
        # Whoever comes first leads.
        self.leading = Members(consul, self.keys.prefix, leader, self.names[:1])
        self.others = Members(consul, self.keys.prefix, leader, self.names[1:])

    def close(self) -> None:
        """
        End it.
        """
        self.others.close()
        self.leading.close()

    def add(self) -> float:
        """
        Put all work, and give when the last of it was there.
        """
        value = base64.b64encode(VALUE).decode()
        for begin in range(0, len(self.works), CHUNK):
            ops = [
                {"KV": {"Verb": "set", "Key": self.keys.work_item(w), "Value": value}}
                for w in self.works[begin : begin + CHUNK]
            ]
            ask(self.consul, "/v1/txn", "PUT", json.dumps(ops).encode())
        return time.monotonic()

    def until_running(self) -> float:
        """
        Wait until all run, and give when the last was started.
        """

        def all_run() -> float | None:
            found = [m.ask("running") for m in (self.leading, self.others)]
            count = sum(number for number, _ in found)
            return max(at for _, at in found) if count == len(self.works) else None

        return until("all items run", all_run, PATIENCE, 0.1)

    def until_reported(self) -> float:
        """
        Wait until all are reported to run, and give when that was seen.
        """

        def all_told() -> float | None:
            rows = ask(self.consul, f"/v1/kv/{self.keys.statuses}?recurse") or ()
            told = sum(
                base64.b64decode(row["Value"] or "").count(b'"state":"running"')
                for row in rows
            )
            return time.monotonic() if told >= len(self.works) else None

        return until("all items are reported", all_told, PATIENCE, 0.2)

    def move(self, work: str) -> float:
        """
        Move an item, and give how long it took.
        """
        place = self._place(work)
        assert place is not None
        target = next(name for name in self.names if name != place[0])
        began = time.monotonic()
        ask(self.consul, f"/v1/kv/{self.keys.relocation(work)}", "PUT", target.encode())

        def there() -> float | None:
            now = self._place(work)
            return now[1] if now is not None and now[0] == target else None

        return until(f"{work} is moved", there, PATIENCE, 0.02) - began

    def _place(self, work: str) -> tuple[str, float] | None:
        for members in (self.leading, self.others):
            found = members.ask("where", work)
            if found is not None:
                return found[0], found[1]
        return None


def sums(spans: Iterable[Span]) -> dict[str, float]:
    """
    Give how long each kind of thing took, all together.
    """
    found: dict[str, float] = {}
    for span in spans:
        found[span.what] = found.get(span.what, 0.0) + span.seconds
    return found


def placed(placing: Placing) -> dict[str, float]:
    """
    Add the work, and give what it took until all of it ran.
    """
    placing.leading.take()
    placing.others.take()
    put = placing.add()
    ran = placing.until_running()
    told = placing.until_reported()
    leading, others = placing.leading.take(), placing.others.take()
    writes = [span for span in leading.of("write") if span.began < ran]
    first = max(
        span.began for span in leading.of("pass") if span.began < writes[0].began
    )
    spans = [span for span in leading.spans if first <= span.began < ran]
    return {
        "all run": ran - put,
        "until the first pass": first - put,
        "all written, after that": max(s.began + s.seconds for s in writes) - first,
        "all run, after that": ran - max(s.began + s.seconds for s in writes),
        "all reported, after that": told - ran,
        "passes": sum(span.what == "pass" for span in spans),
        **{f"  {what}": seconds for what, seconds in sums(spans).items()},
        "CPU of the leading one": leading.cpu,
        "CPU of the others": others.cpu,
        "reports": len(leading.of("report")) + len(others.of("report")),
        "the leading one was held": leading.held,
    }


def at_rest(placing: Placing, seconds: float) -> dict[str, float]:
    """
    Give what a pass costs that has nothing to do.
    """
    time.sleep(min(seconds, 10.0))
    placing.leading.take()
    time.sleep(seconds)
    found = placing.leading.take()
    passes = found.of("pass")
    parts = sums(found.spans)
    return {
        "passes": len(passes),
        "CPU of one": statistics.median([span.cpu for span in passes] or [0.0]),
        **{f"  {what}": parts[what] / max(1, len(passes)) for what in parts},
        "CPU, all in all": found.cpu,
        "the leading one was held": found.held,
    }


def moved(placing: Placing, times: int) -> list[float]:
    """
    Move items, one after the other.
    """
    step = max(1, len(placing.works) // times)
    return [placing.move(work) for work in placing.works[::step][:times]]


def show(title: str, found: Sequence[Mapping[str, float]]) -> None:
    """
    Print medians.
    """
    say(f"{title}, seconds (medians of {len(found)})")
    names = dict.fromkeys(name for one in found for name in one)
    for name in names:
        middle = statistics.median(one.get(name, 0.0) for one in found)
        say(f"    {name:28}{middle:10.3f}")


def measure(consul: str, leader: str, options: argparse.Namespace) -> None:
    """
    Measure a leader, and print what was found.
    """
    placements, rests, moves = [], [], []
    for _ in range(options.repeat):
        placing = Placing(consul, leader, options.items, options.members)
        try:
            placements.append(placed(placing))
            say(f"{leader}: all run after {placements[-1]['all run']:.1f} s, {load()}")
            rests.append(at_rest(placing, options.rest))
            if leader == "resource":
                moves += moved(placing, options.moves)
        finally:
            placing.close()
    show(f"{leader}: {options.items} items on {options.members} members", placements)
    show(f"{leader}: a pass at rest", rests)
    if moves:
        middle, worst = statistics.median(moves), max(moves)
        say(f"one move, of {len(moves)}: median {middle:.2f} s, worst {worst:.2f} s")


def main() -> None:
    """
    Print all.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (
        ("repeat", os.environ.get("BENCH_REPEAT") or "3"),
        ("items", "10000"),
        ("members", "20"),
        ("moves", "12"),
        ("rest", "30"),
    ):
        parser.add_argument(f"--{name}", type=int, default=int(default), metavar="N")
    parser.add_argument("--leader", action="append", metavar="NAME")
    options = parser.parse_args()

    def work(sandbox: Sandbox) -> int:
        (server,) = start_servers(sandbox, 1)
        say(load())
        try:
            for leader in options.leader or ("resource", "balanced"):
                measure(server.address, leader, options)
        finally:
            server.kill()
        say(load())
        return 0

    sys.exit(contained(work))


if __name__ == "__main__":
    main()
