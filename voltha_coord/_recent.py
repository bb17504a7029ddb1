"""
Names that are remembered as long as there are not too many newer ones.

What comes of one outage after the other must not grow for ever: sessions that
were ours, sessions that are gone, services that may be left.
"""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")


def remember(known: dict[str, _T], name: str, value: _T, most: int) -> None:
    """
    Set an entry, and forget the oldest ones beyond ``most``.
    """
    known[name] = value
    while len(known) > most:
        del known[next(iter(known))]
