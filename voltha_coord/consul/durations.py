"""
Durations as Go writes and reads them.  Pure.
"""

from __future__ import annotations

import re

_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[-+]?(?:(?:{_PART.pattern})+|0)")


def to_go(seconds: float) -> str:
    """
    Write a duration so that Go reads the same, to the millisecond.

    A positive duration is never written as nothing: Consul takes zero for
    "none".
    """
    milliseconds = round(seconds * 1000)
    if milliseconds == 0 and seconds > 0:
        milliseconds = 1
    if milliseconds % 1000 == 0:
        return f"{milliseconds // 1000}s"
    return f"{milliseconds}ms"


def from_go(text: str) -> float:
    """
    Read a Go duration (``1m0s``, ``1.5s``, ``24h0m0s``), in seconds.

    :raises ValueError: when it is none.
    """
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a duration")
    total = sum(
        float(number) * _UNITS[unit] for number, unit, *_ in _PART.findall(text)
    )
    return -total if text.startswith("-") else total


def from_json(value: object) -> float:
    """
    Read a duration as Consul's JSON has it: a number of nanoseconds in older
    versions, a text in newer ones, nothing for zero.

    :raises ValueError: when it is none of these.
    """
    if value is None or value == "":
        return 0.0
    if isinstance(value, str):
        return from_go(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1e9
    raise ValueError(f"{value!r} is not a duration")
