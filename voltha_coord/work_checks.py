"""
What can be wrong with a work item before it is written.  Pure.

Members and leaders take whatever stands under ``work/``: what they cannot read
counts as not said.  Whoever writes an item is told of it here, by the name of
each field, while there is somebody to be told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from attrs import frozen

from ._json import MAX_DEPTH, in_short
from .errors import CommandError
from .planning import observe
from .planning.limits import read_limits
from .records import MAX_WEIGHT, START, STOP
from .runners.command import Command

#: The largest value that Consul takes, in bytes.
MOST_BYTES = 512 * 1024

#: The largest item that the resource leader places.
MOST_PLACED = observe.MOST_BYTES

#: The fields of a work item, and those of its limits, that mean something.
FIELDS = ("order", "limits", "reference", "config", "metadata", "force", "weight")
LIMITS = ("cpu", "memory", "gpu")
GPU_LIMITS = ("memory", "usage", "encoder", "decoder")

#: The largest whole number that is written has so many bits.
_MOST_BITS = 64

#: What the limits have to name, if there are any.
_NEEDED = ("cpu", "memory")


@frozen
class Checked:
    """
    What was found of one item.

    :ivar problems: what keeps it from being written, each with its field.
    :ivar warnings: what is most likely not meant.
    """

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_item(values: object) -> Checked:
    """
    Look at what is to be a work item.
    """
    if not isinstance(values, Mapping):
        return Checked((f"{kind(values)}, not an object of fields",))
    unwritable = _unwritable(values)
    if unwritable:
        return Checked((unwritable,))
    problems: list[str] = []
    warnings = _unknown(values, FIELDS, "")
    order = values.get("order")
    if order is not None and order not in (START, STOP):
        problems.append(f"order: {in_short(order)} is neither {START} nor {STOP}")
    _limits(values.get("limits"), problems, warnings)
    warnings += _command(values)
    _a(values, "reference", str, "a text", problems)
    _a(values, "metadata", Mapping, "an object", problems)
    _a(values, "force", bool, "true or false", problems)
    weight = values.get("weight")
    if weight is not None and not (_number(weight) and 0 <= weight <= MAX_WEIGHT):
        problems.append(
            f"weight: {in_short(weight)} is not a number from 0 to {MAX_WEIGHT}"
        )
    size = 0 if problems else len(encode(values))
    if size > MOST_BYTES:
        largest = max(values, key=lambda name: len(json.dumps(values[name])))
        problems.append(f"{largest}: {too_large(size)}")
    elif size > MOST_PLACED:
        warnings.append(
            f"the item is {size} bytes, and the resource leader places none of more "
            f"than {MOST_PLACED}"
        )
    return Checked(tuple(problems), tuple(warnings))


def encode(values: Mapping[str, Any]) -> bytes:
    """
    Give the value of an item's key, its fields in the order they have.
    """
    return json.dumps(values, separators=(",", ":"), allow_nan=False).encode("ascii")


def too_large(size: int) -> str:
    """
    Say that a value of so many bytes is too large; empty when it is not.
    """
    if size <= MOST_BYTES:
        return ""
    return f"the item is {size} bytes, and Consul takes {MOST_BYTES} at most"


def kind(value: object) -> str:
    """
    Say what a value is, in the words of JSON.
    """
    if isinstance(value, Mapping):
        return "an object"
    if value is None:
        return "null"
    kinds = {list: "a list", tuple: "a list", str: "a text", bool: "a truth value"}
    if _number(value):
        return "a number"
    return kinds.get(type(value), f"a {type(value).__name__}")


def nearest(name: str, names: tuple[str, ...]) -> str:
    """
    Give the words that name the nearest of some names; empty when none is near.
    """
    near = get_close_matches(name, names, 1)
    return f"; is {near[0]} meant?" if near else ""


def _unknown(
    values: Mapping[str, Any], known: tuple[str, ...], place: str
) -> list[str]:
    return [
        f"{place}{_plain(name)}: no field that is known{nearest(name, known)}"
        for name in values
        if name not in known
    ]


def _command(values: Mapping[str, Any]) -> list[str]:
    """
    Say what the runner of commands would refuse, and what the resource leader
    needs, of an item that looks like a command.
    """
    config = values.get("config")
    if not isinstance(config, Mapping) or "command" not in config:
        return []
    warnings = []
    try:
        Command.from_config(config)
    except CommandError as error:
        warnings.append(f"the worker process will refuse it: {error}")
    if not values.get("limits"):
        warnings.append("the resource leader rejects it without --cpu and --memory")
    return warnings


def _limits(limits: object, problems: list[str], warnings: list[str]) -> None:
    if limits is None:
        return
    if not isinstance(limits, Mapping):
        problems.append(f"limits: {kind(limits)}, not an object")
        return
    _, wrong = read_limits(limits)
    if wrong:
        problems.append(wrong)
    warnings += _unknown(limits, LIMITS, "limits.")
    gpu = limits.get("gpu")
    if isinstance(gpu, Mapping):
        warnings += _unknown(gpu, GPU_LIMITS, "limits.gpu.")
    for name in _NEEDED if limits else ():
        if limits.get(name, 0) == 0:
            said = "is 0" if name in limits else "is missing"
            warnings.append(
                f"limits.{name}: {said}, and the resource leader does not place it so"
            )


def _a(
    values: Mapping[str, Any],
    name: str,
    wanted: type,
    words: str,
    problems: list[str],
) -> None:
    value = values.get(name)
    if value is not None and not isinstance(value, wanted):
        problems.append(f"{name}: {in_short(value)} is {kind(value)}, not {words}")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(name: str) -> str:
    return name if name.isprintable() and len(name) <= 40 else in_short(name)


def _unwritable(values: Mapping[Any, Any]) -> str:
    """
    Say what of it JSON cannot hold, and where; empty when it can hold all.

    What YAML makes of anchors may hold itself, or be larger than any file.
    """
    # A value takes a byte at least, so that nothing larger can be written.
    left = MOST_BYTES
    level: list[tuple[str, Any]] = [("", values)]
    for _ in range(MAX_DEPTH + 1):
        below: list[tuple[str, Any]] = []
        for place, value in level:
            wrong = _no_json(value)
            if wrong:
                return f"{place.removeprefix('.') or 'the item'}: {wrong}"
            if isinstance(value, Mapping):
                for name, inner in value.items():
                    if not isinstance(name, str):
                        where = place.removeprefix(".") or "the item"
                        return f"{where}: the name {in_short(name)} is not a text"
                    below.append((f"{place}.{_plain(name)}", inner))
            elif isinstance(value, list | tuple):
                below += [(f"{place}[{n}]", inner) for n, inner in enumerate(value)]
            if len(below) > left:
                where = place.removeprefix(".") or "the item"
                return f"{where}: more values than Consul takes bytes, {MOST_BYTES}"
        left -= len(below)
        if not below:
            return ""
        level = below
    where = min((place for place, _ in level), key=len)
    field = where.removeprefix(".").split(".")[0].split("[")[0]
    return f"{field}: nested more than {MAX_DEPTH} deep, or holds itself"


def _no_json(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is no number that JSON has"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a whole number that is too large"
    if value is None or isinstance(value, str | bool | int | float | Mapping | list):
        return ""
    if isinstance(value, tuple):
        return ""
    return f"{in_short(value)} is {kind(value)}, which JSON does not have"
