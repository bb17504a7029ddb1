"""
What tests of whole members have in common: a cluster in memory, and its log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structlog.testing import capture_logs
from twisted.trial.unittest import SynchronousTestCase

from tests.support.bounding import bound
from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster


class ClusterTestCase(SynchronousTestCase):
    """
    Has a cluster without members, and remembers what is logged.

    :ivar cluster: the cluster.
    :ivar logs: what was logged, oldest first.
    """

    settings: Settings | None = None

    def setUp(self) -> None:
        """
        Make the cluster.
        """
        capturing = capture_logs()
        self.logs: list[Any] = capturing.__enter__()
        self.addCleanup(capturing.__exit__, None, None, None)
        self.cluster = EmbeddedCluster(settings=self.settings)
        bound(self, self.cluster.clock)
        self.addCleanup(self.cluster.close)

    def logged(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """
        Give what was logged under that name, with at least these fields.
        """
        return [
            entry
            for entry in self.logs
            if entry["event"] == event and fields.items() <= entry.items()
        ]

    def add(self, *instance_ids: str, **kw: Any) -> list[Coordinator]:
        """
        Add members, and wait until each is one, one leads, and their watches
        are at rest.
        """
        members = [self.cluster.add(name, **kw) for name in instance_ids]
        self.cluster.until(lambda: all(member.is_ready for member in members))
        self.cluster.until(lambda: self.cluster.leaders)
        self.cluster.advance(1.5)
        return members

    def lead(self, instance_id: str = "a", **kw: Any) -> Coordinator:
        """
        Add a member, and wait until it leads, and its watches are at rest.
        """
        member = self.cluster.add(instance_id, **kw)
        self.cluster.until(lambda: member.is_leader)
        self.cluster.advance(1.5)
        return member


def to(path: str, method: str = "PUT") -> Callable[[Request], bool]:
    """
    Give what tells requests to a path from others.
    """
    return lambda request: request.path == f"/v1/{path}" and request.method == method


def writes(key: str) -> Callable[[Request], bool]:
    """
    Give what tells transactions that write a key, or free it, from others.
    """
    named = f'"{key}"'.encode()

    def wanted(request: Request) -> bool:
        return (
            request.path == "/v1/txn"
            and named in request.body
            and b'"get-tree"' not in request.body
        )

    return wanted


class Once:
    """
    Answers true to the first request that is wanted, and to no other.

    :ivar met: how many were wanted so far.
    """

    def __init__(self, wanted: Callable[[Request], bool], times: int = 1) -> None:
        self._wanted = wanted
        self._times = times
        self.met = 0

    def __call__(self, request: Request) -> bool:
        """
        Say whether it happens to this request.
        """
        if not self._wanted(request):
            return False
        self.met += 1
        return self.met <= self._times
