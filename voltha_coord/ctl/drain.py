"""
Emptying a member: what is wanted of it is said, and waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen
from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from .._loops import bounded, sleep
from .._types import Steps
from ..consul.api import ConsulApi
from ..errors import ConsulError, CoordinationError
from ..keys import Keys
from ..planning.state import LEAVE
from .actions import look
from .findings import counted
from .intents import hindrances, refuse_unknown, write_node_intent
from .view import View

#: Between two looks, in seconds.
LOOK_SECONDS = 0.5

#: A member is empty when nothing was with it for so many seconds: a pass of the
#: leader that had begun before the wish was written may still give it something.
QUIET_SECONDS = 1.0


@frozen
class Drained:
    """
    How far the emptying of a member has come.

    :ivar done: whether it is empty.
    :ivar seconds: from when the wish was written until it was empty, or until
        now.
    :ivar leads: whether it leads.
    :ivar moved: where the items are that were with it, by work id; ``None``
        for one that has no place.
    :ivar left: in which way items are with it still, by work id.
    :ivar hindrances: what keeps those from moving away.
    :ivar error: why no more is known than that; ``None`` when all is.
    """

    id: str
    done: bool
    seconds: float
    leads: bool
    moved: dict[str, str | None]
    left: dict[str, str]
    hindrances: tuple[str, ...]
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """
        Give it as the ``--json`` document has it.
        """
        return {
            "id": self.id,
            "drained": self.done,
            "seconds": round(self.seconds, 3),
            "leads": self.leads,
            "moved": self.moved,
            "left": self.left,
            "hindrances": list(self.hindrances),
            "error": self.error,
        }


class Drain:
    """
    Empties one member.

    :param clock: measures time and waits.
    :param timeout: for how long it is waited for, in seconds.
    :param force: also one that nothing is known of.
    :param tell: is told how far it has come, in one line.
    :ivar wanted: whether the wish was written.
    """

    def __init__(
        self,
        clock: IReactorTime,
        id: str,
        *,
        timeout: float,
        force: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._id = id
        self._timeout = timeout
        self._force = force
        self._tell = tell
        self._said: dict[str, None] = {}
        self._had: dict[str, None] = {}
        self._began = 0.0
        self._empty_at: float | None = None
        self._view: View | None = None
        self._error: str | None = None
        self.wanted = False

    @inlineCallbacks
    def run(self, api: ConsulApi, keys: Keys) -> Steps[Drained]:
        """
        Say that the member is to be emptied, and wait until it is, or the time
        is over.

        :return: a Deferred that fires with how far it has come.  It fails with
            :class:`CoordinationError`, and nothing is written, when the member
            cannot be emptied as things are.
        """
        view: View = yield look(api, keys)
        if not self._force:
            refuse_unknown(view, self._id)
        self._note(view)
        if self._left():
            self._refuse_hindered(view)
        if view.planned.node_intents.get(self._id) != LEAVE:
            yield write_node_intent(api, keys, self._id, LEAVE)
        self.wanted = True
        self._began = self._clock.seconds()
        try:
            yield bounded(self._clock, self._timeout, lambda: self._wait(api, keys))
        except TimeoutError:
            pass
        except ConsulError as error:
            self._error = str(error)
        return self.report()

    def report(self) -> Drained:
        """
        Say how far it has come, as last seen.
        """
        view, left = self._view, self._left()
        assert view is not None
        empty_at = self._empty_at
        ended = self._clock.seconds() if empty_at is None else empty_at
        return Drained(
            self._id,
            empty_at is not None,
            ended - self._began,
            view.leader_id == self._id,
            {
                work: item.assigned_to if (item := view.items.get(work)) else None
                for work in self._had
                if work not in left
            },
            left,
            tuple(hindrances(view, self._id)) if left else (),
            self._error,
        )

    def _refuse_hindered(self, view: View) -> None:
        found = tuple(hindrances(view, self._id))
        if found:
            raise CoordinationError(
                f"{self._id} cannot be emptied of {counted(len(self._left()))}: "
                f"{'; '.join(found)}; nothing was written"
            )

    def _left(self) -> dict[str, str]:
        assert self._view is not None
        return self._view.holdings(self._id)

    def _note(self, view: View) -> None:
        self._view = view
        self._had |= dict.fromkeys(self._left())

    @inlineCallbacks
    def _wait(self, api: ConsulApi, keys: Keys) -> Steps[None]:
        while True:
            try:
                view: View = yield look(api, keys)
            except ConsulError as error:
                if not error.retryable:
                    raise
                self._say([f"no answer from Consul: {error}"])
            else:
                self._note(view)
                now = self._clock.seconds()
                if self._left():
                    self._empty_at = None
                    self._say(self._progress(view))
                elif self._empty_at is None:
                    self._empty_at = now
                elif now - self._empty_at >= QUIET_SECONDS:
                    return
            yield sleep(self._clock, LOOK_SECONDS)

    def _progress(self, view: View) -> Iterator[str]:
        yield f"{len(self._left())} of {counted(len(self._had))} left"
        yield from hindrances(view, self._id)

    def _say(self, lines: Iterable[str]) -> None:
        """
        Tell what was not told the last time.
        """
        said, self._said = self._said, dict.fromkeys(lines)
        for line in self._said:
            if line not in said:
                self._tell(f"{self._id}: {line}")
