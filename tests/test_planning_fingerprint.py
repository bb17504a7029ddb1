"""
Tests for the number of a placement.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.fingerprint import fingerprint


class FingerprintTests(SynchronousTestCase):
    """
    Tests of :func:`fingerprint`.
    """

    def test_order(self) -> None:
        """
        The order in which a placement is written down does not matter, nor do
        the values, nor members without work.
        """
        first = fingerprint({"a": {"w": b"", "v": b""}, "b": {"u": b""}})
        second = fingerprint({"c": {}, "b": {"u": b"{}"}, "a": {"v": b"", "w": b""}})

        self.assertEqual(first, second)

    def test_tells_apart(self) -> None:
        """
        Any other placement has another number: also where the same letters
        stand in other ids.
        """
        placements: list[dict[str, dict[str, bytes]]] = [
            {},
            {"a": {"w": b""}},
            {"b": {"w": b""}},
            {"a": {"v": b""}},
            {"a": {"w": b"", "v": b""}},
            {"a": {"wv": b""}},
            {"a": {"w": b""}, "v": {"x": b""}},
            {"a": {"w": b"", "v": b"", "x": b""}},
            {"a": {"w": b""}, "b": {"v": b""}},
            {"a": {"v": b""}, "b": {"w": b""}},
        ]

        self.assertEqual(len({fingerprint(p) for p in placements}), len(placements))

    def test_stable(self) -> None:
        """
        The number is the same in every process and every version, and a float
        holds it.
        """
        number = fingerprint({"m1": {"cam-1": b"", "cam-2@lab": b""}})

        self.assertEqual(number, 142659992003641)
        self.assertEqual(int(float(2**48 - 1)), 2**48 - 1)
