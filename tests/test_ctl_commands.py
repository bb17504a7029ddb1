"""
Tests for the commands of ``voltha-coordctl``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from click.testing import CliRunner, Result
from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.ctl.actions import OPERATIONS_AT_ONCE, VALUE_BYTES_AT_ONCE
from voltha_coord.ctl.commands import Invocation, voltha_coordctl
from voltha_coord.ctl.run import Action, Target
from voltha_coord.keys import Keys

from .support.keyspace import assigned, leads, member, running, work
from .support.recording import RecordedConsul


class CommandTestCase(SynchronousTestCase):
    """
    Commands on an embedded Consul, without a reactor.
    """

    def setUp(self) -> None:
        """
        Have a Consul.
        """
        self.consul = RecordedConsul(Clock())
        self.addCleanup(self.consul.stop)
        self.target: Target | None = None

    def run_action(self, target: Target, action: Action) -> Any:
        """
        Do an action as the real command does, but in memory.
        """
        self.target = target
        api = self.consul.api()
        (result,) = self.consul.run(action(api, Keys(target.prefix)))
        if isinstance(result, Failure):
            result.raiseException()
        return result

    def call(self, *args: str, stdin: str = "", **environ: str) -> Result:
        """
        Call the command.
        """
        return CliRunner().invoke(
            voltha_coordctl,
            args,
            input=stdin,
            env=environ,
            obj=Invocation(self.run_action, lambda seconds: succeed(None)),
            prog_name="voltha-coordctl",
        )

    def done(self, *args: str, **options: str) -> str:
        """
        Call the command, which succeeds, and give what it prints.
        """
        result = self.call(*args, **options)
        self.assertEqual((result.exit_code, result.stderr), (0, ""))
        return result.stdout

    def document(self, *args: str) -> dict[str, Any]:
        """
        Call the command with --json, and give its document.
        """
        document: dict[str, Any] = json.loads(self.done("--json", *args))
        return document

    def put(self, *entries: Entry) -> None:
        """
        Have these entries in Consul.  Sessions are made as they are needed.
        """
        with self.consul.state.entry() as index:
            for entry in entries:
                self.consul.state.kv.apply([(entry.key, entry, False)], index)

    def work(self) -> dict[str, bytes]:
        """
        Give the work items in Consul.
        """
        place = "service/voltha/work/"
        return {
            entry.key.removeprefix(place): entry.value
            for entry in self.consul.state.kv.walk(place)
        }

    def writes(self) -> int:
        """
        Count the entries that were written to Consul's log since it began.
        """
        return self.consul.state.index


class LookTests(CommandTestCase):
    """
    Commands that look.
    """

    def setUp(self) -> None:
        """
        Have a cluster that runs two of three items.
        """
        super().setUp()
        self.put(
            member("m1", host_address="10.0.0.1"),
            member("m2"),
            *leads("m1"),
            *running("m1", "x", "y"),
            work("z"),
            assigned("m2", "z"),
        )

    def test_status(self) -> None:
        """
        The status names the leader, counts the work, and lists what is wrong.
        """
        document = self.document("status")

        self.assertEqual(document["leader_id"], "m1")
        self.assertEqual(
            document["work"], {"wanted": 3, "assigned": 3, "owned": 2, "running": 2}
        )
        shown = self.done("status")
        for text in ("m1", "4711", "3 wanted", "2 running", "not taken yet"):
            self.assertIn(text, shown)

    def test_members(self) -> None:
        """
        The members are listed with their role and items.
        """
        rows = self.document("members")["members"]

        self.assertEqual(
            [(row["id"], row["role"], row["items"]) for row in rows],
            [("m1", "leader", 2), ("m2", "follower", 1)],
        )
        self.assertIn("10.0.0.1:8880", self.done("members"))

    def test_work_list(self) -> None:
        """
        The items are listed.
        """
        rows = self.document("work", "list")["work"]

        self.assertEqual([row["id"] for row in rows], ["x", "y", "z"])
        self.assertIn("start", self.done("work", "list"))

    def test_assignments(self) -> None:
        """
        The filters of the command line reach the document.
        """

        def ids(*args: str) -> list[str]:
            rows = self.document("assignments", *args)["assignments"]
            return [row["id"] for row in rows]

        self.assertEqual(ids(), ["x", "y", "z"])
        self.assertEqual(ids("--member", "m2"), ["z"])
        self.assertEqual(ids("--work", "[xz]"), ["x", "z"])
        self.assertEqual(ids("--wrong"), ["z"])
        self.assertIn("1 not as", self.done("assignments"))

    def test_plan(self) -> None:
        """
        The plan says what either planner would do, and does nothing.
        """
        before = self.writes()
        document = self.document("plan")

        self.assertEqual(document["operations"], [])
        self.put(member("m3"), work("w"))
        self.assertEqual(
            self.document("plan")["operations"],
            [{"op": "assign", "work": "w", "from": None, "to": "m3"}],
        )
        self.assertEqual(self.document("plan")["items_after"]["m3"], 1)
        self.assertIn("1 to assign", self.done("plan"))
        ring = self.document("plan", "--leader", "hash-ring")
        self.assertEqual(ring["leader"], "hash-ring")
        self.assertEqual(self.writes(), before + 1)

    def test_writes_nothing(self) -> None:
        """
        Looking opens no session and writes no key (field report 25).
        """
        before = self.writes()

        for args in (
            ["status"],
            ["members"],
            ["work", "list"],
            ["assignments"],
            ["plan"],
        ):
            self.done(*args)

        self.assertEqual(self.writes(), before)
        self.assertEqual(self.consul.state.sessions.all(), [])
        self.assertEqual(
            [r for r in self.consul.requests if r.path.startswith("/v1/session")], []
        )

    def test_plain(self) -> None:
        """
        Without a terminal the output has no colour and cuts nothing.
        """
        long_id = "x" * 190
        self.put(work(long_id))

        shown = self.done("work", "list")

        self.assertNotIn("\x1b", shown)
        self.assertIn(long_id, shown)
        self.assertEqual([x for x in shown.splitlines() if x.endswith(" ")], [])


class WorkTests(CommandTestCase):
    """
    Commands that write work.
    """

    def test_add(self) -> None:
        """
        Ranges are added, many items in one transaction.
        """
        before = self.writes()

        shown = self.done("work", "add", "device_group_{0001..0100}", "extra")

        self.assertEqual(len(self.work()), 101)
        self.assertEqual(self.work()["device_group_0100"], b"")
        self.assertEqual(self.writes(), before + -(-101 // OPERATIONS_AT_ONCE))
        self.assertEqual(shown, "101 added\n")

    def test_value(self) -> None:
        """
        Items hold the text, or what the file holds; an item that is there gets
        the new value.
        """
        self.done("work", "add", "a", "b", "--value", "one")
        document = self.document("work", "add", "b", "c", "--value", "two")

        self.assertEqual(self.work(), {"a": b"one", "b": b"two", "c": b"two"})
        self.assertEqual(document, {"added": ["c"], "changed": ["b"], "kept": []})
        self.done("work", "add", "d", "--file", "-", stdin="three")
        self.assertEqual(self.work()["d"], b"three")

    def test_if_absent(self) -> None:
        """
        Items that are there stay as they are if that is asked for.
        """
        self.done("work", "add", "a", "--value", "one")

        shown = self.done("work", "add", "a", "b", "--value", "two", "--if-absent")

        self.assertEqual(self.work(), {"a": b"one", "b": b"two"})
        self.assertEqual(shown, "1 added, 1 left as they were\n")

    def test_large_values(self) -> None:
        """
        Large values go in as many transactions as it takes (field report 119).
        """
        value = "v" * (VALUE_BYTES_AT_ONCE // 3)
        before = self.writes()

        self.done("work", "add", "x{1..7}", "--value", value)

        self.assertEqual(len(self.work()), 7)
        self.assertEqual(self.writes(), before + 3)

    def test_too_large(self) -> None:
        """
        A value that Consul does not take is one line and exit 1 (field report
        99).
        """
        result = self.call("work", "add", "x", "--value", "v" * 600_000)

        self.assertEqual(result.exit_code, 1)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertEqual(self.work(), {})

    def test_remove(self) -> None:
        """
        The named items are removed; those that are not there are counted.
        """
        self.put(work("a1"), work("a2"), work("b"))

        shown = self.done("work", "remove", "a{1..3}")

        self.assertEqual(list(self.work()), ["b"])
        self.assertEqual(shown, "2 removed, 1 not there\n")
        before = self.writes()
        self.assertEqual(self.done("work", "remove", "a{1..3}"), "3 not there\n")
        self.assertEqual(self.writes(), before)

    def test_remove_all(self) -> None:
        """
        All are removed once a person said yes, or with --yes.
        """
        self.put(work("a"), work("b"))

        refused = self.call("work", "remove", "--all", stdin="n\n")
        self.assertEqual((refused.exit_code, len(self.work())), (1, 2))
        self.assertIn("all 2 items", refused.stderr)
        unattended = self.call("work", "remove", "--all")
        self.assertEqual((unattended.exit_code, len(self.work())), (1, 2))
        self.assertEqual(self.done("work", "remove", "--all", "--yes"), "2 removed\n")
        self.assertEqual(self.work(), {})
        self.assertEqual(
            self.done("work", "remove", "--all", "--yes"), "nothing to do\n"
        )


class UsageTests(CommandTestCase):
    """
    Options, environment, and what goes wrong.
    """

    def test_bad_usage(self) -> None:
        """
        A bad option or id is exit 2, and names itself.
        """
        cases = {
            ("--prefix", "a//b", "status"): "--prefix",
            ("--timeout", "soon", "status"): "--timeout",
            ("--timeout", "0", "status"): "--timeout",
            ("--token-file", "/nowhere/at/all", "status"): "--token-file",
            ("work", "add", "a b"): "' '",
            ("work", "add"): "ID",
            ("work", "add", "a", "--value", "v", "--file", "-"): "--file",
            ("work", "remove"): "--all",
            ("work", "remove", "a", "--all"): "--all",
            ("plan", "--leader", "wise"): "--leader",
            ("nonsense",): "nonsense",
        }
        for args, named in cases.items():
            result = self.call(*args)
            self.assertEqual((args, result.exit_code), (args, 2))
            self.assertIn(named, result.stderr)

    def test_options(self) -> None:
        """
        Options reach the target; a slash at the prefix's ends does not matter.
        """
        self.done(
            "--consul", "a:1", "--consul", "b:2", "--prefix", "/p/q/",
            "--datacenter", "dc2", "--timeout", "3", "status",
        )  # fmt: skip

        assert self.target is not None
        self.assertEqual(self.target.consul, ("a:1", "b:2"))
        self.assertEqual(self.target.prefix, "p/q")
        self.assertEqual(self.target.datacenter, "dc2")
        self.assertEqual(self.target.timeout, 3.0)

    def test_environment(self) -> None:
        """
        The environment stands in for options, the nearer variable first, and
        Consul's own variables are honoured (field report 110).
        """
        self.done("status", CONSUL="a:1", VOLTHA_COORD_PREFIX="p")
        assert self.target is not None
        self.assertEqual((self.target.consul, self.target.prefix), (("a:1",), "p"))
        self.done("status", CONSUL="a:1", VOLTHA_COORD_CONSUL="b:2,c:3")
        addresses = self.target.connection().addresses
        self.assertEqual([str(a) for a in addresses], ["http://b:2", "http://c:3"])
        self.done("status", CONSUL="", CONSUL_HTTP_ADDR="https://d:4")
        self.assertEqual(str(self.target.connection().addresses[0]), "https://d:4")

    def test_no_answer(self) -> None:
        """
        No answer is one line on stderr and exit 1, never a traceback.
        """
        self.consul.agent.kill()

        for args in (["status"], ["work", "add", "a"], ["plan"]):
            result = self.call(*args)
            self.assertEqual((args, result.exit_code), (args, 1))
            self.assertEqual(result.stdout, "")
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn("no answer from Consul", result.stderr)

    def test_denied(self) -> None:
        """
        A denied listing, which looks empty, is exit 1 (field report 105).
        """
        self.consul.state.deny = lambda resource, *_: resource == "key"

        for args in (["status"], ["work", "list"], ["work", "add", "a"], ["plan"]):
            result = self.call(*args)
            self.assertEqual((args, result.exit_code), (args, 1))
            self.assertIn("denied", result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_doctor_exit(self) -> None:
        """
        The doctor's exit is 1 when something is wrong, 0 when nothing is; its
        document has a line for each finding.
        """
        self.put(member("m1", session=None))

        result = self.call("--json", "doctor")
        self.assertEqual(result.exit_code, 1)
        findings = json.loads(result.stdout)["findings"]
        self.assertIn(
            ("wrong", "members"), [(f["level"], f["check"]) for f in findings]
        )
        self.assertIn("wrong  members: no session holds m1", self.call("doctor").stdout)
        self.consul.state.kv.apply([("service/voltha/members/m1", None, False)], 99)
        self.assertEqual(self.call("doctor").exit_code, 0)


class ProcessTests(SynchronousTestCase):
    """
    The command as a process.
    """

    def call(self, *args: str) -> subprocess.CompletedProcess[str]:
        """
        Call it.
        """
        return subprocess.run(
            [sys.executable, "-m", "voltha_coord.ctl", *args],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )

    def test_help_is_light(self) -> None:
        """
        Help imports neither Twisted nor rich, so that it comes at once.
        """
        code = (
            "import sys, voltha_coord.ctl.commands as c\n"
            "try: c.voltha_coordctl(['--help'])\n"
            "except SystemExit: pass\n"
            "print([m for m in ('twisted', 'rich', 'consul') if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )

        self.assertEqual(done.stdout.splitlines()[-1], "[]")
        self.assertIn("assignments", done.stdout)

    def test_unreachable(self) -> None:
        """
        Where nobody listens the process ends with 1 and one line; all agents
        are tried.
        """
        done = self.call("--consul", "127.0.0.1:1", "--consul", "127.0.0.1:2", "status")

        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("127.0.0.1:2", done.stderr)

    def test_bad_address(self) -> None:
        """
        An address that is none is wrong usage.
        """
        done = self.call("--consul", "ftp://x", "status")

        self.assertEqual(done.returncode, 2)
        self.assertIn("ftp", done.stderr)
