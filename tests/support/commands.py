"""
``voltha-coordctl`` called in a test, on an embedded Consul, without a reactor.
"""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.ctl.commands import voltha_coordctl
from voltha_coord.ctl.invocation import Invocation
from voltha_coord.ctl.run import Action, Target
from voltha_coord.keys import Keys

from .embedded import ClusterTestCase
from .keyspace import KEYS
from .recording import RecordedConsul


class Calls(SynchronousTestCase):
    """
    Calls the command; a subclass says where an action is done.
    """

    def invocation(self) -> Invocation:
        """
        Give one that does actions here.
        """
        raise NotImplementedError

    def call(self, *args: str, stdin: str = "", **environ: str) -> Result:
        """
        Call the command.
        """
        return CliRunner().invoke(
            voltha_coordctl,
            args,
            input=stdin,
            env=environ,
            obj=self.invocation(),
            prog_name="voltha-coordctl",
        )

    def done(self, *args: str, **options: str) -> str:
        """
        Call the command, which succeeds, and give what it prints.
        """
        result = self.call(*args, **options)
        self.assertEqual((result.exit_code, result.stderr), (0, ""))
        return result.stdout

    def refused(self, *args: str, status: int = 1) -> str:
        """
        Call the command, which does nothing, and give the one line that says
        why.
        """
        result = self.call(*args)
        self.assertEqual((result.exit_code, result.stdout), (status, ""))
        self.assertNotIn("Traceback", result.stderr)
        if status == 1:
            self.assertEqual(result.stderr.count("\n"), 1)
        return result.stderr.removeprefix("Error: ").rstrip("\n")

    def document(self, *args: str) -> dict[str, Any]:
        """
        Call the command with --json, and give its document.
        """
        document: dict[str, Any] = json.loads(self.done("--json", *args))
        return document


class CommandTestCase(Calls):
    """
    Has a Consul, and no member.

    :ivar clock: what commands wait on; it goes on while one is called.
    :ivar target: of the last call.
    """

    def setUp(self) -> None:
        """
        Have a Consul.
        """
        self.clock = Clock()
        self.consul = RecordedConsul(self.clock)
        self.addCleanup(self.consul.stop)
        self.target: Target | None = None
        self.runs = 0

    def invocation(self) -> Invocation:
        """
        Give one that does actions in memory.
        """
        self.runs = 0
        return Invocation(self.run_action, lambda: self.clock)

    def run_action(self, target: Target, action: Action) -> Any:
        """
        Do an action as the real command does, but in memory.
        """
        self.target = target
        self.runs += 1
        # A reactor runs once in the life of a process.
        self.assertEqual(self.runs, 1)
        results: list[Any] = []
        action(self.consul.api(), Keys(target.prefix)).addBoth(results.append)
        while not results:
            self.clock.advance(0.01)
            self.passed()
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def passed(self) -> None:
        """
        Called again and again while a command waits.
        """

    def put(self, *entries: Entry) -> None:
        """
        Have these entries in Consul.  Sessions are made as they are needed.
        """
        with self.consul.state.entry() as index:
            for entry in entries:
                stamped = entry._replace(create_index=index, modify_index=index)
                self.consul.state.kv.apply([(entry.key, stamped, False)], index)

    def remove(self, *keys: str) -> None:
        """
        Have these keys in Consul no more.
        """
        with self.consul.state.entry() as index:
            for key in keys:
                self.consul.state.kv.apply([(key, None, False)], index)

    def values(self, prefix: str) -> dict[str, bytes]:
        """
        Give what is in Consul under a prefix.
        """
        return {
            entry.key.removeprefix(prefix): entry.value
            for entry in self.consul.state.kv.walk(prefix)
        }

    def work(self) -> dict[str, bytes]:
        """
        Give the work items in Consul.
        """
        return self.values(KEYS.work)

    def writes(self) -> int:
        """
        Count the entries that were written to Consul's log since it began.
        """
        return self.consul.state.index


class ClusterCommandTestCase(ClusterTestCase, Calls):
    """
    Has a cluster, whose members act while a command is called.
    """

    def invocation(self) -> Invocation:
        """
        Give one that does actions beside the members.
        """
        cluster = self.cluster

        def run(target: Target, action: Action) -> Any:
            return cluster.result(action(cluster.api, cluster.keys), 1000)

        return Invocation(run, lambda: cluster.clock)
