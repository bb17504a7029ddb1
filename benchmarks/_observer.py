"""
One look at Consul that never blinks: blocking queries, each change stamped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from threading import Condition, Thread
from typing import Any

from _http import Connection, NoAnswer, Stuck, value
from attrs import frozen

#: How long Consul may sit on a question, in seconds.
WAIT = 30

#: Until it is asked again when it did not answer.
RETRY_SECONDS = 0.02


@frozen
class Row:
    """
    A key as it was seen.

    :ivar session: who holds it; empty for nobody.
    """

    value: bytes
    session: str
    index: int

    def json(self) -> dict[str, Any]:
        """
        Give what its value says; nothing when that is nothing for a machine.
        """
        try:
            found = json.loads(self.value)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@frozen
class Change:
    """
    What was seen, and when the answer was here, on the monotonic clock.
    """

    at: float
    rows: Mapping[str, Row]


class Observer:
    """
    Watches one key, or all under a prefix, from its first answer on.

    :param address: of the agent that is asked.
    :param path: the key, or a prefix that ends with a slash.
    """

    def __init__(self, address: str, path: str) -> None:
        self._path = path
        self._connection = Connection(address, WAIT * 17 / 16 + 5)
        self._news = Condition()
        self._changes: list[Change] = []
        self._ended = False
        Thread(target=self._watch, name=f"observer of {path}", daemon=True).start()
        self.first(0.0, lambda rows: True, 30.0)

    def close(self) -> None:
        """
        Look no more.
        """
        self._ended = True

    def now(self) -> Mapping[str, Row]:
        """
        Give what was seen last.
        """
        with self._news:
            return self._changes[-1].rows

    def first(
        self, since: float, found: Callable[[Mapping[str, Row]], Any], patience: float
    ) -> float:
        """
        Give when something was first seen, of what was seen after ``since``.

        :raises Stuck: when it is not seen in time.
        """
        end = time.monotonic() + patience
        seen = 0
        with self._news:
            while True:
                for change in self._changes[seen:]:
                    if change.at >= since and found(change.rows):
                        return change.at
                seen = len(self._changes)
                left = end - time.monotonic()
                if left <= 0:
                    raise Stuck(f"not seen in {patience:g} s under {self._path}")
                self._news.wait(left)

    def forget(self) -> None:
        """
        Keep only what was seen last.
        """
        with self._news:
            del self._changes[:-1]

    def _watch(self) -> None:
        index = 0
        while not self._ended:
            recurse = "&recurse" if self._path.endswith("/") else ""
            try:
                answer = self._connection.ask(
                    f"/v1/kv/{self._path}?index={index}&wait={WAIT}s{recurse}"
                )
            except NoAnswer:
                index = 0
                time.sleep(RETRY_SECONDS)
                continue
            at = time.monotonic()
            # An index that falls is begun again with.
            index = answer.index if answer.index >= index else 0
            rows = {
                row["Key"]: Row(value(row), row.get("Session", ""), row["ModifyIndex"])
                for row in answer.body or ()
            }
            with self._news:
                if not self._changes or rows != self._changes[-1].rows:
                    self._changes.append(Change(at, rows))
                    self._news.notify_all()
