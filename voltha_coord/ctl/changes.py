"""
What the flags of ``work add`` and ``work update`` say of an item.  Pure.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, evolve, field, frozen

from .._json import RecordError, parse, parse_object
from ..errors import CoordinationError
from ..records import START, STOP
from ..work_checks import encode, kind

#: So many bytes are one of a letter.
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def size(text: str) -> int:
    """
    Give the bytes that a text says: ``1048576``, ``512K``, ``200M``, ``1.5G``; a
    K is 1024.

    :raises ValueError: when it says none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size, such as 1048576, 512K, 200M or 2G")
    return round(float(found[1]) * _UNITS[found[2].upper()])


def words(text: str) -> list[str]:
    """
    Take a command line apart as a shell does; nothing in it is replaced.

    :raises ValueError: when it is empty, or a quote is left open.
    """
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from error
    if not found:
        raise ValueError("is empty")
    return found


def pair(text: str) -> tuple[str, str]:
    """
    Take a ``NAME=VALUE`` apart.

    :raises ValueError: when it is none.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


def json_pair(text: str) -> tuple[str, Any]:
    """
    Take a ``KEY=JSON`` apart.

    :raises ValueError: when it is none.
    """
    name, value = pair(text)
    try:
        return name, parse(name, value.encode("utf-8", "surrogateescape"))
    except RecordError as error:
        hint = f"; a text has quotes: '{name}={json.dumps(value)}'"
        raise ValueError(f"{name}: {error.reason}{hint}") from error


@frozen
class Changes:
    """
    What is to be said of an item; what is ``None``, or empty, stays as it is.

    :ivar cpu: in percent of one core.
    :ivar memory: in bytes.
    :ivar metadata: by key; those that are ``None`` are taken out.
    :ivar force: whether to ask for it to be started anew.
    """

    command: Sequence[str] = ()
    cpu: float | None = None
    memory: int | None = None
    reference: str | None = None
    order: str | None = None
    metadata: Mapping[str, Any] = field(factory=dict)
    environment: Mapping[str, str] = field(factory=dict)
    directory: str | None = None
    force: bool = False

    def __bool__(self) -> bool:
        return self != Changes()

    def apply(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """
        Give the fields of an item with these changes; all others stay, and keep
        their order.

        :raises ValueError: naming the field that is no object and would have to
            be one.
        """
        made = dict(values)
        config: dict[str, Any] = {}
        if self.command:
            config["command"] = list(self.command)
        if self.environment:
            config["environment"] = dict(self.environment)
        if self.directory is not None:
            config["directory"] = self.directory
        if config:
            inner = _object(made, "config")
            if self.environment:
                there = _object(inner, "environment", "config.")
                config["environment"] = {**there, **self.environment}
            made["config"] = {**inner, **config}
        limits = {
            name: value
            for name, value in (("cpu", self.cpu), ("memory", self.memory))
            if value is not None
        }
        if limits:
            made["limits"] = {**_object(made, "limits"), **limits}
        if self.metadata:
            metadata = {**_object(made, "metadata"), **self.metadata}
            made["metadata"] = {k: v for k, v in metadata.items() if v is not None}
        for name in ("reference", "order"):
            value = asdict(self, recurse=False)[name]
            if value is not None:
                made[name] = value
        if self.force:
            made["force"] = True
        return made


def _object(values: Mapping[str, Any], name: str, place: str = "") -> dict[str, Any]:
    value = values.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{place}{name} is {kind(value)}, not an object")
    return value


def changed(work_id: str, raw: bytes, changes: Changes) -> bytes:
    """
    Give the value of an item's key with some changes.  An empty value says
    nothing of the item, and is empty again when it is to say nothing.

    :raises CoordinationError: naming the item, and what its value is that cannot
        be changed in part.
    """
    if not changes:
        return raw
    if not raw:
        values: dict[str, Any] = {}
    else:
        try:
            values = parse_object(f"work/{work_id}", raw)
        except RecordError as error:
            raise CoordinationError(
                f"{error} (it begins {_excerpt(raw)}); work add --value or --file "
                "replaces it whole"
            ) from error
    if changes.order == START and values.get("order") is None:
        # It says so already.
        changes = evolve(changes, order=None)
    try:
        made = changes.apply(values)
    except ValueError as error:
        raise CoordinationError(f"work/{work_id}: {error}") from error
    if encode(made) == encode(values):
        return raw
    if changes.order == START and values == {"order": STOP}:
        # As work add without a value, and work stop, have made it.
        return b""
    return encode(made)


def _excerpt(raw: bytes) -> str:
    text = repr(raw[:24])[1:]
    return text if len(raw) <= 24 else f"{text}…"
