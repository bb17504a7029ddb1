"""
A cluster that is measured: members as processes of their own.

They are what users run, ``twistd voltha_coord``, with a worker that records what
it does; or members of the 2016 original, which record the same.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Self

from _bench import Bench
from _consul import Agent, start_servers
from _http import NoAnswer, Stuck, ask, until
from _observer import Observer, Row
from _records import KILLED, Record, Records, restarted, running, twice
from _sandbox import Sandbox, kill

from voltha_coord.keys import Keys

_PLUGIN = Path(__file__).resolve().with_name("plugin")
_TWISTD = "from twisted.scripts.twistd import run; run()"

#: What would change how a member is set up.
_OTHERS = re.compile("VOLTHA_COORD_.*|CONSUL.*|BENCH_.*|INSTANCE_ID|REST_PORT")

#: How long members may take to come up and divide their work, in seconds.
SETTLE_SECONDS = 90.0

#: How long a member may take to end, in seconds.
END_SECONDS = 20.0


class Member:
    """
    One process.

    :param agent: whose agent it talks to, on whose machine it runs.
    :param command: what it is started with.
    :ivar wanted: whether it is to be alive.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        name: str,
        agent: Agent,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        self.name = name
        self.agent = agent
        self.log = log
        self._sandbox = sandbox
        self._command = command
        self._environment = environment
        self.process: subprocess.Popen[bytes] | None = None
        self.wanted = False

    @property
    def alive(self) -> bool:
        """
        Whether its process runs.
        """
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """
        Start it, or start it again.
        """
        machine = self.agent.machine
        self.wanted = True
        self.process = self._sandbox.start(
            self._command,
            self.log,
            self._environment,
            None if machine is None else machine.network,
        )

    def send(self, number: signal.Signals) -> float:
        """
        Send it a signal, and give when that was done.
        """
        assert self.process is not None
        self.wanted = number == signal.SIGUSR2
        at = time.monotonic()
        self.process.send_signal(number)
        return at

    def tail(self) -> str:
        """
        Give how its log ends.
        """
        lines = self.log.read_text(errors="replace").splitlines()[-12:]
        state = "runs" if self.alive else "has ended"
        return "\n".join([f"{self.name} {state}:", *(f"  {line}" for line in lines)])


class Cluster:
    """
    Members under one prefix.

    A context: at its end its members are stopped, and it is seen that no item ran
    twice at a time.

    :param agents: the agent of each member.
    :param options: of ``twistd voltha_coord``.
    :param original: whether they are the original's.
    :param name: what distinguishes it from others on one Consul.
    :param ask_at: the agent that is asked how it is; default: the first one.
    :ivar records: what happened to their work.
    """

    def __init__(
        self,
        bench: Bench,
        agents: Sequence[Agent],
        options: Sequence[str] = (),
        *,
        original: bool = False,
        name: str = "members",
        ask_at: Agent | None = None,
    ) -> None:
        self.original = original
        self.keys = Keys(f"bench/{name}")
        self.address = (agents[0] if ask_at is None else ask_at).address
        folder = bench.sandbox.new_folder(name)
        self.records = Records(folder / "records")
        self._sandbox = bench.sandbox
        self._options = ("--log-level", bench.log_level, *options)
        self._watched: list[Observer] = []
        self._items = 0
        self.members = {
            f"m{n}": self._member(f"m{n}", agent, folder)
            for n, agent in enumerate(agents, 1)
        }
        self.leader_key = self.watch(self.keys.leader)
        self.term_key = self.watch(self.keys.term)

    def _member(self, name: str, agent: Agent, folder: Path) -> Member:
        prefix = self.keys.prefix
        if self.original:
            script = str(_PLUGIN / "original_member.py")
            command = [sys.executable, script, name, agent.address, prefix]
        else:
            command = [
                sys.executable, "-c", _TWISTD, "-n", "--pidfile=", "voltha_coord",
                "--instance-id", name, "--consul", agent.address, "--prefix", prefix,
                "--rest-port", "off", "--worker", "recording",
                "--internal-host-address", "127.0.0.1",
                "--external-host-address", "127.0.0.1",
                "--log-format", "json", *self._options,
            ]  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not _OTHERS.fullmatch(k)}
        # It runs in another folder than we do.
        ours = environment.get("PYTHONPATH", "").split(os.pathsep)
        path = [str(_PLUGIN), *(os.path.abspath(part) for part in ours if part)]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        environment["BENCH_RECORD"] = str(self.records.path)
        log = folder / f"{name}.log"
        return Member(self._sandbox, name, agent, command, environment, log)

    def __enter__(self) -> Self:
        """
        Begin.
        """
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """
        End.
        """
        self.stop()
        if kind is None:
            self.check()

    def watch(self, path: str) -> Observer:
        """
        Watch a key, or what is under a prefix, as long as the cluster is there.
        """
        observer = Observer(self.address, path)
        self._watched.append(observer)
        return observer

    # Setting up.

    def start(self, items: int, config: Mapping[str, Any] | None = None) -> None:
        """
        Add work, start all members, and wait until they have divided it.

        :param config: what each item says of itself.
        """
        self.begin(items, config)
        self.until_settled()

    def begin(self, items: int, config: Mapping[str, Any] | None = None) -> None:
        """
        Add work, and start all members.
        """
        self._items = items
        value = json.dumps({"config": dict(config or {})}).encode()
        for number in range(1, items + 1):
            key = self.keys.work_item(f"device_group_{number:04}")
            ask(self.address, f"/v1/kv/{key}", "PUT", value)
        for member in self.members.values():
            member.start()

    def until_settled(self) -> None:
        """
        Wait until all that are alive are members, one leads, and the work is
        divided evenly, or however the original does.

        :raises Stuck: when that takes too long.
        """
        self.until("the cluster has settled", self._settled, SETTLE_SECONDS)

    def _settled(self) -> bool:
        alive = {name for name, member in self.members.items() if member.alive}
        for name, member in self.members.items():
            if member.wanted and name not in alive:
                raise Stuck(f"{name} has ended by itself")
        prefix = self.keys.members
        found = ask(self.address, f"/v1/kv/{prefix}?keys") or ()
        if {key[len(prefix) :] for key in found} != alive or not self.leader:
            return False
        counts = dict.fromkeys(alive, 0)
        for place in running(self.records.all()).values():
            counts[place] = counts.get(place, 0) + 1
        if sum(counts.values()) != self._items or counts.keys() != alive:
            return False
        least, most = min(counts.values()), max(counts.values())
        return least > 0 if self.original else most - least <= 1

    def until(self, what: str, found: Callable[[], Any], patience: float) -> Any:
        """
        Wait for something; say how the members are if it does not come.

        :raises Stuck: when it does not come in time.
        """
        try:
            return until(what, found, patience)
        except Stuck as stuck:
            tails = "\n".join(member.tail() for member in self.members.values())
            raise Stuck(f"{stuck}\n{tails}") from None

    # What is.

    @property
    def leader(self) -> str:
        """
        Who leads; empty for nobody.
        """
        held = self.leader_key.now().get(self.keys.leader)
        if held is None or not held.session:
            return ""
        if self.original:
            return held.value.decode()
        term = self.term_key.now().get(self.keys.term)
        said = {} if term is None else term.json()
        leads = said.get("session") == held.session and not said.get("released")
        return str(said["holder"]) if leads else ""

    @property
    def leading(self) -> tuple[str, str]:
        """
        What distinguishes the term that is led: the session, and its record.
        """
        term = self.term_key.now().get(self.keys.term)
        token = "" if term is None else str(term.json().get("token"))
        return self.leading_session, token

    @property
    def follower(self) -> str:
        """
        Somebody who does not lead.
        """
        alive = (name for name, member in self.members.items() if member.alive)
        return next(name for name in alive if name != self.leader)

    def items_of(self, name: str) -> list[str]:
        """
        Give the items that run on a member now.
        """
        return [w for w, m in running(self.records.all()).items() if m == name]

    # What is done to it.

    def kill(self, *names: str) -> float:
        """
        Kill members, and give when.
        """
        at = 0.0
        for name in names:
            process = self.members[name].process
            assert process is not None
            self.members[name].wanted = False
            at = self.records.note(name, KILLED)
            kill(process)
        return at

    def note_end(self, name: str) -> None:
        """
        Wait until a member that was told to end has, and write that down.
        """
        process = self.members[name].process
        assert process is not None
        process.wait(END_SECONDS)
        self.records.note(name, KILLED)

    # What is waited for.

    def next_held(self, since: float, session: str, patience: float) -> float:
        """
        Give when the leader key was held by another session than that one.
        """
        return self._seen(
            self.leader_key,
            since,
            lambda rows: _held(rows) not in ("", session),
            patience,
        )

    def freed(self, since: float, session: str, patience: float) -> float:
        """
        Give when that session did not hold the leader key any more.
        """
        return self._seen(
            self.leader_key, since, lambda rows: _held(rows) != session, patience
        )

    def next_term(self, since: float, session: str, patience: float) -> float:
        """
        Give when the first write of a leader of another session was there.
        """
        if self.original:
            # Its first write may change nothing: it leads when it holds the key.
            return self.next_held(since, session, patience)

        def begun(rows: Mapping[str, Row]) -> bool:
            said = next((row.json() for row in rows.values()), {})
            return bool(said.get("session", session) != session)

        return self._seen(self.term_key, since, begun, patience)

    def _seen(
        self,
        observer: Observer,
        since: float,
        found: Callable[[Mapping[str, Row]], Any],
        patience: float,
    ) -> float:
        try:
            return observer.first(since, found, patience)
        except Stuck as stuck:
            tails = "\n".join(member.tail() for member in self.members.values())
            raise Stuck(f"{stuck}\n{tails}") from None

    @property
    def leading_session(self) -> str:
        """
        The session that holds the leader key.
        """
        return _held(self.leader_key.now())

    def until_elsewhere(
        self, since: float, items: Iterable[str], victim: str, patience: float
    ) -> float:
        """
        Wait until items of a member run on others, and give when that was.
        """
        items = list(items)

        def found() -> float | None:
            return restarted(self.records.since(since), items, lambda m: m != victim)

        at: float = self.until(f"{victim}'s work runs elsewhere", found, patience)
        return at

    def twice(self, since: float) -> list[Record]:
        """
        Give the starts, from then on, of items that ran already somewhere.
        """
        return [record for record in twice(self.records.all()) if record.at >= since]

    def check(self) -> None:
        """
        See that no item ran twice at a time, which no original promises.

        :raises AssertionError: naming those that did.
        """
        doubled = self.twice(0.0)
        if not self.original and doubled:
            raise AssertionError(f"items ran twice at a time: {doubled[:5]}")

    def stop(self) -> None:
        """
        End the members, in order, and remove what they left in Consul.
        """
        for observer in self._watched:
            observer.close()
        processes = [m.process for m in self.members.values() if m.process is not None]
        self._sandbox.end([p for p in processes if p.poll() is None], END_SECONDS)
        try:
            ask(self.address, f"/v1/kv/{self.keys.prefix}/?recurse", "DELETE")
        except NoAnswer:
            # Consul is gone, and what it knew with it.
            return


def _held(rows: Mapping[str, Row]) -> str:
    return next((row.session for row in rows.values()), "")


def wait_a_little(random: Random, most: float = 1.0) -> None:
    """
    Let some time pass, so that members are met at any point of what they do.
    """
    time.sleep(most * random.random())


@contextmanager
def a_cluster(
    bench: Bench,
    members: int,
    items: int,
    options: Sequence[str] = (),
    *,
    original: bool = False,
    config: Mapping[str, Any] | None = None,
) -> Iterator[Cluster]:
    """
    Give a cluster that has settled, all of it on one Consul server of its own.
    """
    (server,) = start_servers(bench.sandbox, 1)
    try:
        with Cluster(bench, [server] * members, options, original=original) as cluster:
            cluster.start(items, config)
            yield cluster
    finally:
        server.kill()
