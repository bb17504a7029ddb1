"""
Tests for the double of the 2016 original.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry

from .support.original import (
    DEVICE_GROUPS,
    LEADER_LOOP_SECONDS,
    LEADER_SOAK_SECONDS,
    LET_LEADER_UPDATE_SECONDS,
    LOCK_DELAY_SECONDS,
    SESSION_TTL_SECONDS,
    WORKER_SOAK_SECONDS,
    OriginalMember,
    ring_owner,
)
from .support.recording import RecordedConsul

#: From a start beside no leader to items that are known to their workers.
SETTLED_SECONDS = LET_LEADER_UPDATE_SECONDS + LEADER_SOAK_SECONDS + 2.0


class RingTests(SynchronousTestCase):
    """
    The original's hash ring.
    """

    def test_counts(self) -> None:
        """
        It divides the hundred items as the original did.
        """

        def counts(*members: str) -> tuple[int, ...]:
            owners = Counter(ring_owner(members, work) for work in DEVICE_GROUPS)
            return tuple(owners[member] for member in members)

        self.assertEqual(counts("a"), (100,))
        self.assertEqual(counts("a", "b"), (61, 39))
        self.assertEqual(counts("a", "b", "c"), (47, 25, 28))
        self.assertEqual(counts("voltha-1", "voltha-2", "voltha-3"), (29, 35, 36))
        self.assertEqual(counts("voltha-1", "voltha-10"), (53, 47))

    def test_owners(self) -> None:
        """
        The first ten of three members are where the original put them.
        """
        owners = [ring_owner("abc", work) for work in DEVICE_GROUPS[:10]]

        self.assertEqual("".join(owners), "bbbcacacaa")


class MemberTests(SynchronousTestCase):
    """
    Members of the original on an embedded Consul.
    """

    def setUp(self) -> None:
        """
        Have a Consul.
        """
        self.clock = Clock()
        self.consul = RecordedConsul(self.clock)
        self.members: dict[str, OriginalMember] = {}

    def tearDown(self) -> None:
        """
        A member that is killed leaves no timer of its own.
        """
        for member in self.members.values():
            member.kill()
        self.consul.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def join(self, *instance_ids: str) -> None:
        """
        Start members, and let some time go by.
        """
        for instance_id in instance_ids:
            member = OriginalMember(self.clock, self.consul.api(), instance_id)
            self.members[instance_id] = member
            member.start()
            self.pass_time(0.2)

    def pass_time(self, seconds: float) -> None:
        """
        Let the time go by in small steps.
        """
        self.clock.pump([0.05] * round(seconds / 0.05))

    def keys(self, prefix: str) -> dict[str, Entry]:
        """
        Give what stands under a prefix of the cluster.
        """
        place = f"service/voltha/{prefix}"
        return {
            entry.key.removeprefix(place): entry
            for entry in self.consul.state.kv.walk(place)
        }

    def assigned(self) -> dict[str, int]:
        """
        Count the assignments of each member.
        """
        return dict(Counter(name.split("/")[0] for name in self.keys("assignments/")))

    def test_alone(self) -> None:
        """
        One alone leads, writes the hundred items, and has them all.
        """
        self.join("a")
        self.pass_time(SETTLED_SECONDS)

        a = self.members["a"]
        self.assertTrue(a.i_am_leader)
        self.assertEqual(a.leader_id, "a")
        self.assertEqual(self.keys("leader")[""].value, b"a")
        self.assertEqual(self.keys("members/")["a"].value, b"alive")
        self.assertEqual(self.keys("members/")["a"].session, a.session_id)
        self.assertEqual(
            self.keys("work/")["device_group_0007"].value,
            b"placeholder for device group 7 data",
        )
        self.assertEqual(self.keys("assignments/a/").keys(), set(DEVICE_GROUPS))
        self.assertEqual({e.value for e in self.keys("assignments/a/").values()}, {b""})
        self.assertEqual(a.worker.my_workload, set(DEVICE_GROUPS))

    def test_two(self) -> None:
        """
        Two divide the items by the ring; only the first leads.
        """
        self.join("a", "b")
        self.pass_time(SETTLED_SECONDS)

        self.assertEqual(self.assigned(), {"a": 61, "b": 39})
        self.assertEqual(len(self.members["b"].worker.my_workload), 39)
        self.assertFalse(self.members["b"].i_am_leader)
        self.assertEqual(self.members["b"].leader_id, "a")

    def test_prefix_leak(self) -> None:
        """
        voltha-1 takes what is voltha-10's for its own (B3).
        """
        self.join("voltha-1", "voltha-10")
        self.pass_time(SETTLED_SECONDS)

        self.assertEqual(self.assigned(), {"voltha-1": 53, "voltha-10": 47})
        self.assertEqual(len(self.members["voltha-1"].worker.my_workload), 100)

    def test_stale_candidate(self) -> None:
        """
        A change that is taken back within the soak is installed all the same
        (B4).
        """
        self.join("a")
        self.pass_time(SETTLED_SECONDS)
        a = self.members["a"]
        key = "service/voltha/assignments/a/device_group_0001"

        self.success(self.consul.api().delete(key))
        self.pass_time(WORKER_SOAK_SECONDS / 2)
        self.success(self.consul.api().put(key, b""))
        self.pass_time(WORKER_SOAK_SECONDS)

        self.assertEqual(a.worker.my_workload, set(DEVICE_GROUPS[1:]))

    def test_shutdown(self) -> None:
        """
        After a shutdown the next one leads within the lock-delay and its loop's
        pause, and has all items after its soak.
        """
        self.join("a", "b")
        self.pass_time(SETTLED_SECONDS)

        self.success(self.members["a"].shutdown())
        self.pass_time(LOCK_DELAY_SECONDS + LEADER_LOOP_SECONDS + 0.2)

        self.assertTrue(self.members["b"].i_am_leader)
        self.assertEqual(self.keys("members/").keys(), {"b"})
        self.pass_time(LEADER_SOAK_SECONDS + 0.5)
        self.assertEqual(self.assigned(), {"b": 100})

    def test_session_lost(self) -> None:
        """
        A leader whose session is gone goes on leading beside the next one, and
        makes no new session (B1).
        """
        self.join("a", "b")
        self.pass_time(SETTLED_SECONDS)
        a, b = self.members["a"], self.members["b"]
        assert a.session_id is not None

        self.consul.state.destroy_session(a.session_id)
        self.pass_time(9.0)

        self.assertTrue(a.i_am_leader and b.i_am_leader)
        assert a.leader is not None
        self.assertFalse(a.leader.halted)
        self.assertEqual(self.keys("members/").keys(), {"b"})
        self.assertEqual(self.assigned(), {"b": 100})

    def test_any_key_is_a_member(self) -> None:
        """
        A key under members/ gets work, whatever it holds and whoever wrote it;
        one below it does not.
        """
        self.join("a")
        self.success(self.consul.api().put("service/voltha/members/b", b"{}"))
        self.success(self.consul.api().put("service/voltha/members/c/d", b"{}"))
        self.pass_time(SETTLED_SECONDS)

        self.assertEqual(self.assigned(), {"a": 61, "b": 39})

    def test_work_deleted(self) -> None:
        """
        Deleted work leaves its assignments (B7).
        """
        self.join("a")
        self.pass_time(SETTLED_SECONDS)

        self.success(self.consul.api().delete("service/voltha/work/", recurse=True))
        self.pass_time(SETTLED_SECONDS)

        self.assertEqual(self.assigned(), {"a": 100})

    def test_no_members(self) -> None:
        """
        A leader that sees no member deletes every assignment (B8).
        """
        self.join("a")
        self.pass_time(SETTLED_SECONDS)
        a = self.members["a"]
        assert a.session_id is not None

        self.consul.state.destroy_session(a.session_id)
        self.pass_time(SETTLED_SECONDS)

        self.assertEqual(self.assigned(), {})
        self.assertTrue(a.i_am_leader)

    def test_member_key_removed(self) -> None:
        """
        A member key that is deleted or stolen is made again.
        """
        self.join("a")

        self.success(self.consul.api().delete("service/voltha/members/a"))
        self.pass_time(0.2)

        self.assertEqual(
            self.keys("members/")["a"].session, self.members["a"].session_id
        )

    def test_leader_key_removed(self) -> None:
        """
        A leader key that is deleted is taken again within a second, without a
        new term.
        """
        self.join("a")
        leader = self.members["a"].leader

        self.success(self.consul.api().delete("service/voltha/leader"))
        self.assertEqual(self.keys("leader"), {})
        self.pass_time(LEADER_LOOP_SECONDS + 0.3)

        self.assertEqual(self.keys("leader")[""].value, b"a")
        self.assertIsNotNone(leader)
        self.assertIs(self.members["a"].leader, leader)

    def test_expiry(self) -> None:
        """
        A killed leader is followed after twice its session's TTL.
        """
        self.join("a", "b")

        self.members["a"].kill()
        self.pass_time(2 * SESSION_TTL_SECONDS - 3.5)
        self.assertFalse(self.members["b"].i_am_leader)
        self.pass_time(3.5 + LOCK_DELAY_SECONDS + LEADER_LOOP_SECONDS)

        self.assertTrue(self.members["b"].i_am_leader)

    def test_no_consul(self) -> None:
        """
        Without Consul it waits, and joins when there is one.
        """
        self.consul.agent.kill()
        self.join("a")
        self.pass_time(7.0)
        self.consul.agent.start()
        self.pass_time(6.0)

        self.assertTrue(self.members["a"].i_am_leader)
        self.assertEqual(self.members["a"].retries, 0)

    def success(self, d: Deferred[Any]) -> object:
        """
        Give the result of what is over in this moment.
        """
        self.clock.pump([0, 0, 0])
        return self.successResultOf(d)
