"""
Tests for making the leader of a term, starting it and putting it to rest.
"""

from __future__ import annotations

from typing import Any, cast

import structlog
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord.errors import ConsulUnavailable
from voltha_coord.interfaces import ILeader
from voltha_coord.leading import HALT_SECONDS, Leading
from voltha_coord.term import Term

TERM = cast(Term, object())


@implementer(ILeader)
class Told:
    """
    A leader that does as it is told.
    """

    def __init__(self) -> None:
        self.starting: Deferred[Any] = Deferred(lambda d: self.said.append("cancel"))
        self.halting: Deferred[Any] = Deferred(lambda d: self.said.append("drop"))
        self.said: list[str] = []

    def start(self) -> Deferred[Any]:
        """
        Start.
        """
        self.said.append("start")
        return self.starting

    def halt(self) -> Deferred[Any]:
        """
        Halt.
        """
        self.said.append("halt")
        return self.halting


class LeadingTests(SynchronousTestCase):
    """
    One term after the other.
    """

    def setUp(self) -> None:
        """
        Be ready to lead.
        """
        self.clock = Clock()
        self.told = Told()
        self.given_up: list[str] = []
        capturing = capture_logs()
        self.logs = capturing.__enter__()
        self.addCleanup(capturing.__exit__, None, None, None)
        self.leading = Leading(
            self.clock,
            lambda: self.told,
            self.given_up.append,
            structlog.get_logger(),
        )

    def test_leads(self) -> None:
        """
        The leader is made and started, and is there to be seen.
        """
        self.assertIs(self.leading.leader, None)

        self.leading.begin(TERM)

        self.assertIs(self.leading.leader, self.told)
        self.assertEqual(self.told.said, ["start"])

    def test_halts(self) -> None:
        """
        It is put to rest, and is seen no more from the first moment.
        """
        halt = self.leading.begin(TERM)
        self.told.starting.callback(None)

        resting = halt()

        assert resting is not None
        self.assertIs(self.leading.leader, None)
        self.assertNoResult(resting)
        self.told.halting.callback(None)
        self.successResultOf(resting)
        self.assertEqual(self.told.said, ["start", "halt"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_halts_while_starting(self) -> None:
        """
        A start that is still under way is cancelled: what reads the cluster
        through an outage must not go on once the term is over.
        """
        halt = self.leading.begin(TERM)

        halt()

        self.assertEqual(self.told.said, ["start", "cancel", "halt"])
        self.assertEqual((self.given_up, self.logs), ([], []))

    def test_start_fails(self) -> None:
        """
        A leader that cannot start gives up, and says why.
        """
        for error in (ValueError("plan"), ConsulUnavailable("read")):
            self.setUp()
            self.leading.begin(TERM)

            self.told.starting.errback(error)

            self.assertEqual(self.given_up, ["could-not-establish"])
            self.assertEqual(self.logs[-1]["error"], str(error))

    def test_start_fails_after_the_term(self) -> None:
        """
        A start that fails because its term is over gives up nothing.
        """
        self.told.starting = Deferred(lambda d: d.errback(ValueError("over")))
        halt = self.leading.begin(TERM)

        halt()

        self.assertEqual((self.given_up, self.logs), ([], []))

    def test_never_at_rest(self) -> None:
        """
        Field report 48: one that does not come to rest is dropped after a while.
        """
        halt = self.leading.begin(TERM)
        resting = halt()
        assert resting is not None

        self.clock.advance(HALT_SECONDS - 0.1)
        self.assertNoResult(resting)
        self.clock.advance(0.1)

        self.successResultOf(resting)
        self.assertEqual(self.told.said[-1], "drop")

    def test_not_made(self) -> None:
        """
        A leader that cannot be made gives up in the next turn, once the role
        has been entered; there is nothing to put to rest.
        """

        def broken() -> ILeader:
            raise TypeError("no")

        leading = Leading(
            self.clock, broken, self.given_up.append, structlog.get_logger()
        )

        halt = leading.begin(TERM)
        self.assertEqual(self.given_up, [])
        self.clock.advance(0)

        self.assertEqual(self.given_up, ["leader-not-made"])
        self.assertIs(halt(), None)
        self.assertIs(leading.leader, None)

    def test_halt_raises(self) -> None:
        """
        A leader that raises when told to halt counts as at rest.
        """

        @implementer(ILeader)
        class Broken:
            def start(self) -> Deferred[None]:
                return succeed(None)

            def halt(self) -> None:
                raise ValueError("no")

        leading = Leading(
            self.clock, Broken, self.given_up.append, structlog.get_logger()
        )

        resting = leading.begin(TERM)()

        assert resting is not None
        self.successResultOf(resting)
        self.assertEqual(self.logs[-1]["event"], "task-failed")

    def test_stop(self) -> None:
        """
        A stop waits for nobody.
        """
        halt = self.leading.begin(TERM)
        halt()

        self.successResultOf(self.leading.stop())

        self.assertEqual(self.clock.getDelayedCalls(), [])
