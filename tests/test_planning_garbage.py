"""
Planning by resources on whatever stands under the prefix.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.apply import Application, prepare
from voltha_coord.consul.model import Entry
from voltha_coord.consul.transaction import pack
from voltha_coord.ownership import Judge
from voltha_coord.planning.observe import observe
from voltha_coord.planning.operations import Move, Operation, Plan, Unassign
from voltha_coord.planning.placing import ResourcePlanner
from voltha_coord.planning.state import ClusterState, Snapshot
from voltha_coord.recollection import Recollection
from voltha_coord.records import OwnerRecord
from voltha_coord.settings import Settings

from .support.resourceful import KEYS, carried_out

#: So many clusters are looked at, and so many plans settle each.
CLUSTERS, PLANS = 200, 6

MEMBERS = ("m1", "m2", "m3", "m4")
WORK = (*(f"w{number}" for number in range(8)), "w1@here")

#: What a field may hold that is to hold something else.
ODD: tuple[Any, ...] = (
    *(None, 0, -1, 1, 3.5, 1e308, -1e308, 2**64, -(2**70), "", "x", "\ud800", "m1"),
    *(True, False, "start", "stop", [], [1], {}, {"cpu": 1}, [3, {"memory": 1}]),
)

Makers = dict[str, Callable[[], Any]]


class Judged:
    """
    Says of each lease that it is over, or that none is.
    """

    def __init__(self, over: bool) -> None:
        self._over = over

    def is_over(self, predecessor: object) -> Deferred[bool]:
        """
        Say it of a session.
        """
        return succeed(self._over)

    def waited(self, name: str) -> bool:
        """
        Say it of what is not known.
        """
        return self._over


class Garbage:
    """
    Makes clusters in which anything may be anything.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._index = 10

    def likely(self, share: float) -> bool:
        """
        Draw.
        """
        return self.random.random() < share

    def number(self) -> float:
        """
        Give a number that makes sense.
        """
        return self.random.choice((0, 1, 5, 10, 50, self.random.random() * 100))

    def fields(self, makers: Makers) -> dict[str, Any]:
        """
        Give an object of which some fields are missing, and some are odd.
        """
        return {
            name: self.random.choice(ODD) if self.likely(0.3) else make()
            for name, make in makers.items()
            if self.likely(0.85)
        }

    def share(self) -> dict[str, Any]:
        """
        Give limits, or usage.
        """
        parts = ("memory", "usage", "encoder", "decoder", "index")
        gpu: Makers = dict.fromkeys(parts, self.number)
        return self.fields(
            {
                "cpu": self.number,
                "memory": self.number,
                "gpu": lambda: self.fields(gpu),
                "throttling": lambda: True,
            }
        )

    def item(self) -> dict[str, Any]:
        """
        Give an item.
        """
        pick = self.random.choice
        return self.fields(
            {
                "order": lambda: pick(("start", "stop")),
                "limits": self.share,
                "reference": lambda: pick(("", "a", "b")),
                "config": lambda: pick(ODD),
                "metadata": lambda: {pick("ab"): pick(ODD)},
                "force": lambda: self.likely(0.3),
                "weight": self.number,
                "later": lambda: pick(ODD),
            }
        )

    def entry(self, key: str, value: Any, session: str | None = None) -> Entry:
        """
        Give a key with a value, or with something else instead.
        """
        self._index += 1
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        if self.likely(0.06):
            raw = self.random.choice(
                (b"", b"\xff\x00", b'{"limits":{"cpu":NaN}}', b"[")
            )
        return Entry(key, raw, modify_index=self._index, session=session)

    def members(self) -> Iterator[Entry]:
        """
        Give the members that are there.
        """
        gpus = [{"memory_limit": 50, "usage_limit": 50}]
        for name in MEMBERS:
            record = self.fields(
                {
                    "version": lambda: "1",
                    "resources": lambda: self.fields(
                        {
                            "cpu_limit": lambda: 90,
                            "memory_limit": lambda: 90,
                            "gpus": lambda: gpus,
                        }
                    ),
                    "weight": lambda: 1,
                    "leaving": lambda: self.likely(0.1),
                }
            )
            if self.likely(0.75):
                yield self.entry(KEYS.member(name), record, f"s-{name}")

    def assignments(self) -> Iterator[Entry]:
        """
        Give what is assigned.
        """
        pick = self.random.choice
        for member in MEMBERS:
            for work in sorted(WORK):
                value = self.fields(
                    {
                        "phase": lambda: pick(("run", "run", "prepare", "later")),
                        "item": self.item,
                        "restart": lambda: 3,
                    }
                )
                if self.likely(0.3):
                    key = KEYS.assignment(member, work)
                    yield self.entry(key, value if self.likely(0.9) else b"")

    def owners(self) -> Iterator[Entry]:
        """
        Give who owns what.
        """
        for work in WORK:
            name = self.random.choice(MEMBERS)
            session = self.random.choice((f"s-{name}", "gone"))
            if self.likely(0.5):
                yield self.entry(KEYS.owner(work), OwnerRecord(name, session).encode())

    def statuses(self) -> Iterator[Entry]:
        """
        Give what members report.
        """
        pick = self.random.choice
        node: Makers = {"cpu": self.number, "memory": self.number}
        status: Makers = {
            "state": lambda: pick(("running", "prepared", "failed", "finished")),
            "usage": self.share,
            "since": self.number,
            "digest": lambda: "x",
        }
        for name in MEMBERS:
            items = {w: self.fields(status) for w in WORK if self.likely(0.5)}
            report = {"report": "r", "count": 1, "items": items}
            report["node"] = self.fields(node)
            if self.likely(0.8):
                yield self.entry(KEYS.status(name, 0), report)

    def intent(self) -> Iterator[Entry]:
        """
        Give what operators want.
        """
        pick = self.random.choice
        for work in WORK:
            if self.likely(0.3):
                wish = pick((b"", b"m1", b"m2", b"m9", b"\xff"))
                yield self.entry(KEYS.relocation(work), wish)
        for name in MEMBERS:
            if self.likely(0.2):
                wish = pick((b"maintenance", b"leave", b"?"))
                yield self.entry(KEYS.node_intent(name), wish)

    def state(self) -> ClusterState:
        """
        Give a cluster.
        """
        work = (self.entry(KEYS.work_item(w), self.item()) for w in WORK)
        lost = ({"since": self.random.choice(ODD)} for _ in MEMBERS)
        return ClusterState.from_snapshot(
            Snapshot(
                keys=KEYS,
                members=[*self.members()],
                work=[entry for entry in work if self.likely(0.8)],
                assignments=[*self.assignments()],
                owners=[*self.owners()],
                intent=[*self.intent()],
                statuses=[*self.statuses()],
                lost=[
                    self.entry(KEYS.lost_member(name), record)
                    for name, record in zip(MEMBERS, lost, strict=True)
                    if self.likely(0.3)
                ],
            )
        )


class GarbageTests(SynchronousTestCase):
    """
    Random clusters in which nothing is as it should be.
    """

    def setUp(self) -> None:
        """
        Begin a term.
        """
        self.now = 0.0
        self.recollection = Recollection(
            lambda: self.now, lambda: 1e6 + self.now, KEYS, Settings()
        )

    def plan(self, state: ClusterState, over: bool) -> Plan:
        """
        Plan, and see that every item is told of, that none is given to two, and
        that all of it could be written.
        """
        observe(state)
        plan = ResourcePlanner().plan(state)
        self.recollection.heed(plan)
        judge = cast(Judge, Judged(over))
        application: Application = self.successResultOf(
            prepare(KEYS, state, plan, judge)
        )
        pack([*application.groups, *self.recollection.writes(state)])
        if state.members:
            told = {*plan.placements, *plan.errors}
            self.assertEqual(state.work.keys() - told, set())
        given = [o.work for o in plan.operations if _gives(o, plan)]
        self.assertEqual(len(given), len({*given}))
        return plan

    def test_settles(self) -> None:
        """
        Whatever stands there, it is planned, and after a few plans there is
        nothing left to be done.
        """
        for seed in range(CLUSTERS):
            garbage = Garbage(seed)
            state = garbage.state()
            self.now += garbage.random.choice((1.0, 50.0, 200.0))
            for _ in range(PLANS):
                state = self.recollection.recall(state)
                plan = self.plan(state, garbage.likely(0.7))
                if not plan.operations:
                    break
                state = carried_out(state, plan)
            self.assertEqual(plan.operations, (), seed)


def _gives(operation: Operation, plan: Plan) -> bool:
    """
    Whether an item is given to somebody to be run.
    """
    if isinstance(operation, Unassign):
        return False
    target = operation.target if isinstance(operation, Move) else operation.member
    return plan.placements.get(operation.work) == target
