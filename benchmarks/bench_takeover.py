"""
How long a cluster is without a leader when the process that leads is killed.

From SIGKILL to the first fenced write of the next leader, which begins its term:
three members, a hundred items, one Consul server.  The parts are seen from
outside: the leader key is freed, is held again, the term begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from _bench import Bench, Experiment, main
from _cluster import Cluster, a_cluster, wait_a_little
from _figures import Figure, Target, steps

ITEMS = 100

QUICK = ("--failure-detection", "1", "--lock-delay", "0")


def once(cluster: Cluster, bench: Bench) -> Figure:
    """
    Kill the leader once.
    """
    cluster.until_settled()
    wait_a_little(bench.random)
    leader, session = cluster.leader, cluster.leadership.session
    killed = cluster.kill(leader)
    freed = cluster.leadership.freed(killed, session)
    held = cluster.leadership.held(freed, session)
    led = cluster.leadership.begun(freed, session)
    cluster.members[leader].start()
    done = {"detection": freed, "lock-delay and acquiring": held, "taking office": led}
    return Figure(led - killed, steps(killed, done))


def repeated(
    bench: Bench, times: int, options: Sequence[str] = (), original: bool = False
) -> list[Figure]:
    """
    Kill the leader of a cluster again and again.
    """
    with a_cluster(bench, 3, ITEMS, options, original=original) as cluster:
        return [once(cluster, bench) for _ in range(times)]


EXPERIMENTS = (
    Experiment("defaults", repeated, 11.0, Target(4.5)),
    Experiment(" ".join(QUICK), partial(repeated, options=QUICK), 8.0, Target(1.5)),
    Experiment("the original", partial(repeated, original=True), 40.0, original=True),
)

if __name__ == "__main__":
    main("leader killed, until the next one has written", EXPERIMENTS)
