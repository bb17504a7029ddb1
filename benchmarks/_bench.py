"""
What every benchmark of a cluster is: experiments, repeated, in a table.

``--repeat N`` (or ``BENCH_REPEAT``) is how often each is made (30), ``--originals
N`` (``BENCH_ORIGINALS``) how often with members of the 2016 original (3), which
take ten times as long; 0 leaves them out.  ``--only TEXT`` makes those whose name
has it.  Ctrl-C ends it, and everything that it started.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import NoReturn

from _figures import HEAD, Figure, Target, line, met, notes
from _network import Network
from _sandbox import Sandbox, contained
from attrs import field, frozen


@frozen
class Bench:
    """
    What an experiment is given.

    :ivar sandbox: starts its processes.
    :ivar network: makes its machines; ``None`` where that is not allowed.
    :ivar random: at what moments things happen.
    :ivar log_level: what members log.
    """

    sandbox: Sandbox
    network: Network | None
    random: Random
    log_level: str = "info"


@frozen
class Experiment:
    """
    A line of a table.

    :ivar what: its name.
    :ivar run: makes that many repetitions.
    :ivar seconds: about what one repetition takes.
    :ivar target: what is promised.
    :ivar original: whether it is about the original.
    :ivar machines: whether it needs machines of its own.
    :ivar most: the most repetitions that are made.
    """

    what: str
    run: Callable[[Bench, int], Sequence[Figure]]
    seconds: float
    target: Target | None = None
    original: bool = field(default=False, kw_only=True)
    machines: bool = field(default=False, kw_only=True)
    most: int = field(default=1_000_000, kw_only=True)

    def times(self, options: argparse.Namespace) -> int:
        """
        Give how often it is made.
        """
        wanted: int = options.originals if self.original else options.repeat
        return min(wanted, self.most)


#: Why what needs machines is left out.
NO_MACHINES = "not measured: namespaces cannot be made here; root can"

#: Starting Consul and the members of a line takes about so long.
START_SECONDS = 15.0


def parse(arguments: Sequence[str], environment: dict[str, str]) -> argparse.Namespace:
    """
    Read the command line.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("repeat", "30"), ("originals", "3")):
        given = environment.get(f"BENCH_{name.upper()}") or default
        parser.add_argument(f"--{name}", type=int, default=int(given), metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument(
        "--no-namespaces",
        action="store_true",
        help="do as if namespaces could not be made",
    )
    parser.add_argument(
        "--keep", action="store_true", help="log all, and keep the logs and records"
    )
    return parser.parse_args(arguments)


def measure(
    title: str,
    experiments: Sequence[Experiment],
    options: argparse.Namespace,
    sandbox: Sandbox,
) -> int:
    """
    Make experiments and print their table; give 1 if one of them could not be
    made, or did not keep what is promised.
    """
    wanted = [e for e in experiments if options.only in e.what and e.times(options)]
    seconds = sum(START_SECONDS + e.seconds * e.times(options) for e in wanted)
    say(f"{title}: about {seconds / 60:.0f} min, {load()}")
    bench = Bench(
        sandbox,
        Network() if sandbox.isolated else None,
        Random(options.seed),
        "debug" if options.keep else "info",
    )
    say(*HEAD)
    told: list[str] = []
    status = 0
    began = time.monotonic()
    try:
        for experiment in wanted:
            if experiment.machines and bench.network is None:
                target = experiment.target or ""
                say(f"| {experiment.what} | 0 | | | {target} | not measured |")
                told.append(f"{experiment.what}: {NO_MACHINES}")
                continue
            figures = experiment.run(bench, experiment.times(options))
            say(line(experiment.what, figures, experiment.target))
            told += [f"{experiment.what}: {note}" for note in notes(figures)]
            if not met(figures, experiment.target):
                status = 1
    finally:
        minutes = (time.monotonic() - began) / 60
        told.append(f"{minutes:.0f} min, {load()}")
        say("", *(f"- {note}" for note in told), "")
    return status


def load() -> str:
    """
    Say what the machine is, and how busy.
    """
    averages = " ".join(f"{average:.1f}" for average in os.getloadavg())
    return f"{os.cpu_count()} cores, load average {averages}, {platform.system()}"


def say(*lines: str) -> None:
    """
    Print at once.
    """
    print(*lines, sep="\n", flush=True)


def main(title: str, experiments: Sequence[Experiment]) -> NoReturn:
    """
    Be a benchmark, in a sandbox of its own.
    """
    options = parse(sys.argv[1:], dict(os.environ))

    def work(sandbox: Sandbox) -> int:
        return measure(title, experiments, options, sandbox)

    sys.exit(contained(work, isolate=not options.no_namespaces, keep=options.keep))
