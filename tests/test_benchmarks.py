"""
Tests of the benchmarks: what they reckon, that nothing outlives them, and that each
can still be made.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import psutil
from twisted.internet import reactor as _reactor
from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import SkipTest, SynchronousTestCase, TestCase

from voltha_coord._types import Steps
from voltha_coord.embedded.http import listen

from .support.real_consul import require_binary

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

#: Typed loosely: the global reactor is whatever trial installed.
reactor: Any = _reactor


def imported(name: str) -> Any:
    """
    Import a module of the benchmarks.
    """
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


figures = imported("_figures")
records = imported("_records")
bench = imported("_bench")
http = imported("_http")
run = imported("run")

#: The benchmarks of whole clusters.
OF_CLUSTERS = ("failures", "handover", "move", "outage", "takeover", "worker")

NOTHING = figures.Target(None)


class FigureTests(SynchronousTestCase):
    """
    What is made of what repetitions took.
    """

    def took(self, *seconds: float) -> list[Any]:
        """
        Give figures of so many seconds.
        """
        return [figures.Figure(s) for s in seconds]

    def test_line(self) -> None:
        """
        A line tells median and worst, what was promised, and whether it was kept.
        """
        worst = figures.line("x", self.took(1.0, 3.0, 2.0), figures.Target(3.0))
        median = figures.line("x", self.took(0.1, 0.3), figures.Target(0.1, "median"))

        self.assertEqual(worst, "| x | 3 | 2.00 s | 3.00 s | ≤ 3 s worst | met |")
        self.assertEqual(
            median, "| x | 2 | 200 ms | 300 ms | ≤ 0.1 s median | MISSED |"
        )

    def test_without_a_promise(self) -> None:
        """
        Where nothing was promised there is no verdict.
        """
        odd = figures.Figure(100.0, counts={"items stopped": 9})
        self.assertTrue(figures.met([odd], None))
        self.assertTrue(figures.line("x", self.took(1.0), None).endswith("|  |  |"))

    def test_counts_are_to_be_nothing(self) -> None:
        """
        However quick it was: what was to happen never, and did, is a miss.
        """
        calm, not_calm = (
            figures.Figure(9.0, counts={"items stopped": n}) for n in (0, 1)
        )

        self.assertTrue(figures.met([calm, calm], NOTHING))
        self.assertFalse(figures.met([calm, not_calm], NOTHING))
        self.assertEqual(
            figures.notes([not_calm, not_calm]), ["in all runs: items stopped: 2"]
        )

    def test_parts(self) -> None:
        """
        Parts are what each step took after the one before, in medians.
        """
        parts = figures.steps(10.0, {"a": 10.5, "b": 12.0})
        found = figures.Figure(2.0, parts=parts, also={"c": 0.25})

        self.assertEqual(
            figures.notes([found]),
            [
                "of that (medians): a 500 ms, b 1.50 s",
                "beside it (medians): c 250 ms",
            ],
        )


class RecordTests(SynchronousTestCase):
    """
    What is known of the work from what members wrote down.
    """

    def history(self, *lines: str) -> list[Any]:
        """
        Read lines without their time, one a second.
        """
        return [records.Record.read(f"{at} {line}") for at, line in enumerate(lines)]

    def test_running(self) -> None:
        """
        An item runs where it was started last, until it is stopped there or the
        member is killed.
        """
        found = self.history(
            "a started x",
            "a started y",
            "b started z",
            "b started y",
            "a stopped y",
            "b stopped z",
            "a killed -",
        )

        self.assertEqual(records.running(found), {"y": "b"})
        self.assertEqual(records.running(found[:5]), {"x": "a", "y": "b", "z": "b"})

    def test_twice(self) -> None:
        """
        An item that is started where it does not run, before it was stopped where
        it does, runs twice; that of a killed member does not, nor one that is
        started again where it is.
        """
        found = self.history(
            "a started x",
            "a started y",
            "b started x",
            "a killed -",
            "b started y",
            "b stopped y",
            "a started y",
            "a started y",
        )

        self.assertEqual(records.twice(found), [found[2]])

    def test_restarted(self) -> None:
        """
        Work is elsewhere when the last of its items was first started there.
        """
        found = self.history(
            "a started x", "b started x", "c started y", "b started y", "b started x"
        )

        def elsewhere(member: str) -> bool:
            return bool(member != "a")

        self.assertEqual(records.restarted(found, ["x", "y"], elsewhere), 2.0)
        self.assertIsNone(records.restarted(found, ["x", "z"], elsewhere))

    def test_file(self) -> None:
        """
        What several write into the file is read in the order of time, once each.
        """
        path = Path(self.mktemp())
        kept = records.Records(path)
        with path.open("a") as file:
            file.write("0.2 a started x\n0.1 b started y\n")
        self.assertEqual([r.member for r in kept.all()], ["b", "a"])

        at = kept.note("a", records.KILLED)

        self.assertEqual(
            [(r.member, r.what) for r in kept.since(at - 0.001)], [("a", "killed")]
        )
        self.assertEqual(len(kept.all()), 3)


class MeasureTests(SynchronousTestCase):
    """
    How experiments are made and told.
    """

    def setUp(self) -> None:
        """
        Nothing has been made yet.
        """
        self.made: list[tuple[str, int]] = []

    def experiment(self, what: str, *found: float, **kw: Any) -> Any:
        """
        Give an experiment that finds these seconds, or fails without any.
        """

        def make(given: Any, times: int) -> list[Any]:
            self.made.append((what, times))
            if not found:
                raise http.Stuck("it never came")
            return [figures.Figure(s, parts={"all": s}) for s in found]

        return bench.Experiment(what, make, 1.0, figures.Target(1.0), **kw)

    def measure(self, *experiments: Any, arguments: Sequence[str] = ()) -> int:
        """
        Make them, outside of any sandbox; keep what is printed.
        """
        options = bench.parse(arguments, {})
        sandbox = imported("_sandbox").Sandbox(Path(self.mktemp()), isolated=False)
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                status: int = bench.measure("t", experiments, options, sandbox)
                return status
        finally:
            self.printed = printed.getvalue()

    def test_as_often_as_is_asked_for(self) -> None:
        """
        Each is made thirty times, with the original three times; the command line
        and the environment may say otherwise, and which.
        """
        one = self.experiment("one", 0.5)
        few = self.experiment("few", 0.5, most=10)
        old = self.experiment("old", 0.5, original=True)

        self.measure(one, few, old)
        self.assertEqual(self.made, [("one", 30), ("few", 10), ("old", 3)])

        self.made.clear()
        self.measure(one, old, arguments=["--repeat", "2", "--originals", "0"])
        self.assertEqual(self.made, [("one", 2)])

        self.made.clear()
        self.measure(one, old, arguments=["--only", "ol"])
        self.assertEqual(self.made, [("old", 3)])
        given = bench.parse([], {"BENCH_REPEAT": "4", "BENCH_ORIGINALS": ""})
        self.assertEqual((given.repeat, given.originals), (4, 3))

    def test_status_tells_of_a_miss(self) -> None:
        """
        The exit status is 1 when something was slower than is promised; what comes
        after it is made all the same.
        """
        good = self.experiment("good", 0.5)

        self.assertEqual(self.measure(good), 0)
        self.assertEqual(self.measure(self.experiment("slow", 1.5), good), 1)

        self.assertIn("MISSED", self.printed)
        self.assertIn("| good | 1 | 500 ms |", self.printed)
        self.assertIn("- good: of that (medians): all 500 ms", self.printed)
        self.assertIn("load average", self.printed)

    def test_without_machines(self) -> None:
        """
        Where no namespaces can be made, what needs them is said not to be measured.
        """
        far = self.experiment("far", 0.5, machines=True)

        self.assertEqual(self.measure(far), 0)

        self.assertEqual(self.made, [])
        self.assertIn("not measured", self.printed)

    def test_what_was_found_is_told_before_a_failure(self) -> None:
        """
        An experiment that fails takes nothing away from those before it.
        """
        with self.assertRaises(http.Stuck):
            self.measure(self.experiment("good", 0.5), self.experiment("bad"))

        self.assertIn("- good: of that (medians): all 500 ms", self.printed)


class WaitingTests(SynchronousTestCase):
    """
    Waiting for something that may never come.
    """

    def test_no_answer_is_waited_out(self) -> None:
        """
        Whoever does not answer is asked again.
        """
        answers: Iterator[str] = iter(["", "", "found"])

        def look() -> str:
            answer = next(answers)
            if not answer:
                raise http.NoAnswer("refused")
            return answer

        self.assertEqual(http.until("it", look, 5.0, each=0.0), "found")

    def test_no_longer_than_patience(self) -> None:
        """
        What does not come is named.
        """
        error = self.assertRaises(http.Stuck, http.until, "rain", lambda: None, 0.0)

        self.assertIn("rain", str(error))


class ExperimentTests(SynchronousTestCase):
    """
    What there is to be made.
    """

    def test_each_can_be_called(self) -> None:
        """
        Each line of a table has a name of its own, and takes what it is given.
        """
        for name in OF_CLUSTERS:
            experiments = imported(f"bench_{name}").EXPERIMENTS
            names = [experiment.what for experiment in experiments]
            self.assertEqual(sorted(set(names)), sorted(names))
            self.assertTrue(any(experiment.original for experiment in experiments))
            for experiment in experiments:
                inspect.signature(experiment.run).bind(None, 1)
                self.assertGreater(experiment.seconds, 0)

    def test_each_is_found_by_its_name(self) -> None:
        """
        All are run, or those that are named; a name that is none is refused.
        """
        found = [script.stem for script in run.scripts([])]
        self.assertLessEqual({f"bench_{name}" for name in OF_CLUSTERS}, {*found})
        self.assertEqual([s.stem for s in run.scripts(["move"])], ["bench_move"])

        error = self.assertRaises(SystemExit, run.scripts, ["moves"])

        self.assertIn("takeover", str(error))


class FakeMember:
    """
    A member, and its agent and machine, that are told what becomes of them.
    """

    def __init__(self, name: str, did: Callable[[str], None]) -> None:
        self.name = name
        self.wanted = self.alive = True
        self.agent = self
        self.machine = self
        self._did = did

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self._did(f"{name} {self.name}")


class FakeCluster:
    """
    A cluster of two, of which the first leads.
    """

    leader, follower, original = "m1", "m2", False

    def __init__(self) -> None:
        self.did: list[str] = []
        self.members = {n: FakeMember(n, self.did.append) for n in ("m1", "m2")}

    def until_settled(self) -> None:
        """
        It has.
        """

    def items_of(self, name: str) -> list[str]:
        """
        It has one.
        """
        return [f"of-{name}"]

    def until_elsewhere(self, since: float, items: Sequence[str], victim: str) -> float:
        """
        After four seconds.
        """
        self.did.append(f"waited for {items[0]}")
        return since + 4.0

    def twice(self, since: float) -> list[str]:
        """
        Give nothing.
        """
        return []

    def note_end(self, name: str) -> None:
        """
        It has ended.
        """


class FieldTests(SynchronousTestCase):
    """
    Clusters that fail side by side.
    """

    def setUp(self) -> None:
        """
        Two clusters.
        """
        self.failures = imported("bench_failures")
        self.clusters = [FakeCluster(), FakeCluster()]

        class NoWait(Random):
            def random(self) -> float:
                return 0.0

        given = bench.Bench(None, None, NoWait())
        self.field = self.failures.Field(self.clusters, given)

    def test_those_that_lead_in_turn(self) -> None:
        """
        Once the one that does not lead fails, once the one that does; each is
        waited for, and then mended.
        """
        failed = []

        def fail(cluster: FakeCluster, victim: FakeMember) -> float:
            failed.append(victim.name)
            victim.alive = victim.wanted = False
            return 1.0

        found = self.field.wave(fail, 2)

        self.assertEqual(failed, ["m2", "m1"])
        self.assertEqual([figure.seconds for figure in found], [4.0, 4.0])
        mended = ["up m2", "start m2", "until_ready m2", "start m2"]
        self.assertEqual(self.clusters[0].did, ["waited for of-m2", *mended])

    def test_what_lives_is_not_started(self) -> None:
        """
        Only what is missing is brought back.
        """
        self.field.wave(lambda cluster, victim: 1.0, 1)

        self.assertEqual(self.clusters[0].did, ["waited for of-m2", "up m2"])
        self.assertEqual(self.clusters[1].did, [])


#: A benchmark that starts a process with a name of its own, tells of it, and does
#: what it is told to.
SCRIPT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from _sandbox import contained
mark, isolate, then = sys.argv[2:]
def work(sandbox):
    command = (sys.executable, "-c", "import time; time.sleep(600)", mark)
    sandbox.start(command, sandbox.folder / "log")
    (sandbox.folder / mark).touch()
    print("isolated" if sandbox.isolated else "shared", sandbox.folder, flush=True)
    if then == "fail":
        raise OSError("it went wrong")
    if then == "wait":
        time.sleep(600)
    return 7
sys.exit(contained(work, isolate=isolate == "yes"))
"""


class SandboxTests(SynchronousTestCase):
    """
    Nothing outlives a benchmark.
    """

    def begin(self, then: str, isolate: bool) -> subprocess.Popen[str]:
        """
        Run it until its process has started.
        """
        self.started = []
        self.mark = f"mark-{os.getpid()}-{self.id().rpartition('.')[2]}-{isolate}"
        arguments = [str(BENCHMARKS), self.mark, "yes" if isolate else "no", then]
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(self.end_all)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        kind, folder = process.stdout.readline().split()
        if isolate and kind != "isolated":
            raise SkipTest("namespaces cannot be made here")
        self.folder = Path(folder)
        self.started = [
            found
            for found in psutil.process_iter(["cmdline"])
            if self.mark in (found.info["cmdline"] or ()) and found.pid != process.pid
        ]
        return process

    def end_all(self) -> None:
        """
        End what ought to have ended, so that nothing waits for it.
        """
        for found in self.started:
            with contextlib.suppress(psutil.NoSuchProcess):
                found.kill()

    def assert_gone(self) -> None:
        """
        What was started has ended, and what was written is removed.
        """
        _, alive = psutil.wait_procs(self.started, timeout=10)
        self.assertEqual(alive, [])
        self.assertFalse(self.folder.exists())

    def both(self, then: str) -> Iterator[subprocess.Popen[str]]:
        """
        Do it with namespaces, and without.
        """
        for isolate in (True, False):
            yield self.begin(then, isolate)

    def test_after_its_end(self) -> None:
        """
        It ends with its own status, and nothing is left.
        """
        for process in self.both("end"):
            self.assertEqual(process.wait(20), 7)
            self.assert_gone()

    def test_after_a_failure(self) -> None:
        """
        A failure is told, and nothing is left.
        """
        for process in self.both("fail"):
            self.assertEqual(process.wait(20), 1)
            assert process.stderr is not None
            self.assertIn("it went wrong", process.stderr.read())
            self.assert_gone()

    def test_interrupted(self) -> None:
        """
        Interrupted, as with Ctrl-C, or told to end, it leaves nothing either.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            for process in self.both("wait"):
                # The benchmark itself, and what it started.
                self.assertEqual(len(self.started), 2)
                process.send_signal(number)
                self.assertEqual(process.wait(20), 130)
                self.assert_gone()

    def test_killed(self) -> None:
        """
        Killed, it takes along what it started; only its folder stays.
        """
        for isolate in (True, False):
            if not isolate and shutil.which("setpriv") is None:
                raise SkipTest("nothing here ties a process to its parent")
            process = self.begin("wait", isolate)
            self.addCleanup(shutil.rmtree, self.folder)
            process.kill()
            process.wait(20)

            _, alive = psutil.wait_procs(self.started, timeout=10)
            self.assertEqual(alive, [])


#: Two machines, of which one is asked by the other side of the wire.
MACHINES = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from _http import until
from _network import Network
from _sandbox import contained
def work(sandbox):
    if not sandbox.isolated:
        print("shared")
        return 0
    network = Network()
    near, far = network.machine(), network.machine()
    assert near.address != far.address
    server = (sys.executable, "-m", "http.server", "--bind", far.address, "80")
    sandbox.start(server, sandbox.folder / "log", network=far.network)
    def reached(address):
        try:
            socket.create_connection((address, 80), timeout=0.2).close()
        except OSError:
            return False
        return True
    until("the server listens", lambda: reached(far.address), 20)
    assert not reached(near.address)
    far.down()
    assert not reached(far.address)
    far.up()
    until("the link is back", lambda: reached(far.address), 20)
    print("done")
    return 0
sys.exit(contained(work))
"""


class NetworkTests(SynchronousTestCase):
    """
    Machines on one wire.
    """

    def test_link(self) -> None:
        """
        A machine is reached over its link, and only while that is up; the machine
        of the tests sees nothing of it.
        """
        before = os.listdir("/sys/class/net") if Path("/sys/class/net").exists() else []
        ended = subprocess.run(
            [sys.executable, "-c", MACHINES, str(BENCHMARKS)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        if ended.stdout.strip() == "shared":
            raise SkipTest("namespaces cannot be made here")
        self.assertEqual(ended.stdout.strip(), "done")
        if before:
            self.assertEqual(sorted(os.listdir("/sys/class/net")), sorted(before))


class LeaderBenchmarkTests(TestCase):
    """
    The benchmarks of writing and planning, small, on an embedded Consul.
    """

    timeout = 60

    @inlineCallbacks
    def test_writes_and_passes(self) -> Steps[None]:
        """
        Both print their tables.
        """
        leader, writes = imported("bench_leader"), imported("bench_writes")
        self.patch(writes, "ITEMS", 100)
        self.patch(writes, "ROUNDS", 1)
        self.patch(leader, "SIZES", ((50, 3, 1),))
        port: Any = listen(reactor, 0)
        self.addCleanup(port.stopListening)
        address = f"http://127.0.0.1:{port.getHost().port}"
        printed = io.StringIO()

        with redirect_stdout(printed):
            yield writes.run(reactor, address)
            yield leader.run(reactor, address)

        self.assertIn("leader: fenced transactions", printed.getvalue())
        self.assertIn("50 on 3: one has left", printed.getvalue())

    def test_planning(self) -> None:
        """
        So does the one of planning alone.
        """
        planning = imported("bench_planning")
        self.patch(planning, "SIZES", ((40, 4),))
        self.patch(planning, "RUNS", 1)
        printed = io.StringIO()

        with redirect_stdout(printed):
            planning.main()

        self.assertIn("balanced: one member left", printed.getvalue())

    def test_resources(self) -> None:
        """
        And the one of planning by resources, which tells whether it keeps what
        is promised.
        """
        resources = imported("bench_resources")
        self.patch(resources, "PROMISED", (40, 4, 1))
        self.patch(resources, "GROWTH", (20,))
        self.patch(resources, "RUNS", 1)
        printed = io.StringIO()
        for promised, status, word in ((60.0, 0, "met"), (0.0, 1, "MISSED")):
            targets = dict.fromkeys(resources.TARGETS, promised)
            self.patch(resources, "TARGETS", targets)

            with redirect_stdout(printed):
                self.assertEqual(resources.main(), status)

            self.assertIn(word, printed.getvalue())
        self.assertIn("40 placed", printed.getvalue())


class SmokeTests(SynchronousTestCase):
    """
    The benchmarks of clusters, once, on a real Consul.
    """

    def run_script(self, *command: str) -> subprocess.CompletedProcess[str]:
        """
        Run one of the benchmarks' scripts.
        """
        environment = dict(os.environ)
        environment["CONSUL_BIN"] = require_binary()
        paths = [str(Path(part).resolve()) for part in sys.path if part]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        script, *arguments = command
        return subprocess.run(
            [sys.executable, str(BENCHMARKS / script), *arguments],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=environment,
            cwd=tempfile.gettempdir(),
        )

    def test_placing(self) -> None:
        """
        A few items are placed by resources, and one of them is moved.
        """
        ended = self.run_script(
            "bench_placing.py", "--repeat=1", "--leader=resource",
            "--items=20", "--members=3", "--moves=1", "--rest=1",
        )  # fmt: skip

        self.assertEqual((ended.returncode, ended.stderr), (0, ""), ended.stdout)
        self.assertIn("resource: 20 items on 3 members", ended.stdout)
        self.assertIn("one move, of 1:", ended.stdout)

    def test_each_once(self) -> None:
        """
        In one small cluster an item moves, leadership is handed over, a leader is
        killed and another one leads: each gives a figure, and no item runs twice.
        """
        ended = self.run_script("smoke.py")

        self.assertEqual((ended.returncode, ended.stderr), (0, ""), ended.stdout)
        told = [line.partition(":")[0] for line in ended.stdout.splitlines()]
        self.assertEqual(
            told,
            [
                "item moved",
                "leadership transferred",
                "leadership transferred by command",
                "member killed",
            ],
        )
