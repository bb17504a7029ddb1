"""
Tests for what runs where in whole clusters that are cut off from Consul, in each
isolation (G3).
"""

from __future__ import annotations

from tests.support.working import ClusterCase
from voltha_coord.consul.address import ConnectionSettings, from_environment
from voltha_coord.coordinator import Coordinator
from voltha_coord.settings import Settings

#: Longer than every lease and every timeout of these tests, in seconds.
LONG = 60.0

#: Longer than a lease, and what an emergency takes to come, in seconds.
EMERGENCY = 15.0

#: An overlap ends within so many seconds once the way to Consul is free: what
#: hangs runs into its deadline, and a session is made.
OVERLAP = 4.0

WORK = ("u", "v", "w", "x", "y", "z")


class IsolatedCase(ClusterCase):
    """
    A cluster that runs six items, and whose members can be cut off.
    """

    isolation = "stop"

    def setUp(self) -> None:
        """
        Begin with nobody.
        """
        self.settings = Settings(isolation=self.isolation, node_recover_timeout=30.0)
        super().setUp()
        self.ran: dict[str, set[str]] = {}

    def run_work(self, *names: str) -> list[Coordinator]:
        """
        Have members that have divided the work, and have looked at it.
        """
        members = [self.member(n, connection=self.connection(n)) for n in names]
        self.cluster.put_work(*WORK)
        self.cluster.until(lambda: len(self.running()) == len(WORK))
        self.advance(25)
        self.assert_settled(*WORK)
        self.ran = {name: self.runs(name) for name in names}
        for runner in self.runners.values():
            runner.calls.clear()
        return members

    @staticmethod
    def connection(name: str) -> ConnectionSettings:
        """
        Give what a member reaches Consul with: a token of its own.
        """
        return from_environment({"CONSUL_HTTP_TOKEN": name})

    def runs(self, name: str) -> set[str]:
        """
        Give what really runs on a member: what its runner was asked to start,
        and not to stop since.
        """
        running = set(self.ran.get(name, ()))
        for verb, work in self.runners[name].calls:
            if verb == "start":
                running.add(work)
            elif verb == "stop":
                running.discard(work)
        return running

    def running(self) -> dict[str, list[str]]:
        """
        Give the members that really run each item.
        """
        found: dict[str, list[str]] = {}
        for name in self.cluster.members:
            for work in self.runs(name):
                found.setdefault(work, []).append(name)
        return found

    def doubled(self) -> set[str]:
        """
        Give what runs on more than one member.
        """
        return {work for work, names in self.running().items() if len(names) > 1}

    def asked(self) -> dict[str, list[tuple[str, str]]]:
        """
        Give what the runners of members were asked, where they were.
        """
        return {
            name: [call for call in runner.calls if call[0] != "report"]
            for name, runner in self.runners.items()
            if runner.calls
        }

    def cut(self, *members: Coordinator) -> None:
        """
        Cut members off.
        """
        for member in members:
            self.cluster.network(member).partition()

    def heal(self, *members: Coordinator) -> None:
        """
        Let members reach Consul again.
        """
        for member in members:
            self.cluster.network(member).heal(deliver=False)

    def assert_divided(self) -> None:
        """
        Check that in the end each item runs once, where its owner record says.
        """
        self.advance(LONG)
        self.assertEqual(sorted(self.running()), sorted(WORK))
        self.assertEqual(self.doubled(), set())
        self.assertEqual(
            self.cluster.owners(), {w: names[0] for w, names in self.running().items()}
        )
        counts = sorted(len(self.runs(name)) for name in self.cluster.members)
        self.assertLessEqual(counts[-1] - counts[0], 1)


class StopTests(IsolatedCase):
    """
    ``stop``: nothing ever runs twice.
    """

    def test_one(self) -> None:
        """
        What a member ran that is cut off has stopped before others begin it.
        """
        _, b, _ = self.run_work("a", "b", "c")
        self.cut(b)

        self.cluster.until(lambda: not self.runs("b"), 3.0)
        self.cluster.until(lambda: len(self.running()) == len(WORK))
        self.heal(b)
        self.assert_divided()

        self.assertEqual(self.floor.clashes, [])

    def test_all(self) -> None:
        """
        Where all are cut off all stop, and go on where they were upon contact:
        nothing moves.
        """
        members = self.run_work("a", "b", "c")
        owners = self.cluster.owners()
        self.cut(*members)
        self.advance(EMERGENCY)
        self.assertEqual(self.running(), {})

        self.heal(*members)
        self.cluster.until(lambda: len(self.running()) == len(WORK))

        self.assertEqual(self.cluster.owners(), owners)
        self.assert_divided()
        self.assertEqual(self.floor.clashes, [])


class KeepTests(IsolatedCase):
    """
    ``keep``: work goes on where it is.
    """

    isolation = "keep"

    def test_alone(self) -> None:
        """
        The only member of a cluster goes on as if nothing had been, however
        often contact comes and goes.
        """
        (a,) = self.run_work("a")
        for seconds in (5, EMERGENCY, 1, LONG):
            self.cut(a)
            self.advance(seconds)
            self.assertEqual(self.workload("a"), set(WORK))
            self.heal(a)
            self.advance(8)

        self.assertEqual(self.asked(), {})
        self.assert_divided()

    def test_all(self) -> None:
        """
        Where all are cut off nothing stops, nothing starts and nothing moves,
        neither in the outage nor after it.
        """
        members = self.run_work("a", "b", "c")
        owners = self.cluster.owners()
        self.cut(*members)
        self.advance(LONG)
        self.assertEqual([one.role for one in members], ["emergency"] * 3)

        self.heal(*members)
        self.advance(LONG)

        self.assertEqual((self.asked(), self.cluster.owners()), ({}, owners))
        self.assert_settled(*WORK)

    def test_one(self) -> None:
        """
        What goes on on a member that is cut off begins on others as well; that
        is over within seconds of contact.
        """
        _, b, _ = self.run_work("a", "b", "c")
        kept = self.runs("b")
        self.cut(b)
        self.advance(EMERGENCY)
        self.assertEqual((b.role, self.doubled()), ("emergency", kept))
        self.assertEqual(self.workload("b"), kept)

        self.heal(b)
        took = self.cluster.until(lambda: not self.doubled(), OVERLAP)

        self.assertLess(took, OVERLAP)
        self.assert_divided()

    def test_before_the_emergency(self) -> None:
        """
        Work goes on from the end of the lease, and not only from the emergency.
        """
        a, b = self.run_work("a", "b")
        self.cut(a, b)
        for _ in range(20):
            self.advance(0.5)
            self.assertEqual(len(self.running()), len(WORK))
        self.heal(a, b)
        self.advance(LONG)

        self.assertEqual(self.asked(), {})

    def test_consul_restarts(self) -> None:
        """
        A Consul without a leader for half a minute stops nothing (field report 71).
        """
        self.run_work("a", "b")
        self.cluster.consul.lose_leader(30.0)
        self.advance(LONG)

        self.assertEqual(self.asked(), {})
        self.assert_settled(*WORK)

    def test_refused(self) -> None:
        """
        What goes on on a member whose token was taken back stops, once that is
        certain.
        """
        _, b = self.run_work("a", "b")
        self.cut(b)
        self.advance(EMERGENCY)
        self.cluster.consul.deny = lambda resource, name, access, token: token == "b"
        self.heal(b)
        # Requests that hang from before may break the row of answers once more.
        self.cluster.until(lambda: not self.runs("b"), 60.0)

        self.assertEqual(self.doubled(), set())
        self.assertEqual(len(self.running()), len(WORK))

    def test_paused(self) -> None:
        """
        A process that stood still finds its work taken over, and stops it as soon
        as it has asked.
        """
        _, b = self.run_work("a", "b")
        self.cluster.pause(b)
        self.advance(LONG)
        self.cluster.resume(b)
        took = self.cluster.until(lambda: not self.doubled(), OVERLAP)

        self.assertLess(took, 1.0)
        self.assert_divided()

    def test_shut_down(self) -> None:
        """
        Shutting down in an emergency stops what goes on.
        """
        (a,) = self.run_work("a")
        self.cut(a)
        self.advance(EMERGENCY)

        self.cluster.result(a.shutdown(), 15)

        self.assertEqual(self.runs("a"), set())
        self.assertEqual(self.cluster.left_behind(a), (0, 0))

    def test_hand_over(self) -> None:
        """
        An outage in the middle of a hand-over of leadership stops no work, and
        leaves one leader when it is over.
        """
        members = self.run_work("a", "b")
        leader = next(one for one in members if one.is_leader)
        other = next(one for one in members if one is not leader)
        for loses in ("loses_request", "loses_reply"):
            network = self.cluster.network(leader)
            setattr(network, loses, lambda request: b'"unlock"' in request.body)
            ended: list[object] = []
            leader.transfer_leadership(other.instance_id).addBoth(ended.append)
            self.advance(0.05)
            self.cut(*members)
            self.advance(LONG)
            self.assertEqual([one.role for one in members], ["emergency"] * 2)
            setattr(network, loses, lambda request: False)
            self.heal(*members)
            self.cluster.until(lambda: self.cluster.leaders)
            self.advance(LONG)

            self.assertEqual(len(ended), 1)
            self.assertEqual(len(self.cluster.leaders), 1)
            self.assertEqual(self.asked(), {})
            (leader,) = self.cluster.leaders
            (other,) = (one for one in members if one is not leader)


class TakeoverTests(IsolatedCase):
    """
    ``takeover``: the work of the others begins here too.
    """

    isolation = "takeover"

    def test_pair(self) -> None:
        """
        Two members that are cut off apart each run everything after
        ``node_recover_timeout``, and within seconds of contact each item runs
        once again, where it did before.
        """
        members = self.run_work("a", "b")
        owners = self.cluster.owners()
        self.cut(*members)
        self.advance(29)
        self.assertEqual(self.doubled(), set())
        self.advance(5)
        self.assertEqual(self.doubled(), set(WORK))
        self.assertEqual(self.workload("a"), set(WORK))

        self.heal(*members)
        took = self.cluster.until(lambda: not self.doubled(), OVERLAP)

        self.assertLess(took, OVERLAP)
        self.assertEqual(len(self.running()), len(WORK))
        self.advance(LONG)
        self.assertEqual(self.cluster.owners(), owners)
        self.assert_divided()

    def test_own_work_goes_on(self) -> None:
        """
        What ran here before is neither stopped nor started in all that.
        """
        members = self.run_work("a", "b")
        self.cut(*members)
        self.advance(LONG)
        self.heal(*members)
        self.advance(LONG)

        for name, own in self.ran.items():
            touched = {work for _, work in self.asked()[name]}
            self.assertEqual(touched, set(WORK) - own)

    def test_five_apart(self) -> None:
        """
        Of five members four that are cut off apart run everything: an item runs
        as often as members are cut off, and once more where Consul is reached.
        """
        members = self.run_work("a", "b", "c", "d", "e")
        self.cut(*members[1:])
        self.advance(LONG)
        self.assertEqual({len(names) for names in self.running().values()}, {5})

        self.heal(*members[1:])
        self.cluster.until(lambda: not self.doubled(), OVERLAP)

        self.assert_divided()

    def test_contact_one_by_one(self) -> None:
        """
        Contact of one member is no contact of another.
        """
        a, b = self.run_work("a", "b")
        self.cut(a, b)
        self.advance(LONG)
        self.heal(a)
        self.advance(LONG)
        self.assertEqual((a.is_leader, b.role), (True, "emergency"))
        self.assertEqual(self.doubled(), set(WORK))

        self.heal(b)
        self.cluster.until(lambda: not self.doubled(), OVERLAP)

        self.assert_divided()

    def test_leader_gone(self) -> None:
        """
        A member that is cut off takes over the work of members that are dead as
        well.
        """
        a, b = self.run_work("a", "b")
        self.cut(b)
        self.cluster.crash(a)
        self.advance(LONG)

        self.assertEqual(self.workload("b"), set(WORK))

    def test_start_fails(self) -> None:
        """
        What was taken over and cannot be started is tried again, as everything.
        """
        a, b = self.run_work("a", "b")
        theirs = sorted(self.ran["a"])
        runner = self.runners["b"]
        runner.starts[theirs[0]] = ValueError("not yet")
        self.cut(b)
        self.cluster.crash(a)
        self.advance(40)
        runner.starts.clear()
        self.advance(20)

        self.assertEqual(self.workload("b"), set(WORK))
        self.assertGreater(runner.asked("start").count(theirs[0]), 2)

    def test_maintenance(self) -> None:
        """
        A member in maintenance when it was cut off keeps what it has, and takes
        nothing over.
        """
        _, b = self.run_work("a", "b")
        self.put(self.keys.node_intent("b"), b"maintenance")
        self.advance(25)
        own = self.runs("b")
        self.cut(b)
        self.advance(LONG)

        self.assertEqual(self.runs("b"), own)

    def test_removed_work(self) -> None:
        """
        Work that an operator removed before the outage is not taken over.
        """
        a, b = self.run_work("a", "b")
        gone = sorted(self.ran["a"])[0]
        self.cluster.remove_work(gone)
        self.advance(25)
        self.cut(a, b)
        self.advance(LONG)

        self.assertNotIn(gone, self.running())

    def test_shut_down(self) -> None:
        """
        Shutting down stops what was taken over too.
        """
        a, b = self.run_work("a", "b")
        self.cut(b)
        self.cluster.crash(a)
        self.advance(LONG)

        self.cluster.result(b.shutdown(), 15)

        self.assertEqual(self.runs("b"), set())
        self.assertEqual(self.cluster.left_behind(b), (0, 0))

    def test_paused(self) -> None:
        """
        A process that stood still takes nothing over on waking (with Consul there
        all the while).
        """
        _, b = self.run_work("a", "b")
        self.cut(b)
        self.advance(5)
        self.cluster.pause(b)
        self.advance(300)
        self.heal(b)
        self.cluster.resume(b)
        self.advance(LONG)

        self.assertEqual(self.logged("work-taken-over"), [])
        self.assert_divided()


class DeterminismTests(IsolatedCase):
    """
    One seed, one history.
    """

    isolation = "takeover"

    def history(self) -> list[tuple[str, str, str]]:
        """
        Give what the runners are asked in an outage, with ids whose hashes
        differ from process to process.
        """
        self.setUp()
        members = self.run_work("a", "b")
        self.cut(*members)
        self.advance(LONG)
        self.heal(*members)
        self.advance(LONG)
        return [(n, *call) for n, r in self.runners.items() for call in r.calls]

    def test_in_order(self) -> None:
        """
        Items are taken over in the order of their ids, and given up in it.
        """
        for name in ("a", "b"):
            calls = [call for call in self.history() if call[0] == name]
            for verb in ("start", "stop"):
                works = [work for _, v, work in calls if v == verb]
                self.assertEqual(works, sorted(works))
