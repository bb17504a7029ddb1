"""
Tests of a Consul that comes back empty: the work that ran goes on (G6).
"""

from __future__ import annotations

import json

from voltha_coord.forgotten import SAY_AGAIN, TROUBLE
from voltha_coord.settings import Settings

from .support.working import ClusterCase

#: A watch has looked again after so many seconds, whatever happens.
LOOK_AGAIN = Settings().watch_wait * 17 / 16

#: A description that is worth remembering.
DESCRIPTION = b'{"config": {"rate": 5}}'

WORK = ("w1", "w2", "w3", "w4")


class Base(ClusterCase):
    """
    Two members with two items each.
    """

    def setUp(self) -> None:
        """
        Let them divide the work, and come to rest.
        """
        super().setUp()
        self.members = [self.member(name) for name in "ab"]
        self.cluster.put_work(*WORK, value=DESCRIPTION)
        self.cluster.until(lambda: self.running == set(WORK))
        self.advance(5.0)
        self.before = self.placed
        self.started = self.count("start")

    @property
    def running(self) -> set[str]:
        """
        What runs, wherever it is.
        """
        return {work for items in self.placed.values() for work in items}

    @property
    def placed(self) -> dict[str, set[str]]:
        """
        What runs, by member.
        """
        return {name: set(self.workload(name)) for name in self.cluster.members}

    def count(self, verb: str) -> int:
        """
        Count calls of the runners.
        """
        return sum(len(runner.asked(verb)) for runner in self.runners.values())

    def empty(self, down: float = 0.0) -> None:
        """
        Let Consul be down, and come back without its data.
        """
        agents = self.cluster.consul.agents
        if down:
            for agent in agents:
                agent.kill()
            self.cluster.consul.lose_leader()
            self.advance(down)
        self.cluster.consul.empty()
        if down:
            for agent in agents:
                agent.start()

    def assert_kept(self, seconds: float = 20.0) -> None:
        """
        Assert that every item runs where it did, owned anew, and once.
        """
        owners = {work: name for name, items in self.before.items() for work in items}
        self.cluster.until(lambda: self.cluster.owners() == owners, seconds)
        self.cluster.until(lambda: self.placed == self.before, seconds)
        self.assertEqual(self.floor.clashes, [])

    def restore(self, *work: str) -> None:
        """
        Restore work as the log tells an operator to.
        """
        self.put(self.keys.freeze)
        self.cluster.put_work(*work, value=DESCRIPTION)
        self.advance(10.0)
        self.assertEqual(self.placed, self.before)
        self.delete(self.keys.freeze)


class EmptiedTests(Base):
    """
    What becomes of the work.
    """

    def test_goes_on(self) -> None:
        """
        When Consul loses its data at once, no item even stops.
        """
        self.empty()
        self.assert_kept()
        self.advance(60.0)

        self.assert_kept()
        self.assertEqual(self.count("stop"), 0)
        self.assertEqual(self.cluster.entries(self.keys.work), ())
        self.assertEqual(self.cluster.entries(self.keys.assignments), ())

    def test_starts_again(self) -> None:
        """
        When it was away for longer than the lease, the same members start the
        same items, with the same descriptions.
        """
        self.empty(down=20.0)
        self.assert_kept()
        self.advance(60.0)

        self.assert_kept()
        self.assertEqual(self.count("start"), 2 * self.started)
        described = {
            json.dumps(dict(item.config or {}))
            for runner in self.runners.values()
            for item in runner.items
        }
        self.assertEqual(described, {'{"rate": 5}'})

    def test_again_and_again(self) -> None:
        """
        It is kept through further outages, and further losses.
        """
        for down in (0.0, 20.0, 0.0):
            self.empty(down)
            self.assert_kept()
            self.advance(20.0)
        for agent in self.cluster.consul.agents:
            agent.kill()
        self.advance(10.0)
        for agent in self.cluster.consul.agents:
            agent.start()

        self.assert_kept()

    def test_moved_in_an_outage(self) -> None:
        """
        What was moved away from a member that was cut off goes on where it is,
        however late that one comes to know: who was cut off starts nothing.
        """
        here, away = self.members
        self.cluster.network(away).refuses = True
        self.cluster.until(lambda: self.workload("a") == set(WORK), 30.0)
        self.cluster.network(here).latency = lambda request: 1.5
        self.advance(1.0)
        self.empty()
        self.cluster.network(away).refuses = False
        self.advance(3.0)
        self.cluster.network(here).latency = lambda request: 0.0
        self.advance(30.0)

        self.assertEqual(self.floor.clashes, [])
        self.assertEqual(self.running, set(WORK))

    def test_deleted_by_mistake(self) -> None:
        """
        A prefix that is deleted as a whole is like a Consul that forgot.
        """
        self.cluster.result(
            self.cluster.api.delete(f"{self.keys.prefix}/", recurse=True)
        )
        self.advance(20.0)

        self.assert_kept()
        self.assertEqual(self.count("stop"), 0)

    def test_nobody_else_takes_it_over(self) -> None:
        """
        What a dead member kept runs nowhere: nobody knows of it.
        """
        self.empty()
        self.assert_kept()
        self.cluster.crash(self.members[0])
        self.advance(30.0)

        self.assertEqual(self.running, self.before["b"])

    def test_shut_down(self) -> None:
        """
        A member with such work shuts down within its bound, and releases it.
        """
        self.empty()
        self.assert_kept()
        done = self.members[0].shutdown()

        self.cluster.result(done, self.settings.drain_timeout + 5.0)

        self.assertEqual(self.workload("a"), set())
        self.assertEqual(set(self.cluster.owners()), self.before["b"])
        self.assertEqual(self.cluster.left_behind(self.members[0]), (0, 0))


class ToldTests(Base):
    """
    How it is said.
    """

    def test_loudly(self) -> None:
        """
        Each member says it at once, then every minute or so, until it is mended.
        """
        self.empty()
        self.assert_kept()
        said = self.logged("consul-forgot-the-work")
        self.assertEqual([one["log_level"] for one in said], ["critical"] * 2)
        self.assertEqual([one["items"] for one in said], [2, 2])

        self.advance(SAY_AGAIN + LOOK_AGAIN)

        self.assertEqual(len(self.logged("consul-forgot-the-work")), 4)
        self.restore(*WORK)
        self.advance(SAY_AGAIN + LOOK_AGAIN)
        self.assertEqual(len(self.logged("consul-knows-work-again")), 2)
        self.assertEqual(len(self.logged("consul-forgot-the-work")), 4)

    def test_with_each_item(self) -> None:
        """
        Each item says it in the member's status and under ``errors/``, until
        it is mended.
        """
        self.empty()
        self.assert_kept()
        self.advance(5.0)
        errors = [self.value(self.keys.error(work)) for work in WORK]

        self.assertEqual(errors, [TROUBLE.encode()] * 4)
        self.assertEqual(set(self.members[0].status()["errors"].values()), {TROUBLE})
        self.restore(*WORK)
        self.advance(10.0)
        self.assertEqual(self.cluster.entries(self.keys.errors), ())

    def test_costs_little(self) -> None:
        """
        It is looked at again now and then, with a few requests.
        """
        self.empty()
        self.assert_kept()
        self.advance(10.0)
        before = len(self.requests["a"])
        self.advance(60.0)
        about = [
            request for request in self.requests["a"][before:] if "/kv/" in request.path
        ]

        self.assertLess(len(about), 40)


class RestoredTests(Base):
    """
    How it ends: an operator restores the work.
    """

    def test_all(self) -> None:
        """
        Work that is restored goes on where it runs, and nothing stops.
        """
        self.empty()
        self.assert_kept()
        self.restore(*WORK)
        self.advance(20.0)

        self.assert_kept()
        self.assertEqual(self.cluster.assignments(), self.before)
        self.assertEqual(self.count("stop"), 0)

    def test_after_a_long_outage(self) -> None:
        """
        So does work that had to start again.
        """
        self.empty(down=20.0)
        self.assert_kept()
        self.restore(*WORK)
        self.advance(20.0)

        self.assert_kept()
        self.assertEqual(self.cluster.assignments(), self.before)
        self.assertEqual(self.count("stop"), self.started)

    def test_only_some(self) -> None:
        """
        What is not restored stops once the rest is assigned, on members that
        have nothing of it, too; and its owner records go.
        """
        self.empty()
        self.assert_kept()
        (kept, *_) = sorted(self.before["a"])
        self.restore(kept)
        self.advance(20.0)

        self.assertEqual(self.running, {kept})
        self.assertEqual(set(self.cluster.owners()), {kept})

    def test_changed(self) -> None:
        """
        An item that is restored as something else is told to its runner.
        """
        self.empty()
        self.assert_kept()
        self.put(self.keys.freeze)
        for work in WORK:
            self.put(self.keys.work_item(work), b'{"config": {"rate": 9}}')
        self.delete(self.keys.freeze)
        self.advance(20.0)

        self.assert_kept()
        self.assertEqual(self.count("update"), 4)

    def test_work_comes_before_its_assignments(self) -> None:
        """
        Work that is there again, and not assigned yet, is no reason to stop.
        """
        self.empty()
        self.assert_kept()
        self.put(self.keys.freeze)
        self.cluster.put_work("w1")
        self.advance(2 * LOOK_AGAIN)

        self.assert_kept()


class MistakenTests(Base):
    """
    What looks alike, and is not.
    """

    def test_all_work_removed(self) -> None:
        """
        An operator who removes all work wants it to stop.
        """
        self.cluster.remove_work(*WORK)
        self.advance(20.0)

        self.assertEqual(self.running, set())
        self.assertEqual(self.cluster.owners(), {})
        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_all_work_removed_in_an_outage(self) -> None:
        """
        So does one who removes it while the members are cut off.
        """
        for member in self.members:
            self.cluster.network(member).partition()
        self.advance(10.0)
        self.cluster.remove_work(*WORK)
        for member in self.members:
            self.cluster.network(member).heal(deliver=False)
        self.advance(20.0)

        self.assertEqual(self.running, set())
        self.assertEqual(self.cluster.owners(), {})
        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_relieved_in_an_outage(self) -> None:
        """
        So does one who removes it while a member is cut off, whose owner records
        the leader has cleared by the time it is back.
        """
        away = self.members[1]
        self.cluster.network(away).partition()
        self.advance(10.0)
        self.cluster.remove_work(*WORK)
        self.cluster.until(lambda: not self.cluster.owners())
        self.cluster.network(away).heal(deliver=False)
        self.advance(20.0)

        self.assertEqual(self.running, set())
        self.assertEqual(self.cluster.owners(), {})
        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_owner_records_deleted(self) -> None:
        """
        Owner records alone that are deleted are no loss of memory: they are
        made again.
        """
        self.cluster.result(self.cluster.api.delete(self.keys.owners, recurse=True))
        self.advance(40.0)

        self.assert_kept()
        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_assignments_deleted(self) -> None:
        """
        Assignments that are deleted are made again by the leader, and nothing
        is said of a loss.
        """
        self.cluster.result(
            self.cluster.api.delete(self.keys.assignments, recurse=True)
        )
        self.advance(30.0)

        self.assertEqual(self.running, set(WORK))
        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_assignments_and_owner_records_deleted(self) -> None:
        """
        Nor are both together a loss of memory, as long as there is work.
        """
        for prefix in (self.keys.owners, self.keys.assignments):
            self.cluster.result(self.cluster.api.delete(prefix, recurse=True))
        self.advance(40.0)

        self.assertEqual(self.running, set(WORK))
        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_work_may_not_be_read(self) -> None:
        """
        Nor when the work may not be read.
        """
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(self.keys.work)
        )
        for prefix in (self.keys.owners, self.keys.assignments):
            self.cluster.result(self.cluster.api.delete(prefix, recurse=True))
        self.advance(10.0)

        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_may_not_be_read(self) -> None:
        """
        What may not be read is not forgotten, and nothing is told to stop.
        """
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and access == "read" and name != self.keys.leader
        )
        self.advance(40.0)
        self.cluster.consul.deny = lambda resource, name, access, token: False
        self.advance(20.0)

        self.assertEqual(self.placed, self.before)
        self.assertEqual(self.logged("consul-forgot-the-work"), [])

    def test_nothing_of_ours(self) -> None:
        """
        A member that owned nothing has nothing to keep, and says nothing.
        """
        self.cluster.remove_work(*WORK)
        self.advance(20.0)
        self.empty()
        self.advance(20.0)

        self.assertEqual(self.running, set())
        self.assertEqual(self.logged("consul-forgot-the-work"), [])
