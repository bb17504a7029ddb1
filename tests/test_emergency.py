"""
Tests for emergencies: when one comes, what goes on in it, and what ends it.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord import leading
from voltha_coord.coordinator import Coordinator
from voltha_coord.emergency import REFUSED_SECONDS, SETTLED_SECONDS, Emergency
from voltha_coord.events import Event, RoleChanged
from voltha_coord.leader import Leader
from voltha_coord.lease import Lease, LeaseEnd
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.operations import Plan
from voltha_coord.planning.state import ClusterState
from voltha_coord.planning.takeover import Takeover
from voltha_coord.settings import Settings
from voltha_coord.wakeful import FIRST_CHANCE_SECONDS

from .support.embedded import ClusterTestCase, to

SILENCE = (LeaseEnd.CHECK, LeaseEnd.RENEWAL)


class EmergencyTestCase(SynchronousTestCase):
    """
    Has an emergency that listens to nobody but the test.

    :ivar states: how it stood whenever it said that it had changed: whether it
        is an emergency, whether work goes on, and what runs beside it.
    """

    isolation = "keep"
    emergency_timeout = 10.0
    node_recover_timeout = 120.0

    def setUp(self) -> None:
        """
        Have a member that has just started, and has never had a lease.
        """
        self.logs: list[Any] = self.enterContext(capture_logs())
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.lease: Lease | None = None
        self.connected = True
        self.planned: Takeover | Exception | None = Takeover({"x": b"1"}, {}, 3.0)
        self.states: list[Any] = []
        self.emergency = Emergency(
            self.clock,
            Settings(
                isolation=self.isolation,
                emergency_timeout=self.emergency_timeout,
                node_recover_timeout=self.node_recover_timeout,
            ),
            lease=lambda: self.lease,
            connected=lambda: self.connected,
            here=lambda: {"own-1", "own-0"},
            plan=self.plan,
            changed=self.changed,
            log=self.logger(),
        )

    def logger(self) -> Any:
        """
        Give a logger whose events are captured.
        """
        return structlog.get_logger()

    def plan(self) -> Takeover | None:
        """
        Plan as the test says.
        """
        if isinstance(self.planned, Exception):
            raise self.planned
        return self.planned

    @property
    def state(self) -> tuple[bool, bool, list[str]]:
        """
        How it stands.
        """
        one = self.emergency
        return one.active, one.work_goes_on, sorted(one.extra)

    def changed(self) -> None:
        """
        Note how it stands.
        """
        self.states.append(self.state)

    def begin_lease(self) -> None:
        """
        Let a lease begin.
        """
        self.lease = Lease(
            self.clock.seconds,
            "session",
            session_ttl=86400.0,
            renewed=self.clock.seconds(),
        )
        self.emergency.lease_changed()

    def end_lease(self, reason: LeaseEnd) -> None:
        """
        Let it end.
        """
        assert self.lease is not None
        self.lease.end(reason)
        self.emergency.lease_changed()

    def fall_silent(self) -> None:
        """
        Let Consul answer no more.
        """
        self.connected = False
        self.emergency.connection_changed()

    def answer(self) -> None:
        """
        Let Consul answer again.
        """
        self.connected = True
        self.emergency.connection_changed()

    def cut_off(self, reason: LeaseEnd = LeaseEnd.CHECK) -> None:
        """
        Let a lease begin and end, Consul being silent.
        """
        self.begin_lease()
        self.fall_silent()
        self.end_lease(reason)

    def wait(self, seconds: float) -> None:
        """
        Let time pass without anybody sleeping.
        """
        self.clock.pump([0.125] * round(seconds * 8))

    def logged(self, event: str) -> list[Any]:
        """
        Give what was logged under that name.
        """
        return [one for one in self.logs if one["event"] == event]

    def assert_idle(self) -> None:
        """
        Check that nothing is to come.
        """
        self.assertEqual(self.clock.getDelayedCalls(), [])


class KeepTests(EmergencyTestCase):
    """
    With ``keep``; Note [How an emergency comes and goes].
    """

    def test_begins(self) -> None:
        """
        It begins ``emergency_timeout`` after silence has ended the lease; work
        goes on from that moment on.
        """
        for reason in SILENCE:
            self.setUp()
            self.cut_off(reason)
            self.assertEqual(self.state, (False, True, []))

            self.wait(9.875)
            self.assertEqual(self.state, (False, True, []))
            self.wait(0.125)

            self.assertEqual(self.state, (True, True, []))
            self.assertEqual(self.states, [(False, True, []), (True, True, [])])

    def test_said(self) -> None:
        """
        An operator is told what goes on, what follows, and what to do; and when
        it is over, how long it was (field report 81).
        """
        self.cut_off()
        self.wait(12)
        (entered,) = self.logged("emergency-entered")
        self.begin_lease()
        (left,) = self.logged("emergency-left")

        self.assertEqual(entered["log_level"], "critical")
        self.assertEqual((entered["items"], entered["some"]), (2, ["own-0", "own-1"]))
        self.assertEqual(
            (entered["isolation"], entered["cut_off_seconds"]), ("keep", 10.0)
        )
        self.assertIn("may run them too", entered["effect"])
        self.assertIn("restore the way to Consul", entered["action"])
        self.assertNotIn("takes_over_in", entered)
        self.assertEqual((left["reason"], left["seconds"]), ("contact", 2.0))

    def test_contact(self) -> None:
        """
        A new lease ends it at once.
        """
        self.cut_off()
        self.wait(30)

        self.begin_lease()

        self.assertEqual(self.state, (False, False, []))
        self.assertEqual(self.states[-1], (False, False, []))
        self.assert_idle()

    def test_contact_in_time(self) -> None:
        """
        An outage that is over in time was none, and nothing is said of it.
        """
        self.cut_off()
        self.wait(9)

        self.begin_lease()
        self.wait(60)

        self.assertEqual(self.state, (False, False, []))
        self.assertEqual(self.logs, [])

    def test_again(self) -> None:
        """
        After contact that did not last, it is an emergency again, no sooner
        than the first time.
        """
        self.cut_off()
        self.wait(15)
        self.answer()
        self.begin_lease()
        self.wait(1)

        self.fall_silent()
        self.end_lease(LeaseEnd.CHECK)
        self.wait(9.75)
        self.assertFalse(self.emergency.active)
        self.wait(0.25)

        self.assertTrue(self.emergency.active)
        self.assertEqual(len(self.logged("emergency-entered")), 2)

    def test_never_at_start(self) -> None:
        """
        A process that never had a lease has nothing to keep.
        """
        self.fall_silent()
        self.emergency.lease_changed()
        self.wait(3600)

        self.assertEqual((self.state, self.states), ((False, False, []), []))

    def test_told_twice(self) -> None:
        """
        The end of one lease counts once, whatever is told of it again.
        """
        self.cut_off()
        self.wait(9)
        self.emergency.lease_changed()
        self.emergency.connection_changed()

        self.wait(1)

        self.assertTrue(self.emergency.active)
        self.assertEqual(len(self.states), 2)

    def test_lease_about_to_end(self) -> None:
        """
        A lease that is about to end, or is extended, changes nothing.
        """
        self.begin_lease()
        self.emergency.lease_changed()
        self.fall_silent()
        self.emergency.lease_changed()

        self.assertEqual(self.states, [])
        self.assert_idle()

    def test_session_gone(self) -> None:
        """
        Where Consul itself says that the session is gone, and answers, there is
        no emergency: the others know it too.
        """
        self.begin_lease()

        self.end_lease(LeaseEnd.SESSION)
        self.wait(3600)

        self.assertEqual((self.state, self.states[:-1]), ((False, False, []), []))
        self.assertEqual(self.logs, [])

    def test_session_gone_and_silence(self) -> None:
        """
        Where it falls silent after that, this member is cut off from then on.
        """
        self.begin_lease()
        self.end_lease(LeaseEnd.SESSION)
        self.wait(5)

        self.fall_silent()
        self.assertEqual(self.state, (False, True, []))
        self.wait(9.875)
        self.assertFalse(self.emergency.active)
        self.wait(0.125)

        self.assertTrue(self.emergency.active)

    def test_session_gone_in_silence(self) -> None:
        """
        A session that is gone while Consul does not answer is silence as well.
        """
        self.cut_off(LeaseEnd.SESSION)
        self.wait(10)

        self.assertTrue(self.emergency.active)

    def test_connected(self) -> None:
        """
        While Consul answers there is no emergency yet: contact is next, or a
        refusal.  Silence in its place is one, if it is time and it lasts.
        """
        self.cut_off()
        self.wait(8)
        self.answer()
        self.wait(2.5)
        self.assertEqual(self.state, (False, True, []))

        self.fall_silent()
        self.wait(SETTLED_SECONDS - 0.125)
        self.assertEqual(self.state, (False, True, []))
        self.wait(0.125)

        self.assertEqual(self.state, (True, True, []))

    def test_connected_in_time(self) -> None:
        """
        An answer in between makes it come no sooner and no later, where there is
        time.
        """
        self.cut_off()
        self.wait(2)
        self.answer()
        self.wait(2)
        self.fall_silent()
        self.emergency.connection_changed()
        self.wait(5.875)
        self.assertFalse(self.emergency.active)
        self.wait(0.125)

        self.assertTrue(self.emergency.active)

    def test_refused(self) -> None:
        """
        A Consul that answers all the while and gives no session refuses it: what
        went on stops, the emergency is over, and there is no other before the
        next lease.
        """
        self.cut_off()
        self.wait(20)
        self.answer()
        self.wait(REFUSED_SECONDS - 0.125)
        self.assertEqual(self.state, (True, True, []))

        self.wait(0.125)

        self.assertEqual(self.state, (False, False, []))
        self.assertEqual(self.states[-1], self.state)
        self.assertEqual(self.logged("emergency-left")[0]["reason"], "session-refused")
        self.assertEqual(len(self.logged("isolation-refused")), 1)
        self.fall_silent()
        self.wait(3600)
        self.assertEqual(self.state, (False, False, []))

    def test_refused_before(self) -> None:
        """
        So it is where the refusal comes before the emergency.
        """
        self.begin_lease()
        self.end_lease(LeaseEnd.CHECK)

        self.wait(REFUSED_SECONDS)

        self.assertEqual(self.states, [(False, True, []), (False, False, [])])
        self.assertEqual([one["event"] for one in self.logs], ["isolation-refused"])

    def test_refused_and_heard(self) -> None:
        """
        After a refusal the next lease, and its end, count as ever.
        """
        self.begin_lease()
        self.end_lease(LeaseEnd.CHECK)
        self.wait(REFUSED_SECONDS)

        self.cut_off()
        self.wait(10)

        self.assertTrue(self.emergency.active)

    def test_answers_and_a_session(self) -> None:
        """
        A Consul that answers and then gives a session has refused nothing.
        """
        self.cut_off()
        self.answer()
        self.wait(5)
        self.begin_lease()
        self.assert_idle()
        self.wait(REFUSED_SECONDS)
        self.fall_silent()
        self.end_lease(LeaseEnd.CHECK)
        self.wait(10)

        self.assertEqual(self.state, (True, True, []))
        self.assertEqual(self.logged("isolation-refused"), [])

    def test_no_refusal(self) -> None:
        """
        Answers between which there is silence are no refusal.
        """
        self.cut_off()
        for _ in range(5):
            self.answer()
            self.wait(REFUSED_SECONDS - 1)
            self.fall_silent()
            self.wait(2)

        self.assertEqual(self.state, (True, True, []))

    def test_slept(self) -> None:
        """
        A timer that fires late proves nothing: Consul may be there, and is asked
        first; Note [A process that slept].
        """
        self.cut_off()
        self.clock.advance(500)
        self.assertFalse(self.emergency.active)

        self.clock.advance(FIRST_CHANCE_SECONDS)

        self.assertTrue(self.emergency.active)

    def test_described(self) -> None:
        """
        A status page shows how long it has lasted, and nothing without one.
        """
        self.assertIsNone(self.emergency.describe())
        self.cut_off()
        self.assertIsNone(self.emergency.describe())
        self.wait(10)
        self.wait(2.5)

        self.assertEqual(
            self.emergency.describe(),
            {
                "isolation": "keep",
                "since_seconds": 2.5,
                "cut_off_seconds": 12.5,
                "takes_over_in": None,
                "extra": [],
            },
        )

    def test_takes_nothing_over(self) -> None:
        """
        However long it lasts, the work of others is left alone.
        """
        self.cut_off()
        self.wait(1200)

        self.assertEqual(self.state, (True, True, []))

    def test_stopped(self) -> None:
        """
        Shutting down ends it, and begins none any more.
        """
        for seconds in (0, 10):
            self.setUp()
            self.cut_off()
            self.wait(seconds)

            self.emergency.stop()
            self.emergency.stop()
            self.assertEqual(self.states[-1], (False, False, []))
            self.end_lease(LeaseEnd.RELEASED)
            self.begin_lease()
            self.end_lease(LeaseEnd.CHECK)
            self.answer()
            self.fall_silent()

            self.assertEqual(self.state, (False, False, []))
            self.assert_idle()
        self.assertEqual(self.logged("emergency-left")[0]["reason"], "shutting-down")

    def test_stopped_before(self) -> None:
        """
        Where there is none, stopping says nothing.
        """
        self.begin_lease()

        self.emergency.stop()

        self.assertEqual((self.states, self.logs), ([], []))


class AtOnceTests(EmergencyTestCase):
    """
    With an ``emergency_timeout`` of 0.
    """

    emergency_timeout = 0.0

    def test_at_once(self) -> None:
        """
        Silence is an emergency at once, however often it is told.
        """
        self.cut_off()
        self.emergency.connection_changed()
        self.clock.advance(0)

        self.assertTrue(self.emergency.active)

    def test_at_once_after_contact(self) -> None:
        """
        So it is after contact: answers from before are not heard any more.
        """
        self.begin_lease()
        self.end_lease(LeaseEnd.CHECK)
        self.cut_off()
        self.emergency.connection_changed()
        self.clock.advance(0)

        self.assertTrue(self.emergency.active)


class StopTests(EmergencyTestCase):
    """
    With ``stop``.
    """

    isolation = "stop"

    def test_never(self) -> None:
        """
        There is no emergency, and no work goes on.
        """
        self.cut_off()
        self.wait(3600)
        self.answer()
        self.fall_silent()
        self.begin_lease()
        self.end_lease(LeaseEnd.RENEWAL)
        self.wait(3600)

        self.assertEqual((self.state, self.states), ((False, False, []), []))
        self.assertEqual(self.logs, [])


class TakeoverTests(EmergencyTestCase):
    """
    With ``takeover``.
    """

    isolation = "takeover"

    def enter(self) -> None:
        """
        Enter an emergency.
        """
        self.cut_off()
        self.wait(10)

    def test_takes_over(self) -> None:
        """
        The work of the others begins here ``node_recover_timeout`` after the
        lease ended, and not before.
        """
        self.enter()
        self.assertEqual(self.emergency.describe()["takes_over_in"], 110.0)  # type: ignore[index]  # an emergency
        self.wait(109.875)
        self.assertEqual(self.state, (True, True, []))

        self.wait(0.125)

        self.assertEqual(self.state, (True, True, ["x"]))
        self.assertEqual(self.emergency.extra, {"x": b"1"})
        self.assertEqual(self.states[-1], self.state)
        described = self.emergency.describe()
        assert described is not None
        self.assertEqual(described["takes_over_in"], None)
        self.assertEqual(described["extra"], ["x"])

    def test_said(self) -> None:
        """
        An operator is told when it will be, what was taken over, what was not
        and why, and how often such items may run.
        """
        self.planned = Takeover({"x": b"", "y": b""}, {"z": "no room"}, 12.5)
        self.enter()
        self.wait(110)

        (entered,) = self.logged("emergency-entered")
        (over,) = self.logged("work-taken-over")
        self.assertEqual(entered["takes_over_in"], 110.0)
        self.assertIn("other members run here as well", entered["effect"])
        self.assertEqual((over["items"], over["some"]), (2, ["x", "y"]))
        self.assertEqual((over["left_out"], over["reasons"]), (1, ["no room"]))
        self.assertEqual(over["known_seconds_ago"], 12.5)
        self.assertIn("once on each of them", over["effect"])

    def test_contact(self) -> None:
        """
        Contact ends all of it at once.
        """
        self.enter()
        self.wait(110)

        self.begin_lease()

        self.assertEqual(self.state, (False, False, []))
        self.assertEqual(self.states[-1], self.state)
        self.assertEqual(self.logged("emergency-left")[0]["extra"], 1)

    def test_contact_before(self) -> None:
        """
        Nothing is taken over after contact.
        """
        self.enter()
        self.wait(100)
        self.begin_lease()
        self.wait(100)

        self.assertEqual(self.state, (False, False, []))
        self.assert_idle()

    def test_refused(self) -> None:
        """
        A refusal ends all of it as well.
        """
        self.enter()
        self.wait(110)
        self.answer()
        self.wait(REFUSED_SECONDS)

        self.assertEqual(self.state, (False, False, []))

    def test_not_while_consul_answers(self) -> None:
        """
        Nothing is taken over while Consul answers; once it is silent again, soon.
        """
        self.enter()
        self.wait(105)
        self.answer()
        self.wait(5)
        self.assertEqual(self.state, (True, True, []))

        self.fall_silent()
        self.wait(FIRST_CHANCE_SECONDS)

        self.assertEqual(self.state, (True, True, ["x"]))

    def test_slept(self) -> None:
        """
        Nor is anything right after a long sleep; Note [A process that slept].
        """
        self.enter()

        self.clock.advance(3600)
        self.assertEqual(self.state, (True, True, []))
        self.clock.advance(FIRST_CHANCE_SECONDS)

        self.assertEqual(self.state, (True, True, ["x"]))

    def test_nothing_known(self) -> None:
        """
        Where nothing is known of the cluster nothing is taken over, and that is
        said.
        """
        self.planned = None
        self.enter()
        self.wait(110)

        self.assertEqual(self.state, (True, True, []))
        self.assertEqual(len(self.logged("takeover-not-planned")), 1)

    def test_planner_fails(self) -> None:
        """
        Nor is anything where the planner fails.
        """
        self.planned = ValueError("oh")
        self.enter()
        self.wait(110)

        self.assertEqual(self.state, (True, True, []))
        (failed,) = self.logged("takeover-not-planned")
        self.assertEqual((failed["error"], failed["exc_info"]), ("oh", True))


class ImpatientTests(EmergencyTestCase):
    """
    With a ``node_recover_timeout`` shorter than ``emergency_timeout``.
    """

    isolation = "takeover"
    node_recover_timeout = 2.0

    def test_not_before(self) -> None:
        """
        Nothing is taken over before it is an emergency.
        """
        self.cut_off()
        self.wait(9.875)
        self.assertEqual(self.state, (False, True, []))

        self.wait(0.125)
        self.clock.advance(0)

        self.assertEqual(self.state, (True, True, ["x"]))


class IsolatedCase(ClusterTestCase):
    """
    Members that are cut off.

    :ivar told: what a member's listener was told, with what the member said of
        itself at that moment.
    """

    settings = Settings(isolation="keep")

    def cut(self, *members: Coordinator) -> None:
        """
        Cut members off from Consul.
        """
        for member in members:
            self.cluster.network(member).partition()

    def heal(self, *members: Coordinator) -> None:
        """
        Let members reach Consul again.
        """
        for member in members:
            self.cluster.network(member).heal(deliver=False)

    def listen(self, member: Coordinator) -> list[tuple[str, str, bool]]:
        """
        Note each role that a member takes, what it says its role is by then, and
        whether its status shows an emergency.
        """
        told: list[tuple[str, str, bool]] = []

        def note(event: Event) -> None:
            if isinstance(event, RoleChanged):
                status = member.status()
                emergency = status["emergency"] is not None
                told.append((event.role, status["role"], emergency))

        member.listen(note)
        return told


class RoleTests(IsolatedCase):
    """
    The role of members that are cut off with ``keep``.
    """

    def test_follower(self) -> None:
        """
        A follower that is cut off is in an emergency ``emergency_timeout`` after
        its lease has ended, and follows again within seconds of contact.
        """
        a, b = self.add("a", "b")
        follower = b if a.is_leader else a
        told = self.listen(follower)
        self.cut(follower)
        self.cluster.until(lambda: follower.lease.remaining == 0)

        took = self.cluster.until(lambda: follower.role == "emergency")
        self.assertAlmostEqual(took, 10.0, delta=0.1)
        self.assertEqual(follower.status()["waiting_for"][:12], "contact with")
        self.heal(follower)
        took = self.cluster.until(lambda: follower.role == "follower")

        self.assertLess(took, 7.0)
        self.assertEqual(
            told,
            [
                ("candidate", "candidate", False),
                ("emergency", "emergency", True),
                ("candidate", "candidate", False),
                ("follower", "follower", False),
            ],
        )

    def test_leader(self) -> None:
        """
        A leader that is cut off leads no more at its deadline; another leads, and it
        does not come back as one (field report 80).
        """
        a, b = self.add("a", "b")
        leader, other = (a, b) if a.is_leader else (b, a)
        told = self.listen(leader)
        self.cut(leader)

        self.cluster.until(lambda: leader.role == "emergency")
        self.assertEqual((leader.is_leader, other.is_leader), (False, True))
        self.heal(leader)
        self.cluster.until(lambda: leader.role == "follower")

        self.assertEqual(
            [role for role, _, _ in told],
            ["candidate", "emergency", "candidate", "follower"],
        )
        self.assertTrue(other.is_leader)

    def test_all(self) -> None:
        """
        Where all are cut off all are in an emergency, each for itself and none
        as a leader; after contact one leads.
        """
        members = self.add("a", "b", "c")
        self.cut(*members)
        self.cluster.advance(15)
        self.assertEqual([one.role for one in members], ["emergency"] * 3)
        self.assertEqual(self.cluster.leaders, [])

        self.heal(*members)
        took = self.cluster.until(lambda: all(one.is_ready for one in members))

        self.assertLess(took, 10.0)
        self.assertEqual(
            sorted(one.role for one in members), ["follower", "follower", "leader"]
        )

    def test_session_gone(self) -> None:
        """
        A follower whose session was destroyed, and that was cut off before it
        had another, follows the same leader again after the emergency.
        """
        a = self.lead("a")
        (b,) = self.add("b")
        network = self.cluster.network(b)
        network.loses_request = to("session/create")
        assert b.session_id is not None
        self.cluster.consul.destroy_session(b.session_id)
        self.cluster.until(lambda: b.lease.remaining == 0)
        self.cut(b)
        self.cluster.until(lambda: b.role == "emergency", 60)
        network.loses_request = lambda request: False
        self.heal(b)
        self.cluster.until(lambda: b.is_member)

        self.assertEqual((a.is_leader, b.leader_id, b.role), (True, "a", "follower"))

    def test_consul_restarts(self) -> None:
        """
        Where Consul itself goes, and comes back, it is the same (field report 78).
        """
        members = self.add("a", "b")
        self.cluster.consul.lose_leader()
        self.cluster.advance(30)
        self.assertEqual([one.role for one in members], ["emergency"] * 2)

        self.cluster.consul.elect_leader()

        took = self.cluster.until(lambda: all(one.is_ready for one in members))
        self.assertLess(took, 10.0)

    def test_no_lead(self) -> None:
        """
        A member that may not lead is a follower, in an emergency, and a follower
        again.
        """
        b = self.cluster.add("b", can_lead=False)
        told = self.listen(b)
        self.assertEqual(b.role, "follower")
        self.lead("a")
        self.cut(b)
        self.cluster.until(lambda: b.role == "emergency")
        self.heal(b)
        self.cluster.until(lambda: b.is_ready)

        self.assertEqual([role for role, _, _ in told], ["emergency", "follower"])

    def test_no_lead_and_no_leader(self) -> None:
        """
        It is a follower also while there is no leader.
        """
        b = self.cluster.add("b", can_lead=False)
        self.cluster.advance(5)

        self.assertEqual((b.role, b.leader_id), ("follower", None))
        self.assertEqual(b.status()["waiting_for"], "a leader")

    def test_never_at_start(self) -> None:
        """
        A member that never reached Consul is a candidate, however long.
        """
        a = self.cluster.add("a")
        self.cut(a)
        self.cluster.advance(60)

        self.assertEqual(a.role, "candidate")
        self.assertIsNone(a.status()["emergency"])

    def test_flapping(self) -> None:
        """
        Contact that does not last ends one emergency, and the next one takes as
        long to come as the first.
        """
        a = self.lead()
        for _ in range(3):
            self.cut(a)
            self.cluster.until(lambda: a.role == "emergency")
            self.heal(a)
            self.cluster.until(lambda: a.is_leader)
            self.cut(a)
            self.cluster.advance(8)
            self.assertEqual(a.role, "candidate")
            self.heal(a)
            self.cluster.until(lambda: a.is_leader)

        self.assertEqual(len(self.logged("emergency-entered")), 3)
        self.assertEqual(len(self.logged("emergency-left", reason="contact")), 3)

    def test_paused(self) -> None:
        """
        A process that stood still for long has Consul asked before anything is
        concluded.
        """
        _a, b = self.add("a", "b")
        told = self.listen(b)
        self.cluster.pause(b)
        self.cluster.advance(300)
        self.cluster.resume(b)
        self.cluster.until(lambda: b.is_ready)
        self.cluster.advance(15)

        self.assertNotIn("emergency", [role for role, _, _ in told])

    def test_paused_while_cut_off(self) -> None:
        """
        So it is where it stood still while it was cut off, and the way is free
        by the time it goes on.
        """
        _a, b = self.add("a", "b")
        told = self.listen(b)
        self.cut(b)
        self.cluster.until(lambda: b.lease.remaining == 0)
        self.cluster.pause(b)
        self.cluster.advance(300)
        self.heal(b)
        self.cluster.resume(b)
        self.cluster.until(lambda: b.is_ready)
        self.cluster.advance(15)

        self.assertNotIn("emergency", [role for role, _, _ in told])

    def test_shut_down(self) -> None:
        """
        Shutting down ends an emergency, whatever Consul does, and leaves
        nothing behind.
        """
        a = self.lead()
        told = self.listen(a)
        self.cut(a)
        self.cluster.until(lambda: a.role == "emergency")

        self.cluster.result(a.shutdown(), 15)

        self.assertEqual(
            told,
            [
                ("candidate", "candidate", False),
                ("emergency", "emergency", True),
                ("draining", "draining", False),
                ("stopped", "stopped", False),
            ],
        )
        self.assertEqual(self.cluster.left_behind(a), (0, 0))
        self.assertEqual(
            [one["reason"] for one in self.logged("emergency-left")], ["shutting-down"]
        )

    def test_shut_down_before(self) -> None:
        """
        There is none for a member that is on its way out when it would come.
        """
        a = self.lead()
        told = self.listen(a)
        self.cut(a)
        self.cluster.advance(11)

        self.cluster.result(a.shutdown(), 15)

        self.assertEqual(
            [role for role, _, _ in told], ["candidate", "draining", "stopped"]
        )

    def test_halting(self) -> None:
        """
        An emergency comes while the leader of the last term is still halting;
        after contact no term begins before it is at rest.
        """
        resting: list[Deferred[None]] = []

        class Stubborn(Leader):
            def halt(self) -> Deferred[None]:
                """
                Come to rest when the test says so.
                """
                super().halt().addErrback(lambda _: None)
                resting.append(Deferred())
                return resting[-1]

        self.patch(leading, "HALT_SECONDS", 60.0)
        a = self.lead("a", leader_class=Stubborn)
        self.cut(a)
        self.cluster.until(lambda: a.role == "emergency")
        self.heal(a)
        self.cluster.advance(15)
        self.assertEqual((a.role, a.is_member), ("candidate", True))

        resting[0].callback(None)

        self.cluster.until(lambda: a.is_leader)

    def test_refused(self) -> None:
        """
        A member that may have no session any more is no longer in an emergency
        once Consul has refused it for a while.
        """
        _a, b = self.add("a", "b")
        self.cut(b)
        self.cluster.until(lambda: b.role == "emergency")
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "session" and "node-of-b" in name
        )
        self.heal(b)
        self.cluster.until(lambda: b.role != "emergency", 60)

        self.assertEqual(
            [one["reason"] for one in self.logged("emergency-left")],
            ["session-refused"],
        )
        self.assertFalse(b.emergency.work_goes_on)


class StopRoleTests(IsolatedCase):
    """
    With ``stop``.
    """

    settings = Settings()

    def test_never(self) -> None:
        """
        A member that is cut off is what it would be without a leader.
        """
        a, b = self.add("a", "b")
        self.cut(a, b)
        self.cluster.advance(60)

        self.assertEqual([a.role, b.role], ["candidate"] * 2)
        self.assertIsNone(a.status()["emergency"])
        self.assertEqual(self.logged("emergency-entered"), [])


class ExtraTests(IsolatedCase):
    """
    What a member takes over; it is run by the worker.
    """

    settings = Settings(isolation="takeover", node_recover_timeout=30.0)

    def test_takes_over(self) -> None:
        """
        A member that is cut off takes over what the others had when it last saw
        them, and gives it up at once upon contact.
        """
        a, b = self.add("a", "b")
        self.cluster.put_work("u", "v", "w", "x", value=b"1")
        self.cluster.advance(30)
        theirs = set(a.worker.my_workload)
        self.assertEqual(len(theirs), 2)
        self.cut(b)
        self.cluster.until(lambda: b.lease.remaining == 0)

        took = self.cluster.until(lambda: b.emergency.extra, 60)
        self.assertAlmostEqual(took, 30.0, delta=0.1)
        self.assertEqual(b.emergency.extra, dict.fromkeys(theirs, b"1"))
        self.assertEqual(b.status()["emergency"]["extra"], sorted(theirs))
        self.heal(b)
        self.cluster.until(lambda: b.lease.remaining > 0)

        self.assertEqual(b.emergency.extra, {})

    def test_planner(self) -> None:
        """
        The leader class may name what plans it.
        """

        class Greedless(BalancedPlanner):
            def plan(self, state: ClusterState) -> Plan:
                """
                Give nothing to anybody.
                """
                return Plan(errors=dict.fromkeys(state.work, "no room"))

        class Careful(Leader):
            emergency_planner = Greedless

        self.add("a")
        (b,) = self.add("b", leader_class=Careful)
        self.cluster.put_work("x", "y")
        self.cluster.advance(30)
        self.cut(b)
        self.cluster.until(lambda: self.logged("work-taken-over"), 60)

        (said,) = self.logged("work-taken-over")
        self.assertEqual((said["items"], said["reasons"]), (0, ["no room"]))

    def test_shut_down(self) -> None:
        """
        A member that remembers the cluster leaves nothing behind either.
        """
        a = self.lead("a")
        self.cluster.advance(30)
        self.assertIsNotNone(a._parts.last_known.snapshot)

        self.cluster.result(a.shutdown(), 15)

        self.assertEqual(self.cluster.left_behind(a), (0, 0))

    def test_only_with_takeover(self) -> None:
        """
        The cluster is remembered only where that may be needed.
        """
        (b,) = self.add("b", settings=Settings(isolation="keep"))
        self.cluster.put_work("x")
        self.cluster.advance(60)

        self.assertIsNone(b._parts.last_known.snapshot)
