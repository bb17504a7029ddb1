"""
Two outages or three at a time, in any order, on the embedded Consul.

Which ones, to whom and when is decided by seeds.  The guarantees are looked at
after every single event, and in the end all is as it should be.

    python -m tests.test_outage_pairs 0 1000        other seeds, by hand
"""

from __future__ import annotations

import sys
from random import Random
from typing import NoReturn

import structlog
from structlog.testing import capture_logs
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.coordinator import Coordinator

from .support.outages import DEFECTS, OUTAGES, Outage, restore_network, resume
from .support.scene import NAMES, Scene, Violation

#: Seeds that every run of the tests plays.  Each of the first ones has shown a
#: defect once.
SEEDS = (223, 389, 401, *range(7))

#: All is well again so many seconds after the last outage: twice a TTL for a
#: stranger's session, and one for whoever waits for a session that is gone.
RECOVERY_SECONDS = 50.0


class History:
    """
    One randomised history.

    :ivar told: what happened, for people.

    :param seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.scene = Scene(seed)
        self.told: list[tuple[float, str]] = []
        self._under_way: list[tuple[float, int, Outage, Coordinator]] = []

    def play(self) -> None:
        """
        Let outages begin and end, and see all become well.

        :raises Violation: when something does not hold.
        """
        scene = self.scene
        scene.begin()
        for _ in range(self.random.choice((2, 2, 3))):
            self.begin(self.random.choice(OUTAGES))
            scene.run(
                self.random.choice(
                    (0.0, 1.0, self.random.uniform(0, 5), self.random.uniform(0, 20))
                )
            )
            self.end(scene.cluster.clock.seconds())
        self.end(float("inf"))
        self.mend()
        scene.until(scene.settled, RECOVERY_SECONDS)
        scene.run(10.0)
        scene.until(scene.settled, RECOVERY_SECONDS)

    def begin(self, outage: Outage) -> None:
        """
        Let an outage begin, if the others leave room for it.
        """
        scene = self.scene
        name = self.random.choice(NAMES)
        member = scene.cluster.members[name]
        if not outage.possible(scene, member):
            return
        now = scene.cluster.clock.seconds()
        self.tell(f"{outage.name} ({name})")
        scene.forgetful |= outage.forgetful
        scene.excepted |= outage.excepted or outage.name.startswith("restored")
        outage.begin(scene, member)
        place = now + outage.seconds, len(self.told), outage, member
        self._under_way.append(place)

    def end(self, until: float) -> None:
        """
        Let those end that are over by then.
        """
        for one in sorted(self._under_way, key=lambda one: one[:2]):
            when, _, outage, member = one
            if when > until:
                return
            self.scene.run(max(0.0, when - self.scene.cluster.clock.seconds()))
            self.tell(f"end of {outage.name}")
            outage.end(self.scene, member)
            self._under_way.remove(one)

    def mend(self) -> None:
        """
        Mend what one outage has left broken because another one came between.
        """
        scene = self.scene
        self.tell("mended")
        consul = scene.cluster.consul
        if not consul.has_leader:
            consul.elect_leader()
        for agent in scene.agents:
            if not agent.running:
                agent.start()
            agent.reconnect()
        restore_network(scene, scene.cluster.members[NAMES[0]])
        for name in sorted(scene.paused):
            resume(scene, scene.cluster.members[name])

    def tell(self, what: str) -> None:
        """
        Note what happens.
        """
        self.told.append((round(self.scene.cluster.clock.seconds(), 2), what))


def play(seed: int) -> None:
    """
    Play one history.

    :raises Violation: when something did not hold.
    """
    history = History(seed)
    try:
        history.play()
    except Violation as violation:
        raise Violation(f"seed {seed}", *violation.args, history.told) from violation
    finally:
        history.scene.cluster.close()


class PairTests(SynchronousTestCase):
    """
    Fixed seeds.
    """

    def test_hold(self) -> None:
        """
        Whatever comes together, the guarantees hold, and all becomes well.
        """
        for seed in SEEDS:
            with self.subTest(seed=seed), capture_logs() as logs:
                play(seed)
            self.assertEqual([e for e in logs if e["event"] in DEFECTS], [])


def drop(logger: object, method: str, event: object) -> NoReturn:
    """
    Say nothing.
    """
    raise structlog.DropEvent


def main(first: int, last: int) -> None:
    """
    Play many histories by hand, and say which seeds are to be looked at.
    """
    structlog.configure(processors=[drop])
    for seed in range(first, last):
        try:
            play(seed)
        except Violation as violation:
            print(*violation.args, flush=True)
    print(f"played seeds {first} to {last - 1}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
