"""
Tests for the lease: until when a process may act.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.lease import Acknowledged, Lease, LeaseEnd
from voltha_coord.settings import guard_seconds

TTL = 15.0
CHECK = 3.0
RENEWAL_SPAN = TTL - guard_seconds(TTL)
CHECK_SPAN = CHECK - guard_seconds(CHECK)


class Base(SynchronousTestCase):
    """
    A clock to be set by hand.
    """

    def setUp(self) -> None:
        """
        Begin at a time that is not 0.
        """
        self.now = 1000.0

    def lease(self, check_ttl: float = CHECK) -> Lease:
        """
        Make a lease from now on.
        """
        return Lease(
            lambda: self.now,
            "s1",
            session_ttl=TTL,
            renewed=self.now,
            check_ttl=check_ttl,
            passed=self.now,
        )


class AcknowledgedTests(Base):
    """
    The acknowledged requests of one kind.
    """

    def test_carry_shorter_than_consul_grants(self) -> None:
        """
        They run out a guard before the TTL does, at exactly that instant.
        """
        passes = Acknowledged(lambda: self.now, CHECK, self.now)
        self.now += CHECK_SPAN - 0.001
        self.assertTrue(passes.carries)

        self.now = 1000.0 + CHECK_SPAN

        self.assertFalse(passes.carries)
        self.assertLess(passes.deadline, 1000.0 + CHECK)

    def test_count_from_when_they_were_sent(self) -> None:
        """
        A later acknowledgement of an earlier request takes nothing back.
        """
        passes = Acknowledged(lambda: self.now, CHECK, self.now)
        self.now += 2.0
        passes.note(1002.0)

        passes.note(1001.0)

        self.assertEqual(passes.deadline, 1002.0 + CHECK_SPAN)

    def test_gap_is_for_good(self) -> None:
        """
        After a gap nothing brings them back, seen or unseen: a late pass is
        answered 200 though the session is dead.
        """
        passes = Acknowledged(lambda: self.now, CHECK, self.now)
        self.now += CHECK

        passes.note(self.now)

        self.assertFalse(passes.carries)


class LeaseTests(Base):
    """
    The lease of one session.
    """

    def test_ends_by_the_earlier_deadline(self) -> None:
        """
        Of renewals and passes, whichever runs out first ends it.
        """
        lease = self.lease()
        self.assertEqual(lease.deadline, 1000.0 + CHECK_SPAN)

        for _ in range(14):
            self.now += 1.0
            lease.passed(self.now)

        self.assertEqual(lease.deadline, 1000.0 + RENEWAL_SPAN)

    def test_report_72_counted_from_the_request(self) -> None:
        """
        What counts is when the acknowledged request was sent, however late its
        answer came (field report 72).
        """
        lease = self.lease(check_ttl=0.0)
        self.now += 9.0

        lease.renewed(1003.0)

        self.assertEqual(lease.deadline, 1003.0 + RENEWAL_SPAN)

    def test_without_a_check_renewals_are_all(self) -> None:
        """
        With no check bound, passes mean nothing.
        """
        lease = self.lease(check_ttl=0.0)
        self.now += 10.0
        lease.passed(self.now)

        self.assertEqual(lease.deadline, 1000.0 + RENEWAL_SPAN)
        self.assertTrue(lease.active)

    def test_v4_over_without_any_news(self) -> None:
        """
        It ends at its deadline although nobody says anything (V4).
        """
        lease = self.lease()
        self.now += CHECK_SPAN

        self.assertFalse(lease.active)
        self.assertEqual(lease.remaining, 0.0)
        self.assertIs(lease.ended, LeaseEnd.CHECK)

    def test_over_is_for_good(self) -> None:
        """
        Nothing that is acknowledged after its end brings it back.
        """
        lease = self.lease()
        self.now += CHECK_SPAN

        lease.passed(self.now)
        lease.renewed(self.now)

        self.assertFalse(lease.active)

    def test_over_although_nobody_looked(self) -> None:
        """
        That it was over in between counts, even if nobody looked at that time.
        """
        lease = self.lease()
        self.now += CHECK_SPAN + 10.0
        lease.passed(self.now)
        lease.renewed(self.now)

        self.now += 0.1

        self.assertFalse(lease.active)

    def test_renewals_that_ran_out_may_be_taken_up_again(self) -> None:
        """
        If passes went on, a renewal that is answered begins a new lease.
        """
        lease = self.lease()
        while self.now < 1000.0 + RENEWAL_SPAN:
            self.now += 1.0
            lease.passed(self.now)

        self.assertIs(lease.ended, LeaseEnd.RENEWAL)
        self.assertTrue(lease.restorable)

    def test_both_ran_out_is_a_gap_in_the_passes(self) -> None:
        """
        After a pause in which both ran out, no renewal proves anything, not
        even if the renewals' deadline was the earlier one.
        """
        lease = Lease(
            lambda: self.now,
            "s1",
            session_ttl=TTL,
            renewed=self.now - RENEWAL_SPAN + 1.0,
            check_ttl=CHECK,
            passed=self.now,
        )

        self.now += 60.0

        self.assertIs(lease.ended, LeaseEnd.CHECK)
        self.assertFalse(lease.restorable)

    def test_gap_after_the_end_is_seen(self) -> None:
        """
        A gap in the passes after the renewals ran out ends the session too:
        leases of one session share the passes.
        """
        passes = Acknowledged(lambda: self.now, CHECK, self.now)
        lease = Lease(
            lambda: self.now,
            "s1",
            session_ttl=TTL,
            renewed=self.now - RENEWAL_SPAN + 1.0,
            passes=passes,
        )
        self.now += 1.0
        self.assertTrue(lease.restorable)

        self.now += CHECK
        passes.note(self.now)

        self.assertIs(lease.ended, LeaseEnd.RENEWAL)
        self.assertFalse(lease.restorable)

    def test_ended_early_keeps_the_first_reason(self) -> None:
        """
        Ending it twice, or after its deadline, keeps the reason it ended by.
        """
        early, late = self.lease(), self.lease()
        early.end(LeaseEnd.SESSION)
        early.end(LeaseEnd.RELEASED)

        self.now += CHECK_SPAN
        late.end(LeaseEnd.RELEASED)

        self.assertIs(early.ended, LeaseEnd.SESSION)
        self.assertIs(late.ended, LeaseEnd.CHECK)
        self.assertFalse(early.restorable)

    def test_deadline_stands(self) -> None:
        """
        The deadline of a lease that Consul ended stands as it was, whatever is
        acknowledged after that; one that we gave up ourselves ends at once.
        """
        passes = Acknowledged(lambda: self.now, CHECK, self.now)
        lease = Lease(
            lambda: self.now, "s1", session_ttl=TTL, renewed=self.now, passes=passes
        )
        given_up = self.lease()
        deadline = lease.deadline
        self.now += 1.0
        lease.end(LeaseEnd.SESSION)
        given_up.end(LeaseEnd.RELEASED)
        passes.note(self.now)
        self.now += 0.5

        self.assertEqual(lease.deadline, deadline)
        self.assertEqual(given_up.deadline, 1001.0)
        self.assertEqual((lease.remaining, given_up.remaining), (0.0, 0.0))

    def test_remaining(self) -> None:
        """
        It tells what is left.
        """
        lease = self.lease()
        self.now += 1.0

        self.assertAlmostEqual(lease.remaining, CHECK_SPAN - 1.0)
        self.assertIsNone(lease.ended)
