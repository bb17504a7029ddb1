"""
Tests for the lease of the moment, and what is told of it.
"""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord.clock import SteadyReactor
from voltha_coord.lease import Lease, LeaseEnd
from voltha_coord.leasing import Leasing
from voltha_coord.settings import guard_seconds

TTL = 15.0
SPAN = TTL - guard_seconds(TTL)
GRACE = 1 / 3


class Base(SynchronousTestCase):
    """
    A clock and a leasing.
    """

    def setUp(self) -> None:
        """
        Make them.
        """
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.told: list[str] = []
        self.log = RecordingLog()
        self.leasing = self.make()

    def make(self, reactor: Clock | SteadyReactor | None = None) -> Leasing:
        """
        Make one that notes what it tells.
        """
        return Leasing(
            self.clock if reactor is None else reactor,
            GRACE,
            changed=self.note,
            ran_out=lambda reason: self.told.append(f"ran out: {reason.value}"),
            log=self.log,
        )

    def note(self) -> None:
        """
        Note how it stands when something changed.
        """
        lease = self.leasing.lease
        assert lease is not None
        if not lease.active:
            self.told.append("over")
        elif lease.remaining <= GRACE + 1e-6:
            self.told.append("ending")
        else:
            self.told.append("good")

    def lease(self, renewed: float | None = None) -> Lease:
        """
        Make a lease, by default from now on.
        """
        return Lease(
            self.clock.seconds,
            "s1",
            session_ttl=TTL,
            renewed=self.clock.seconds() if renewed is None else renewed,
        )

    def begin(self) -> Lease:
        """
        Begin one.
        """
        lease = self.lease()
        self.leasing.begin(lease)
        return lease


class LeasingTests(Base):
    """
    What is told, and when.
    """

    def test_tells_each_thing_once(self) -> None:
        """
        Beginning, being about to end, and the end are told once each, in time.
        """
        self.begin()
        self.assertEqual(self.told, ["good"])

        self.clock.advance(SPAN - GRACE)
        self.assertEqual(self.told, ["good", "ending"])
        self.clock.advance(GRACE)
        self.clock.advance(1000.0)

        reason = LeaseEnd.RENEWAL.value
        self.assertEqual(self.told, ["good", "ending", "over", f"ran out: {reason}"])
        self.assertEqual(self.leasing.endings, 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_extended_in_time_nothing_is_told(self) -> None:
        """
        A lease that is extended all the time is not about to end.
        """
        lease = self.begin()
        for _ in range(20):
            self.clock.advance(3.0)
            lease.renewed(self.clock.seconds())
            self.leasing.extended()

        self.assertEqual(self.told, ["good"])

    def test_extended_when_about_to_end(self) -> None:
        """
        Extended then, it is good again, and told; later it may be about to end
        a second time.
        """
        lease = self.begin()
        self.clock.advance(SPAN - GRACE)

        lease.renewed(self.clock.seconds())
        self.leasing.extended()

        self.assertEqual(self.told, ["good", "ending", "good"])
        self.clock.advance(SPAN - GRACE)
        self.assertEqual(self.told, ["good", "ending", "good", "ending"])

    def test_ended(self) -> None:
        """
        Ended before its time it is told once, leaves no timer, and did not run
        out.
        """
        lease = self.begin()

        self.leasing.end(LeaseEnd.SESSION)
        self.leasing.end(LeaseEnd.RELEASED)

        self.assertEqual(self.told, ["good", "over"])
        self.assertIs(lease.ended, LeaseEnd.SESSION)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_ended_after_it_ran_out_unnoticed(self) -> None:
        """
        An end that an answer finds before the timer does is told all the same.
        """
        lease = self.begin()
        self.clock.rightNow += SPAN + 1.0

        self.leasing.end(LeaseEnd.SESSION)

        self.assertEqual(self.told, ["good", "over"])
        self.assertIs(lease.ended, LeaseEnd.RENEWAL)

    def test_begun_too_late(self) -> None:
        """
        One that is over when it begins is told to be over.
        """
        self.leasing.begin(self.lease(renewed=self.clock.seconds() - SPAN))

        self.assertEqual(self.told, ["over", f"ran out: {LeaseEnd.RENEWAL.value}"])

    def test_one_after_the_other(self) -> None:
        """
        A new one takes the place of the last, with deadlines of its own.
        """
        self.begin()
        self.clock.advance(SPAN - 1.0)

        second = self.begin()
        self.clock.advance(SPAN - GRACE - 0.1)

        self.assertEqual(self.told, ["good", "good"])
        self.assertIs(self.leasing.lease, second)

    def test_counted(self) -> None:
        """
        Each end is counted once, by what ended it: also one that is only
        noticed when somebody would end it (field report 50).
        """
        self.begin()
        self.clock.advance(SPAN)
        self.begin()
        self.leasing.end(LeaseEnd.SESSION)
        self.leasing.end(LeaseEnd.RELEASED)
        self.begin()
        self.clock.rightNow += SPAN
        self.leasing.end(LeaseEnd.RELEASED)

        self.assertEqual(
            self.leasing.ended.counts,
            {
                LeaseEnd.CHECK.value: 0,
                LeaseEnd.RENEWAL.value: 2,
                LeaseEnd.SESSION.value: 1,
                LeaseEnd.RELEASED.value: 0,
            },
        )

    def test_nothing_to_end(self) -> None:
        """
        Without a lease there is nothing to end or extend.
        """
        self.leasing.end(LeaseEnd.RELEASED)
        self.leasing.extended()

        self.assertEqual(self.told, [])


class StepTests(Base):
    """
    Steps of the wall clock.
    """

    def setUp(self) -> None:
        """
        Let the reactor run on a wall clock, and the lease on a steady one.
        """
        super().setUp()
        self.wall = Clock()
        self.steady = SteadyReactor(self.wall, self.clock.seconds)
        self.leasing = self.make(self.steady)

    def pass_time(self, seconds: float) -> None:
        """
        Let time pass on both clocks.
        """
        for _ in range(round(seconds * 10)):
            self.clock.rightNow += 0.1
            self.wall.advance(0.1)

    def test_step_forwards(self) -> None:
        """
        A wall clock that jumps ahead ends no lease.
        """
        self.begin()

        self.wall.advance(3600.0)
        self.pass_time(10.0)

        self.assertEqual(self.told, ["good"])

    def test_step_backwards(self) -> None:
        """
        A wall clock that jumps back prolongs no lease: to whoever asks it is
        over in time, and once anything wakes the process that is told in time.
        """
        lease = self.begin()
        self.wall.rightNow -= 3600.0
        self.pass_time(1.0)
        self.steady.resync()

        self.pass_time(SPAN)

        self.assertFalse(lease.active)
        self.assertEqual(self.told[:3], ["good", "ending", "over"])

    def test_step_backwards_unnoticed(self) -> None:
        """
        Even if nothing ever wakes the process.
        """
        lease = self.begin()
        self.wall.rightNow -= 3600.0

        self.pass_time(SPAN + 0.1)

        self.assertFalse(lease.active)
