"""
Clusters whose members really work: a runner on strings, and a base for tests.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from structlog.testing import capture_logs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from tests.support.bounding import bound
from voltha_coord.consul.model import Op
from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.interfaces import IRunner
from voltha_coord.records import WorkItem
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster


class Floor:
    """
    Where items run: tells when one runs twice at once.

    :ivar running: who runs what, by work id.
    :ivar clashes: what was started while somebody else ran it.
    """

    def __init__(self) -> None:
        self.running: dict[str, StringRunner] = {}
        self.clashes: list[str] = []


@implementer(IRunner)
class StringRunner:
    """
    A runner that records what it is asked, and answers as the test says.

    :ivar calls: each call, in order: its name and the work id.
    :ivar started_with: the report of each start, in order.
    :ivar starts: what ``start_work`` returns or raises, by work id; by default
        it is done at once.
    :ivar stops: the same for ``stop_work``.
    :ivar prepares: the same for ``prepare_work``.
    :ivar updates: the same for ``update_work``.
    :ivar reports: what ``report`` returns or raises, by work id.
    :ivar items: the item of each start, preparation and update, in order.
    :ivar usages: what ``usage`` returns or raises, by work id.
    :ivar conditions: the same for ``condition``.
    :ivar listeners: who asked to be told when an item changes by itself.
    """

    def __init__(self, floor: Floor | None = None) -> None:
        self._floor = Floor() if floor is None else floor
        self.calls: list[tuple[str, str]] = []
        self.started_with: list[bytes | None] = []
        self.items: list[WorkItem] = []
        self.starts: dict[str, Any] = {}
        self.stops: dict[str, Any] = {}
        self.prepares: dict[str, Any] = {}
        self.updates: dict[str, Any] = {}
        self.reports: dict[str, Any] = {}
        self.usages: dict[str, Any] = {}
        self.conditions: dict[str, Any] = {}
        self.listeners: list[Callable[[str], None]] = []

    def _answer(self, answers: Mapping[str, Any], item: WorkItem) -> Any:
        answer = answers.get(item.id)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def prepare_work(self, item: WorkItem) -> Any:
        """
        Make it ready, as the test says.
        """
        self.calls.append(("prepare", item.id))
        self.items.append(item)
        return self._answer(self.prepares, item)

    def start_work(self, item: WorkItem, report: bytes | None) -> Any:
        """
        Run it from now on.
        """
        self.calls.append(("start", item.id))
        self.started_with.append(report)
        self.items.append(item)
        if self._floor.running.get(item.id, self) is not self:
            self._floor.clashes.append(item.id)
        self._floor.running[item.id] = self
        return self._answer(self.starts, item)

    def stop_work(self, item: WorkItem) -> Any:
        """
        Run it until this is done.
        """
        self.calls.append(("stop", item.id))
        answer = self._answer(self.stops, item)
        if isinstance(answer, Deferred):
            return answer.addCallback(lambda _: self._gone(item))
        self._gone(item)
        return answer

    def _gone(self, item: WorkItem) -> None:
        if self._floor.running.get(item.id) is self:
            del self._floor.running[item.id]

    def update_work(self, item: WorkItem) -> Any:
        """
        Change it, as the test says.
        """
        self.calls.append(("update", item.id))
        self.items.append(item)
        return self._answer(self.updates, item)

    def report(self, item: WorkItem) -> Any:
        """
        Hand over what the test says.
        """
        self.calls.append(("report", item.id))
        return self._answer(self.reports, item)

    def usage(self, item: WorkItem) -> Any:
        """
        Use what the test says.
        """
        return self._answer(self.usages, item) or {}

    def listen(self, changed: Callable[[str], None]) -> None:
        """
        Tell somebody more from now on.
        """
        self.listeners.append(changed)

    def condition(self, item: WorkItem) -> Any:
        """
        Fare as the test says.
        """
        return self._answer(self.conditions, item)

    def fare(self, work: str, condition: Any) -> None:
        """
        Let an item fare in another way, by itself.
        """
        self.conditions[work] = condition
        for changed in self.listeners:
            changed(work)

    def asked(self, verb: str) -> list[str]:
        """
        Give the items of the calls of one name, in order.
        """
        return [work for name, work in self.calls if name == verb]


class KillingRunner(StringRunner):
    """
    A runner that can kill, too.

    :ivar kills: what ``kill_work`` returns or raises, by work id; by default it
        is done at once.
    """

    def __init__(self, floor: Floor | None = None) -> None:
        super().__init__(floor)
        self.kills: dict[str, Any] = {}

    def kill_work(self, item: WorkItem) -> Any:
        """
        End it at once.
        """
        self.calls.append(("kill", item.id))
        answer = self._answer(self.kills, item)
        if isinstance(answer, Deferred):
            return answer.addCallback(lambda _: self._gone(item))
        self._gone(item)
        return answer


def operations(request: Request) -> list[Op]:
    """
    Give the operations of a transaction; none for another request.
    """
    if not request.path.startswith("/v1/txn"):
        return []
    return [
        Op(
            kv["Verb"],
            kv["Key"],
            b64decode(kv["Value"]) if "Value" in kv else None,
            kv.get("Index"),
            kv.get("Session"),
            kv.get("Flags", 0),
        )
        for kv in (row["KV"] for row in json.loads(request.body))
    ]


class ClusterCase(SynchronousTestCase):
    """
    A test with an embedded cluster.

    :ivar logs: what was logged.
    :ivar runners: the runner of each member, by instance id.
    """

    settings = Settings()

    def setUp(self) -> None:
        """
        Begin with an empty Consul and nobody.
        """
        self.logs = self.enterContext(capture_logs())
        self.cluster = EmbeddedCluster(settings=self.settings)
        bound(self, self.cluster.clock)
        self.addCleanup(self.cluster.close)
        self.keys = self.cluster.keys
        self.floor = Floor()
        self.runners: dict[str, StringRunner] = {}
        self.requests: dict[str, list[Request]] = {}

    def member(self, name: str, **kw: Any) -> Coordinator:
        """
        Add a member whose requests and runner are remembered.
        """
        runner = self.runners[name] = self.make_runner()
        member = self.cluster.add(name, runner=runner, **kw)
        requests = self.requests[name] = []

        def note(request: Request) -> float:
            requests.append(request)
            return 0.0

        self.cluster.network(member).latency = note
        return member

    def make_runner(self) -> StringRunner:
        """
        Make the runner of a member.
        """
        return StringRunner(self.floor)

    def advance(self, seconds: float) -> None:
        """
        Let time pass.
        """
        self.cluster.advance(seconds)

    def put(self, key: str, value: bytes = b"") -> None:
        """
        Write a key as anybody may.
        """
        self.cluster.result(self.cluster.api.put(key, value))

    def delete(self, key: str) -> None:
        """
        Delete a key as anybody may.
        """
        self.cluster.result(self.cluster.api.delete(key))

    def value(self, key: str) -> bytes | None:
        """
        Give what stands under a key, ``None`` for nothing.
        """
        entry = self.cluster.entry(key)
        return None if entry is None else entry.value

    def indexes(self) -> dict[str, int]:
        """
        Give the ModifyIndex of every key there is.
        """
        return {e.key: e.modify_index for e in self.cluster.entries("")}

    def written(self, name: str) -> list[list[Op]]:
        """
        Give the transactions of a member that write, as far as remembered.
        """
        found = map(operations, self.requests[name])
        return [ops for ops in found if any(op.verb in WRITES for op in ops)]

    def logged(self, event: str) -> list[Any]:
        """
        Give what was logged under that name.
        """
        return [entry for entry in self.logs if entry["event"] == event]

    def workload(self, name: str) -> set[str]:
        """
        Give what runs on a member.
        """
        workload: set[str] = self.cluster.members[name].worker.my_workload
        return workload

    def assert_settled(self, *work: str) -> None:
        """
        Check that each item runs on exactly the one member that owns it, and
        has never run on two at once.
        """
        running = {w: n for n in self.cluster.members for w in self.workload(n)}
        self.assertEqual(sorted(running), sorted(work))
        self.assertEqual(self.cluster.owners(), running)
        self.assertEqual(self.floor.clashes, [])

    def hang(self, name: str, wanted: Callable[[Request], bool]) -> list[Request]:
        """
        Let the requests of a member that are ``wanted`` never arrive.

        :return: those it happened to.
        """
        caught: list[Request] = []

        def lost(request: Request) -> bool:
            if wanted(request):
                caught.append(request)
                return True
            return False

        self.cluster.network(self.cluster.members[name]).loses_request = lost
        return caught


WRITES = frozenset({"set", "cas", "lock", "unlock", "delete", "delete-cas"})
