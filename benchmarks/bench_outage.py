"""
What an outage of Consul does to a cluster.

First: members on client agents that stay up, and all three Consul servers are
stopped and started again five seconds later.  No leadership changes, no item is
stopped.  The time is how long Consul gives no consistent answer.

Then: a single Consul, agent and server in one with its data on disk, is down for
five seconds.  With the defaults work stops at the deadline, before Consul could
let anybody else have it, and the same members run the same items again soon after
Consul's answer; the time is from that answer to the last item running.  With
``--failure-detection 10`` nothing stops.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from _bench import Bench, Experiment, main
from _cluster import Cluster, wait_a_little
from _consul import Agent, start_servers
from _figures import Figure, Target
from _http import ask, until
from _records import STOPPED, running

DOWN_SECONDS = 5.0

#: So long after an outage somebody may still notice what it has done.
AFTERMATH_SECONDS = 10.0

ITEMS = 100
PATIENCE = 90.0

#: Work stops so long after Consul's last word at the latest: its failure detection.
DEADLINE_SECONDS = 3.0

NOTHING_STOPS = Target(None)


class Outage:
    """
    Stops Consul and starts it again, under a cluster.

    :param servers: what is stopped.
    """

    def __init__(self, cluster: Cluster, servers: Sequence[Agent]) -> None:
        self._cluster = cluster
        self._servers = servers

    def once(self, bench: Bench) -> tuple[float, float]:
        """
        Do it, and give when it began, and when Consul answered again.
        """
        self._cluster.until_settled()
        wait_a_little(bench.random, 3.0)
        began = time.monotonic()
        for server in self._servers:
            server.terminate()
        time.sleep(max(0.0, began + DOWN_SECONDS - time.monotonic()))
        for server in self._servers:
            server.start()
        until("Consul answers", self._answers, PATIENCE, 0.01)
        return began, time.monotonic()

    def _answers(self) -> bool:
        path = f"/v1/kv/{self._cluster.keys.leader}?consistent"
        return ask(self._cluster.address, path) is not None

    def survived(self, bench: Bench) -> Figure:
        """
        Do it, and see that nothing has happened.
        """
        cluster = self._cluster
        leading = cluster.leadership.term
        began, answered = self.once(bench)
        time.sleep(AFTERMATH_SECONDS)
        cluster.until_settled()
        stops = [r for r in cluster.records.since(began) if r.what == STOPPED]
        return Figure(
            answered - began,
            counts={
                "leadership changes": int(cluster.leadership.term != leading),
                "items stopped": len(stops),
            },
        )

    def recovered(self, bench: Bench) -> Figure:
        """
        Do it, and see all work stop in time, and go on where it was.
        """
        cluster = self._cluster
        cluster.until_settled()
        before = running(cluster.records.all())
        began, answered = self.once(bench)

        def again() -> bool:
            return running(cluster.records.all()) == before

        cluster.until("the same members run the same items", again)
        records = cluster.records.since(began)
        # What was not stopped has not been in time either.
        stops = {r.item: r.at - began for r in records if r.what == STOPPED}
        last = max((r.at for r in records if r.what != STOPPED), default=answered)
        moved = {r.item for r in records if before[r.item] != r.member}
        late = [w for w in before if stops.get(w, PATIENCE) > DEADLINE_SECONDS]
        return Figure(
            last - answered,
            also={
                "work had stopped after": max(stops.values(), default=PATIENCE),
                "Consul answered after": answered - began,
            },
            counts={"items elsewhere": len(moved), "items stopped late": len(late)},
        )


@contextmanager
def on_clients(
    bench: Bench, multiplier: int, options: Sequence[str], original: bool
) -> Iterator[Outage]:
    """
    Give a cluster of three members, each with a client agent; and three servers.
    """
    servers = start_servers(bench.sandbox, 3, multiplier)
    clients = [
        Agent(
            bench.sandbox,
            f"client-{n}",
            join=servers,
            raft_multiplier=multiplier,
        )
        for n in range(3)
    ]
    try:
        for client in clients:
            client.start()
        for client in clients:
            client.until_ready()
        with Cluster(bench, clients, options, original=original) as cluster:
            cluster.start(ITEMS)
            yield Outage(cluster, servers)
    finally:
        for agent in (*clients, *servers):
            agent.kill()


@contextmanager
def on_single(
    bench: Bench, multiplier: int, options: Sequence[str], original: bool
) -> Iterator[Outage]:
    """
    Give a cluster of three members on a single Consul.
    """
    servers = start_servers(bench.sandbox, 1, multiplier)
    try:
        with Cluster(bench, servers * 3, options, original=original) as cluster:
            cluster.start(ITEMS)
            yield Outage(cluster, servers)
    finally:
        for server in servers:
            server.kill()


def survived(
    bench: Bench,
    times: int,
    multiplier: int = 1,
    options: Sequence[str] = (),
    original: bool = False,
    single: bool = False,
) -> list[Figure]:
    """
    Let a cluster live through outages that it is not to notice.
    """
    place = on_single if single else on_clients
    with place(bench, multiplier, options, original) as outage:
        return [outage.survived(bench) for _ in range(times)]


def recovered(bench: Bench, times: int) -> list[Figure]:
    """
    Let a cluster live through outages that are longer than its deadline.
    """
    with on_single(bench, 1, (), False) as outage:
        return [outage.recovered(bench) for _ in range(times)]


EXPERIMENTS = (
    Experiment(
        "three servers, raft_multiplier 1", survived, 30.0, NOTHING_STOPS, most=10
    ),
    Experiment(
        "three servers, raft_multiplier 5, --session-ttl 30",
        partial(survived, multiplier=5, options=("--session-ttl", "30")),
        35.0,
        NOTHING_STOPS,
        most=10,
    ),
    Experiment("a single Consul, defaults", recovered, 18.0, Target(3.0), most=10),
    Experiment(
        "a single Consul, --failure-detection 10",
        partial(survived, single=True, options=("--failure-detection", "10")),
        25.0,
        NOTHING_STOPS,
        most=10,
    ),
    Experiment(
        "the original, three servers, raft_multiplier 5",
        partial(survived, multiplier=5, original=True),
        40.0,
        original=True,
    ),
    Experiment(
        "the original, a single Consul",
        partial(survived, single=True, original=True),
        30.0,
        original=True,
    ),
)

if __name__ == "__main__":
    main("Consul is away for five seconds", EXPERIMENTS)
