"""
How fast a leader writes 10,000 assignments to 10 members, on a real Consul.

Side by side in one run, medians of 5:

* the leader's way: fenced transactions, one after the other;
* a bare loop of full transactions over treq, bodies encoded beforehand, also
  one after the other: what Consul and HTTP alone cost;
* one PUT an item through python-consul2's endpoints, as the original
  coordinator did.

``CONSUL=host:port`` measures another Consul than one started for this.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from treq.client import HTTPClient
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import react
from twisted.web.client import Agent, HTTPConnectionPool
from zope.interface import implementer

from voltha_coord._types import Steps
from voltha_coord.consul.address import from_environment
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.client import Consul
from voltha_coord.consul.connect import connect
from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.consul.transaction import (
    MAX_OPERATIONS,
    IFence,
    Transaction,
    TransactionOutcome,
)

# The package comes from where it is installed; only the tests' real Consul
# comes from this folder.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.support.real_consul import RealConsul, require_binary

ITEMS = 10_000
MEMBERS = 10
ROUNDS = 5

#: The least part of the bare loop's speed, and the least items a second.
TARGET_RATIO = 0.7
TARGET_RATE = 15_000

PREFIX = "service/bench"
LEADER = f"{PREFIX}/leader"
TERM = f"{PREFIX}/term"
TREE = f"{PREFIX}/assignments/"

#: Writes operations, by whatever way.
Write = Callable[[Sequence[Op]], Deferred[Any]]


def make_ops() -> list[Op]:
    """
    Make the writes of a first plan.
    """
    return [
        Op.set(f"{TREE}m{i % MEMBERS}/device_group_{i + 1:05d}", b"")
        for i in range(ITEMS)
    ]


@implementer(IFence)
class TermFence:
    """
    A leader's fence: its key held, its term record written last by itself.
    """

    def __init__(self, session: str, index: int) -> None:
        self.session = session
        self._index = index
        self._count = 0

    def turn(self, send: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        """
        Nobody else sends anything.
        """
        return send()

    def ops(self) -> tuple[Op, ...]:
        """
        Check the one and write the other.
        """
        self._count += 1
        record = {"holder": "m1", "session": self.session, "seq": self._count}
        return (
            Op.check_session(LEADER, self.session),
            Op.cas(TERM, json.dumps(record).encode(), self._index),
        )

    def applied(self, results: Sequence[Entry]) -> None:
        """
        Follow the record.
        """
        self._index = results[1].modify_index

    def resolve(self) -> Deferred[bool | None]:
        """
        No reply is lost on loopback.
        """
        raise AssertionError("a reply was lost")


@inlineCallbacks
def begin_term(api: ConsulApi) -> Steps[TermFence]:
    """
    Become the leader.
    """
    session: str = yield api.create_session(SessionSpec("bench", 3600.0, 0.0))
    results: tuple[Entry, ...] = yield api.txn(
        [Op.delete(LEADER), Op.lock(LEADER, b"m1", session), Op.set(TERM, b"{}")]
    )
    return TermFence(session, results[-1].modify_index)


def leader_way(api: ConsulApi, fence: TermFence) -> Write:
    """
    Write as a leader does.
    """

    @inlineCallbacks
    def write(ops: Sequence[Op]) -> Steps[None]:
        outcome: TransactionOutcome = yield Transaction(api, ops, fence=fence).run()
        assert outcome.applied == len(ops), outcome

    return write


def bare_loop(reactor: Any, address: str, pool: HTTPConnectionPool) -> Write:
    """
    Send full transactions whose bodies are ready, and look at nothing but the
    status.
    """
    client = HTTPClient(Agent(reactor, pool=pool))
    chunks: list[bytes] = []
    ops = make_ops()
    for first in range(0, len(ops), MAX_OPERATIONS):
        chunk = [op.to_json() for op in ops[first : first + MAX_OPERATIONS]]
        chunks.append(json.dumps(chunk).encode())

    @inlineCallbacks
    def write(ops: Sequence[Op]) -> Steps[None]:
        for body in chunks:
            answer = yield client.put(f"{address}/v1/txn", data=body, reactor=reactor)
            assert answer.code == 200
            yield answer.content()

    return write


def original_way(consul: Consul) -> Write:
    """
    One PUT an item, each after the other.
    """

    @inlineCallbacks
    def write(ops: Sequence[Op]) -> Steps[None]:
        for op in ops:
            written = yield consul.kv.put(op.key, op.value)
            assert written

    return write


@inlineCallbacks
def measure(api: ConsulApi, write: Write, ops: Sequence[Op]) -> Steps[float]:
    """
    Give the seconds of one write of everything, beginning with nothing.
    """
    yield api.delete(TREE, recurse=True)
    began = perf_counter()
    yield write(ops)
    return perf_counter() - began


@inlineCallbacks
def run(reactor: Any, address: str) -> Steps[None]:
    """
    Measure everything, and print the table.
    """
    requester = connect(reactor, from_environment({}, [address]))
    api = ConsulApi(requester)
    ops = make_ops()
    fence: TermFence = yield begin_term(api)
    pool = HTTPConnectionPool(reactor)
    ways: dict[str, Write] = {
        "leader: fenced transactions": leader_way(api, fence),
        "bare loop of full transactions": bare_loop(reactor, requester.address, pool),
        "original: one PUT an item": original_way(Consul(requester)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, write in ways.items():
            taken: float = yield measure(api, write, ops)
            seconds[name].append(taken)
    yield api.delete(f"{PREFIX}/", recurse=True)
    yield api.destroy_session(fence.session)
    yield pool.closeCachedConnections()
    yield requester.close()
    report({name: statistics.median(taken) for name, taken in seconds.items()})


def report(medians: dict[str, float]) -> None:
    """
    Print the table, and how it compares with the targets.
    """
    leader, bare, _ = medians.values()
    print(f"{ITEMS} assignments to {MEMBERS} members, medians of {ROUNDS}")
    print(f"{'':32}{'ms':>9}{'items/s':>11}{'of bare loop':>14}")
    for name, taken in medians.items():
        print(f"{name:32}{taken * 1e3:9.0f}{ITEMS / taken:11.0f}{bare / taken:14.2f}")
    for what, value, target in (
        ("of the bare loop", bare / leader, TARGET_RATIO),
        ("items/s", ITEMS / leader, TARGET_RATE),
    ):
        verdict = "met" if value >= target else "MISSED"
        print(f"target {target:g} {what}: {value:.4g}, {verdict}")


@contextmanager
def a_consul() -> Iterator[str]:
    """
    Give the address of a Consul.
    """
    named = os.environ.get("CONSUL")
    if named:
        yield named
        return
    consul = RealConsul(require_binary())
    consul.start()
    try:
        yield consul.address
    finally:
        consul.stop()


if __name__ == "__main__":
    with a_consul() as where:
        react(run, [where])
