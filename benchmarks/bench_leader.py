"""
What a leader's pass costs, on a real Consul.

First table: writing 10,000 assignments to 10 members the leader's way (from the
plan through :func:`~voltha_coord.apply.prepare` and the fence of a term), beside
a bare loop of full transactions and the original's one PUT an item, all in one
run, medians of 5.

Second table: a whole pass (look, plan, apply) for growing clusters: the first
one, which assigns everything; one in an unchanged cluster; one after a member
has left.  Medians of 5, of 3 for the largest.

``CONSUL=host:port`` measures another Consul than one started for this.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Sequence
from time import monotonic, perf_counter
from typing import Any

import bench_writes
from attrs import define, field
from bench_writes import Write, a_consul
from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.internet.task import react
from twisted.web.client import HTTPConnectionPool

from voltha_coord._types import Steps
from voltha_coord.apply import Application, prepare
from voltha_coord.consul.address import from_environment
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.client import Consul
from voltha_coord.consul.connect import connect
from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.consul.transaction import Transaction, TransactionOutcome
from voltha_coord.keys import Keys
from voltha_coord.lease import Lease
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.planning.operations import Assign, Plan
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import Member, OwnerRecord, TermRecord
from voltha_coord.snapshot import Look, take_look
from voltha_coord.succession import Predecessor
from voltha_coord.term import Term

KEYS = Keys(bench_writes.PREFIX)

#: Items and members of the second table, and how often each is measured.
SIZES = ((1_000, 10, 5), (10_000, 100, 5), (100_000, 1_000, 3))


class AllOver:
    """
    A judge to whom every lease is over.
    """

    def is_over(self, predecessor: Predecessor) -> Deferred[bool]:
        """
        It is.
        """
        return succeed(True)

    def waited(self, name: str) -> bool:
        """
        So it has.
        """
        return True


@inlineCallbacks
def begin_term(api: ConsulApi) -> Steps[Term]:
    """
    Begin a term, as the election does.
    """
    session: str = yield api.create_session(SessionSpec("bench", 3600.0, 0.0))
    yield api.txn([Op.delete(KEYS.leader), Op.delete(KEYS.term)])
    held: tuple[Entry, ...] = yield api.txn([Op.lock(KEYS.leader, b"m0", session)])
    record = TermRecord("m0", session, held[0].modify_index, ttl=15.0)
    begun: tuple[Entry, ...] = yield api.txn([Op.cas(KEYS.term, record.encode(), 0)])
    lease = Lease(monotonic, session, session_ttl=3600.0, renewed=monotonic())
    return Term(api, KEYS, lease, record, begun[0].modify_index, print)


def leader_way(term: Term) -> Write:
    """
    Write as a leader does, from the plan on.
    """
    state = ClusterState(members={"m0": Member("m0", session="s")})

    @inlineCallbacks
    def write(ops: Sequence[Op]) -> Steps[None]:
        plan = Plan(
            tuple(
                Assign(op.key.rpartition("/")[2], op.key.split("/")[-2]) for op in ops
            )
        )
        application: Application = yield prepare(KEYS, state, plan, AllOver())
        outcome: TransactionOutcome = yield term.write(application.groups)
        assert outcome.applied == len(ops), outcome

    return write


@inlineCallbacks
def first_table(reactor: Any, address: str) -> Steps[None]:
    """
    Measure the three ways of writing, and print how they compare.
    """
    requester = connect(reactor, from_environment({}, [address]))
    api = ConsulApi(requester)
    term: Term = yield begin_term(api)
    ops = bench_writes.make_ops()
    pool = HTTPConnectionPool(reactor)
    ways: dict[str, Write] = {
        "leader: plan, prepare, fence": leader_way(term),
        "bare loop of full transactions": bench_writes.bare_loop(
            reactor, requester.address, pool
        ),
        "original: one PUT an item": bench_writes.original_way(Consul(requester)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(bench_writes.ROUNDS):
        for name, write in ways.items():
            taken: float = yield bench_writes.measure(api, write, ops)
            seconds[name].append(taken)
    yield api.delete(f"{KEYS.prefix}/", recurse=True)
    yield api.destroy_session(term.lease.session_id)
    yield pool.closeCachedConnections()
    yield requester.close()
    bench_writes.report({name: statistics.median(s) for name, s in seconds.items()})


@define
class Timed:
    """
    The seconds of each part of a pass, and how many writes it made.
    """

    look: list[float] = field(factory=list)
    plan: list[float] = field(factory=list)
    apply: list[float] = field(factory=list)
    writes: int = 0


@inlineCallbacks
def make_pass(api: ConsulApi, term: Term, timed: Timed) -> Steps[None]:
    """
    Make one whole pass, as a leader does.
    """
    gc.collect()
    began = perf_counter()
    look: Look = yield take_look(api, KEYS, 0.0, consistent=False)
    looked = perf_counter()
    state = ClusterState.from_snapshot(look.snapshot)
    plan = BalancedPlanner().plan(state)
    planned = perf_counter()
    application: Application = yield prepare(KEYS, state, plan, AllOver(), look.errors)
    if application.groups:
        outcome: TransactionOutcome = yield term.write(application.groups)
        assert outcome.complete, outcome
    timed.look.append(looked - began)
    timed.plan.append(planned - looked)
    timed.apply.append(perf_counter() - planned)
    timed.writes = application.operations


@inlineCallbacks
def write_all(api: ConsulApi, ops: Sequence[Op]) -> Steps[None]:
    """
    Prepare what the passes will find.
    """
    outcome: TransactionOutcome = yield Transaction(api, ops).run()
    assert outcome.complete, outcome


@inlineCallbacks
def own_everything(api: ConsulApi, sessions: dict[str, str]) -> Steps[None]:
    """
    Let every member own what is assigned to it.
    """
    names = yield api.keys(KEYS.assignments)
    ops = []
    for key in names.names:
        member, work = key.split("/")[-2:]
        record = OwnerRecord(member, sessions[member], "check", "node", 15.0)
        ops.append(Op.set(KEYS.owner(work), record.encode()))
    yield write_all(api, ops)


@inlineCallbacks
def cluster_of(
    api: ConsulApi, items: int, members: int, rounds: int
) -> Steps[dict[str, Timed]]:
    """
    Measure the passes of one cluster.
    """
    cases = {name: Timed() for name in ("first", "unchanged", "one has left")}
    yield api.delete(f"{KEYS.prefix}/", recurse=True)
    term: Term = yield begin_term(api)
    yield write_all(
        api, [Op.set(KEYS.work_item(f"device_{n:06}"), b"{}") for n in range(items)]
    )
    names = [f"voltha-{n:04}" for n in range(members)]
    sessions = {}
    records = []
    for name in names:
        sessions[name] = yield api.create_session(SessionSpec(name, 3600.0, 0.0))
        record = Member(name, version="1", host_address="10.0.0.1").encode()
        records.append(Op.lock(KEYS.member(name), record, sessions[name]))
    yield write_all(api, records)
    for number in range(rounds):
        yield api.delete(KEYS.assignments, recurse=True)
        yield api.delete(KEYS.owners, recurse=True)
        yield make_pass(api, term, cases["first"])
        yield own_everything(api, sessions)
        yield make_pass(api, term, cases["unchanged"])
        assert not cases["unchanged"].writes
        yield write_all(api, [Op.delete(KEYS.member(names[number]))])
        yield make_pass(api, term, cases["one has left"])
        yield write_all(api, [records[number]])
    for session in (*sessions.values(), term.lease.session_id):
        yield api.destroy_session(session)
    return cases


@inlineCallbacks
def second_table(reactor: Any, address: str) -> Steps[None]:
    """
    Measure whole passes, and print what each part of them takes.
    """
    requester = connect(reactor, from_environment({}, [address]))
    api = ConsulApi(requester, command_timeout=60.0)
    print()
    print(
        f"{'a whole pass, ms':32}{'look':>9}{'plan':>9}{'apply':>9}{'all':>9}"
        f"{'writes':>9}"
    )
    for items, members, rounds in SIZES:
        cases: dict[str, Timed] = yield cluster_of(api, items, members, rounds)
        for name, timed in cases.items():
            parts = [
                statistics.median(part) * 1e3
                for part in (timed.look, timed.plan, timed.apply)
            ]
            cells = "".join(f"{value:9.1f}" for value in (*parts, sum(parts)))
            what = f"{items:,} on {members:,}: {name}"
            print(f"{what:32}{cells}{timed.writes:9}")
    yield api.delete(f"{KEYS.prefix}/", recurse=True)
    yield requester.close()


@inlineCallbacks
def run(reactor: Any, address: str) -> Steps[None]:
    """
    Print both tables.
    """
    yield first_table(reactor, address)
    yield second_table(reactor, address)


if __name__ == "__main__":
    with a_consul() as where:
        react(run, [where])
