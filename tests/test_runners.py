"""
Tests for :mod:`voltha_coord.runners`.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from tests.support.working import KillingRunner, StringRunner
from voltha_coord.errors import ConfigurationError
from voltha_coord.interfaces import IRunner
from voltha_coord.records import WorkItem
from voltha_coord.runners.complete import complete, does
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
        self.assertIsNone(runner.listen(lambda work: None))
        self.assertIsNone(runner.condition(item))


class Plain:
    """
    A runner that says only what it must.
    """

    def __init__(self) -> None:
        self.running: set[str] = set()

    def start_work(self, item: WorkItem, report: bytes | None) -> None:
        """
        Run it.
        """
        self.running.add(item.id)

    def stop_work(self, item: WorkItem) -> None:
        """
        Run it no more.
        """
        self.running.discard(item.id)


class CompleteTests(SynchronousTestCase):
    """
    A runner that leaves out what it has nothing to say about.
    """

    def test_left_out(self) -> None:
        """
        What it leaves out does nothing; what it has is its own.
        """
        plain = Plain()
        runner: Any = complete(plain)
        item = WorkItem("w1")

        runner.start_work(item, None)

        self.assertEqual(plain.running, {"w1"})
        self.assertEqual(runner.usage(item), {})
        self.assertIsNone(runner.report(item))
        self.assertIsNone(runner.update_work(item))
        self.assertIsNone(runner.prepare_work(item))
        self.assertIsNone(runner.listen(lambda work: None))
        self.assertIsNone(runner.condition(item))

    def test_whole(self) -> None:
        """
        One that has everything is taken as it is.
        """
        whole = TrackRunner()

        self.assertIs(complete(whole), whole)

    def test_needed(self) -> None:
        """
        One without ``start_work`` or ``stop_work`` is refused, by name.
        """
        for name in ("start_work", "stop_work"):
            lacking = type("Lacking", (Plain,), {name: None})()
            with self.assertRaisesRegex(ConfigurationError, name):
                complete(lacking)

    def test_does(self) -> None:
        """
        What a runner leaves out it does not do, nor what it inherits from the
        one that does nothing; what it has it does.
        """

        class Updating(TrackRunner):
            def update_work(self, item: WorkItem) -> None:
                """
                Something.
                """

        for runner, steps in (
            (complete(Plain()), {"start_work", "stop_work"}),
            (complete(TrackRunner()), set()),
            (complete(Updating()), {"update_work"}),
            (complete(StringRunner()), {*STEPS}),
            (complete(KillingRunner()), {*STEPS, "kill_work"}),
        ):
            with self.subTest(runner=runner):
                done = {name for name in (*STEPS, "kill_work") if does(runner, name)}
                self.assertEqual(done, steps)


STEPS = (
    "prepare_work",
    "start_work",
    "stop_work",
    "update_work",
    "report",
    "usage",
    "listen",
    "condition",
)
