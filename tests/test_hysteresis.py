"""
Tests for :mod:`voltha_coord.hysteresis`.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.hysteresis import BYTES, MIB, PERCENT, Measure, settle

measures = st.sampled_from([PERCENT, BYTES])
figures = st.floats(0, 1e13) | st.floats(0, 200) | st.integers(0, 10**12)
limits = st.just(math.inf) | st.floats(0, 1e13) | st.floats(0, 200)


class MeasureTests(SynchronousTestCase):
    """
    One figure.
    """

    @given(measures, st.none() | figures, figures, limits)
    def test_near(
        self, measure: Measure, before: float | None, measured: float, limit: float
    ) -> None:
        """
        What is told is never further from what was measured than the band and the
        rounding allow, on the same side of the limit, and told the same again.
        """
        told = measure.settle(before, measured, limit)

        band = max(measure.least, measure.share * told, measure.step / 2)
        self.assertLessEqual(abs(told - measured), band * (1 + 1e-9))
        if measured > 0:
            self.assertEqual(told >= limit, measured >= limit)
        self.assertEqual(measure.settle(told, measured, limit), told)

    @given(measures, figures, st.lists(st.floats(-1, 1), min_size=1), st.data())
    def test_calm(
        self, measure: Measure, level: float, noise: list[float], data: Any
    ) -> None:
        """
        What stays within the band changes nothing of what is told.
        """
        level = max(level, 2 * measure.least)
        told = first = measure.settle(None, level)
        for one in noise:
            width = max(measure.least, measure.share * first) - measure.step
            told = measure.settle(told, level + one * max(width, 0))

        self.assertEqual(told, first)

    def test_end(self) -> None:
        """
        What ends is told at once, however little it was.
        """
        self.assertEqual(PERCENT.settle(1, 0.0), 0)
        self.assertEqual(PERCENT.settle(1, -3.0), 0)
        self.assertEqual(PERCENT.settle(1, 0.2), 1)

    def test_steps(self) -> None:
        """
        CPU is told in whole percents, memory in whole MiB; anew beyond two
        percents or five of a hundred, beyond 4 MiB or two of a hundred.
        """
        self.assertEqual(PERCENT.settle(None, 12.4), 12)
        self.assertEqual(PERCENT.settle(12, 13.9), 12)
        self.assertEqual(PERCENT.settle(12, 14.1), 14)
        self.assertEqual(PERCENT.settle(200, 209.0), 200)
        self.assertEqual(PERCENT.settle(200, 211.0), 211)
        self.assertEqual(BYTES.settle(None, 3 * MIB + 5), 3 * MIB)
        self.assertEqual(BYTES.settle(3 * MIB, 6 * MIB), 3 * MIB)
        self.assertEqual(BYTES.settle(3 * MIB, 8 * MIB), 8 * MIB)
        self.assertEqual(BYTES.settle(1000 * MIB, 1019 * MIB), 1000 * MIB)

    def test_limit(self) -> None:
        """
        To be at the limit, or below it again, is told at once, and rounding never
        says the opposite.
        """
        self.assertEqual(PERCENT.settle(89, 90.0, 90.0), 90)
        self.assertEqual(PERCENT.settle(90, 89.4, 90.0), 89)
        self.assertEqual(PERCENT.settle(88, 89.7, 90.0), 88)
        self.assertEqual(PERCENT.settle(None, 89.7, 90.0), 89.7)


class SettleTests(SynchronousTestCase):
    """
    All the figures of an item, or of a member.
    """

    def test_figures(self) -> None:
        """
        Each figure is told as is due to it, those of a GPU too; the number of a
        GPU and what is unknown here are told as they are.
        """
        told = {"cpu": 10, "gpu": {"usage": 50, "index": 0}, "threads": 5}
        measured = {
            "cpu": 11.0,
            "memory": 5 * MIB + 1,
            "gpu": {"usage": 51.2, "encoder": 3.3, "memory": 0, "index": 1},
            "threads": 6,
            "note": "n",
        }

        self.assertEqual(
            settle(told, measured, {}),
            {
                "cpu": 10,
                "memory": 5 * MIB,
                "gpu": {"usage": 50, "encoder": 3, "memory": 0, "index": 1},
                "threads": 6,
                "note": "n",
            },
        )

    def test_several_gpus(self) -> None:
        """
        Each GPU of a member has its own figures and limits; one that is new is
        told, one that is gone is not any more.
        """
        limits = {"gpus": [{"usage": 51.5}]}
        measured = {"gpus": [{"usage": 52.0}, {"usage": 7.0}]}

        self.assertEqual(
            settle({"gpus": [{"usage": 51}]}, measured, limits),
            {"gpus": [{"usage": 52}, {"usage": 7}]},
        )
        self.assertEqual(
            settle({"gpus": [{"usage": 52}, {}]}, {"gpus": [{"usage": 53}]}, {}),
            {"gpus": [{"usage": 52}]},
        )

    def test_gone(self) -> None:
        """
        What is not measured any more is not told any more.
        """
        self.assertEqual(settle({"cpu": 5}, {"memory": MIB}, {}), {"memory": MIB})

    def test_nonsense(self) -> None:
        """
        Whatever a runner may say, and whatever limits an item may have, makes no
        trouble.
        """
        odd: list[Any] = [None, "5", True, [], {}, math.nan, math.inf, 10**400, -1]
        for value in odd:
            for other in odd:
                told = settle(
                    {"cpu": other, "gpu": other},
                    {"cpu": value, "memory": value, "gpu": {"usage": value}},
                    {"cpu": other, "gpu": other},
                )
                self.assertEqual(set(told), {"cpu", "memory", "gpu"})
