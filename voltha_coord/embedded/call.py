"""
One request as an endpoint of the embedded Consul sees it.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from ..consul.transport import Request, Response
from .answers import Problem
from .durations import SECOND, parse_duration
from .pending import Pending
from .radix import Signal

if TYPE_CHECKING:
    from .agent import Agent
    from .state import ConsulState

#: How long a blocking query waits when it does not say, and at most.
DEFAULT_WAIT = 300.0
MAXIMUM_WAIT = 600.0
#: Up to this part of the wait is added, so that not all queries end together.
JITTER = 1 / 16

#: What a read gives: its index, and the answer without the headers.
Found = tuple[int, Response]


def _token(headers: Mapping[str, str]) -> str:
    found = {name.lower(): value for name, value in headers.items()}
    scheme, _, bearer = found.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        bearer = ""
    return found.get("x-consul-token") or bearer


class Call:
    """
    A request, taken apart.

    :ivar name: what follows the endpoint in the path.
    :ivar token: the token it carries, empty for none.
    """

    def __init__(self, agent: Agent, request: Request, name: str) -> None:
        self.agent = agent
        self.request = request
        self.name = name
        self.params: dict[str, str] = {}
        for key, value in request.params:
            self.params.setdefault(key, value or "")
        self.token = self.params.get("token", "")
        if request.headers:
            self.token = _token(request.headers) or self.token

    @property
    def state(self) -> ConsulState:
        """
        The servers.
        """
        return self.agent.state

    @property
    def random(self) -> _random.Random:
        """
        Where the jitter comes from.
        """
        return self.state.random

    def demand_datacenter(self, name: str | None = None) -> None:
        """
        Refuse what is meant for another datacenter.

        :param name: which one is meant; by default what the parameters say.
        :raises Problem: 500.
        """
        if (self.params.get("dc") if name is None else name) not in (None, "", "dc1"):
            raise Problem(500, "No path to datacenter")

    @property
    def stale(self) -> bool:
        """
        Whether any server may answer, with or without a leader.
        """
        return "stale" in self.params

    def denied(self, resource: str, name: str, access: str) -> bool:
        """
        Whether the token may not do this.
        """
        return self.state.deny(resource, name, access, self.token)

    def demand(self, resource: str, name: str, access: str) -> None:
        """
        Refuse what the token may not do.

        :raises Problem: 403.
        """
        if self.denied(resource, name, access):
            raise Problem(403, "Permission denied")

    def number(self, name: str) -> int:
        """
        Give a parameter that must be an unsigned 64-bit number.

        :raises Problem: 500, in Go's words.
        """
        text = self.params[name]
        if not (text.isascii() and text.isdigit()):
            raise Problem(500, f'strconv.ParseUint: parsing "{text}": invalid syntax')
        value = int(text)
        if value >= 1 << 64:
            raise Problem(
                500, f'strconv.ParseUint: parsing "{text}": value out of range'
            )
        return value

    def conflicting(self, *names: str) -> None:
        """
        Refuse more than one of these parameters.

        :raises Problem: 400.
        """
        found = sorted(name for name in names if name in self.params)
        if len(found) > 1:
            shown = "&".join(f"{name}={self.params[name]}" for name in found)
            raise Problem(400, f"Conflicting flags: {shown}")

    def _blocking(self) -> tuple[int, float]:
        """
        Give the index after which to answer, and the seconds to wait.
        """
        if self.stale and "consistent" in self.params:
            raise Problem(
                400, "Cannot specify ?stale with ?consistent, conflicting semantics."
            )
        text = self.params.get("index", "") or "0"
        if not (text.isascii() and text.isdigit()):
            raise Problem(400, "Invalid index")
        wait = DEFAULT_WAIT
        if self.params.get("wait"):
            try:
                wait = parse_duration(self.params["wait"]) / SECOND
            except ValueError:
                raise Problem(400, "Invalid wait time") from None
        if wait <= 0:
            wait = DEFAULT_WAIT
        return int(text), min(wait, MAXIMUM_WAIT)

    def read(
        self,
        find: Callable[[], Found],
        watch: Callable[[], Sequence[Signal]],
        headers: dict[str, str] | None = None,
    ) -> Response | Deferred[Response]:
        """
        Answer a read, at once or when its index is beyond the one given.

        :param find: reads.
        :param watch: gives what fires when it is worth reading again.
        """
        after, wait = self._blocking()
        self.demand_datacenter()
        last: list[Response] = []

        def look() -> Response | None:
            if not self.state.has_leader and "consistent" in self.params:
                raise Problem(500, "No cluster leader")
            index, response = find()
            index = max(index, 1)
            shown = {
                "x-consul-index": str(index),
                "x-consul-knownleader": str(self.agent.reaches_leader).lower(),
                "x-consul-lastcontact": "0",
                **(headers or {}),
                **response.headers,
            }
            response = Response(response.status, shown, response.body)
            last[:] = [response]
            return response if index > after else None

        found = look()
        if found is not None:
            return found
        seconds = wait * (1 + JITTER * self.random.random())
        return self.agent.wait(
            Pending(self.state.clock, seconds, look, watch, lambda: last[0])
        )


#: What answers one method of one path.
Endpoint = Callable[[Call], Response | Deferred[Response]]
#: Path, or beginning of a path if it ends with a slash, to method to endpoint.
Routes = dict[str, dict[str, Endpoint]]
