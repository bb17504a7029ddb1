"""
How long nobody acts as leader when leadership is handed over.

Three members, a hundred items, one Consul server.  A transfer is asked for in
the leader's own process (``transfer_leadership()``), or by an operator
(``voltha-coordctl transfer``, from the moment its request is in Consul); or the
leader is stopped in order (SIGTERM).  Each until the first fenced write of the
next leader, which begins its term.  The last line is about the work of a member
that is stopped: until the last of its items runs elsewhere.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from signal import SIGTERM, SIGUSR2

from _bench import Bench, Experiment, main
from _cluster import Cluster, a_cluster, wait_a_little
from _figures import Figure, Target, steps
from _http import Stuck

ITEMS = 100
PATIENCE = 30.0
TARGET = Target(0.2, "median")

#: Does it once, and gives the figure.
Once = Callable[[Cluster, Bench], Figure]


def by_method(cluster: Cluster, bench: Bench) -> Figure:
    """
    Let the leader hand over through its own interface.
    """
    cluster.until_settled()
    wait_a_little(bench.random)
    leader, session = cluster.leader, cluster.leadership.session
    signalled = cluster.members[leader].send(SIGUSR2)

    def answered() -> dict[str, float]:
        found = {r.what: r.at for r in cluster.records.since(signalled)}
        if "transfer-refused" in found:
            raise Stuck("leadership is not handed over: refused")
        return found if "transferred" in found else {}

    found = cluster.until("leadership is handed over", answered)
    asked = found["transfer-asked"]
    return _since(cluster, asked, session)


def by_command(cluster: Cluster, bench: Bench) -> Figure:
    """
    Let an operator ask for a hand-over, without saying to whom.
    """
    cluster.until_settled()
    wait_a_little(bench.random)
    session = cluster.leadership.session
    request = cluster.watch(cluster.keys.transfer)
    began = time.monotonic()
    command = [
        sys.executable, "-m", "voltha_coord.ctl", "--consul", cluster.address,
        "--prefix", cluster.keys.prefix, "transfer",
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    asked = request.first(began, lambda rows: bool(rows), PATIENCE)
    request.close()
    return _since(cluster, asked, session, began)


def by_end(cluster: Cluster, bench: Bench) -> Figure:
    """
    Stop the leader in order, and start it again.
    """
    cluster.until_settled()
    wait_a_little(bench.random)
    leader, session = cluster.leader, cluster.leadership.session
    asked = cluster.members[leader].send(SIGTERM)
    figure = _since(cluster, asked, session)
    cluster.note_end(leader)
    cluster.members[leader].start()
    return figure


def work_of(cluster: Cluster, bench: Bench) -> Figure:
    """
    Stop a member in order, and see its work elsewhere.
    """
    cluster.until_settled()
    wait_a_little(bench.random)
    leaver = cluster.follower
    items = cluster.items_of(leaver)
    asked = cluster.members[leaver].send(SIGTERM)
    ran = cluster.until_elsewhere(asked, items, leaver)
    cluster.note_end(leaver)
    cluster.members[leaver].start()
    return Figure(ran - asked)


def _since(
    cluster: Cluster, asked: float, session: str, began: float | None = None
) -> Figure:
    """
    Give what it took from when it was asked for.

    :param began: from when on it may be seen; what was asked for may itself be
        seen a little late.
    """
    since = asked if began is None else began
    passed = cluster.leadership.freed(since, session)
    held = cluster.leadership.held(since, session)
    led = cluster.leadership.begun(since, session)
    parts = {"key given": passed, "key held": held, "taking office": led}
    return Figure(led - asked, steps(asked, parts))


def repeated(
    bench: Bench, times: int, once: Once, original: bool = False
) -> list[Figure]:
    """
    Do it in a cluster again and again.
    """
    with a_cluster(bench, 3, ITEMS, original=original) as cluster:
        return [once(cluster, bench) for _ in range(times)]


EXPERIMENTS = (
    Experiment("transfer_leadership()", partial(repeated, once=by_method), 1.0, TARGET),
    Experiment(
        "voltha-coordctl transfer", partial(repeated, once=by_command), 2.5, TARGET
    ),
    Experiment("the leader is stopped", partial(repeated, once=by_end), 8.0, TARGET),
    Experiment(
        "a member is stopped, its work elsewhere", partial(repeated, once=work_of), 8.0
    ),
    Experiment(
        "the original, the leader is stopped",
        partial(repeated, once=by_end, original=True),
        20.0,
        original=True,
    ),
    Experiment(
        "the original, a member is stopped, its work elsewhere",
        partial(repeated, once=work_of, original=True),
        20.0,
        original=True,
    ),
)

if __name__ == "__main__":
    main("leadership handed over, until the next leader has written", EXPERIMENTS)
