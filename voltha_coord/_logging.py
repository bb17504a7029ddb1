"""
structlog in front of Twisted's log, and what twistd's log looks like.

Modules of this package say ``log = structlog.get_logger(__name__)`` and log a
constant event name with fields.  From there:

- inside an application that has configured structlog, events go where that
  application wants them; this package leaves its configuration alone;
- in any other Twisted application :func:`connect` sends them to Twisted's log
  (``twisted.logger``): the fields are keys of the Twisted event, and an
  ``exc_info`` becomes the event's failure, so that whatever watches for
  failures (trial, an error tracker) sees it;
- under twistd :func:`configure` does the same and also makes the observer that
  writes the log, one event a line, for people or as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    ILogFilterPredicate,
    ILogObserver,
    Logger,
    LogLevel,
    PredicateResult,
)
from twisted.logger import LogEvent as LogEventDict
from twisted.python.failure import Failure
from zope.interface import implementer

from ._log_format import LogEvent, console_line, console_text, json_line


class Written(Protocol):
    """
    Where a log is written: a text stream, or Twisted's LogFile.
    """

    def write(self, text: str, /) -> object:
        """
        Write some of it.
        """

    def flush(self) -> object:
        """
        Hand over what was written.
        """


#: By structlog's name, from the least to the most severe.
LEVELS = {
    "debug": LogLevel.debug,
    "info": LogLevel.info,
    "warning": LogLevel.warn,
    "error": LogLevel.error,
    "critical": LogLevel.critical,
}

#: What ``--log-format`` knows.
FORMATS: dict[str, Callable[[LogEvent], str]] = {
    "console": console_line,
    "json": json_line,
}

#: Names that mean something else to ``twisted.logger``.
_TAKEN = frozenset({"level", "format", "failure", "structlog"})


class TwistedLogger:
    """
    What structlog's loggers wrap: one of Twisted's, with structlog's methods.
    """

    def __init__(self, namespace: str = "voltha_coord") -> None:
        self._logger = Logger(namespace=namespace)

    def _emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        failure = _failure(fields.pop("exc_info", None))
        # Twisted takes the text for a format.
        text = console_text(event, fields).replace("{", "{{").replace("}", "}}")
        keys = {
            f"{key}_" if key in _TAKEN or key.startswith("log_") else key: value
            for key, value in fields.items()
        }
        # The fields once more by themselves: observers of the old kind add keys
        # to the event.
        keys["structlog"] = {"event": event, **fields}
        if failure is None:
            self._logger.emit(LEVELS[level], text, **keys)
        else:
            self._logger.failure(text, failure, LEVELS[level], **keys)

    def debug(self, event: str, **fields: Any) -> None:
        """
        Log what only a developer wants to see.
        """
        self._emit("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """
        Log what happens in good order.
        """
        self._emit("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """
        Log what an operator may want to look at.
        """
        self._emit("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """
        Log what does not work.
        """
        self._emit("error", event, fields)

    def critical(self, event: str, **fields: Any) -> None:
        """
        Log what needs somebody at once.
        """
        self._emit("critical", event, fields)


def _failure(exc_info: Any) -> Failure | None:
    """
    Give the failure that structlog's ``exc_info`` stands for.
    """
    if not exc_info:
        return None
    if isinstance(exc_info, Failure):
        return exc_info
    if isinstance(exc_info, BaseException):
        return Failure(exc_info, type(exc_info), exc_info.__traceback__)
    if not isinstance(exc_info, tuple):
        exc_info = sys.exc_info()
    kind, value, traceback = exc_info
    return None if value is None else Failure(value, kind, traceback)


def _call_twisted(
    logger: WrappedLogger, method: str, event_dict: EventDict
) -> tuple[tuple[str], EventDict]:
    return (str(event_dict.pop("event")),), event_dict


def _wire(*first: Processor) -> None:
    structlog.configure(
        processors=[*first, structlog.contextvars.merge_contextvars, _call_twisted],
        logger_factory=lambda *name: TwistedLogger(*name[:1]),
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
        cache_logger_on_first_use=False,
    )


def connect() -> None:
    """
    Send structlog's events to Twisted's log, unless the application has
    configured structlog itself.
    """
    if not structlog.is_configured():
        _wire()


class LogOutput:
    """
    The log of a twistd process.

    :param format: a key of :data:`FORMATS`.
    :param level: a key of :data:`LEVELS`; events below it are left out.
    :param stream: where the lines go.
    :ivar observer: what twistd is to send its events to.
    """

    def __init__(self, format: str, level: str, stream: Written) -> None:
        self.level = level
        # A LogFile does not even know the question.
        isatty = getattr(stream, "isatty", bool)
        colour = format == "console" and isatty()
        render = FORMATS[format]
        self.observer: ILogObserver = FilteringLogObserver(
            FileLogObserver(
                cast(TextIO, stream),
                lambda event: render(LogEvent.of(event, colour)) + "\n",
            ),
            [_Wanted(self)],
        )

    @property
    def level(self) -> str:
        """
        The least severe level that is written; may be changed at any time.
        """
        return self._level

    @level.setter
    def level(self, level: str) -> None:
        self._least = LEVELS[level]
        self._level = level

    def drop_unwanted(
        self, logger: WrappedLogger, method: str, event_dict: EventDict
    ) -> EventDict:
        """
        Leave out our own events below the level before they cost anything.
        """
        if LEVELS[method] < self._least:
            raise structlog.DropEvent
        return event_dict

    def wants(self, event: LogEventDict) -> bool:
        """
        Whether an event is to be written.
        """
        least = self._least
        if "structlog" not in event and least is LogLevel.info and is_chatter(event):
            least = LogLevel.warn
        return bool(event.get("log_level", LogLevel.info) >= least)


@implementer(ILogFilterPredicate)
class _Wanted:
    """
    What the output wants, as Twisted asks for it.
    """

    def __init__(self, output: LogOutput) -> None:
        self._output = output

    def __call__(self, event: LogEventDict) -> Any:
        if self._output.wants(event):
            return PredicateResult.maybe
        return PredicateResult.no


def is_chatter(event: LogEventDict) -> bool:
    """
    Whether it is Twisted that tells of its factories, ports and start-up:
    of interest to whoever asks for the level ``debug``.
    """
    # A factory tells of its start in its own module's name.
    return "factory" in event or str(event.get("log_namespace", "")).startswith(
        ("twisted.", "log_legacy")
    )


def configure(format: str, level: str, stream: Written) -> LogOutput:
    """
    Make this process log through Twisted; the observer is for twistd to use.

    Only ``tap.makeService`` calls it: a process's log is its main program's.
    """
    output = LogOutput(format, level, stream)
    _wire(output.drop_unwanted)
    return output
