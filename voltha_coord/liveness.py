"""
The liveness check of one session: registered, passed, and judged.

Consul ends the session as soon as its check has gone unpassed for its TTL, so
a killed process is noticed in seconds.

# Note [One check for each session]

A pass keeps the session alive only if it reaches the check the session is
bound to, on the very agent the session was made on.  With several agents, or a
load balancer before them, a pass may reach another one.  Each session therefore
has a check of its own name, which another agent does not know, and:

- once requests go to another address, the check is given up;
- an agent that does not know the check, or knows it by another token, is told of
  it again, but until it has said that it is the session's node, and a consistent
  read has found the session, no pass extends the lease;
- if a check that was registered just now is not known to the first pass, or
  another agent answers at the same address, passes are of no use here.

The check of a session that ran out is not deregistered: successors read in the
catalog that its timer fired.  The agent removes it after a minute.

# Note [Whose word the catalog takes]

An agent tells the catalog of a service with the very token that it was
registered with, and of its check too.  Once that token is taken back the agent
goes on acknowledging passes, and the catalog never hears that the check has run
out: a dead process would be noticed after twice the session TTL.  So the agent
is told of the check again once requests carry another token (field report 109).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Ticker
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import ServiceSpec, SessionInfo
from .consul.transport import NotConnected
from .errors import AccessDenied, CheckLost, ConsulError
from .lease import Acknowledged
from .settings import Settings

#: While nobody listens at the agent's address, passes come so much sooner: one that
#: is restarted is met before the lease is over.
ABSENT_SHARE = 0.25


class CheckEnd(Enum):
    """
    Why a check keeps no session alive any more.
    """

    #: It went unpassed for too long: see Note [A gap in the passes].
    GAP = "check-not-acknowledged"
    #: Its agent knows it no longer, and does not say that it is the same agent.
    LOST = "liveness-check-lost"
    #: Requests go to another agent now.
    AGENT_CHANGED = "agent-changed"
    #: Passes do not reach the agent it is registered with.
    UNUSABLE = "liveness-check-unusable"
    #: Somebody answers in the agent's place: its passes may be no passes.
    FOREIGN = "answered-by-another"
    #: It may not be registered.
    DENIED = "liveness-check-denied"
    #: It is known, but the session is gone.
    SESSION_GONE = "session-gone"

    @property
    def without_check(self) -> bool:
        """
        Whether the next session had better do without a check.
        """
        return self in (CheckEnd.UNUSABLE, CheckEnd.DENIED)


class Troubles:
    """
    Says each kind of trouble once, until it is over.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._said: set[str] = set()

    def say(self, event: str, error: Exception) -> None:
        """
        Log it, unless that was done since it was last over.
        """
        if event not in self._said:
            self._said.add(event)
            self._log.warning(event, error=str(error))

    def over(self, *events: str) -> None:
        """
        Forget that it was said.
        """
        self._said.difference_update(events)


class Liveness:
    """
    One check, under one name; see the head of the module.

    :ivar passes: until when what was acknowledged carries.
    :ivar end: why it keeps no session alive any more; ``None`` while it does.

    :param service: the service that carries it.
    :param requests: owns the requests that are under way.
    :param passed: called when a pass has extended :attr:`passes`.
    :param failed: called once :attr:`end` is set.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        settings: Settings,
        service: ServiceSpec,
        *,
        requests: Tasks,
        troubles: Troubles,
        passed: Callable[[], None],
        failed: Callable[[CheckEnd], None],
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._settings = settings
        self._troubles = troubles
        self._passed = passed
        self._failed = failed
        self._ticker = Ticker(reactor, requests, "pass-check", self._pass_once)
        self._address = api.requester.address
        self._token_version = api.requester.token.version
        self._session: SessionInfo | None = None
        self._registered_at = 0.0
        self._proven = False
        self._doubted = False
        self._mending = False
        self._stopped = False
        self._paced = 0.0
        self.service = service
        self.passes = self._acknowledged()
        self.end: CheckEnd | None = None

    def holds(self) -> bool:
        """
        Tell whether a session may rest on it; see whether that is over.
        """
        if self._api.requester.address != self._address:
            self._fail(CheckEnd.AGENT_CHANGED)
        elif not self.passes.carries:
            self._fail(CheckEnd.GAP)
        return self.end is None

    @inlineCallbacks
    def register(self) -> Steps[None]:
        """
        Register the service and its check, passing, and pass it from then on.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        self.passes = self._acknowledged()
        self._address = self._api.requester.address
        yield self.tell_again()
        self._pace(self._settings.pass_interval)

    def _pace(self, seconds: float) -> None:
        """
        Pass it every so many seconds from now on.
        """
        if self._paced != seconds and not self._stopped:
            self._paced = seconds
            self._ticker.start(seconds)

    @property
    def told_age(self) -> float:
        """
        Seconds since the agent was last told of it.
        """
        return self._reactor.seconds() - self._registered_at

    @inlineCallbacks
    def tell_again(self) -> Steps[None]:
        """
        Tell the agent of it once more: the agent then tells the catalog, and of
        its node as well, whatever it believes the catalog to know.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError`.
        """
        version = self._api.requester.token.version
        yield self._api.register_service(self.service)
        self._token_version = version
        self._registered_at = self._reactor.seconds()

    def _acknowledged(self) -> Acknowledged:
        now = self._reactor.seconds
        return Acknowledged(now, self._settings.failure_detection, now())

    def bind(self, session: SessionInfo) -> None:
        """
        Take note of the session that rests on it.
        """
        self._session = session

    def distrust(self) -> None:
        """
        Somebody answers in the agent's place, and may have acknowledged passes
        that never reached it: see Note [Whose answer] of
        :mod:`~voltha_coord.consul.genuine`.
        """
        self._fail(CheckEnd.FOREIGN)

    def stop(self) -> None:
        """
        Pass it no more, and say nothing more.
        """
        self._stopped = True
        self._ticker.stop()

    def _fail(self, end: CheckEnd) -> None:
        if self.end is None:
            self.end = end
            stopped = self._stopped
            self.stop()
            if not stopped:
                self._failed(end)

    @inlineCallbacks
    def _pass_once(self) -> Steps[None]:
        if not self.holds():
            return
        sent = self._reactor.seconds()
        try:
            yield self._api.pass_check(
                self.service.check_id, timeout=self._settings.pass_timeout
            )
        except CheckLost as error:
            # An older one was on its way before the check was registered anew.
            if sent >= self._registered_at and not self._stopped:
                self._troubles.say("liveness-check-lost", error)
                yield self._register_again()
        except ConsulError as error:
            self._troubles.say("could-not-pass-liveness-check", error)
            if isinstance(error, NotConnected):
                self._pace(self._settings.pass_interval * ABSENT_SHARE)
        else:
            self._troubles.over("could-not-pass-liveness-check")
            self._pace(self._settings.pass_interval)
            self._proven = True
            if self._stopped:
                return
            if self._doubted:
                yield self._settle_doubt(sent)
            elif self.holds():
                self.passes.note(sent)
                self._passed()
            if self._token_version != self._api.requester.token.version:
                yield self._register_again()

    @inlineCallbacks
    def _register_again(self) -> Steps[None]:
        """
        Tell the agent of the check once more; see Note [One check for each
        session].
        """
        if self._mending or not self.holds():
            return
        if not self._proven:
            self._fail(CheckEnd.UNUSABLE)
            return
        if self._session is None:
            # Nothing rests on it yet: another one will do.
            self._fail(CheckEnd.LOST)
            return
        self._doubted = True
        self._mending = True
        sent = self._reactor.seconds()
        try:
            yield self.tell_again()
        except AccessDenied:
            self._fail(CheckEnd.DENIED)
        except ConsulError as error:
            self._troubles.say("could-not-register-liveness-check", error)
        else:
            self._proven = False
            if self.holds():
                yield self._ask(sent)
        finally:
            self._mending = False

    @inlineCallbacks
    def _settle_doubt(self, sent: float) -> Steps[None]:
        """
        Ask again what was not answered when the check was registered anew.

        :param sent: when the pass was sent that counts if all is well.
        """
        if self._mending:
            return
        self._mending = True
        try:
            yield self._ask(sent)
        finally:
            self._mending = False

    @inlineCallbacks
    def _ask(self, sent: float) -> Steps[None]:
        """
        Ask whether this agent is the session's node, and whether the session
        has survived: then what was sent at that time extends the lease.
        """
        assert self._session is not None
        try:
            same: bool | None = yield self._same_agent(self._session.node)
            if same is False:
                self._fail(CheckEnd.UNUSABLE)
            elif same is None:
                self._fail(CheckEnd.LOST)
            if not self.holds():
                return
            found = yield self._api.session(self._session.id, consistent=True)
        except ConsulError as error:
            self._troubles.say("could-not-confirm-session", error)
            return
        if found is None:
            self._fail(CheckEnd.SESSION_GONE)
        elif self.holds():
            self._doubted = False
            self._troubles.over("liveness-check-lost", "could-not-confirm-session")
            self.passes.note(sent)
            self._passed()

    @inlineCallbacks
    def _same_agent(self, node: str) -> Steps[bool | None]:
        """
        Whether the agent that answers is of that node; ``None`` when we may
        not know.
        """
        try:
            agent: dict[str, Any] = yield self._api.agent_self()
        except AccessDenied:
            return None
        config = agent.get("Config")
        name = config.get("NodeName") if isinstance(config, dict) else None
        return None if name is None else name == node
