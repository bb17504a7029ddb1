"""
A cluster that runs commands: real members, a real Consul, real processes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
from typing import Any

import psutil
from twisted.internet import reactor as _reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from voltha_coord._types import Steps
from voltha_coord.consul.model import Entry
from voltha_coord.keys import Keys

from .support.real_consul import RealConsul, shared_consul
from .test_twistd import Twistd

#: Typed loosely: the global reactor is whatever trial installed.
reactor: Any = _reactor

MIB = 2**20

#: What is wanted: twelve commands, some of which cannot or may not run.
PLAIN = {f"sleep{n}": ["sleep", "1000"] for n in range(6)}
CHATTY = {"chatty": ["sh", "-c", "echo working; exec sleep 1000"]}
#: Works hard for some time, once; it is told of a file that says that it has.
HARD = (
    'sleep 3; [ -e "$0" ] || '
    "{ touch \"$0\"; timeout 8 sh -c 'while :; do :; done'; }; exec sleep 1000"
)
FAILING = {"failing": ["sh", "-c", "echo no luck; exit 3"]}
WELL = {*PLAIN, *CHATTY, "busy", "mate"}

#: What a member may use of CPU, in percent of one core.
CPU_LIMIT = 10


def processes_of(prefix: str) -> dict[str, list[str]]:
    """
    Give the members under which each item really runs on this machine, by the
    environment that its process was given.
    """
    found: dict[str, list[str]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            environ = process.environ()
            member = environ.get("VOLTHA_COORD_INSTANCE_ID", "")
            if not member.startswith(prefix) or process.status() == "zombie":
                continue
            # Of a group the one that leads it stands for all.
            if os.getpgid(process.pid) == process.pid:
                work = environ["VOLTHA_COORD_WORK_ID"]
                found.setdefault(work, []).append(member)
    return found


class CommandsTests(TestCase):
    """
    Three members, twelve commands.
    """

    timeout = 150

    @inlineCallbacks
    def setUp(self) -> Steps[None]:  # type: ignore[override]
        """
        Start the members.
        """
        self.consul: RealConsul = shared_consul()
        self.name = f"t{os.getpid()}"
        self.keys = Keys(f"commands/{self.name}")
        self.members: dict[str, Twistd] = {}
        for letter in "abc":
            self.start(f"{self.name}{letter}")
        yield self.until("members", lambda: len(self.entries(self.keys.members)) == 3)

    def start(self, member: str) -> None:
        """
        Start a member, which ends with the test at the latest.
        """
        directory = os.path.abspath(self.mktemp())
        twistd = Twistd(
            directory,
            f"--consul={self.consul.address}",
            f"--prefix={self.keys.prefix}",
            f"--instance-id={member}",
            "--rest-port=off",
            "--leader=resource",
            "--worker=process",
            "--allow-command=*/sleep",
            "--allow-command=*/sh",
            f"--state-directory={directory}/state",
            # All three are on one machine: each counts what it runs itself.
            "--measure=work",
            f"--max-cpu={CPU_LIMIT / (os.cpu_count() or 1)}",
            f"--max-memory={100 * 900 * MIB / psutil.virtual_memory().total}",
            "--node-recover-timeout=5",
            "--drain-timeout=20",
        )
        self.members[member] = twistd

        @inlineCallbacks
        def end() -> Steps[None]:
            if not twistd.ended.called:
                twistd.send(signal.SIGKILL)
                yield twistd.ended

        self.addCleanup(end)

    @inlineCallbacks
    def until(self, what: str, found: Any, seconds: float = 30.0) -> Steps[Any]:
        """
        Look again and again, until something is found.
        """
        end = reactor.seconds() + seconds
        while True:
            result = found()
            if result:
                return result
            if reactor.seconds() > end:
                self.fail(f"not within {seconds} s: {what}; {self.as_it_is()}")
            yield deferLater(reactor, 0.1, lambda: None)

    def as_it_is(self) -> str:
        """
        Say what runs, and what the members said last.
        """
        said = {name: one.said[-600:] for name, one in self.members.items()}
        errors = {e.key: e.value for e in self.entries(self.keys.errors)}
        return f"{processes_of(self.name)} {errors} {said}"

    # Consul.

    def entries(self, prefix: str) -> list[Entry]:
        """
        Give the keys under a prefix.
        """
        try:
            rows = self.consul.ask("GET", f"/v1/kv/{prefix}?recurse")
        except OSError as error:
            if ": 404 " in str(error):
                return []
            raise
        return [Entry.from_json(row) for row in rows]

    def put(self, key: str, value: bytes) -> None:
        """
        Write a key.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.consul.port)
        with contextlib.closing(connection):
            connection.request("PUT", f"/v1/kv/{key}", value)
            self.assertEqual(connection.getresponse().status, 200)

    def add(self, work: str, command: list[str], **fields: Any) -> None:
        """
        Add an item, which has room on each member several times over.
        """
        item = {
            "config": {"command": command, "reconnect_delay": 1},
            "limits": {"cpu": 0.5, "memory": 100 * MIB},
            **fields,
        }
        self.put(self.keys.work_item(work), json.dumps(item).encode())

    def errors(self) -> dict[str, str]:
        """
        Give why items do not run.
        """
        start = len(self.keys.errors)
        return {e.key[start:]: e.value.decode() for e in self.entries(self.keys.errors)}

    def assigned(self) -> dict[str, str]:
        """
        Give the member that is to run each item.
        """
        start = len(self.keys.assignments)
        names = (e.key[start:].split("/") for e in self.entries(self.keys.assignments))
        return {work: member for member, work in names}

    def leader(self) -> str:
        """
        Give who leads.
        """
        entries = self.entries(self.keys.leader)
        return entries[0].value.decode() if entries else ""

    def all_run(self, *but: str) -> bool:
        """
        Whether each item that can runs, once, on the member that is to run it.
        """
        found = processes_of(self.name)
        assigned = self.assigned()
        return all(
            found.get(work) == [assigned.get(work)] for work in WELL if work not in but
        )

    def no_copies(self) -> None:
        """
        See that nothing runs twice.
        """
        copies = {w: m for w, m in processes_of(self.name).items() if len(m) > 1}
        self.assertEqual(copies, {})

    @inlineCallbacks
    def test_twelve_commands(self) -> Steps[None]:
        """
        What can run does, once, whatever becomes of members; what cannot has an
        error that says why (the acceptance of the resource leader).
        """
        for work, command in {**PLAIN, **CHATTY, **FAILING}.items():
            self.add(work, command)
        self.add("bare", ["sleep", "1000"], limits={})
        self.add("giant", ["sleep", "1"], limits={"cpu": 0.5, "memory": 10**18})
        self.add("refused", ["env"])
        marker = os.path.abspath(self.mktemp())
        self.add("busy", ["sh", "-c", HARD, marker], reference="pair")
        self.add("mate", ["sleep", "1000"], reference="pair")
        yield self.until("all run", self.all_run)
        yield self.until("errors", lambda: len(self.errors()) == 4)

        errors = self.errors()
        self.assertIn("exit status 3", errors["failing"])
        self.assertEqual(errors["bare"], "this process has no limits defined")
        self.assertIn("no node with enough resources", errors["giant"])
        self.assertIn("--allow-command", errors["refused"])
        self.no_copies()
        used = set(self.assigned().values())
        self.assertEqual(used, {*self.members})

        # Rebalancing: a member that has too much to do gives something up.
        together = self.assigned()
        self.assertEqual(together["mate"], together["busy"])
        leading = self.members[self.leader()]
        yield self.until("moved", lambda: "work-moves" in leading.said, 40.0)
        yield self.until("calm", lambda: self.is_calm() and self.all_run())
        self.no_copies()

        # One member is put in maintenance, another one killed.
        leader = self.leader()
        resting, dying = sorted(name for name in self.members if name != leader)
        self.put(self.keys.node_intent(resting), b"maintenance")
        before = self.assigned()
        self.members[dying].send(signal.SIGKILL)
        yield self.members[dying].ended
        yield self.until("its commands die with it", lambda: self.is_gone(dying), 5.0)
        lost = {work for work, member in before.items() if member == dying}
        self.assertTrue(lost)
        yield self.until("placed anew", lambda: self.all_placed(lost, leader))
        yield self.until("all run anew", self.all_run)
        self.no_copies()
        after = self.assigned()
        for work in WELL:
            kept = before[work] if work not in lost else leader
            self.assertEqual(after[work], kept, work)

        # All end in order, and nothing is left.
        for name in (resting, leader):
            self.members[name].send(signal.SIGTERM)
        for name in (resting, leader):
            yield self.members[name].ended
        self.assertEqual(processes_of(self.name), {})

    def is_calm(self) -> bool:
        """
        Whether no member says that it has too much to do.
        """
        reports = (json.loads(e.value) for e in self.entries(self.keys.statuses))
        return all(report["node"]["cpu"] < CPU_LIMIT for report in reports)

    def is_gone(self, member: str) -> bool:
        """
        Whether nothing runs any more that a member started.
        """
        return all(member not in who for who in processes_of(self.name).values())

    def all_placed(self, items: set[str], member: str) -> bool:
        """
        Whether a member is to run items, those aside that cannot run.
        """
        assigned = self.assigned()
        return all(assigned.get(w) == member for w in items if w in WELL)
