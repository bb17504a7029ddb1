"""
Tests for :mod:`voltha_coord.runners`.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from tests.support.working import StringRunner
from voltha_coord.interfaces import IRunner
from voltha_coord.records import WorkItem
from voltha_coord.runners.track import TrackRunner


class TrackRunnerTests(SynchronousTestCase):
    """
    The default runner.
    """

    def test_interface(self) -> None:
        """
        It is a runner; so is the one of these tests.
        """
        self.assertTrue(verifyObject(IRunner, TrackRunner()))
        self.assertTrue(verifyObject(IRunner, StringRunner()))

    def test_nothing(self) -> None:
        """
        Each step is done at once, hands nothing over and uses nothing.
        """
        runner: Any = TrackRunner()
        item = WorkItem("w1")

        for call in (
            runner.prepare_work,
            runner.stop_work,
            runner.update_work,
            runner.report,
        ):
            self.assertIsNone(call(item))
        self.assertIsNone(runner.start_work(item, b"report"))
        self.assertEqual(runner.usage(item), {})
