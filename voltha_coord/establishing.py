"""
Establishing a session: its liveness check registered, itself created, both
tried again until they are there.

What it comes to is an :class:`Established`; how that is kept is told in
:mod:`~voltha_coord.keeping`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import ServiceSpec, SessionInfo, SessionSpec
from .errors import (
    AccessDenied,
    CheckLost,
    ConsulError,
    ConsulUnavailable,
    InvalidSessionTTL,
    NodeMissing,
)
from .leftovers import Leftovers
from .liveness import CheckEnd, Liveness
from .own_sessions import OwnSessions
from .pausing import Pausing
from .settings import Settings

#: A check takes a moment to reach the catalog: up to this pause, in seconds, it
#: is not worth a word.
SYNC_PATIENCE = 0.5

#: A check that is not in the catalog so many seconds after its agent was told of
#: it is told again: the agent might take a minute or two to notice.
SYNC_SECONDS = 10.0

#: Steps between two attempts to make a session, in seconds.  No work runs
#: meanwhile, so they stay short: what asks is a few requests to an agent that is
#: most often on this machine.
ESTABLISH_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0)


@frozen
class Created:
    """
    A session that was created, and of which nothing more is known yet.

    :ivar ttl: its TTL in seconds.
    :ivar sent: when its creation was sent.
    :ivar check: what it is bound to.
    """

    id: str
    ttl: float
    sent: float
    check: Liveness | None


@frozen
class Established:
    """
    A session that Consul has, and what it knows of it.
    """

    created: Created
    info: SessionInfo


class Establishing:
    """
    Makes one session after the other; see the head of the module.

    :ivar check: the check the session rests on, or is going to; ``None`` when
        there is none.
    :ivar without_check: whether a session is made without one.
    :ivar session_ttl: TTL of a session in seconds, raised to what the servers
        allow.

    :param make_service: gives the service that carries the check, for a random
        part of its id.
    :param make_check: gives the check that a service carries.
    :param session_name: for people.
    :param sessions: remembers the sessions that are made.
    :param leftovers: remembers the services that are registered.
    :param pausing: waits out the back-offs.
    :param random: for jitter and ids, in [0, 1).
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        settings: Settings,
        *,
        make_service: Callable[[str], ServiceSpec],
        make_check: Callable[[ServiceSpec], Liveness],
        session_name: str,
        sessions: OwnSessions,
        leftovers: Leftovers,
        pausing: Pausing,
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._settings = settings
        self._make_service = make_service
        self._make_check = make_check
        self._session_name = session_name
        self._sessions = sessions
        self._leftovers = leftovers
        self._pausing = pausing
        self._random = random
        self._log = log
        self._untold = False
        self._created: Created | None = None
        self.check: Liveness | None = None
        self.without_check = not settings.failure_detection
        self.session_ttl = settings.session_ttl

    @inlineCallbacks
    def establish(self) -> Steps[Established]:
        """
        Make a session, however long it takes.

        :return: a Deferred that fires with it; it can be cancelled.
        """
        away = Backoff(self._random, ESTABLISH_STEPS)
        # Whoever answers has said what is wrong: that has time.
        refused = Backoff(self._random)
        pause = self._pausing.pause
        while True:
            try:
                yield self._have_check()
                established: Established = yield self._have_session()
            except CheckLost as error:
                # The catalog hears of a new check a little later.
                self._untold = isinstance(error, NodeMissing) or self._overdue()
                yield pause(refused, "session-not-created", error, SYNC_PATIENCE)
            except ConsulUnavailable as error:
                yield pause(away, "consul-not-up", error)
            except InvalidSessionTTL as error:
                if not self._raise_ttl(error):
                    yield pause(refused, "session-refused", error)
            except ConsulError as error:
                yield pause(refused, "session-refused", error)
            else:
                return established

    # The check.

    @inlineCallbacks
    def _have_check(self) -> Steps[None]:
        """
        See to it that there is a check to bind a session to, if there may be.
        """
        if self.check is not None and not self.check.holds():
            self.drop_check()
        if self.check is not None:
            if self._untold:
                self._untold = False
                yield self.check.tell_again()
            return
        if self.without_check:
            return
        check = self._make_check(self._make_service(self._unique()))
        # It may be there even if we never hear so.
        self._leftovers.add_service(check.service.service_id)
        try:
            yield check.register()
        except AccessDenied as error:
            self._leftovers.leave_service(check.service.service_id)
            self.do_without_check(CheckEnd.DENIED, error=str(error))
        else:
            self.check = check

    def _overdue(self) -> bool:
        """
        Whether the agent has had more than enough time to tell the catalog of
        the check; it may have done so, and the catalog have lost it since.
        """
        return self.check is not None and self.check.told_age >= SYNC_SECONDS

    def _unique(self) -> str:
        return f"{int(self._random() * 2**32):08x}"

    def drop_check(self) -> Liveness | None:
        """
        Use the check no more: the session that rested on it is over.

        :return: the check, ``None`` when there was none.
        """
        check, self.check = self.check, None
        if check is not None:
            check.stop()
        return check

    def begin_anew(self, check: Liveness | None) -> None:
        """
        Get ready for the next session.

        :param check: what the last one rested on.
        """
        # A session without the check is a way out for one session only.
        self.without_check = not self._settings.failure_detection
        if check is not None:
            # Left to its agent: see Note [One check for each session].
            self._leftovers.leave_service(check.service.service_id)
            if check.end is not None and check.end.without_check:
                self.do_without_check(check.end)

    def do_without_check(self, end: CheckEnd, **said: str) -> None:
        """
        Make the next session without a check, and say why.
        """
        self.without_check = True
        name = self._make_service("").name
        actions = {
            CheckEnd.DENIED: f"grant service:write on {name!r}",
            CheckEnd.UNUSABLE: "let every request of this process reach one agent",
        }
        self._log.warning(
            end.value,
            **said,
            effect="a dead process is noticed after twice the session TTL",
            action=actions[end],
        )

    # The session.

    @inlineCallbacks
    def _have_session(self) -> Steps[Established]:
        """
        Create a session, and learn what Consul knows of it.
        """
        created = self._created
        if created is None or created.check is not self.check:
            created = self._created = yield self._create()
        info: SessionInfo | None = yield self._api.session(created.id)
        if created.check is not None and not created.check.holds():
            raise CheckLost("the liveness check was lost meanwhile")
        self._created = None
        if info is None:
            raise CheckLost(f"session {created.id} ended as soon as it was created")
        return Established(created, info)

    @inlineCallbacks
    def _create(self) -> Steps[Created]:
        check = self.check
        sent = self._reactor.seconds()
        session: str = yield self._api.create_session(
            SessionSpec(
                name=self._session_name,
                ttl=self.session_ttl,
                lock_delay=self._settings.lock_delay,
                service_checks=() if check is None else (check.service.check_id,),
                node_checks=("serfHealth",) if self._settings.node_health else (),
            )
        )
        self._sessions.add(session)
        return Created(session, self.session_ttl, sent, check)

    def _raise_ttl(self, error: InvalidSessionTTL) -> bool:
        """
        Take the servers' minimum instead of a TTL they refuse.
        """
        if error.minimum is None or error.minimum <= self.session_ttl:
            return False
        self._log.warning(
            "session-ttl-raised",
            asked=self.session_ttl,
            now=error.minimum,
            action="raise session_ttl, or lower session_ttl_min of the servers",
        )
        self.session_ttl = error.minimum
        return True
