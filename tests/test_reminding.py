"""
Tests for :mod:`voltha_coord.reminding`.
"""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from tests.support.clusters import cluster
from voltha_coord.consul.model import Entry, Op
from voltha_coord.keys import Keys
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import Member
from voltha_coord.reminding import Reminders

KEYS = Keys("service/voltha")


class RemindersTests(SynchronousTestCase):
    """
    Note [Reminding].
    """

    def setUp(self) -> None:
        """
        Make a cluster in which ``a`` has two items, and owns one.
        """
        self.reminders = Reminders(KEYS, 10.0)
        self.state = self.owned(cluster(["a"], ["w1", "w2"], {"a": ["w1", "w2"]}), "w2")

    def owned(self, state: ClusterState, *work: str) -> ClusterState:
        """
        Give the state with owner records of these items and no other.
        """
        return evolve(
            state, owner_entries={w: Entry(KEYS.owner(w), modify_index=7) for w in work}
        )

    def due(self, now: float, state: ClusterState | None = None) -> list[str]:
        """
        Give the items that are due, and note that they are reminded of.
        """
        state = self.state if state is None else state
        due = self.reminders.due(evolve(state, now=now))
        self.reminders.made(due)
        return [work for _, work in due]

    def test_assigned_anew(self) -> None:
        """
        An item without an owner record is assigned anew after a while, with
        the value its assignment has.
        """
        state = evolve(self.state, assignments={"a": {"w1": b"x", "w2": b""}})
        key = KEYS.assignment("a", "w1")

        early = self.reminders.due(state), self.reminders.due(evolve(state, now=9.9))
        due = self.reminders.due(evolve(state, now=10.0))

        self.assertEqual(early, ({}, {}))
        self.assertEqual(due, {("s", "w1"): (Op.delete(key), Op.set(key, b"x"))})

    def test_until_written(self) -> None:
        """
        A reminder that could not be written is due again.
        """
        self.due(0.0)
        for now in (10.0, 11.0):
            due = self.reminders.due(evolve(self.state, now=now))
            self.assertEqual(list(due), [("s", "w1")])

    def test_once(self) -> None:
        """
        A member is reminded once, whatever comes of it; and again once the
        item had an owner record meanwhile, or the member another session.
        """
        self.assertEqual(
            [self.due(now) for now in (0, 10, 20, 90)], [[], ["w1"], [], []]
        )

        self.due(100, self.owned(self.state, "w1", "w2"))
        self.assertEqual([self.due(now) for now in (110, 120, 130)], [[], ["w1"], []])

        other = evolve(self.state, members={"a": Member("a", session="t")})
        self.assertEqual([self.due(now, other) for now in (140, 150)], [[], ["w1"]])

    def test_busy(self) -> None:
        """
        What is moved anyway is not assigned anew beside.
        """
        self.due(0.0)

        self.assertEqual(self.reminders.due(evolve(self.state, now=10.0), ["w1"]), {})

    def test_of_no_use(self) -> None:
        """
        Nobody is reminded of what is no work, nor the dead, nor members of the
        original, which own nothing.
        """
        original = Member("a", session="s", foreign=True)
        states = (
            evolve(self.state, work={"w2": b""}),
            evolve(self.state, members={}),
            evolve(self.state, members={"a": original}),
        )
        for state in states:
            self.assertEqual([self.due(now, state) for now in (0, 10, 20)], [[]] * 3)
