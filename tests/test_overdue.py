"""
Tests for :mod:`voltha_coord.overdue`.
"""

from __future__ import annotations

from typing import Any

import structlog
from twisted.internet.defer import Deferred

from tests.support.running import RunningCase
from voltha_coord.isolation import Rights
from voltha_coord.item import RUNNING, STOPPING
from voltha_coord.lease import LeaseEnd
from voltha_coord.overdue import KILL_SHARE, STUCK, Overdue
from voltha_coord.settings import Settings

GRACE = 5.0

#: Leaves room for that.
CHECK: dict[str, Any] = {"failure_detection": 60.0, "session_ttl": 100.0}


class OverdueTests(RunningCase):
    """
    Note [Stopping within the lease].
    """

    def setUp(self) -> None:
        """
        Begin with a lease that Consul has ended, and 95 seconds of it left.
        """
        super().setUp()
        self.stuck: list[tuple[str, ...]] = []
        self.overdue = self.make(self.rights)
        self.ended = self.make_lease()
        self.clock.advance(self.ended.deadline - 100.0)
        self.ended.end(LeaseEnd.SESSION)

    def make(self, rights: Rights, isolation: str = "stop") -> Overdue:
        """
        Make one that notes what is stuck.
        """
        return Overdue(
            self.clock,
            rights,
            Settings(isolation=isolation, stop_grace=GRACE, **CHECK),
            self.items,
            stuck=self.stuck.append,
            log=structlog.get_logger(),
        )

    def run_(self, *work: str, **kw: Any) -> None:
        """
        Let items run under the lease that is over.
        """
        kw.setdefault("lease", self.ended)
        for one in work:
            self.start(one, **kw)
        self.overdue.look()

    def left(self) -> float:
        """
        Give the seconds left of that lease.
        """
        return self.ended.deadline - self.clock.seconds()

    def advance_to(self, left: float) -> None:
        """
        Let time pass until so many seconds are left.
        """
        self.clock.advance(self.left() - left)

    def test_stops_in_time(self) -> None:
        """
        What runs goes on until the grace begins, and is stopped then; it is not
        released.
        """
        self.run_("w1")
        self.advance_to(GRACE + 0.01)
        before = self.items.workload
        self.advance_to(GRACE)

        self.assertEqual(before, {"w1"})
        self.assertEqual([item.release for item in self.stopped], [False])
        self.assertEqual(len(self.events("work-stopped")), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_killed_in_time(self) -> None:
        """
        What has not stopped by then is killed a fifth of the grace before the end
        (field report 42).
        """
        self.runner.stops["w1"] = Deferred()
        self.run_("w1")
        self.advance_to(GRACE)
        self.advance_to(KILL_SHARE * GRACE + 0.01)
        before = self.runner.asked("kill")
        self.advance_to(KILL_SHARE * GRACE)

        self.assertEqual((before, self.runner.asked("kill")), ([], ["w1"]))
        self.assertEqual([item.id for item in self.stopped], ["w1"])
        self.advance_to(-10.0)
        self.assertEqual(self.stuck, [])

    def test_stuck(self) -> None:
        """
        What has not stopped at the end even so is told once, as loudly as can
        be; what else joins it is told as well.
        """
        for work in ("w2", "w1", "w3"):
            self.runner.stops[work] = Deferred()
            self.runner.kills[work] = Deferred()
        self.run_("w2", "w1")
        self.clock.pump([0.1] * int(10 * self.left() - 1))
        before = list(self.stuck)
        self.clock.pump([0.1] * 30)
        self.overdue.look()
        told = list(self.stuck)
        self.run_("w3")
        self.clock.pump([0.1] * 30)

        self.assertEqual(before, [])
        self.assertEqual(told, [("w1", "w2")])
        self.assertEqual(self.stuck[1:], [("w1", "w2", "w3")])
        levels = [e["log_level"] for e in self.events("work-stuck")]
        self.assertEqual(levels, ["critical"] * 2)
        self.assertEqual(self.items.items["w1"].trouble, STUCK)
        self.assertEqual(self.items.workload, set())

    def test_stuck_no_more(self) -> None:
        """
        When it has stopped after all that is said, and no timer is left.
        """
        stopping: Deferred[None] = Deferred()
        self.runner.stops["w1"] = stopping
        self.runner.kills["w1"] = Deferred()
        self.run_("w1")
        self.clock.pump([0.1] * int(10 * self.left() + 20))
        stopping.callback(None)
        stuck = self.overdue.stuck
        self.overdue.item_stopped()
        self.clock.advance(0.0)

        self.assertEqual((stuck, self.overdue.stuck), ({"w1"}, set()))
        self.assertEqual(len(self.events("work-stuck-no-more")), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_too_late(self) -> None:
        """
        A process that stood still past the end stops and kills first thing on
        waking; what ends within a fifth of the grace is not stuck.
        """
        self.run_("w1", "w2", "w3")
        self.runner.stops.update(w2=Deferred(), w3=Deferred())
        slow: Deferred[None] = Deferred()
        self.runner.kills.update(w2=slow, w3=Deferred())
        self.clock.advance(self.left() + 3600.0)
        at_once = list(self.runner.calls), [item.id for item in self.stopped]
        told = list(self.stuck)
        self.clock.advance(KILL_SHARE * GRACE / 2)
        slow.callback(None)
        self.clock.advance(KILL_SHARE * GRACE / 2 + 0.01)

        self.assertEqual(self.runner.asked("kill"), ["w2", "w3"])
        self.assertEqual(at_once[1], ["w1"])
        self.assertEqual((told, self.stuck), ([], [("w3",)]))

    def test_right_taken_back(self) -> None:
        """
        Where work went on without a deadline, and may not any more, it is
        stopped at once, and given its grace before it is killed.
        """
        goes_on = True
        rights = Rights(self.clock.seconds, lambda: None, lambda: goes_on)
        keeps = self.make(rights, "keep")
        self.start("w1", lease=self.ended)
        self.start("w2", lease=self.ended)
        self.runner.stops["w2"] = Deferred()
        self.runner.kills["w2"] = Deferred()
        self.clock.advance(3600.0)
        goes_on = False
        keeps.look()
        at_once = list(self.runner.calls)
        self.clock.advance(GRACE * (1 - KILL_SHARE) - 0.01)
        before = self.runner.asked("kill")
        self.clock.advance(0.02)
        killed = self.runner.asked("kill"), list(self.stuck)
        self.clock.advance(KILL_SHARE * GRACE)

        self.assertEqual(at_once[2:], [("stop", "w1"), ("stop", "w2")])
        self.assertEqual((before, killed), ([], (["w2"], [])))
        self.assertEqual(self.stuck, [("w2",)])

    def test_lease_that_lasts(self) -> None:
        """
        What runs under a lease that lasts is let alone, and no timer is set: a
        lease tells when it is about to end.
        """
        self.run_("w1", lease=self.make_lease())

        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.items.items["w1"].state, RUNNING)

    def test_lease_about_to_end(self) -> None:
        """
        Told that it is, what runs under it is stopped; if the lease is extended
        after that, nothing is killed.
        """
        lease = self.make_lease()
        self.run_("w1", lease=lease)
        stopping: Deferred[None] = Deferred()
        self.runner.stops["w1"] = stopping
        self.clock.advance(lease.remaining - GRACE)
        self.overdue.look()
        state = self.items.items["w1"].state
        lease.renewed(self.clock.seconds())
        self.overdue.look()
        self.clock.advance(GRACE + 1)

        self.assertEqual(state, STOPPING)
        self.assertEqual((self.runner.asked("kill"), self.stuck), ([], []))
        stopping.callback(None)

    def test_no_deadline(self) -> None:
        """
        What has no deadline is let alone; so is what runs without a lease.
        """
        rights = Rights(self.clock.seconds, lambda: None, lambda: True)
        keeps = self.make(rights, "keep")
        self.start("w1", lease=self.ended)
        self.start("w2", lease=None)
        self.clock.advance(3600.0)
        keeps.look()

        self.assertEqual(self.items.workload, {"w2"})
        self.assertEqual(self.runner.asked("stop"), [])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_never_begun(self) -> None:
        """
        What was not begun yet is gone without the runner's knowing.
        """
        self.beginning = False
        self.run_("w1")
        self.advance_to(GRACE)

        self.assertEqual([item.id for item in self.stopped], ["w1"])
        self.assertEqual(self.runner.calls, [])
