"""
Employing the worker: it is started once, and told what it wants to be told.

An application's worker need not care: what :class:`~.interfaces.IWorker` does not
name is told only to one that has a method for it.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from ._loops import Tasks
from .interfaces import IWorker


class Employing:
    """
    Starts the worker of a member, and tells it from then on.

    :ivar started: whether it was started.

    :param worker: gives it, once it is made.
    :param tasks: what starts it is one of them.
    """

    def __init__(self, worker: Callable[[], IWorker], tasks: Tasks) -> None:
        self._worker = worker
        self._tasks = tasks
        self.started = False

    def start(self) -> None:
        """
        Start it.
        """
        self.started = True
        self._tasks.spawn("worker-start", self._worker().start)

    @property
    def has_work(self) -> bool:
        """
        Whether any work runs here.
        """
        return self.started and bool(self._worker().my_workload)

    def lease_changed(self) -> None:
        """
        The lease or the membership is another one.
        """
        self._tell("lease_changed")

    def emergency_changed(self) -> None:
        """
        An emergency came, or what goes on in it changed, or it is over.
        """
        self._tell("emergency_changed")

    def look_again(self) -> None:
        """
        Consul may be in an older state than it was.
        """
        self._tell("look_again")

    def _tell(self, what: str) -> None:
        told: Callable[[], object] | None = getattr(self._worker(), what, None)
        if self.started and told is not None:
            told()

    def halt(self) -> Deferred[None] | None:
        """
        Stop all that runs here.

        :return: what the worker's own ``halt`` gives.
        """
        halted: Deferred[None] | None = self._worker().halt()
        return halted

    def press(self) -> None:
        """
        Have what is being stopped end now, whatever is lost, if the worker can.
        """
        self._tell("press")
