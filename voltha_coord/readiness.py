"""
Those who wait for a leader to be known, or for this member to be ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred, fail

from .errors import ShutDownError
from .waiters import Waiters

_T = TypeVar("_T")


def shut_down_error() -> ShutDownError:
    """
    Give what those are told who wait for what will not come any more.
    """
    return ShutDownError("the Coordinator is shutting down")


class Readiness:
    """
    Looks whether it is so, whenever it may be, and tells those who wait.

    :param leader_id: gives who leads, ``None`` while nobody does.
    :param is_ready: whether this member is ready.
    :param leaving: whether this member is on its way out.
    """

    def __init__(
        self,
        *,
        leader_id: Callable[[], str | None],
        is_ready: Callable[[], bool],
        leaving: Callable[[], bool],
    ) -> None:
        self._leader_id = leader_id
        self._is_ready = is_ready
        self._leaving = leaving
        self._for_a_leader: Waiters[str] = Waiters()
        self._for_ready: Waiters[None] = Waiters()

    def wait_for_a_leader(self) -> Deferred[str]:
        """
        Wait until a leader is known.

        :return: a Deferred that fires with its instance id; it fails with
            :class:`ShutDownError` at shutdown.
        """
        return self._wait(self._for_a_leader)

    def when_ready(self) -> Deferred[None]:
        """
        Wait until this member is ready.

        :return: a Deferred that fires with ``None``; it fails with
            :class:`ShutDownError` at shutdown.
        """
        return self._wait(self._for_ready)

    def _wait(self, waiters: Waiters[_T]) -> Deferred[_T]:
        if self._leaving():
            return fail(shut_down_error())
        waiting = waiters.wait()
        self.look()
        return waiting

    def look(self) -> None:
        """
        Tell those for whom it is so now.
        """
        leader_id = self._leader_id()
        if leader_id is not None:
            self._for_a_leader.fire(leader_id)
        if self._is_ready():
            self._for_ready.fire(None)

    def stop(self) -> None:
        """
        Tell everybody that it will not happen.
        """
        self._for_a_leader.fail(shut_down_error)
        self._for_ready.fail(shut_down_error)
