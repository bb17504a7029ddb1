"""
Times of planning by resources, the planner alone.

Prints a table: medians of five runs, all in one process on one core.  Run it as
``python -m benchmarks.bench_resources`` from the project's root; it fails when
something takes longer than is promised.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from random import Random

from attrs import evolve

from voltha_coord.planning.actions import Add, Null, Reject
from voltha_coord.planning.deployment import Deployment, Node, Wanted
from voltha_coord.planning.rebalance import rebalance
from voltha_coord.planning.relocate import relocate
from voltha_coord.planning.resources import Ledger
from voltha_coord.planning.shares import Resources, Share
from voltha_coord.planning.synchronize import Synchronized, advance, synchronize

RUNS = 5

#: What is promised: items, nodes, and how many are lost at once.
PROMISED = (10_000, 200, 50)

#: How it grows: items, with a node for every fifty of them.
GROWTH = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)

#: Seconds each may take at the size that is promised.
TARGETS = {
    "from nothing to rest": 0.5,
    "settled: nothing to do": 0.25,
    "nodes lost at once": 0.5,
    "room for two thirds only": 0.5,
}


def cluster(items: int, nodes: int) -> Deployment:
    """
    Give a state in which nothing is placed: items of all sizes, about twenty of
    each reference.
    """
    random = Random(7)
    work = [
        Wanted(
            f"device_group_{n:06}",
            limits=Share(random.randint(1, 100), random.randint(1, 100)),
            reference=f"reference-{random.randrange(max(1, items // 20))}",
            description=("config", n),
        )
        for n in range(items)
    ]
    places = {
        f"voltha-{n:04}": Node(
            f"voltha-{n:04}",
            resources=Resources(random.randint(0, 50), 4_000, 50, 4_000),
        )
        for n in range(nodes)
    }
    return Deployment(places, work)


def to_rest(state: Deployment) -> tuple[Deployment, int]:
    """
    Plan until there is nothing more to do; give the state then, and how many
    items were placed.
    """
    placed = 0
    while True:
        result = planned(state)
        added = sum(isinstance(a, Add) for a in result.operations)
        if all(isinstance(a, Null | Reject) for a in result.operations):
            return state, placed
        placed += added
        state = advance(state, result)


def planned(state: Deployment) -> Synchronized:
    """
    Go through all phases, without a budget.
    """
    result = synchronize(state, budget=None)
    ledger: Ledger = rebalance(state, result.ledger).ledger
    relocate(state, ledger, budget=None)
    return result


def lose(state: Deployment, nodes: int) -> Deployment:
    """
    Take the first nodes away, with all that they have.
    """
    gone = {*sorted(state.nodes)[:nodes]}
    return evolve(
        state,
        nodes={n: node for n, node in state.nodes.items() if n not in gone},
        processes=[p for p in state.processes if p.node not in gone],
    )


def median(run: Callable[[], object]) -> float:
    """
    Give the median of the CPU seconds that ``run`` takes.
    """
    times = []
    for _ in range(RUNS):
        gc.collect()
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def cases(items: int, nodes: int, gone: int) -> Iterable[tuple[str, float, int]]:
    """
    Give, case by case, what was done, its seconds, and how many items were
    placed.
    """
    fresh = cluster(items, nodes)
    settled, placed = to_rest(fresh)
    lost = lose(settled, gone)
    _, again = to_rest(lost)
    small = lose(fresh, nodes * 3 // 5)
    _, found_room = to_rest(small)
    yield "from nothing to rest", median(lambda: to_rest(fresh)), placed
    yield "settled: nothing to do", median(lambda: planned(settled)), 0
    yield "nodes lost at once", median(lambda: to_rest(lost)), again
    yield "room for two thirds only", median(lambda: to_rest(small)), found_room


def main() -> int:
    """
    Print the tables; give 1 if something took longer than is promised.
    """
    print(f"Python {sys.version.split()[0]}, medians of {RUNS}, CPU time of one core")
    items, nodes, gone = PROMISED
    missed = False
    print(f"{items:,} items on {nodes}, {gone} lost")
    for name, seconds, placed in cases(items, nodes, gone):
        late = seconds > TARGETS[name]
        missed |= late
        print(
            f"{name:<28}{seconds * 1000:>10.1f} ms {placed:>7} placed"
            f"   at most {TARGETS[name] * 1000:.0f} ms: {'MISSED' if late else 'met'}"
        )
    print("growth, a node for every fifty items, a quarter lost")
    for size in GROWTH:
        nodes = max(4, size // 50)
        cells = "".join(
            f"{name:>26}{seconds * 1e6 / size:>6.1f} µs each"
            for name, seconds, _ in cases(size, nodes, nodes // 4)
        )
        print(f"{size:>7,}{cells}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
