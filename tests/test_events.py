"""
Tests for events and those who listen to them.
"""

from __future__ import annotations

from attrs.exceptions import FrozenInstanceError
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.events import (
    Connection,
    ConnectionChanged,
    Event,
    LeaderChanged,
    Listeners,
    MembersChanged,
    RoleChanged,
)

FIRST = LeaderChanged("a", None)
SECOND = RoleChanged("leader", "candidate")


class EventTests(SynchronousTestCase):
    """
    What is told.
    """

    def test_frozen(self) -> None:
        """
        No listener can change an event for the next one.
        """
        for event, name in (
            (FIRST, "leader_id"),
            (SECOND, "role"),
            (MembersChanged(("a",), ()), "joined"),
            (ConnectionChanged(Connection.LOST, Connection.CONNECTED), "connection"),
        ):
            with self.assertRaises(FrozenInstanceError):
                setattr(event, name, None)

    def test_equal(self) -> None:
        """
        Events that say the same are equal, and have a hash.
        """
        self.assertEqual({FIRST}, {LeaderChanged("a", None)})


class ListenersTests(SynchronousTestCase):
    """
    Those who are told.
    """

    def setUp(self) -> None:
        """
        Have nobody listen.
        """
        self.listeners = Listeners()
        self.told: list[tuple[str, Event]] = []

    def listen(self, name: str) -> None:
        """
        Let somebody of that name listen.
        """
        self.listeners.add(lambda event: self.told.append((name, event)))

    def test_in_order(self) -> None:
        """
        Everybody is told, in the order in which they began to listen.
        """
        self.listen("x")
        self.listen("y")

        self.listeners.tell(FIRST)
        self.listeners.tell(SECOND)

        self.assertEqual(
            self.told, [("x", FIRST), ("y", FIRST), ("x", SECOND), ("y", SECOND)]
        )

    def test_nested(self) -> None:
        """
        What happens because somebody was told is told after that, to all.
        """
        self.listeners.add(
            lambda event: self.listeners.tell(SECOND) if event is FIRST else None
        )
        self.listen("y")

        self.listeners.tell(FIRST)

        self.assertEqual(self.told, [("y", FIRST), ("y", SECOND)])

    def test_one_raises(self) -> None:
        """
        One who raises is logged; the rest are told, and so is it the next time.
        """

        def broken(event: Event) -> None:
            self.told.append(("broken", event))
            raise ValueError("no")

        self.listeners.add(broken)
        self.listen("y")

        with capture_logs() as logs:
            self.listeners.tell(FIRST)
            self.listeners.tell(SECOND)

        names = [name for name, _ in self.told]
        self.assertEqual(names, ["broken", "y", "broken", "y"])
        self.assertEqual([one["event"] for one in logs], ["listener-failed"] * 2)

    def test_deferred_fails(self) -> None:
        """
        A Deferred that a listener gives back is not dropped when it fails.
        """
        answer: Deferred[None] = Deferred()
        self.listeners.add(lambda event: answer)
        self.listeners.tell(FIRST)

        with capture_logs() as logs:
            answer.errback(ValueError("later"))

        self.assertEqual([one["error"] for one in logs], ["later"])

    def test_unlisten(self) -> None:
        """
        Who listens no more is told nothing; saying so twice is no error.
        """
        stop = self.listeners.add(lambda event: self.told.append(("x", event)))
        stop()
        stop()

        self.listeners.tell(FIRST)

        self.assertEqual(self.told, [])

    def test_unlisten_while_told(self) -> None:
        """
        Who is taken off by somebody before it is not told of that event either.
        """
        self.listeners.add(lambda event: stop())
        stop = self.listeners.add(lambda event: self.told.append(("y", event)))

        self.listeners.tell(FIRST)

        self.assertEqual(self.told, [])

    def test_same_callback_twice(self) -> None:
        """
        A callback added twice is told twice, and ended once at a time.
        """

        def callback(event: Event) -> None:
            self.told.append(("x", event))

        stop = self.listeners.add(callback)
        self.listeners.add(callback)
        stop()

        self.listeners.tell(FIRST)

        self.assertEqual(self.told, [("x", FIRST)])
