"""
Calls to Consul that are tried again until they are answered, or we shut down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, inlineCallbacks
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from ._loops import Tasks, sleep
from ._types import Steps
from .consul.backoff import Backoff
from .errors import ConsulError, ShutDownError


class Retrying:
    """
    Retries with the original coordinator's steps, a back-off for each call.

    :param retries: waits the back-offs out.
    """

    def __init__(
        self, retries: IReactorTime, random: Callable[[], float], log: Any
    ) -> None:
        self._retries = retries
        self._random = random
        self._log = log
        self._tasks = Tasks(log)
        self._stopped = False

    def call(self, call: Callable[..., Any], *args: Any, **kw: Any) -> Deferred[Any]:
        """
        Call until it is answered.

        :return: a Deferred that fires with the result, or fails with
            :class:`ConsulError` where a retry cannot help, and with
            :class:`ShutDownError` after :meth:`stop`.  Cancelling it ends the
            retries.
        """
        if self._stopped:
            return fail(ShutDownError("the Coordinator is shutting down"))
        attempts: Deferred[Any] = self._attempts(call, args, kw)
        answer: Deferred[Any] = Deferred(lambda _: attempts.cancel())

        def deliver(result: Any) -> None:
            if answer.called:
                return
            if self._stopped and _cancelled(result):
                answer.errback(ShutDownError("the Coordinator is shutting down"))
            else:
                answer.callback(result)

        attempts.addBoth(deliver)
        self._tasks.spawn("retry", lambda: attempts)
        return answer

    @inlineCallbacks
    def _attempts(self, call: Callable[..., Any], args: Any, kw: Any) -> Steps[Any]:
        backoff = Backoff(self._random)
        while True:
            try:
                result = yield call(*args, **kw)
            except ConsulError as error:
                if not error.retryable:
                    raise
                seconds = backoff.next(error)
                log = self._log.error if backoff.grew else self._log.debug
                log("consul-not-up", retry_in=round(seconds, 3), error=str(error))
                yield sleep(self._retries, seconds)
            else:
                return result

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Try nothing any more; what is under way fails with
        :class:`ShutDownError`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._stopped = True
        yield self._tasks.stop()


def _cancelled(result: Any) -> bool:
    return isinstance(result, Failure) and result.check(CancelledError) is not None
