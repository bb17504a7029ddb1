"""
Tests for the machine of the role.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from automat import NoTransition
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.events import Event, RoleChanged
from voltha_coord.leader import Leader
from voltha_coord.lease import LeaseEnd
from voltha_coord.role import (
    CANDIDATE,
    DRAINING,
    EMERGENCY,
    FOLLOWER,
    LEADER,
    STOPPED,
    Role,
    RoleCore,
    RoleMachine,
)
from voltha_coord.term import Term

from .support.embedded import ClusterTestCase

TERM = cast(Term, object())


class TotalityTests(SynchronousTestCase):
    """
    The table.
    """

    def test_missing(self) -> None:
        """
        What is not declared is exactly what cannot happen.
        """
        machine = RoleMachine.__automat_automaton__
        declared = {
            (state.name, input) for state, input, _, _ in machine.allTransitions()
        }
        states = {state.name for state in machine.states()}
        inputs = set(machine.inputAlphabet())
        missing = {(s, i) for s in states for i in inputs} - declared

        self.assertEqual(len(states), 9)
        self.assertEqual(len(inputs), 9)
        self.assertEqual(
            missing,
            {
                # No leader is being put to rest.
                ("candidate", "_halted"),
                ("follower", "_halted"),
                ("leading", "_halted"),
                ("emergency", "_halted"),
                ("draining", "_halted"),
                # No term begins while one lasts, or its leader is not at rest,
                # or none is to begin any more.
                ("leading", "elected"),
                ("resigning", "elected"),
                ("falling_back", "elected"),
                ("handing_over", "elected"),
                ("draining", "elected"),
                ("stopped", "elected"),
                # Nobody stops without having drained.
                ("candidate", "stop"),
                ("follower", "stop"),
                ("leading", "stop"),
                ("resigning", "stop"),
                ("emergency", "stop"),
                ("falling_back", "stop"),
            },
        )

    def test_undeclared_raises(self) -> None:
        """
        What is not declared raises, and changes nothing.
        """
        core = RoleCore(lambda term: lambda: None, lambda name: None, lambda: None)
        role = RoleMachine(core)

        with self.assertRaises(NoTransition):
            role.stop()

        self.assertEqual(core.name, CANDIDATE)


class RoleTestCase(SynchronousTestCase):
    """
    Has a role.
    """

    can_lead = True

    def setUp(self) -> None:
        """
        Have a member whose leaders are slow to come to rest.
        """
        self.said: list[Any] = []
        self.resting: Deferred[None] | None = Deferred()
        self.core = RoleCore(
            self.make_leader,
            lambda name: self.said.append(name),
            lambda: self.said.append("settled"),
            can_lead=self.can_lead,
        )
        self.role: Role = RoleMachine(self.core)

    def make_leader(self, term: Term) -> Callable[[], Deferred[None] | None]:
        """
        Begin to lead.
        """
        self.said.append(("make", term))

        def halt() -> Deferred[None] | None:
            self.said.append("halt")
            return self.resting

        return halt

    def go(self, *inputs: str) -> None:
        """
        Let things happen; forget what was said of them.
        """
        for name in inputs:
            if name == "elected":
                self.role.elected(TERM)
            else:
                getattr(self.role, name)()
        self.said.clear()


class RoleTests(RoleTestCase):
    """
    What follows from what happens.
    """

    def test_begins(self) -> None:
        """
        A member begins as a candidate.
        """
        self.assertEqual(self.core.name, CANDIDATE)

    def test_follows(self) -> None:
        """
        A candidate that knows a leader follows it, and says so once.
        """
        self.role.leader_known()
        self.role.leader_known()

        self.assertEqual(self.said, [FOLLOWER])

    def test_stands(self) -> None:
        """
        A follower that knows of no leader is a candidate.
        """
        self.go("leader_known")

        self.role.leaderless()
        self.role.leaderless()

        self.assertEqual(self.said, [CANDIDATE])

    def test_leads(self) -> None:
        """
        The elected makes a leader and is one, from both roles.
        """
        for before in ([], ["leader_known"]):
            self.setUp()
            self.go(*before)

            self.role.elected(TERM)

            self.assertEqual(self.said, [("make", TERM), LEADER])

    def test_leading_goes_on(self) -> None:
        """
        What is seen of the leader key while leading changes nothing: the
        election says when the term is over.
        """
        self.go("elected")

        self.role.leader_known()
        self.role.leaderless()

        self.assertEqual((self.said, self.core.name), ([], LEADER))

    def test_deposed(self) -> None:
        """
        The deposed is a candidate at once, before its leader is halted; no
        term may begin before that is at rest (field reports 47, 56).
        """
        self.go("elected")

        self.role.deposed()

        self.assertEqual(self.said, [CANDIDATE, "halt"])
        self.assertTrue(self.core.halting)

    def test_at_rest(self) -> None:
        """
        Once the leader is at rest the member stands again, and says so.
        """
        self.go("elected", "deposed")

        assert self.resting is not None
        self.resting.callback(None)

        self.assertEqual(self.said, ["settled"])
        self.assertFalse(self.core.halting)
        self.role.leader_known()
        self.assertEqual(self.core.name, FOLLOWER)

    def test_halts_at_once(self) -> None:
        """
        A leader that halts without a Deferred is at rest at once.
        """
        self.resting = None
        self.go("elected")

        self.role.deposed()

        self.assertEqual(self.said, [CANDIDATE, "halt", "settled"])

    def test_halt_fails(self) -> None:
        """
        A leader that fails to halt is logged, and counts as at rest.
        """
        self.go("elected", "deposed")

        assert self.resting is not None
        with capture_logs() as logs:
            self.resting.errback(ValueError("stuck"))

        self.assertEqual(self.said, ["settled"])
        self.assertEqual([one["event"] for one in logs], ["leader-not-halted"])

    def test_deposed_twice(self) -> None:
        """
        Being told of a term's end again changes nothing, in any role.
        """
        for before in (
            [],
            ["leader_known"],
            ["elected", "deposed"],
            ["alarm"],
            ["elected", "deposed", "alarm"],
            ["drain"],
        ):
            self.setUp()
            self.go(*before)
            name = self.core.name

            self.role.deposed()

            self.assertEqual((self.said, self.core.name), ([], name), before)

    def test_drains(self) -> None:
        """
        Who neither leads nor has led drains at once, also in an emergency.
        """
        for before in ([], ["leader_known"], ["alarm"]):
            self.setUp()
            self.go(*before)

            self.role.drain()
            self.role.drain()

            self.assertEqual(self.said, [DRAINING])

    def test_drains_while_leading(self) -> None:
        """
        A leader on its way out is halted first.
        """
        self.go("elected")

        self.role.drain()

        self.assertEqual(self.said, [DRAINING, "halt"])
        self.assertTrue(self.core.halting)
        assert self.resting is not None
        self.resting.callback(None)
        self.assertFalse(self.core.halting)
        self.assertEqual(self.said, [DRAINING, "halt", "settled"])

    def test_drains_while_halting(self) -> None:
        """
        A deposed leader that is halting is not halted again on the way out.
        """
        self.go("elected", "deposed")

        self.role.drain()
        assert self.resting is not None
        self.resting.callback(None)

        self.assertEqual(self.said, [DRAINING, "settled"])

    def test_never_again(self) -> None:
        """
        Who drains is no candidate and no follower any more.
        """
        self.go("drain")

        self.role.leader_known()
        self.role.leaderless()

        self.assertEqual((self.said, self.core.name), ([], DRAINING))

    def test_stops(self) -> None:
        """
        Who has given everything back has stopped, and says so once.
        """
        self.go("drain")

        self.role.stop()
        self.role.stop()

        self.assertEqual(self.said, [STOPPED])

    def test_stops_while_halting(self) -> None:
        """
        A leader that never comes to rest keeps nobody from stopping; one that
        does so afterwards is no surprise (field report 48).
        """
        self.go("elected", "drain")

        self.role.stop()
        assert self.resting is not None
        self.resting.callback(None)

        self.assertEqual((self.said, self.core.name), ([STOPPED], STOPPED))


class UnledTests(RoleTestCase):
    """
    Members that know of no leader; Note [Roles without a leader].
    """

    can_lead = False

    def test_never_a_candidate(self) -> None:
        """
        A member that may not lead begins as a follower, and is one whether a
        leader is known or not.
        """
        self.assertEqual(self.core.name, FOLLOWER)

        self.role.leader_known()
        self.role.leaderless()
        self.role.leader_known()

        self.assertEqual((self.said, self.core.name), ([], FOLLOWER))

    def test_after_an_emergency(self) -> None:
        """
        A member that may not lead is a follower again after an emergency.
        """
        self.role.alarm()
        self.role.all_clear()

        self.assertEqual(self.said, [EMERGENCY, FOLLOWER])


class EmergencyTests(RoleTestCase):
    """
    Note [Emergencies and the role].
    """

    def test_begins(self) -> None:
        """
        Whoever does not lead enters an emergency, and says so once.
        """
        for before in ([], ["leader_known"]):
            self.setUp()
            self.go(*before)

            self.role.alarm()
            self.role.alarm()

            self.assertEqual(self.said, [EMERGENCY])

    def test_ends(self) -> None:
        """
        After the all-clear the member is a candidate, and takes part in what is
        known of the leader again.
        """
        self.go("alarm")

        self.role.all_clear()
        self.role.leader_known()

        self.assertEqual(self.said, [CANDIDATE, FOLLOWER])

    def test_deaf(self) -> None:
        """
        What is seen of the leader key is no all-clear.
        """
        self.go("alarm")

        self.role.leader_known()
        self.role.leaderless()

        self.assertEqual((self.said, self.core.name), ([], EMERGENCY))

    def test_late_all_clear(self) -> None:
        """
        A late all-clear does not demote a leader: one elected in an emergency
        leads, and goes on leading (specs 1.2).
        """
        self.go("alarm")

        self.role.elected(TERM)
        self.role.all_clear()

        self.assertEqual(self.said, [("make", TERM), LEADER])
        self.assertEqual(self.core.name, LEADER)
        self.assert_leads()

    def assert_leads(self) -> None:
        """
        Check that there is a leader, by halting it.
        """
        self.said.clear()
        self.role.deposed()
        self.assertEqual(self.said, [CANDIDATE, "halt"])

    def test_late_alarm(self) -> None:
        """
        Nor does a late alarm.
        """
        self.go("elected")

        self.role.alarm()

        self.assertEqual((self.said, self.core.name), ([], LEADER))
        self.assert_leads()

    def test_needless_all_clear(self) -> None:
        """
        An all-clear without an emergency changes nothing, in any role.
        """
        for before in (
            [],
            ["leader_known"],
            ["elected"],
            ["elected", "deposed"],
            ["elected", "drain"],
            ["drain"],
            ["drain", "stop"],
        ):
            self.setUp()
            self.go(*before)
            name, halting = self.core.name, self.core.halting

            self.role.all_clear()

            self.assertEqual(
                (self.said, self.core.name, self.core.halting), ([], name, halting)
            )

    def test_while_halting(self) -> None:
        """
        A member enters an emergency while its old leader is still halting; it
        does not stand again when that is at rest.
        """
        self.go("elected", "deposed")

        self.role.alarm()
        self.role.alarm()
        self.assertEqual(self.said, [EMERGENCY])
        self.assertTrue(self.core.halting)
        assert self.resting is not None
        self.resting.callback(None)

        self.assertEqual(self.said, [EMERGENCY, "settled"])
        self.assertEqual((self.core.name, self.core.halting), (EMERGENCY, False))
        self.role.all_clear()
        self.assertEqual(self.core.name, CANDIDATE)

    def test_all_clear_while_halting(self) -> None:
        """
        An all-clear before the old leader is at rest does not let a term begin
        before it is.
        """
        self.go("elected", "deposed", "alarm")

        self.role.all_clear()
        self.assertEqual(self.said, [CANDIDATE])
        self.assertTrue(self.core.halting)
        with self.assertRaises(NoTransition):
            self.role.elected(TERM)
        assert self.resting is not None
        self.resting.callback(None)

        self.assertEqual(self.said, [CANDIDATE, "settled"])
        self.role.elected(TERM)
        self.assertEqual(self.core.name, LEADER)

    def test_deaf_while_halting(self) -> None:
        """
        What is seen of the leader key while halting in an emergency changes
        nothing.
        """
        self.go("elected", "deposed", "alarm")

        self.role.leader_known()
        self.role.leaderless()

        self.assertEqual((self.said, self.core.name), ([], EMERGENCY))

    def test_drains_while_halting(self) -> None:
        """
        A member on its way out in an emergency waits for the leader that is
        still halting, and does not halt it again.
        """
        self.go("elected", "deposed", "alarm")

        self.role.drain()
        self.assertTrue(self.core.halting)
        assert self.resting is not None
        self.resting.callback(None)

        self.assertEqual(self.said, [DRAINING, "settled"])

    def test_not_on_the_way_out(self) -> None:
        """
        For who drains or has stopped there is no emergency any more.
        """
        for before in (["drain"], ["elected", "drain"], ["drain", "stop"]):
            self.setUp()
            self.go(*before)
            name = self.core.name

            self.role.alarm()

            self.assertEqual((self.said, self.core.name), ([], name), before)


class MemberTests(ClusterTestCase):
    """
    The role of whole members.
    """

    def test_followed_after_halting(self) -> None:
        """
        A deposed leader that takes long to come to rest follows the next leader
        once it is: what it saw of the leader key meanwhile is not lost.
        """
        resting: list[Deferred[None]] = []

        class Slow(Leader):
            def halt(self) -> Deferred[None]:
                """
                Come to rest when the test says so.
                """
                super().halt().addErrback(lambda _: None)
                resting.append(Deferred())
                return resting[-1]

        a = self.lead("a", leader_class=Slow)
        (b,) = self.add("b")
        a.give_up_leadership("asked")
        self.cluster.until(lambda: b.is_leader and a.leader_id == "b")
        self.assertEqual(a.role, CANDIDATE)

        resting[0].callback(None)

        self.assertEqual(a.role, FOLLOWER)

    def test_one_source(self) -> None:
        """
        Whoever is told of a role finds the status, the flag and readiness to
        agree with it, whatever happens (field reports 47, 51).
        """
        told: list[tuple[str, str, bool, bool, bool]] = []

        def note(event: Event) -> None:
            if isinstance(event, RoleChanged):
                status = a.status()
                told.append(
                    (
                        event.role,
                        status["role"],
                        status["is_leader"],
                        status["fencing_token"] is not None,
                        a.is_ready and a.leader_id == "a",
                    )
                )

        a = self.cluster.add("a")
        a.listen(note)
        self.cluster.until(lambda: a.is_leader)
        self.cluster.network(a).partition()
        self.cluster.until(lambda: a.lease.remaining == 0)
        self.cluster.advance(3)
        self.cluster.network(a).heal(deliver=False)
        self.cluster.until(lambda: a.is_leader)
        self.cluster.result(a.shutdown())

        self.assertEqual(
            told,
            [
                (LEADER, LEADER, True, True, True),
                (CANDIDATE, CANDIDATE, False, False, False),
                (LEADER, LEADER, True, True, True),
                (DRAINING, DRAINING, False, False, False),
                (STOPPED, STOPPED, False, False, False),
            ],
        )

    def test_at_the_deadline(self) -> None:
        """
        At the deadline itself, before anything could react, a member is no
        leader: a candidate, or a follower where it may not lead any more.
        """
        for can_lead, role in ((True, CANDIDATE), (False, FOLLOWER)):
            self.setUp()
            a = self.lead("a")
            a._parts.acting.core.can_lead = can_lead
            lease = a.session.lease
            assert lease is not None
            lease.end(LeaseEnd.CHECK)

            self.assertEqual((a.role, a.status()["role"]), (role, role))
