"""
How long one item stands still while it moves from one member to another.

From the end of stopping it on one side to its start on the other, both members
alive: two members with an item each, one Consul server.  An operator wants one of
them away (``intent/nodes/<id>``), and back.  Stopping takes nothing, 0.3 s, or
2 s; the one that waits does not know how long it will.  The parts are seen from
outside: the owner record is given up; then the item is taken and started.

The original moves what the ring says when a member joins, and asks nobody whether
it has stopped: a negative time is one in which an item ran twice.
"""

from __future__ import annotations

import time
from functools import partial
from signal import SIGTERM

from _bench import Bench, Experiment, main
from _cluster import Cluster, a_cluster, wait_a_little
from _figures import Figure, Target, steps
from _http import ask
from _observer import Observer
from _records import STARTED, STOPPED

PATIENCE = 60.0
TARGET = Target(0.1, "median")
STOPS = (0.0, 0.3, 2.0)

#: The original makes itself so many.
ORIGINAL_ITEMS = 100


def once(cluster: Cluster, owners: Observer, bench: Bench, back: bool) -> Figure:
    """
    Let the first member's item go to the second, or one of two come back.
    """
    source, target = ("m2", "m1") if back else ("m1", "m2")
    wait_a_little(bench.random, 0.5)
    asked = time.monotonic()
    key = cluster.keys.node_intent("m1")
    ask(cluster.address, f"/v1/kv/{key}", "DELETE" if back else "PUT", b"leave")

    def moved() -> tuple[str, float, float] | None:
        at = {(r.member, r.what, r.item): r.at for r in cluster.records.since(asked)}
        for member, what, item in at:
            if (member, what) == (target, STARTED) and (source, STOPPED, item) in at:
                return item, at[source, STOPPED, item], at[target, STARTED, item]
        return None

    item, stopped, started = cluster.until("the item has moved", moved)
    owner = cluster.keys.owner(item)
    given = owners.first(
        asked,
        lambda rows: owner not in rows or rows[owner].json()["owner"] != source,
        PATIENCE,
    )
    owners.forget()
    done = {"given up": given, "taken and started": started}
    return Figure(started - stopped, steps(stopped, done))


def repeated(bench: Bench, times: int, stop: float) -> list[Figure]:
    """
    Move an item to and fro.
    """
    with a_cluster(bench, 2, 2, config={"stop": stop}) as cluster:
        owners = cluster.watch(cluster.keys.owners)
        return [once(cluster, owners, bench, bool(n % 2)) for n in range(times)]


def by_original(bench: Bench, times: int) -> list[Figure]:
    """
    Let a member of the original leave and join again, for each item it is given.
    """
    figures: list[Figure] = []
    with a_cluster(bench, 3, ORIGINAL_ITEMS, original=True) as cluster:
        for _ in range(times):
            joins = cluster.follower
            cluster.members[joins].send(SIGTERM)
            cluster.note_end(joins)
            cluster.until_settled()
            left = cluster.records.all()[-1].at
            cluster.members[joins].start()
            cluster.until_settled()
            records = cluster.records.since(left)
            stops = {r.item: r.at for r in records if r.what == STOPPED}
            starts = {r.item: r.at for r in records if r.what == STARTED}
            figures += [Figure(at - stops[w]) for w, at in starts.items() if w in stops]
    return figures


EXPERIMENTS = (
    *(
        Experiment(
            f"stopping takes {stop:g} s" if stop else "stopping takes no time",
            partial(repeated, stop=stop),
            1.5 + stop,
            TARGET,
        )
        for stop in STOPS
    ),
    Experiment("the original, a member joins", by_original, 30.0, original=True),
)

if __name__ == "__main__":
    main("one item moved, stopped on one side to started on the other", EXPERIMENTS)
