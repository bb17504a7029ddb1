"""
Tests for the Coordinator: its public face, as the original's and beyond.
"""

from __future__ import annotations

import inspect
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock

from voltha_coord.consul.model import SessionSpec
from voltha_coord.coordinator import Coordinator, StaleMembershipEntryException
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import ConsulState
from voltha_coord.errors import (
    AccessDenied,
    ConfigurationError,
    ConsulError,
    DuplicateCoordinatorError,
    InvalidIdError,
    ShutDownError,
    ValueTooLarge,
)
from voltha_coord.events import (
    Connection,
    ConnectionChanged,
    Event,
    LeaderChanged,
    MembersChanged,
    RoleChanged,
)
from voltha_coord.keys import overridden
from voltha_coord.settings import Settings

from .support.embedded import ClusterTestCase, Once, to


class Elsewhere(Coordinator):
    """
    An application's own, with keys of its own.
    """

    LEADER_KEY = "elsewhere/boss"
    MEMBERSHIP_PREFIX = "elsewhere/folk/"


class ConstructorTests(ClusterTestCase):
    """
    How one is made.
    """

    def make(self, *args: Any, **kw: Any) -> Coordinator:
        """
        Make one on a clock of its own, with nobody there.
        """
        clock = Clock()
        kw.setdefault("reactor", clock)
        kw.setdefault(
            "transports", [MemoryTransport(ConsulState(clock).agent(), clock)]
        )
        kw.setdefault("registry", {})
        return Coordinator(*args, **kw)

    def test_signature(self) -> None:
        """
        The first six arguments are the original's, by name, place and default;
        all others go by name alone and have defaults.
        """
        parameters = list(inspect.signature(Coordinator).parameters.values())

        self.assertEqual(
            [p.name for p in parameters[:6]],
            [
                "internal_host_address",
                "external_host_address",
                "instance_id",
                "rest_port",
                "consul",
                "leader_class",
            ],
        )
        self.assertEqual(parameters[4].default, "localhost:8500")
        self.assertEqual(parameters[5].default.__name__, "Leader")
        for parameter in parameters[6:]:
            self.assertEqual(parameter.kind, parameter.KEYWORD_ONLY)
            self.assertIsNot(parameter.default, parameter.empty)

    def test_attributes(self) -> None:
        """
        The original's attributes are there from the first moment.
        """
        a = self.make("10.0.0.1", "1.2.3.4", "a", 8881)

        self.assertEqual(
            (a.internal_host_address, a.external_host_address, a.rest_port),
            ("10.0.0.1", "1.2.3.4", 8881),
        )
        self.assertEqual(a.instance_id, "a")
        self.assertEqual(a.membership_record_key, "service/voltha/members/a")
        self.assertEqual((a.session_id, a.leader_id, a.leader), (None, None, None))
        self.assertEqual((a.i_am_leader, a.shutting_down), (False, False))
        self.assertEqual(a.retries, 0)
        self.assertTrue(hasattr(a, "worker") and hasattr(a, "log"))
        self.assertTrue(hasattr(a.consul, "kv"))

    def test_constants(self) -> None:
        """
        The original's class constants have the original's values.
        """
        self.assertEqual(Coordinator.LEADER_KEY, "service/voltha/leader")
        self.assertEqual(Coordinator.MEMBERSHIP_PREFIX, "service/voltha/members/")
        self.assertEqual(Coordinator.ASSIGNMENT_PREFIX, "service/voltha/assignments/")
        self.assertEqual(Coordinator.WORKLOAD_PREFIX, "service/voltha/work/")
        self.assertEqual(
            Coordinator.RETRY_BACKOFF, [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
        )

    def test_prefix(self) -> None:
        """
        A prefix of the settings moves all keys, and the constants say so.
        """
        a = self.make("h", "h", "a", 0, settings=Settings(prefix="x/y"))

        self.assertEqual(a.LEADER_KEY, "x/y/leader")
        self.assertEqual(a.WORKLOAD_PREFIX, "x/y/work/")
        self.assertEqual(a.membership_record_key, "x/y/members/a")

    def test_constants_of_a_subclass(self) -> None:
        """
        Constants that a subclass overrides win over the prefix; what has no
        constant lies beside the leader key.
        """
        clock = Clock()
        a = Elsewhere(
            "h",
            "h",
            "a",
            0,
            settings=Settings(prefix="x"),
            reactor=clock,
            transports=[MemoryTransport(ConsulState(clock).agent(), clock)],
            registry={},
        )

        self.assertEqual((a.keys.leader, a.LEADER_KEY), ("elsewhere/boss",) * 2)
        self.assertEqual(a.membership_record_key, "elsewhere/folk/a")
        self.assertEqual(a.keys.work, "elsewhere/work/")
        self.assertEqual(a.keys.term, "elsewhere/term")

    def test_constants_of_a_subclass_like_the_defaults(self) -> None:
        """
        A constant that a subclass defines counts even if it is the default.
        """
        clock = Clock()

        class Same(Coordinator):
            LEADER_KEY = "service/voltha/leader"

        a = Same(
            "h",
            "h",
            "a",
            0,
            settings=Settings(prefix="x/y"),
            reactor=clock,
            transports=[MemoryTransport(ConsulState(clock).agent(), clock)],
            registry={},
        )

        self.assertEqual(a.keys.leader, "service/voltha/leader")

    def test_constants_without_a_slash(self) -> None:
        """
        A prefix that does not end with a slash would run into the ids.
        """
        with self.assertRaisesRegex(ConfigurationError, "MEMBERSHIP_PREFIX"):
            overridden("x", {"MEMBERSHIP_PREFIX": "x/members"})
        with self.assertRaisesRegex(ConfigurationError, "LEADER_KEY"):
            overridden("x", {"LEADER_KEY": "boss"})

    def test_constants_take_effect(self) -> None:
        """
        A member with keys of its own leads there.
        """
        a = self.cluster.add("a", coordinator_class=Elsewhere)

        self.cluster.until(lambda: a.is_leader)

        self.assertEqual(self.cluster.entry("service/voltha/leader"), None)
        for key in ("elsewhere/boss", "elsewhere/folk/a", "elsewhere/term"):
            self.assertNotEqual(self.cluster.entry(key), None, key)

    def test_schedules_its_start(self) -> None:
        """
        Making one sends nothing; the first turn of the reactor does.
        """
        clock = Clock()
        consul = ConsulState(clock)
        transport = MemoryTransport(consul.agent(), clock)

        a = self.make("h", "h", "a", 0, reactor=clock, transports=[transport])
        self.assertEqual(transport.under_way, 0)
        clock.advance(0)

        self.assertEqual([s.id for s in consul.sessions.all()], [a.session_id])

    def test_bad_instance_id(self) -> None:
        """
        An instance id that cannot be a key is refused, naming what is wrong.
        """
        for bad, named in (("a/b", "/"), ("", ""), ("ä", "ä"), (".a", ".")):
            with self.assertRaisesRegex(InvalidIdError, named and f"[{named}]"):
                self.make("h", "h", bad, 0)

    def test_addresses(self) -> None:
        """
        V12: an agent may be named by host, IPv6 address, URL or socket.
        """
        for consul, shown in (
            ("consul", "http://consul:8500"),
            ("consul:1234", "http://consul:1234"),
            ("[::1]:1234", "http://[::1]:1234"),
            ("::1", "http://[::1]:8500"),
            ("https://consul", "https://consul"),
            ("http://[fe80::1]", "http://[fe80::1]"),
            ("unix:///run/consul.sock", "unix:///run/consul.sock"),
        ):
            a = Coordinator(
                "h", "h", "a", 0, consul, reactor=_Deaf(), now=lambda: 0.0, registry={}
            )
            self.assertIn(shown, a.consul_address)

    def test_bad_address(self) -> None:
        """
        An address that cannot be one is refused at once.
        """
        for bad in ("ftp://x", "host:port", "http://"):
            with self.assertRaises(ConfigurationError):
                Coordinator("h", "h", "a", 0, bad, reactor=_Deaf(), registry={})

    def test_duplicate(self) -> None:
        """
        A second one of that id and prefix in one process is refused; of another
        prefix or after a shutdown it is not.
        """
        registry: dict[tuple[str, str], Coordinator] = {}
        clock = Clock()
        transport = MemoryTransport(ConsulState(clock).agent(), clock)
        here: dict[str, Any] = {
            "reactor": clock,
            "transports": [transport],
            "registry": registry,
        }
        a = self.make("h", "h", "a", 0, **here)

        with self.assertRaises(DuplicateCoordinatorError):
            self.make("h", "h", "a", 0, **here)
        other = self.make("h", "h", "a", 0, settings=Settings(prefix="x"), **here)
        done = a.shutdown()
        clock.pump([0.1] * 20)
        self.successResultOf(done)
        again = self.make("h", "h", "a", 0, **here)

        self.assertEqual(set(registry.values()), {other, again})

    def test_not_made(self) -> None:
        """
        One whose worker cannot be made leaves no trace.
        """
        registry: dict[tuple[str, str], Coordinator] = {}
        clock = Clock()

        def broken(*args: object) -> Any:
            raise ValueError("no worker")

        with self.assertRaises(ValueError):
            self.make(
                "h", "h", "a", 0, worker_class=broken, registry=registry, reactor=clock
            )

        self.assertEqual((registry, clock.getDelayedCalls()), ({}, []))

    def test_exported_exception(self) -> None:
        """
        The original's exception is found where the original had it.
        """
        self.assertEqual(
            StaleMembershipEntryException.__module__, "voltha_coord.errors"
        )


class _Deaf(Clock):
    """
    A reactor that can be given to what connects, and never does.
    """


class KeyValueTests(ClusterTestCase):
    """
    ``kv_get``, ``kv_put`` and ``kv_delete``.
    """

    def setUp(self) -> None:
        """
        Have a member.
        """
        super().setUp()
        self.a = self.lead()

    def test_results(self) -> None:
        """
        The results are python-consul2's: index and row, or True and False.
        """
        run = self.cluster.result

        self.assertEqual(run(self.a.kv_get("k"))[1], None)
        self.assertIs(run(self.a.kv_put("k", "v")), True)
        index, row = run(self.a.kv_get("k"))
        self.assertEqual(row["Value"], b"v")
        self.assertEqual(
            set(row),
            {"Key", "Value", "Flags", "CreateIndex", "ModifyIndex", "LockIndex"},
        )
        self.assertEqual(str(index), str(row["ModifyIndex"]))
        self.assertIs(run(self.a.kv_put("k", "w", cas=1)), False)
        self.assertIs(run(self.a.kv_put("k/x", "")), True)
        _, rows = run(self.a.kv_get("k", recurse=True))
        self.assertEqual([r["Key"] for r in rows], ["k", "k/x"])
        self.assertEqual(rows[1]["Value"], None)
        self.assertEqual(run(self.a.kv_get("k", keys=True))[1], ["k", "k/x"])
        self.assertIs(run(self.a.kv_delete("k", recurse=True)), True)
        self.assertEqual(run(self.a.kv_get("k", recurse=True))[1], None)

    def test_acquire(self) -> None:
        """
        A key can be held by the member's own session.
        """
        self.cluster.result(self.a.kv_put("k", "v", acquire=self.a.session_id))

        _, row = self.cluster.result(self.a.kv_get("k"))
        self.assertEqual(row["Session"], self.a.session_id)

    def test_retried(self) -> None:
        """
        A call is made again until it is answered, and says so as the original
        did.
        """
        network = self.cluster.network(self.a)
        network.refuses = True
        done = self.a.kv_put("k", "v")
        self.cluster.advance(0.5)
        self.assertNoResult(done)
        self.assertTrue(self.logged("consul-not-up"))

        network.refuses = False

        self.assertIs(self.cluster.result(done), True)
        self.assertTrue(self.logged("reconnected-to-consul"))

    def test_a_retry_cannot_help(self) -> None:
        """
        What a retry cannot change fails at once, with an exception that the original's
        callers catch (field report 99).
        """
        with self.assertRaises(ConsulError):
            self.cluster.result(self.a.kv_put("k", "v", acquire="no-session"), 1)
        with self.assertRaises(ValueTooLarge):
            self.cluster.result(self.a.kv_put("k", "v" * (512 * 1024 + 1)), 1)
        self.cluster.consul.deny = lambda resource, name, access, token: name == "k"
        with self.assertRaises(AccessDenied):
            self.cluster.result(self.a.kv_get("k"), 1)

    def test_cancelled(self) -> None:
        """
        Cancelling ends the retries.
        """
        self.cluster.network(self.a).refuses = True
        done = self.a.kv_get("k")
        self.cluster.advance(0.5)

        done.cancel()

        self.failureResultOf(done, CancelledError)

    def test_shut_down(self) -> None:
        """
        B12: a shutdown ends the retries, and no new call is made (field report 65).
        """
        self.cluster.network(self.a).refuses = True
        done = self.a.kv_get("k")
        self.cluster.advance(0.5)

        self.a.shutdown()
        self.cluster.advance(6)

        self.failureResultOf(done, ShutDownError)
        self.failureResultOf(self.a.kv_get("k"), ShutDownError)


class WaitingTests(ClusterTestCase):
    """
    Waiting for a leader, and for readiness.
    """

    def test_fires(self) -> None:
        """
        Both fire once there is a leader, and then at once.
        """
        a = self.cluster.add("a")
        leader, ready = a.wait_for_a_leader(), a.when_ready()
        self.assertNoResult(leader)

        self.assertEqual(self.cluster.result(leader), "a")
        self.assertEqual(self.cluster.result(ready), None)
        self.assertEqual(self.successResultOf(a.wait_for_a_leader()), "a")

    def test_vacated(self) -> None:
        """
        B15: while nobody leads, whoever waits goes on waiting, and is never
        given the old leader.
        """
        a, b = self.lead("a"), self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.cluster.crash(a)
        self.cluster.until(lambda: b.leader_id is None, 4)

        waiting = b.wait_for_a_leader()
        self.assertNoResult(waiting)

        self.assertEqual(self.cluster.result(waiting), "b")

    def test_cancelled(self) -> None:
        """
        One who waits no more disturbs nobody.
        """
        a = self.cluster.add("a")
        first, second = a.wait_for_a_leader(), a.wait_for_a_leader()
        second.addCallback(lambda _: first.cancel())

        first.cancel()

        self.failureResultOf(first, CancelledError)
        self.cluster.result(second)

    def test_shut_down(self) -> None:
        """
        A shutdown ends the waiting with an error, before and after (field report 65).
        """
        a = self.cluster.add("a")
        leader, ready = a.wait_for_a_leader(), a.when_ready()

        self.cluster.result(a.shutdown())

        for waiting in (leader, ready, a.wait_for_a_leader(), a.when_ready()):
            self.failureResultOf(waiting, ShutDownError)

    def test_ready_needs_a_lease(self) -> None:
        """
        Who is cut off is not ready.
        """
        a = self.lead()
        self.assertTrue(a.is_ready)

        self.cluster.network(a).partition()
        self.cluster.advance(4)

        self.assertFalse(a.is_ready)
        waiting = a.when_ready()
        self.assertNoResult(waiting)
        self.cluster.network(a).heal()
        self.assertEqual(self.cluster.result(waiting), None)


class ListenTests(ClusterTestCase):
    """
    What is told to those who listen.
    """

    def setUp(self) -> None:
        """
        Have a member that somebody listens to.
        """
        super().setUp()
        self.events: list[Event] = []
        self.a = self.cluster.add("a")
        self.stop = self.a.listen(self.events.append)

    def of(self, kind: type[Event]) -> list[Event]:
        """
        Give the events of a kind.
        """
        return [event for event in self.events if isinstance(event, kind)]

    def test_beginning(self) -> None:
        """
        One that starts alone: it is connected, a member, known to lead, leads.
        """
        self.cluster.until(lambda: self.a.is_leader)

        self.assertEqual(
            self.events,
            [
                ConnectionChanged(Connection.CONNECTED, Connection.SUSPENDED),
                MembersChanged(("a",), ()),
                LeaderChanged("a", None),
                RoleChanged("leader", "candidate"),
            ],
        )

    def test_members(self) -> None:
        """
        Members that join and leave are told.
        """
        self.cluster.until(lambda: self.a.is_leader)
        self.cluster.advance(2)
        b = self.cluster.add("b")
        self.cluster.advance(2)
        self.cluster.result(b.shutdown())
        self.cluster.advance(2)

        self.assertEqual(
            self.of(MembersChanged),
            [
                MembersChanged(("a",), ()),
                MembersChanged(("b",), ()),
                MembersChanged((), ("b",)),
            ],
        )

    def test_cut_off(self) -> None:
        """
        A leader that is cut off: suspended, then all that follows from its
        lease's end, then connected again.
        """
        self.cluster.until(lambda: self.a.is_leader)
        self.cluster.advance(2)
        self.events.clear()
        self.cluster.network(self.a).partition()
        self.cluster.advance(5)
        self.cluster.network(self.a).heal()
        self.cluster.until(lambda: self.a.is_leader)

        connections = [
            event.connection
            for event in self.events
            if isinstance(event, ConnectionChanged)
        ]
        self.assertEqual(
            connections,
            [Connection.SUSPENDED, Connection.LOST, Connection.CONNECTED],
        )
        self.assertEqual(
            self.of(RoleChanged),
            [
                RoleChanged("candidate", "leader"),
                RoleChanged("leader", "candidate"),
            ],
        )
        self.assertEqual(
            self.of(LeaderChanged),
            [LeaderChanged(None, "a"), LeaderChanged("a", None)],
        )

    def test_flag_flips_first(self) -> None:
        """
        Field reports 47, 56: whoever is told of a role finds the flag to agree,
        at a loss and at a shutdown.
        """
        seen: list[tuple[str, bool, bool]] = []

        def look(event: Event) -> None:
            if isinstance(event, RoleChanged):
                seen.append((event.role, self.a.is_leader, self.a.role == event.role))

        self.a.listen(look)
        self.cluster.until(lambda: self.a.is_leader)
        self.cluster.consul.destroy_session(self.a.session_id or "")
        self.cluster.until(lambda: not self.a.is_leader)
        self.cluster.until(lambda: self.a.is_leader)
        self.cluster.result(self.a.shutdown())

        self.assertEqual(
            seen,
            [
                ("leader", True, True),
                ("candidate", False, True),
                ("leader", True, True),
                ("draining", False, True),
                ("stopped", False, True),
            ],
        )

    def test_raising(self) -> None:
        """
        A listener that raises ends nothing, and is told the next time.
        """
        calls: list[Event] = []

        def broken(event: Event) -> None:
            calls.append(event)
            raise RuntimeError("listener")

        self.a.listen(broken)

        self.cluster.until(lambda: self.a.is_leader)

        self.assertGreater(len(calls), 1)
        self.assertEqual(len(self.logged("listener-failed")), len(calls))

    def test_unlisten(self) -> None:
        """
        Who ended listening is told nothing.
        """
        self.stop()

        self.cluster.until(lambda: self.a.is_leader)

        self.assertEqual(self.events, [])

    def test_shut_down_from_within(self) -> None:
        """
        A listener may shut down the very Coordinator that tells it.
        """
        ended: list[object] = []

        def leave(event: Event) -> None:
            if isinstance(event, RoleChanged) and event.role == "leader":
                self.a.shutdown().addCallback(ended.append)

        self.a.listen(leave)

        took = self.cluster.until(lambda: ended, 5)

        self.assertLess(took, 1.0)
        self.assertEqual(self.logged("shutdown-step-failed"), [])
        self.assertEqual(self.cluster.left_behind(self.a), (0, 0))

    def test_shut_down_from_within_a_step(self) -> None:
        """
        So may one that is told in the middle of a step of the election, with
        another request of that step to come: it is cut short as any other.
        """
        network = self.cluster.network(self.a)

        def leave(event: Event) -> None:
            if isinstance(event, LeaderChanged) and event.leader_id == "a":
                network.loses_request = to(f"kv/{self.cluster.keys.term}", "GET")
                self.a.shutdown()

        self.a.listen(leave)

        self.cluster.until(lambda: self.a.role == "stopped", 6)

        steps = [one["step"] for one in self.logged("shutdown-step-failed")]
        self.assertNotIn("stop-election", steps)


class LogTests(ClusterTestCase):
    """
    The original's names of what is logged.
    """

    def test_names(self) -> None:
        """
        What people grep for is still there.
        """
        a = self.lead()
        self.cluster.network(a).refuses = True
        self.cluster.advance(6)
        self.cluster.network(a).refuses = False
        self.cluster.advance(6)
        self.cluster.result(a.shutdown())

        names = {entry["event"] for entry in self.logs}
        for name in (
            "initializing-coordinator",
            "initialized-coordinator",
            "created-consul-session",
            "created-membership-record",
            "became-leader",
            "lost-leadership",
            "consul-not-up",
            "reconnected-to-consul",
        ):
            self.assertIn(name, names)


class MemberTests(ClusterTestCase):
    """
    What a member tells of itself and of others.
    """

    def test_get_members(self) -> None:
        """
        The live members are read by id, whatever else is under the prefix.
        """
        a = self.add("b", "a")[1]
        self.cluster.result(
            self.cluster.api.put(self.cluster.keys.member("ghost"), b"alive")
        )

        members = self.cluster.result(a.get_members())

        self.assertEqual([member.id for member in members], ["a", "b"])

    def test_set_weight(self) -> None:
        """
        Another weight is published.
        """
        a = self.lead()

        a.set_weight(3.0)
        self.cluster.advance(1)

        (member,) = self.cluster.result(a.get_members())
        self.assertEqual(member.weight, 3.0)

    def test_same_id_elsewhere(self) -> None:
        """
        Of two processes with one id the second waits, says what for, and takes over
        when the first is gone (V16).
        """
        first = self.lead()
        second = self.cluster.add("a")
        self.cluster.advance(20)
        self.assertEqual((second.is_member, second.is_leader), (False, False))
        self.assertIn(first.session_id or "", second.status()["waiting_for"])
        self.assertTrue(self.logged("stale-membership-record-in-the-way"))

        self.cluster.crash(first)
        self.cluster.until(lambda: second.is_leader, 8)

        self.assertTrue(second.is_ready)

    def test_lease(self) -> None:
        """
        The lease is told as it is at the moment.
        """
        a = self.cluster.add("a")
        self.assertEqual(
            (a.lease.token, a.lease.remaining, a.lease.session_id), (None, 0.0, None)
        )
        self.cluster.until(lambda: a.is_leader)
        self.assertGreater(a.lease.remaining, 1.5)
        self.assertEqual(a.lease.session_id, a.session_id)

        self.cluster.network(a).partition()
        self.cluster.advance(4)

        self.assertEqual((a.lease.token, a.lease.remaining), (None, 0.0))

    def test_worker_is_started_once(self) -> None:
        """
        The worker starts with the first membership, and is kept through all
        later sessions.
        """
        started: list[str] = []

        class Counting:
            my_workload: set[str] = set()  # noqa: RUF012 (as in the original)

            def __init__(self, instance_id: str, coordinator: Coordinator) -> None:
                self.id = instance_id

            def start(self) -> None:
                started.append(self.id)

            def halt(self) -> None:
                started.append("halt")

        a = self.cluster.add("a", worker_class=Counting)
        self.cluster.until(lambda: a.is_ready)
        self.cluster.consul.destroy_session(a.session_id or "")
        self.cluster.advance(5)
        self.cluster.result(a.shutdown())

        self.assertEqual(started, ["a", "halt"])

    def test_denied_lists(self) -> None:
        """
        A listing of members that is denied is an error, and no empty cluster.
        """
        a = self.lead()
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(self.cluster.keys.members)
        )

        with self.assertRaises(AccessDenied):
            self.cluster.result(a.get_members())

    def test_wall_clock_steps(self) -> None:
        """
        A step of the wall clock changes nothing but the log.
        """
        clock = Clock()
        consul = ConsulState(clock)

        class Stepping(Clock):
            step = 0.0

            def seconds(self) -> float:
                return super().seconds() + self.step

        wall = Stepping()
        lease_clock = Clock()
        a = Coordinator(
            "h",
            "h",
            "a",
            0,
            reactor=wall,
            transports=[MemoryTransport(consul.agent(), wall)],
            now=lease_clock.seconds,
            registry={},
        )
        for second in range(20):
            if second == 10:
                wall.step = 3600.0
            for _ in range(20):
                for one in (clock, lease_clock, wall):
                    one.advance(0.05)

        self.assertTrue(a.is_leader)
        self.assertEqual(len(self.logged("became-leader")), 1)
        done = a.shutdown()
        for _ in range(40):
            for one in (clock, lease_clock, wall):
                one.advance(0.05)
        self.successResultOf(done)


class OriginalNameTests(ClusterTestCase):
    """
    Names of the original that mean the same here.
    """

    def test_i_am_leader(self) -> None:
        """
        ``i_am_leader`` heeds the deadline as ``is_leader`` does.
        """
        a = self.lead()
        self.assertTrue(a.i_am_leader)

        self.cluster.network(a).partition()
        self.cluster.advance(3)

        self.assertFalse(a.i_am_leader)

    def test_retries(self) -> None:
        """
        ``retries`` counts what went unanswered, and begins anew at an answer.
        """
        a = self.lead()
        self.cluster.network(a).loses_request = Once(
            to(f"session/renew/{a.session_id}")
        )
        self.cluster.until(lambda: a.retries, 6)

        self.cluster.advance(2)

        self.assertEqual(a.retries, 0)

    def test_foreign_session(self) -> None:
        """
        A session that somebody else made is none of ours.
        """
        a = self.lead()
        spec = SessionSpec("x", ttl=15, lock_delay=0)

        other = self.cluster.result(self.cluster.api.create_session(spec))

        self.assertNotEqual(a.session_id, other)
