"""
JSON as it is read from keys that anyone may write, and written back.

Reading is strict where Python's own is lax (no ``NaN``, no numbers beyond a
float, UTF-8 only) and gives one typed error, :class:`RecordError`, for
everything that can be wrong with bytes.  Writing is canonical: equal values
give equal bytes, so that writing them again changes nothing in Consul.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from .errors import CoordinationError
from .keys import shown

#: No number that means anything here is larger: Raft indexes are 64-bit.
MOST = 2**64 - 1

#: Objects and lists may stand in one another so often.
MAX_DEPTH = 64


class RecordError(CoordinationError, ValueError):
    """
    The value of a key is not the record that belongs there.

    :ivar key: the key, as it may be logged.
    :ivar reason: what is wrong with its value.
    """

    def __init__(self, key: str, reason: str) -> None:
        self.key = shown(key)
        self.reason = reason
        super().__init__(f"{self.key}: {reason}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"number {text[:20]} is out of range")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def parse(key: str, raw: bytes) -> Any:
    """
    Give what the bytes mean.

    :raises RecordError: when they are not JSON in UTF-8, or are nested so
        deeply that writing them back could fail.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"), parse_float=_finite, parse_constant=_no_constant
        )
    except UnicodeDecodeError:
        raise RecordError(key, "the value is binary, not UTF-8") from None
    except RecursionError:
        raise RecordError(key, "the value is nested too deeply") from None
    except ValueError as error:
        raise RecordError(key, f"the value is not JSON ({error})") from None
    if raw.count(b"[") + raw.count(b"{") >= MAX_DEPTH and _too_deep(value):
        raise RecordError(key, "the value is nested too deeply")
    return value


def parse_object(key: str, raw: bytes) -> dict[str, Any]:
    """
    Give the JSON object the bytes hold.

    :raises RecordError: when they hold anything else.
    """
    value = parse(key, raw)
    if not isinstance(value, dict):
        raise RecordError(key, f"the value is {_kind(value)}, not a JSON object")
    return value


def dump(value: Any) -> bytes:
    """
    Give the one encoding of a JSON value.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode("ascii")


def present(**values: Any) -> dict[str, Any]:
    """
    Give the fields that say something: neither missing nor an empty object.
    """
    return {name: v for name, v in values.items() if v is not None and v != {}}


def in_short(value: object) -> str:
    """
    Show a value in an error text: the beginning of it, if it is long.
    """
    try:
        text = repr(value)
    except RecursionError:
        return "what is nested too deeply"
    return text if len(text) <= 40 else f"{text[:40]}…"


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Fields:
    """
    The fields of one JSON object, taken one by one; what is not taken is kept.

    A field that is null, or of the wrong type, counts as missing.  What was of the
    wrong type is collected in ``problems``; :meth:`refuse_problems` makes it an error.

    :param key: where the object was read, for error texts.
    :param values: the object.
    """

    def __init__(self, key: str, values: Mapping[str, Any]) -> None:
        self.key = key
        self.extra = dict(values)
        self.problems: list[str] = []

    def _take(
        self, name: str, default: Any, fits: Callable[[Any], bool], what: str
    ) -> Any:
        value = self.extra.pop(name, None)
        if value is None:
            return default
        if fits(value):
            return value
        self.problems.append(f"{name} is {_kind(value)}, which is not {what}")
        return default

    def text(self, name: str, default: str = "") -> str:
        """
        Take a text.
        """
        value: str = self._take(name, default, lambda v: isinstance(v, str), "a text")
        return value

    def optional_text(self, name: str) -> str | None:
        """
        Take a text that may be missing or null.
        """
        value: str | None = self._take(
            name, None, lambda v: isinstance(v, str), "a text"
        )
        return value

    def required_text(self, name: str) -> str:
        """
        Take a text that must be there and not empty.
        """
        known = len(self.problems)
        value = self.text(name)
        if not value and len(self.problems) == known:
            self.problems.append(f"{name} is missing")
        return value

    def truth(self, name: str, default: bool) -> bool:
        """
        Take true or false.
        """
        value: bool = self._take(
            name, default, lambda v: isinstance(v, bool), "true or false"
        )
        return value

    def whole(self, name: str) -> int:
        """
        Take a whole number of 0 or more.
        """
        return self._whole(name, 0, MOST) or 0

    def optional_port(self, name: str) -> int | None:
        """
        Take the number of a port that may be missing, null or 0.
        """
        return self._whole(name, None, 65535) or None

    def _whole(self, name: str, default: int | None, most: int) -> int | None:
        value: int | None = self._take(
            name,
            default,
            lambda v: _number(v) and isinstance(v, int) and 0 <= v <= most,
            f"a whole number from 0 to {most}",
        )
        return value

    def number(
        self, name: str, default: float | None, most: float = MOST
    ) -> float | None:
        """
        Take a number from 0 to ``most``.
        """
        value: float | None = self._take(
            name,
            default,
            lambda v: _number(v) and 0 <= v <= most,
            f"a number from 0 to {most}",
        )
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """
        Take an object.
        """
        value: dict[str, Any] = self._take(
            name, {}, lambda v: isinstance(v, dict), "an object"
        )
        return value

    @property
    def problem(self) -> str | None:
        """
        What was wrong with the fields taken so far, in one line.
        """
        return "; ".join(self.problems) or None

    def refuse_problems(self) -> None:
        """
        Go on only if nothing was wrong.

        :raises RecordError: naming every field that was.
        """
        if self.problems:
            raise RecordError(self.key, "; ".join(self.problems))
