"""
Tests that every field report is either shown by a test that names it, or has its
reason why not: what docs/field-reports.md says is true.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "field-reports.md"

#: The reports there are.
NUMBERS = (
    "1-2 4-9 11-13 15-19 21-25 27-31 33-36 38 40-44 46-51 53-59 61-67 69-72 74-82 "
    "84-86 88-91 93-95 97-102 104-110 112-116 118-121 123-126 128-133 135-137 "
    "139-141 143-145 147-150"
)

#: The defects of the ancestor: V1 and so on.
DEFECTS = 16

#: How a row begins that names no test.
NONE = "no test: "

#: What a citation looks like: "field report 41", "field reports 2, 4, 43".
_CITED = re.compile(r"\breports? (\d+(?:(?:, | and )\d+)*)", re.I)
_DEFECT = re.compile(r"\bV(\d+)\b")


def known() -> list[str]:
    """
    Give the number of every report, and the name of every defect.
    """
    found: list[str] = []
    for part in NUMBERS.split():
        first, _, last = part.partition("-")
        found += map(str, range(int(first), int(last or first) + 1))
    return [*found, *(f"V{number}" for number in range(1, DEFECTS + 1))]


def cited(text: str) -> set[str]:
    """
    Give the reports and the defects that a text cites, across its lines.
    """
    flat = re.sub(r"\s+(?:# ?)?", " ", text)
    numbers = {n for found in _CITED.findall(flat) for n in re.findall(r"\d+", found)}
    return numbers | {f"V{number}" for number in _DEFECT.findall(flat)}


@frozen
class Row:
    """
    A row of the table.

    :ivar shown: the last cell.
    """

    number: str
    reported: str
    wrong: str
    done: str
    shown: str

    @property
    def tests(self) -> list[str]:
        """
        The tests that are named.
        """
        return re.findall(r"`(tests\.[\w.]+)`", self.shown)


def rows() -> Iterator[Row]:
    """
    Read the table.
    """
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"V?\d+", cells[0]):
            yield Row(*cells)


def found(name: str) -> tuple[type[Any], Any]:
    """
    Find a test by its name; give its case and it.

    :raises AttributeError: when there is none.
    """
    module, case, test = name.rsplit(".", 2)
    cls = getattr(import_module(module), case)
    return cls, getattr(cls, test)


class FieldReportTests(SynchronousTestCase):
    """
    The table, and the citations.
    """

    def test_complete(self) -> None:
        """
        Every report has one row, in order, with something in every cell.
        """
        table = list(rows())

        self.assertEqual([row.number for row in table], known())
        for row in table:
            self.assertNotIn("", (row.reported, row.wrong, row.done, row.shown))

    def test_shown(self) -> None:
        """
        Every test that is named exists, and cites the report: in its docstring, in
        that of its case, or in a comment within.
        """
        for row in rows():
            for name in row.tests:
                case, test = found(name)
                said = f"{case.__doc__}\n{test.__doc__}\n{inspect.getsource(test)}"
                self.assertIn(row.number, cited(said), name)

    def test_reasons(self) -> None:
        """
        Where no test is named there is a reason, and these are few.
        """
        without = [row for row in rows() if not row.tests]

        self.assertEqual([row.number for row in without], ["76", "79", "113"])
        for row in without:
            self.assertTrue(row.shown.startswith(NONE), row)
            self.assertGreater(len(row.shown), len(NONE) + 20)

    def test_nothing_else_is_named(self) -> None:
        """
        What is named as a test is nothing but tests.
        """
        for row in rows():
            if row.tests:
                self.assertEqual(", ".join(f"`{t}`" for t in row.tests), row.shown)

    def test_citations(self) -> None:
        """
        No test cites a report that is not in the table.
        """
        numbers = {*known()}
        seen: set[str] = set()
        for path in sorted((ROOT / "tests").rglob("*.py")):
            citations = cited(path.read_text("utf-8"))
            self.assertEqual(citations - numbers, set(), path.name)
            seen |= citations

        self.assertGreater(len(seen), 130)
