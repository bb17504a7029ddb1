"""
Tests of structlog in front of Twisted's log, and of what a line looks like.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import structlog
from twisted.logger import (
    ILogObserver,
    Logger,
    LogLevel,
    capturedLogs,
    formatEvent,
    globalLogPublisher,
)
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord import _logging
from voltha_coord._log_format import LogEvent, console_line, json_line, shown


class _Terminal(StringIO):
    """
    A stream that says it is a terminal.
    """

    def isatty(self) -> bool:
        """
        Say so.
        """
        return True


class LoggingTestCase(SynchronousTestCase):
    """
    Leaves structlog as it was.
    """

    def setUp(self) -> None:
        """
        Begin with structlog as a fresh process has it.
        """
        if structlog.is_configured():
            self.addCleanup(structlog.configure, **structlog.get_config())
        else:
            self.addCleanup(structlog.reset_defaults)
        structlog.reset_defaults()

    @contextmanager
    def written(
        self, format: str, level: str = "info", stream: StringIO | None = None
    ) -> Iterator[StringIO]:
        """
        Log as twistd would, to memory.
        """
        stream = StringIO() if stream is None else stream
        self.output = _logging.configure(format, level, stream)
        globalLogPublisher.addObserver(self.output.observer)
        try:
            yield stream
        finally:
            globalLogPublisher.removeObserver(self.output.observer)


class TwistedLoggerTests(LoggingTestCase):
    """
    Tests of events on their way into Twisted's log.
    """

    def test_connect(self) -> None:
        """
        In an application that knows nothing of structlog, events go to
        Twisted's log: fields are keys, the module is the namespace.
        """
        _logging.connect()

        with capturedLogs() as events:
            structlog.get_logger("voltha_coord.x").bind(session="s").warning(
                "lock-busy", attempt=3
            )

        (event,) = events
        self.assertEqual(event["log_namespace"], "voltha_coord.x")
        self.assertEqual(event["log_level"], LogLevel.warn)
        self.assertEqual((event["session"], event["attempt"]), ("s", 3))
        self.assertEqual(formatEvent(event), "lock-busy session=s attempt=3")

    def test_connect_leaves_a_configuration_alone(self) -> None:
        """
        An application's own structlog configuration stands.
        """
        seen: list[Any] = []

        def keep(logger: Any, method: str, event: Any) -> str:
            seen.append(event)
            return ""

        structlog.configure([keep], logger_factory=structlog.ReturnLoggerFactory())

        _logging.connect()
        structlog.get_logger("voltha_coord.x").info("hello")

        self.assertEqual(seen, [{"event": "hello"}])

    def test_braces(self) -> None:
        """
        Braces in an event or a field are text, not a format.
        """
        _logging.connect()

        with capturedLogs() as events:
            structlog.get_logger("x").info("odd-{key}", value={"a": 1})

        self.assertEqual(formatEvent(events[0]), "odd-{key} value=\"{'a': 1}\"")

    def test_failures_can_be_flushed(self) -> None:
        """
        Whatever form ``exc_info`` has, trial sees the failure.
        """
        _logging.connect()
        log = structlog.get_logger("x")

        try:
            raise ZeroDivisionError("1")
        except ZeroDivisionError as error:
            log.error("true", exc_info=True)
            log.exception("in-except")
            log.error("error", exc_info=error)
            failure = Failure(error)
        log.error("tuple", exc_info=(failure.type, failure.value, failure.tb))
        log.critical("failure", exc_info=failure)
        log.error("nothing", exc_info=None)

        flushed = self.flushLoggedErrors(ZeroDivisionError)
        self.assertEqual([str(f.value) for f in flushed], ["1"] * 5)

    def test_names_twisted_uses(self) -> None:
        """
        Fields with names that mean something to Twisted's log arrive all the
        same.
        """
        _logging.connect()

        with capturedLogs() as events:
            structlog.get_logger("x").info(
                "e", level=1, format="{f}", failure=2, log_level=3
            )

        self.assertEqual(events[0]["log_level"], LogLevel.info)
        self.assertEqual(events[0]["log_level_"], 3)
        self.assertEqual(
            events[0]["structlog"],
            {
                "event": "e",
                "level": 1,
                "format": "{f}",
                "failure": 2,
                "log_level": 3,
            },
        )


class LogOutputTests(LoggingTestCase):
    """
    Tests of the log twistd writes.
    """

    def test_observer(self) -> None:
        """
        What is offered to twistd is an observer.
        """
        output = _logging.configure("json", "info", StringIO())

        self.assertTrue(ILogObserver.providedBy(output.observer))

    def test_console(self) -> None:
        """
        A line for people has time, level, event and fields.
        """
        with self.written("console") as stream:
            structlog.get_logger("voltha_coord.x").info("became-leader", term=4)

        self.assertRegex(
            stream.getvalue(),
            r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info     "
            r"became-leader term=4\n$",
        )

    def test_json(self) -> None:
        """
        A JSON line has stable names, then the fields.
        """
        with self.written("json") as stream:
            structlog.get_logger("voltha_coord.x").warning("lost", index=4, level=9)

        record = json.loads(stream.getvalue())
        self.assertEqual(
            list(record), ["time", "level", "event", "logger", "index", "level_"]
        )
        self.assertEqual(record["level"], "warning")
        self.assertEqual(record["event"], "lost")
        self.assertEqual(record["logger"], "voltha_coord.x")
        self.assertEqual((record["index"], record["level_"]), (4, 9))

    def test_level(self) -> None:
        """
        Events below the level are left out, and the level may change.
        """
        with self.written("console", "warning") as stream:
            log = structlog.get_logger("x")
            log.info("one")
            log.warning("two")
            self.output.level = "debug"
            log.debug("three")
            self.output.level = "critical"
            log.error("four")

        events = [line.split()[2] for line in stream.getvalue().splitlines()]
        self.assertEqual(events, ["two", "three"])

    def test_unwanted_events_cost_nothing(self) -> None:
        """
        Our own events below the level do not even reach Twisted's log.
        """
        with self.written("console", "warning"), capturedLogs() as events:
            structlog.get_logger("x").info("one")
            structlog.get_logger("x").warning("two")

        self.assertEqual([e["structlog"]["event"] for e in events], ["two"])

    def test_loggers_that_exist_already(self) -> None:
        """
        Loggers made, and bound to a context, at import log as configured later.
        """
        early = structlog.get_logger("voltha_coord.early")

        with self.written("json") as stream:
            early.bind(a=1).info("late")

        self.assertEqual(json.loads(stream.getvalue())["logger"], "voltha_coord.early")

    def test_twisted_chatter(self) -> None:
        """
        What Twisted tells of its ports is left out, unless debugging; its
        warnings, and what an application says, are not.
        """
        twisted, application = Logger("twisted.internet.tcp"), Logger("shop.orders")
        with self.written("console") as stream:
            twisted.info("starting")
            twisted.warn("careful {what}", what="now")
            application.info("sold")
            application.info("Starting factory {factory!r}", factory=self)
            self.output.level = "debug"
            twisted.info("stopping")

        said = [line.split(None, 2)[2] for line in stream.getvalue().splitlines()]
        self.assertEqual(said, ["careful now", "sold", "stopping"])

    def test_traceback(self) -> None:
        """
        A traceback follows its event, indented; in JSON it is a field.
        """
        for format in ("console", "json"):
            with self.written(format) as stream:
                structlog.get_logger("x").error("bad", exc_info=ValueError("why"))
            self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

            if format == "json":
                self.assertIn("why", json.loads(stream.getvalue())["exception"])
            else:
                first, *rest = stream.getvalue().splitlines()
                self.assertTrue(first.endswith("bad"), first)
                self.assertTrue(rest and all(line[:4] == "    " for line in rest))

    def test_colour(self) -> None:
        """
        A terminal shows the level in colour; JSON never has any.
        """
        with self.written("console", stream=_Terminal()) as stream:
            structlog.get_logger("x").error("bad")
        self.assertIn("\x1b[31merror", stream.getvalue())

        with self.written("json", stream=_Terminal()) as stream:
            structlog.get_logger("x").error("bad")
        self.assertNotIn("\\u001b", stream.getvalue())


class FormatTests(SynchronousTestCase):
    """
    Tests of one line.
    """

    def event(self, event: str = "e", **fields: object) -> LogEvent:
        """
        Make an event.
        """
        return LogEvent("1970-01-01T00:00:00.000Z", "info", event, "x", fields)

    def test_shown(self) -> None:
        """
        Values are quoted where their end could be mistaken.
        """
        for value, text in [
            ("plain-1", "plain-1"),
            (0.25, "0.25"),
            ("two words", '"two words"'),
            ("a=b", '"a=b"'),
            ("", '""'),
            ("line\nlevel=error", '"line\\nlevel=error"'),
            ("\x1b[2J", '"\\u001b[2J"'),
            ("\u202e", '"\\u202e"'),
            (b"\xffraw", '"\\\\xffraw"'),
            ("Größe", "Größe"),
            (None, "None"),
        ]:
            self.assertEqual(shown(value), text)

    def test_a_line_stays_a_line(self) -> None:
        """
        Nothing in an event or its fields can begin a line of its own.
        """
        line = console_line(self.event("a\nb", key="c\nd\re"))

        self.assertEqual(
            line,
            '1970-01-01T00:00:00.000Z info     a\n    b key="c\\nd\\re"',
        )
        self.assertNotIn("\n", json_line(self.event("a\nb", key="c\nd")))

    def test_value_that_cannot_be_shown(self) -> None:
        """
        A value whose own words fail costs neither kind of line.
        """

        class Mute:
            def __str__(self) -> str:
                raise RuntimeError("no words")

        self.assertIn("Mute", console_line(self.event(key=Mute())))
        self.assertIn("Mute", json.loads(json_line(self.event(key=Mute())))["key"])

    def test_values_json_has_no_word_for(self) -> None:
        """
        Bytes, sets, infinities, odd keys and endless values make JSON all the
        same.
        """
        endless: list[object] = []
        endless.append(endless)

        def record(value: object) -> Any:
            return json.loads(json_line(self.event(key=value)))["key"]

        self.assertEqual(record(b"a\xff"), "a\\xff")
        self.assertEqual(record({"b", "a"}), ["a", "b"])
        self.assertEqual(record(float("inf")), "inf")
        self.assertEqual(record({(1, 2): 3}), "{(1, 2): 3}")
        self.assertEqual(record(endless), "[[...]]")
