"""
How long work stands still when a process, an agent or a machine dies: the bound
of completeness, measured.

Three Consul servers and many client agents, each on a machine of its own (a
network namespace); on each a member, and two members are a cluster.  One of them
fails in turn, once the one that leads, once the other; from then until all its
items run on the survivor.  Clusters fail side by side, each at its own moment.

A process is killed, or stopped in order.  An agent is killed, or stopped in order
(it then leaves Consul's cluster), and the member on its machine lives on.  A
machine dies: its link is pulled, and all that ran there is killed.  Each with
Consul's own verdict of a node bound to the session (``--node-health``), and
without.  Where no namespaces can be made, all share one machine, and the death of
one is not measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from signal import SIGTERM

from _bench import Bench, Experiment, main
from _cluster import Cluster, wait_a_little
from _consul import Agent, start_servers
from _figures import Figure, Target
from _members import Member
from _network import Machine

from voltha_coord.settings import Settings

#: So many clusters fail side by side.
CLUSTERS = int(os.environ.get("BENCH_CLUSTERS") or 6)

ITEMS = 20

DEFAULTS = Settings()

#: Soak and two seconds; lock-delay before that, where a session was lost.
SOON = DEFAULTS.departed_soak + 2.0
AFTERWARDS = DEFAULTS.lock_delay + SOON

#: Within so many seconds Consul finds a node failed.
NODE_FAILED_SECONDS = 7.0

PROCESS = Target(DEFAULTS.failure_detection + AFTERWARDS)
IN_ORDER = Target(SOON)
NODE = Target(3 * DEFAULTS.session_ttl + AFTERWARDS)
NODE_WITH_HEALTH = Target(NODE_FAILED_SECONDS + DEFAULTS.session_ttl + AFTERWARDS)

#: Lets a member of a cluster fail, and gives when.
Failure = Callable[[Cluster, Member], float]


def process_killed(cluster: Cluster, victim: Member) -> float:
    """
    Kill the process.
    """
    return cluster.kill(victim.name)


def process_stopped(cluster: Cluster, victim: Member) -> float:
    """
    Stop the process in order.
    """
    return victim.send(SIGTERM)


def agent_killed(cluster: Cluster, victim: Member) -> float:
    """
    Kill the agent.
    """
    at = time.monotonic()
    victim.agent.kill()
    return at


def agent_stopped(cluster: Cluster, victim: Member) -> float:
    """
    Stop the agent in order.
    """
    at = time.monotonic()
    victim.agent.terminate()
    return at


def machine_dead(cluster: Cluster, victim: Member) -> float:
    """
    Pull the link, and kill all that ran there.
    """
    machine = victim.agent.machine
    assert machine is not None
    at = time.monotonic()
    machine.down()
    victim.agent.kill()
    cluster.kill(victim.name)
    return at


def mend(cluster: Cluster, victim: Member) -> None:
    """
    Bring back whatever is missing.
    """
    if victim.agent.machine is not None:
        victim.agent.machine.up()
    if not victim.agent.alive:
        victim.agent.start()
        victim.agent.until_ready()
        if cluster.original and victim.wanted:
            # It never makes another session.
            cluster.kill(victim.name)
    if not victim.wanted:
        cluster.note_end(victim.name)
        victim.start()


class Field:
    """
    Clusters of two that fail side by side.
    """

    def __init__(self, clusters: Sequence[Cluster], bench: Bench) -> None:
        self._clusters = clusters
        self._bench = bench
        self._leading = True

    def wave(self, fail: Failure, count: int) -> list[Figure]:
        """
        Let that many clusters fail and recover, and give what each took.
        """
        clusters = self._clusters[:count]
        for cluster in clusters:
            cluster.until_settled()
        began = []
        for cluster in clusters:
            wait_a_little(self._bench.random)
            # On a busy machine Consul may have found a node failed meanwhile.
            cluster.until_settled()
            # Half of those that fail lead.
            self._leading = not self._leading
            name = cluster.leader if self._leading else cluster.follower
            items = cluster.items_of(name)
            began.append((fail(cluster, cluster.members[name]), name, items))
        figures = []
        for cluster, (at, name, items) in zip(clusters, began, strict=True):
            ran = cluster.until_elsewhere(at, items, name)
            doubled = {"items that ran twice at a time": len(cluster.twice(at))}
            figures.append(Figure(ran - at, counts=doubled))
        for cluster, (_, name, _) in zip(clusters, began, strict=True):
            mend(cluster, cluster.members[name])
        return figures


@contextmanager
def a_field(
    bench: Bench, count: int, options: Sequence[str], original: bool
) -> Iterator[Field]:
    """
    Give so many clusters, all of which have settled.
    """

    def place() -> Machine | None:
        return None if bench.network is None else bench.network.machine()

    with ExitStack() as stack:
        servers = start_servers(bench.sandbox, 3, machines=[place() for _ in range(3)])
        for server in servers:
            stack.callback(server.kill)
        clients = [
            Agent(bench.sandbox, f"client-{n}", join=servers, machine=place())
            for n in range(2 * count)
        ]
        for client in clients:
            client.start()
            stack.callback(client.kill)
        for client in clients:
            client.until_ready()
        clusters = [
            stack.enter_context(
                Cluster(
                    bench,
                    clients[2 * n : 2 * n + 2],
                    options,
                    original=original,
                    name=f"cluster-{n}",
                    ask_at=servers[0],
                )
            )
            for n in range(count)
        ]
        for cluster in clusters:
            cluster.begin(100 if original else ITEMS)
        for cluster in clusters:
            cluster.until_settled()
        yield Field(clusters, bench)


def repeated(
    bench: Bench,
    times: int,
    fail: Failure,
    options: Sequence[str] = (),
    original: bool = False,
) -> list[Figure]:
    """
    Let clusters fail until it has happened so often.
    """
    figures: list[Figure] = []
    with a_field(bench, min(CLUSTERS, times), options, original) as field:
        while len(figures) < times:
            figures += field.wave(fail, min(CLUSTERS, times - len(figures)))
    return figures


def lines(
    what: str,
    fail: Failure,
    seconds: float,
    target: Target,
    healthy: Target | None = None,
    machines: bool = False,
) -> Iterator[Experiment]:
    """
    Give the lines about a kind of failure: without node health and, where it makes
    a difference, with it, and of the original.
    """
    each = 1 / CLUSTERS
    run = partial(repeated, fail=fail)
    yield Experiment(what, run, (seconds + 12) * each, target, machines=machines)
    if healthy is not None:
        yield Experiment(
            f"{what}, --node-health",
            partial(run, options=("--node-health",)),
            (seconds / 2 + 12) * each,
            healthy,
            machines=machines,
        )
    yield Experiment(
        f"the original, {what}",
        partial(run, original=True),
        60 * each,
        original=True,
        machines=machines,
    )


EXPERIMENTS = (
    *lines("process killed", process_killed, 5.0, PROCESS),
    *lines("process stopped in order", process_stopped, 1.0, IN_ORDER),
    *lines("agent killed", agent_killed, 46.0, NODE, NODE_WITH_HEALTH),
    *lines("agent stopped in order", agent_stopped, 31.0, NODE, NODE_WITH_HEALTH),
    *lines("machine dead", machine_dead, 46.0, NODE, NODE_WITH_HEALTH, machines=True),
)

if __name__ == "__main__":
    main("something dies, until all its work runs elsewhere", EXPERIMENTS)
