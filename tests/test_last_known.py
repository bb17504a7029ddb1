"""
Tests for the cluster as it was last seen.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transport import Request
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import ConsulState
from voltha_coord.held import acquire
from voltha_coord.keys import Keys
from voltha_coord.last_known import LastKnown
from voltha_coord.lease import Lease, LeaseEnd
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.records import Member
from voltha_coord.settings import Settings

KEYS = Keys("service/voltha")
ME = Member("a", session="s")


class LastKnownTests(SynchronousTestCase):
    """
    Note [What is remembered].

    :ivar lease: what the member has; ``None`` for none.
    :ivar looks: how often the cluster was read.
    """

    def setUp(self) -> None:
        """
        Have a member with a lease, and one item.
        """
        self.logs: list[Any] = self.enterContext(capture_logs())
        self.clock = Clock()
        self.state = ConsulState(self.clock)
        transport = MemoryTransport(self.state.agent(), self.clock)
        self.network = transport.network
        self.api = ConsulApi(
            Requester([transport], now=self.clock.seconds), command_timeout=2.0
        )
        self.lease: Lease | None = self.join()
        self.put("x", "y")
        self.looks = 0
        self.random = 0.5
        self.network.latency = self.count
        self.reports = False
        self.known = LastKnown(
            self.clock,
            self.api,
            KEYS,
            Settings(resync_interval=10.0),
            instance_id="a",
            lease=lambda: self.lease,
            reports=lambda: self.reports,
            random=lambda: self.random,
            log=structlog.get_logger(),
        )
        self.addCleanup(self.known.stop)

    def count(self, request: Request) -> float:
        """
        Count the looks; hold nothing up.
        """
        self.looks += b"get-tree" in request.body
        return 0.0

    def result(self, deferred: Deferred[Any]) -> Any:
        """
        Let a request be answered.
        """
        results: list[Any] = []
        deferred.addBoth(results.append)
        while not results:
            self.clock.advance(0)
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def join(self) -> Lease:
        """
        Become a member; give the lease.
        """
        sent = self.clock.seconds()
        spec = SessionSpec(
            name="a", ttl=86400.0, lock_delay=0.0, service_checks=(), node_checks=()
        )
        session: str = self.result(self.api.create_session(spec))
        self.result(acquire(self.api, KEYS.member("a"), ME.encode(), session))
        return Lease(self.clock.seconds, session, session_ttl=86400.0, renewed=sent)

    def put(self, *work: str) -> None:
        """
        Add work.
        """
        for name in work:
            self.result(self.api.put(KEYS.work_item(name), b"v"))

    def remove(self, *work: str) -> None:
        """
        Remove work.
        """
        for name in work:
            self.result(self.api.delete(KEYS.work_item(name)))

    def look(self) -> None:
        """
        Let time pass until it has looked at the cluster once more, as it does
        every ten seconds with this randomness.
        """
        self.clock.advance(10.0)
        self.clock.pump([0.0] * 20)

    @property
    def work(self) -> list[str]:
        """
        The work that is remembered.
        """
        found = self.known.takeover(ME, BalancedPlanner(), ())
        return [] if found is None else [*found.items]

    def test_reports(self) -> None:
        """
        What members report is remembered where it is to be planned by.
        """
        self.result(self.api.put(KEYS.status("a", 0), b"x"))
        self.known.start()
        self.look()
        without = self.known.snapshot
        self.reports = True
        self.look()
        self.look()
        reported = self.known.snapshot

        assert without is not None and reported is not None
        self.assertEqual(without.statuses, ())
        self.assertEqual([e.value for e in reported.statuses], [b"x"])

    def test_nothing_yet(self) -> None:
        """
        At first nothing is known.
        """
        self.known.start()

        self.assertIsNone(self.known.snapshot)
        self.assertIsNone(self.known.takeover(ME, BalancedPlanner(), ()))

    def test_remembers(self) -> None:
        """
        What there is to be run is remembered, with its age.
        """
        self.known.start()
        self.clock.advance(5)
        self.clock.pump([0.0] * 20 + [2.5])

        found = self.known.takeover(ME, BalancedPlanner(), {"y"})

        assert found is not None
        self.assertEqual((found.items, found.age), ({"x": b"v"}, 2.5))

    def test_again(self) -> None:
        """
        It looks again and again, and goes by what it found last.
        """
        self.known.start()
        self.look()
        self.remove("x")
        self.put("z")
        self.look()

        self.assertEqual(self.work, ["y", "z"])

    def test_jittered(self) -> None:
        """
        Members do not all look at the same time: the first look comes at some
        point of the interval, the next ones within half of it more or less.
        """
        whens = []
        for fraction in (0.0, 0.25, 0.875):
            self.setUp()
            self.random = fraction
            self.known.start()
            times: list[float] = []
            looks = 0
            while self.clock.seconds() < 25:
                self.clock.pump([0.0] * 20)
                if self.looks > looks:
                    looks = self.looks
                    times.append(self.clock.seconds())
                self.clock.advance(0.125)
            whens.append(times[:2])

        self.assertEqual(whens, [[0.0, 5.0], [2.5, 10.0], [8.75, 22.5]])

    def test_not_without_a_lease(self) -> None:
        """
        Nothing is read before there is a lease, nor once it is over.
        """
        lease, self.lease = self.lease, None
        self.known.start()
        self.look()
        assert lease is not None
        lease.end(LeaseEnd.CHECK)
        self.lease = lease
        self.look()

        self.assertEqual((self.looks, self.known.snapshot), (0, None))

    def test_over_meanwhile(self) -> None:
        """
        What was under way when the lease ended is not believed (field report
        77).
        """
        self.known.start()
        self.look()
        self.remove("x", "y")
        self.put("z")
        self.network.reply_latency = lambda request: 1.0
        self.clock.advance(10.0)
        assert self.lease is not None
        self.lease.end(LeaseEnd.CHECK)

        self.clock.pump([1.0] * 5)

        self.assertEqual(self.work, ["x", "y"])

    def test_not_one_of_us(self) -> None:
        """
        A reading without this member is not believed: keys have expired (field
        report 77).
        """
        self.known.start()
        self.look()
        self.remove("x")
        assert self.lease is not None
        self.result(self.api.destroy_session(self.lease.session_id))
        self.look()

        self.assertEqual(self.work, ["x", "y"])

    def test_denied(self) -> None:
        """
        A denied reading does not replace what is remembered; it is said once,
        until one is allowed again.
        """

        def denied(resource: str, name: str, access: str, token: str) -> bool:
            return name.startswith(KEYS.work)

        self.known.start()
        self.look()
        self.state.deny = denied
        self.look()
        self.look()
        self.assertEqual(self.work, ["x", "y"])
        self.state.deny = lambda resource, name, access, token: False
        self.remove("x")
        self.look()

        self.assertEqual(self.work, ["y"])
        self.state.deny = denied
        self.look()
        self.assertEqual(
            [one["event"] for one in self.logs], ["cluster-not-remembered"] * 2
        )

    def test_unanswered(self) -> None:
        """
        A reading that is not answered changes nothing, and is not said: that
        Consul is away is said by others.
        """
        self.known.start()
        self.look()
        self.network.refuses = True
        self.look()

        self.assertEqual((self.work, self.logs), (["x", "y"], []))

    def test_all_removed(self) -> None:
        """
        Operators may remove all work: it is forgotten here too.
        """
        self.known.start()
        self.look()
        self.remove("x", "y")
        self.look()

        self.assertEqual(self.work, [])

    def test_emptied(self) -> None:
        """
        A Consul that was emptied makes nobody forget: its index began anew.
        """
        self.known.start()
        self.look()
        self.state.empty()
        self.lease = self.join()
        self.look()
        self.assertEqual(self.work, ["x", "y"])

        self.put("z")
        self.look()

        self.assertEqual(self.work, ["z"])

    def test_stopped(self) -> None:
        """
        Stopped before it has looked, while it looks, twice: nothing is left.
        """
        for seconds in (0, 10):
            self.setUp()
            self.network.loses_request = lambda request: True
            before = self.clock.getDelayedCalls()
            self.known.start()
            self.clock.advance(seconds)

            self.assertEqual(self.successResultOf(self.known.stop()), None)
            self.assertEqual(self.successResultOf(self.known.stop()), None)
            self.known.start()

            self.assertEqual(self.clock.getDelayedCalls(), before)
