"""
Tests for the demo: what it counts and shows, and one whole run.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.ctl.reading import view

from .support.keyspace import (
    KEYS,
    assigned,
    leads,
    member,
    owned,
    reports,
    running,
    work,
)

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def imported(name: str) -> Any:
    """
    Import a module of the examples.
    """
    sys.path.insert(0, str(EXAMPLES))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(EXAMPLES))


demo_table = imported("demo_table")
demo = imported("demo")


class CountTests(SynchronousTestCase):
    """
    What the last line says.
    """

    def count(self, *entries: Entry) -> Any:
        """
        Count what these entries say.
        """
        return demo_table.count(view(KEYS, entries))

    def test_all(self) -> None:
        """
        With every item run by its owner the line is the one that is wanted.
        """
        names = demo_table.WORK
        entries = [
            *(member(name) for name in ("m1", "m2", "m3")),
            *leads("m2"),
            *running("m1", *names[:34]),
            *running("m2", *names[34:67]),
            *running("m3", *names[67:]),
        ]

        counts = self.count(*entries)

        self.assertEqual(str(counts), "leader=m2 members=3 work=100 owned=100")
        self.assertTrue(counts.complete)

    def test_owned(self) -> None:
        """
        An item counts as owned only with an owner record and that very
        member's report that it runs.
        """
        counts = self.count(
            member("m1"),
            member("m2"),
            *leads("m1"),
            *running("m1", "x"),
            *(work(name) for name in ("a", "b", "c")),
            *(assigned("m2", name) for name in ("a", "b", "c")),
            owned("m2", "b"),
            owned("m2", "c"),
            *reports("m2", a="running", c="failed"),
        )

        self.assertEqual(str(counts), "leader=m1 members=2 work=4 owned=1")
        self.assertFalse(counts.complete)

    def test_nothing(self) -> None:
        """
        Where there is nothing, nothing is claimed.
        """
        counts = self.count()

        self.assertEqual(str(counts), "leader=none members=0 work=0 owned=0")
        self.assertFalse(counts.complete)

    def test_a_killed_member(self) -> None:
        """
        The others have to run everything for the count to be complete; how
        many there are does not matter.
        """
        complete = demo_table.Counts("m1", 2, 100, 100).complete

        self.assertTrue(complete)
        self.assertFalse(demo_table.Counts("m1", 2, 100, 99).complete)
        self.assertFalse(demo_table.Counts(None, 2, 100, 100).complete)
        self.assertFalse(demo_table.Counts("m1", 2, 99, 99).complete)
        self.assertTrue(demo_table.Counts("m1", 2, 101, 101).complete)


class ShownTests(SynchronousTestCase):
    """
    The table, and the line without a terminal.
    """

    rows = (
        demo_table.Row("member-1", 4194001, "leader", 34, "12:00:01 became leader"),
        demo_table.Row("member-2", 4194002, "follower", 33, "12:00:02 " + "long " * 30),
        demo_table.Row("member-3", 4194003, "killed (SIGKILL)", 0, ""),
    )
    counts = demo_table.Counts("member-1", 2, 100, 67)

    def test_table(self) -> None:
        """
        The table fits into 80 columns, and names the command that kills each
        member that lives, in full.
        """
        out = io.StringIO()
        Console(file=out, width=80).print(
            demo_table.shown(self.rows, self.counts, "a hint")
        )
        lines = out.getvalue().splitlines()

        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("kill -9 4194001", lines[1])
        self.assertIn("kill -9 4194002", lines[2])
        self.assertIn("killed (SIGKILL)", lines[3])
        self.assertNotIn("kill -9", lines[3])
        self.assertIn(str(self.counts), lines[-2])
        self.assertEqual(lines[-1], "a hint")

    def test_plain(self) -> None:
        """
        One line tells the same.
        """
        line = demo_table.plain(4.25, self.rows[:2], self.counts)

        self.assertEqual(
            line,
            "  4.2 s  leader=member-1 members=2 work=100 owned=67  "
            "member-1:leader:34  member-2:follower:33",
        )

    def test_last_event(self) -> None:
        """
        The last line of a log that is an event is told in words.
        """

        def line(event: str, **fields: object) -> str:
            time = "2026-01-02T03:04:05.678Z"
            return json.dumps({"time": time, "event": event, **fields})

        cases = {
            line("my-assignments-changed", old=33, new=50): "work 33 → 50",
            line("leader-changed", leader_id=None): "leader is nobody",
            line("reassigned-work", operations=17): (
                "divided the work anew: 17 changes"
            ),
            line("became-leader", fencing_token=7): "became leader",
        }
        for logged, words in cases.items():
            lines = [line("earlier"), logged, "not JSON", "[]", '{"event": 1}']
            self.assertEqual(demo_table.last_event(lines), f"03:04:05 {words}")
        self.assertEqual(demo_table.last_event(["Traceback"]), "")


class UsageTests(SynchronousTestCase):
    """
    What the demo is told.
    """

    def test_seconds(self) -> None:
        """
        DEMO_SECONDS is a number of seconds, or nothing.
        """
        self.assertIsNone(demo.seconds_of({}))
        self.assertIsNone(demo.seconds_of({"DEMO_SECONDS": ""}))
        self.assertEqual(demo.seconds_of({"DEMO_SECONDS": "2.5"}), 2.5)
        for text in ("soon", "0", "-1", "inf", "nan"):
            error = self.assertRaises(
                ValueError, demo.seconds_of, {"DEMO_SECONDS": text}
            )
            self.assertIn(f"DEMO_SECONDS: {text!r}", str(error))

    def test_coordctl(self) -> None:
        """
        The command that is shown is the one of the running environment, as it
        can be typed (C11).
        """
        home = Path(self.mktemp()).absolute()
        bin = home / "an env" / "bin"
        bin.mkdir(parents=True)
        python = str(bin / "python")

        self.assertEqual(demo.coordctl(python), f"'{python}' -m voltha_coord.ctl")
        (bin / "voltha-coordctl").touch()
        for here in (bin, home / "elsewhere"):
            self.assertEqual(demo.coordctl(python, here), f"'{bin}/voltha-coordctl'")
        self.assertEqual(demo.coordctl(python, home), "'an env/bin/voltha-coordctl'")
        self.assertEqual(demo.coordctl(python, bin.parent), "bin/voltha-coordctl")

    def test_own_variables(self) -> None:
        """
        Variables that set up a member do not reach the demo's; those that say
        how Consul is reached do.
        """

        def own(name: str) -> bool:
            return demo.OWN_VARIABLES.fullmatch(name) is not None

        for name in ("VOLTHA_COORD_WEIGHT", "CONSUL", "INSTANCE_ID", "REST_PORT"):
            self.assertTrue(own(name), name)
        for name in ("CONSUL_HTTP_TOKEN", "PATH", "PYTHONPATH"):
            self.assertFalse(own(name), name)


class RunTests(SynchronousTestCase):
    """
    The demo as a process.
    """

    def run_demo(self, **environ: str) -> subprocess.CompletedProcess[str]:
        """
        Run it to its end.
        """
        found = [path for path in sys.path if path]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CONSUL")}
        return subprocess.run(
            [sys.executable, str(EXAMPLES / "demo.py")],
            capture_output=True,
            text=True,
            timeout=120,
            env={**kept, "PYTHONPATH": os.pathsep.join(found), **environ},
        )

    def left(self, folder: str) -> list[list[str]]:
        """
        Give the processes that were started in a folder and are still there.
        """
        processes = []
        for process in psutil.process_iter():
            try:
                if process.cwd() == folder:
                    processes.append(process.cmdline())
            except psutil.Error:
                continue
        return processes

    def test_whole(self) -> None:
        """
        It ends by itself with every item owned, and leaves neither a process
        nor its logs behind (C11).
        """
        done = self.run_demo(DEMO_SECONDS="6")

        lines = done.stdout.splitlines()
        self.assertRegex(
            lines[-1], r"^leader=member-[123] members=3 work=100 owned=100$"
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        folder = lines[0].removeprefix("logs in ")
        self.assertTrue(os.path.isabs(folder), lines[0])
        self.assertFalse(os.path.exists(folder), lines[0])
        self.assertEqual(self.left(folder), [])

    def test_no_consul(self) -> None:
        """
        Without the Consul it was told to use it says so, fails, and says where
        the logs are (C11).
        """
        done = self.run_demo(CONSUL="127.0.0.1:1", DEMO_SECONDS="6")

        folder = done.stdout.splitlines()[0].removeprefix("logs in ")
        self.addCleanup(shutil.rmtree, folder)
        self.assertTrue(os.path.isdir(folder), folder)
        self.assertEqual(done.stdout.splitlines()[-2], f"logs are kept in {folder}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("demo failed: Consul at 127.0.0.1:1", done.stdout)
        self.assertEqual(
            done.stdout.splitlines()[-1], "leader=none members=0 work=0 owned=0"
        )

    def test_usage(self) -> None:
        """
        A bad variable is named, and nothing is started.
        """
        for environ in ({"DEMO_SECONDS": "soon"}, {"CONSUL": "ftp://x"}):
            done = self.run_demo(**environ)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(next(iter(environ.values())), done.stderr)
