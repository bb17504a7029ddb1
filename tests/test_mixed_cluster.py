"""
Tests for clusters in which members of the 2016 original and ours work together.

What holds: either may lead, follow and work; the keys and values that the other
reads are those it expects; leadership passes both ways; work is divided among
all of them.

What does not hold, and cannot, while an original is a member: the guarantees
hold among members of this library only.  An original that lost its session goes
on leading and writing, unfenced (B1, B9); it releases nothing, so that taking
over from it means waiting for its session; it heeds no owner record, so that an
item it was given may run on it while one of ours still stops it, and the other
way round; it counts what is no member as one; and on becoming leader it writes
``device_group_0001`` to ``device_group_0100`` anew.  Upgrade all members
within one maintenance window.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from voltha_coord.consul.model import Entry
from voltha_coord.coordinator import Coordinator
from voltha_coord.records import WorkItem
from voltha_coord.runners.track import TrackRunner

from .support.embedded import ClusterTestCase
from .support.original import (
    DEVICE_GROUPS,
    LEADER_SOAK_SECONDS,
    LET_LEADER_UPDATE_SECONDS,
    SESSION_TTL_SECONDS,
    OriginalMember,
    ring_owner,
)

#: From a change to items that are known to everybody's worker, in seconds.
SETTLED_SECONDS = LET_LEADER_UPDATE_SECONDS + LEADER_SOAK_SECONDS + 3.0

#: Until the session of an original that was killed is over, in seconds.
GONE_SECONDS = 2 * SESSION_TTL_SECONDS + 2.0

EVERYTHING = set(DEVICE_GROUPS)


class MixedClusterTests(ClusterTestCase):
    """
    One cluster, two generations.
    """

    def original(self, instance_id: str) -> OriginalMember:
        """
        Add a member of the original.
        """
        member = OriginalMember(self.cluster.clock, self.cluster.api, instance_id)
        member.start()
        self.addCleanup(member.kill)
        return member

    def settle(self, seconds: float = SETTLED_SECONDS) -> None:
        """
        Let everything come to rest.
        """
        self.cluster.advance(seconds)

    def leading_original(self, instance_id: str = "o") -> OriginalMember:
        """
        Add a member of the original, and let it lead.
        """
        member = self.original(instance_id)
        self.cluster.until(lambda: member.i_am_leader)
        return member

    def work_of(self, *members: Coordinator | OriginalMember) -> set[str]:
        """
        Give all that members have, each item once.
        """
        found: set[str] = set()
        for member in members:
            mine = set(member.worker.my_workload)
            self.assertEqual(found & mine, set())
            found |= mine
        return found

    def key(self, name: str) -> Entry:
        """
        Read a key that must be there.
        """
        entry = self.cluster.entry(f"service/voltha/{name}")
        assert entry is not None, name
        return entry

    # An original leads.

    def test_original_leads(self) -> None:
        """
        Ours follow an original, and run what it assigns by its hash ring.
        """
        original = self.leading_original()
        a, b = self.cluster.add("a"), self.cluster.add("b")
        self.settle()

        self.assertEqual({a.leader_id, b.leader_id}, {"o"})
        self.assertEqual((a.role, a.is_leader), ("follower", False))
        self.assertEqual(self.work_of(original, a, b), EVERYTHING)
        for member in (a, b):
            self.assertEqual(
                member.worker.my_workload,
                {w for w in EVERYTHING if ring_owner("abo", w) == member.instance_id},
            )

    def test_original_sees_our_member(self) -> None:
        """
        What we write is a member to an original: a key right under ``members/``,
        held by a session; nothing else of ours is.
        """
        original = self.leading_original()
        a = self.cluster.add("a")
        self.settle()

        assert original.leader is not None
        self.assertEqual(original.leader.members, ["a", "o"])
        self.assertEqual(self.key("members/a").session, a.session_id)

    def test_our_member_leaves_an_original(self) -> None:
        """
        One of ours that shuts down leaves no key that an original would count:
        its work is moved at once.
        """
        original = self.leading_original()
        a = self.cluster.add("a")
        self.settle()

        self.cluster.result(a.shutdown())
        self.assertEqual(self.cluster.entry(self.cluster.keys.member("a")), None)
        self.settle()

        self.assertEqual(original.worker.my_workload, EVERYTHING)
        self.assertEqual(self.cluster.owners(), {})

    def test_our_slow_member_leaves_an_original(self) -> None:
        """
        It does so before its work has stopped: an original looks at keys, not
        at what a record says, and would give it work meanwhile (G8).
        """

        class Slow(TrackRunner):
            def stop_work(self, item: WorkItem) -> Deferred[None]:  # type: ignore[override]  # slower than nothing
                return Deferred()

        self.leading_original()
        a = self.cluster.add("a", runner=Slow())
        self.settle()
        self.assertTrue(a.worker.my_workload)

        stopped = a.shutdown()
        self.cluster.advance(1)

        self.assertEqual(self.cluster.entry(self.cluster.keys.member("a")), None)
        self.assertTrue(a.worker.my_workload)
        self.cluster.result(stopped, 20)

    def test_our_member_lost_its_session(self) -> None:
        """
        One of ours whose session was ended comes back under an original, and
        gets its work again.
        """
        original = self.leading_original()
        a = self.cluster.add("a")
        self.settle()

        self.cluster.consul.destroy_session(a.session_id or "")
        self.settle()

        self.assertEqual(self.work_of(original, a), EVERYTHING)

    # Ours leads.

    def test_ours_leads(self) -> None:
        """
        An original follows ours and gets work from it, with the empty values it
        expects.
        """
        a = self.lead("a")
        original = self.original("o")
        self.cluster.put_work(*DEVICE_GROUPS)
        self.settle()

        self.assertEqual(original.leader_id, "a")
        self.assertFalse(original.i_am_leader)
        self.assertEqual(self.work_of(original, a), EVERYTHING)
        self.assertEqual(len(original.worker.my_workload), 50)
        for entry in self.cluster.entries("service/voltha/assignments/"):
            self.assertEqual(entry.value, b"")

    def test_original_is_a_member(self) -> None:
        """
        An original's record (``alive``) makes a member of weight one, that is
        said to be foreign.
        """
        a = self.lead("a")
        self.original("o")
        self.settle()

        members = {m.id: m for m in self.cluster.result(a.get_members())}

        self.assertEqual(set(members), {"a", "o"})
        self.assertEqual((members["o"].weight, members["o"].foreign), (1.0, True))
        self.assertFalse(members["a"].foreign)

    def test_original_owns_nothing(self) -> None:
        """
        An original writes no owner record; ours does for what is its own.
        """
        a = self.lead("a")
        self.original("o")
        self.cluster.put_work(*DEVICE_GROUPS)
        self.settle()

        self.assertEqual(
            self.cluster.owners(), dict.fromkeys(a.worker.my_workload, "a")
        )

    def test_original_is_killed(self) -> None:
        """
        The work of an original that was killed is ours once its session is over.
        """
        a = self.lead("a")
        original = self.original("o")
        self.cluster.put_work(*DEVICE_GROUPS)
        self.settle()

        original.kill()
        self.settle(GONE_SECONDS + 2)

        self.assertEqual(a.worker.my_workload, EVERYTHING)

    # Handing over.

    def test_original_shuts_down(self) -> None:
        """
        From an original to ours: after its end and its lock-delay ours leads,
        no TTL is waited, and nothing is unassigned for longer than that takes.
        """
        original = self.leading_original()
        a = self.cluster.add("a")
        self.settle()

        self.cluster.result(original.shutdown())
        took = self.cluster.until(lambda: a.is_leader, 10)
        self.assertLess(took, 2.0)
        self.settle()

        self.assertEqual(a.worker.my_workload, EVERYTHING)

    def test_original_leader_is_killed(self) -> None:
        """
        From an original that was killed to ours: when its session is over.
        """
        original = self.leading_original()
        a = self.cluster.add("a")
        self.settle()

        original.kill()
        took = self.cluster.until(lambda: a.is_leader, GONE_SECONDS + 5)

        self.assertLess(took, GONE_SECONDS)

    def test_ours_shuts_down(self) -> None:
        """
        From ours to an original: at once, since nothing of ours leaves a
        lock-delay; then the original writes its hundred items.
        """
        a = self.lead("a")
        original = self.original("o")
        self.settle()

        self.cluster.result(a.shutdown())
        took = self.cluster.until(lambda: original.i_am_leader, 10)
        self.assertLess(took, 1.5)
        self.settle()

        self.assertEqual(original.worker.my_workload, EVERYTHING)

    def test_there_and_back(self) -> None:
        """
        From ours to an original and back to ours: the term record of before is
        no hindrance, and the token rises.
        """
        a = self.lead("a")
        token = a.lease.token or 0
        original = self.original("o")
        self.settle()
        self.cluster.result(a.shutdown())
        self.cluster.until(lambda: original.i_am_leader, 10)
        b = self.cluster.add("b")
        self.settle()

        self.cluster.result(original.shutdown())
        self.cluster.until(lambda: b.is_leader, 5)

        self.assertGreater(b.lease.token or 0, token)

    def test_ours_is_killed(self) -> None:
        """
        From ours that was killed to an original: after detection and lock-delay;
        and back to ours once the original goes.
        """
        a = self.lead("a")
        original = self.original("o")
        self.cluster.put_work("device_group_0001")
        self.settle()

        self.cluster.crash(a)
        took = self.cluster.until(lambda: original.i_am_leader, 20)

        self.assertLess(took, 3.0 + 1.0 + 1.5)

    def test_stale_original(self) -> None:
        """
        An original that lost its session goes on believing to lead: ours leads,
        and what the other writes of assignments does not last.
        """
        original = self.leading_original()
        a = self.cluster.add("a")
        self.settle()
        self.cluster.consul.destroy_session(original.session_id or "")
        self.cluster.until(lambda: a.is_leader, 10)
        self.settle()

        self.cluster.result(
            self.cluster.api.put("service/voltha/assignments/o/device_group_0001", b"")
        )
        self.cluster.result(
            self.cluster.api.delete("service/voltha/assignments/a/device_group_0001")
        )
        self.settle(15)

        self.assertEqual(a.worker.my_workload, EVERYTHING)

    def test_original_in_the_leader_key(self) -> None:
        """
        The leader key that an original writes is read as its id, and ours as
        its: plain, nothing around it.
        """
        self.leading_original()
        self.assertEqual(self.key("leader").value, b"o")
        a = self.cluster.add("a")
        self.cluster.until(lambda: a.leader_id == "o")
        self.cluster.consul.destroy_session(self.key("leader").session or "")
        self.cluster.until(lambda: a.is_leader, 10)

        self.assertEqual(self.key("leader").value, b"a")
