"""
Tests for :mod:`voltha_coord.faring`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from twisted.internet.defer import Deferred

from tests.support.running import RunningCase
from voltha_coord.condition import Condition
from voltha_coord.item import FAILED, RUNNING, STOPPING
from voltha_coord.records import WorkItem
from voltha_coord.runners.complete import complete

GRIEF = Condition("failed", 5.0, "exit status 1", {"pid": 7})


class FaringTests(RunningCase):
    """
    How items fare by themselves.
    """

    def setUp(self) -> None:
        """
        Begin with a runner that is listened to.
        """
        super().setUp()
        self.items.listen()

    def test_after_start(self) -> None:
        """
        An item that was started is asked after at once; what is the matter with it
        is its trouble, and it runs all the same.
        """
        self.runner.conditions["w1"] = GRIEF
        item = self.start("w1")

        self.assertEqual((item.condition, item.trouble), (GRIEF, "exit status 1"))
        self.assertEqual((item.state, self.items.workload), (RUNNING, {"w1"}))
        self.assertEqual(self.items.states[FAILED], 1)

    def test_changes(self) -> None:
        """
        What changes by itself is known when the runner says so; the worker is
        called when what is the matter has changed.
        """
        item = self.start("w1")
        attended = [self.attended]
        for condition in (GRIEF, GRIEF, Condition(details={"pid": 8}), None):
            self.runner.fare("w1", condition)
            attended.append(self.attended)
            self.assertEqual(item.condition, condition)

        calls = [b - a for a, b in pairwise(attended)]
        self.assertEqual(calls, [1, 0, 1, 0])
        self.assertEqual((item.trouble, self.items.states[RUNNING]), ("", 1))

    def test_after_a_change(self) -> None:
        """
        It is asked after again once it was changed.
        """
        item = self.start("w1")
        self.runner.conditions["w1"] = GRIEF
        self.items.change(item, WorkItem("w1", config=2))

        self.assertEqual(item.condition, GRIEF)

    def test_not_started(self) -> None:
        """
        What is not here, has not been started yet, or is being stopped is not asked
        after.
        """
        self.runner.conditions["w1"] = lambda: self.fail("asked")
        self.runner.starts["w1"] = Deferred()
        self.runner.fare("w2", GRIEF)
        item = self.start("w1")
        self.runner.listeners[0]("w1")

        self.assertIsNone(item.condition)

    def test_stopped(self) -> None:
        """
        What an item was is over when it is stopped.
        """
        self.runner.conditions["w1"] = GRIEF
        self.runner.stops["w1"] = Deferred()
        item = self.start("w1")
        self.stop(item)
        self.runner.fare("w1", GRIEF)

        self.assertEqual((item.state, item.condition), (STOPPING, None))
        self.assertEqual(item.trouble, "")

    def test_stopped_by_order(self) -> None:
        """
        So it is when it stops by its order.
        """
        self.runner.conditions["w1"] = GRIEF
        item = self.start("w1")
        self.items.change(item, WorkItem("w1", order="stop"))

        self.assertEqual((item.condition, item.trouble), (None, ""))
        self.assertEqual(self.items.states[FAILED], 0)

    def test_nonsense(self) -> None:
        """
        What cannot be used counts as nothing said, is logged once for the item, and
        again when it was well between.
        """
        for nonsense in (
            ValueError("bad"),
            5,
            Condition(5),  # type: ignore[arg-type]
            Condition(""),
            Condition(error=b"bytes"),  # type: ignore[arg-type]
            Condition(since=float("nan")),
            Condition(since="now"),  # type: ignore[arg-type]
            Condition(details={"x": object()}),
            Condition(details={"x": float("nan")}),
            Condition(details=5),  # type: ignore[arg-type]
        ):
            with self.subTest(nonsense=nonsense):
                self.logs.clear()
                self.runner.conditions["w1"] = GRIEF
                item = self.start("w1")
                for _ in range(2):
                    self.runner.fare("w1", nonsense)

                self.assertIsNone(item.condition)
                (event,) = self.events("condition-unknown")
                self.assertEqual(event["work"], "w1")
                self.runner.fare("w1", GRIEF)
                self.runner.fare("w1", nonsense)
                self.assertEqual(len(self.events("condition-unknown")), 2)
                self.stop(item)

    def test_keys_of_details(self) -> None:
        """
        Details are as JSON gives them back.
        """
        self.runner.conditions["w1"] = Condition(details={1: (2, 3)})  # type: ignore[dict-item]
        item = self.start("w1")

        assert item.condition is not None
        self.assertEqual(item.condition.details, {"1": [2, 3]})

    def test_says_so_while_asked(self) -> None:
        """
        A runner that calls back while it is asked is not asked again and again.
        """
        asked: list[str] = []

        def condition() -> Any:
            asked.append("w1")
            self.runner.listeners[0]("w1")
            return GRIEF

        self.runner.conditions["w1"] = condition
        item = self.start("w1")

        self.assertEqual((asked, item.condition), (["w1"], GRIEF))

    def test_cannot_be_listened_to(self) -> None:
        """
        A runner that fails when it is to be listened to is told of, and used.
        """

        def listen(changed: Any) -> None:
            raise ValueError("bad")

        self.runner.listen = listen
        self.items.listen()

        (event,) = self.events("runner-not-listened-to")
        self.assertEqual(event["error"], "ValueError: bad")


class Short:
    """
    A runner with what it needs and no more.
    """

    def start_work(self, item: WorkItem, report: bytes | None) -> None:
        """
        Start nothing.
        """

    def stop_work(self, item: WorkItem) -> None:
        """
        Stop nothing.
        """


class ShortRunnerTests(RunningCase):
    """
    Runners that have nothing to say.
    """

    def make_runner(self) -> Any:
        """
        Make one.
        """
        return complete(Short())

    def test_nothing(self) -> None:
        """
        What was started runs.
        """
        self.items.listen()
        item = self.start("w1")

        self.assertIsNone(item.condition)
        self.assertEqual((self.items.states[RUNNING], self.logs), (1, []))
