"""
Saying under ``errors/`` what is the matter with items that we own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import inlineCallbacks

from ._status import ERROR_CHARACTERS
from ._types import Steps
from .errors import ConsulError
from .item import Item
from .lease import Lease
from .ownership import Ownership


class Telling:
    """
    Tells what has changed since it told last.

    :param lost: called when an item turns out not to be ours any more.
    """

    def __init__(
        self, ownership: Ownership, *, lost: Callable[[], None], log: Any
    ) -> None:
        self._ownership = ownership
        self._lost = lost
        self._log = log
        self._told: dict[str, str] = {}
        self._told_under = ""

    @inlineCallbacks
    def tell(self, lease: Lease, items: Mapping[str, Item]) -> Steps[None]:
        """
        Tell what is the matter with the items that we own under a lease.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError` when it is worth another try.
        """
        if self._told_under != lease.session_id:
            # What was said under the old session is out of date.
            self._told_under = lease.session_id
            self._told.clear()
        news = {}
        for work, item in items.items():
            text = item.trouble[:ERROR_CHARACTERS]
            ours = item.index and item.lease is lease
            if ours and text != self._told.get(work, ""):
                news[work] = (item.index, text)
        for work in [work for work in self._told if work not in items]:
            # Whoever owns it next speaks for it, or the leader clears it.
            del self._told[work]
        if not news:
            return
        try:
            lost: tuple[str, ...] = yield self._ownership.tell_errors(
                lease.session_id, news
            )
        except ConsulError as error:
            if error.retryable:
                raise
            # Not told is better than not worked.
            self._log.warning("errors-not-told", items=len(news), error=str(error))
            lost = ()
        self._told.update((work, text) for work, (_, text) in news.items())
        if lost:
            self._lost()
