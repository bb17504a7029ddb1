"""
Tests for :mod:`voltha_coord.runners.command`: the config of a command.
"""

from __future__ import annotations

import math
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import CommandError
from voltha_coord.runners.command import (
    MOST_BYTES_OF_ONE,
    RECONNECT_DELAY,
    Command,
)


class CommandTests(SynchronousTestCase):
    """
    A config is read whole, or refused.
    """

    def refused(self, config: Any) -> str:
        """
        Have a config refused.

        :return: why.
        """
        return str(self.assertRaises(CommandError, Command.from_config, config))

    def test_defaults(self) -> None:
        """
        A command is all that has to be said.
        """
        command = Command.from_config({"command": ["sleep", "1"]})

        self.assertEqual(command.arguments, ("sleep", "1"))
        self.assertEqual(command.environment, {})
        self.assertEqual(command.directory, "")
        self.assertIs(command.reconnect, True)
        self.assertEqual(command.reconnect_delay, RECONNECT_DELAY)
        self.assertEqual(command.stale_timeout, 0.0)

    def test_everything(self) -> None:
        """
        All settings are heeded.
        """
        command = Command.from_config(
            {
                "command": ["a"],
                "environment": {"A": "1=2", "B": ""},
                "directory": "/srv",
                "reconnect": False,
                "reconnect_delay": 0,
                "stale_timeout": 2,
            }
        )

        self.assertEqual(
            command, Command(("a",), {"A": "1=2", "B": ""}, "/srv", False, 0.0, 2.0)
        )

    def test_process(self) -> None:
        """
        Command, environment and directory make another process; nothing else
        does.
        """
        plain = Command(("a",))

        self.assertEqual(plain.process, Command(("a",), reconnect=False).process)
        self.assertEqual(plain.process, Command(("a",), stale_timeout=9).process)
        self.assertNotEqual(plain.process, Command(("a", "b")).process)
        self.assertNotEqual(plain.process, Command(("a",), {"A": "1"}).process)
        self.assertNotEqual(plain.process, Command(("a",), {}, "/srv").process)

    def test_no_object(self) -> None:
        """
        What is no object has no command.
        """
        bad: list[Any] = [None, [], "sleep 1", 3, True]
        for config in bad:
            self.assertIn("config", self.refused(config))

    def test_unknown(self) -> None:
        """
        A misspelt setting is an error that names it and the one that was meant.
        """
        why = self.refused({"command": ["a"], "enviroment": {}})

        self.assertIn("config.enviroment", why)
        self.assertIn("did you mean environment?", why)
        self.assertIn("there are command,", self.refused({"command": ["a"], "zz": 1}))
        self.assertIn("config.7", self.refused({"command": ["a"], 7: 1}))

    def test_commands(self) -> None:
        """
        A command is a list of texts, the first of which says something.
        """
        bad: list[Any] = [None, "sleep 1", [], {}, 3, [1], [["a"]], ["a", None]]
        bad += [["a", "b\0c"], ["a", "\ud800"], [""], [True]]
        for command in bad:
            why = self.refused({"command": command})
            self.assertIn("config.command", why)
        self.assertIn("number 1", self.refused({"command": ["a", 5]}))
        self.assertIn("config.command", self.refused({}))

    def test_environments(self) -> None:
        """
        Variables have names that can be names, and texts.
        """
        bad: list[Any] = [None, [], "A=1", {"": "x"}, {"A=B": "x"}, {"A\0": "x"}]
        bad += [{"A": 1}, {"A": None}, {"A": "x\0"}, {"A": "\udc80"}, {1: "x"}]
        for environment in bad:
            why = self.refused({"command": ["a"], "environment": environment})
            self.assertIn("config.environment", why)

    def test_loader(self) -> None:
        """
        Nobody loads code of his own into a program that is allowed.
        """
        for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_X", "GCONV_PATH"):
            why = self.refused({"command": ["a"], "environment": {name: "/x"}})
            self.assertIn(f"config.environment.{name}", why)

    def test_seconds(self) -> None:
        """
        A time is a finite number that is not negative, and not of years.
        """
        bad: list[Any] = [-1, math.nan, math.inf, -math.inf, "5", None, True, [], 1e9]
        for name in ("reconnect_delay", "stale_timeout"):
            for value in bad:
                why = self.refused({"command": ["a"], name: value})
                self.assertIn(f"config.{name}", why)

    def test_huge_number(self) -> None:
        """
        A number of a thousand digits is refused like any other that is too large.
        """
        why = self.refused({"command": ["a"], "stale_timeout": 10**1000})

        self.assertIn("config.stale_timeout", why)

    def test_others(self) -> None:
        """
        A directory is a text; to reconnect is true or false.
        """
        bad: list[Any] = [1, None, [], {}, "a\0"]
        for value in bad:
            self.assertIn(
                "config.directory", self.refused({"command": ["a"], "directory": value})
            )
        for value in (1, 0, "true", None, []):
            self.assertIn(
                "config.reconnect", self.refused({"command": ["a"], "reconnect": value})
            )

    def test_size(self) -> None:
        """
        More than a system takes is refused, and what it takes is not.
        """
        largest = "x" * MOST_BYTES_OF_ONE

        Command.from_config({"command": ["a", largest]})
        self.assertIn("bytes", self.refused({"command": ["a", largest + "x"]}))
        self.assertIn("bytes", self.refused({"command": ["a", *[largest] * 9]}))
        self.assertIn(
            "bytes", self.refused({"command": ["a"], "environment": {"A": largest}})
        )

    def test_nonsense(self) -> None:
        """
        What is nested without end, or contains itself, is refused and shown short.
        """
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        itself: list[Any] = []
        itself.append(itself)
        for value in (deep, itself, "x" * 10_000):
            why = self.refused({"command": ["a"], "reconnect": value})
            self.assertLess(len(why), 200)
