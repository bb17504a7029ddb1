"""
The session and its liveness check: made, kept alive, found lost, made again.

One :class:`SessionKeeper` runs one loop for as long as the process lives:

    establishing ──▶ keeping ──▶ abandoning ──▶ establishing …

*establishing* registers the liveness check and creates a session, with
back-off, until both are there.  *keeping* passes the check and renews the
session; the :class:`~.lease.Lease` says for how long one may act on it.  It
ends when the session is known, or must be assumed, to be lost.  *abandoning*
gives the keys of the old session back and destroys it, so that nothing of it
stands in the way of the next one.

# Note [What ends a session]

A renewal answered 404, a consistent read that does not find the session (made
whenever something looks wrong: a pass that says the check is unknown, a member
key that vanished, a transaction that calls the session invalid), or a lease
whose check part ran out.  In that last case Consul may still answer a late
pass with 200 although the session is dead, so no answer can bring it back.  If
only the renewal part ran out, a renewal answered 200 proves the session alive,
and a new lease begins for it.  Any other answer, and silence, mean nothing.

# Note [One check for each session]

A pass keeps the session alive only if it reaches the check the session is
bound to, on the very agent the session was made on.  With several agents, or a
load balancer before them, a pass may reach another one.  Each session therefore
has a check of its own name: another agent answers that it does not know it.
Then it is registered again, and the session kept only if a consistent read
finds it and the agent says that it is the session's node.  The check of a
session that ran out is not deregistered: successors read in the catalog that
its timer fired.  The agent removes it after a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from ._loops import Tasks, Timer, Wake, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import ServiceSpec, SessionSpec
from .errors import (
    AccessDenied,
    CheckLost,
    ConsulError,
    ConsulUnavailable,
    InvalidSession,
    InvalidSessionTTL,
)
from .held import release
from .lease import Lease, LeaseEnd
from .settings import Settings

#: How long a fresh check may take to reach the catalog, in seconds.
CHECK_SYNC_SECONDS = 1.0


class SessionKeeper:
    """
    Keeps one session alive; see the head of the module.

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
        log: Any = None,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._settings = settings
        self._make_service = service
        self._service = service("")
        self._session_name = session_name
        self._held_keys = held_keys
        self._changed = changed
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        self._tasks = Tasks(self._log)
        self._requests = Tasks(self._log)
        self._over = Wake(reactor)
        self._passing: LoopingCall | None = None
        self._why: str | None = None
        self._ending = Timer(reactor, self._near_the_end)
        self._confirming = False
        self._session_ttl = settings.session_ttl
        self._passed_at = 0.0
        self._checked = False
        self._unpassed_registration = False
        self._deny_check = False
        self._registered = False
        self._announced_ending = False
        self._trouble: set[str] = set()
        self.session_id: str | None = None
        self.lease: Lease | None = None
        self.node = ""
        #: Every session this very process made: what they held was ours.
        self.own_sessions: set[str] = set()

    # What others see.

    @property
    def liveness(self) -> str:
        """
        What a death of this process is noticed by: ``check`` or ``ttl``.
        """
        return "check" if self._checked else "ttl"

    @property
    def check_id(self) -> str:
        """
        The check that is bound to the session; empty when there is none.
        """
        return self._service.check_id if self._checked else ""

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
        Stop renewing.  The session is left as it is; see :meth:`destroy`.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        self._stop_passing()
        yield self._tasks.stop()
        yield self._requests.stop()
        self._ending.cancel()

    @inlineCallbacks
    def destroy(self) -> Steps[None]:
        """
        Destroy the session and deregister the service; after :meth:`stop`.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError` when Consul does not do it.
        """
        self._end_lease(LeaseEnd.RELEASED)
        session, self.session_id = self.session_id, None
        if session is not None:
            yield self._api.destroy_session(session)
            self._log.info("destroyed-consul-session", session_id=session)
        if self._checked:
            self._checked = False
            yield self._api.deregister_service(self._service.service_id)

    def suspect(self) -> None:
        """
        Something looks as if the session were gone: find out.
        """
        if self.session_id is not None and not self._confirming:
            self._confirming = True
            self._requests.spawn("session-confirm", self._confirm, self.session_id)

    # The loop.

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        while True:
            yield self._establish()
            try:
                yield self._keep()
            finally:
                self._end_lease(LeaseEnd.SESSION)
            yield self._abandon()

    @inlineCallbacks
    def _establish(self) -> Steps[None]:
        """
        Make a session, however long it takes.
        """
        backoff = Backoff(self._random)
        while True:
            try:
                self._stop_passing()
                self._checked = False
                if self._settings.failure_detection and not self._deny_check:
                    self._service = self._make_service(self._unique())
                    yield self._register()
                if self._checked:
                    # The check must not lapse while the session is created.
                    self._passing = self._every(
                        self._settings.pass_interval, self._pass_once
                    )
                yield self._create()
            except (ConsulUnavailable, CheckLost) as error:
                yield self._back_off(backoff, "consul-not-up", error)
            except InvalidSessionTTL as error:
                if not self._raise_ttl(error):
                    yield self._back_off(backoff, "session-refused", error)
            except ConsulError as error:
                yield self._back_off(backoff, "session-refused", error)
            else:
                return

    def _unique(self) -> str:
        return f"{int(self._random() * 2**32):08x}"

    @inlineCallbacks
    def _register(self) -> Steps[None]:
        """
        Register the service and its check, passing.
        """
        sent = self._reactor.seconds()
        try:
            yield self._api.register_service(self._service)
        except AccessDenied as error:
            self._log.warning(
                "liveness-check-denied",
                service=self._service.name,
                error=str(error),
                effect="a dead process is noticed after twice the session TTL",
                action=f"grant service:write on {self._service.name!r}",
            )
            self._deny_check = True
            self._checked = False
            return
        self._passed_at = sent
        self._checked = True
        self._unpassed_registration = True

    @inlineCallbacks
    def _create(self) -> Steps[None]:
        """
        Create the session, waiting for the check to reach the catalog.
        """
        checks = (self._service.check_id,) if self._checked else ()
        spec = SessionSpec(
            name=self._session_name,
            ttl=self._session_ttl,
            lock_delay=self._settings.lock_delay,
            service_checks=checks,
            node_checks=("serfHealth",) if self._settings.node_health else (),
        )
        give_up = self._reactor.seconds() + CHECK_SYNC_SECONDS
        while True:
            sent = self._reactor.seconds()
            try:
                session: str = yield self._api.create_session(spec)
            except CheckLost:
                if self._reactor.seconds() >= give_up:
                    raise
                yield sleep(self._reactor, 0.05)
            else:
                break
        self.own_sessions.add(session)
        info = yield self._api.session(session)
        if info is None:
            raise CheckLost(f"session {session} ended as soon as it was created")
        self.session_id = session
        self.node = info.node
        self._why = None
        self._trouble.clear()
        self._log.info(
            "created-consul-session",
            session_id=session,
            liveness=self.liveness,
            ttl=self._session_ttl,
            noticed_within=self._noticed_within(),
        )
        self._begin_lease(sent)

    def _noticed_within(self) -> float:
        if self._checked:
            return self._settings.failure_detection
        return 2 * self._session_ttl

    @inlineCallbacks
    def _keep(self) -> Steps[None]:
        """
        Pass and renew until the session is over; then say why.
        """
        renewing = self._every(self._settings.renew_interval, self._renew_once)
        try:
            while self._why is None:
                yield self._over.wait()
        finally:
            renewing.stop()
            self._stop_passing()
        self._log.warning(
            "lost-consul-session", session_id=self.session_id, reason=self._why
        )
        # A session without the check is a way out for one session only.
        if self._why != "liveness-check-unusable":
            self._deny_check = False

    @inlineCallbacks
    def _abandon(self) -> Steps[None]:
        """
        Give back what the old session holds, and destroy it.
        """
        session, self.session_id = self.session_id, None
        assert session is not None
        backoff = Backoff(self._random)
        while True:
            try:
                for key in self._held_keys:
                    yield release(self._api, key, session)
                yield self._api.destroy_session(session)
            except ConsulUnavailable as error:
                yield self._back_off(backoff, "consul-not-up", error)
            except ConsulError as error:
                self._log.warning(
                    "session-not-destroyed", session_id=session, error=str(error)
                )
                return
            else:
                return

    def _back_off(
        self, backoff: Backoff, event: str, error: Exception
    ) -> Deferred[None]:
        seconds = backoff.next()
        self._log.error(event, retry_in=round(seconds, 3), error=str(error))
        return sleep(self._reactor, seconds)

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

    # Passing and renewing.

    def _every(self, seconds: float, call: Callable[[], Deferred[None]]) -> LoopingCall:
        """
        Call every so many seconds, whether the last one was answered or not.

        A request that hangs must not keep the next one from being sent.
        """

        def send() -> None:
            self._requests.spawn(call.__name__, call)

        loop = LoopingCall(send)
        loop.clock = self._reactor
        loop.start(seconds, now=False)
        return loop

    def _stop_passing(self) -> None:
        if self._passing is not None and self._passing.running:
            self._passing.stop()
        self._passing = None

    @inlineCallbacks
    def _renew_once(self) -> Steps[None]:
        session = self.session_id
        if session is None:
            return
        sent = self._reactor.seconds()
        try:
            yield self._api.renew_session(session, timeout=self._settings.renew_timeout)
        except InvalidSession:
            self._lost(session, "renewal-answered-404")
        except ConsulError as error:
            self._say_trouble("could-not-renew-session", error)
        else:
            self._trouble.discard("could-not-renew-session")
            if session == self.session_id and self._why is None:
                self._renewed(sent)

    def _renewed(self, sent: float) -> None:
        lease = self.lease
        if lease is not None and lease.active:
            lease.renewed(sent)
            self._extended()
        elif lease is not None and lease.ended is LeaseEnd.RENEWAL:
            self._log.warning("lease-restored", session_id=self.session_id)
            self._begin_lease(sent)

    @inlineCallbacks
    def _pass_once(self) -> Steps[None]:
        sent = self._reactor.seconds()
        try:
            yield self._api.pass_check(
                self._service.check_id, timeout=self._settings.renew_timeout
            )
        except CheckLost as error:
            self._say_trouble("liveness-check-lost", error)
            yield self._recover_check()
        except ConsulError as error:
            self._say_trouble("could-not-pass-liveness-check", error)
        else:
            self._trouble.clear()
            self._unpassed_registration = False
            self._passed_at = max(self._passed_at, sent)
            if self.lease is not None and self.session_id is not None:
                self.lease.passed(sent)
                self._extended()

    @inlineCallbacks
    def _recover_check(self) -> Steps[None]:
        """
        Register the check again, and see whether the session survived.
        """
        session = self.session_id
        if session is None:
            return
        if self._unpassed_registration and self._why is None:
            # It was registered just now: passes do not reach that agent.
            self._log.warning(
                "liveness-check-unusable",
                effect="a dead process is noticed after twice the session TTL",
                action="let every request of this process reach one agent",
            )
            self._deny_check = True
            self._lost(session, "liveness-check-unusable")
            return
        try:
            yield self._register()
        except ConsulError as error:
            self._say_trouble("could-not-register-liveness-check", error)
            return
        if self._deny_check:
            self._lost(session, "liveness-check-unusable")
            return
        try:
            agent = yield self._api.agent_self()
        except ConsulUnavailable as error:
            self._say_trouble("could-not-identify-agent", error)
            return
        except ConsulError:
            agent = {}
        if agent.get("Config", {}).get("NodeName") != self.node:
            self._lost(session, "agent-changed")
            return
        yield self._confirm(session)

    @inlineCallbacks
    def _confirm(self, session: str) -> Steps[None]:
        """
        End the session if a consistent read does not find it.
        """
        try:
            found = yield self._api.session(session, consistent=True)
        except ConsulError as error:
            self._say_trouble("could-not-confirm-session", error)
        else:
            if found is None:
                self._lost(session, "session-gone")
        finally:
            self._confirming = False

    def _say_trouble(self, event: str, error: Exception) -> None:
        """
        Log once for each stretch of trouble.
        """
        if event not in self._trouble:
            self._trouble.add(event)
            self._log.warning(event, session_id=self.session_id, error=str(error))

    # The lease.

    def _begin_lease(self, renewed: float) -> None:
        assert self.session_id is not None
        lease = Lease(
            self._reactor.seconds,
            self.session_id,
            session_ttl=self._session_ttl,
            renewed=renewed,
            check_ttl=self._settings.failure_detection if self._checked else 0.0,
            passed=self._passed_at,
        )
        self.lease = lease
        self._announced_ending = False
        if lease.active:
            self._watch_deadline()
            self._changed()
        else:
            self._ended()

    def _extended(self) -> None:
        if self._announced_ending and self.lease is not None and self.lease.active:
            self._announced_ending = False
            self._watch_deadline()
            self._changed()

    def _watch_deadline(self) -> None:
        assert self.lease is not None
        left = self.lease.remaining
        if not self._announced_ending:
            left = max(0.0, left - self._settings.grace)
        self._ending.set(left)

    def _near_the_end(self) -> None:
        """
        The deadline timer fired: see how much is left now.
        """
        lease = self.lease
        if lease is None:
            return
        if not lease.active:
            self._ended()
            return
        if not self._announced_ending and lease.remaining <= self._settings.grace:
            self._announced_ending = True
            self._log.warning("lease-ending", remaining=round(lease.remaining, 3))
            self._changed()
        self._watch_deadline()

    def _ended(self) -> None:
        """
        The lease ran out by itself.
        """
        assert self.lease is not None
        reason = self.lease.ended
        assert reason is not None
        self._log.error(
            "lease-over", session_id=self.lease.session_id, reason=reason.value
        )
        if reason is LeaseEnd.CHECK:
            self._lost(self.lease.session_id, reason.value)
        self._changed()

    def _lost(self, session: str, why: str) -> None:
        if session == self.session_id and self._why is None:
            self._why = why
            self._end_lease(LeaseEnd.SESSION)
            self._over.set()

    def _end_lease(self, reason: LeaseEnd) -> None:
        self._ending.cancel()
        if self.lease is not None and self.lease.active:
            self.lease.end(reason)
            self._changed()


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
