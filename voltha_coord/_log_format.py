"""
What one event looks like in the log: for people, and as JSON.

Pure.  A line for people reads ``time level event key=value …``, and a traceback
follows indented.  A JSON line is one object; ``time``, ``level``, ``event`` and
``logger`` are in every one, ``exception`` where there was one, the rest are the
event's fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import frozen
from twisted.logger import LogLevel, formatEvent

#: Every JSON line has these, whatever fields the event brings.
_STABLE = ("time", "level", "event", "logger", "exception")

_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+")

_COLOURS = {
    "debug": "2",
    "info": "32",
    "warning": "33",
    "error": "31",
    "critical": "1;31",
}


@frozen
class LogEvent:
    """
    One event, taken out of Twisted's dictionary.

    :ivar time: in UTC, ISO 8601 with milliseconds.
    :ivar level: by structlog's name.
    :ivar event: its constant name, or what another package wants to say.
    :ivar logger: the module it comes from.
    :ivar exception: a traceback, empty without one.
    :ivar colour: whether a terminal shows it.
    """

    time: str
    level: str
    event: str
    logger: str
    fields: Mapping[str, Any]
    exception: str = ""
    colour: bool = False

    @classmethod
    def of(cls, event: Mapping[str, Any], colour: bool = False) -> LogEvent:
        """
        Read one of Twisted's events, ours or another package's.
        """
        ours = event.get("structlog")
        level = event.get("log_level") or LogLevel.info
        failure = event.get("log_failure")
        fields = dict(ours) if ours else {}
        return cls(
            time=datetime.fromtimestamp(event.get("log_time", 0.0), UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            level="warning" if level is LogLevel.warn else level.name,
            event=str(fields.pop("event", "")) or formatEvent(dict(event)),
            logger=str(event.get("log_namespace", "")),
            fields=fields,
            exception=failure.getTraceback().rstrip() if failure is not None else "",
            colour=colour,
        )


def shown(value: object) -> str:
    """
    Give a value as it stands behind ``key=``: quoted where its end, or a line's
    end, could be mistaken.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    text = value if isinstance(value, str) else _as_text(value)
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _as_text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        # A value that cannot say what it is must not cost the line.
        return f"<{type(value).__name__}: {error!r}>"


def console_text(event: str, fields: Mapping[str, Any]) -> str:
    """
    Give event and fields in one line.
    """
    return " ".join(
        [event, *(f"{key}={shown(value)}" for key, value in fields.items())]
    )


def console_line(event: LogEvent) -> str:
    """
    Give the event as people read it.
    """
    level = f"{event.level:8}"
    if event.colour:
        level = f"\x1b[{_COLOURS[event.level]}m{level}\x1b[0m"
    said = event.event.replace("\n", "\n    ")
    lines = [f"{event.time} {level} {console_text(said, event.fields)}"]
    lines += [f"    {line}" for line in event.exception.splitlines()]
    return "\n".join(lines)


def json_line(event: LogEvent) -> str:
    """
    Give the event as one JSON object.
    """
    record: dict[str, Any] = {
        "time": event.time,
        "level": event.level,
        "event": event.event,
        "logger": event.logger,
    }
    for key, value in event.fields.items():
        record[f"{key}_" if key in _STABLE else key] = value
    if event.exception:
        record["exception"] = event.exception
    try:
        return _dumped(record)
    except _UNSPEAKABLE:
        return _dumped({key: _speakable(value) for key, value in record.items()})


#: Keys that are no text, numbers that are none, values that hold themselves.
_UNSPEAKABLE = (TypeError, ValueError, RecursionError)


def _dumped(value: Any) -> str:
    return json.dumps(value, default=_as_json, allow_nan=False)


def _speakable(value: Any) -> Any:
    """
    Give what JSON has no word for as a text.
    """
    try:
        _dumped(value)
    except _UNSPEAKABLE:
        return _as_text(value)
    return value


def _as_json(value: object) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return _as_text(value)
