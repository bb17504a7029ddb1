"""
Times of planning, from what Consul answered to the operations.

Prints a table: medians of five runs, all in one process on one core.  Run it as
``python -m benchmarks.bench_planning`` from the project's root.
"""

from __future__ import annotations

import base64
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from voltha_coord.consul.model import Entry
from voltha_coord.consul.rows import entries_of
from voltha_coord.keys import Keys
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.hash_ring import HashRingPlanner
from voltha_coord.planning.operations import Move, Plan
from voltha_coord.planning.state import ClusterState, Snapshot
from voltha_coord.records import Member, OwnerRecord

RUNS = 5
SIZES = ((1_000, 10), (10_000, 100), (100_000, 1_000))
KEYS = Keys()


def entry(key: str, value: bytes = b"", session: str | None = None) -> Entry:
    """
    Give a key as Consul would.
    """
    return Entry(key, value, create_index=7, modify_index=7, session=session)


def row(entry: Entry) -> dict[str, Any]:
    """
    Give a key as it stands in Consul's JSON.
    """
    found: dict[str, Any] = {
        "LockIndex": 0,
        "Key": entry.key,
        "Flags": 0,
        "Value": base64.b64encode(entry.value).decode() if entry.value else None,
        "CreateIndex": entry.create_index,
        "ModifyIndex": entry.modify_index,
    }
    return found | ({"Session": entry.session} if entry.session else {})


class Cluster:
    """
    A cluster of ``members`` that has divided ``items``.
    """

    def __init__(self, items: int, members: int) -> None:
        self.names = [f"voltha-{n:04}" for n in range(members)]
        self.members = [
            entry(
                KEYS.member(name),
                Member(name, version="1", host_address="10.0.0.1").encode(),
                session=f"9b5c1f0e-0000-4000-8000-{number:012}",
            )
            for number, name in enumerate(self.names)
        ]
        self.work = [
            entry(KEYS.work_item(f"device_group_{n:06}"), b"data for a group")
            for n in range(items)
        ]
        self.assignments: list[Entry] = []
        self.owners: list[Entry] = []
        placed = BalancedPlanner().plan(self.state()).placements
        self.assignments = sorted(
            (entry(KEYS.assignment(member, work)) for work, member in placed.items()),
            key=lambda e: e.key,
        )
        self.owners = [
            entry(KEYS.owner(work), OwnerRecord(member, f"session-{member}").encode())
            for work, member in placed.items()
        ]

    def snapshot(self, gone: int = 0) -> Snapshot:
        """
        Give what a leader reads, after the first ``gone`` members have gone.
        """
        return Snapshot(
            keys=KEYS,
            members=tuple(self.members[gone:]),
            work=tuple(self.work),
            assignments=tuple(self.assignments),
            owners=tuple(self.owners),
        )

    def state(self, gone: int = 0) -> ClusterState:
        """
        Give the state of the cluster.
        """
        return ClusterState.from_snapshot(self.snapshot(gone))


def from_json(rows: dict[str, list[dict[str, Any]]]) -> Snapshot:
    """
    Give the snapshot of the parsed JSON of Consul's answer.
    """
    members, work, assignments, owners = (
        entries_of(rows.get(name, ()))
        for name in ("members", "work", "assignments", "owners")
    )
    return Snapshot(
        keys=KEYS, members=members, work=work, assignments=assignments, owners=owners
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


def moved(plan: Plan) -> set[str]:
    """
    Give the items a plan moves.
    """
    return {op.work for op in plan.operations if isinstance(op, Move)}


def cases(items: int, members: int) -> Iterable[tuple[str, float, int]]:
    """
    Give, case by case, what was done, its seconds, and how many operations
    came out.
    """
    cluster = Cluster(items, members)
    balanced, ring = BalancedPlanner(), HashRingPlanner()
    fresh = Snapshot(
        keys=KEYS, members=tuple(cluster.members), work=tuple(cluster.work)
    )

    def planned(planner: BalancedPlanner | HashRingPlanner, snapshot: Snapshot) -> Plan:
        return planner.plan(ClusterState.from_snapshot(snapshot))

    same, left = cluster.snapshot(), cluster.snapshot(gone=1)
    leaving = planned(balanced, left)
    lost = {
        w
        for w, m in planned(balanced, same).placements.items()
        if m not in cluster.names[1:]
    }
    assert moved(leaving) == lost, "other items moved than those of the member gone"
    assert not planned(balanced, same).operations, "an unchanged cluster is not calm"
    for name, planner, snapshot in (
        ("balanced: first plan, nothing assigned", balanced, fresh),
        ("balanced: unchanged", balanced, same),
        ("balanced: one member left", balanced, left),
        ("hash-ring: first plan, nothing assigned", ring, fresh),
    ):
        operations = len(planned(planner, snapshot).operations)
        yield name, median(partial(planned, planner, snapshot)), operations
    rows = {
        "members": [row(e) for e in left.members],
        "work": [row(e) for e in left.work],
        "assignments": [row(e) for e in left.assignments],
    }
    yield (
        "balanced: one member left, from JSON rows (no owners)",
        median(lambda: planned(balanced, from_json(rows))),
        len(leaving.operations),
    )
    rows["owners"] = [row(e) for e in left.owners]
    yield (
        "balanced: one member left, from JSON rows",
        median(lambda: planned(balanced, from_json(rows))),
        len(leaving.operations),
    )
    state = cluster.state(gone=1)
    yield (
        "  of that, the planner alone",
        median(lambda: balanced.plan(state)),
        len(leaving.operations),
    )


def main() -> None:
    """
    Print the table.
    """
    print(f"Python {sys.version.split()[0]}, medians of {RUNS}, CPU time of one core")
    table: dict[str, list[tuple[float, int]]] = {}
    for items, members in SIZES:
        for name, seconds, operations in cases(items, members):
            table.setdefault(name, []).append((seconds, operations))
    heads = "".join(f"{f'{i:,} / {m:,}':>24}" for i, m in SIZES)
    print(f"{'items / members':<54}{heads}")
    for name, cells in table.items():
        line = "".join(f"{s * 1000:>11.1f} ms {o:>6} ops" for s, o in cells)
        print(f"{name:<54}{line}")


if __name__ == "__main__":
    main()
