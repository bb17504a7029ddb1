"""
Tests for :mod:`voltha_coord.runners.allowed`: which commands may be run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import CommandError, CommandNotAllowed
from voltha_coord.runners.allowed import check_allowed, find_program


class FindProgramTests(SynchronousTestCase):
    """
    A program is looked up as it is when it is run.
    """

    def setUp(self) -> None:
        """
        Have two directories, with a program in each.
        """
        self.root = os.path.abspath(self.mktemp())
        for name in ("one/tool", "two/tool", "two/other"):
            path = os.path.join(self.root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write("#!/bin/sh\n")
            os.chmod(path, 0o755)
        self.environment = {"PATH": f"{self.root}/one:{self.root}/two"}

    def find(self, name: str, directory: str = "/") -> str:
        """
        Look one up.

        :return: where it is, from the directory of this test.
        """
        found = find_program(name, self.environment, directory)
        return os.path.relpath(found, self.root)

    def refused(self, name: str) -> str:
        """
        Look up one that is not there.

        :return: why.
        """
        return str(self.assertRaises(CommandError, self.find, name))

    def test_path(self) -> None:
        """
        A name is looked up in ``PATH``, in its order.
        """
        self.assertEqual(self.find("tool"), "one/tool")
        self.assertEqual(self.find("other"), "two/other")

    def test_absolute(self) -> None:
        """
        An absolute path is taken, and straightened.
        """
        self.assertEqual(self.find(f"{self.root}/two/tool"), "two/tool")
        self.assertEqual(self.find(f"{self.root}/one/../two/./tool"), "two/tool")

    def test_relative(self) -> None:
        """
        A relative path is one from the directory it is run in.
        """
        self.assertEqual(self.find("./tool", f"{self.root}/two"), "two/tool")
        self.assertEqual(self.find("../two/tool", f"{self.root}/one"), "two/tool")

    def test_link(self) -> None:
        """
        A link is not followed: its own name counts.
        """
        os.symlink(f"{self.root}/two/tool", f"{self.root}/one/link")

        self.assertEqual(self.find("link"), "one/link")

    def test_not_executable(self) -> None:
        """
        What cannot be executed is passed over in ``PATH``, and refused by path.
        """
        with open(f"{self.root}/one/other", "w"):
            pass

        self.assertEqual(self.find("other"), "two/other")
        self.assertIn("cannot be executed", self.refused(f"{self.root}/one/other"))

    def test_missing(self) -> None:
        """
        One that is not there is named, with where it was looked for.
        """
        self.assertIn(f"'nope' in {self.root}/one", self.refused("nope"))
        self.assertIn("no such file", self.refused("/nope/nope"))
        self.assertIn("it is no file", self.refused(f"{self.root}/one"))

    def test_empty_place(self) -> None:
        """
        An empty place in ``PATH`` is not the directory somebody happens to be in.
        """
        self.environment["PATH"] = f":{self.root}/one:"
        self.assertIn("nope", self.refused("nope"))


class CheckAllowedTests(SynchronousTestCase):
    """
    Nothing is run that no pattern matches.
    """

    def allowed(self, command: Sequence[str], *patterns: str) -> bool:
        """
        Ask whether a command may be run.
        """
        try:
            check_allowed(command[0], command, patterns)
        except CommandNotAllowed as error:
            self.assertIn(command[0], str(error))
            self.assertIn("--allow-command", str(error))
            return False
        return True

    def test_none(self) -> None:
        """
        Without a pattern nothing is allowed.
        """
        self.assertFalse(self.allowed(["/bin/true"]))

    def test_program(self) -> None:
        """
        A pattern without a blank is matched against the path alone.
        """
        self.assertTrue(self.allowed(["/bin/sleep", "1"], "/bin/sleep"))
        self.assertTrue(self.allowed(["/bin/sleep", "1"], "/usr/*", "/bin/*"))
        self.assertTrue(self.allowed(["/opt/a/b/c"], "/opt/*"))
        self.assertFalse(self.allowed(["/bin/sleep2"], "/bin/sleep"))
        self.assertFalse(self.allowed(["/bin/sleep"], "sleep"))
        self.assertFalse(self.allowed(["/bin/SLEEP"], "/bin/sleep"))
        self.assertFalse(self.allowed(["/tmp/x"], "/bin/*", "/usr/bin/?", "/[a-s]*"))

    def test_whole(self) -> None:
        """
        A pattern with blanks is matched against path and arguments.
        """
        self.assertTrue(self.allowed(["/bin/ls", "-l", "/srv"], "/bin/ls -l *"))
        self.assertFalse(self.allowed(["/bin/ls", "-a", "/srv"], "/bin/ls -l *"))
        self.assertFalse(self.allowed(["/bin/ls"], "/bin/ls -l *"))

    def test_quoted(self) -> None:
        """
        An argument with a blank is not taken for two.
        """
        self.assertFalse(self.allowed(["/bin/ls", "-l /srv"], "/bin/ls -l *"))
        self.assertTrue(self.allowed(["/bin/ls", "-l x"], "/bin/ls '-l x'"))
        self.assertFalse(self.allowed(["/bin/ls -l x"], "/bin/ls -l *"))

    def test_lines(self) -> None:
        """
        An argument of several lines is matched like any other.
        """
        self.assertTrue(self.allowed(["/bin/sh", "-c", "a\nb"], "/bin/sh -c *"))
        self.assertFalse(self.allowed(["/bin/x\n/bin/sh"], "/bin/sh"))
