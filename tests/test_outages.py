"""
Every kind of outage, to the leader and to a follower, on the embedded Consul.

The guarantees are looked at after every single event, meanwhile and afterwards
(G1, G2, G3).  Then all is as before, within the bound, without a restart (G7).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structlog.testing import capture_logs
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Op
from voltha_coord.consul.transport import Request
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster

from .support.outages import DEFECTS, OUTAGES, Outage, start_consul, stop_consul
from .support.scene import WORK, Scene

#: For so long nothing more happens once all is well, in seconds.
CALM_SECONDS = 5.0


class OutageTests(SynchronousTestCase):
    """
    One outage at a time: whatever Consul answers ends no process and costs no
    member (field reports 15 and 100), and an agent that dies is survived (field
    report 70).
    """

    def suffer(self, outage: Outage, role: str) -> None:
        """
        Let an outage begin and end, and see all become as it was.
        """
        scene = Scene(seed=1)
        self.addCleanup(scene.cluster.close)
        with capture_logs() as logs:
            scene.begin()
            member, leader = getattr(scene, role), scene.leader
            before, stops, led = scene.workloads, scene.stops, scene.terms
            scene.forgetful, scene.excepted = outage.forgetful, outage.excepted
            outage.begin(scene, member)
            scene.run(outage.seconds)
            outage.end(scene, member)

            scene.until(scene.settled, outage.within)
            scene.until(lambda: {*outage.said} <= told(logs), outage.within)
            scene.run(CALM_SECONDS)

        self.assertTrue(scene.settled(), scene.situation())
        self.assertEqual(scene.floor.clashes, [])
        self.assertEqual([one for one in logs if one["event"] in DEFECTS], [])
        if not outage.moves:
            self.assertEqual(scene.workloads, before)
            self.assertLessEqual(scene.stops - stops, len(WORK))
        if outage.unnoticed:
            self.assertEqual((scene.stops, scene.terms), (stops, led))
            self.assertIs(scene.leader, leader)


class RecoveryTests(SynchronousTestCase):
    """
    How all becomes as it was.
    """

    def play(self, settings: Settings | None = None) -> Scene:
        """
        Let three members divide the work.
        """
        self.logs = self.enterContext(capture_logs())
        scene = Scene(seed=1, settings=settings)
        self.addCleanup(scene.cluster.close)
        scene.begin()
        return scene

    def note_requests(self, scene: Scene) -> list[tuple[float, str, Request]]:
        """
        Note each request, by whom and when.
        """
        sent: list[tuple[float, str, Request]] = []

        def noting(name: str) -> Callable[[Request], float]:
            def note(request: Request) -> float:
                sent.append((scene.cluster.clock.seconds(), name, request))
                return 0.0

            return note

        for name, member in scene.cluster.members.items():
            scene.cluster.network(member).latency = noting(name)
        return sent

    def test_one_answer_wakes_all(self) -> None:
        """
        After an outage that no session was lost in, every watch has looked
        within a second and a half, whatever its back-off.
        """
        scene = self.play(Settings(failure_detection=10.0))
        member, stops = scene.follower, scene.stops
        stop_consul(scene, member)
        scene.run(7.0)
        start_consul(scene, member)
        sent = self.note_requests(scene)
        scene.run(1.5)

        asked = {request.path for _, name, request in sent if name == "a"}
        keys, name = scene.cluster.keys, "a"
        for key in (keys.leader, keys.member(name), keys.assignments_of(name)):
            self.assertIn(f"/v1/kv/{key}", asked)
        self.assertEqual(scene.stops, stops)

    def test_down_at_the_start(self) -> None:
        """
        Members that start without Consul wait for it, and begin when it is there.
        """
        scene = Scene(seed=1)
        self.addCleanup(scene.cluster.close)
        scene.populate()
        stop_consul(scene, scene.cluster.members["a"])
        scene.run(60.0)
        self.assertEqual(scene.stops, 0)

        start_consul(scene, scene.cluster.members["a"])

        scene.until(scene.settled, 10.0)
        scene.run(CALM_SECONDS)
        self.assertTrue(scene.settled())

    def test_tokens_that_fall_are_told(self) -> None:
        """
        When tokens fall, whoever leads next says so, though it never led before.
        """
        scene = self.play()
        for number in range(300):
            scene.do(Op.set(f"elsewhere/{number}", b""))
        scene.cluster.result(scene.leader.transfer_leadership())
        scene.run(5.0)
        led = scene.leader.instance_id
        scene.forgetful = True
        scene.cluster.consul.empty()
        scene.cluster.crash(scene.leader)

        scene.until(lambda: scene.cluster.leaders, 30.0)

        self.assertNotEqual(scene.leader.instance_id, led)
        self.assertIn("fencing-token-went-back", told(self.logs))

    def test_no_herd(self) -> None:
        """
        Members that lost Consul together do not come back together: of twenty,
        the first requests are spread over most of a second, and no tenth of it
        has more than a third of them (field reports 135 and 137).
        """
        cluster = EmbeddedCluster(seed=1)
        self.addCleanup(cluster.close)
        members = [cluster.add(f"m{number}") for number in range(20)]
        cluster.until(lambda: all(member.is_ready for member in members))
        cluster.advance(10.0)
        agents = [agent for agent in cluster.consul.agents if agent.node != "observer"]
        for agent in agents:
            agent.kill()
        cluster.advance(30.0)
        for agent in agents:
            agent.start()
        began = cluster.clock.seconds()
        firsts: dict[str, float] = {}

        def noting(name: str) -> Callable[[Request], float]:
            def note(request: Request) -> float:
                firsts.setdefault(name, cluster.clock.seconds() - began)
                return 0.0

            return note

        for member in members:
            cluster.network(member).latency = noting(member.instance_id)
        cluster.advance(5.0)

        tenths = Counter(int(10 * first) for first in firsts.values())
        self.assertEqual(len(firsts), 20)
        self.assertLess(max(firsts.values()), 1.1)
        self.assertGreater(max(firsts.values()) - min(firsts.values()), 0.4)
        self.assertLessEqual(max(tenths.values()), 7, tenths)
        self.assertTrue(all(member.is_ready for member in members))


def told(logs: Sequence[Mapping[str, Any]]) -> set[object]:
    """
    Give what operators were told of.
    """
    loud = ("warning", "error", "critical")
    return {one["event"] for one in logs if one["log_level"] in loud}


def _add(outage: Outage, role: str) -> None:
    def test(self: OutageTests) -> None:
        self.suffer(outage, role)

    name = re.sub(r"\W+", "_", f"{outage.name}_{role}")
    test.__name__ = f"test_{name}"
    test.__qualname__ = f"OutageTests.{test.__name__}"
    test.__doc__ = f"All is as before after: {outage.name} ({role})."
    setattr(OutageTests, test.__name__, test)


for _outage in OUTAGES:
    for _role in _outage.roles:
        _add(_outage, _role)
