"""
How long work stands still when the process that ran it is killed.

Three members with a hundred items each, one Consul server; from SIGKILL of one
to the last of its items running on another.  Once one that does not lead is
killed, once the one that does.  The parts are seen from outside: the member key
is gone, for the one that led the next term begins, the last item is assigned to
another; it is owned and started there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from _bench import Bench, Experiment, main
from _cluster import Cluster, a_cluster, wait_a_little
from _figures import Figure, Target, steps

from voltha_coord.settings import Settings

ITEMS = 300
PATIENCE = 90.0

DEFAULTS = Settings()

#: Detection, and a second.
TARGET = Target(DEFAULTS.failure_detection + 1.0)

#: Before anybody may act for one that led, the lock-delay has to pass as well.
LEADING_TARGET = Target(DEFAULTS.failure_detection + DEFAULTS.lock_delay + 1.0)


class Watching:
    """
    Watches the work of a cluster move.
    """

    def __init__(self, cluster: Cluster) -> None:
        keys = cluster.keys
        self.cluster = cluster
        self.members = cluster.watch(keys.members)
        self.assignments = cluster.watch(keys.assignments)

    def once(self, bench: Bench, leads: bool) -> Figure:
        """
        Kill a member that leads, or one that does not.
        """
        cluster = self.cluster
        cluster.until_settled()
        wait_a_little(bench.random)
        victim = cluster.leader if leads else cluster.follower
        items, session = cluster.items_of(victim), cluster.leadership.session
        killed = cluster.kill(victim)
        ran = cluster.until_elsewhere(killed, items, victim)
        done = {"detection": self._left(killed, victim)}
        if leads:
            done["election"] = cluster.leadership.begun(killed, session)
        done["soak, plan, write"] = self._moved(killed, victim)
        done["claim, start"] = ran
        self._forget()
        cluster.members[victim].start()
        return Figure(ran - killed, steps(killed, done))

    def _left(self, since: float, victim: str) -> float:
        key = self.cluster.keys.member(victim)
        return self.members.first(since, lambda rows: key not in rows, PATIENCE)

    def _moved(self, since: float, victim: str) -> float:
        prefix = self.cluster.keys.assignments_of(victim)
        return self.assignments.first(
            since,
            lambda rows: not any(key.startswith(prefix) for key in rows),
            PATIENCE,
        )

    def _forget(self) -> None:
        self.members.forget()
        self.assignments.forget()


def repeated(
    bench: Bench,
    times: int,
    leads: bool = False,
    options: Sequence[str] = (),
    original: bool = False,
) -> list[Figure]:
    """
    Kill a member of a cluster again and again.
    """
    with a_cluster(bench, 3, ITEMS, options, original=original) as cluster:
        watching = Watching(cluster)
        return [watching.once(bench, leads) for _ in range(times)]


EXPERIMENTS = (
    Experiment("a member that does not lead", repeated, 14.0, TARGET),
    Experiment(
        "the one that leads", partial(repeated, leads=True), 14.0, LEADING_TARGET
    ),
    Experiment(
        "the original, not leading",
        partial(repeated, original=True),
        50.0,
        original=True,
    ),
    Experiment(
        "the original, leading",
        partial(repeated, leads=True, original=True),
        50.0,
        original=True,
    ),
)

if __name__ == "__main__":
    main("member killed, until all its 100 items run elsewhere", EXPERIMENTS)
