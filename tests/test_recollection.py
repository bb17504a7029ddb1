"""
What a leader remembers from pass to pass.
"""

from __future__ import annotations

from attrs import evolve
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry, Op
from voltha_coord.planning.actions import Move
from voltha_coord.planning.operations import Move as Transfer
from voltha_coord.planning.operations import Plan
from voltha_coord.planning.state import ClusterState, Recalled
from voltha_coord.recollection import LostRecord, Recollection
from voltha_coord.records import PREPARE
from voltha_coord.settings import Settings

from .support.resourceful import KEYS, assigned, gone, item, resourceful

SETTINGS = Settings(node_recover_timeout=120.0, move_timeout=60.0)

#: What the wall clock shows when the lease clock shows 0.
EPOCH = 1_000_000.0


class RecollectionTests(SynchronousTestCase):
    """
    A cluster whose one member with work is gone.
    """

    def setUp(self) -> None:
        """
        Begin a term.
        """
        self.clock = Clock()
        state = resourceful({"m1": (7, 35), "m2": (1, 1)}, [item()])
        self.placed = assigned(state, "m1", item())
        self.gone = gone(self.placed, "m1", awaited=False)
        self.recollection = self.begin()

    def begin(self) -> Recollection:
        """
        Begin a term.
        """
        now = self.clock.seconds
        return Recollection(now, lambda: EPOCH + now(), KEYS, SETTINGS)

    def awaited(self, state: ClusterState) -> bool:
        """
        Whether the member is awaited.
        """
        return "m1" in self.recollection.recall(state).recalled.awaited

    def lost(self, at: float) -> ClusterState:
        """
        Give the state with a record of another leader, by the wall clock here.
        """
        record = LostRecord(EPOCH + at).encode()
        entry = Entry(KEYS.lost_member("m1"), record, modify_index=9)
        return evolve(self.gone, lost={"m1": entry})

    def test_awaited(self) -> None:
        """
        A member is awaited for ``node_recover_timeout`` from when it was first
        missed, that instant included, and not any longer.
        """
        self.clock.advance(1000.0)
        self.assertTrue(self.awaited(self.gone))
        self.clock.advance(120.0)
        self.assertTrue(self.awaited(self.gone))

        self.clock.advance(0.1)
        self.assertFalse(self.awaited(self.gone))

    def test_back(self) -> None:
        """
        One that was back meanwhile is awaited anew.
        """
        self.awaited(self.gone)
        self.clock.advance(100.0)
        self.awaited(self.placed)
        self.clock.advance(100.0)

        self.assertTrue(self.awaited(self.gone))

    def test_without_work(self) -> None:
        """
        One that has nothing is not missed.
        """
        state = evolve(self.gone, work={})

        self.assertFalse(self.awaited(state))
        self.assertEqual(self.recollection.writes(state), [])

    def test_new_leader(self) -> None:
        """
        A new leader waits anew: what another one's record says of earlier does
        not shorten that.
        """
        self.clock.advance(500.0)
        state = self.lost(0.0)

        self.assertTrue(self.awaited(state))
        self.clock.advance(119.0)
        self.assertTrue(self.awaited(state))

    def test_later_record(self) -> None:
        """
        A record of later than what is remembered counts: somebody saw the member
        in between.
        """
        self.awaited(self.gone)
        self.clock.advance(100.0)
        state = self.lost(90.0)

        self.clock.advance(100.0)
        self.assertTrue(self.awaited(state))
        self.clock.advance(11.0)
        self.assertFalse(self.awaited(state))

    def test_record_of_the_future(self) -> None:
        """
        A record of a time yet to come holds nothing up.
        """
        state = self.lost(10_000.0)
        self.awaited(state)
        self.clock.advance(121.0)

        self.assertFalse(self.awaited(state))

    def test_odd_records(self) -> None:
        """
        A record that says nothing holds nothing up either.
        """
        for value in (b"", b"\xff", b"[]", b"{}", b'{"since":"now"}'):
            entry = Entry(KEYS.lost_member("m1"), value, modify_index=9)
            self.recollection = self.begin()
            state = evolve(self.gone, lost={"m1": entry})
            self.assertTrue(self.awaited(state))
            self.clock.advance(121.0)

            self.assertFalse(self.awaited(state))

    def test_written_once(self) -> None:
        """
        That a member is missed is written once, for people to read, and never
        over what stands there.
        """
        self.awaited(self.gone)

        (written,) = self.recollection.writes(self.gone)
        self.assertEqual(
            written, (Op.cas(KEYS.lost_member("m1"), b'{"since":1000000.0}', 0),)
        )
        self.assertEqual(self.recollection.writes(self.lost(0.0)), [])

    def test_removed(self) -> None:
        """
        The record goes when the member is back, if it is still the same one.
        """
        state = evolve(self.placed, lost=self.lost(0.0).lost)
        self.awaited(state)

        self.assertEqual(
            self.recollection.writes(state),
            [(Op.delete_cas(KEYS.lost_member("m1"), 9),)],
        )

    def test_overdue_move(self) -> None:
        """
        A move is overdue once its target has had ``move_timeout``; one begun
        anew has it again.
        """
        moving = assigned(self.placed, "m2", item(), PREPARE)

        def overdue(state: ClusterState) -> dict[str, str]:
            return dict(self.recollection.recall(state).recalled.overdue)

        self.assertEqual(overdue(moving), {})
        self.clock.advance(60.0)
        self.assertEqual(overdue(moving), {})
        self.clock.advance(0.1)
        self.assertEqual(overdue(moving), {"w1": "m2 has not made it ready in 60 s"})
        overdue(self.placed)
        self.assertEqual(overdue(moving), {})

    def test_held(self) -> None:
        """
        What was given up is not tried again for as long, and the reason stands.
        """
        plan = Plan(skipped={"w1": "no"}, given_up=frozenset({"w1"}))
        self.recollection.heed(plan)

        def held(state: ClusterState) -> dict[str, str]:
            return dict(self.recollection.recall(state).recalled.held)

        self.assertEqual(held(self.placed), {"w1": "no; tried again after 60 s"})
        self.clock.advance(60.0)
        self.assertEqual(held(self.placed), {})

    def test_settling(self) -> None:
        """
        A member that something is moved from is let be for two reports; one it is
        moved to is not.
        """
        self.recollection.heed(Plan(steps=(Move("w1", "m1", "m2"),)))

        def settling() -> set[str]:
            return set(self.recollection.recall(self.placed).recalled.settling)

        self.assertEqual(settling(), {"m1"})
        self.clock.advance(9.9)
        self.assertEqual(settling(), {"m1"})
        self.clock.advance(0.1)
        self.assertEqual(settling(), set())

    def test_settling_after_a_move(self) -> None:
        """
        What it is to be measured after is the end of the move, however long its
        target has taken.
        """
        going_on = Plan(moving={"w1": "m2"}, placements={"w1": "m1"})
        done = Plan((Transfer("w1", "m1", "m2"),), {"w1": "m2"})

        def settling() -> set[str]:
            return set(self.recollection.recall(self.placed).recalled.settling)

        for plan in (Plan(steps=(Move("w1", "m1", "m2"),)), going_on, done):
            self.recollection.heed(plan)
            self.clock.advance(9.0)
            self.assertEqual(settling(), {"m1"})
        self.clock.advance(1.0)
        self.assertEqual(settling(), set())

    def test_held_and_gone(self) -> None:
        """
        What is no work any more is not remembered.
        """
        plan = Plan(skipped={"w1": "no"}, given_up=frozenset({"w1"}))
        self.recollection.heed(plan)
        self.recollection.recall(evolve(self.placed, work={}))

        self.assertEqual(self.recollection.recall(self.placed).recalled, Recalled())
