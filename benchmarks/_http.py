"""
Asking Consul, plainly and one after the other: a benchmark waits anyway.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from attrs import frozen

_T = TypeVar("_T")


class NoAnswer(Exception):
    """
    Consul does not answer, or not with what was asked for.
    """


@frozen
class Answer:
    """
    What Consul answered.
    """

    status: int
    index: int
    body: Any


class Connection:
    """
    A connection to an agent that stays open.

    :param address: ``host:port``.
    :param timeout: the longest an answer may take, in seconds.
    """

    def __init__(self, address: str, timeout: float = 5.0) -> None:
        self._http = http.client.HTTPConnection(address, timeout=timeout)

    def ask(self, path: str, method: str = "GET", body: bytes | None = None) -> Answer:
        """
        Make a request.

        :raises NoAnswer: when there is none, or none that was meant for us.
        """
        try:
            self._http.request(method, path, body)
            answer = self._http.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise NoAnswer(f"{method} {path}: {error}") from error
        if answer.status not in (200, 404):
            raise NoAnswer(f"{method} {path}: {answer.status} {text!r}")
        index = int(answer.headers.get("X-Consul-Index") or 0)
        found = json.loads(text) if answer.status == 200 and text.strip() else None
        return Answer(answer.status, index, found)

    def close(self) -> None:
        """
        Close it.
        """
        self._http.close()


def ask(address: str, path: str, method: str = "GET", body: bytes | None = None) -> Any:
    """
    Make one request, and give what it was answered with; ``None`` for nothing.

    :raises NoAnswer: when there is none.
    """
    connection = Connection(address)
    try:
        return connection.ask(path, method, body).body
    finally:
        connection.close()


def value(row: Any) -> bytes:
    """
    Give the value of a key as Consul wrote it.
    """
    return base64.b64decode(row["Value"] or "")


class Stuck(Exception):
    """
    What a benchmark waits for has not happened.
    """


def until(
    what: str, found: Callable[[], _T | None], patience: float, each: float = 0.02
) -> _T:
    """
    Look again and again until something is found, and give it.

    :raises Stuck: when it is not found in time.
    """
    end = time.monotonic() + patience
    while True:
        # No answer is as good as none that is wanted.
        with suppress(NoAnswer):
            result = found()
            if result:
                return result
        if time.monotonic() > end:
            raise Stuck(f"not within {patience:g} s: {what}")
        time.sleep(each)
