"""
A cluster that is measured: members under one prefix, the work they divide, and
what is seen of both.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Self, TypeVar

from _bench import Bench
from _consul import Agent, start_servers
from _http import NoAnswer, Stuck, ask, until
from _leadership import Leadership
from _members import Member, command_of
from _observer import Observer
from _records import KILLED, Record, Records, restarted, running, twice
from _sandbox import kill

from voltha_coord.keys import Keys

_T = TypeVar("_T")

#: How long members may take to come up and divide their work, in seconds.
SETTLE_SECONDS = 90.0

#: How long something may take that is measured, in seconds.
PATIENCE = 120.0

#: How long a member may take to end, in seconds.
END_SECONDS = 20.0


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
    :ivar leadership: who leads them.
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
        options = ("--log-level", bench.log_level, *options)
        self.records = Records(folder / "records")
        self._sandbox = bench.sandbox
        self._items = 0
        self._watched: list[Observer] = []
        self.members = {}
        for number, agent in enumerate(agents, 1):
            member = f"m{number}"
            self.members[member] = Member(
                bench.sandbox,
                member,
                agent,
                command_of(member, agent, self.keys.prefix, options, original),
                self.records.path,
                folder / f"{member}.log",
            )
        self.leadership = Leadership(self.address, self.keys, original)

    def __enter__(self) -> Self:
        """
        Begin.
        """
        return self

    def __exit__(self, kind: object, error: object, _: object) -> None:
        """
        End; where something did not come, say how the members are.
        """
        if isinstance(error, Stuck):
            for member in self.members.values():
                print(member.tail(), file=sys.stderr)
        self._stop()
        if kind is None:
            self._check()

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
        until("the cluster has settled", self._settled, SETTLE_SECONDS)

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

    # What is.

    @property
    def leader(self) -> str:
        """
        Who leads; empty for nobody.
        """
        return self.leadership.leader

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

    def twice(self, since: float) -> list[Record]:
        """
        Give the starts, from then on, of items that ran already somewhere.
        """
        return [record for record in twice(self.records.all()) if record.at >= since]

    # What is done to it, and waited for.

    def kill(self, name: str) -> float:
        """
        Kill a member, and give when.
        """
        member = self.members[name]
        assert member.process is not None
        member.wanted = False
        at = self.records.note(name, KILLED)
        kill(member.process)
        return at

    def note_end(self, name: str) -> None:
        """
        Wait until a member that was told to end has, and write that down.
        """
        process = self.members[name].process
        assert process is not None
        process.wait(END_SECONDS)
        self.records.note(name, KILLED)

    def until(self, what: str, found: Callable[[], _T | None]) -> _T:
        """
        Wait for something that is measured, and give it.

        :raises Stuck: when it does not come.
        """
        return until(what, found, PATIENCE)

    def until_elsewhere(self, since: float, items: Iterable[str], victim: str) -> float:
        """
        Wait until items of a member run on others, and give when that was.

        :raises Stuck: when they never do.
        """
        items = list(items)
        return self.until(
            f"{victim}'s work runs elsewhere",
            lambda: restarted(self.records.since(since), items, lambda m: m != victim),
        )

    # Its end.

    def _stop(self) -> None:
        """
        End the members, in order, and remove what they left in Consul.
        """
        self.leadership.close()
        for observer in self._watched:
            observer.close()
        processes = [m.process for m in self.members.values() if m.process is not None]
        self._sandbox.end([p for p in processes if p.poll() is None], END_SECONDS)
        try:
            ask(self.address, f"/v1/kv/{self.keys.prefix}/?recurse", "DELETE")
        except NoAnswer:
            # Consul is gone, and what it knew with it.
            return

    def _check(self) -> None:
        """
        See that no item ran twice at a time, which no original promises.

        :raises AssertionError: naming those that did.
        """
        doubled = self.twice(0.0)
        if not self.original and doubled:
            raise AssertionError(f"items ran twice at a time: {doubled[:5]}")


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
