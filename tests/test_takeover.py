"""
The table "How it behaves" of the README, row by row, in seconds.

The fuller proof, on a real Consul with real processes, belongs elsewhere; here
each bound is what the settings add up to, on a clock.
"""

from __future__ import annotations

from voltha_coord.consul.transport import Response
from voltha_coord.coordinator import Coordinator
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster

from .support.embedded import ClusterTestCase

WORK = {f"w{n}" for n in range(30)}

#: Requests, wakes and jitter, beside what is waited on purpose.
SLACK = 0.6

#: After so many seconds whatever was still to be moved has been.
SETTLED = 15.0


class TakeoverTests(ClusterTestCase):
    """
    Three members, thirty items; something happens to the leader.
    """

    def settle(self, settings: Settings | None = None) -> Coordinator:
        """
        Let three members divide the work; give the one that leads.
        """
        settings = Settings() if settings is None else settings
        self.used = settings
        for name in "abc":
            self.cluster.add(name, settings=settings)
        self.cluster.put_work(*WORK)
        self.cluster.until(self.all_run, 30)
        (leader,) = self.cluster.leaders
        return leader

    def all_run(self) -> bool:
        """
        Whether every item runs, on one member each.
        """
        found = [w for m in self.cluster.awake for w in m.worker.my_workload]
        return len(found) == len(WORK) and set(found) == WORK

    def took(self, most: float) -> tuple[float, float]:
        """
        Give the seconds until somebody leads, and until all work runs.
        """
        led = self.cluster.until(lambda: bool(self.cluster.leaders), most)
        ran = led + self.cluster.until(self.all_run, most)
        return led, ran

    def test_process_dies(self) -> None:
        """
        Another leads after detection and lock-delay, and the work runs
        elsewhere at once: the time in which nobody led was soak enough.
        """
        self.cluster.crash(self.settle())

        led, ran = self.took(10)

        lead = self.used.failure_detection + self.used.lock_delay
        self.assertLess(led, lead + SLACK / 2)
        self.assertGreater(self.used.lock_delay, self.used.departed_soak)
        self.assertLess(ran, lead + self.used.worker_soak + SLACK / 2)

    def test_process_dies_quickly_noticed(self) -> None:
        """
        With a detection of a second and no lock-delay it takes two and a half.
        """
        self.cluster.crash(self.settle(Settings(failure_detection=1.0, lock_delay=0.0)))

        led, ran = self.took(10)

        self.assertLess(led, 1.0 + SLACK / 2)
        self.assertLess(ran, 2.0 + SLACK)

    def test_process_stops(self) -> None:
        """
        A member that is stopped in order hands on leadership and work at once.
        """
        leader = self.settle()
        stopped = leader.shutdown()

        led = self.cluster.until(
            lambda: any(m is not leader for m in self.cluster.leaders), 5
        )
        ran = led + self.cluster.until(self.all_run, 5)

        self.assertLess(led, 0.2)
        self.assertLess(ran, self.used.departed_soak + self.used.worker_soak + SLACK)
        self.cluster.result(stopped)

    def test_process_pauses(self) -> None:
        """
        The others take over what a paused one had; waking, it runs nothing of
        it.
        """
        leader = self.settle()
        self.cluster.pause(leader)
        self.cluster.until(self.all_run, 10)

        self.cluster.resume(leader)

        self.assertEqual(leader.worker.my_workload, set())
        self.assertFalse(leader.is_leader)

    def test_agent_dies(self) -> None:
        """
        Consul notices a dead agent after twice the session TTL; since the
        process behind it may live, one more is waited.
        """
        leader = self.settle()
        node = f"node-of-{leader.instance_id}"
        self.cluster.consul.agent(node).kill()

        ran = self.cluster.until(lambda: not leader.worker.my_workload, 5)
        ran += self.cluster.until(self.all_run, 60)

        ttl = self.used.session_ttl
        self.assertGreater(ran, 2 * ttl)
        self.assertLess(ran, 3 * 1.02 * ttl + 2.0)

    def test_machine_dies_with_node_health(self) -> None:
        """
        With ``node_health`` it is one session TTL after Consul finds the node
        failed.
        """
        leader = self.settle(Settings(node_health=True))
        node = f"node-of-{leader.instance_id}"
        self.cluster.crash(leader)
        self.cluster.consul.agent(node).kill()
        self.cluster.consul.fail_node(node)

        _, ran = self.took(30)

        self.assertLess(ran, 1.02 * self.used.session_ttl + 3.0)

    def test_agent_away(self) -> None:
        """
        A member whose agent is out of reach stops before anybody goes on with
        its work; the others do.
        """
        leader = self.settle()
        mine = leader.worker.my_workload
        others = [m for m in self.cluster.awake if m is not leader]
        self.cluster.network(leader).partition()

        self.cluster.until(lambda: not leader.worker.my_workload, 5)
        self.assertFalse(mine & {w for m in others for w in m.worker.my_workload})
        self.cluster.until(lambda: not leader.is_leader, 1)
        self.assertEqual(self.cluster.leaders, [])
        self.cluster.until(self.all_run, 5)

    def test_token_revoked(self) -> None:
        """
        A member whose token is taken back stops in time, like one that is cut
        off, and the others go on with its work.
        """
        leader = self.settle()
        denied = Response(403, {}, b"Permission denied")
        self.cluster.network(leader).instead = lambda request: denied

        stopped = self.cluster.until(lambda: not leader.worker.my_workload, 5)
        ran = stopped + self.cluster.until(self.all_run, 10)

        self.assertLess(stopped, self.used.failure_detection - self.used.grace)
        self.assertFalse(leader.is_leader)
        lead = self.used.failure_detection + self.used.lock_delay
        self.assertLess(ran, lead + self.used.worker_soak + SLACK)

    def test_consul_away(self) -> None:
        """
        When Consul is away from everybody, everybody stops, and goes on with
        the same items when it is back.
        """
        self.settle()
        before = {m.instance_id: m.worker.my_workload for m in self.cluster.awake}
        for agent in self.cluster.consul.agents:
            if agent.node.startswith("node-of-"):
                agent.kill()
        self.cluster.advance(5)
        self.assertEqual(
            [m.worker.my_workload for m in self.cluster.awake], [set()] * 3
        )

        for agent in self.cluster.consul.agents:
            agent.start()
        self.cluster.until(self.all_run, 10)

        after = {m.instance_id: m.worker.my_workload for m in self.cluster.awake}
        self.assertEqual(after, before)

    def test_all_sessions_lost(self) -> None:
        """
        When all have lost their sessions together, by an outage longer than
        their checks last, the same members run the same items once they are
        back: nothing has moved, though they do not come back at the same time.
        """
        for late in (0.0, 1.0, 2.0):
            leader = self.settle()
            running = {m.instance_id: m.worker.my_workload for m in self.members}
            written = self.placements()
            for member in self.members:
                self.cluster.network(member).partition()
            self.cluster.advance(12)
            self.assertEqual(self.sessions(), [])

            for member in sorted(self.members, key=lambda m: m is not leader):
                self.cluster.network(member).heal(deliver=False)
                self.cluster.advance(late)
            self.cluster.until(self.all_run, 10)
            self.cluster.advance(SETTLED)

            self.assertEqual(
                {m.instance_id: m.worker.my_workload for m in self.members}, running
            )
            self.assertEqual(self.placements(), written)
            self.begin_anew()

    def test_consul_restarted(self) -> None:
        """
        So it is when Consul comes back from a restart and finds that all checks
        have lapsed.
        """
        self.settle()
        running = {m.instance_id: m.worker.my_workload for m in self.members}
        written = self.placements()
        for member in self.members:
            self.cluster.network(member).refuses = True
        self.cluster.advance(8)
        self.cluster.consul.restart()
        for member in self.members:
            self.cluster.network(member).refuses = False

        self.cluster.until(self.all_run, 10)
        self.cluster.advance(SETTLED)

        self.assertEqual(
            {m.instance_id: m.worker.my_workload for m in self.members}, running
        )
        self.assertEqual(self.placements(), written)

    def test_one_does_not_come_back(self) -> None:
        """
        What one had that does not come back from an outage is moved once it has
        been waited for.
        """
        leader = self.settle()
        gone = next(m for m in self.members if m is not leader)
        others = [m for m in self.members if m is not gone]
        for member in others:
            self.cluster.network(member).partition()
        self.cluster.crash(gone)
        self.cluster.advance(8)
        for member in others:
            self.cluster.network(member).heal(deliver=False)

        took = self.cluster.until(self.all_run, 20)

        self.assertTrue(self.used.soak < took < self.used.soak + 2 * SLACK + 1.0, took)

    def test_worker_dies(self) -> None:
        """
        A leader that has been there all the while does not wait for a member
        that dies: its work runs elsewhere after detection and a short soak.
        """
        leader = self.settle()
        worker = next(m for m in self.members if m is not leader)
        self.cluster.advance(5)
        self.cluster.crash(worker)

        took = self.cluster.until(self.all_run, 10)

        bound = self.used.failure_detection + self.used.departed_soak
        self.assertLess(took, bound + self.used.worker_soak + SLACK)
        self.assertEqual(self.logged("waiting-for-members"), [])

    @property
    def members(self) -> list[Coordinator]:
        """
        Everybody.
        """
        return list(self.cluster.members.values())

    def placements(self) -> dict[str, int]:
        """
        Give when each assignment was last written.
        """
        keys = self.cluster.keys
        return {e.key: e.modify_index for e in self.cluster.entries(keys.assignments)}

    def sessions(self) -> list[str]:
        """
        Give the sessions that are alive.
        """
        return [session.id for session in self.cluster.consul.sessions.all()]

    def begin_anew(self) -> None:
        """
        Let everybody go, with all they had.
        """
        self.cluster.close()
        self.cluster = EmbeddedCluster()
        self.addCleanup(self.cluster.close)
