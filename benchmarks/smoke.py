"""
Each kind of figure once, in one small cluster: that no benchmark rots.

Prints a line for each.  ``make bench QUICK=1`` measures more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import bench_handover
import bench_move
import bench_takeover
import bench_worker
from _bench import Bench, say
from _cluster import a_cluster
from _figures import Figure, shown
from _sandbox import Sandbox, contained


class AtOnce(Random):
    """
    Lets nobody wait.
    """

    def random(self) -> float:
        """
        Give no time at all.
        """
        return 0.0


def once(bench: Bench) -> Iterator[tuple[str, Figure]]:
    """
    Make them.
    """
    with a_cluster(bench, 2, 2, bench_takeover.QUICK) as cluster:
        owners = cluster.watch(cluster.keys.owners)
        yield "item moved", bench_move.once(cluster, owners, bench, back=False)
        bench_move.once(cluster, owners, bench, back=True)
        yield "leadership transferred", bench_handover.by_method(cluster, bench)
        yield (
            "leadership transferred by command",
            bench_handover.by_command(cluster, bench),
        )
        watching = bench_worker.Watching(cluster)
        yield "member killed", watching.once(bench, leads=True)


def work(sandbox: Sandbox) -> int:
    """
    Print them.
    """
    for what, figure in once(Bench(sandbox, None, AtOnce())):
        parts = ", ".join(f"{name} {shown(s)}" for name, s in figure.parts.items())
        say(f"{what}: {shown(figure.seconds)} ({parts})")
    return 0


if __name__ == "__main__":
    sys.exit(contained(work))
