"""
What must hold at every instant, under randomised faults on whole members.

The schedules are fixed by their seeds.  They hold pauses, partitions, slow and
late requests, lost replies, crashes, shutdowns, sessions that are destroyed,
keys that are deleted and overwritten, agents that stop or forget their checks,
and elections of Consul's servers.  Clocks run apart by a percent.  After every
step: at most one member that is not paused leads (G1), tokens rise (G2), no item
runs on two (G3).  In the end, when all is well again, one leads and everything
runs once (G4, G7).

    python -m tests.test_invariants 0 1000        other seeds, by hand
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import structlog
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.coordinator import Coordinator
from voltha_coord.testing import EmbeddedCluster

NAMES = ("a", "b", "c")

#: Between two looks, in seconds.
STEP_SECONDS = 0.02

#: Seeds of the schedules that every run of the tests makes: some of any kind.
SEEDS = range(24)

#: For so long there are faults, in seconds …
TROUBLE_SECONDS = 50.0

#: … and by so many seconds later all is well again: twice a TTL, and one more
#: for whoever waits for a session that went without a word.
RECOVERY_SECONDS = 60.0


class Violation(Exception):
    """
    Something that must hold does not.
    """


class Schedule:
    """
    One randomised history.

    :param seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = EmbeddedCluster(seed)
        self.work = {f"w{number}" for number in range(6)}
        self.token = 0
        self.led = 0
        self._last: tuple[str, int | None] = ("", None)
        self._ends: list[tuple[float, Callable[[], object]]] = []
        for name in NAMES:
            self.add(name)
        self.cluster.put_work(*sorted(self.work))

    # What must hold.

    def check(self) -> None:
        """
        Look whether everything holds at this instant.

        :raises Violation: when it does not.
        """
        leaders = self.cluster.leaders
        if len(leaders) > 1:
            raise self.violation("G1", [one.instance_id for one in leaders])
        for leader in leaders:
            self.led += 1
            now = (leader.instance_id, leader.lease.token)
            if now != self._last:
                if (now[1] or 0) <= self.token:
                    raise self.violation("token", now, self.token)
                self._last, self.token = now, now[1] or 0
        owners: dict[str, str] = {}
        for member in self.cluster.awake:
            for item in member.worker.my_workload:
                if item in owners:
                    raise self.violation("G3", item, owners[item], member.instance_id)
                owners[item] = member.instance_id

    def check_recovered(self) -> None:
        """
        Look whether all is well again.

        :raises Violation: when it is not.
        """
        if len(self.cluster.leaders) != 1:
            waiting = {
                name: member.status()["waiting_for"]
                for name, member in self.cluster.members.items()
            }
            raise self.violation("G7: no leader", waiting)
        prefix = self.cluster.keys.work
        wanted = {entry.key[len(prefix) :] for entry in self.cluster.entries(prefix)}
        running = {
            name: sorted(member.worker.my_workload)
            for name, member in self.cluster.members.items()
        }
        if {item for items in running.values() for item in items} != wanted:
            raise self.violation("G4: not running", running, sorted(wanted))

    def violation(self, *what: object) -> Violation:
        """
        Make a violation that says when.
        """
        return Violation(f"at {self.cluster.clock.seconds():.2f} s", *what)

    # Time.

    def run(self, seconds: float) -> None:
        """
        Let time pass, looking after every step.
        """
        end = self.cluster.clock.seconds() + seconds
        while (now := self.cluster.clock.seconds()) < end:
            for ending in [one for one in self._ends if one[0] <= now]:
                self._ends.remove(ending)
                ending[1]()
            self.cluster.advance(STEP_SECONDS)
            self.check()

    def play(self) -> None:
        """
        Make trouble, then let all be well again.

        :raises Violation: when something does not hold.
        """
        self.run(self.random.uniform(1, 8))
        faults = (
            *(self.pause, self.partition, self.destroy, self.delete, self.lose) * 2,
            *(self.crash, self.shut_down, self.delay, self.slow, self.refuse),
            *(self.overwrite, self.stop_agent, self.cut_agent, self.reload_agent),
            *(self.lose_consuls_leader, self.reap_node, self.change_work),
        )
        while self.cluster.clock.seconds() < TROUBLE_SECONDS:
            if self.cluster.members:
                name = self.random.choice(sorted(self.cluster.members))
                self.random.choice(faults)(name, self.cluster.members[name])
            self.run(
                self.random.choice(
                    (0.05, 0.3, self.random.uniform(0, 2), self.random.uniform(0, 12))
                )
            )
        while self._ends:
            self._ends.pop()[1]()
        self.run(12)
        while self._ends:
            self._ends.pop()[1]()
        for name in NAMES:
            if name not in self.cluster.members:
                self.add(name)
        self.run(RECOVERY_SECONDS)
        self.check_recovered()

    def later(self, most: float, call: Callable[[], object]) -> None:
        """
        Let something happen within so many seconds, or at the latest when the
        trouble is over.
        """
        when = self.cluster.clock.seconds() + self.random.uniform(0.2, most)
        self._ends.append((when, call))

    def add(self, name: str) -> None:
        """
        Add a member, if there is none of that name.
        """
        if name not in self.cluster.members:
            self.cluster.add(name, clock_rate=self.random.uniform(0.99, 1.01))

    # What may happen to a member.

    def pause(self, name: str, member: Coordinator) -> None:
        """
        Its process stands still.
        """
        self.cluster.pause(member)
        self.later(25, lambda: self._resume(name, member))

    def _resume(self, name: str, member: Coordinator) -> None:
        if self.cluster.members.get(name) is member:
            self.cluster.resume(member)

    def crash(self, name: str, member: Coordinator) -> None:
        """
        Its process is killed, and started again.
        """
        self.cluster.crash(member)
        self.later(20, lambda: self.add(name))

    def shut_down(self, name: str, member: Coordinator) -> None:
        """
        It is shut down, and started again.
        """

        def again(_: object) -> None:
            if self.cluster.members.get(name) is member:
                self.cluster.crash(member)
                self.later(5, lambda: self.add(name))

        member.shutdown().addCallback(again)

    # What may happen to its network.

    def partition(self, name: str, member: Coordinator) -> None:
        """
        Nothing passes; what was sent arrives later, or is lost.
        """
        network = self.cluster.network(member)
        network.partition()
        deliver = self.random.random() < 0.7
        self.later(40, lambda: network.heal(deliver))

    def refuse(self, name: str, member: Coordinator) -> None:
        """
        No connection is taken.
        """
        network = self.cluster.network(member)
        network.refuses = True
        self.later(10, lambda: setattr(network, "refuses", False))

    def lose(self, name: str, member: Coordinator) -> None:
        """
        Replies are lost: some, most or all, to any request or to writes alone.
        """
        network = self.cluster.network(member)
        share = self.random.choice((0.2, 0.7, 1.0))
        only = self.random.choice(("/v1/", "/v1/txn"))
        network.loses_reply = lambda request: (
            request.path.startswith(only) and self.random.random() < share
        )
        self.later(10, lambda: setattr(network, "loses_reply", lambda request: False))

    def delay(self, name: str, member: Coordinator) -> None:
        """
        Requests take their time, and those given up may arrive all the same.
        """
        network = self.cluster.network(member)
        network.lands_late = lambda request: self.random.random() < 0.7
        network.latency = lambda request: max(0.0, self.random.uniform(-8, 4))

        def end() -> None:
            network.lands_late = lambda request: False
            network.latency = lambda request: 0.0

        self.later(20, end)

    def slow(self, name: str, member: Coordinator) -> None:
        """
        Requests and replies are slow.
        """
        network = self.cluster.network(member)
        network.latency = lambda request: self.random.uniform(0, 2)
        network.reply_latency = lambda request: self.random.uniform(0, 2)

        def end() -> None:
            network.latency = network.reply_latency = lambda request: 0.0

        self.later(15, end)

    # What may happen in Consul.

    def destroy(self, name: str, member: Coordinator) -> None:
        """
        Its session is destroyed by hand.
        """
        if member.session_id is not None:
            self.cluster.consul.destroy_session(member.session_id)

    def delete(self, name: str, member: Coordinator) -> None:
        """
        A key is deleted by hand.
        """
        keys = self.cluster.keys
        key = self.random.choice((keys.leader, keys.leader, keys.member(name)))
        self._by_hand(self.cluster.api.delete(key))

    def overwrite(self, name: str, member: Coordinator) -> None:
        """
        A key is overwritten by hand.
        """
        keys = self.cluster.keys
        key = self.random.choice((keys.leader, keys.member(name)))
        value = self.random.choice((b"x", b"", b"alive", b"\xff"))
        self._by_hand(self.cluster.api.put(key, value))

    def change_work(self, name: str, member: Coordinator) -> None:
        """
        An item comes or goes.
        """
        item = f"w{self.random.randrange(10)}"
        key = self.cluster.keys.work_item(item)
        self.work ^= {item}
        if item in self.work:
            self._by_hand(self.cluster.api.put(key, b""))
        else:
            self._by_hand(self.cluster.api.delete(key))

    def _by_hand(self, done: Deferred[bool]) -> None:
        # Consul may have no leader; then it was not done.
        done.addErrback(lambda failure: None)

    def stop_agent(self, name: str, member: Coordinator) -> None:
        """
        Its agent is killed, or leaves, and comes back.
        """
        agent = self.cluster.consul.agent(f"node-of-{name}")
        if not agent.running:
            return
        self.random.choice((agent.kill, agent.leave))()

        def back() -> None:
            agent.start()
            agent.join()

        self.later(20, back)

    def cut_agent(self, name: str, member: Coordinator) -> None:
        """
        Its agent reaches no server.
        """
        agent = self.cluster.consul.agent(f"node-of-{name}")
        agent.cut_off()
        self.later(30, agent.reconnect)

    def reload_agent(self, name: str, member: Coordinator) -> None:
        """
        Its agent forgets what is registered with it.
        """
        self.cluster.consul.agent(f"node-of-{name}").reload()

    def reap_node(self, name: str, member: Coordinator) -> None:
        """
        Its node is reaped, and joins again.
        """
        node = f"node-of-{name}"
        self.cluster.consul.deregister_node(node)
        agent = self.cluster.consul.agent(node)
        self.later(5, lambda: agent.join() if agent.running else None)

    def lose_consuls_leader(self, name: str, member: Coordinator) -> None:
        """
        Consul's servers elect a leader.
        """
        self.cluster.consul.lose_leader(self.random.uniform(0.1, 12))


def play(seed: int) -> int:
    """
    Play a schedule.

    :return: at how many steps somebody led.
    :raises Violation: when something did not hold.
    """
    schedule = Schedule(seed)
    try:
        schedule.play()
    finally:
        schedule.cluster.close()
    return schedule.led


class InvariantTests(SynchronousTestCase):
    """
    Fixed seeds of randomised trouble.
    """

    def test_hold(self) -> None:
        """
        Everything that must hold does, at every step of every schedule; and the
        schedules are no walk-over: somebody leads for much of the time, not all.
        """
        with capture_logs() as logs:
            led = [play(seed) for seed in SEEDS]

        names = [entry["event"] for entry in logs]
        self.assertEqual(names.count("task-failed"), 0)
        self.assertGreater(min(led), 0.2 * RECOVERY_SECONDS / STEP_SECONDS)
        self.assertGreater(names.count("became-leader"), 3 * len(SEEDS))
        self.assertGreater(names.count("lost-consul-session"), 3 * len(SEEDS))


def main(first: int, last: int) -> None:
    """
    Play many schedules by hand, and say which seeds are to be looked at.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    for seed in range(first, last):
        try:
            play(seed)
        except Violation as violation:
            print(seed, *violation.args, flush=True)
    print(f"played seeds {first} to {last - 1}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
