"""
Tests for :mod:`voltha_coord.runners.output`: what a process writes.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.testing import capture_logs
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.runners.output import (
    LINES_AT_ONCE,
    LINES_KEPT,
    LONGEST_LINE,
    Output,
)


class OutputTests(SynchronousTestCase):
    """
    Lines are logged and kept.
    """

    def setUp(self) -> None:
        """
        Begin with nothing written.
        """
        self.logs: Any = self.enterContext(capture_logs())
        self.clock = Clock()
        self.output = Output(self.clock.seconds, structlog.get_logger().bind(work="w"))

    def lines(self, stream: str = "stdout") -> list[str]:
        """
        Give the lines that were logged of a stream.
        """
        return [
            log["line"]
            for log in self.logs
            if log["event"] == "process-output" and log["stream"] == stream
        ]

    def dropped(self) -> list[int]:
        """
        Give how many lines were dropped, each time it was told.
        """
        return [
            log["lines"]
            for log in self.logs
            if log["event"] == "process-output-dropped"
        ]

    def test_lines(self) -> None:
        """
        Each line is an event with the item and the stream.
        """
        self.output.received("stdout", b"one\ntwo\r\n\nthree\n")

        self.assertEqual(self.lines(), ["one", "two", "", "three"])
        self.assertEqual(self.logs[0]["work"], "w")
        self.assertEqual(self.logs[0]["log_level"], "info")

    def test_pieces(self) -> None:
        """
        A line may come in pieces; the streams do not mix.
        """
        self.output.received("stdout", b"o")
        self.output.received("stderr", b"err")
        self.output.received("stdout", b"ne\ntw")
        self.output.received("stdout", b"o\n")
        self.output.received("stderr", b"or\n")

        self.assertEqual(self.lines(), ["one", "two"])
        self.assertEqual(self.lines("stderr"), ["error"])
        self.assertEqual([*self.output.last], ["one", "two", "error"])

    def test_split_character(self) -> None:
        """
        A character may come in pieces; what is none is replaced.
        """
        for byte in "é€".encode():
            self.output.received("stdout", bytes([byte]))
        self.output.received("stdout", b"\xff\n")

        self.assertEqual(self.lines(), ["é€�"])

    def test_ended(self) -> None:
        """
        What has no end of line is a line once nothing more comes.
        """
        self.output.received("stdout", b"one\ntwo")
        self.assertEqual(self.lines(), ["one"])

        self.output.ended()
        self.output.ended()

        self.assertEqual(self.lines(), ["one", "two"])

    def test_kept(self) -> None:
        """
        The last lines are kept, of this process and the ones before.
        """
        for number in range(LINES_KEPT + 5):
            self.output.received("stdout", f"{number}\n".encode())
            self.output.ended()

        expected = [str(number) for number in range(5, LINES_KEPT + 5)]
        self.assertEqual([*self.output.last], expected)

    def test_long(self) -> None:
        """
        A line is cut, however many pieces it comes in and whatever is in it.
        """
        for _ in range(160):
            self.output.received("stdout", "€".encode() * 20_000)
            held = sum(map(len, self.output._open.values()))
            self.assertLess(held, 5 * LONGEST_LINE)
        self.output.received("stdout", b"\nnext\n")

        self.assertEqual(self.lines(), ["€" * LONGEST_LINE + "…", "next"])

    def test_just_not_long(self) -> None:
        """
        One that is as long as it may be is not cut.
        """
        self.output.received("stdout", b"x" * LONGEST_LINE + b"\n")

        self.assertEqual(self.lines(), ["x" * LONGEST_LINE])

    def test_many(self) -> None:
        """
        Of too many lines the rest is counted, and the last ones are kept.
        """
        for number in range(LINES_AT_ONCE + 30):
            self.output.received("stdout", f"{number}\n".encode())
        self.assertEqual(len(self.lines()), LINES_AT_ONCE)
        self.assertEqual(self.dropped(), [])
        self.assertEqual(self.output.last[-1], str(LINES_AT_ONCE + 29))

        self.clock.advance(1.0)
        self.output.received("stdout", b"calm\n")

        self.assertEqual(self.dropped(), [30])
        self.assertEqual(self.lines()[-1], "calm")

    def test_many_at_once(self) -> None:
        """
        It is the same if they come at once.
        """
        self.output.received("stdout", b"beg")
        text = "".join(f"{number}\n" for number in range(10_000)) + "end"
        self.output.received("stdout", text.encode())
        self.output.ended()

        self.assertEqual(self.lines()[:2], ["beg0", "1"])
        self.assertEqual(len(self.lines()), LINES_AT_ONCE)
        self.assertEqual(sum(self.dropped()), 10_001 - LINES_AT_ONCE)
        expected = [str(number) for number in range(9_981, 10_000)]
        self.assertEqual([*self.output.last], [*expected, "end"])
