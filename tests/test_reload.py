"""
Tests of SIGHUP.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from structlog.testing import capture_logs
from twisted.internet.error import ReactorNotRunning
from twisted.internet.interfaces import IReactorFromThreads
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from tests.support.coordinators import RecordingCoordinator
from voltha_coord._reload import OnSignal, Reloading, StopOnce
from voltha_coord.config import Value
from voltha_coord.errors import ConfigurationError


@implementer(IReactorFromThreads)
class _Threads:
    """
    A reactor that keeps what it is asked to call.
    """

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def callFromThread(  # noqa: N802 (Twisted's name)
        self, callable: Any, *args: object, **kwargs: object
    ) -> None:
        """
        Keep it.
        """
        self.asked.append(callable)


class _Output:
    """
    A log with a level.
    """

    level = "info"


class ReloadingTests(SynchronousTestCase):
    """
    Tests of :class:`Reloading`.
    """

    def setUp(self) -> None:
        """
        Have a configuration that can be changed.
        """
        self.configured: dict[str, Any] = {
            "weight": 1.0,
            "log-level": "info",
            "rest-port": 8880,
            "prefix": "a",
        }
        self.reactor = _Threads()
        self.member = RecordingCoordinator()
        self.output = _Output()
        self.reloading = self.make("c.yaml")

    def make(self, *files: str) -> Reloading:
        """
        Make one that reads these files.
        """
        return Reloading(self.reactor, self.read, self.member, self.output, files)

    def read(self) -> dict[str, Value]:
        """
        Read the configuration.
        """
        return {name: Value(value, "x") for name, value in self.configured.items()}

    def reload(self, **changes: Any) -> list[Any]:
        """
        Change the configuration and reload; give what is logged.
        """
        changed = {name.replace("_", "-"): value for name, value in changes.items()}
        self.configured.update(changed)
        with capture_logs() as logs:
            self.reloading.reload()
        return list(logs)

    def test_weight_and_level(self) -> None:
        """
        A new weight and a new log level take effect, and the log says so.
        """
        (said,) = self.reload(weight=2.0, log_level="debug")

        self.assertEqual(self.member.events, [("weight", 2.0), "token"])
        self.assertEqual(self.output.level, "debug")
        self.assertEqual(said["event"], "configuration-reread")
        self.assertEqual(said["changed"], {"weight": 2.0, "log-level": "debug"})
        self.assertEqual(said["token"], "unchanged")
        self.assertEqual(said["files"], ["c.yaml"])

    def test_nothing_new(self) -> None:
        """
        What has not changed is not set again; the token file is read anyway.
        """
        self.reload(weight=2.0)
        (said,) = self.reload()

        self.assertEqual(self.member.events, [("weight", 2.0), "token", "token"])
        self.assertEqual(said["changed"], {})

    def test_no_files(self) -> None:
        """
        Without a file that could have changed there is nothing to read, and the
        log says that instead.
        """
        self.reloading = self.make()

        (said,) = self.reload()

        self.assertEqual(said["event"], "nothing-to-reread")
        self.assertEqual(self.member.events, [])

    def test_token(self) -> None:
        """
        The log says when the token is another one, and never what it is.
        """
        self.member.token_changes = True

        (said,) = self.reload()

        self.assertEqual(said["token"], "changed")

    def test_needs_a_restart(self) -> None:
        """
        What cannot change while the member runs is named, each time.
        """
        for _ in range(2):
            _, warning = self.reload(prefix="b", rest_port=1)

            self.assertEqual(warning["event"], "restart-needed")
            self.assertEqual(warning["options"], ["prefix", "rest-port"])

    def test_refused(self) -> None:
        """
        A configuration with an error in it changes nothing, and the log says
        what is wrong.
        """

        def refuse() -> Any:
            raise ConfigurationError("--weight: 'x' is not a number")

        self.reloading._read = refuse
        (said,) = self.reload()

        self.assertEqual(said["event"], "configuration-refused")
        self.assertIn("--weight", said["error"])
        self.assertEqual(self.member.events, [])

    def test_signal(self) -> None:
        """
        While it runs, SIGHUP reloads, in the reactor's own turn; afterwards the
        signal means what it meant before.
        """
        before = signal.getsignal(signal.SIGHUP)
        self.addCleanup(signal.signal, signal.SIGHUP, before)

        self.reloading.startService()
        os.kill(os.getpid(), signal.SIGHUP)

        self.assertEqual(self.reactor.asked, [self.reloading.reload])
        self.assertEqual(self.member.events, [])
        self.reloading.stopService()
        self.assertEqual(signal.getsignal(signal.SIGHUP), before)


class _Stopping(_Threads):
    """
    A reactor with handlers of its own, which stops once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stops = 0

    def callFromThread(  # noqa: N802 (Twisted's name)
        self, callable: Any, *args: object, **kwargs: object
    ) -> None:
        """
        Call it at once.
        """
        callable(*args, **kwargs)

    def handle(self, number: int, frame: Any) -> None:
        """
        Be its handler of signals.
        """
        raise AssertionError

    def stop(self) -> None:
        """
        Stop; complain of the second time, as reactors do.
        """
        self.stops += 1
        if self.stops > 1:
            raise ReactorNotRunning


class StopOnceTests(SynchronousTestCase):
    """
    Tests of :class:`StopOnce`.
    """

    def test_again(self) -> None:
        """
        A signal to a reactor that is stopping is logged, and no error.
        """
        reactor = _Stopping()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
            signal.signal(number, reactor.handle)

        StopOnce(reactor).take_over()
        with capture_logs() as logs:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)

        self.assertEqual(reactor.stops, 2)
        self.assertEqual(
            [(e["event"], e["signal"]) for e in logs],
            [("already-stopping", "SIGINT")],
        )

    def test_not_ours(self) -> None:
        """
        Signals that are not the reactor's are left alone.
        """
        before = signal.getsignal(signal.SIGTERM)

        StopOnce(_Stopping()).take_over()

        self.assertIs(signal.getsignal(signal.SIGTERM), before)


class OnSignalTests(SynchronousTestCase):
    """
    Tests of :class:`OnSignal`.
    """

    def test_call(self) -> None:
        """
        The signal calls what it was told to, through the reactor.
        """
        before = signal.getsignal(signal.SIGUSR1)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        reactor = _Threads()
        rotating = OnSignal(reactor, signal.SIGUSR1, self.setUp)

        rotating.startService()
        os.kill(os.getpid(), signal.SIGUSR1)
        rotating.stopService()

        self.assertEqual(reactor.asked, [self.setUp])
        self.assertEqual(signal.getsignal(signal.SIGUSR1), before)
