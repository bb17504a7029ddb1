"""
Runs the benchmarks one after the other: all, or those that are named.

Ends with 1 if one of them failed or found something slower than is promised, but
makes the others all the same.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent

#: How a benchmark ends that somebody has ended.
INTERRUPTED = 130


def scripts(names: Sequence[str]) -> list[Path]:
    """
    Give the scripts of these names, of all by default.

    :raises SystemExit: when there is none of one of them, naming those there are.
    """
    found = {p.stem.removeprefix("bench_"): p for p in HERE.glob("bench_*.py")}
    unknown = [name for name in names if name not in found]
    if unknown:
        sys.exit(f"no benchmark {unknown[0]!r}: there are {', '.join(sorted(found))}")
    return [found[name] for name in names or sorted(found)]


def main(names: Sequence[str]) -> int:
    """
    Run them, and give the exit status.
    """
    status = 0
    for script in scripts(names):
        print(f"== {script.stem}", flush=True)
        ended = _ended(subprocess.Popen((sys.executable, script)))
        if ended in (INTERRUPTED, -signal.SIGINT):
            return INTERRUPTED
        status = status or min(abs(ended), 1)
    return status


def _ended(process: subprocess.Popen[bytes]) -> int:
    """
    Wait for a benchmark.  A Ctrl-C is its own to act upon: it has to clear up.
    """
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
