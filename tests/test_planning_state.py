"""
The state of a cluster, made of what was read.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.keys import Keys
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.hash_ring import HashRingPlanner
from voltha_coord.planning.operations import Assign
from voltha_coord.planning.state import ClusterState, Snapshot
from voltha_coord.records import (
    Member,
    OwnerRecord,
    StatusReport,
    TransferRequest,
    WorkItem,
    WorkStatus,
    encode_status,
)

KEYS = Keys()

#: Names that are no ids: foreign depth, illegal characters, folders, the probe.
STRAY_NAMES = ("", "a/b", "a b", "ä", ".probe", "x" * 201, "a@b@c", "a//b", "\ud800")


def entry(key: str, value: bytes = b"", session: str | None = None) -> Entry:
    """
    Give a key as it was read.
    """
    return Entry(key, value, modify_index=7, session=session)


def state(
    members: tuple[Entry, ...] = (),
    work: tuple[Entry, ...] = (),
    assignments: tuple[Entry, ...] = (),
    owners: tuple[Entry, ...] = (),
    intent: tuple[Entry, ...] = (),
    statuses: tuple[Entry, ...] = (),
    lost: tuple[Entry, ...] = (),
) -> ClusterState:
    """
    Give the state of a snapshot.
    """
    return ClusterState.from_snapshot(
        Snapshot(KEYS, 12.5, members, work, assignments, owners, intent, statuses, lost)
    )


class FromSnapshotTests(SynchronousTestCase):
    """
    What is taken in, and what is not.
    """

    def test_empty(self) -> None:
        """
        An empty snapshot is an empty cluster.
        """
        self.assertEqual(state(), ClusterState(now=12.5))

    def test_statuses(self) -> None:
        """
        Reports are put together of their chunks; of what is no report, or only
        a part of one, there is none, and what cannot be read is told: the
        others' are as they were.
        """
        report = StatusReport({f"w{n}": WorkStatus(digest="d" * 99) for n in range(9)})
        first, *others = encode_status(report, 600)

        found = state(
            statuses=(
                *(entry(KEYS.status("m1", 1 + n), c) for n, c in enumerate(others)),
                entry(KEYS.status("m1", 0), first),
                entry(KEYS.status("m2", 0), first),
                entry(KEYS.status("m3", 0), b"{}"),
                entry(f"{KEYS.statuses}m4/x", first),
            )
        )

        self.assertGreater(len(others), 0)
        self.assertEqual(dict(found.statuses), {"m1": report})
        self.assertEqual(list(found.problems), [f"{KEYS.prefix}/status/m3/0"])
        self.assertEqual(found.stray, (f"{KEYS.prefix}/status/m4/x",))

    def test_statuses_as_before(self) -> None:
        """
        A report of which no chunk has changed is the one that was read before;
        one that has is read anew, and so is one that could not be.
        """

        def reported(*words: str) -> tuple[Entry, ...]:
            found = []
            for n, word in enumerate(words):
                report = StatusReport({"w1": WorkStatus(state=word)})
                (chunk,) = encode_status(report)
                found.append(entry(KEYS.status(f"m{n}", 0), chunk))
            return tuple(found)

        odd = entry(KEYS.status("m9", 0), b"{}")
        former = state(statuses=(*reported("running", "running"), odd))
        snapshot = Snapshot(
            keys=KEYS, statuses=(*reported("running", "failed", "running"), odd)
        )

        found = ClusterState.from_snapshot(snapshot, former)

        self.assertIs(found.statuses["m0"], former.statuses["m0"])
        self.assertEqual(found.statuses["m1"].items["w1"].state, "failed")
        self.assertEqual(found.statuses["m2"], former.statuses["m0"])
        self.assertEqual(found.problems, former.problems)
        self.assertEqual(found, ClusterState.from_snapshot(snapshot))

    def test_lost(self) -> None:
        """
        Who is missed is known by id.
        """
        one = entry(KEYS.lost_member("m1"), b"x")

        found = state(lost=(one, entry(f"{KEYS.lost}a/b")))

        self.assertEqual(dict(found.lost), {"m1": one})
        self.assertEqual(found.stray, (f"{KEYS.prefix}/lost/a/b",))

    def test_indexes(self) -> None:
        """
        The indexes of items and of wishes are known, so that only what was seen
        is changed.
        """
        found = state(
            work=(entry(KEYS.work_item("w1")),),
            intent=(entry(KEYS.relocation("w1"), b"m1"),),
        )

        self.assertEqual(dict(found.work_index), {"w1": 7})
        self.assertEqual(dict(found.relocation_index), {"w1": 7})

    def test_members(self) -> None:
        """
        Members are those that hold their keys, ours and the original's.
        """
        ours = Member("m2", weight=3, version="1", session="s", modify_index=7)
        found = state(
            members=(
                entry(KEYS.member("m1"), b"alive", "s"),
                entry(KEYS.member("m2"), ours.encode(), "s"),
                entry(KEYS.member("m3"), b"alive"),
            )
        )

        self.assertEqual(list(found.members), ["m1", "m2"])
        self.assertEqual(found.members["m2"], ours)
        self.assertTrue(found.members["m1"].foreign)

    def test_member_with_garbage(self) -> None:
        """
        A member whose value cannot be read counts, and what is wrong is told
        (G9).
        """
        found = state(members=(entry(KEYS.member("m1"), b"\xff", "s"),))

        self.assertEqual(found.receivers, {"m1": 1})
        self.assertIn("binary", found.problems[KEYS.member("m1")])

    def test_work(self) -> None:
        """
        Work items are kept with their values and read when asked for.
        """
        found = state(
            work=(
                entry(KEYS.work_item("a@b"), b"plain"),
                entry(KEYS.work_item("c"), b'{"weight": 2}'),
            )
        )

        self.assertEqual(list(found.work), ["a@b", "c"])
        self.assertEqual(found.item("a@b"), WorkItem("a@b", raw=b"plain"))
        self.assertEqual(found.item("c").weight, 2)
        self.assertRaises(KeyError, found.item, "x")

    def test_assignments(self) -> None:
        """
        Assignments are kept by member, of members alive or not, and of items
        that are work or not.
        """
        found = state(
            work=(entry(KEYS.work_item("w1")),),
            assignments=(
                entry(KEYS.assignment("m1", "w1")),
                entry(KEYS.assignment("m1", "w2"), b"x"),
                entry(KEYS.assignment("m10", "w1")),
            ),
        )

        self.assertEqual(
            found.assignments, {"m1": {"w1": b"", "w2": b"x"}, "m10": {"w1": b""}}
        )

    def test_owners(self) -> None:
        """
        Owner records are read, with their keys for the indexes.
        """
        record = OwnerRecord("m1", "s", "check", "node")
        keys = [entry(KEYS.owner(w), record.encode()) for w in ("w1", "w2")]
        found = state(owners=tuple(keys))

        self.assertEqual(found.owners, {"w1": record, "w2": record})
        self.assertEqual(found.owner_entries, {"w1": keys[0], "w2": keys[1]})

    def test_owner_with_garbage(self) -> None:
        """
        An owner record that cannot be read is told, each one, and its key
        stays known (G9).
        """
        found = state(
            owners=(
                entry(KEYS.owner("w1"), b"\xff"),
                entry(KEYS.owner("w2"), b"\xff"),
                entry(KEYS.owner("w3"), OwnerRecord("m", "s").encode()),
            )
        )

        self.assertEqual(set(found.owners), {"w3"})
        self.assertEqual(set(found.owner_entries), {"w1", "w2", "w3"})
        self.assertEqual(set(found.problems), {KEYS.owner("w1"), KEYS.owner("w2")})

    def test_intent(self) -> None:
        """
        What operators want is read; what cannot be meant is told.
        """
        found = state(
            intent=(
                entry(KEYS.freeze),
                entry(KEYS.node_intent("m1"), b"maintenance\n"),
                entry(KEYS.node_intent("m2"), b"leave"),
                entry(KEYS.node_intent("m3"), b"\xff"),
                entry(KEYS.intent + "relocations/w1", b"m1"),
                entry(KEYS.intent + "relocations/w2"),
                entry(KEYS.intent + "relocations/w3", b"a b"),
            )
        )

        self.assertTrue(found.frozen)
        self.assertEqual(found.node_intents, {"m1": "maintenance", "m2": "leave"})
        self.assertEqual(found.relocations, {"w1": "m1", "w2": ""})
        self.assertEqual(
            set(found.problems),
            {KEYS.node_intent("m3"), KEYS.intent + "relocations/w3"},
        )

    def test_transfer(self) -> None:
        """
        A request that leadership be handed over is none of planning's, and
        told only where it cannot be read (G9).
        """
        asked = TransferRequest("m1", 4711, "x")

        self.assertEqual(state(intent=(entry(KEYS.transfer, asked.encode()),)), state())
        self.assertEqual(
            list(state(intent=(entry(KEYS.transfer, b"m1"),)).problems), [KEYS.transfer]
        )

    def test_stray_keys(self) -> None:
        """
        Keys of foreign depth and illegal ids are not taken in; they are
        listed as they may be shown.
        """
        for name in STRAY_NAMES:
            found = state(
                members=(entry(KEYS.members + name, b"alive", "s"),),
                work=(entry(KEYS.work + name),),
                assignments=(
                    entry(KEYS.assignments + name),
                    entry(KEYS.assignments_of("m1") + name),
                    entry(KEYS.assignments + name + "/w1"),
                ),
                owners=(entry(KEYS.owners + name),),
                intent=(entry(KEYS.intent + "nodes/" + name),),
            )
            # "a/b" under assignments/ is the item b of the member a.
            taken = 1 if name == "a/b" else 0

            self.assertEqual(len(found.stray), 7 - taken, name)
            self.assertTrue(all(key.isascii() for key in found.stray))
            self.assertEqual(found.members, {})
            self.assertEqual(found.work, {})
            self.assertEqual(found.owners, {})
            self.assertEqual(len(found.assignments), taken)

    def test_stray_after_a_good_one(self) -> None:
        """
        An illegal item of a member that has others is stray all the same.
        """
        found = state(
            assignments=(
                entry(KEYS.assignment("m1", "w1")),
                entry(KEYS.assignment("m1", "w2/x")),
            )
        )

        self.assertEqual(found.assignments, {"m1": {"w1": b""}})
        self.assertEqual(found.stray, (KEYS.assignment("m1", "w2/x"),))

    def test_stray_members_have_no_member(self) -> None:
        """
        A member whose only assignments are stray is none.
        """
        found = state(assignments=(entry(KEYS.assignments_of("m1")),))

        self.assertEqual(found.assignments, {})

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["members", "work", "assignments", "owners", "intent"]),
                st.sampled_from([*STRAY_NAMES, "m1", "w1", "m1/w1", "nodes/m1"]),
                st.sampled_from(
                    [b"", b"alive", b"\xff", b"{}", b"[" * 5000, b"x" * 600_000]
                ),
            )
        )
    )
    def test_anything_gives_a_plan(self, keys: list[tuple[str, str, bytes]]) -> None:
        """
        Whatever lies under the prefixes, there is a state, and every planner
        has a plan of known members and items alone (G9).
        """
        found: dict[str, list[Entry]] = {}
        for name, rest, value in keys:
            key = f"{KEYS.prefix}/{name}/{rest}"
            found.setdefault(name, []).append(entry(key, value, "s"))
        cluster = state(**{name: tuple(rows) for name, rows in found.items()})
        for planner in (BalancedPlanner(), HashRingPlanner()):
            for operation in planner.plan(cluster).operations:
                if isinstance(operation, Assign):
                    self.assertIn(operation.member, cluster.members)
                    self.assertIn(operation.work, cluster.work)


class ReceiversTests(SynchronousTestCase):
    """
    Who may be given work.
    """

    def test_receivers(self) -> None:
        """
        All live members, but those that leave, are wanted away, or weigh
        nothing.
        """
        records = {
            "e": Member("e", weight=2, version="1"),
            "a": Member("a", version="1"),
            "b": Member("b", weight=0, version="1"),
            "c": Member("c", leaving=True, version="1"),
            "d": Member("d", version="1"),
        }
        found = state(
            members=tuple(
                entry(KEYS.member(name), record.encode(), "s")
                for name, record in records.items()
            ),
            intent=(entry(KEYS.node_intent("d"), b"leave"),),
        )

        self.assertEqual(list(found.receivers.items()), [("a", 1), ("e", 2)])
