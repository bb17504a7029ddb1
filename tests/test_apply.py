"""
Tests for :mod:`voltha_coord.apply`.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from tests.support.clusters import cluster
from voltha_coord.apply import Application, prepare
from voltha_coord.consul.model import Entry, Op
from voltha_coord.keys import Keys
from voltha_coord.ownership import error_mark
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.operations import (
    Assign,
    Move,
    Plan,
    Reassign,
    Spent,
    Unassign,
)
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import OwnerRecord
from voltha_coord.succession import LONGEST_TTL, Predecessor

KEYS = Keys("service/voltha")


def session(name: str) -> str:
    """
    Give the id of a session of that name.
    """
    return f"{name.encode().hex():0>8}-0000-4000-8000-000000000000"


class StringJudge:
    """
    Says that those leases are over that it was told of.

    :ivar asked: who was asked about.
    """

    def __init__(self, *over: str) -> None:
        self.over = {session(name) for name in over}
        self.names: set[str] = set()
        self.asked: list[Predecessor] = []

    def is_over(self, predecessor: Predecessor) -> Deferred[bool]:
        """
        Whether it was told so.
        """
        self.asked.append(predecessor)
        return succeed(predecessor.session in self.over)

    def waited(self, name: str) -> bool:
        """
        Whether it was told so.
        """
        return name in self.names


def owned(state: ClusterState, **owners: str | OwnerRecord) -> ClusterState:
    """
    Give the state with owner records: work id to who owns it.
    """
    records = {
        work: OwnerRecord(owner, session(owner), "check", "node", 15.0)
        if isinstance(owner, str)
        else owner
        for work, owner in owners.items()
    }
    members = {
        name: evolve(member, session=session(name))
        for name, member in state.members.items()
    }
    entries = {
        work: Entry(KEYS.owner(work), modify_index=100 + n)
        for n, work in enumerate(records)
    }
    return evolve(state, members=members, owners=records, owner_entries=entries)


class ApplyTests(SynchronousTestCase):
    """
    The writes of a pass.
    """

    def setUp(self) -> None:
        """
        Begin with nobody's lease over.
        """
        self.judge = StringJudge()

    def prepare(
        self, state: ClusterState, plan: Plan | None = None, *told: Entry
    ) -> Application:
        """
        Prepare a plan, by default the balanced planner's.
        """
        if plan is None:
            plan = BalancedPlanner().plan(state)
        application = self.successResultOf(prepare(KEYS, state, plan, self.judge, told))
        assert isinstance(application, Application)
        return application

    def test_operations(self) -> None:
        """
        Each operation is one group of writes, in the order of the plan; a move
        is both its writes (V13).
        """
        state = cluster(["a", "b"])
        plan = Plan((Unassign("w1", "a"), Assign("w2", "b"), Move("w3", "a", "b")))

        application = self.prepare(state, plan)

        self.assertEqual(
            application.groups,
            (
                (Op.delete(KEYS.assignment("a", "w1")),),
                (Op.set(KEYS.assignment("b", "w2"), b""),),
                (
                    Op.delete(KEYS.assignment("a", "w3")),
                    Op.set(KEYS.assignment("b", "w3"), b""),
                ),
            ),
        )
        self.assertEqual((application.operations, application.held), (3, 0))
        self.assertEqual(application.carried, plan.operations)

    def test_values(self) -> None:
        """
        What an assignment is to say is written with it; a wish that is used up
        is taken from the work item in the same transaction, if nobody has
        changed that meanwhile.
        """
        spent = Spent(b"plain", 7)
        plan = Plan(
            (
                Assign("w1", "a", b"1"),
                Reassign("w2", "b", b"2", spent),
                Move("w3", "a", "b", b"3", spent),
            )
        )

        application = self.prepare(cluster(["a", "b"]), plan)

        self.assertEqual(
            application.groups,
            (
                (Op.set(KEYS.assignment("a", "w1"), b"1"),),
                (
                    Op.set(KEYS.assignment("b", "w2"), b"2"),
                    Op.cas(KEYS.work_item("w2"), b"plain", 7),
                ),
                (
                    Op.delete(KEYS.assignment("a", "w3")),
                    Op.set(KEYS.assignment("b", "w3"), b"3"),
                    Op.cas(KEYS.work_item("w3"), b"plain", 7),
                ),
            ),
        )

    def test_kept(self) -> None:
        """
        Owner records of what is kept for a member that may come back stay, also
        such as cannot be read: they tell that it did not let go of the item.
        """
        self.judge.over.add(session("a"))
        state = owned(cluster(["b"], ["w1", "w2"], {"a": ["w1", "w2"]}), w1="a")
        odd = Entry(KEYS.owner("w2"), b"?", modify_index=3)
        state = evolve(state, owner_entries={**state.owner_entries, "w2": odd})
        self.judge.names.add("owner w2 3")
        kept = Plan(placements={"w1": "a"}, kept=frozenset({"w1", "w2"}))

        application = self.prepare(state, kept)

        verbs = [op.verb for group in application.groups for op in group]
        self.assertNotIn("delete-cas", verbs)
        self.assertEqual((application.held, application.waiting), (0, ()))

    def test_asked_early(self) -> None:
        """
        Whether the lease of one that is gone is over is asked from the
        beginning, so that nothing is waited for twice.
        """
        state = owned(cluster(["b"], ["w1"], {"a": ["w1"]}), w1="a")

        self.prepare(state, Plan(placements={"w1": "a"}, kept=frozenset({"w1"})))

        self.assertEqual([asked.session for asked in self.judge.asked], [session("a")])

    def test_relocated(self) -> None:
        """
        An operator's wish that is fulfilled is removed, unless it has become
        another one.
        """
        state = evolve(cluster(["a"], ["w1"]), relocation_index={"w1": 12})

        application = self.prepare(state, Plan(relocated=("w1",)))

        self.assertEqual(
            application.groups, ((Op.delete_cas(KEYS.relocation("w1"), 12),),)
        )

    def test_pending(self) -> None:
        """
        What is told of items that are yet to be planned stands until they are.
        """
        told = Entry(KEYS.error("w1"), b"no room", modify_index=9)

        waiting = self.prepare(
            cluster(["a"], ["w1"]), Plan(pending=frozenset({"w1"})), told
        )
        planned = self.prepare(cluster(["a"], ["w1"]), Plan(), told)

        self.assertEqual(waiting.groups, ())
        self.assertEqual(planned.groups, ((Op.delete_cas(KEYS.error("w1"), 9),),))

    def test_partly_applied(self) -> None:
        """
        An operation is done once all its writes are applied; writes that clear
        up are no operation.
        """
        state = owned(cluster(["a", "b"]), w1="x", w9="x")
        self.judge.over.add(session("x"))
        plan = Plan((Assign("w1", "a"), Move("w3", "a", "b")))

        application = self.prepare(state, plan)

        sizes = [len(group) for group in application.groups]
        self.assertEqual(sizes, [2, 2, 1])
        done = [len(application.done(applied)) for applied in range(6)]
        self.assertEqual(done, [0, 0, 1, 1, 2, 2])

    def test_living_owner(self) -> None:
        """
        Where the owner lives its record is its own business: the move is
        written, and nobody is asked about.
        """
        state = owned(cluster(["a", "b"], ["w1"], {"a": ["w1"]}), w1="a")

        application = self.prepare(state, Plan((Move("w1", "a", "b"),), {"w1": "b"}))

        self.assertEqual([op.verb for op in application.groups[0]], ["delete", "set"])
        self.assertEqual(self.judge.asked, [])

    def test_dead_owner(self) -> None:
        """
        An item of a member that is gone is moved in the transaction that
        clears its owner record (V10).
        """
        self.judge.over.add(session("a"))
        state = owned(cluster(["b"], ["w1"], {"a": ["w1"]}), w1="a")

        application = self.prepare(state)

        self.assertEqual(
            application.groups,
            (
                (
                    Op.delete(KEYS.assignment("a", "w1")),
                    Op.set(KEYS.assignment("b", "w1"), b""),
                    Op.delete_cas(KEYS.owner("w1"), 100),
                ),
            ),
        )

    def test_held(self) -> None:
        """
        Until the lease of the one that is gone is over its items stay where
        they are, and the others move.
        """
        self.judge.over.add(session("b"))
        state = owned(
            cluster(["c"], ["w1", "w2"], {"a": ["w1"], "b": ["w2"]}), w1="a", w2="b"
        )

        application = self.prepare(state)

        self.assertEqual(
            [op.key for op in application.groups[0]][1:2], [KEYS.assignment("c", "w2")]
        )
        self.assertEqual((application.operations, application.held), (1, 1))
        self.assertEqual([o.session for o in application.waiting], [session("a")])

    def test_asked_once(self) -> None:
        """
        A session is asked about once, however many items it owned.
        """
        work = [f"w{n}" for n in range(50)]
        state = owned(cluster(["b"], work, {"a": work}), **dict.fromkeys(work, "a"))

        application = self.prepare(state)

        self.assertEqual(len(self.judge.asked), 1)
        self.assertEqual(application.held, 50)
        self.assertEqual(
            self.judge.asked, [Predecessor(session("a"), "check", "node", 15.0)]
        )

    def test_restarted(self) -> None:
        """
        What a new session of the same member is to go on with stays its own:
        nothing is written, and nobody is asked about.
        """
        before = OwnerRecord("a", session("old"))
        state = owned(cluster(["a"], ["w1"], {"a": ["w1"]}), w1=before)

        application = self.prepare(state)

        self.assertEqual(application, Application())
        self.assertEqual(self.judge.asked, [])

    def test_restarted_and_moved(self) -> None:
        """
        What a restarted member is not to go on with waits for its old lease.
        """
        before = OwnerRecord("a", session("old"))
        state = owned(cluster(["a", "b"], ["w1"], {"b": ["w1"]}), w1=before)

        held = self.prepare(state)
        self.judge.over.add(session("old"))
        cleared = self.prepare(state)

        self.assertEqual((held.groups, held.held), ((), 1))
        self.assertEqual(cleared.groups, ((Op.delete_cas(KEYS.owner("w1"), 100),),))

    def test_orphans(self) -> None:
        """
        Owner records of the dead are cleared although nothing else is to be
        done about the item: it was assigned away before, or does not exist.
        """
        self.judge.over.add(session("a"))
        state = owned(cluster(["b"], ["w1"], {"b": ["w1"]}), w1="a", gone="a")

        application = self.prepare(state)

        self.assertEqual(
            sorted(op.key for group in application.groups for op in group),
            [KEYS.owner("gone"), KEYS.owner("w1")],
        )
        self.assertEqual(application.operations, 0)

    def test_deleted_item_of_dead_owner(self) -> None:
        """
        The assignment of a deleted item goes together with its dead owner's
        record.
        """
        self.judge.over.add(session("a"))
        state = owned(cluster(["b"], [], {"a": ["w1"]}), w1="a")

        application = self.prepare(state)

        self.assertEqual(
            application.groups,
            (
                (
                    Op.delete(KEYS.assignment("a", "w1")),
                    Op.delete_cas(KEYS.owner("w1"), 100),
                ),
            ),
        )

    def test_nobody(self) -> None:
        """
        Without any member nothing is written, whatever the plan says (B8).
        """
        self.judge.over.add(session("a"))
        state = owned(cluster([], ["w1"], {"a": ["w1"]}), w1="a")
        told = Entry(KEYS.error("w1"), b"old", modify_index=9)

        application = self.prepare(state, Plan((Unassign("w1", "a"),)), told)

        self.assertEqual(application, Application())

    def test_impossible_session(self) -> None:
        """
        An owner record with what can be no session is treated as one whose
        session is gone, and Consul is not asked, as it would answer an error
        (G9).
        """
        junk = OwnerRecord("a", "../../etc")
        state = owned(cluster(["b"], ["w1"], {"b": ["w1"]}), w1=junk)

        held = self.prepare(state)
        self.judge.names.add("session ../../etc")
        cleared = self.prepare(state)

        self.assertEqual(held.held, 1)
        self.assertEqual(len(cleared.groups), 1)
        self.assertEqual(self.judge.asked, [])

    def test_impossible_node(self) -> None:
        """
        A check on what can be no node is not looked up, and a TTL beyond what
        Consul grants is cut (G9).
        """
        junk = OwnerRecord("a", session("a"), "check", "no de/..", 1e12)
        state = owned(cluster(["b"], ["w1"], {"b": ["w1"]}), w1=junk)

        self.prepare(state)

        (asked,) = self.judge.asked
        self.assertEqual((asked.check, asked.ttl), ("", LONGEST_TTL))

    def unreadable(self) -> ClusterState:
        """
        Give a state with an owner record that cannot be read.
        """
        state = owned(cluster(["b"], ["w1"], {"b": ["w1"]}))
        entry = Entry(KEYS.owner("w1"), b"\xff", modify_index=42)
        problems = {KEYS.owner("w1"): "the value is binary"}
        return evolve(state, owner_entries={"w1": entry}, problems=problems)

    def test_unreadable_owner(self) -> None:
        """
        An owner record that cannot be read is told, and cleared one session
        TTL after it was first seen (G9).
        """
        state = self.unreadable()

        first = self.prepare(state)
        self.judge.names.add("owner w1 42")
        then = self.prepare(state)

        ((said,),) = first.groups
        self.assertEqual((said.verb, said.key), ("set", KEYS.error("w1")))
        self.assertIn(b"the value is binary", said.value or b"")
        self.assertEqual(first.held, 1)
        self.assertIn((Op.delete_cas(KEYS.owner("w1"), 42),), then.groups)

    def told(self, work: str, text: str, flags: int = 0) -> Entry:
        """
        Give what is said under ``errors/``.
        """
        return Entry(KEYS.error(work), text.encode(), flags=flags, modify_index=9)

    def test_errors(self) -> None:
        """
        Items that cannot be placed are told, those told already are not told
        again, and what is fine is removed.
        """
        state = cluster({"a": 0}, ["w1", "w2", "w3"])
        plan = Plan(errors={"w1": "no room", "w2": "no room", "w3": "no room"})

        application = self.prepare(
            state,
            plan,
            self.told("w1", "no room"),
            self.told("w2", "another reason"),
            self.told("w9", "no room"),
        )

        self.assertEqual(
            sorted((op.verb, op.key) for g in application.groups for op in g),
            [
                ("delete-cas", KEYS.error("w9")),
                ("set", KEYS.error("w2")),
                ("set", KEYS.error("w3")),
            ],
        )
        self.assertEqual(application.errors, plan.errors)

    def test_owners_errors(self) -> None:
        """
        What an owner says stays for as long as it owns the item under that
        session.
        """
        state = owned(cluster(["a"], ["w1", "w2"], {"a": ["w1", "w2"]}), w1="a", w2="a")
        mine = error_mark(session("a"))

        application = self.prepare(
            state,
            None,
            self.told("w1", "will not start", mine),
            self.told("w2", "would not start", error_mark(session("b"))),
        )

        self.assertEqual(application.groups, ((Op.delete_cas(KEYS.error("w2"), 9),),))

    def test_errors_of_another_mark(self) -> None:
        """
        What an owner said is replaced when the leader has a reason of its own.
        """
        application = self.prepare(
            cluster(["a"], ["w1"]),
            Plan(errors={"w1": "no room"}),
            self.told("w1", "no room", error_mark(session("a"))),
        )

        self.assertEqual(application.groups, ((Op.set(KEYS.error("w1"), b"no room"),),))

    def test_an_impossible_session_says_nothing(self) -> None:
        """
        An owner record that names what cannot be a session speaks for nobody:
        what its last owner said is removed, and the pass goes on (G9).
        """
        told = self.told("w1", "would not start", error_mark(session("a")))
        for impossible in ("nope", "", "١٢٣", "0x10", session("a")[1:]):
            record = OwnerRecord("a", impossible)
            state = owned(cluster(["a"], ["w1"], {"a": ["w1"]}), w1=record)

            application = self.prepare(state, None, told)

            self.assertEqual(
                application.groups,
                ((Op.delete_cas(KEYS.error("w1"), told.modify_index),),),
            )

    def test_illegal_error_keys(self) -> None:
        """
        Keys under ``errors/`` that cannot be ours are left alone (G9).
        """
        application = self.prepare(
            cluster(["a"]),
            None,
            Entry(f"{KEYS.errors}a b"),
            Entry(f"{KEYS.errors}deep/er"),
            Entry(KEYS.errors),
        )

        self.assertEqual(application.groups, ())

    def test_long_and_odd_texts(self) -> None:
        """
        A reason of any length and with any characters can be told.
        """
        plan = Plan(errors={"w1": "x" * 100_000, "w2": "\ud800"})

        application = self.prepare(cluster(["a"], ["w1", "w2"]), plan)

        sizes = [len(op.value or b"") for g in application.groups for op in g]
        self.assertEqual(sizes, [2000, 1])

    def test_calm(self) -> None:
        """
        In the state that a plan leads to nothing is written.
        """
        work = ["w1", "w2", "w3"]
        state: Any = owned(
            cluster(["a", "b"], work, {"a": ["w1", "w2"], "b": ["w3"]}),
            w1="a",
            w2="a",
            w3="b",
        )

        self.assertEqual(self.prepare(state).groups, ())
