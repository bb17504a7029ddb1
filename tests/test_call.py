"""
Tests for :mod:`voltha_coord.call`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks, succeed
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from voltha_coord._types import Steps
from voltha_coord.call import Call, told
from voltha_coord.errors import CommandError

ROOT = Path(__file__).resolve().parent.parent


class CallTests(SynchronousTestCase):
    """
    One call of a runner.
    """

    def setUp(self) -> None:
        """
        Begin at 0.
        """
        self.clock = Clock()

    def call(self, what: Callable[[], Any]) -> Call:
        """
        Give a call that is yet to be made.
        """
        return Call(self.clock, what)

    def stubborn(self, inner: Deferred[Any]) -> Callable[[], Deferred[Any]]:
        """
        Give a call that goes on, whoever cancels it, until ``inner`` fires.
        """

        @inlineCallbacks
        def go_on() -> Steps[Any]:
            try:
                yield Deferred()
            except CancelledError:
                result = yield inner
                return result

        return go_on

    def tearDown(self) -> None:
        """
        No timer is left.
        """
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_results(self) -> None:
        """
        It gives what the runner gives: at once, later, or from a coroutine.
        """

        async def later() -> str:
            return await succeed("c")

        for what in (lambda: "c", lambda: succeed("c"), later):
            call = self.call(what)

            self.assertEqual(self.successResultOf(call.make(5.0)), "c")
            self.assertTrue(call.ended)
            self.assertTrue(call.succeeded)

    def test_failures(self) -> None:
        """
        It fails as the runner does, also where the runner raises at once.
        """
        for what in (lambda: 1 / 0, lambda: Deferred().addCallback(lambda _: 1 / 0)):
            call = self.call(what)
            made = call.make(5.0)
            if not call.ended:
                assert call._running is not None
                call._running.callback(None)

            self.failureResultOf(made, ZeroDivisionError)
            self.assertTrue(call.ended)
            self.assertFalse(call.succeeded)

    def test_bound(self) -> None:
        """
        One that takes too long is cancelled, and fails with ``TimeoutError``.
        """
        cancelled: list[Any] = []
        call = self.call(lambda: Deferred(cancelled.append))
        made = call.make(5.0)
        self.clock.advance(4.9)
        self.assertNoResult(made)
        self.clock.advance(0.2)

        failure = self.failureResultOf(made, TimeoutError)
        self.assertEqual(failure.getErrorMessage(), "not done in 5 s")
        self.assertEqual(len(cancelled), 1)
        self.assertTrue(call.ended)

    def test_unbounded(self) -> None:
        """
        Without a bound it is waited for.
        """
        call = self.call(Deferred)
        made = call.make()
        self.clock.advance(1e6)

        self.assertNoResult(made)
        call.cancel()
        self.failureResultOf(made, CancelledError)

    def test_done_at_the_last_moment(self) -> None:
        """
        One that ends well because it is cancelled has ended well.
        """
        call = self.call(lambda: Deferred(lambda d: d.callback("just so")))
        made = call.make(5.0)
        self.clock.advance(5.0)

        self.assertEqual(self.successResultOf(made), "just so")

    def test_goes_on(self) -> None:
        """
        One that goes on after it was cancelled is not waited for; that it has
        ended, and how, is known when it has.
        """
        inner: Deferred[Any] = Deferred()
        call = self.call(self.stubborn(inner))
        made = call.make(5.0)
        self.clock.advance(5.0)
        ended = call.when_ended()

        self.failureResultOf(made, TimeoutError)
        self.assertFalse(call.ended)
        self.assertNoResult(ended)
        inner.callback(None)
        self.successResultOf(ended)
        self.successResultOf(call.when_ended())
        self.assertTrue(call.succeeded)

    def test_waiting_no_more(self) -> None:
        """
        Whoever waits for it can stop that, and the call is cancelled then.
        """
        inner: Deferred[Any] = Deferred()
        call = self.call(self.stubborn(inner))
        made = call.make(5.0)

        made.cancel()

        self.failureResultOf(made, CancelledError)
        self.assertFalse(call.ended)
        inner.errback(ZeroDivisionError())
        self.assertTrue(call.ended)

    def test_cancelled_from_within(self) -> None:
        """
        A call that has itself cancelled while it is being made is cancelled as
        soon as there is something to be cancelled.
        """
        cancelled: list[Any] = []
        call: Call

        def cancels() -> Deferred[None]:
            call.cancel()
            return Deferred(cancelled.append)

        call = self.call(cancels)
        made = call.make(5.0)

        self.failureResultOf(made, CancelledError)
        self.assertEqual(len(cancelled), 1)

    def test_fired_late(self) -> None:
        """
        A runner that fires its Deferred although it was cancelled does no harm.
        """
        running: Deferred[None] = Deferred()
        call = self.call(lambda: running)
        made = call.make(5.0)
        self.clock.advance(5.0)

        running.callback(None)

        self.failureResultOf(made, TimeoutError)
        self.assertFalse(call.succeeded)

    def test_told(self) -> None:
        """
        An error is told with its kind, but for ours, which say it all; a
        cancellation has no words of its own.
        """
        self.assertEqual(told(ValueError("no licence")), "ValueError: no licence")
        self.assertEqual(told(CommandError("no command")), "no command")
        self.assertEqual(told(CancelledError()), "cancelled by the runner itself")


class ThreadTests(TestCase):
    """
    What docs/embedding.md advises for a runner that works in threads.
    """

    @inlineCallbacks
    def test_ends_when_its_thread_does(self) -> Steps[None]:
        """
        A call whose thread goes on has not ended, though it was cancelled; the
        thread is told.
        """
        page = (ROOT / "docs" / "embedding.md").read_text()
        advice = re.search(r"```python\n(class InThread.*?)```", page, re.DOTALL)
        assert advice is not None
        names: dict[str, Any] = {
            "Deferred": Deferred,
            "deferToThread": deferToThread,
            "threading": threading,
        }
        exec(advice[1], names)
        may_end = threading.Event()

        def work(cancelled: threading.Event) -> bool:
            may_end.wait()
            return cancelled.is_set()

        call = Call(Clock(), lambda: names["InThread"](work))
        made = call.make()
        call.cancel()
        before = call.ended
        may_end.set()
        told = yield made

        self.assertEqual((before, call.ended, told), (False, True, True))
