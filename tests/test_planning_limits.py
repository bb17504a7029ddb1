"""
Limits, usage and resources, as anybody may have written them.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.limits import read_limits, read_resources, read_usage
from voltha_coord.planning.shares import Gpu, GpuShare, Resources, Share

#: What is no number, or none that means anything, and how that is told.
BAD: tuple[tuple[object, str], ...] = (
    ("abc", "'abc' is not a number"),
    ("12", "'12' is not a number"),
    (True, "True is not a number"),
    (None, "None is not a number"),
    ([1], "[1] is not a number"),
    (float("nan"), "nan is out of range"),
    (float("inf"), "inf is out of range"),
    (10**400, "is out of range"),
    (-1, "-1 is negative"),
)

CAPACITY = {"cpu_limit": 90, "memory_limit": 80}
USED = {"cpu": 7, "memory": 35}


class LimitsTests(SynchronousTestCase):
    """
    The limits of a work item.
    """

    def test_read(self) -> None:
        """
        They are read as they are.
        """
        gpu = {"memory": 1, "usage": 2, "encoder": 3, "decoder": 4}

        self.assertEqual(
            read_limits({"cpu": 10.5, "memory": 20, "gpu": gpu}),
            (Share(10.5, 20, GpuShare(1, 2, 3, 4)), ""),
        )

    def test_missing(self) -> None:
        """
        What is missing is 0, and nothing is wrong with that here.
        """
        self.assertEqual(read_limits({}), (Share(), ""))

    def test_bad(self) -> None:
        """
        Each number that means nothing is told by its name, and counts as 0, or
        as less than that.
        """
        for value, words in BAD:
            share, wrong = read_limits({"cpu": value, "memory": 20})

            self.assertIn("limits.cpu: ", wrong)
            self.assertIn(words, wrong)
            self.assertLessEqual(share.cpu, 0)
            self.assertEqual(share.memory, 20)

    def test_all_are_named(self) -> None:
        """
        Of several bad ones each is told; a GPU's by its place.
        """
        _, wrong = read_limits({"cpu": "x", "memory": "y", "gpu": {"usage": "z"}})

        self.assertEqual(
            wrong,
            "limits.cpu: 'x' is not a number; limits.memory: 'y' is not a number; "
            "limits.gpu.usage: 'z' is not a number",
        )

    def test_bad_gpu(self) -> None:
        """
        A GPU that is no object is told.
        """
        self.assertEqual(
            read_limits({"cpu": 1, "memory": 1, "gpu": 3}),
            (Share(1, 1), "limits.gpu is not an object"),
        )

    def test_long_values(self) -> None:
        """
        A long value is not told at full length.
        """
        _, wrong = read_limits({"cpu": "x" * 10_000})

        self.assertLess(len(wrong), 100)


class UsageTests(SynchronousTestCase):
    """
    What an item uses.
    """

    def test_read(self) -> None:
        """
        It is read as it is told, the number of the GPU included.
        """
        self.assertEqual(read_usage({"cpu": 1, "memory": 2}), Share(1, 2))
        self.assertEqual(
            read_usage({"cpu": 1, "memory": 2, "gpu": {"memory": 5, "index": 0}}),
            Share(1, 2, GpuShare(memory=5, index=0)),
        )

    def test_untold(self) -> None:
        """
        What means nothing is as if nothing were told.
        """
        bad: list[dict[str, Any]] = [{}, {"cpu": 1}, {"memory": 1}]
        bad += [{"cpu": value, "memory": 1} for value, _ in BAD]
        for usage in bad:
            self.assertIsNone(read_usage(usage), usage)

    def test_odd_index(self) -> None:
        """
        A GPU's number that is none is not known.
        """
        for index in (-1, "0", True, 1.5):
            share = read_usage({"cpu": 1, "memory": 1, "gpu": {"index": index}})

            assert share is not None and share.gpu is not None
            self.assertIsNone(share.gpu.index)


class ResourcesTests(SynchronousTestCase):
    """
    What a member has and uses.
    """

    def test_read(self) -> None:
        """
        What it has is from its record, what it uses from its report.
        """
        capacity = {**CAPACITY, "gpus": [{"memory_limit": 9, "usage_limit": 95}]}
        used = {**USED, "throttling": True, "gpus": [{"memory": 1, "encoder": 4}]}

        self.assertEqual(
            read_resources(capacity, used),
            Resources(7, 90, 35, 80, True, "", (Gpu(1, 9, 0, 95, 4),)),
        )

    def test_unused_gpu(self) -> None:
        """
        A GPU of which the report says nothing is not used.
        """
        capacity = {**CAPACITY, "gpus": [{"memory_limit": 9, "usage_limit": 95}]}

        self.assertEqual(read_resources(capacity, USED).gpus, (Gpu(0, 9, 0, 95),))

    def test_unknown(self) -> None:
        """
        Who does not tell what it has or uses is in error, and says so.
        """
        for capacity, used, words in (
            ({}, USED, "what resources it has"),
            (CAPACITY, {}, "has not told yet what it uses"),
            (CAPACITY, {"cpu": 3}, "has not told yet what it uses"),
            (CAPACITY, {**USED, "error": "no /proc"}, "no /proc"),
            (CAPACITY, {**USED, "cpu": "x"}, "node.cpu: 'x' is not a number"),
            ({**CAPACITY, "cpu_limit": "x"}, USED, "resources.cpu_limit: 'x'"),
            ({**CAPACITY, "gpus": [3]}, USED, "resources.gpus: number 0"),
        ):
            self.assertIn(words, read_resources(capacity, used).error)

    def test_no_error(self) -> None:
        """
        An error that is no text, or an empty one, is none.
        """
        for error in ("", None, 3):
            self.assertEqual(
                read_resources(CAPACITY, {**USED, "error": error}).error, ""
            )
