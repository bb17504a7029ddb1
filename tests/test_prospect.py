"""
Tests for what is looked at before something is given to others.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.keys import Keys
from voltha_coord.prospect import Prospect
from voltha_coord.records import Member

KEYS = Keys("p")


def prospect(
    *members: Member | Entry, leader: str | None = None, **intents: str
) -> Prospect:
    """
    Give what is seen of members, who leads, and intents by member.
    """
    entries = [
        member
        if isinstance(member, Entry)
        else Entry(KEYS.member(member.id), member.encode(), session=f"s-{member.id}")
        for member in members
    ]
    entries += [Entry(KEYS.node_intent(n), w.encode()) for n, w in intents.items()]
    if leader is not None:
        entries.append(Entry(KEYS.leader, leader.encode(), session="s"))
    return Prospect.of(KEYS, entries)


def ours(name: str, **fields: Any) -> Member:
    """
    Give a member of this library.
    """
    return Member(name, version="1", **fields)


def original(name: str) -> Entry:
    """
    Give a member that is an original coordinator.
    """
    return Entry(KEYS.member(name), b"alive", session=f"s-{name}")


class ReadingTests(SynchronousTestCase):
    """
    Taking apart what was read.
    """

    def test_parts(self) -> None:
        """
        The leader key, the members and the intents are told apart, and what
        only begins like the leader key is neither.
        """
        entries = (
            Entry("p/leader", b"a", session="s"),
            Entry("p/leaderboard", b"x"),
            Entry(KEYS.member("a"), ours("a").encode(), session="s"),
            Entry(KEYS.freeze, b""),
        )

        found = Prospect.of(KEYS, entries)

        self.assertEqual(found.key, entries[0])
        self.assertEqual([*found.state.members], ["a"])
        self.assertTrue(found.state.frozen)

    def test_nothing(self) -> None:
        """
        Where nothing was found nobody is there.
        """
        found = Prospect.of(KEYS, ())

        self.assertEqual((found.key, found.heir("a")), (None, None))

    def test_odd(self) -> None:
        """
        G9: what cannot be read is passed over.
        """
        found = prospect(Entry(KEYS.members + "not one", b"\xff", session="s"))

        self.assertEqual(found.heir("a"), None)


class HeirTests(SynchronousTestCase):
    """
    Who can lead next.
    """

    def test_fit(self) -> None:
        """
        A living member of ours that leads, stays and is wanted can, also one
        in maintenance.
        """
        found = prospect(ours("b"), b="maintenance")

        self.assertEqual(found.unfit("b"), "")

    def test_unfit(self) -> None:
        """
        Any other cannot, and it is said why.
        """
        found = prospect(
            ours("a", can_lead=False),
            ours("b", leaving=True),
            ours("c"),
            original("d"),
            Entry(KEYS.member("e"), ours("e").encode()),
            c="leave",
        )

        for name, why in (
            ("a", "never leads"),
            ("b", "is leaving"),
            ("c", "is wanted away"),
            ("d", "is an original coordinator"),
            ("e", "is no living member"),
            ("f", "is no living member"),
        ):
            self.assertIn(why, found.unfit(name), name)
        self.assertEqual(found.heir("x"), None)

    def test_ring(self) -> None:
        """
        The next one is the one after us in the order of the ids, and after the
        last one the first.
        """
        found = prospect(*map(ours, "cab"))

        heirs = {name: found.heir(name) for name in "abcx"}

        self.assertEqual(heirs, {"a": "b", "b": "c", "c": "a", "x": "a"})
        self.assertEqual(found.heir("a", ["b"]), "c")
        self.assertEqual(found.heir("a", ["b", "c"]), None)


class UnmovedTests(SynchronousTestCase):
    """
    Whose work is moved.
    """

    def test_moved(self) -> None:
        """
        Where somebody leads, or can, and somebody takes work, it is.
        """
        for leader in ("b", "a", "gone", None):
            found = prospect(ours("a", leaving=True), ours("b"), leader=leader)
            self.assertEqual(found.unmoved("a"), "", leader)

    def test_unmoved(self) -> None:
        """
        Else it is not, and it is said why.
        """
        a = ours("a", leaving=True)
        idle = ours("b", weight=0)
        taking = ours("c", can_lead=False)
        frozen = Entry(KEYS.freeze, b"")

        for found, why in (
            (prospect(a, leader="a"), "no other member can take work"),
            (prospect(a, idle, leader="b"), "no other member can take work"),
            (prospect(a, ours("b"), b="leave"), "no other member can take work"),
            (prospect(a, taking, leader="a"), "no other member can lead"),
            (prospect(a, taking), "no other member can lead"),
            (prospect(a, ours("b"), frozen, leader="b"), "planning is frozen"),
            (
                prospect(a, ours("b"), original("o"), leader="o"),
                "an original coordinator leads",
            ),
        ):
            self.assertEqual(found.unmoved("a"), why)

    def test_led_by_one_that_takes_none(self) -> None:
        """
        Who leads need not take work.
        """
        found = prospect(ours("a"), ours("b", weight=0), ours("c"), leader="b")

        self.assertEqual(found.unmoved("a"), "")
