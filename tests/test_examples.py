"""
Tests that run the examples.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import treq
from attrs import evolve
from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import Clock, deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web.client import Agent

from voltha_coord._types import Steps
from voltha_coord.embedded.http import listen
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import Member, WorkItem

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MY_PLUGIN = EXAMPLES / "my_plugin"

#: How long an example may take for what it is to do, in seconds.
PATIENCE_SECONDS = 45.0


class Running(ProcessProtocol):
    """
    An example as a process.
    """

    def __init__(self) -> None:
        self.output = b""
        self.ended: Deferred[None] = Deferred()

    def outReceived(self, data: bytes) -> None:
        """
        Keep what it prints.
        """
        self.output += data

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        """
        Tell that it is over.
        """
        self.ended.callback(None)


class ExampleTestCase(TestCase):
    """
    Examples as processes, beside an embedded Consul.
    """

    def setUp(self) -> None:
        """
        Have a Consul that listens.
        """
        self.reactor: Any = reactor
        port = listen(self.reactor)
        self.addCleanup(port.stopListening)
        address: Any = port.getHost()
        self.consul = f"127.0.0.1:{address.port}"
        self.agent = Agent(self.reactor)

    def start(self, args: list[str], *paths: Path) -> Running:
        """
        Run Python; it is ended with the test.
        """
        example = Running()
        found = [str(path) for path in paths] + [path for path in sys.path if path]
        self.reactor.spawnProcess(
            example,
            sys.executable,
            [sys.executable, *args],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(found),
                "CONSUL": self.consul,
            },
        )
        self.addCleanup(self.end, example)
        return example

    @inlineCallbacks
    def end(self, example: Running) -> Steps[None]:
        """
        End a process, unless it has ended.
        """
        if example.transport is not None and not example.ended.called:
            example.transport.signalProcess(signal.SIGTERM.name[3:])
        yield example.ended

    @inlineCallbacks
    def put(self, key: str, value: bytes) -> Steps[None]:
        """
        Write a key.
        """
        url = f"http://{self.consul}/v1/kv/service/voltha/{key}"
        response = yield treq.put(url, value, agent=self.agent)
        yield treq.content(response)

    @inlineCallbacks
    def until(self, example: Running, done: Callable[[], Any]) -> Steps[None]:
        """
        Wait for something; fail with what the example printed.
        """
        deadline = self.reactor.seconds() + PATIENCE_SECONDS
        while not (yield done()):
            if self.reactor.seconds() > deadline or example.ended.called:
                self.fail(example.output.decode("utf-8", "replace"))
            yield deferLater(self.reactor, 0.2, lambda: None)


class EmbedTests(ExampleTestCase):
    """
    ``embed.py``.
    """

    @inlineCallbacks
    def test_embed(self) -> Steps[None]:
        """
        The server does what is assigned to it, refuses what is not, and is told
        of its role.
        """
        free = listen(self.reactor)
        address: Any = free.getHost()
        number = address.port
        yield maybeDeferred(free.stopListening)
        example = self.start([str(EXAMPLES / "embed.py"), "web-1", str(number)])
        yield self.put("work/x", b"")

        @inlineCallbacks
        def ask(item: str) -> Steps[tuple[int, str]]:
            try:
                url = f"http://127.0.0.1:{number}/{item}"
                response = yield treq.get(url, agent=self.agent)
            except Exception:
                # It does not listen yet.
                return 0, ""
            text = yield treq.text_content(response)
            return response.code, text

        yield self.until(
            example, lambda: ask("x").addCallback(lambda answer: answer[0] == 200)
        )

        self.assertEqual((yield ask("x")), (200, "x: done by web-1\n"))
        self.assertEqual((yield ask("y"))[0], 404)
        self.assertIn(b"RoleChanged(role='leader'", example.output)

    def test_short(self) -> None:
        """
        It is short enough to be read.
        """
        text = (EXAMPLES / "embed.py").read_text()

        self.assertLessEqual(len(text.splitlines()), 60)


class MyPluginTests(ExampleTestCase):
    """
    ``my_plugin`` under twistd.
    """

    @inlineCallbacks
    def test_plugin(self) -> Steps[None]:
        """
        Both plugins are found by their names, and the item does what its value
        says.
        """
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        beats = folder / "beats"
        example = self.start(
            [
                "-c", "from twisted.scripts.twistd import run; run()",
                "-n", f"--pidfile={folder}/pid", "voltha_coord",
                "--instance-id", "m1", "--rest-port", "off",
                "--worker", "heartbeat", "--leader", "standby",
            ],
            MY_PLUGIN,
        )  # fmt: skip
        value = b'{"config": {"file": "%s", "every": 0.1}}' % str(beats).encode()
        yield self.put("work/beat", value)

        yield self.until(
            example, lambda: beats.exists() and "beat 3\n" in beats.read_text()
        )

        self.assertEqual(beats.read_text().splitlines()[:2], ["beat 1", "beat 2"])


class HeartbeatTests(SynchronousTestCase):
    """
    The runner of the example.
    """

    def setUp(self) -> None:
        """
        Import it as one who has it on the path.
        """
        path = list(sys.path)
        self.addCleanup(lambda: sys.path.__setitem__(slice(None), path))
        sys.path.insert(0, str(MY_PLUGIN))
        import my_plugin

        self.module = my_plugin

    def item(self, **config: object) -> WorkItem:
        """
        Give an item.
        """
        return WorkItem("beat", config=config)

    def test_counts_on(self) -> None:
        """
        A moved item counts on from what its owner before handed over.
        """
        clock = Clock()
        runner = self.module.Heartbeat(clock)
        file = Path(self.mktemp())
        item = self.item(file=str(file))

        runner.start_work(item, b"41")
        clock.advance(1)
        runner.stop_work(item)
        clock.advance(5)

        self.assertEqual(file.read_text(), "beat 42\nbeat 43\n")
        self.assertEqual(runner.report(item), b"43")
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_update(self) -> None:
        """
        A changed item goes on in its new file.
        """
        clock = Clock()
        runner = self.module.Heartbeat(clock)
        first, second = Path(self.mktemp()), Path(self.mktemp())

        runner.start_work(self.item(file=str(first)), None)
        runner.update_work(self.item(file=str(second), every=0.5))
        clock.advance(0.5)
        runner.stop_work(self.item())

        self.assertEqual(first.read_text(), "beat 1\n")
        self.assertEqual(second.read_text(), "beat 2\nbeat 3\n")

    def test_no_file(self) -> None:
        """
        An item without a file does not start.
        """
        runner = self.module.Heartbeat(Clock())

        self.assertRaises(KeyError, runner.start_work, self.item(), None)
        runner.stop_work(self.item())

    def test_standby(self) -> None:
        """
        One member gets everything; what it has stays; another takes over when
        it is gone; in its own plan's outcome nothing is planned.
        """
        planner = self.module.StandbyPlanner()

        def placements(
            members: str, assigned: dict[str, dict[str, bytes]]
        ) -> tuple[set[str], int]:
            state = ClusterState(
                members={name: Member(name, session="s") for name in members},
                work={"x": b"", "y": b""},
                assignments=assigned,
            )
            plan = planner.plan(state)
            return set(plan.placements.values()), len(plan.operations)

        self.assertEqual(placements("ab", {}), ({"a"}, 2))
        held = {"b": {"x": b"", "y": b""}}
        self.assertEqual(placements("ab", held), ({"b"}, 0))
        self.assertEqual(placements("a", held), ({"a"}, 2))
        self.assertEqual(placements("ab", {"b": {"x": b"", "gone": b""}}), ({"b"}, 2))
        self.assertEqual(placements("", held), (set(), 0))

    def test_planner_in_maintenance(self) -> None:
        """
        What a member in maintenance has stays with it; the active one gets the
        rest; with nobody to take the rest, that is told.
        """
        planner = self.module.StandbyPlanner()
        state = ClusterState(
            members={name: Member(name, session="s") for name in "ab"},
            work={"x": b"", "y": b""},
            assignments={"a": {"x": b""}},
            node_intents={"a": "maintenance"},
        )

        self.assertEqual(planner.plan(state).placements, {"x": "a", "y": "b"})
        self.assertEqual(len(planner.plan(state).operations), 1)
        alone = evolve(state, members={"a": state.members["a"]})
        self.assertEqual(set(planner.plan(alone).errors), {"y"})
