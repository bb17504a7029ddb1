"""
Tests for what a member knows of the others.
"""

from __future__ import annotations

from voltha_coord.consul.model import SessionSpec
from voltha_coord.errors import AccessDenied, ConsulUnavailable
from voltha_coord.events import MembersChanged
from voltha_coord.records import Member

from .support.embedded import ClusterTestCase


class ViewTests(ClusterTestCase):
    """
    The view of one member.
    """

    def setUp(self) -> None:
        """
        Have two members.
        """
        super().setUp()
        self.a, self.b = self.add("a", "b")
        self.view = self.a.view

    def test_unread(self) -> None:
        """
        What was never read is empty, and has no age.
        """
        self.assertEqual((self.view.members, self.view.age), ((), None))
        self.assertEqual(self.view.describe(), [])

    def test_refresh(self) -> None:
        """
        The live members are read, by id, with how much each has.
        """
        self.cluster.put_work("x", "y", "z")
        self.cluster.advance(6)

        members = self.cluster.result(self.view.refresh())
        self.cluster.result(self.view.refresh_items())

        self.assertEqual([member.id for member in members], ["a", "b"])
        described = self.view.describe()
        self.assertEqual(
            set(described[0]),
            {"id", "host_address", "rest_port", "weight", "app", "state", "items"},
        )
        self.assertEqual(sorted(one["items"] for one in described), [1, 2])

    def test_age(self) -> None:
        """
        What was read last is served with its age while Consul is away.
        """
        self.cluster.result(self.view.refresh())
        self.cluster.network(self.a).refuses = True
        self.cluster.advance(2)

        with self.assertRaises(ConsulUnavailable):
            self.cluster.result(self.view.refresh())

        self.assertEqual(len(self.view.members), 2)
        self.assertGreaterEqual(self.view.age or 0, 2.0)

    def test_odd_records(self) -> None:
        """
        B13: records without a session, of originals, and junk: only who holds
        its record is a member.
        """
        for name, value in (("ghost", b"alive"), ("junk", b"\xff"), ("x/y", b"")):
            key = self.cluster.keys.members + name
            self.cluster.result(self.cluster.api.put(key, value))
        key = self.cluster.keys.member("original")
        self.cluster.result(
            self.cluster.api.put(key, b"alive", acquire=self.a.session_id)
        )

        members = self.cluster.result(self.view.refresh())

        self.assertEqual([member.id for member in members], ["a", "b", "original"])

    def test_no_members(self) -> None:
        """
        B14: without any member the list is empty.
        """
        self.cluster.result(self.b.shutdown())
        self.cluster.result(self.a.shutdown())
        c = self.cluster.add("c")

        self.assertEqual(self.cluster.result(c.get_members()), ())

    def test_denied(self) -> None:
        """
        A denied listing is an error, and nobody is told that all have left.
        """
        told: list[object] = []
        self.a.listen(told.append)
        self.cluster.advance(2)
        prefix = self.cluster.keys.members

        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(prefix) and access == "read"
        )
        with self.assertRaises(AccessDenied):
            self.cluster.result(self.view.refresh())
        self.cluster.advance(60)

        left = [one for one in told if isinstance(one, MembersChanged) and one.left]
        self.assertEqual(left, [])
        self.assertEqual(len(self.view.members), 2)

    def test_followed_only_when_asked(self) -> None:
        """
        Nobody is followed until somebody listens.
        """
        self.cluster.crash(self.b)
        self.cluster.advance(6)
        self.assertEqual(self.view.age, None)
        told: list[object] = []

        stop = self.a.listen(told.append)
        self.cluster.add("c")
        self.cluster.advance(3)
        stop()

        self.assertIn(MembersChanged(("c",), ()), told)
        self.assertEqual([member.id for member in self.view.members], ["a", "c"])

    def test_leaving(self) -> None:
        """
        A member on its way out is shown as such.
        """
        api, key = self.cluster.api, self.cluster.keys.member("c")
        spec = SessionSpec("c", ttl=3600, lock_delay=0)
        session = self.cluster.result(api.create_session(spec))
        record = Member("c", leaving=True, version="1").encode()
        self.cluster.result(api.put(key, record, acquire=session))

        self.cluster.result(self.view.refresh())

        states = {one["id"]: one["state"] for one in self.view.describe()}
        self.assertEqual(states, {"a": "online", "b": "online", "c": "leave"})
