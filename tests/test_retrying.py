"""
Tests for calls that are tried again.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord.errors import BadRequest, ConsulUnavailable, ShutDownError
from voltha_coord.retrying import Retrying
from voltha_coord.settings import RETRY_STEPS


class RetryingTests(SynchronousTestCase):
    """
    Retries, until an answer or the end.
    """

    def setUp(self) -> None:
        """
        Make one without jitter.
        """
        self.clock = Clock()
        self.log = RecordingLog()
        self.retrying = Retrying(self.clock, lambda: 1.0, self.log)
        self.called: list[float] = []
        self.answers: list[Any] = []

    def ask(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        Give the next answer; unavailable when there is none.
        """
        self.called.append(self.clock.seconds())
        self.arguments = (args, kw)
        if not self.answers:
            return fail(ConsulUnavailable("down"))
        answer = self.answers.pop(0)
        if isinstance(answer, Deferred):
            return answer
        return fail(answer) if isinstance(answer, Exception) else succeed(answer)

    def test_gives_the_answer(self) -> None:
        """
        What is answered at once is given at once, with the arguments it takes.
        """
        self.answers = [("7", None)]

        result = self.successResultOf(self.retrying.call(self.ask, "k", index=7))

        self.assertEqual(result, ("7", None))
        self.assertEqual(self.arguments, (("k",), {"index": 7}))

    def test_b12_tried_again_with_the_original_steps(self) -> None:
        """
        What is not answered is tried again after the original's steps; the
        last is repeated (B12).
        """
        asked = self.retrying.call(self.ask)
        self.clock.pump([0.01] * 1500)
        self.answers = ["here"]
        self.clock.pump([0.01] * 501)

        pauses = [b - a for a, b in zip(self.called, self.called[1:], strict=False)]
        for pause, step in zip(pauses, [*RETRY_STEPS, 5.0], strict=False):
            self.assertLess(abs(pause - step), 0.02)
        self.assertEqual(self.successResultOf(asked), "here")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_says_each_step_once(self) -> None:
        """
        A long outage is a line for each step, with the original's name.
        """
        self.retrying.call(self.ask)

        self.clock.pump([0.05] * 2000)

        said = self.log.of("consul-not-up", "error")
        self.assertEqual([f["retry_in"] for f in said], list(RETRY_STEPS))

    def test_b12_no_call_slows_another(self) -> None:
        """
        Each call has a back-off of its own: one that has failed for long does
        not slow down another (B12).
        """
        self.retrying.call(self.ask)
        self.clock.pump([0.05] * 400)
        before = self.clock.seconds()

        self.retrying.call(self.ask)
        self.clock.advance(RETRY_STEPS[0])

        self.assertIn(before, self.called)
        self.assertAlmostEqual(self.called[-1], before + RETRY_STEPS[0])

    def test_what_no_retry_helps_is_raised(self) -> None:
        """
        A bad request, and a bug, are the caller's affair at once.
        """
        self.answers = [BadRequest("no"), ValueError("bug")]

        self.failureResultOf(self.retrying.call(self.ask), BadRequest)
        self.failureResultOf(self.retrying.call(self.ask), ValueError)

        self.assertEqual(len(self.called), 2)

    def test_b12_v1_ends_at_shutdown(self) -> None:
        """
        At shutdown a call fails, in its pause or its request, and no timer is
        left (B12, V1).
        """
        request: Deferred[None] = Deferred()
        pausing = self.retrying.call(self.ask)
        self.answers = [request]
        asking = self.retrying.call(self.ask)

        stopped = self.retrying.stop()

        self.successResultOf(stopped)
        self.failureResultOf(pausing, ShutDownError)
        self.failureResultOf(asking, ShutDownError)
        self.assertTrue(request.called)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_after_shutdown_nothing_is_sent(self) -> None:
        """
        After it a call fails at once; stopping twice is no error.
        """
        self.successResultOf(self.retrying.stop())
        self.successResultOf(self.retrying.stop())

        self.failureResultOf(self.retrying.call(self.ask), ShutDownError)

        self.assertEqual(self.called, [])

    def test_cancelled_by_its_caller(self) -> None:
        """
        Its caller may end the retries.
        """
        asked = self.retrying.call(self.ask)

        asked.cancel()

        self.failureResultOf(asked, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.log.of("task-failed"), [])

    def test_cancelled_while_its_request_is_under_way(self) -> None:
        """
        The request is cancelled with it.
        """
        cancelled: list[object] = []
        self.answers = [Deferred(cancelled.append)]
        asked = self.retrying.call(self.ask)

        asked.cancel()

        self.failureResultOf(asked, CancelledError)
        self.assertEqual(len(cancelled), 1)
