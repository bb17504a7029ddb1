"""
Tests for what a member is made of: its ground, its parts, and the order in which
one tells the others, and in which they begin and end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from attrs import fields
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord import lifetime
from voltha_coord.consequences import Consequences
from voltha_coord.consul.address import from_environment
from voltha_coord.consul.model import ServiceSpec
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import ConsulState
from voltha_coord.events import (
    Connection,
    ConnectionChanged,
    LeaderChanged,
    RoleChanged,
)
from voltha_coord.ground import Ground, lay_ground
from voltha_coord.keys import Keys
from voltha_coord.settings import TAKEOVER, Settings
from voltha_coord.shutdown import Kind
from voltha_coord.whole import Whole
from voltha_coord.wiring import Parts


class Recorder:
    """
    Stands for a thing of which every call is recorded, and for all within it.
    """

    def __init__(self, calls: list[str], name: str = "", **given: Any) -> None:
        self._calls = calls
        self._name = name
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        within = Recorder(self._calls, f"{self._name}.{name}".lstrip("."))
        setattr(self, name, within)
        return within

    def __call__(self, *args: object) -> None:
        """
        Record a call.
        """
        self._calls.append(self._name)


def never(*args: object) -> Any:
    """
    Fail: it is not to be called.
    """
    raise AssertionError("asked too early")


class GroundCase(SynchronousTestCase):
    """
    A ground on a clock.
    """

    def setUp(self) -> None:
        """
        Lay it.
        """
        self.clock = Clock()
        self.transport = MemoryTransport(ConsulState(self.clock).agent(), self.clock)
        self.log = RecordingLog()
        self.outcomes: list[object] = []
        self.ground = self.lay()

    def lay(self, settings: Settings | None = None, **kw: Any) -> Ground:
        """
        Lay one.
        """
        given: dict[str, Any] = {"now": None, "wall_clock": None, "random": None, **kw}
        return lay_ground(
            self.clock,
            from_environment({}, ["localhost"]),
            [self.transport],
            instance_id="a",
            settings=Settings() if settings is None else settings,
            keys=Keys("p"),
            log=self.log,
            ended=self.outcomes.append,
            **given,
        )

    def whole(self, **kw: Callable[..., Any]) -> Whole:
        """
        Give a member that is asked nothing but whether it can lead.
        """
        asked: dict[str, Any] = {field.name: never for field in fields(Whole)}
        asked["can_lead"] = lambda: True
        return Whole(**{**asked, **kw})


class GroundTests(GroundCase):
    """
    What parts stand on.
    """

    def test_at_rest(self) -> None:
        """
        Laying it sends nothing and sets no timer.
        """
        self.assertEqual(
            (self.transport.under_way, self.clock.getDelayedCalls()), (0, [])
        )

    def test_clocks(self) -> None:
        """
        A reactor that does no I/O gives both clocks, unless others are given.
        """
        self.clock.advance(5)
        given = self.lay(now=lambda: 7.0, wall_clock=lambda: 9.0)

        self.assertEqual(
            (self.ground.steady.seconds(), self.ground.wall_clock()), (5, 5)
        )
        self.assertEqual((given.steady.seconds(), given.wall_clock()), (7, 9))

    def test_random(self) -> None:
        """
        Chance is in [0, 1), and two members do not share theirs.
        """
        mine = [self.ground.random() for _ in range(5)]
        other = self.lay()

        self.assertTrue(all(0 <= number < 1 for number in mine))
        self.assertNotEqual(mine, [other.random() for _ in range(5)])
        self.assertEqual(self.lay(random=lambda: 0.5).random(), 0.5)

    def test_outcomes(self) -> None:
        """
        What became of a request is told.
        """
        asked: Deferred[Any] = self.ground.api.agent_self()
        self.clock.advance(1)

        self.successResultOf(asked)
        self.assertEqual(len(self.outcomes), 1)

    def test_stepped(self) -> None:
        """
        A step of the wall clock is said, with what it does: nothing.
        """
        ground = self.lay(now=lambda: 0.0)
        self.clock.advance(60)
        ground.steady.resync()

        (said,) = self.log.of("wall-clock-stepped", "warning")
        self.assertEqual(said["seconds"], 60)


class WiringCase(GroundCase):
    """
    Parts on a ground.
    """

    def setUp(self) -> None:
        """
        Make them.
        """
        super().setUp()
        self.calls: list[str] = []
        self.leaving = False
        self.asked = self.whole(
            leaving=lambda: self.leaving,
            service=lambda unique: ServiceSpec(
                service_id=unique, name="x", check_id="c", check_ttl=3.0, address="h"
            ),
        )
        self.consequences = Consequences(self.ground, self.asked)

    def record(self, **kw: Any) -> Any:
        """
        Put recorders in the place of the parts.
        """
        parts = Recorder(self.calls, **kw)
        self.consequences.parts = cast(Parts, parts)
        return parts


class WiringTests(WiringCase):
    """
    The parts together.
    """

    def test_made_at_rest(self) -> None:
        """
        Making the parts starts none of them, and asks nothing of the whole but
        whether it can lead.
        """
        self.assertEqual(
            (self.transport.under_way, self.clock.getDelayedCalls()), (0, [])
        )
        self.assertEqual(self.consequences.parts.acting.name, "candidate")

    def test_cannot_lead(self) -> None:
        """
        A member that cannot lead is a follower from the beginning.
        """
        parts = Consequences(self.ground, self.whole(can_lead=lambda: False)).parts

        self.assertEqual(parts.acting.name, "follower")

    def test_lease_changed(self) -> None:
        """
        Who leads is told of the lease first, and who waits last.
        """
        self.record()
        self.consequences.lease_changed()

        self.assertEqual(
            self.calls,
            [
                "election.wake",
                "membership.wake",
                "emergency.lease_changed",
                "employing.lease_changed",
                "locks.lease_changed",
                "link.lease_changed",
                "readiness.look",
            ],
        )

    def become_member(self, *, joined: bool = True, started: bool = False) -> list[str]:
        """
        Tell that the membership has changed.
        """
        self.record(
            membership=Recorder(self.calls, "membership", joined=joined),
            employing=Recorder(self.calls, "employing", started=started),
        )
        self.consequences.membership_changed()
        return self.calls

    def test_first_time(self) -> None:
        """
        Once this is a member the worker is started, before it is told, and the
        timing is compared with that of Consul.
        """
        self.assertEqual(
            self.become_member(),
            [
                "employing.start",
                "tasks.spawn",
                "employing.lease_changed",
                "election.wake",
                "readiness.look",
            ],
        )

    def test_not_started(self) -> None:
        """
        It is not started twice, nor without a member key, nor on the way out.
        """
        told = ["employing.lease_changed", "election.wake", "readiness.look"]

        self.assertEqual(self.become_member(started=True), told)
        self.assertEqual(self.become_member(joined=False), told * 2)
        self.leaving = True
        self.assertEqual(self.become_member(), told * 3)

    def test_leader_known(self) -> None:
        """
        The role comes first, then those who listen, then those who wait; they are
        told who it was before.
        """
        self.record(listeners=self.consequences.parts.listeners)
        told: list[object] = []
        self.consequences.parts.listeners.add(told.append)
        self.consequences.leader_known("b")
        self.consequences.leader_known(None)

        self.assertEqual(self.calls, ["acting.look", "readiness.look"] * 2)
        self.assertEqual(told, [LeaderChanged("b", None), LeaderChanged(None, "b")])

    def test_deposed(self) -> None:
        """
        The role is told before a hand-over is; on the way out it is over for good.
        """
        self.record()
        self.consequences.deposed("test")
        self.leaving = True
        self.consequences.deposed("test")

        self.assertEqual(
            self.calls,
            [
                "acting.deposed",
                "hand_over.deposed",
                "acting.drain",
                "hand_over.deposed",
            ],
        )

    def test_may_lead(self) -> None:
        """
        Only a member stands, only if it can lead, and not on its way out.
        """

        def may(*, can_lead: bool = True, joined: bool = True) -> bool:
            self.consequences = Consequences(
                self.ground,
                self.whole(can_lead=lambda: can_lead, leaving=lambda: self.leaving),
            )
            self.record(membership=Recorder(self.calls, joined=joined))
            return self.consequences.may_lead()

        found = [may(), may(can_lead=False), may(joined=False)]
        self.leaving = True
        self.assertEqual([*found, may()], [True, False, False, False])

    def test_emergency_changed(self) -> None:
        """
        The role comes before the worker; on the way out no all-clear is given.
        """
        for active, leaving in ((True, False), (False, False), (False, True)):
            self.leaving = leaving
            self.record(emergency=Recorder(self.calls, active=active))
            self.consequences.emergency_changed()

        self.assertEqual(
            self.calls,
            [
                "acting.alarm",
                "employing.emergency_changed",
                "acting.all_clear",
                "employing.emergency_changed",
                "employing.emergency_changed",
            ],
        )

    def test_heard(self) -> None:
        """
        Of all events only a change of the connection matters to an emergency.
        """
        self.record()
        self.consequences.heard(RoleChanged("leader", "candidate"))
        self.assertEqual(self.calls, [])
        self.consequences.heard(
            ConnectionChanged(Connection.LOST, Connection.CONNECTED)
        )

        self.assertEqual(self.calls, ["emergency.connection_changed"])

    def test_look_again(self) -> None:
        """
        Whatever has read something of Consul reads it anew.
        """
        self.record()
        self.consequences.look_again()

        self.assertEqual(
            self.calls,
            [
                "membership.look_again",
                "election.look_again",
                "employing.look_again",
                "locks.look_again",
            ],
        )


class LifetimeTests(WiringCase):
    """
    Beginning and end.
    """

    def test_start(self) -> None:
        """
        The session comes first; the cluster is remembered only by those who may
        take it over.
        """
        started = ["session.start", "membership.start", "election.start"]
        parts = self.record()
        lifetime.start(self.ground, parts)
        self.assertEqual(self.calls, started)

        lifetime.start(self.lay(Settings(isolation=TAKEOVER)), parts)
        self.assertEqual(self.calls, [*started, *started, "last_known.start"])

    def test_lead_no_more(self) -> None:
        """
        In the turn in which a shutdown is asked for nobody stands any more, nor
        waits for a lock.
        """
        lifetime.lead_no_more(self.record())

        self.assertEqual(
            self.calls,
            ["election.retire", "emergency.stop", "acting.drain", "locks.close"],
        )

    def test_last_steps(self) -> None:
        """
        The leader key goes before the work, the work before the member key, and
        that before the session; each step is one of its own name.
        """
        steps = tuple(
            lifetime.last_steps(
                self.ground,
                self.consequences.parts,
                stop_starting=never,
                drain_seconds=never,
            )
        )
        names = [step.name for step in steps]
        order = [step.name for step in steps if step.kind is not Kind.LOCAL]

        self.assertEqual(len(set(names)), len(names))
        self.assertEqual(
            order,
            [
                "release-leadership",
                "say-leaving",
                "drain",
                "stop-work",
                "leave",
                "destroy-session",
            ],
        )
        self.assertEqual((names[0], names[-1]), ("stop-starting", "close-connections"))

    def test_nothing_to_do(self) -> None:
        """
        A member that never was one has nothing to give back: only the session is
        destroyed, which knows for itself whether there is any.
        """
        steps = lifetime.last_steps(
            self.ground,
            self.consequences.parts,
            stop_starting=never,
            drain_seconds=never,
        )

        self.assertEqual(
            [s.name for s in steps if s.kind is not Kind.LOCAL and s.needed()],
            ["destroy-session"],
        )
