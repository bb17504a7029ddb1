"""
Durations as Go writes them: ``1m30s``, ``250ms``.
"""

from __future__ import annotations

import re
from decimal import Decimal

SECOND = 1_000_000_000

#: Go counts nanoseconds in a signed 64-bit integer.
LONGEST = (1 << 63) - 1

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)")


def parse_duration(text: str) -> int:
    """
    Give the nanoseconds that ``text`` means to Go's ``time.ParseDuration``.

    :raises ValueError: in Go's words.
    """
    sign, rest = 1, text
    if rest[:1] in ("+", "-"):
        sign, rest = (-1 if rest[0] == "-" else 1), rest[1:]
    if rest == "0":
        return 0
    total, position = Decimal(0), 0
    while position < len(rest) or not rest:
        part = _PART.match(rest, position)
        if part is None:
            raise ValueError(f'time: invalid duration "{text}"')
        number, unit = part.groups()
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in _UNITS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        total += Decimal(number) * _UNITS[unit]
        position = part.end()
    if total > LONGEST:
        raise ValueError(f'time: invalid duration "{text}"')
    return sign * int(total)
