"""
The runner ``process`` with real processes, each of them short.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from structlog.testing import capture_logs
from twisted.internet import reactor as _reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from voltha_coord._types import Steps
from voltha_coord.clock import boot_time
from voltha_coord.condition import Condition
from voltha_coord.errors import CommandError, CommandNotAllowed, ConfigurationError
from voltha_coord.records import WorkItem
from voltha_coord.runners.guard import members
from voltha_coord.runners.orphans import Orphans, directory_of, started
from voltha_coord.runners.process import ProcessRunner

#: Typed loosely: the global reactor is whatever trial installed.
reactor: Any = _reactor

#: A command that does nothing for long, and heeds signals.
SLEEP = ["sleep", "1000"]

#: One that does not heed SIGTERM, and says when it does not any more.
DEAF = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"]

#: A member in a process of its own: runs a command with a child, and says so.
MEMBER = textwrap.dedent(
    """
    import sys
    from twisted.internet import reactor
    from voltha_coord.clock import boot_time
    from voltha_coord.records import WorkItem
    from voltha_coord.runners.process import ProcessRunner

    runner = ProcessRunner(
        ["*"], deadline=lambda: boot_time() + 1.0, state_directory=sys.argv[1]
    )
    command = ["sh", "-c", "sleep 1000 & exec sleep 1000"]
    item = WorkItem("w", config={"command": command})

    def say(_):
        print(runner.condition(item).details["pid"], flush=True)

    started = runner.start_work(item, None)
    started.addCallback(lambda _: reactor.callLater(0.3, say, None))
    reactor.run()
    """
)


def item(work: str, *command: str, **config: Any) -> WorkItem:
    """
    Give an item that is to run a command.
    """
    limits = config.pop("limits", {})
    return WorkItem(work, config={"command": [*command], **config}, limits=limits)


class ProcessCase(TestCase):
    """
    A test with a runner, of which nothing is left.
    """

    timeout = 30

    def setUp(self) -> None:
        """
        Have a runner that may run anything.
        """
        self.logs: Any = self.enterContext(capture_logs())
        self.items: dict[str, WorkItem] = {}
        self.states: list[tuple[str, str]] = []
        self.pids: set[int] = set()
        self.deadline: Callable[[], float | None] = lambda: None
        self.directory = os.path.abspath(self.mktemp())
        self.runner = self.make_runner()
        self.addCleanup(self.leave_nothing)

    def make_runner(self, *allow: str, **given: Any) -> ProcessRunner:
        """
        Make a runner.
        """
        given.setdefault("state_directory", self.directory)
        runner = ProcessRunner(
            allow or ["*"],
            deadline=lambda: self.deadline(),
            instance_id="m1",
            stop_timeout=0.5,
            random=lambda: 0.5,
            **given,
        )
        runner.listen(self.heard)
        return runner

    @inlineCallbacks
    def leave_nothing(self) -> Steps[None]:
        """
        Kill what the test has left, and look that nothing is: no process, no
        guard, no record, no timer.
        """
        for one in self.items.values():
            yield self.runner.kill_work(one)
        yield self.until("no guard", lambda: not self.children())
        for pid in self.pids:
            self.assertEqual(members(pid), [])
        self.assertEqual([*Path(self.directory).rglob("*.pid")], [])

    def children(self) -> list[str]:
        """
        Give the guards and commands that are there, zombies included.
        """
        found = []
        for child in psutil.Process().children():
            try:
                line = " ".join(child.cmdline())
                if "guard.py" in line or not line:
                    found.append(f"{child.pid} {line}")
            except psutil.Error:
                continue
        return found

    def heard(self, work: str) -> None:
        """
        Note how an item fares.
        """
        fares = self.runner.condition(self.items[work])
        if fares is not None:
            self.states.append((work, fares.state))
            self.pids.add(fares.details.get("pid", 2**22 + 1))

    @inlineCallbacks
    def start(self, one: WorkItem, report: bytes | None = None) -> Steps[int]:
        """
        Start an item.

        :return: a Deferred that fires with its process id.
        """
        self.items[one.id] = one
        yield self.runner.start_work(one, report)
        pid: int = self.fares(one).details["pid"]
        self.pids.add(pid)
        return pid

    def fares(self, one: WorkItem) -> Condition:
        """
        Give how an item fares.
        """
        fares = self.runner.condition(one)
        assert fares is not None
        return fares

    @inlineCallbacks
    def until(self, what: str, found: Callable[[], Any], seconds: float = 8) -> Any:
        """
        Look again and again, until something is found.
        """
        end = reactor.seconds() + seconds
        while not found():
            if reactor.seconds() > end:
                self.fail(f"not within {seconds} s: {what}")
            yield deferLater(reactor, 0.02, lambda: None)

    def until_state(self, one: WorkItem, state: str) -> Any:
        """
        Wait until an item is in a state.
        """
        return self.until(state, lambda: self.fares(one).state == state)


class RunningTests(ProcessCase):
    """
    Commands run, and end.
    """

    @inlineCallbacks
    def test_stop(self) -> Steps[None]:
        """
        A command runs until it is stopped, which is how it ended.
        """
        one = item("w", *SLEEP)
        pid = yield self.start(one)
        self.assertEqual(self.fares(one).state, "running")
        self.assertEqual(psutil.Process(pid).cmdline()[1:], ["1000"])

        yield self.runner.stop_work(one)

        self.assertFalse(psutil.pid_exists(pid))
        self.assertIsNone(self.runner.condition(one))
        report = json.loads(self.runner.report(one) or b"")
        self.assertEqual(report["exit"], "signal SIGTERM")
        self.assertIsNone(self.runner.report(one))

    @inlineCallbacks
    def test_finished(self) -> Steps[None]:
        """
        What has ended well, and is not to reconnect, is finished; to stop it is
        done at once.
        """
        one = item("w", "true", reconnect=False)
        self.items["w"] = one
        yield self.runner.start_work(one, None)
        yield self.until_state(one, "finished")

        self.assertEqual(self.fares(one).error, "")
        self.assertEqual(self.fares(one).details["exit"], "exit status 0")
        self.assertNotIn("pid", self.fares(one).details)
        stopping: Any = self.runner.stop_work(one)
        self.successResultOf(stopping)

    @inlineCallbacks
    def test_finished_changed(self) -> Steps[None]:
        """
        What has finished runs again once it is to reconnect.
        """
        one = item("w", "true", reconnect=False)
        self.items["w"] = one
        yield self.runner.start_work(one, None)
        yield self.until_state(one, "finished")
        before = len(self.states)

        yield self.runner.update_work(item("w", "true"))

        self.assertIn(("w", "running"), self.states[before:])

    @inlineCallbacks
    def test_failed(self) -> Steps[None]:
        """
        What has failed says how, with its last lines, and is started again.
        """
        script = "echo one; echo two >&2; exit 3"
        one = item("w", "sh", "-c", script, reconnect_delay=0.2)
        self.items["w"] = one
        yield self.runner.start_work(one, None)
        yield self.until_state(one, "failed")

        fares = self.fares(one)
        self.assertEqual(fares.error, "exit status 3; it is started again")
        self.assertEqual(fares.details["exit"], "exit status 3")
        self.assertEqual(sorted(fares.details["log"]), ["one", "two"])
        yield self.until("again", lambda: self.fares(one).details["restarts"] == 1)

    @inlineCallbacks
    def test_signal(self) -> Steps[None]:
        """
        What a signal has ended says which.
        """
        one = item("w", "sh", "-c", "kill -SEGV $$", reconnect=False)
        self.items["w"] = one
        yield self.runner.start_work(one, None)
        yield self.until_state(one, "failed")

        self.assertEqual(self.fares(one).error, "signal SIGSEGV")

    @inlineCallbacks
    def test_children(self) -> Steps[None]:
        """
        When a command has ended all it has started is killed, in whatever group.
        """
        script = "sleep 1000 & set -m; sleep 1001 & exit 0"
        one = item("w", "bash", "-c", script, reconnect=False)
        pid = yield self.start(one)
        yield self.until_state(one, "finished")

        self.assertEqual(members(pid), [])

    @inlineCallbacks
    def test_deaf(self) -> Steps[None]:
        """
        What does not heed SIGTERM goes on until it is killed, and both calls end
        then.
        """
        one = item("w", *DEAF)
        pid = yield self.start(one)
        yield self.until("deaf", lambda: self.fares(one).details.get("log"))
        stopping: Any = self.runner.stop_work(one)
        yield deferLater(reactor, 0.2, lambda: None)
        self.assertNoResult(stopping)

        yield self.runner.kill_work(one)

        self.successResultOf(stopping)
        self.assertEqual(members(pid), [])
        self.assertIsNone(self.runner.report(one))

    @inlineCallbacks
    def test_changed(self) -> Steps[None]:
        """
        Another command takes the place of one that does not heed SIGTERM.
        """
        one = item("w", *DEAF)
        pid = yield self.start(one)
        yield self.until("deaf", lambda: self.fares(one).details.get("log"))

        yield self.runner.update_work(item("w", *SLEEP))

        self.assertEqual(members(pid), [])
        self.assertNotEqual(self.fares(one).details["pid"], pid)
        self.assertEqual(self.fares(one).state, "running")

    @inlineCallbacks
    def test_unchanged(self) -> Steps[None]:
        """
        What makes no other process leaves the one there is alone.
        """
        pid = yield self.start(item("w", *SLEEP))

        yield self.runner.update_work(item("w", *SLEEP, stale_timeout=0.3))

        self.assertEqual(self.fares(self.items["w"]).details["pid"], pid)
        # And counts from now on.
        yield self.until_state(self.items["w"], "killed")

    @inlineCallbacks
    def test_stale(self) -> Steps[None]:
        """
        What says nothing for too long is killed, and what says something is not.
        """
        talking = "while :; do echo x; sleep 0.1; done"
        quiet = item("quiet", *SLEEP, stale_timeout=0.6)
        chatty = item("chatty", "sh", "-c", talking, stale_timeout=0.6)
        yield self.start(quiet)
        yield self.start(chatty)
        yield self.until_state(quiet, "killed")
        yield deferLater(reactor, 0.5, lambda: None)

        self.assertIn("no output for 0.6 s", self.fares(quiet).error)
        self.assertEqual(self.fares(chatty).state, "running")

    @inlineCallbacks
    def test_memory(self) -> Steps[None]:
        """
        What uses more memory than its limit is killed, and says how much.
        """
        one = item("w", *SLEEP, limits={"memory": 1000})
        other = item("other", *SLEEP, limits={"memory": 2**30})
        yield self.start(one)
        yield self.start(other)

        self.runner._measure()

        yield self.until_state(one, "killed")
        self.assertIn("its limit is 1000", self.fares(one).error)
        self.assertEqual(self.fares(other).state, "running")

    @inlineCallbacks
    def test_environment(self) -> Steps[None]:
        """
        A command has an environment of its own, and none of the member's.
        """
        os.environ["SECRET_OF_THE_MEMBER"] = "x"
        self.addCleanup(os.environ.pop, "SECRET_OF_THE_MEMBER")
        names = {"A": "é b", "VOLTHA_COORD_WORK_ID": "mine"}
        one = item("w", "env", environment=names, reconnect=False)
        self.runner = self.make_runner(environ={"PATH": os.environ["PATH"]})
        self.items["w"] = one
        yield self.runner.start_work(one, None)
        yield self.until_state(one, "finished")

        said = dict(line.split("=", 1) for line in self.fares(one).details["log"])
        said.pop("PATH")
        expected = {"A": "é b", "VOLTHA_COORD_WORK_ID": "w"}
        expected |= {"VOLTHA_COORD_INSTANCE_ID": "m1", "VOLTHA_COORD_REFERENCE": ""}
        self.assertEqual(said, expected)

    @inlineCallbacks
    def test_as_it_is(self) -> Steps[None]:
        """
        No shell sees the arguments; the directory is the one that was asked for,
        and signals are as a command expects them.
        """
        where = os.path.realpath(self.mktemp())
        os.makedirs(where)
        script = 'pwd; echo "$1"; grep SigIgn /proc/self/status'
        command = ("sh", "-c", script, "x", "$HOME; *")
        one = item("w", *command, directory=where, reconnect=False)
        self.items["w"] = one
        yield self.runner.start_work(one, None)
        yield self.until_state(one, "finished")

        *said, ignored = self.fares(one).details["log"]
        self.assertEqual(said, [where, "$HOME; *"])
        # Those above 31 are the C library's own.
        self.assertEqual(int(ignored.split()[1], 16) & 0x7FFFFFFF, 0)

    @inlineCallbacks
    def test_previous(self) -> Steps[None]:
        """
        What the last owner handed over is shown; what makes no sense is not.
        """
        one = item("w", *SLEEP)
        for report, expected in (
            (b'{"log": ["a", 3, "b"]}', ["a", "b"]),
            (b'{"log": 3}', None),
            (b"\xff", None),
            (b"[" * 100_000, None),
        ):
            yield self.start(one, report)
            previous = self.fares(one).details.get("previous")
            self.assertEqual(previous, expected)


class RefusedTests(ProcessCase):
    """
    What cannot or may not be run.
    """

    @inlineCallbacks
    def refused(self, one: WorkItem, kind: type[Exception]) -> Steps[str]:
        """
        Have an item refused, whether it is prepared, started or changed.

        :return: a Deferred that fires with why.
        """
        self.items[one.id] = one
        error = yield self.assertFailure(self.runner.start_work(one, None), kind)
        yield self.assertFailure(self.runner.update_work(one), kind)
        self.assertIsNone(self.runner.condition(one))
        return str(error)

    @inlineCallbacks
    def test_not_allowed(self) -> Steps[None]:
        """
        What no pattern allows is not run, nor is anything without patterns.
        """
        self.runner = self.make_runner("/nowhere/*")
        why = yield self.refused(item("w", *SLEEP), CommandNotAllowed)
        self.assertIn("sleep", why)
        self.assertIn("--allow-command", why)
        self.assertRaises(
            CommandNotAllowed, self.runner.prepare_work, item("w", *SLEEP)
        )
        self.assertEqual(self.children(), [])

    @inlineCallbacks
    def test_cannot(self) -> Steps[None]:
        """
        What is not there, or cannot be executed, says so.
        """
        junk = os.path.abspath(self.mktemp())
        Path(junk).write_bytes(b"\x7fELF junk")
        os.chmod(junk, 0o755)
        for command, config, expected in (
            (["/nope"], {}, "/nope"),
            (["nope"], {}, "'nope'"),
            (["sleep"], {"directory": "/nope"}, "/nope"),
            ([junk], {}, "cannot be executed"),
            ([], {}, "config.command"),
        ):
            why = yield self.refused(item("w", *command, **config), CommandError)
            self.assertIn(expected, why)

    @inlineCallbacks
    def test_goes_on(self) -> Steps[None]:
        """
        A change to what cannot be run leaves what runs.
        """
        one = item("w", *SLEEP)
        pid = yield self.start(one)

        changing = self.runner.update_work(item("w", "nope"))
        yield self.assertFailure(changing, CommandError)

        self.assertEqual(self.fares(one).details["pid"], pid)

    def test_no_place(self) -> None:
        """
        Without a place for records there is no such runner.
        """
        file = os.path.abspath(self.mktemp())
        Path(file).write_text("")
        runner = ProcessRunner(["*"], state_directory=file)

        error = self.assertRaises(ConfigurationError, runner.open)
        self.assertIn("state-directory", str(error))


class GuardTests(ProcessCase):
    """
    Commands do not outlive their member, nor its right to run them.
    """

    @inlineCallbacks
    def test_deadline(self) -> Steps[None]:
        """
        Commands are killed when the deadline passes, whoever told the guard of a
        later one before.
        """
        end = boot_time() + 0.8
        self.deadline = lambda: end
        one = item("w", *SLEEP, reconnect=False)
        yield self.start(one)
        yield self.until_state(one, "failed")

        self.assertGreaterEqual(boot_time(), end)
        self.assertLess(boot_time(), end + 1.0)
        self.assertEqual(self.fares(one).error, "signal SIGKILL")

    @inlineCallbacks
    def test_again(self) -> Steps[None]:
        """
        A guard that is needed again is told of the deadline again and again.
        """
        self.deadline = lambda: boot_time() + 0.9
        one = item("w", *SLEEP)
        yield self.start(one)
        yield self.runner.stop_work(one)
        pid = yield self.start(one)

        yield deferLater(reactor, 1.6, lambda: None)

        self.assertEqual(self.fares(one).details["pid"], pid)
        self.assertEqual(self.fares(one).state, "running")

    @inlineCallbacks
    def test_replaced(self) -> Steps[None]:
        """
        A guard that is gone is replaced, and commands run on.
        """
        one = item("w", *SLEEP)
        pid = yield self.start(one)
        (before,) = self.children()
        os.kill(int(before.split()[0]), signal.SIGKILL)

        yield self.until("another", lambda: self.children() not in ([], [before]))

        self.assertIn("guard-lost", [log["event"] for log in self.logs])
        self.assertEqual(self.fares(one).details["pid"], pid)

    @inlineCallbacks
    def member_dies(self, number: signal.Signals) -> Steps[float]:
        """
        Send a member a signal.

        :return: a Deferred that fires with the seconds after which nothing of
            its command was left.
        """
        member = subprocess.Popen(
            [sys.executable, "-c", MEMBER, os.path.abspath(self.mktemp())],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            assert member.stdout is not None
            pid = int(member.stdout.readline())
            self.assertEqual(len(members(pid)), 2)
            begun = reactor.seconds()
            member.send_signal(number)
            yield self.until("dead", lambda: not members(pid))
            return float(reactor.seconds() - begun)
        finally:
            member.kill()
            member.communicate()

    @inlineCallbacks
    def test_member_killed(self) -> Steps[None]:
        """
        When a member is killed its commands die, with all they have started.
        """
        seconds = yield self.member_dies(signal.SIGKILL)
        self.assertLess(seconds, 2.0)

    @inlineCallbacks
    def test_member_stopped(self) -> Steps[None]:
        """
        When a member hangs they die once its deadline has passed.
        """
        seconds = yield self.member_dies(signal.SIGSTOP)
        self.assertGreater(seconds, 0.2)
        self.assertLess(seconds, 3.0)


class OrphanTests(ProcessCase):
    """
    What an earlier life has left is killed, and nothing else.
    """

    def orphan(self, work: str = "w") -> tuple[subprocess.Popen[bytes], Path]:
        """
        Have a process that an earlier life of this member has left.

        :return: it, and where it is written down.
        """
        process = subprocess.Popen(
            ["sleep", "1000"],
            start_new_session=True,
            env={**os.environ, "VOLTHA_COORD_WORK_ID": work},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        where = directory_of(self.directory, "service/voltha", "m1")
        orphans = Orphans(where, None, private=False)
        orphans.open()
        orphans.note(work, process.pid)
        return process, where / f"{work}.pid"

    def changed(self, path: Path, **values: Any) -> None:
        """
        Change a record.
        """
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    def test_cleared(self) -> None:
        """
        A process that is still the same is killed as the runner begins.
        """
        process, path = self.orphan()
        self.changed(path, member=2**22 + 1)

        self.make_runner()

        self.assertEqual(process.wait(5), -signal.SIGKILL)
        self.assertFalse(path.exists())
        self.assertIn("orphan-cleared", [log["event"] for log in self.logs])

    def test_stranger(self) -> None:
        """
        One of the same id that was started at another time is left alone.
        """
        process, path = self.orphan()
        self.changed(path, started="0 1")

        self.make_runner()

        self.assertRaises(subprocess.TimeoutExpired, process.wait, 0.2)
        self.assertFalse(path.exists())

    def test_of_another(self) -> None:
        """
        One of a member that is still there is left alone, and so is its record.
        """
        process, path = self.orphan()
        other = os.getppid()
        self.changed(path, member=other, member_started=started(other))

        self.make_runner()

        self.assertRaises(subprocess.TimeoutExpired, process.wait, 0.2)
        self.assertTrue(path.exists())
        self.assertIn("orphan-left", [log["event"] for log in self.logs])
        path.unlink()

    def test_nonsense(self) -> None:
        """
        A record that makes no sense is removed, and kills nothing.
        """
        _, path = self.orphan()
        for text in (
            "",
            "[]",
            "{}",
            "[" * 100_000,
            '{"pid": Infinity, "started": "x", "member": 1, "member_started": "x"}',
            '{"pid": 0, "started": "x", "member": 1, "member_started": "x"}',
            '{"pid": -1, "started": "x", "member": 1, "member_started": "x"}',
        ):
            path.write_text(text)
            self.make_runner()
            self.assertFalse(path.exists())
        self.assertNotIn("orphan-cleared", [log["event"] for log in self.logs])

    def test_open_to_others(self) -> None:
        """
        A directory to which others may write is refused: they could have any
        process of ours killed.
        """
        where = directory_of(self.directory, "service/voltha", "m1")
        os.chmod(where, 0o777)

        runner = ProcessRunner(["*"], state_directory=self.directory, instance_id="m1")

        self.assertRaises(ConfigurationError, runner.open)
        os.chmod(where, 0o700)
