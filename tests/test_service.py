"""
Tests of the service around a Coordinator.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

from structlog.testing import capture_logs
from twisted.application.service import IService, IServiceCollection, MultiService
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from tests.support.coordinators import RecordingCoordinator
from voltha_coord.errors import ConfigurationError
from voltha_coord.service import CannotServe, CoordinatorService


class _Port:
    """
    A port that records when it is opened and closed.
    """

    def __init__(self, name: str, number: int, events: list[Any]) -> None:
        self.name, self.port, self.events = name, number, events
        self.host = "127.0.0.1"

    def getHost(self) -> _Port:  # noqa: N802 (Twisted's name)
        """
        Give an address with a port.
        """
        return self

    def stopListening(self) -> Deferred[None]:  # noqa: N802 (Twisted's name)
        """
        Close.
        """
        self.events.append(f"{self.name} closed")
        return succeed(None)


class ServiceTestCase(SynchronousTestCase):
    """
    Has one shared list of all that happens.
    """

    def setUp(self) -> None:
        """
        Have a clock.
        """
        self.reactor = MemoryReactorClock()
        self.events: list[Any] = []
        self.made: list[RecordingCoordinator] = []

    def listening(self, name: str, number: int) -> Any:
        """
        Make what opens a port.
        """

        def listen(*service: Any) -> Any:
            self.events.append(f"{name} open")
            return _Port(name, number, self.events)

        return listen

    def make_coordinator(self, **bound: Any) -> Any:
        """
        Make a Coordinator that records into the shared list.
        """
        made = RecordingCoordinator(**bound)
        made.events = self.events
        self.events.append(("made", bound))
        self.made.append(made)
        return made

    def make(self, **more: Any) -> CoordinatorService:
        """
        Make the service with both ports.
        """
        return CoordinatorService(
            self.reactor,
            more.pop("make_coordinator", self.make_coordinator),
            web=more.pop("web", self.listening("web", 8880)),
            embedded=more.pop("embedded", self.listening("consul", 8500)),
            **more,
        )


class StartingTests(ServiceTestCase):
    """
    Tests of starting.
    """

    def test_interface(self) -> None:
        """
        It is a service, and a collection of them.
        """
        service = self.make()

        verifyObject(IService, service)
        verifyObject(IServiceCollection, service)

    def test_order(self) -> None:
        """
        Ports open first; the Coordinator is told where they are.
        """
        service = self.make()
        self.assertIsNone(service.coordinator)

        service.startService()

        bound = {"rest_port": 8880, "consul": "127.0.0.1:8500"}
        self.assertEqual(self.events, ["consul open", "web open", ("made", bound)])
        self.assertIs(service.coordinator, self.made[0])

    def test_privileged(self) -> None:
        """
        Ports open while the process may still have the right to low ones, and
        once only.
        """
        service = self.make()

        service.privilegedStartService()
        self.assertEqual(self.events, ["consul open", "web open"])
        service.startService()

        self.assertEqual(len(self.events), 3)

    def test_without_ports(self) -> None:
        """
        In an application's own tree it needs no port.
        """
        service = self.make(web=None, embedded=None)

        service.startService()

        self.assertEqual(self.events, [("made", {"rest_port": 0})])

    def test_in_a_running_tree(self) -> None:
        """
        Added to a parent that runs, it starts.
        """
        parent = MultiService()
        parent.startService()

        self.make().setServiceParent(parent)

        self.assertEqual(len(self.made), 1)

    def test_start_twice(self) -> None:
        """
        Starting a started service changes nothing.
        """
        service = self.make()
        service.startService()
        service.startService()

        self.assertEqual(len(self.made), 1)

    def test_port_in_use(self) -> None:
        """
        A port in use ends the start with an error that names the option, before
        there is a Coordinator, and with what did open closed again.
        """

        def in_use(service: CoordinatorService) -> Any:
            raise CannotListenError("127.0.0.1", 8880, OSError(98, "in use"))

        service = self.make(web=in_use)

        error = self.assertRaises(CannotServe, service.startService)

        self.assertIn("--rest-port", str(error))
        self.assertIn("127.0.0.1:8880", str(error))
        self.assertIn("in use", str(error))
        self.assertEqual(self.events, ["consul open", "consul closed"])
        self.assertFalse(service.running)

    def test_no_such_host(self) -> None:
        """
        An address that is not this machine's, or no address, is told of the
        option that gave it, and not of the port's.
        """
        for why in (
            OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"),
            socket.gaierror(-2, "Name or service not known"),
        ):

            def nowhere(service: CoordinatorService, why: OSError = why) -> Any:
                raise CannotListenError("nohost.invalid", 8880, why)

            error = self.assertRaises(
                CannotServe, self.make(web=nowhere).privilegedStartService
            )

            self.assertTrue(str(error).startswith("--rest-host: "), str(error))

    def test_says_where(self) -> None:
        """
        The log tells address and port of all that listens.
        """
        with capture_logs() as logs:
            self.make().startService()

        self.assertEqual(
            [(e["event"], e["host"], e["port"]) for e in logs],
            [
                ("rest-listening", "127.0.0.1", 8880),
                ("embedded-consul-listening", "127.0.0.1", 8500),
            ],
        )

    def test_embedded_port_in_use(self) -> None:
        """
        The embedded Consul's port is named by its option.
        """

        def in_use() -> Any:
            raise CannotListenError("127.0.0.1", 8500, OSError(98, "in use"))

        error = self.assertRaises(
            CannotServe, self.make(embedded=in_use).privilegedStartService
        )

        self.assertIn("--consul embedded", str(error))

    def test_exit_code(self) -> None:
        """
        Under twistd that error is an exit with code 1, and still an
        ``Exception``, so that twistd cleans up behind itself.
        """
        error = CannotServe("why")

        self.assertIsInstance(error, SystemExit)
        self.assertIsInstance(error, Exception)
        self.assertEqual((error.code, str(error)), (1, "why"))

    def test_no_such_coordinator(self) -> None:
        """
        A Coordinator that cannot be made ends the start; the ports close.
        """

        def impossible(**bound: Any) -> Any:
            raise ConfigurationError("token file 'x' cannot be read")

        service = self.make(make_coordinator=impossible)

        error = self.assertRaises(CannotServe, service.startService)

        self.assertIn("token file 'x'", str(error))
        self.assertEqual(set(self.events[2:]), {"web closed", "consul closed"})


class StoppingTests(ServiceTestCase):
    """
    Tests of stopping.
    """

    def started(self, **more: Any) -> CoordinatorService:
        """
        Make a service, start it, and forget how.
        """
        service = self.make(**more)
        service.startService()
        del self.events[:]
        return service

    def tearDown(self) -> None:
        """
        Nothing is left to happen.
        """
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_order(self) -> None:
        """
        The Coordinator is shut down while the ports are open; only then do they
        close.
        """
        service = self.started()

        stopping = service.stopService()

        self.assertEqual(self.events, ["shutdown"])
        self.assertNoResult(stopping)
        self.made[0].ending.callback(None)
        self.assertIsNone(self.successResultOf(stopping))
        self.assertEqual(self.events[0], "shutdown")
        self.assertEqual(set(self.events[1:]), {"web closed", "consul closed"})
        self.assertFalse(service.running)

    def test_twice(self) -> None:
        """
        Stopping twice, during or after, waits for the same end.
        """
        service = self.started()

        first, second = service.stopService(), service.stopService()
        self.made[0].ending.callback(None)

        self.successResultOf(first)
        self.successResultOf(second)
        self.successResultOf(service.stopService())
        self.assertEqual(self.events.count("shutdown"), 1)

    def test_failing_shutdown(self) -> None:
        """
        A shutdown that fails is logged, and the ports close all the same (field report
        147).
        """
        service = self.started()
        self.made[0].ending = fail(ZeroDivisionError("on purpose"))

        self.assertIsNone(self.successResultOf(service.stopService()))

        self.assertEqual(len(self.events), 3)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_raising_shutdown(self) -> None:
        """
        So is one that raises at once.
        """
        service = self.started()
        self.made[0].shutdown = None  # type: ignore[assignment,method-assign]  # raises

        self.assertIsNone(self.successResultOf(service.stopService()))

        self.assertEqual(len(self.events), 2)
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def test_endless_shutdown(self) -> None:
        """
        A shutdown that goes beyond its bound is cancelled; stopping goes on.
        """
        service = self.started(stop_bound=7.0)
        stopping = service.stopService()

        self.reactor.advance(6.9)
        self.assertNoResult(stopping)
        self.reactor.advance(0.2)

        self.assertIsNone(self.successResultOf(stopping))
        self.assertEqual(len(self.events), 3)

    def test_not_started(self) -> None:
        """
        Stopping what was never started is done at once.
        """
        self.assertIsNone(self.successResultOf(self.make().stopService()))

    def test_stopping_a_failed_start(self) -> None:
        """
        Stopping after a start that failed is done at once.
        """

        def impossible(**bound: Any) -> Any:
            raise ConfigurationError("on purpose")

        service = self.make(make_coordinator=impossible)
        self.assertRaises(CannotServe, service.startService)

        self.assertIsNone(self.successResultOf(service.stopService()))

    def test_again(self) -> None:
        """
        Started again after an end, it has a new Coordinator.
        """
        service = self.started()
        stopping = service.stopService()
        self.made[0].ending.callback(None)
        self.successResultOf(stopping)

        service.startService()

        self.assertIs(service.coordinator, self.made[1])
        stopping = service.stopService()
        self.assertNoResult(stopping)
        self.made[1].ending.callback(None)
        self.successResultOf(stopping)

    def test_changes(self) -> None:
        """
        Weight and token are handed on to the Coordinator, where there is one.
        """
        service = self.make()
        service.set_weight(2.0)
        self.assertFalse(service.reload_token())
        service.startService()
        self.made[0].token_changes = True

        service.set_weight(3.0)

        self.assertTrue(service.reload_token())
        self.assertEqual(self.events[-2:], [("weight", 3.0), "token"])
