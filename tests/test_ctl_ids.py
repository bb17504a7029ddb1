"""
Tests for the work ids of the command line.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.ctl.ids import MOST_IDS, expand, work_ids
from voltha_coord.errors import InvalidIdError


class ExpandTests(SynchronousTestCase):
    """
    Ranges in braces.
    """

    def test_plain(self) -> None:
        """
        A pattern without braces is one id.
        """
        self.assertEqual(list(expand("device_group_7")), ["device_group_7"])

    def test_padded(self) -> None:
        """
        A leading zero in either end pads every number.
        """
        self.assertEqual(list(expand("g_{08..10}")), ["g_08", "g_09", "g_10"])
        self.assertEqual(list(expand("g_{8..010}")), ["g_008", "g_009", "g_010"])

    def test_not_padded(self) -> None:
        """
        Without one the numbers are as long as they are; a lone 0 pads nothing.
        """
        self.assertEqual(list(expand("g{9..11}")), ["g9", "g10", "g11"])
        self.assertEqual(list(expand("g{0..10..}")), ["g{0..10..}"])
        self.assertEqual(list(expand("{0..10}"))[-1], "10")
        self.assertEqual(next(expand("{0..10}")), "0")

    def test_downwards(self) -> None:
        """
        A range may count down.
        """
        self.assertEqual(list(expand("{3..1}x")), ["3x", "2x", "1x"])

    def test_two_ranges(self) -> None:
        """
        Two ranges give every combination, the last one running fastest.
        """
        self.assertEqual(
            list(expand("a{1..2}-{3..4}@z")), ["a1-3@z", "a1-4@z", "a2-3@z", "a2-4@z"]
        )

    def test_the_hundred(self) -> None:
        """
        The original's hundred items are one pattern.
        """
        ids = list(expand("device_group_{0001..0100}"))

        self.assertEqual(len(ids), 100)
        self.assertEqual((ids[0], ids[-1]), ("device_group_0001", "device_group_0100"))

    def test_too_large(self) -> None:
        """
        A range that cannot be meant is refused before a list is made of it.
        """
        error = self.assertRaises(
            InvalidIdError, lambda: list(expand("x{1..99999999999}"))
        )
        self.assertIn("{1..99999999999}", str(error))


class WorkIdsTests(SynchronousTestCase):
    """
    Several patterns, checked.
    """

    def test_once_in_order(self) -> None:
        """
        Each id comes once, where it came first.
        """
        self.assertEqual(work_ids(["b", "a{1..2}", "a2", "b"]), ("b", "a1", "a2"))

    def test_illegal(self) -> None:
        """
        An id with an illegal character is refused, and the character named.
        """
        error = self.assertRaises(InvalidIdError, work_ids, ["fine", "x{1..2} y"])
        self.assertIn("' '", str(error))
        self.assertRaises(InvalidIdError, work_ids, ["a/b"])
        self.assertRaises(InvalidIdError, work_ids, [""])
        self.assertRaises(InvalidIdError, work_ids, ["x{1..}"])

    def test_too_many(self) -> None:
        """
        Several ranges that are too many together are refused.
        """
        half = MOST_IDS // 1000
        self.assertRaises(InvalidIdError, work_ids, [f"a{{1..{half}}}-{{1..1001}}"])
