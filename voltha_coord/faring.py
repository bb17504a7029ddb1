"""
Asking the runner how the items fare that it has started.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from ._json import parse_object
from .call import told
from .condition import Condition
from .interfaces import IRunner
from .item import RUNNING, Item
from .runners.complete import does


class Faring:
    """
    Knows of each item that runs how it fares by itself: asks when it has been
    started or changed, and when the runner says that it fares in another way.

    Whatever a runner says must not keep other items from being looked after: what
    cannot be used counts as nothing said, and is logged once for each item.

    :param items: the items that are here, by work id.
    :param changed: told whenever a status report would say something new.
    :param attend: told whenever what is the matter with an item has changed.
    """

    def __init__(
        self,
        runner: IRunner,
        items: Mapping[str, Item],
        *,
        changed: Callable[[], None],
        attend: Callable[[], None],
        log: Any,
    ) -> None:
        self._runner = runner
        self._items = items
        self._changed = changed
        self._attend = attend
        self._log = log
        self._knows = does(runner, "condition")
        self._unknown: set[str] = set()
        self._asking: set[str] = set()

    def listen(self) -> None:
        """
        Have the runner say from now on when an item changes.  Never raises.
        """
        try:
            self._runner.listen(self._heard)
        except Exception as error:
            self._log.error(
                "runner-not-listened-to",
                error=told(error),
                effect="what changes by itself is seen when the item is started",
            )

    def _heard(self, work: str) -> None:
        item = self._items.get(work)
        if item is not None and item.state == RUNNING:
            self.ask(item)

    def ask(self, item: Item) -> None:
        """
        Ask how an item fares, and note it with the item.  Never raises.
        """
        if not self._knows or item.id in self._asking:
            return
        before, trouble = item.condition, item.trouble
        self._asking.add(item.id)
        try:
            item.condition = self._ask(item)
        finally:
            self._asking.discard(item.id)
        if item.condition != before:
            self._changed()
        if item.trouble != trouble:
            self._attend()

    def _ask(self, item: Item) -> Condition | None:
        self._unknown &= self._items.keys()
        try:
            condition = _checked(self._runner.condition(item.description))
        except Exception as error:
            if item.id not in self._unknown:
                self._unknown.add(item.id)
                self._log.error("condition-unknown", work=item.id, error=told(error))
            return None
        self._unknown.discard(item.id)
        return condition


def _checked(said: object) -> Condition | None:
    """
    Give what a runner said, as it can be shown.

    :raises TypeError: when it is no condition.
    :raises ValueError: when its details are not values of JSON.
    """
    if said is None:
        return None
    if not isinstance(said, Condition):
        raise TypeError(f"{type(said).__name__} instead of Condition")
    if not (isinstance(said.state, str) and said.state and isinstance(said.error, str)):
        raise TypeError("state and error of a Condition are texts")
    since = said.since
    if since is not None and not math.isfinite(since):
        raise ValueError(f"since {since} is no time")
    details = parse_object("details", json.dumps(dict(said.details)).encode())
    return evolve(said, details=details)
