"""
Tests for the terms a member leads, one after the other.
"""

from __future__ import annotations

from typing import Any, cast

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.lease import LeaseEnd
from voltha_coord.term import Term
from voltha_coord.terms import FENCED_OFF, HANDED_OVER, SHUTTING_DOWN, Terms

from .support.keeping import RecordingLog


@define
class FakeLease:
    """
    A lease that is over for a reason, or not.
    """

    session_id: str = "s"
    ended: LeaseEnd | None = None


@define
class FakeTerm:
    """
    A term that is over when it is said to be.
    """

    token: int
    lease: FakeLease
    over: bool = False

    def end(self) -> None:
        """
        End it.
        """
        self.over = True


class TermsTests(SynchronousTestCase):
    """
    Beginning and ending.
    """

    def setUp(self) -> None:
        """
        Lead a term.
        """
        self.log = RecordingLog()
        self.told: list[Any] = []
        self.terms = Terms(self.told.append, self.told.append, self.log)
        self.lease = FakeLease()
        self.term = FakeTerm(7, self.lease)
        self.terms.begin(cast(Term, self.term))

    def test_begun(self) -> None:
        """
        A term that has begun is told and counted.
        """
        self.assertEqual(self.told, [self.term])
        self.assertIs(self.terms.term, self.term)
        self.assertEqual(self.terms.begun, 1)
        self.assertEqual(
            self.log.of("became-leader"), [{"fencing_token": 7, "session_id": "s"}]
        )

    def test_ended(self) -> None:
        """
        A term ends once, for one reason, and nothing is written in it then.
        """
        self.terms.end("one")
        self.terms.end("two")

        self.assertIsNone(self.terms.term)
        self.assertTrue(self.term.over)
        self.assertEqual(self.told[1:], ["one"])
        self.assertEqual(self.terms.ended.counts["one"], 1)
        self.assertNotIn("two", self.terms.ended.counts)

    def test_in_order(self) -> None:
        """
        Only what is not in order is a warning.
        """
        for reason in (SHUTTING_DOWN, HANDED_OVER, "fault"):
            self.terms.begin(cast(Term, self.term))
            self.terms.end(reason)

        levels = [level for level, event, _ in self.log.said if event[0] == "l"]
        self.assertEqual(levels, ["info", "info", "warning"])

    def test_over_by_itself(self) -> None:
        """
        A term that is over by itself ends for the reason its lease did, or else
        because a write was refused; one that is not over goes on.
        """
        self.terms.end_if_over()
        self.assertIs(self.terms.term, self.term)

        self.term.over = True
        self.terms.end_if_over()
        self.terms.begin(cast(Term, self.term))
        self.lease.ended = LeaseEnd.CHECK
        self.terms.end_if_over()

        reasons = [one for one in self.told if isinstance(one, str)]
        self.assertEqual(reasons, [FENCED_OFF, LeaseEnd.CHECK.value])
