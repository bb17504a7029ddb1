"""
Telling that something under a prefix has changed, however much lies there.

# Note [One name stands for all]

A listing of names ``work`` with the separator ``/`` is cut off at the first
one: it answers the name ``work/`` alone.  Its index is that of everything that
lies below, deletions included, and a blocking query for it wakes at each change
of any of that.  So it costs the same few bytes for ten keys and for ten
thousand, and tells *that* something has changed; what has, is asked of the keys
that matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import KeyNames
from .consul.watch import Watch, WatchTally


class Changes:
    """
    Tells of changes; see Note [One name stands for all].

    :param prefix: what is watched, with its ``/``.
    :param changed: called at the first look, and whenever something has changed
        since the last one.
    :param name: what is watched, for the log.
    :param wait: seconds one blocking query waits at most.
    :param pause: seconds between two calls of ``changed``, at least.
    :param tally: counts what it comes to.
    :param retries: waits out the back-offs.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        prefix: str,
        changed: Callable[[], None],
        *,
        name: str,
        wait: float,
        pause: float,
        random: Callable[[], float],
        tally: WatchTally | None = None,
        retries: IReactorTime | None = None,
        log: Any = None,
    ) -> None:
        self._api = api
        self._prefix = prefix.removesuffix("/")
        self._watch: Watch[KeyNames] = Watch(
            reactor,
            self._read,
            lambda _: changed(),
            name=name,
            wait=wait,
            random=random,
            burst=1,
            refill=pause,
            tally=tally,
            retries=retries,
            log=log,
        )

    @inlineCallbacks
    def _read(self, index: int, wait: float, consistent: bool) -> Steps[KeyNames]:
        found: KeyNames = yield self._api.keys(
            self._prefix, separator="/", index=index, wait=wait, consistent=consistent
        )
        # To a watch a change is another content: here, another index.
        return KeyNames(found.index, (str(found.index),))

    @property
    def running(self) -> bool:
        """
        Whether it was started and has not stopped.
        """
        return self._watch.running

    def start(self) -> None:
        """
        Begin to look.
        """
        self._watch.start()

    def restart(self) -> None:
        """
        Look from the beginning: the index is not to be trusted any more.
        """
        self._watch.restart()

    def stop(self) -> Deferred[None]:
        """
        Look no more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        return self._watch.stop()
