"""
Tests for the bound of tests on virtual time.
"""

from __future__ import annotations

import signal

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from tests.support.bounding import NeverOver, bound
from tests.support.embedded import ClusterTestCase
from tests.support.working import ClusterCase
from voltha_coord.embedded.timeline import Timeline

#: Seconds a test here may compute.
SHORT = 0.1


class BoundTests(SynchronousTestCase):
    """
    A test that would never be over.
    """

    def setUp(self) -> None:
        """
        Bound it.
        """
        self.time = Timeline()
        bound(self, self.time, SHORT)

    def test_circles(self) -> None:
        """
        Where there is ever something to do, whoever lets time pass is told, and
        not whoever was doing it.
        """
        called: Deferred[None] = Deferred()

        def again() -> None:
            self.time.callLater(1e-9, again)

        called.addCallback(lambda _: again())
        called.callback(None)

        error = self.assertRaises(NeverOver, self.time.advance, 1e6)
        self.assertIn("not over after computing for 0.1 s", str(error))

    def test_given_back(self) -> None:
        """
        After the test nothing is bounded.
        """
        self.doCleanups()

        self.assertEqual(signal.getitimer(signal.ITIMER_VIRTUAL), (0.0, 0.0))
        self.assertEqual(signal.getsignal(signal.SIGVTALRM), signal.SIG_DFL)


class EndlessCallTests(SynchronousTestCase):
    """
    A call that never returns.
    """

    def test_interrupted(self) -> None:
        """
        It is interrupted.
        """
        bound(self, Timeline(), SHORT, after=SHORT)

        def never() -> None:
            while True:
                pass

        self.assertRaises(NeverOver, never)


class ClustersTests(SynchronousTestCase):
    """
    The clusters of tests.
    """

    def test_bounded(self) -> None:
        """
        Every test of a cluster is bounded.
        """
        for kind in (ClusterTestCase, ClusterCase):
            with self.subTest(kind=kind.__name__):
                case = kind()
                case.setUp()
                left, _ = signal.getitimer(signal.ITIMER_VIRTUAL)
                case.doCleanups()

                self.assertGreater(left, 0.0)
