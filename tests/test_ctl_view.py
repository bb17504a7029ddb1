"""
Tests for what the keys say of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.ctl import documents
from voltha_coord.ctl.reading import view
from voltha_coord.ctl.view import View
from voltha_coord.records import TransferRequest

from .support.keyspace import (
    KEYS,
    assigned,
    leads,
    measures,
    member,
    original,
    owned,
    reports,
    running,
    session_of,
    work,
)


def seen(*entries: Entry | Iterable[Entry]) -> View:
    """
    Look at these entries.
    """
    flat: list[Entry] = []
    for entry in entries:
        flat += [entry] if isinstance(entry, Entry) else entry
    return view(KEYS, flat)


class LeaderTests(SynchronousTestCase):
    """
    Who leads.
    """

    def test_leads(self) -> None:
        """
        The leader is who holds the key, the token the one of its term.
        """
        cluster = seen(member("a"), leads("a", 12))

        self.assertEqual((cluster.leader_id, cluster.fencing_token), ("a", 12))

    def test_nobody(self) -> None:
        """
        Without the key, or with a key that no session holds, nobody leads.
        """
        self.assertIsNone(seen(member("a")).leader_id)
        self.assertIsNone(seen(Entry(KEYS.leader, b"a")).leader_id)

    def test_other_term(self) -> None:
        """
        The token of another session's term is nobody's.
        """
        term = leads("b")[1]
        cluster = seen(leads("a")[0], term)

        self.assertEqual((cluster.leader_id, cluster.fencing_token), ("a", None))

    def test_neighbours(self) -> None:
        """
        Keys that only begin like the leader's and the term's are not theirs.
        """
        cluster = seen(Entry(KEYS.leader + "2", b"x", session="s"))

        self.assertIsNone(cluster.leader)


class WishesTests(SynchronousTestCase):
    """
    What operators want.
    """

    def test_planned(self) -> None:
        """
        What is planned with are the live members and what a leader understands.
        """
        planned = seen(
            member("a"),
            member("b"),
            member("c", session=None),
            Entry(KEYS.node_intent("b"), b"leave"),
            Entry(KEYS.node_intent("a"), b"holiday"),
            Entry(KEYS.freeze, b" why "),
        ).planned

        self.assertEqual(planned.node_intents, {"b": "leave"})
        self.assertEqual(list(planned.receivers), ["a"])
        self.assertEqual((planned.frozen, planned.freeze_reason), (True, "why"))

    def test_transfer(self) -> None:
        """
        A request to hand leadership over is read; what is none is named, once.
        """
        request = TransferRequest("b", 4711, "x")
        junk = seen(Entry(KEYS.transfer, b"b"))

        self.assertEqual(seen(Entry(KEYS.transfer, request.encode())).transfer, request)
        self.assertIsNone(junk.transfer)
        self.assertEqual((list(junk.unreadable), junk.strays), ([KEYS.transfer], {}))
        self.assertIsNone(seen().transfer)


class ResourcesTests(SynchronousTestCase):
    """
    What members have and use.
    """

    def test_measured(self) -> None:
        """
        It is shown of members that tell it, as a planner reads it; not of those
        that do not, nor of those that are gone.
        """
        has = {"cpu_limit": 400, "memory_limit": 10}
        cluster = seen(
            member("a", resources=has),
            measures("a", cpu=50, memory=5, throttling=True),
            member("b", resources=has),
            member("c"),
            measures("c", cpu=5, memory=5),
            member("d"),
            member("e", session=None, resources=has),
        )

        rows = {row["id"]: row for row in documents.members(cluster)["members"]}
        shown = {id: row["resources"] for id, row in rows.items()}

        self.assertEqual(
            shown["a"],
            {
                "cpu": 50.0,
                "cpu_limit": 400.0,
                "memory": 5.0,
                "memory_limit": 10.0,
                "throttling": True,
                "error": "",
            },
        )
        self.assertIn("not told yet", shown["b"]["error"])
        self.assertIn("what resources it has", shown["c"]["error"])
        self.assertEqual((shown["d"], shown["e"]), (None, None))


class HoldingsTests(SynchronousTestCase):
    """
    What is with a member.
    """

    def test_each_way(self) -> None:
        """
        An item is with a member that it is assigned to, that owns it, or on
        which it may run.
        """
        cluster = seen(
            running("a", "all"),
            assigned("a", "given", b'{"phase":"prepare"}'),
            owned("a", "owned", "old"),
            running("b", "other"),
        )

        self.assertEqual(
            cluster.holdings("a"),
            {"all": "assigned, owned, running", "given": "assigned", "owned": "owned"},
        )
        self.assertEqual(cluster.holdings("c"), {})

    def test_reports(self) -> None:
        """
        Of what is only reported, what may run is with the member, and what
        waits or has failed is not.
        """
        states = {"w": "waiting", "s": "starting", "r": "running", "t": "stopping"}
        cluster = seen(reports("a", **states, f="failed"))

        self.assertEqual(
            cluster.holdings("a"), {"r": "running", "s": "starting", "t": "stopping"}
        )


class TroubleTests(SynchronousTestCase):
    """
    What is wrong with one item.
    """

    def trouble(self, *entries: Entry | Iterable[Entry]) -> str:
        """
        Say what is wrong with item x, beside members a and b.
        """
        cluster = seen(member("a"), member("b"), *entries)
        return cluster.trouble(cluster.items["x"])

    def test_none(self) -> None:
        """
        Nothing is, while the assigned member owns it and reports to run it.
        """
        self.assertEqual(self.trouble(running("a", "x")), "")

    def test_each(self) -> None:
        """
        Every step that is missing is named.
        """
        wanted, place, owner = work("x"), assigned("a", "x"), owned("a", "x")

        self.assertEqual(self.trouble(wanted), "not assigned")
        self.assertEqual(self.trouble(wanted, place), "not taken yet")
        self.assertEqual(self.trouble(wanted, place, owner), "not reported")
        self.assertEqual(
            self.trouble(wanted, place, owner, reports("a", x="failed")), "is failed"
        )
        self.assertEqual(
            self.trouble(wanted, place, owned("b", "x")), "still owned by b"
        )

    def test_finished(self) -> None:
        """
        What has ended as it should is nothing to look after.
        """
        there = (work("x"), assigned("a", "x"), owned("a", "x"))

        self.assertEqual(self.trouble(*there, *reports("a", x="finished")), "")

    def test_two_members(self) -> None:
        """
        An item of two members is wrong; one that is prepared on the second is
        not.
        """
        first = running("a", "x")

        self.assertEqual(self.trouble(first, assigned("b", "x")), "assigned to a and b")
        self.assertEqual(
            self.trouble(first, assigned("b", "x", b'{"phase":"prepare"}')), ""
        )

    def test_gone(self) -> None:
        """
        A member that is gone, or lives a second life, answers for nothing.
        """
        self.assertEqual(
            self.trouble(work("x"), assigned("c", "x")),
            "assigned to c, which is no member",
        )
        self.assertEqual(
            self.trouble(work("x"), owned("c", "x")), "owned by c, which is gone"
        )
        self.assertEqual(
            self.trouble(work("x"), assigned("a", "x"), owned("a", "x", "old")),
            "owned by a, which is gone",
        )

    def test_not_wanted(self) -> None:
        """
        What is not wanted has to be nobody's.
        """
        self.assertEqual(
            self.trouble(assigned("a", "x")), "not wanted, still assigned to a"
        )
        self.assertEqual(self.trouble(owned("a", "x")), "not wanted, still owned by a")

    def test_stopped(self) -> None:
        """
        What is to be stopped stays with its member, and has to be stopped there.
        """
        there = (work("x", b'{"order":"stop"}'), assigned("a", "x"), owned("a", "x"))

        self.assertEqual(self.trouble(there[0]), "")
        self.assertEqual(
            self.trouble(*there, *reports("a", x="running")),
            "is running, not stopped yet",
        )
        self.assertEqual(self.trouble(*there, *reports("a", x="stopped")), "")

    def test_error_key(self) -> None:
        """
        What the cluster itself says is wrong comes first.
        """
        error = Entry(KEYS.error("x"), b"no member has a GPU")

        self.assertEqual(self.trouble(work("x"), error), "no member has a GPU")

    def test_original(self) -> None:
        """
        A member of the original takes nothing and reports nothing: that is not
        wrong.
        """
        self.assertEqual(self.trouble(original("o"), work("x"), assigned("o", "x")), "")


class RunningTests(SynchronousTestCase):
    """
    What counts as running.
    """

    def test_needs_both(self) -> None:
        """
        An owner record and that very member's report are needed.
        """
        report = reports("a", x="running")
        cases = {
            "both": [owned("a", "x"), *report],
            "no owner": report,
            "no report": [owned("a", "x")],
            "another's report": [owned("b", "x"), *report],
            "another life's": [owned("a", "x", "old"), *report],
            "not running": [owned("a", "x"), *reports("a", x="starting")],
        }
        found = {}
        for name, entries in cases.items():
            cluster = seen(member("a"), member("b"), work("x"), entries)
            found[name] = cluster.running(cluster.items["x"])

        self.assertEqual([name for name, runs in found.items() if runs], ["both"])


class StrayTests(SynchronousTestCase):
    """
    Whatever anyone may put under the prefix (guarantee G9).
    """

    def test_strays(self) -> None:
        """
        Keys with foreign depth or illegal ids are listed, percent-encoded.
        """
        cluster = seen(
            Entry("service/voltha/members/a/b", b""),
            Entry("service/voltha/work/a b", b""),
            Entry("service/voltha/assignments/a", b""),
            Entry("service/voltha/assignments/a/b/c", b""),
            Entry("service/voltha/assignments/a/b c", b""),
            Entry("service/voltha/assignments/.a/b", b""),
            Entry("service/voltha/owners/a/b", b""),
            Entry("service/voltha/status/a/x", b""),
        )

        self.assertEqual(len(cluster.strays), 8)
        self.assertIn("service/voltha/work/a%20b", cluster.strays)
        self.assertEqual((cluster.items, cluster.members), ({}, {}))

    def test_unreadable(self) -> None:
        """
        Values that are not what belongs there are listed, and the rest counts.
        """
        cluster = seen(
            Entry(KEYS.term, b"\xff"),
            Entry(KEYS.member("a"), b"[1]", session="s"),
            Entry(KEYS.owner("x"), b"{}"),
            Entry(KEYS.status("a", 0), b"?"),
            work("x", b'{"weight":"much"}'),
            assigned("a", "x", b"\x00"),
        )

        self.assertEqual(len(cluster.unreadable), 6)
        self.assertEqual(list(cluster.live), ["a"])
        self.assertTrue(cluster.items["x"].wanted)


class DocumentTests(SynchronousTestCase):
    """
    The documents of the commands.
    """

    def setUp(self) -> None:
        """
        Have a cluster with an item that is not taken, and one that is not
        wanted any more.
        """
        self.cluster = seen(
            member("a", host_address="10.0.0.1", rest_port=8880, weight=2),
            member("b", leaving=True),
            member("c", session=None),
            leads("a"),
            running("a", "x", "y"),
            work("z"),
            assigned("b", "z"),
            assigned("b", "old"),
        )

    def test_status(self) -> None:
        """
        The status has the field names of the members' own.
        """
        document = documents.status(self.cluster, "http://h:8500", "1.0")

        self.assertEqual(document["leader_id"], "a")
        self.assertEqual(document["fencing_token"], 4711)
        self.assertEqual(
            document["work"], {"wanted": 3, "assigned": 3, "owned": 2, "running": 2}
        )
        self.assertEqual(
            document["errors"],
            {"z": "not taken yet", "old": "not wanted, still assigned to b"},
        )
        self.assertEqual(document["consul"]["address"], "http://h:8500")

    def test_members(self) -> None:
        """
        A member's row says how it is and what it has.
        """
        rows = {row["id"]: row for row in documents.members(self.cluster)["members"]}

        self.assertEqual(
            [(row["state"], row["role"], row["items"]) for row in rows.values()],
            [("online", "leader", 2), ("leaving", "follower", 2), ("lost", None, 0)],
        )
        self.assertEqual(rows["a"]["running"], 2)
        self.assertEqual(rows["a"]["host_address"], "10.0.0.1")
        self.assertEqual(rows["a"]["session_id"], session_of("a"))
        self.assertEqual(rows["a"]["liveness"], "check")

    def test_state(self) -> None:
        """
        A member that is gone, or leaves by itself, is that first; then comes
        what operators want of it, as far as the leader understands it (C10).
        """
        cluster = seen(
            *(member(name) for name in "abcd"),
            member("e", leaving=True),
            member("f", session=None),
            *(Entry(KEYS.node_intent(name), b"leave") for name in "aef"),
            Entry(KEYS.node_intent("b"), b"maintenance"),
            Entry(KEYS.node_intent("c"), b"holiday"),
            Entry(KEYS.intent + "relocations/x", b""),
            Entry(KEYS.intent + "what/x", b""),
        )

        self.assertEqual(
            {row["id"]: row["state"] for row in documents.members(cluster)["members"]},
            {
                "a": "leave",
                "b": "maintenance",
                "c": "online",
                "d": "online",
                "e": "leaving",
                "f": "lost",
            },
        )
        self.assertEqual(list(cluster.unreadable), [KEYS.node_intent("c")])
        self.assertEqual(list(cluster.strays), [KEYS.intent + "what/x"])

    def test_work(self) -> None:
        """
        The list of work holds what is under work/ and nothing else.
        """
        rows = documents.work(self.cluster)["work"]

        self.assertEqual([row["id"] for row in rows], ["x", "y", "z"])

    def test_assignments(self) -> None:
        """
        Filters leave the items of a member, those that fit, those that are
        wrong.
        """

        def ids(**filters: object) -> list[str]:
            rows = documents.assignments(self.cluster, **filters)  # type: ignore[arg-type]  # one helper for all filters
            return [row["id"] for row in rows["assignments"]]

        self.assertEqual(ids(), ["old", "x", "y", "z"])
        self.assertEqual(ids(member="b"), ["old", "z"])
        self.assertEqual(ids(patterns=("x", "o*")), ["old", "x"])
        self.assertEqual(ids(only_wrong=True), ["old", "z"])
        self.assertEqual(ids(member="a", only_wrong=True), [])

    def test_assignment(self) -> None:
        """
        A row says who is to run an item, who does, and how.
        """
        row = documents.assignments(self.cluster, patterns=["x"])["assignments"][0]

        self.assertEqual(
            row,
            {
                "id": "x",
                "wanted": True,
                "assigned": ["a"],
                "phases": ["run"],
                "owner": "a",
                "state": "running",
                "wrong": None,
            },
        )
