"""
Every request to Consul passes here: token, datacenter, agents in turn, errors.

Because every one does, callbacks are added by hand: they cost a fraction of what
generators do.

# Note [Lost in an outage]

What is sent while Consul hangs, or a firewall swallows it, may never be answered,
though Consul is back soon.  Whoever waits for it would wait for the rest of its
deadline, seconds in which an item is not started or not moved.  So when Consul
answers again, requests that should have been answered before are given up, and
asked anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import structlog
from attrs import evolve, frozen
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.python.failure import Failure

from ..errors import (
    AccessDenied,
    ConsulError,
    ConsulUnavailable,
    ForeignAnswer,
    NoClusterLeader,
)
from .classify import error_of
from .filtered import Filtered
from .genuine import Genuine
from .token import TokenSource
from .transport import (
    ITransport,
    Lane,
    LaneBusy,
    NotConnected,
    Overtaken,
    Request,
    Response,
)

log = structlog.get_logger(__name__)

#: So many requests in a row without an answer, and the next agent is tried.
#: One alone proves little: agents hold requests for 7 s while the servers have
#: no leader, and a member's liveness check lives on the agent it leaves.
SILENT_REQUESTS = 3

#: The agent answers, but its servers have no leader: for so many seconds, and
#: the next agent is tried.  Elections are over by then, and so are leases.
LEADERLESS_SECONDS = 15.0


#: A command that was sent so many seconds ago should have been answered.
OVERTAKEN_SECONDS = 1.0


@frozen
class Outcome:
    """
    What became of a request.

    :ivar error: what is wrong; ``None`` for nothing.
    :ivar seconds: how long it took.
    """

    request: Request
    error: ConsulError | None
    seconds: float

    @property
    def answered(self) -> bool:
        """
        Whether Consul itself answered; a refusal is an answer.
        """
        return not isinstance(self.error, ConsulUnavailable)


def _unobserved(outcome: Outcome) -> None:
    """
    Tell nobody.
    """


class Requester:
    """
    Sends requests to the first of several agents that can be reached, and
    stays with it.

    :param transports: one for each agent, in order of preference.
    :param token: where the ACL token comes from.
    :param datacenter: sent as ``dc``, unless a request names one.
    :param namespace: sent as ``ns``, unless a request names one.
    :param headers: sent with every request (a proxy's authorization).
    :param on_outcome: told of every outcome but a cancelled request.
    :param now: a steady clock in seconds, for ``on_outcome``.
    """

    def __init__(
        self,
        transports: Sequence[ITransport],
        *,
        token: TokenSource | None = None,
        datacenter: str | None = None,
        namespace: str | None = None,
        headers: Mapping[str, str] | None = None,
        on_outcome: Callable[[Outcome], None] = _unobserved,
        now: Callable[[], float] = monotonic,
    ) -> None:
        if not transports:
            raise ValueError("no transport to any agent")
        self._transports = tuple(transports)
        self._genuine = tuple(Genuine() for _ in transports)
        self._token = TokenSource() if token is None else token
        self._headers = dict(headers or {})
        self._places = tuple(
            (name, value)
            for name, value in (("dc", datacenter), ("ns", namespace))
            if value
        )
        self._on_outcome = on_outcome
        self._now = now
        self._current = 0
        #: Commands under way, and when they were sent.
        self._commands: dict[Deferred[Response], float] = {}
        #: How often the next agent was taken.
        self.switches = 0
        #: The listings from which Consul has left something out.
        self.filtered = Filtered()
        self._silent = 0
        self._leaderless_since: float | None = None

    @property
    def address(self) -> str:
        """
        The agent that requests go to at the moment, for people.
        """
        return str(self._transports[self._current])

    @property
    def token(self) -> TokenSource:
        """
        Where the token comes from.
        """
        return self._token

    def request(self, request: Request) -> Deferred[Response]:
        """
        Send a request; give Consul's answer if it is 2xx or 404.

        A 403 is asked once more when the token file holds another token by
        then; Consul had applied nothing.

        :raises ConsulError: whatever else it was, typed; never anything else.
        """

        def denied(failure: Failure) -> Any:
            if (
                not isinstance(failure.value, AccessDenied)
                or "X-Consul-Token" in request.headers
                or not self._token.refresh()
            ):
                return failure
            log.info("token-file-reread")
            return self._attempt(request)

        asking: Deferred[Response] = self._attempt(request)
        return asking.addErrback(denied)

    def _attempt(self, request: Request) -> Deferred[Response]:
        agent = self._current
        sent = self._now()

        command = request.lane is Lane.COMMAND

        def answered(response: Response) -> Response:
            self._commands.pop(asking, None)
            found = error_of(response)
            fault = self._genuine[agent].fault(request, response)
            if found is None and fault is not None:
                found = ForeignAnswer(f"{response.status} with {fault}: not Consul's")
            if isinstance(found, ForeignAnswer):
                self._went_unanswered(agent, found)
            elif agent == self._current:
                self._silent = 0
                self._look_at_servers(request, found)
            self._on_outcome(Outcome(request, found, self._now() - sent))
            if found is not None:
                raise found
            self.filtered.look(request, response)
            return response

        def unanswered(failure: Failure) -> Failure:
            error: BaseException | None = failure.value
            given_up = command and self._commands.pop(asking, None) is None
            if given_up and isinstance(error, CancelledError):
                error = Overtaken(
                    f"{request.method} {request.path}: no answer in "
                    f"{self._now() - sent:.3g} s, though Consul answers others"
                )
                failure = Failure(error)
            if isinstance(error, ConsulUnavailable):
                if not isinstance(error, LaneBusy | Overtaken):
                    # Those are of our own making: no word about Consul's agent.
                    self._went_unanswered(agent, error)
                self._on_outcome(Outcome(request, error, self._now() - sent))
            return failure

        asking: Deferred[Response] = self._transports[agent].request(
            self._dressed(request)
        )
        if command:
            self._commands[asking] = sent
        return asking.addCallbacks(answered, unanswered)

    def give_up_lost(self) -> None:
        """
        Consul answers again: give up what it should have answered before; see
        Note [Lost in an outage].
        """
        latest = self._now() - OVERTAKEN_SECONDS
        for asking, sent in tuple(self._commands.items()):
            # Giving one up may end others, or send some.
            if sent <= latest and self._commands.pop(asking, None) is not None:
                asking.cancel()

    def _look_at_servers(self, request: Request, found: ConsulError | None) -> None:
        """
        Leave an agent that has lost its servers for longer than they need to
        elect a leader.
        """
        if not isinstance(found, NoClusterLeader):
            if not request.of_agent:
                self._leaderless_since = None
            return
        if self._leaderless_since is None:
            self._leaderless_since = self._now()
        elif self._now() - self._leaderless_since >= LEADERLESS_SECONDS:
            self._switch(found)

    def _dressed(self, request: Request) -> Request:
        headers = {**self._headers, **request.headers}
        token = self._token.value
        if token is not None:
            headers.setdefault("X-Consul-Token", token)
        params = request.params
        if self._places:
            named = {name for name, _ in params}
            params += tuple(pair for pair in self._places if pair[0] not in named)
        elif not headers:
            return request
        return evolve(request, headers=headers, params=params)

    def _went_unanswered(self, agent: int, error: ConsulUnavailable) -> None:
        if agent != self._current or len(self._transports) == 1:
            return
        self._silent += 1
        if self._silent < SILENT_REQUESTS and not isinstance(error, NotConnected):
            return
        self._switch(error)

    def _switch(self, error: ConsulError) -> None:
        """
        Ask the next agent from now on.
        """
        if len(self._transports) == 1:
            return
        left = self.address
        self._current = (self._current + 1) % len(self._transports)
        self.switches += 1
        self._silent = 0
        self._leaderless_since = None
        log.warning(
            "consul-agent-switched", left=left, to=self.address, error=str(error)
        )

    def close(self) -> Deferred[None]:
        """
        Close every transport.  Fires when all are closed; never fails.
        """
        closing = DeferredList(
            [transport.close() for transport in self._transports], consumeErrors=True
        )
        return closing.addCallback(lambda _: None)
