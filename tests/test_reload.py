"""
Tests of SIGHUP.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from structlog.testing import capture_logs
from twisted.internet.interfaces import IReactorFromThreads
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from tests.support.coordinators import RecordingCoordinator
from voltha_coord._reload import OnSignal, Reloading
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
        self.reloading = Reloading(self.reactor, self.read, self.member, self.output)

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

    def test_nothing_new(self) -> None:
        """
        What has not changed is not set again; the token file is read anyway.
        """
        self.reload(weight=2.0)
        (said,) = self.reload()

        self.assertEqual(self.member.events, [("weight", 2.0), "token", "token"])
        self.assertEqual(said["changed"], {})

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
