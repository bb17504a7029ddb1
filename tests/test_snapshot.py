"""
Tests for :mod:`voltha_coord.snapshot`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from tests.support.recording import RecordedConsul
from tests.support.working import operations
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transport import ITransport, Request, Response
from voltha_coord.errors import ConsulUnavailable
from voltha_coord.keys import Keys
from voltha_coord.listing import DeniedListing
from voltha_coord.snapshot import Look, read_snapshot, take_look

KEYS = Keys("service/voltha")


class LookTests(SynchronousTestCase):
    """
    Reading everything at one moment.
    """

    def setUp(self) -> None:
        """
        Begin with an empty Consul.
        """
        self.consul = RecordedConsul(Clock())
        self.addCleanup(self.consul.stop)
        self.api = self.consul.api()

    def put(self, *keys: str, value: bytes = b"x") -> None:
        """
        Write keys.
        """
        for key in keys:
            self.consul.run(self.api.put(key, value))
        self.consul.requests.clear()

    def deny(self, prefix: str) -> None:
        """
        Let the token not read what lies under a prefix.
        """

        def denied(resource: str, name: str, access: str, token: str) -> bool:
            return name.startswith(prefix)

        self.consul.state.deny = denied

    def look(self, keys: Keys = KEYS, **kw: Any) -> Look:
        """
        Look, and give what was found.
        """
        kw.setdefault("consistent", False)
        (look,) = self.consul.run(take_look(self.api, keys, 7.0, **kw))
        if isinstance(look, Failure):
            look.raiseException()
        assert isinstance(look, Look)
        return look

    def found(self, look: Look) -> dict[str, list[str]]:
        """
        Give the ends of the keys of each part.
        """
        snapshot = look.snapshot
        parts = {
            "members": snapshot.members,
            "work": snapshot.work,
            "assignments": snapshot.assignments,
            "owners": snapshot.owners,
            "intent": snapshot.intent,
            "errors": look.errors,
        }
        start = len(KEYS.prefix) + 1
        return {part: [e.key[start:] for e in found] for part, found in parts.items()}

    def test_one_moment(self) -> None:
        """
        All prefixes are read in one transaction, and each key ends up in its
        own part (field report 129).
        """
        names = {
            "members": ["members/a", "members/b"],
            "work": ["work/w1", "work/w2"],
            "assignments": ["assignments/a/w1", "assignments/b/w2"],
            "owners": ["owners/w1"],
            "intent": ["intent/freeze"],
            "errors": ["errors/w2"],
        }
        for part in names.values():
            self.put(*(f"{KEYS.prefix}/{name}" for name in part))
        self.put(f"{KEYS.prefix}/status/a/0", f"{KEYS.prefix}/leader")

        look = self.look()

        self.assertEqual(self.found(look), names)
        self.assertEqual(look.snapshot.now, 7.0)
        (request,) = self.consul.requests
        self.assertEqual({op.verb for op in operations(request)}, {"get-tree"})

    def test_consistent(self) -> None:
        """
        A consistent look asks for a consistent read.
        """
        self.put(KEYS.member("a"))

        self.look(consistent=True)
        self.look(consistent=False)

        asked = [("consistent", None) in r.params for r in self.consul.requests]
        self.assertEqual(asked, [True, False])

    def test_neighbours(self) -> None:
        """
        A prefix with a dot in it is that prefix and no pattern, and prefixes
        that begin alike are not mixed up (B18).
        """
        keys = Keys("service/v.1")
        self.put("service/v.1/members/a", "service/vx1/members/b")
        self.put("service/v.1/membersz", "service/v.1/workshop/x", "service/v.1/work/w")

        look = self.look(keys)

        self.assertEqual([e.key for e in look.snapshot.members], [keys.member("a")])
        self.assertEqual([e.key for e in look.snapshot.work], [keys.work_item("w")])

    def test_own_prefixes(self) -> None:
        """
        Prefixes that a subclass of the Coordinator has set apart are read.
        """
        keys = Keys("service/voltha", work="elsewhere/jobs/", members="who/")
        self.put("elsewhere/jobs/w1", "who/a")

        look = self.look(keys)

        self.assertEqual([e.key for e in look.snapshot.work], ["elsewhere/jobs/w1"])
        self.assertEqual([e.key for e in look.snapshot.members], ["who/a"])

    def test_empty_is_doubted(self) -> None:
        """
        Where something follows from an empty listing, it is believed only
        after a key under it was answered 404 (V15).
        """
        self.put(KEYS.member("a"), KEYS.work_item("w"))

        self.look()

        paths = [r.path for r in self.consul.requests]
        self.assertEqual(
            sorted(paths[1:3]),
            [f"/v1/kv/{KEYS.probe('assignments')}", f"/v1/kv/{KEYS.probe('owners')}"],
        )
        self.assertEqual((paths[0], paths[3:]), ("/v1/txn", ["/v1/txn"]))

    def test_access_comes_back(self) -> None:
        """
        A listing that was denied is not taken for empty because the access
        came back before that was looked at: it is read again (V15).
        """
        self.put(KEYS.member("a"), KEYS.work_item("w"), KEYS.assignment("a", "w"))
        back: list[str] = []

        def denied(resource: str, name: str, access: str, token: str) -> bool:
            if name == KEYS.probe("work"):
                back.append(name)
            return name.startswith(KEYS.work) and not back

        self.consul.state.deny = denied

        look = self.look()

        self.assertTrue(back)
        self.assertEqual([e.key for e in look.snapshot.work], [KEYS.work_item("w")])

    def test_nothing_follows(self) -> None:
        """
        Without work, assignments and owners nothing is doubted but by a
        thorough look: an idle leader asks once.
        """
        self.put(KEYS.member("a"))

        self.look()
        quick = len(self.consul.requests)
        self.look(thorough=True)

        self.assertEqual(quick, 1)
        self.assertEqual(len(self.consul.requests) - quick, 5)

    def test_denied(self) -> None:
        """
        An empty listing that is a denied one is an error that says what to
        grant (V15, field report 105).
        """
        self.put(KEYS.member("a"), KEYS.work_item("w"), KEYS.assignment("a", "w"))
        for part in ("members", "work", "assignments", "owners"):
            prefix = f"{KEYS.prefix}/{part}/"
            self.deny(prefix)

            error = self.assertRaises(DeniedListing, self.look)

            self.assertIn(prefix, str(error))
            self.assertIn("'write'", str(error))

    def test_denied_at_first(self) -> None:
        """
        A thorough look finds a denied listing where nothing follows from it.
        """
        self.put(KEYS.member("a"))
        self.deny(KEYS.work)
        self.assertRaises(DeniedListing, self.look, thorough=True)
        self.look()

    def test_any_value(self) -> None:
        """
        Binary and huge values are read like any other (G9).
        """
        huge = bytes(range(256)) * 1600
        self.put(KEYS.work_item("w"), value=huge)

        look = self.look()

        self.assertEqual([e.value for e in look.snapshot.work], [huge])

    def test_snapshot_alone(self) -> None:
        """
        What is planned on can be read by itself.
        """
        self.put(KEYS.member("a"))

        (snapshot,) = self.consul.run(
            read_snapshot(self.api, KEYS, 1.0, consistent=False)
        )

        self.assertEqual([e.key for e in snapshot.members], [KEYS.member("a")])
        self.assertEqual(snapshot.now, 1.0)

    def test_out_of_order(self) -> None:
        """
        An answer whose rows are not those asked for, in their order, is no
        answer: nothing of it is taken for empty.
        """

        @implementer(ITransport)
        class Mixed:
            """
            Answers rows in the wrong order.
            """

            def request(self, request: Request) -> Deferred[Response]:
                """
                Answer.
                """
                rows = ",".join(
                    f'{{"KV":{{"Key":"{key}","Value":null}}}}'
                    for key in (KEYS.work_item("w"), KEYS.member("a"))
                )
                body = f'{{"Results":[{rows}]}}'.encode()
                return succeed(Response(200, {"x-consul-index": "5"}, body))

            def close(self) -> Deferred[None]:
                """
                Nothing to close.
                """
                return succeed(None)

        api = ConsulApi(Requester([Mixed()]))

        d = take_look(api, KEYS, 0.0, consistent=False)

        self.failureResultOf(d, ConsulUnavailable)
