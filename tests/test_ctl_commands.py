"""
Tests for the commands of ``voltha-coordctl``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.ctl.actions import OPERATIONS_AT_ONCE
from voltha_coord.ctl.changing import VALUE_BYTES_AT_ONCE
from voltha_coord.records import StatusReport, TransferRequest, encode_status

from .support.commands import CommandTestCase
from .support.keyspace import (
    KEYS,
    assigned,
    leads,
    measures,
    member,
    owned,
    running,
    session_of,
    work,
)


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

    def test_measured_members(self) -> None:
        """
        What members measure is shown once one does, and what it is about one that
        does not.
        """
        has = {"cpu_limit": 360, "memory_limit": 3 * 2**30}
        self.put(member("m3", resources=has), *measures("m3", cpu=119.6, memory=2**30))
        shown = self.done("members", COLUMNS="200").splitlines()
        rows = self.document("members")["members"]

        self.assertIn("cpu", shown[0])
        self.assertRegex(shown[1], r"^m1 .* -  +- ")
        self.assertRegex(shown[3], r"^m3 .* 120/360%  +1\.0/3\.0 GiB")
        self.assertEqual(rows[2]["resources"]["cpu"], 119.6)
        self.put(*measures("m3", error="no /proc", cpu=1, memory=1))
        self.assertRegex(self.done("members"), "(?m)^m3 .* unknown  unknown")

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

    def test_plan_by_resources(self) -> None:
        """
        The resource leader's plan is explained: why each item goes where it
        goes, and why not elsewhere; what is kept for a member that is gone is
        told.
        """
        report = StatusReport({}, {"cpu": 85, "memory": 11})
        self.put(
            member("m4", resources={"cpu_limit": 90, "memory_limit": 90}),
            *(
                Entry(KEYS.status("m4", n), chunk)
                for n, chunk in enumerate(encode_status(report))
            ),
            work("small", b'{"limits":{"cpu":1,"memory":2}}'),
            work("large", b'{"limits":{"cpu":10,"memory":2}}'),
            work("lost", b'{"limits":{"cpu":1,"memory":2}}'),
            assigned("m9", "lost"),
            owned("m9", "lost"),
        )

        document = self.document("plan", "--leader", "resource")
        shown = self.done("plan", "--leader", "resource")

        rows = {row["work"]: row for row in document["explanations"]}
        self.assertEqual((rows["small"]["op"], rows["small"]["node"]), ("add", "m4"))
        self.assertIn("resources", rows["small"]["why_not"]["m1"])
        self.assertEqual(
            rows["large"]["why_not"]["m4"], "cpu 85 and 10 more is not below 90"
        )
        self.assertIn("m9 is gone", document["errors"]["lost"])
        self.assertIn("    not m4: cpu 85 and 10 more", shown)
        # Members that measure are led by what they measure.
        assumed = self.document("plan")
        self.assertEqual((assumed["leader"], assumed["assumed"]), ("resource", True))
        self.assertEqual(assumed["operations"], document["operations"])
        self.assertIn("add small m4", shown)

    def test_plan_assumed(self) -> None:
        """
        Which leader plans is said, and that it was assumed where nobody said
        so.
        """
        self.assertTrue(self.document("plan")["assumed"])
        self.assertIn("assumed: members run with --leader balanced", self.done("plan"))

        for args, environ in (
            (["--leader", "balanced"], {}),
            ([], {"VOLTHA_COORD_LEADER": "balanced"}),
        ):
            shown = self.done("plan", *args, **environ)
            self.assertIn("balanced: nothing to do", shown)
            self.assertNotIn("assumed", shown)

    def test_plan_of_a_plugin(self) -> None:
        """
        A leader plugin's planner plans; one without, or whose name is wrong, is
        wrong usage; a planner that fails is one line.
        """
        self.plugins(
            "ours",
            "from voltha_coord.plugins import LeaderPlugin\n"
            "class Bare:\n"
            "    name = 'bare'\n"
            "    def __call__(self, coordinator): raise NotImplementedError\n"
            "from zope.interface import classImplements\n"
            "from twisted.plugin import IPlugin\n"
            "from voltha_coord.interfaces import ILeaderPlugin\n"
            "classImplements(Bare, IPlugin, ILeaderPlugin)\n"
            "bare = Bare()\n"
            "leader = 'voltha_coord.leader.Leader'\n"
            "ring = LeaderPlugin('ring', leader,"
            " 'voltha_coord.planning.hash_ring.HashRingPlanner')\n"
            "typo = LeaderPlugin('typo', leader, 'voltha_coord.nothing.Here')\n"
            "ill = LeaderPlugin('ill', leader, 'voltha_coord.keys.Keys')\n",
        )

        self.assertEqual(self.document("plan", "--leader", "ring")["leader"], "ring")
        for name, told in (
            ("bare", "without a planner"),
            ("typo", "voltha_coord.nothing.Here"),
            ("wise", "there is balanced, "),
        ):
            result = self.call("plan", "--leader", name)
            self.assertEqual((name, result.exit_code), (name, 2))
            self.assertIn("--leader", result.stderr)
            self.assertIn(told, result.stderr)
        failed = self.call("plan", "--leader", "ill")
        self.assertEqual((failed.exit_code, failed.stderr.count("\n")), (1, 1))
        self.assertIn("the planner of 'ill' failed", failed.stderr)

    def plugins(self, name: str, text: str) -> None:
        """
        Have a module of plugins, in a folder on the path.
        """
        import twisted.plugins

        folder = self.mktemp()
        os.makedirs(folder)
        with open(os.path.join(folder, f"voltha_test_{name}.py"), "w") as module:
            module.write(text)
        twisted.plugins.__path__.append(folder)
        self.addCleanup(twisted.plugins.__path__.remove, folder)
        self.addCleanup(sys.modules.pop, f"twisted.plugins.voltha_test_{name}", None)

    def test_maintenance(self) -> None:
        """
        A member that operators want away is shown so by every command that
        shows members (C10).
        """
        self.put(Entry("service/voltha/intent/nodes/m2", b"maintenance\n"))

        for command in ("status", "members"):
            rows = {row["id"]: row for row in self.document(command)["members"]}
            self.assertEqual(rows["m2"]["state"], "maintenance")
            self.assertEqual(rows["m1"]["state"], "online")
            self.assertIn("maintenance", self.done(command))
        self.assertIn("m2 (maintenance)", self.call("doctor").stdout)

    def test_json_at_the_end(self) -> None:
        """
        --json is taken by every command too, at any place.
        """
        for args in (
            ["status"], ["members"], ["work", "list"], ["work", "add", "x"],
            ["work", "remove", "none"], ["assignments"], ["plan"], ["doctor"],
            ["node"], ["node", "m1", "online"], ["unfreeze"], ["transfer", "m1"],
            ["work", "update", "x", "--cpu", "1"], ["work", "stop", "x", "y"],
            ["work", "start", "x"], ["work", "restart", "x"], ["processes"],
            ["errors", "x"], ["relocate", "x", "m1"], ["relocate", "--list"],
        ):  # fmt: skip
            # What it writes is written by then.
            self.call(*args)
            at_the_end = json.loads(self.call(*args, "--json").stdout)
            self.assertEqual(at_the_end, json.loads(self.call("--json", *args).stdout))
        self.assertIn("work", json.loads(self.done("work", "--json", "list")))

    def test_narrow(self) -> None:
        """
        Where there is not room for all columns of the members, the last are
        left out, and the first never.
        """
        for columns, heads in (
            ("80", "id role state items running address liveness weight"),
            ("60", "id role state items running address"),
            ("40", "id role state items running"),
            ("20", "id role state"),
        ):
            lines = self.done("members", COLUMNS=columns).splitlines()
            self.assertEqual(lines[0].split(), heads.split())
            self.assertLessEqual(max(map(len, lines)), int(columns))

    def test_wishes(self) -> None:
        """
        What operators want shows in the status, as far as the members' states
        do not show it.
        """
        asked = TransferRequest("m2", 4711, "x")
        for request, words in (
            (asked, "to m2, asked for"),
            (evolve(asked, target="", refused="no"), "to any other, refused: no"),
        ):
            self.put(
                Entry(KEYS.transfer, request.encode()),
                Entry(KEYS.node_intent("m9"), b"leave"),
                Entry(KEYS.node_intent("m2"), b"maintenance"),
            )
            shown = self.done("status")
            self.assertIn(f"hand-over      {words}\n", shown)
            self.assertIn("not there      m9 (leave)\n", shown)
        document = self.document("status")
        self.assertEqual(
            document["transfer"],
            {"target": None, "fencing_token": 4711, "refused": "no"},
        )
        self.assertEqual(document["intents"], {"m2": "maintenance", "m9": "leave"})
        self.assertEqual((document["frozen"], document["freeze_reason"]), (False, None))

    def test_no_lead(self) -> None:
        """
        A member that never leads is shown as such.
        """
        self.put(member("m2", can_lead=False))

        self.assertIn("m2  no-lead", self.done("members"))
        rows = self.document("members")["members"]
        self.assertEqual([row["can_lead"] for row in rows], [True, False])

    def test_columns(self) -> None:
        """
        COLUMNS says how wide the output is, and what does not fit is folded.
        """
        self.put(work("x" * 90))

        shown = self.done("work", "list", COLUMNS="60")

        self.assertLessEqual(max(map(len, shown.splitlines())), 60)
        self.assertEqual(shown.count("x"), 91)

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
            ["processes"],
            ["errors"],
            ["relocate", "--list"],
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
        self.assertEqual(
            document,
            {"added": ["c"], "changed": ["b"], "unchanged": [], "warnings": []},
        )
        self.done("work", "add", "d", "--file", "-", stdin="three")
        self.assertEqual(self.work()["d"], b"three")

    def test_if_absent(self) -> None:
        """
        Items that are there stay as they are if that is asked for.
        """
        self.done("work", "add", "a", "--value", "one")

        shown = self.done("work", "add", "a", "b", "--value", "two", "--if-absent")

        self.assertEqual(self.work(), {"a": b"one", "b": b"two"})
        self.assertEqual(shown, "1 added, 1 unchanged\n")

    def test_no_value(self) -> None:
        """
        Without a value an item that is there keeps the one it has.
        """
        self.done("work", "add", "a", "--value", "one")
        before = self.writes()

        shown = self.done("work", "add", "a", "a2")

        self.assertEqual(self.work(), {"a": b"one", "a2": b""})
        self.assertEqual(shown, "1 added, 1 unchanged\n")
        self.done("work", "add", "a", "a2")
        self.assertEqual(self.writes(), before + 1)
        self.done("work", "add", "a", "--value", "")
        self.assertEqual(self.work()["a"], b"")

    def test_same_value(self) -> None:
        """
        An item that holds the value already is not written again.
        """
        self.put(work("a", b"one"), work("a1", b"two"), work("b", b"two"))
        before = self.writes()

        document = self.document("work", "add", "a", "a1", "c", "--value", "one")
        again = self.done("work", "add", "a", "a1", "c", "--value", "one")

        self.assertEqual(
            document,
            {"added": ["c"], "changed": ["a1"], "unchanged": ["a"], "warnings": []},
        )
        self.assertEqual(again, "3 unchanged\n")
        self.assertEqual(self.writes(), before + 1)
        self.assertEqual(
            self.work(), {"a": b"one", "a1": b"one", "b": b"two", "c": b"one"}
        )

    def test_changed_later(self) -> None:
        """
        Whoever changes a value is told when it takes effect, before and after.
        """
        self.done("work", "add", "a", "--value", "one")

        shown = self.done("work", "add", "a", "--value", "two")

        self.assertIn("1 changed\n", shown)
        self.assertIn("when it is next started", shown)
        self.assertIn("is started next", self.done("work", "add", "--help"))
        self.assertNotIn("next", self.done("work", "add", "b", "--value", "two"))

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
            ("--datacenter", "a b", "status"): "--datacenter",
            ("--consul", "ftp://x", "status"): "--consul",
            ("status", "--timeout", "3"): "--timeout",
            ("nonsense",): "nonsense",
        }
        for args, named in cases.items():
            result = self.call(*args)
            self.assertEqual((args, result.exit_code), (args, 2))
            self.assertIn(named, result.stderr)

    def test_embedded(self) -> None:
        """
        An embedded Consul is somebody else's, and has an address.
        """
        for given, address in (
            ("embedded", "127.0.0.1:8500"),
            ("embedded:8600", "127.0.0.1:8600"),
        ):
            result = self.call("--consul", given, "status")
            self.assertEqual(result.exit_code, 2)
            self.assertIn(
                f"inside a twistd process: ask it at {address}", result.stderr
            )

    def test_blamed(self) -> None:
        """
        What is blamed is the option that was written, or the variable that was
        set; never the other.
        """
        given = self.call("--timeout", "0", "status", VOLTHA_COORD_TIMEOUT="3")
        self.assertIn("--timeout", given.stderr)
        self.assertNotIn("VOLTHA_COORD_TIMEOUT", given.stderr)

        cases = {
            "VOLTHA_COORD_TIMEOUT": "0",
            "VOLTHA_COORD_PREFIX": "a//b",
            "VOLTHA_COORD_CONSUL": "ftp://x",
            "CONSUL": "a:1,embedded",
            "VOLTHA_COORD_DATACENTER": "a b",
            "VOLTHA_COORD_TOKEN_FILE": "/nowhere/at/all",
            "VOLTHA_COORD_LEADER": "wise",
        }
        for name, value in cases.items():
            result = self.call("plan", **{name: value})
            self.assertEqual((name, result.exit_code), (name, 2))
            self.assertIn(f"{name} (", result.stderr)

    def test_yes(self) -> None:
        """
        The help says what --yes is for.
        """
        shown = " ".join(self.done("work", "remove", "--help").split())

        self.assertIn("With --all: do not ask.", shown)

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
        empty = self.call("doctor")
        self.assertEqual(empty.exit_code, 0)
        self.assertIn("warn  keys: nothing under service/voltha/", empty.stdout)


class ProcessTests(SynchronousTestCase):
    """
    The command as a process.
    """

    env: ClassVar[dict[str, str]] = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }

    def call(
        self, *args: str, stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """
        Call it.
        """
        return subprocess.run(
            [sys.executable, "-m", "voltha_coord.ctl", *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={**self.env, **environ},
        )

    def embedded(self) -> str:
        """
        Have a Consul of its own process, and give its address.
        """
        consul = subprocess.Popen(
            [sys.executable, "-m", "voltha_coord.embedded", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env,
        )
        assert consul.stdout is not None
        self.addCleanup(consul.stdout.close)
        self.addCleanup(consul.wait)
        self.addCleanup(consul.kill)
        for line in consul.stdout:
            found = re.search(r"http://(127\.0\.0\.1:\d+)", line)
            if found:
                return found.group(1)
        raise AssertionError("the embedded Consul ended")

    def test_all_commands(self) -> None:
        """
        Every command does its work with the one run that a reactor has in a
        process (A1).
        """
        consul = self.embedded()

        for args, stdin, said in (
            ("work add x{1..3} --value v", "", "3 added"),
            ("work add x3 x4", "", "1 added, 1 unchanged"),
            ("work list", "", "x4"),
            ("status", "", "4 wanted"),
            ("members", "", "no members"),
            ("assignments", "", "4 items"),
            ("plan", "", "nothing to do"),
            ("work remove x4", "", "1 removed"),
            ("work remove --all", "y\n", "3 removed"),
            ("work remove --all", "", "nothing to do"),
            ("work add y", "", "1 added"),
            ("work remove --all --yes", "", "1 removed"),
            ("node", "", "nothing is wanted"),
            ("node m1 maintenance --force", "", "m1: maintenance"),
            ("drain m1", "", "m1 is empty"),
            ("node m1 online", "", "was leave"),
            ("freeze --reason test", "", "frozen (test)"),
            ("unfreeze", "", "planning goes on"),
            ("doctor", "", "nothing under"),
        ):
            done = self.call("--consul", consul, *args.split(), stdin=stdin)
            self.assertEqual((args, done.returncode), (args, 0), done.stderr)
            self.assertIn(said, done.stdout)
            self.assertNotIn("Traceback", done.stderr)

    def test_refused(self) -> None:
        """
        Who says no, or nothing, or interrupts the question, keeps all.
        """
        consul = self.embedded()
        self.call("--consul", consul, "work", "add", "x", "y")

        for stdin in ("n\n", ""):
            done = self.call("--consul", consul, "work", "remove", "--all", stdin=stdin)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Remove all 2 items under service/voltha?", done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        for number, status in ((signal.SIGINT, 1), (signal.SIGTERM, -signal.SIGTERM)):
            asked = subprocess.Popen(
                [
                    sys.executable, "-m", "voltha_coord.ctl", "--consul", consul,
                    "work", "remove", "--all",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=self.env,
            )  # fmt: skip
            with asked:
                errors: Any = asked.stderr
                text = b""
                while not text.endswith(b"]: "):
                    text += (more := errors.read1())
                    self.assertNotEqual(more, b"", text)
                # A signal between a question and the wait for its answer is
                # held until the answer, in any Python.
                waiting = psutil.Process(asked.pid)
                while waiting.status() != psutil.STATUS_SLEEPING:
                    pass
                asked.send_signal(number)
                self.assertEqual(asked.wait(20), status)
        left = self.call("--consul", consul, "work", "list")
        self.assertEqual(left.stdout.count("start"), 2)

    def test_interrupted(self) -> None:
        """
        Who is interrupted puts things in order: a hand-over that was asked for
        is taken back, and nothing else is said.
        """
        consul = self.embedded()
        session = json.loads(self.http(consul, "session/create", b"{}"))["ID"]
        for entry in (member("m1"), member("m2"), *leads("m1")):
            value = entry.value.replace(session_of("m1").encode(), session.encode())
            held = f"?acquire={session}" if entry.session else ""
            self.http(consul, f"kv/{entry.key}{held}", value)
        asking = subprocess.Popen(
            [sys.executable, "-m", "voltha_coord.ctl", "--consul", consul, "transfer"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
        )
        with asking:
            while KEYS.transfer not in self.http(consul, f"kv/{KEYS.intent}?keys"):
                self.assertIsNone(asking.poll())
            asking.send_signal(signal.SIGINT)
            told = asking.communicate(timeout=20)

        self.assertEqual((asking.returncode, told), (1, ("", "Aborted!\n")))
        self.assertNotIn(KEYS.transfer, self.http(consul, f"kv/{KEYS.intent}?keys"))

    def http(self, consul: str, path: str, body: bytes | None = None) -> str:
        """
        Ask Consul, or tell it something; give its answer, empty for none.
        """
        request = Request(
            f"http://{consul}/v1/{path}", body, method="GET" if body is None else "PUT"
        )
        try:
            with urlopen(request, timeout=20) as answer:
                text: str = answer.read().decode()
                return text
        except HTTPError as error:
            with error:
                return ""

    def test_token_file(self) -> None:
        """
        A file that cannot be read is wrong usage, and what named it is named,
        once.
        """
        for name in ("CONSUL_HTTP_TOKEN_FILE", "CONSUL_CACERT", "CONSUL_CLIENT_CERT"):
            done = self.call(
                "--consul", "https://127.0.0.1:1", "status", **{name: "/no/where"}
            )
            self.assertEqual((name, done.returncode), (name, 2))
            self.assertIn(f"{name}: ", done.stderr)
            self.assertEqual(done.stderr.count("/no/where"), 1)
            self.assertNotIn("Errno", done.stderr)

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
            env=self.env,
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
