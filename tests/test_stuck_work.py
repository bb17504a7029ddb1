"""
Tests of processes whose work does not stop, or keeps them from stopping it: they
are gone before another member may begin that work (G3).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar
from urllib.request import Request, urlopen

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from tests.support.embedded import ClusterTestCase
from tests.support.real_consul import RealConsul, require_binary
from tests.support.working import StringRunner
from tests.test_twistd import Twistd
from voltha_coord._types import Steps
from voltha_coord.coordinator import Coordinator
from voltha_coord.ending import STUCK_STATUS
from voltha_coord.events import Event, WorkStuck
from voltha_coord.keys import Keys
from voltha_coord.settings import Settings, guard_seconds

#: Typed loosely: the global reactor is whatever trial installed.
reactor: Any = _reactor

#: The TTL of the processes' liveness checks, in seconds.
DETECTION = 2.0

#: Beyond the end of a lease others need so many seconds at least: what the lease
#: is shorter by than Consul's TTL, and the leader's quiet time after that.
OTHERS = guard_seconds(DETECTION) + Settings().departed_soak

KEYS = Keys("service/voltha")

PLUGIN = """
from voltha_coord.plugins import WorkerPlugin

stuck = WorkerPlugin("stuck", "voltha_coord.worker.Worker", "stuck_runner.Runner")
"""

RUNNER = '''
import os, threading, time

from twisted.internet.defer import Deferred

PLACE = os.environ["PLACE"]
KIND = os.environ["KIND"]


def note(what):
    file = os.open(os.path.join(PLACE, what), os.O_CREAT | os.O_WRONLY)
    # In one write, which a process that ends does or does not do.
    os.pwrite(file, b"%20.6f" % time.time(), 0)
    os.close(file)


class Runner:
    """
    Runs items that make themselves felt for as long as their process lives.
    """

    def start_work(self, item, report):
        note("begun")
        threading.Thread(target=self.live, daemon=True).start()
        if KIND == "spins":
            self.spin()

    def live(self):
        while True:
            note("alive")
            time.sleep(0.005)

    def spin(self):
        while True:
            pass

    def stop_work(self, item):
        if KIND == "sleeps":
            time.sleep(600)
        if KIND == "never":
            return Deferred()
'''


class MemberTests(ClusterTestCase):
    """
    Tests of what a member does about work that has not stopped.
    """

    def setUp(self) -> None:
        """
        Have nobody end.
        """
        super().setUp()
        self.happened: list[Any] = []

    def member(self, stuck_work: str, *, ends: bool) -> Coordinator:
        """
        Add a member that does that.
        """
        member = self.cluster.add(
            "a",
            settings=Settings(stuck_work=stuck_work),
            on_stuck=self.happened.append if ends else None,
        )
        member.listen(self.heard)
        return member

    def heard(self, event: Event) -> None:
        """
        Note who is told that work is stuck.
        """
        if isinstance(event, WorkStuck):
            self.happened.append(event)

    def test_exit(self) -> None:
        """
        Those who listen are told; then the process ends.
        """
        self.member("exit", ends=True).work_stuck(("x", "y"))

        self.assertEqual(self.happened, [WorkStuck(("x", "y")), ("x", "y")])
        self.assertEqual(self.logged("stuck-work-only-reported"), [])

    def test_report(self) -> None:
        """
        Where it is only to be reported the process goes on.
        """
        self.member("report", ends=True).work_stuck(("x",))

        self.assertEqual(self.happened, [WorkStuck(("x",))])

    def test_nothing_ends(self) -> None:
        """
        Where nothing was given that ends the process, that is said at the start.
        """
        member = self.member("exit", ends=False)

        self.assertEqual(len(self.logged("stuck-work-only-reported")), 1)
        member.work_stuck(("x",))
        self.assertEqual(self.happened, [WorkStuck(("x",))])

    def test_ends_badly(self) -> None:
        """
        What is to end the process and fails is said, as loudly as can be.
        """

        def fail(items: tuple[str, ...]) -> None:
            raise OSError("no")

        member = self.cluster.add(
            "a", settings=Settings(stuck_work="exit"), on_stuck=fail
        )

        member.work_stuck(("x",))

        (said,) = self.logged("process-not-ended")
        self.assertEqual((said["log_level"], said["error"]), ("critical", "no"))

    def test_unstopped(self) -> None:
        """
        What may be running is told to whoever watches over the process, also
        once it may not run any more; and until when it may.
        """
        stopping: Deferred[None] = Deferred()
        runner = StringRunner()
        runner.stops["x"] = stopping
        a = self.cluster.add("a", runner=runner)
        self.assertEqual((a.work_deadline, [*a.unstopped_work]), (None, []))
        self.cluster.put_work("x", "y")
        self.cluster.until(lambda: len(a.unstopped_work) == 2)
        self.assertGreater(a.work_deadline or 0, a.steady.seconds())
        self.cluster.network(a).partition()
        self.cluster.advance(5)

        self.assertEqual([*a.unstopped_work], ["x"])
        self.assertEqual(a.worker.my_workload, set())
        self.assertLess(a.work_deadline or 0, a.steady.seconds())
        stopping.callback(None)
        self.assertEqual([*a.unstopped_work], [])

    def test_a_worker_of_ones_own(self) -> None:
        """
        Of a worker that has nothing but the original's ``my_workload``, that may
        be running.
        """

        class Plain:
            my_workload: ClassVar[set[str]] = {"x"}

            def __init__(self, instance_id: str, coordinator: object) -> None:
                pass

        a = self.cluster.add("a", worker_class=Plain)

        self.assertEqual(a.unstopped_work, {"x"})


class StuckWorkTests(TestCase):
    """
    Tests of whole processes.
    """

    timeout = 120

    def setUp(self) -> None:
        """
        Have the modules of a worker.
        """
        self.modules = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(self.modules, "twisted", "plugins"))
        plugin = os.path.join(self.modules, "twisted", "plugins", "stuck_plugin.py")
        for path, text in (
            (plugin, PLUGIN),
            (os.path.join(self.modules, "stuck_runner.py"), RUNNER),
        ):
            with open(path, "w") as file:
                file.write(text)

    # Processes.

    def embedded_consul(self) -> tuple[int, str]:
        """
        Start a Consul in a process of its own; give its id and address.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "voltha_coord.embedded", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

        def end() -> None:
            process.kill()
            process.communicate()

        self.addCleanup(end)
        assert process.stdout is not None
        return process.pid, process.stdout.readline().split()[-1]

    def real_consul(self) -> tuple[int, str]:
        """
        Start a real one.
        """
        consul = RealConsul(require_binary())
        consul.start()

        def end() -> None:
            assert consul._process is not None
            consul._process.send_signal(signal.SIGCONT)
            consul.stop()

        self.addCleanup(end)
        assert consul._process is not None
        return consul._process.pid, consul.address

    def member(self, name: str, consul: str, kind: str, *options: str) -> Twistd:
        """
        Start a member with such work; it ends with the test.
        """
        place = os.path.abspath(self.mktemp())
        twistd = Twistd(
            place,
            f"--consul={consul}",
            "--rest-port=off",
            f"--instance-id={name}",
            "--worker=stuck",
            "--log-format=json",
            f"--failure-detection={DETECTION}",
            *options,
            modules=self.modules,
            PLACE=place,
            KIND=kind,
        )
        self.places[name] = place

        def end() -> Deferred[Any] | None:
            if twistd.ended.called:
                return None
            twistd.send(signal.SIGKILL)
            return twistd.ended

        self.addCleanup(end)
        return twistd

    @inlineCallbacks
    def working(self, consul: str, kind: str, *options: str) -> Steps[Twistd]:
        """
        Give a member that runs the one item there is.
        """
        self.places: dict[str, str] = {}
        self.put_work(consul)
        member = self.member("m1", consul, kind, *options)
        yield self.until("the item runs", lambda: self.when("m1", "begun"))
        return member

    def put_work(self, consul: str) -> None:
        """
        Add the item.
        """
        key = KEYS.work_item("x")
        request = Request(f"{consul}/v1/kv/{key}", data=b"", method="PUT")
        with urlopen(request, timeout=10) as answer:
            self.assertEqual(answer.read().strip(), b"true")

    def stop(self, pid: int) -> None:
        """
        Let a process stand still.
        """
        os.kill(pid, signal.SIGSTOP)

    # What they noted, and said.

    def when(self, name: str, what: str) -> float | None:
        """
        Give when a member's work last noted something; ``None`` for never.
        """
        try:
            with open(os.path.join(self.places[name], what)) as file:
                text = file.read()
        except FileNotFoundError:
            return None
        return float(text) if text else None

    @staticmethod
    def said(twistd: Twistd, event: str) -> dict[str, Any] | None:
        """
        Give the first line of a log with that event.
        """
        for line in twistd.said.splitlines():
            if f'"{event}"' in line:
                found: dict[str, Any] = json.loads(line)
                if found["event"] == event:
                    return found
        return None

    def deadline(self, twistd: Twistd) -> float:
        """
        Give when the lease ended, by what was said shortly before.
        """
        ending = self.said(twistd, "lease-ending")
        assert ending is not None
        at = datetime.fromisoformat(ending["time"]).timestamp()
        return float(at + ending["remaining"])

    @inlineCallbacks
    def until(
        self, what: str, found: Callable[[], Any], seconds: float = 30.0
    ) -> Steps[Any]:
        """
        Look again and again, until something is found.
        """
        end = time.monotonic() + seconds
        while True:
            result = found()
            if result:
                return result
            if time.monotonic() > end:
                self.fail(f"not within {seconds} s: {what}")
            yield deferLater(reactor, 0.02, lambda: None)

    @inlineCallbacks
    def ends_stuck(self, twistd: Twistd) -> Steps[None]:
        """
        Wait for the end of a process, which is that of stuck work.
        """
        how = yield twistd.ended
        self.assertEqual((how.exitCode, how.signal), (STUCK_STATUS, None), twistd.said)

    def assert_in_time(self, twistd: Twistd) -> None:
        """
        Check that work was over before others could begin it, and not long
        before.
        """
        alive = self.when("m1", "alive")
        assert alive is not None
        late = alive - self.deadline(twistd)
        self.assertLess(late, OTHERS)
        self.assertGreater(late, -0.5)

    # The tests.

    @inlineCallbacks
    def test_never_stops(self) -> Steps[None]:
        """
        A process whose work does not stop ends when the lease does, with a status
        of its own, and says why.
        """
        pid, consul = self.embedded_consul()
        member = yield self.working(consul, "never")
        self.stop(pid)

        yield self.ends_stuck(member)

        self.assert_in_time(member)
        stuck = self.said(member, "work-stuck")
        assert stuck is not None
        self.assertEqual((stuck["level"], stuck["some"]), ("critical", ["x"]))

    @inlineCallbacks
    def test_never_stops_with_a_real_consul(self) -> Steps[None]:
        """
        So it is with a real Consul.
        """
        pid, consul = self.real_consul()
        member = yield self.working(consul, "never")
        self.stop(pid)

        yield self.ends_stuck(member)

        self.assert_in_time(member)

    @inlineCallbacks
    def test_blocks_when_stopped(self) -> Steps[None]:
        """
        So it does where the work blocks the process as soon as it is to stop.
        """
        pid, consul = self.embedded_consul()
        member = yield self.working(consul, "sleeps")
        self.stop(pid)

        yield self.ends_stuck(member)

        self.assert_in_time(member)
        blocked = self.said(member, "reactor-blocked")
        assert blocked is not None
        self.assertEqual((blocked["level"], blocked["some"]), ("critical", ["x"]))
        self.assertRegex(blocked["blocked_in"][0], r"stuck_runner\.py:\d+ in stop_work")

    @inlineCallbacks
    def test_blocks_from_the_start(self) -> Steps[None]:
        """
        So it does where the work blocks the process all the while, and Consul is
        well: it is gone before another member begins the same work.
        """
        _, consul = self.embedded_consul()
        member = yield self.working(consul, "spins")
        self.member("m2", consul, "never", "--no-lead")
        self.member("m3", consul, "never", "--weight=0.001")

        yield self.ends_stuck(member)
        begun = yield self.until(
            "another begins",
            lambda: self.when("m2", "begun") or self.when("m3", "begun"),
        )

        alive = self.when("m1", "alive")
        assert alive is not None
        self.assertLess(alive, begun)
        blocked = self.said(member, "reactor-blocked")
        assert blocked is not None
        self.assertRegex(blocked["blocked_in"][0], r"stuck_runner\.py:\d+ in spin")

    @inlineCallbacks
    def test_reported(self) -> Steps[None]:
        """
        With ``--stuck-work report`` it is said, and the process goes on.
        """
        pid, consul = self.embedded_consul()
        member = yield self.working(consul, "never", "--stuck-work=report")
        self.stop(pid)

        yield self.until("it is said", lambda: self.said(member, "work-stuck"))
        yield deferLater(reactor, 1.0, lambda: None)

        alive = self.when("m1", "alive")
        assert alive is not None
        self.assertGreater(alive, self.deadline(member) + 0.5)
        self.assertFalse(member.ended.called)

    @inlineCallbacks
    def test_stood_still(self) -> Steps[None]:
        """
        A process that stood still for longer than its lease goes on, where its
        work stops: nobody blocked it.
        """
        _, consul = self.embedded_consul()
        member = yield self.working(consul, "stops")
        begun = self.when("m1", "begun")
        self.stop(member.transport.pid)
        yield deferLater(reactor, 2 * DETECTION + 1, lambda: None)
        member.send(signal.SIGCONT)

        yield self.until("the item runs", lambda: self.when("m1", "begun") != begun)

        self.assertFalse(member.ended.called)
        self.assertIsNone(self.said(member, "reactor-blocked"))
