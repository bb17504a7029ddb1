"""
Tests for :mod:`voltha_coord.isolation`: until when work may run.
"""

from __future__ import annotations

import math

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.isolation import Rights
from voltha_coord.lease import Lease, LeaseEnd

TTL = 100.0


class RightsTests(SynchronousTestCase):
    """
    Note [The right to run].
    """

    def setUp(self) -> None:
        """
        Begin with a lease.
        """
        self.clock = Clock()
        self.current: Lease | None = None
        self.going_on = False
        self.stops = Rights(self.clock.seconds, lambda: self.current)
        self.keeps = Rights(
            self.clock.seconds, lambda: self.current, lambda: self.going_on
        )
        self.lease = self.begin()
        self.deadline = self.lease.deadline

    def begin(self) -> Lease:
        """
        Begin a lease.
        """
        now = self.clock.seconds()
        self.current = Lease(self.clock.seconds, "s", session_ttl=TTL, renewed=now)
        return self.current

    def test_lease(self) -> None:
        """
        With ``stop``, work may run until the deadline of its lease.
        """
        self.assertEqual(self.stops.until(self.lease), self.deadline)
        self.assertTrue(self.stops.hold(self.lease))
        self.clock.advance(self.deadline)
        self.assertFalse(self.stops.hold(self.lease))

    def test_session_gone(self) -> None:
        """
        So it may when Consul has ended the lease before; another lease does not
        change that.
        """
        self.lease.end(LeaseEnd.SESSION)
        self.begin()

        self.assertEqual(self.stops.until(self.lease), self.deadline)
        self.assertTrue(self.stops.hold(self.lease))

    def test_given_up(self) -> None:
        """
        Under a lease that we gave up nothing may run, whatever the isolation.
        """
        self.lease.end(LeaseEnd.RELEASED)
        self.going_on = True

        self.assertFalse(self.stops.hold(self.lease))
        self.assertFalse(self.keeps.hold(self.lease))

    def test_no_lease(self) -> None:
        """
        What runs without a lease has no deadline.
        """
        self.assertEqual(self.stops.until(None), math.inf)
        self.assertEqual(self.keeps.until(None), math.inf)

    def test_keep(self) -> None:
        """
        With ``keep`` work has no deadline while its lease lasts, nor while it is
        to go on without one.
        """
        lasting = self.keeps.until(self.lease)
        self.clock.advance(self.deadline + 1)
        self.going_on = True

        self.assertEqual((lasting, self.keeps.until(self.lease)), (math.inf,) * 2)

    def test_keep_no_more(self) -> None:
        """
        Where work is not to go on without a lease any more (Consul answers, and
        refuses a session), it may not run, with ``keep`` either.
        """
        self.clock.advance(self.deadline + 1)

        self.assertFalse(self.keeps.hold(self.lease))

    def test_contact(self) -> None:
        """
        Upon contact it may, until it is known what has become of it meanwhile.
        """
        self.clock.advance(self.deadline + 1)
        self.begin()

        self.assertEqual(self.keeps.until(self.lease), math.inf)
        self.assertFalse(self.stops.hold(self.lease))

    def test_keep_session_gone(self) -> None:
        """
        While Consul answers, the end of the session is no isolation: work may
        run until the deadline.
        """
        self.lease.end(LeaseEnd.SESSION)

        self.assertEqual(self.keeps.until(self.lease), self.deadline)
