"""
What the doctor says: one finding, one line, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from attrs import frozen

#: So many of a long list are named; the rest is counted.
MOST_NAMES = 3

#: So many characters of a text from outside are printed.
MOST_CHARACTERS = 200


class Level(Enum):
    """
    How bad a finding is.
    """

    OK = "ok"
    #: It works, but not as well as it could, or not for ever.
    WARN = "warn"
    #: Something does not work; the command exits 1.
    WRONG = "wrong"


@frozen
class Finding:
    """
    One thing looked at.

    :ivar check: what was looked at, in one word or two.
    :ivar found: what was seen.
    :ivar advice: what to do; empty when there is nothing to do.
    """

    level: Level
    check: str
    found: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        """
        Give the finding as the ``--json`` document has it.
        """
        return {
            "level": self.level.value,
            "check": self.check,
            "found": self.found,
            "advice": self.advice,
        }


def ok(check: str, found: str) -> Finding:
    """
    Give a finding that asks for nothing.
    """
    return Finding(Level.OK, check, found)


def warn(check: str, found: str, advice: str) -> Finding:
    """
    Give a finding that asks to be thought about.
    """
    return Finding(Level.WARN, check, found, advice)


def wrong(check: str, found: str, advice: str) -> Finding:
    """
    Give a finding that asks to be acted upon.
    """
    return Finding(Level.WRONG, check, found, advice)


def named(names: Collection[str]) -> str:
    """
    Give the first few of some names, and how many more there are.
    """
    first = sorted(names)[:MOST_NAMES]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def one_line(text: str) -> str:
    """
    Give a text that anyone may have written as it may be printed, in short.
    """
    whole = printable(text).strip()
    short = whole[:MOST_CHARACTERS]
    return short if short == whole else f"{short}…"


def printable(text: str) -> str:
    """
    Give a text that anyone may have written as it may be printed: what would
    move the cursor or change colours is a blank.
    """
    return "".join(c if c.isprintable() else " " for c in text)


def frozen_words(reason: str | None) -> str:
    """
    Say that planning is frozen, and why.
    """
    return f"frozen ({one_line(reason)})" if reason else "frozen"


def counted(items: int) -> str:
    """
    Say how many items that is.
    """
    return "1 item" if items == 1 else f"{items} items"
