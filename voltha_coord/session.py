"""
The session: made, kept alive, found lost, made again.

One :class:`SessionKeeper` runs one loop for as long as the process lives:

    establishing ──▶ keeping ──▶ abandoning ──▶ establishing …

*establishing* registers the liveness check and creates a session, with
back-off, until both are there.  *keeping* passes the check and renews the
session; the :class:`~.lease.Lease` says for how long one may act on it.  It
ends when the session is known, or must be assumed, to be lost.  *abandoning*
gives the keys of the old session back and destroys it, so that nothing of it
stands in the way of the next one.

# Note [What ends a session]

A consistent read that does not find the session, made whenever something looks
wrong: a renewal answered 404, a pass that says the check is unknown, a member
key that vanished, a transaction that calls the session invalid; or a check that
keeps it alive no more (:class:`~.liveness.CheckEnd`).  A 404 alone proves
nothing: a server that has just come to lead knows nothing yet of what it has on
disk, and says so of sessions that live.  A consistent read waits until it does;
meanwhile the lease is not extended.  If only the
renewal part of the lease ran out, a renewal answered 200 proves the session
alive, and a new lease begins for it.  Any other answer, and silence, mean
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import structlog
from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Ticker, Wake, sleep
from ._recent import remember
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import ServiceSpec, SessionInfo, SessionSpec
from .errors import (
    AccessDenied,
    CheckLost,
    ConsulError,
    ConsulUnavailable,
    ForeignAnswer,
    InvalidSession,
    InvalidSessionTTL,
    NodeMissing,
)
from .lease import Lease, LeaseEnd
from .leasing import Leasing
from .leftovers import Leftovers
from .liveness import CheckEnd, Liveness, Troubles
from .settings import CONSUL_TTL_MULTIPLIER, Settings, guard_seconds
from .tally import Reasons

#: A check takes a moment to reach the catalog: up to this pause, in seconds, it
#: is not worth a word.
SYNC_PATIENCE = 0.5

#: A check that is not in the catalog so many seconds after its agent was told of
#: it is told again: the agent might take a minute or two to notice.
SYNC_SECONDS = 10.0

#: An outage that lasts is said again every so many seconds.
SAY_AGAIN = 60.0

#: Steps between two attempts to make a session, in seconds.  No work runs
#: meanwhile, so they stay short: what asks is a few requests to an agent that is
#: most often on this machine.
ESTABLISH_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0)

#: While renewals fail one is sent every so many seconds: an outage may be over
#: long before the next one would be due.
RENEW_AGAIN_SECONDS = 1.0

#: So many sessions of our own are remembered.  One that was forgotten is like
#: anybody's: whoever succeeds it waits until its lease must be over.
OWN_SESSIONS = 1000

#: Why a session was lost, where no :class:`CheckEnd` or :class:`LeaseEnd` says.
RENEWAL_REFUSED = "renewal-answered-404"
SESSION_GONE = CheckEnd.SESSION_GONE.value


@frozen
class _Made:
    """
    A session that was created, and of which nothing more is known yet.

    :ivar sent: when its creation was sent.
    :ivar check: what it is bound to.
    """

    id: str
    sent: float
    check: Liveness | None


class SessionKeeper:
    """
    Keeps one session alive; see the head of the module.

    :ivar begun: how many sessions there have been.
    :ivar lost: how many of them were lost, by reason.

    :param reactor: for timers and the lease clock.
    :param api: the verbs.
    :param settings: TTLs, intervals and deadlines.
    :param service: gives the service that carries the check, for a random
        part of its id; its address and port are only published.
    :param session_name: for people.
    :param held_keys: keys to give back before a session is destroyed, so that
        no lock-delay holds up their next holder.
    :param changed: called whenever the lease began, is about to end, was
        extended after that, or ended.
    :param random: for jitter, in [0, 1).
    :param retries: waits out the back-offs; by default the reactor.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        settings: Settings,
        *,
        service: Callable[[str], ServiceSpec],
        session_name: str,
        held_keys: tuple[str, ...],
        changed: Callable[[], None],
        random: Callable[[], float],
        retries: IReactorTime | None = None,
        log: Any = None,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._settings = settings
        self._make_service = service
        self._changed = changed
        self._session_name = session_name
        self._random = random
        self._retries = reactor if retries is None else retries
        self._log = structlog.get_logger(__name__) if log is None else log
        self._tasks = Tasks(self._log)
        self._requests = Tasks(self._log)
        self._troubles = Troubles(self._log)
        self._renewing = Ticker(
            reactor, self._requests, "renew-session", self._renew_once
        )
        self._leasing = Leasing(
            reactor,
            settings.grace,
            changed=changed,
            ran_out=self._ran_out,
            log=self._log,
        )
        self._leftovers = Leftovers(api, held_keys, self._log)
        self._lost_wake = Wake(reactor)
        self._session_ttl = settings.session_ttl
        self._check: Liveness | None = None
        self._without_check = not settings.failure_detection
        self._untold = False
        self._made: _Made | None = None
        self._why: str | None = None
        self._confirming = False
        self._ending: set[str] = set()
        self._said_at = math.inf
        self.begun = 0
        self.lost = Reasons((RENEWAL_REFUSED, *(end.value for end in CheckEnd)))
        self.session_id: str | None = None
        self.node = ""
        #: The sessions this very process made, the last ones: what they held
        #: was ours.
        self.own_sessions: dict[str, None] = {}

    # What others see.

    @property
    def lease(self) -> Lease | None:
        """
        The lease to act under; it may be over.
        """
        return self._leasing.lease

    @property
    def leasing(self) -> Leasing:
        """
        The leases so far, for what was counted of them.
        """
        return self._leasing

    @property
    def liveness(self) -> str:
        """
        What a death of this process is noticed by: ``check`` or ``ttl``.
        """
        return "ttl" if self._without_check else "check"

    @property
    def check_id(self) -> str:
        """
        The check that is bound to the session; empty when there is none.
        """
        return "" if self._check is None else self._check.service.check_id

    @property
    def session_ttl(self) -> float:
        """
        TTL of the session in seconds, raised to what the servers allow.
        """
        return self._session_ttl

    def start(self) -> None:
        """
        Begin to make and keep sessions, until :meth:`stop`.
        """
        self._tasks.spawn("session", self._run)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Stop renewing; the lease ends.  The session is left as it is; see
        :meth:`destroy`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._leasing.end(LeaseEnd.RELEASED)
        if self._check is not None:
            self._check.stop()
        yield self._tasks.stop()
        yield self._requests.stop()

    @inlineCallbacks
    def destroy(self) -> Steps[None]:
        """
        Destroy the session and deregister the service; after :meth:`stop`.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError` when Consul does not do all of it.
        """
        self._leasing.end(LeaseEnd.RELEASED)
        self.session_id = None
        self._check = None
        yield self._leftovers.take_away()

    def haunted_by(self, session: str | None) -> bool:
        """
        Tell whether a session that holds something is one of ours that ought to
        be gone, as after Consul was restored to an older state; then end it.
        """
        if session is None or session == self.session_id:
            return False
        if session not in self.own_sessions:
            return False
        if session not in self._leftovers.sessions:
            self._leftovers.add_session(session)
            self._log.warning(
                "old-session-came-back",
                session_id=session,
                effect="it is ended, and what it holds is free",
                action="see whether Consul was restored to an older state",
            )
        if session not in self._ending:
            self._requests.spawn("end-old-session", self._end_old_session, session)
        return True

    @inlineCallbacks
    def _end_old_session(self, session: str) -> Steps[None]:
        self._ending.add(session)
        try:
            yield self._leftovers.end_session(session)
        except ConsulError as error:
            # It is told of again, and ends by itself.
            self._log.debug("old-session-not-ended", error=str(error))
        else:
            # Whoever waits for what it held need wait no longer.
            self._changed()
        finally:
            self._ending.discard(session)

    def suspect(self) -> None:
        """
        Something looks as if the session were gone: find out.
        """
        if self.session_id is not None:
            self._doubt(self.session_id, SESSION_GONE)

    def _doubt(self, session: str, why: str) -> None:
        if not self._confirming:
            self._confirming = True
            self._requests.spawn("confirm-session", self._confirm, session, why)

    # The loop.

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        backoff = Backoff(self._random, ESTABLISH_STEPS)
        pause = 0.0
        while True:
            began = self._reactor.seconds()
            try:
                if self.session_id is not None:
                    yield self._abandon(self.session_id)
                yield sleep(self._reactor, pause)
                yield self._establish()
                began = self._reactor.seconds()
                yield self._keep()
            except CancelledError:
                raise
            except Exception:
                # Whatever it was, a member without a session is of no use.
                self._log.exception("session-loop-failed")
            if self._reactor.seconds() - began >= self._session_ttl:
                backoff.clear()
            # Where one session after the other is lost, no faster and faster.
            pause = backoff.next()

    @inlineCallbacks
    def _establish(self) -> Steps[None]:
        """
        Make a session, however long it takes.
        """
        away = Backoff(self._random, ESTABLISH_STEPS)
        # Whoever answers has said what is wrong: that has time.
        refused = Backoff(self._random)
        while True:
            try:
                yield self._have_check()
                yield self._have_session()
            except CheckLost as error:
                # The catalog hears of a new check a little later.
                self._untold = isinstance(error, NodeMissing) or self._overdue()
                yield self._back_off(
                    refused, "session-not-created", error, SYNC_PATIENCE
                )
            except ConsulUnavailable as error:
                yield self._back_off(away, "consul-not-up", error)
            except InvalidSessionTTL as error:
                if not self._raise_ttl(error):
                    yield self._back_off(refused, "session-refused", error)
            except ConsulError as error:
                yield self._back_off(refused, "session-refused", error)
            else:
                return

    @inlineCallbacks
    def _have_check(self) -> Steps[None]:
        """
        See to it that there is a check to bind a session to, if there may be.
        """
        if self._check is not None and not self._check.holds():
            self._drop_check()
        if self._check is not None:
            if self._untold:
                self._untold = False
                yield self._check.tell_again()
            return
        if self._without_check:
            return
        check = Liveness(
            self._reactor,
            self._api,
            self._settings,
            self._make_service(self._unique()),
            requests=self._requests,
            troubles=self._troubles,
            passed=self._leasing.extended,
            failed=self._check_failed,
        )
        # It may be there even if we never hear so.
        self._leftovers.add_service(check.service.service_id)
        try:
            yield check.register()
        except AccessDenied as error:
            self._leftovers.leave_service(check.service.service_id)
            self._do_without_check(CheckEnd.DENIED, error=str(error))
        else:
            self._check = check

    def _overdue(self) -> bool:
        """
        Whether the agent has had more than enough time to tell the catalog of
        the check; it may have done so, and the catalog have lost it since.
        """
        return self._check is not None and self._check.told_age >= SYNC_SECONDS

    def _unique(self) -> str:
        return f"{int(self._random() * 2**32):08x}"

    def _drop_check(self) -> None:
        assert self._check is not None
        self._check.stop()
        self._check = None
        self._made = None

    def _do_without_check(self, end: CheckEnd, **said: str) -> None:
        self._without_check = True
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

    @inlineCallbacks
    def _have_session(self) -> Steps[None]:
        """
        Create a session, and learn what Consul knows of it.
        """
        made = self._made
        if made is None or made.check is not self._check:
            made = self._made = yield self._create()
        info: SessionInfo | None = yield self._api.session(made.id)
        if made.check is not None and not made.check.holds():
            raise CheckLost("the liveness check was lost meanwhile")
        self._made = None
        if info is None:
            raise CheckLost(f"session {made.id} ended as soon as it was created")
        self._begin(made, info)

    @inlineCallbacks
    def _create(self) -> Steps[_Made]:
        check = self._check
        sent = self._reactor.seconds()
        session: str = yield self._api.create_session(
            SessionSpec(
                name=self._session_name,
                ttl=self._session_ttl,
                lock_delay=self._settings.lock_delay,
                service_checks=() if check is None else (check.service.check_id,),
                node_checks=("serfHealth",) if self._settings.node_health else (),
            )
        )
        remember(self.own_sessions, session, None, OWN_SESSIONS)
        self._leftovers.add_session(session)
        return _Made(session, sent, check)

    def _begin(self, made: _Made, info: SessionInfo) -> None:
        self.begun += 1
        self.session_id = made.id
        self.node = info.node
        self._why = None
        if made.check is not None:
            made.check.bind(info)
        detection = self._settings.failure_detection
        self._log.info(
            "created-consul-session",
            session_id=made.id,
            liveness=self.liveness,
            ttl=self._session_ttl,
            noticed_within=(
                CONSUL_TTL_MULTIPLIER * self._session_ttl
                if made.check is None
                else detection
            ),
        )
        self._begin_lease(made.sent)
        self._requests.spawn("tidy-up", self._tidy_up)

    @inlineCallbacks
    def _keep(self) -> Steps[None]:
        """
        Renew until the session is over; then say why.
        """
        interval = self._settings.renew_interval
        # Members that made their sessions together do not renew together.
        self._renewing.start(interval, first=interval * (1.0 - self._random()))
        try:
            while self._why is None:
                yield self._lost_wake.wait()
        finally:
            self._renewing.stop()
            check = self._check
            if check is not None:
                self._drop_check()
            self._leasing.end(LeaseEnd.SESSION)
        assert self._why is not None
        self.lost.note(self._why)
        self._log.warning(
            "lost-consul-session", session_id=self.session_id, reason=self._why
        )
        # A session without the check is a way out for one session only.
        self._without_check = not self._settings.failure_detection
        if check is not None:
            # Left to its agent: see Note [One check for each session].
            self._leftovers.leave_service(check.service.service_id)
            if check.end is not None and check.end.without_check:
                self._do_without_check(check.end)

    @inlineCallbacks
    def _abandon(self, session: str) -> Steps[None]:
        """
        Give back what the old session holds, and destroy it.

        Until it must have ended by itself; nothing more is known then, and it
        is destroyed when there is another.
        """
        self.session_id = None
        backoff = Backoff(self._random, ESTABLISH_STEPS)
        until = self._reactor.seconds() + CONSUL_TTL_MULTIPLIER * self._session_ttl
        while True:
            try:
                yield self._leftovers.end_session(session)
            except ConsulUnavailable as error:
                if self._reactor.seconds() >= until:
                    return
                yield self._back_off(backoff, "consul-not-up", error)
            except ConsulError as error:
                self._log.info(
                    "session-not-destroyed", session_id=session, error=str(error)
                )
                return
            else:
                return

    @inlineCallbacks
    def _tidy_up(self) -> Steps[None]:
        """
        Take away what attempts left whose answers we never got, and what came
        back.  What cannot be, ends by itself.
        """
        current = {self.session_id}
        if self._check is not None:
            current.add(self._check.service.service_id)
        try:
            yield self._leftovers.take_away(but=current, give_back=True)
        except ConsulError as error:
            self._log.debug("not-tidied-up", error=str(error))

    def _back_off(
        self, backoff: Backoff, event: str, error: Exception, patience: float = 0.0
    ) -> Deferred[None]:
        seconds = backoff.next(error)
        now = self._reactor.seconds()
        # Once for each step; the last one goes on for as long as the outage.
        grew = backoff.grew and seconds >= patience
        loud = grew or now >= self._said_at + SAY_AGAIN
        if loud:
            self._said_at = now
        log = self._log.error if loud else self._log.debug
        log(event, retry_in=round(seconds, 3), error=str(error))
        return sleep(self._retries, seconds)

    def _raise_ttl(self, error: InvalidSessionTTL) -> bool:
        """
        Take the servers' minimum instead of a TTL they refuse.
        """
        if error.minimum is None or error.minimum <= self._session_ttl:
            return False
        self._log.warning(
            "session-ttl-raised",
            asked=self._session_ttl,
            now=error.minimum,
            action="raise session_ttl, or lower session_ttl_min of the servers",
        )
        self._session_ttl = error.minimum
        return True

    # Renewing, and what the check says.

    @inlineCallbacks
    def _renew_once(self) -> Steps[None]:
        session = self.session_id
        if session is None:
            return
        sent = self._reactor.seconds()
        try:
            info: SessionInfo = yield self._api.renew_session(
                session, timeout=self._settings.renew_timeout
            )
        except InvalidSession:
            self._doubt(session, RENEWAL_REFUSED)
        except ConsulError as error:
            self._troubles.say("could-not-renew-session", error)
            again = min(self._settings.renew_interval, RENEW_AGAIN_SECONDS)
            self._renewing.pace(again)
            if isinstance(error, ForeignAnswer) and self._check is not None:
                self._check.distrust()
        else:
            self._troubles.over("could-not-renew-session")
            if session == self.session_id and self._why is None:
                self._renewed(sent)
                self._renewing.pace(self._renewal_pace(info.ttl))

    def _renewal_pace(self, ttl: float) -> float:
        """
        Give the seconds between two renewals, for the TTL Consul answers with.

        A larger one asks us to renew less often (field report 31).  The lease
        goes on resting on the smaller one, which our records name, so two
        renewals must still fit into it.
        """
        usual = self._settings.renew_interval
        ours = self._session_ttl
        room = ours - guard_seconds(ours) - self._settings.grace
        asked = usual * max(1.0, ttl / ours)
        return max(usual, min(asked, (room - self._settings.renew_timeout) / 2))

    def _renewed(self, sent: float) -> None:
        lease = self.lease
        if lease is None:
            return
        lease.renewed(sent)
        if lease.restorable:
            self._log.warning("lease-restored", session_id=self.session_id)
            self._begin_lease(sent)
        self._leasing.extended()

    def _check_failed(self, end: CheckEnd) -> None:
        if self.session_id is not None:
            self._lost(self.session_id, end.value)
        elif end.without_check:
            # Nothing rests on it yet; the session will do without.
            self._do_without_check(end)

    @inlineCallbacks
    def _confirm(self, session: str, why: str) -> Steps[None]:
        """
        End the session, for that reason, if a consistent read does not find it.
        """
        try:
            found = yield self._api.session(session, consistent=True)
        except ConsulError as error:
            self._troubles.say("could-not-confirm-session", error)
        else:
            self._troubles.over("could-not-confirm-session")
            if found is None:
                self._lost(session, why)
        finally:
            self._confirming = False

    def _lost(self, session: str, why: str) -> None:
        if session == self.session_id and self._why is None:
            self._why = why
            self._leasing.end(LeaseEnd.SESSION)
            self._lost_wake.set()

    # The lease.

    def _begin_lease(self, renewed: float) -> None:
        assert self.session_id is not None
        self._leasing.begin(
            Lease(
                self._reactor.seconds,
                self.session_id,
                session_ttl=self._session_ttl,
                renewed=renewed,
                passes=None if self._check is None else self._check.passes,
            )
        )

    def _ran_out(self, reason: LeaseEnd) -> None:
        if reason is LeaseEnd.CHECK and self.session_id is not None:
            self._lost(self.session_id, reason.value)


def service_for(
    instance_id: str, unique: str, settings: Settings, host: str, port: int
) -> ServiceSpec:
    """
    Give the service that carries the liveness check of one process.

    :param unique: tells two lives of one instance apart.
    """
    service_id = f"voltha-coord:{instance_id}:{unique}"
    return ServiceSpec(
        service_id=service_id,
        name="voltha-coord",
        check_id=f"{service_id}:alive",
        check_ttl=settings.failure_detection,
        address=host,
        port=port,
        tags=(instance_id,),
    )
