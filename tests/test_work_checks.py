"""
Tests for what can be wrong with a work item before it is written.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.work_checks import (
    MOST_BYTES,
    MOST_PLACED,
    Checked,
    check_item,
    encode,
)


class CheckTests(SynchronousTestCase):
    """
    Fields, one by one.
    """

    def problem(self, values: Any) -> str:
        """
        Give the one problem of an item.
        """
        found = check_item(values)
        self.assertEqual(len(found.problems), 1, found)
        return found.problems[0]

    def test_fine(self) -> None:
        """
        Nothing is said of an item that is fine, nor of one that says nothing.
        """
        for values in (
            {},
            {"order": "stop", "reference": "r", "force": True, "weight": 0.5},
            {"limits": {"cpu": 10, "memory": 1.5, "gpu": {"memory": 3}}},
            {"config": {"command": ["x"]}, "limits": {"cpu": 1, "memory": 1}},
            {"config": {"camera": 7}, "metadata": {"a": [None, {}]}},
            {"order": None, "limits": None, "metadata": None, "weight": None},
        ):
            self.assertEqual(check_item(values), Checked(), values)

    def test_no_object(self) -> None:
        """
        What is no object is named as what it is.
        """
        for values, said in (
            ([], "a list"), ("x", "a text"), (None, "null"), (True, "a truth value"),
            (3, "a number"), ({1}, "a set"),
        ):  # fmt: skip
            self.assertIn(said, self.problem(values))

    def test_fields(self) -> None:
        """
        A field that means nothing is named with what it holds.
        """
        for values, said in (
            ({"order": "run"}, "order: 'run' is neither start nor stop"),
            ({"order": ["start"]}, "order: ['start'] is neither"),
            ({"limits": [1]}, "limits: a list, not an object"),
            ({"reference": 3}, "reference: 3 is a number, not a text"),
            ({"metadata": "x"}, "metadata: 'x' is a text, not an object"),
            ({"force": 1}, "force: 1 is a number, not true or false"),
            ({"weight": -1}, "weight: -1 is not a number from 0"),
            ({"weight": True}, "weight: True is not"),
        ):
            self.assertIn(said, self.problem(values))

    def test_limits(self) -> None:
        """
        Limits that mean nothing are refused, each by its name.
        """
        for limit, said in (
            (-1, "negative"), ("much", "not a number"), (True, "not a number"),
        ):  # fmt: skip
            text = self.problem({"limits": {"cpu": limit, "memory": 1}})
            self.assertIn("limits.cpu", text)
            self.assertIn(said, text)
        for odd in (math.nan, math.inf, -math.inf):
            text = self.problem({"limits": {"cpu": 1, "memory": odd}})
            self.assertIn("limits.memory: ", text)
        text = self.problem({"limits": {"cpu": 1, "memory": 1, "gpu": {"usage": -2}}})
        self.assertIn("limits.gpu.usage", text)

    def test_zero(self) -> None:
        """
        A limit of zero, or one that is missing beside others, is allowed, and it
        is told what follows.
        """
        found = check_item({"limits": {"cpu": 0}})

        self.assertEqual(found.problems, ())
        cpu, memory = found.warnings
        self.assertIn("limits.cpu: is 0, and the resource leader", cpu)
        self.assertIn("limits.memory: is missing", memory)

    def test_placed_nowhere(self) -> None:
        """
        What Consul takes, and the resource leader does not place, is odd.
        """
        room = MOST_PLACED - len(encode({"reference": ""}))

        self.assertEqual(check_item({"reference": "x" * room}), Checked())
        found = check_item({"reference": "x" * (room + 1)})
        self.assertEqual(found.problems, ())
        (warning,) = found.warnings
        self.assertIn(f"{MOST_PLACED + 1} bytes, and the resource leader", warning)

    def test_unknown(self) -> None:
        """
        A field that nobody knows is odd; the nearest that is known is named.
        """
        found = check_item(
            {"limit": {}, "zzz": 1, "limits": {"cpu": 1, "memory": 1, "gpus": {}}}
        )

        self.assertEqual(found.problems, ())
        self.assertEqual(
            found.warnings,
            (
                "limit: no field that is known; is limits meant?",
                "zzz: no field that is known",
                "limits.gpus: no field that is known; is gpu meant?",
            ),
        )


class JsonTests(SynchronousTestCase):
    """
    What YAML has, and JSON has not.
    """

    def problem(self, config: Any) -> str:
        """
        Give the one problem of an item of this config.
        """
        (problem,) = check_item({"config": config}).problems
        return problem

    def test_values(self) -> None:
        """
        A value that JSON has no word for is refused, and its place is named.
        """
        for value, said in (
            (datetime.date(2026, 1, 2), "a date"),
            ({"a", "b"}, "a set"),
            (b"x", "a bytes"),
            (math.nan, "nan is no number"),
            (10**400, "too large"),
        ):
            text = self.problem({"a": [0, value]})
            self.assertTrue(text.startswith("config.a[1]: "), text)
            self.assertIn(said, text)
        self.assertIn("config: the name 3 is not a text", self.problem({3: 4}))

    def test_cycles(self) -> None:
        """
        What holds itself is refused, however it does.
        """
        narrow: list[Any] = []
        narrow.append(narrow)
        wide: dict[str, Any] = {}
        wide.update({str(n): wide for n in range(9)})

        self.assertIn("config: nested more than 64 deep", self.problem(narrow))
        self.assertIn("more values than Consul takes", self.problem(wide))

    def test_laughter(self) -> None:
        """
        What is small in a file and large when it is written is refused at once.
        """
        value: Any = "ha"
        for _ in range(40):
            value = [value] * 10

        self.assertIn("more values than Consul takes", self.problem(value))

    def test_deep(self) -> None:
        """
        Sixty levels are written, a hundred are not.
        """
        for depth, problems in ((60, 0), (100, 1)):
            value: Any = 1
            for _ in range(depth):
                value = [value]
            found = check_item({"config": value})
            self.assertEqual(len(found.problems), problems)

    def test_large(self) -> None:
        """
        An item that Consul does not take is refused, and its largest field named.
        """
        item = {"metadata": {"x": ""}, "config": "x" * MOST_BYTES}
        (text,) = check_item(item).problems
        self.assertTrue(text.startswith("config: the item is 5243"), text)
        room = MOST_BYTES - len(encode({"config": ""}))
        self.assertEqual(check_item({"config": "x" * room}).problems, ())


class CommandTests(SynchronousTestCase):
    """
    Items that look like commands.
    """

    def test_refused_later(self) -> None:
        """
        What the runner would refuse is warned of before it is written.
        """
        limits = {"cpu": 1, "memory": 1}
        for config, words in (
            ({"command": "sleep 500"}, "is not a list of texts"),
            ({"command": ["sleep", 500]}, "number 1: 500 is not a text"),
            ({"command": ["x"], "directoy": "/"}, "did you mean directory?"),
        ):
            checked = check_item({"config": config, "limits": limits})

            (warning,) = checked.warnings
            self.assertEqual(checked.problems, ())
            self.assertIn("the worker process will refuse it", warning)
            self.assertIn(words, warning)

    def test_no_limits(self) -> None:
        """
        A command without limits will be rejected.
        """
        (warning,) = check_item({"config": {"command": ["x"]}}).warnings

        self.assertIn("--cpu and --memory", warning)

    def test_other_configs(self) -> None:
        """
        What is no command is nobody's business.
        """
        for config in (None, {}, 3, "x", {"camera": 7}):
            self.assertEqual(check_item({"config": config}).warnings, ())
