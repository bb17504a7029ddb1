"""
The session: made, kept alive, found lost, made again.

One :class:`SessionKeeper` runs one loop for as long as the process lives:

    establishing ──▶ keeping ──▶ abandoning ──▶ establishing …

*establishing* registers the liveness check and creates a session, with
back-off, until both are there (:mod:`~voltha_coord.establishing`).  *keeping*
passes the check and renews the session; the :class:`~.lease.Lease` says for how
long one may act on it.  It ends when the session is known, or must be assumed,
to be lost (:mod:`~voltha_coord.keeping`).  *abandoning* gives the keys of the
old session back and destroys it, so that nothing of it stands in the way of the
next one (:mod:`~voltha_coord.own_sessions`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.model import ServiceSpec
from .establishing import ESTABLISH_STEPS, Established, Establishing
from .keeping import RENEWAL_REFUSED, Keeping
from .lease import Lease, LeaseEnd
from .leasing import Leasing
from .leftovers import Leftovers
from .liveness import CheckEnd, Liveness, Troubles
from .own_sessions import OwnSessions
from .pausing import Pausing
from .settings import CONSUL_TTL_MULTIPLIER, Settings
from .tally import Reasons


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
        self._random = random
        self._log = structlog.get_logger(__name__) if log is None else log
        self._tasks = Tasks(self._log)
        self._requests = Tasks(self._log)
        self._troubles = Troubles(self._log)
        leftovers = Leftovers(api, held_keys, self._log)
        pausing = Pausing(
            reactor.seconds, reactor if retries is None else retries, self._log
        )
        self._sessions = OwnSessions(
            reactor.seconds,
            leftovers,
            requests=self._requests,
            pausing=pausing,
            ended=changed,
            log=self._log,
        )
        self._establishing = Establishing(
            reactor,
            api,
            settings,
            make_service=service,
            make_check=self._make_check,
            session_name=session_name,
            sessions=self._sessions,
            leftovers=leftovers,
            pausing=pausing,
            random=random,
            log=self._log,
        )
        self._keeping = Keeping(
            reactor,
            api,
            settings,
            requests=self._requests,
            troubles=self._troubles,
            changed=changed,
            distrust=self._distrust,
            random=random,
            log=self._log,
        )
        self.begun = 0
        self.lost = Reasons((RENEWAL_REFUSED, *(end.value for end in CheckEnd)))

    # What others see.

    @property
    def session_id(self) -> str | None:
        """
        The id of the session; ``None`` while there is none.
        """
        return self._keeping.session_id

    @property
    def node(self) -> str:
        """
        The Consul node of the last session; empty before the first one.
        """
        return self._keeping.node

    @property
    def own_sessions(self) -> dict[str, None]:
        """
        The sessions this very process made, the last ones: what they held was
        ours.
        """
        return self._sessions.known

    @property
    def lease(self) -> Lease | None:
        """
        The lease to act under; it may be over.
        """
        return self._keeping.leasing.lease

    @property
    def leasing(self) -> Leasing:
        """
        The leases so far, for what was counted of them.
        """
        return self._keeping.leasing

    @property
    def liveness(self) -> str:
        """
        What a death of this process is noticed by: ``check`` or ``ttl``.
        """
        return "ttl" if self._establishing.without_check else "check"

    @property
    def check_id(self) -> str:
        """
        The check that is bound to the session; empty when there is none.
        """
        check = self._establishing.check
        return "" if check is None else check.service.check_id

    @property
    def session_ttl(self) -> float:
        """
        TTL of the session in seconds, raised to what the servers allow.
        """
        return self._establishing.session_ttl

    def haunted_by(self, session: str | None) -> bool:
        """
        Tell whether a session that holds something is one of ours that ought to
        be gone, as after Consul was restored to an older state; then end it.
        """
        return self._sessions.came_back(session, self.session_id)

    def suspect(self) -> None:
        """
        Something looks as if the session were gone: find out.
        """
        self._keeping.suspect()

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
        self.leasing.end(LeaseEnd.RELEASED)
        if self._establishing.check is not None:
            self._establishing.check.stop()
        yield self._tasks.stop()
        yield self._requests.stop()

    @inlineCallbacks
    def destroy(self) -> Steps[None]:
        """
        Destroy the session and deregister the service; after :meth:`stop`.

        :return: a Deferred that fires when done, or fails with
            :class:`ConsulError` when Consul does not do all of it.
        """
        self.leasing.end(LeaseEnd.RELEASED)
        self._keeping.give_up()
        self._establishing.drop_check()
        yield self._sessions.take_away()

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
                established: Established = yield self._establishing.establish()
                self._begin(established)
                began = self._reactor.seconds()
                yield self._keep()
            except CancelledError:
                raise
            except Exception:
                # Whatever it was, a member without a session is of no use.
                self._log.exception("session-loop-failed")
            if self._reactor.seconds() - began >= self.session_ttl:
                backoff.clear()
            # Where one session after the other is lost, no faster and faster.
            pause = backoff.next()

    def _begin(self, established: Established) -> None:
        created = established.created
        self.begun += 1
        self._log.info(
            "created-consul-session",
            session_id=created.id,
            liveness=self.liveness,
            ttl=created.ttl,
            noticed_within=(
                CONSUL_TTL_MULTIPLIER * created.ttl
                if created.check is None
                else self._settings.failure_detection
            ),
        )
        self._keeping.begin(established)
        current = {self.session_id}
        if created.check is not None:
            current.add(created.check.service.service_id)
        self._sessions.tidy_up(current)

    @inlineCallbacks
    def _keep(self) -> Steps[None]:
        """
        Keep the session until it is over; then say why.
        """
        check = self._establishing.check
        try:
            why: str = yield self._keeping.until_lost()
        finally:
            self._establishing.drop_check()
            self.leasing.end(LeaseEnd.SESSION)
        self.lost.note(why)
        self._log.warning("lost-consul-session", session_id=self.session_id, reason=why)
        self._establishing.begin_anew(check)

    def _abandon(self, session: str) -> Deferred[None]:
        """
        Give back what the old session holds, and destroy it, until it must have
        ended by itself.
        """
        self._keeping.give_up()
        return self._sessions.abandon(
            session,
            Backoff(self._random, ESTABLISH_STEPS),
            CONSUL_TTL_MULTIPLIER * self.session_ttl,
        )

    # The check.

    def _make_check(self, service: ServiceSpec) -> Liveness:
        return Liveness(
            self._reactor,
            self._api,
            self._settings,
            service,
            requests=self._requests,
            troubles=self._troubles,
            passed=self.leasing.extended,
            failed=self._check_failed,
        )

    def _check_failed(self, end: CheckEnd) -> None:
        if self.session_id is not None:
            self._keeping.lost(end.value)
        elif end.without_check:
            # Nothing rests on it yet; the session will do without.
            self._establishing.do_without_check(end)

    def _distrust(self) -> None:
        if self._establishing.check is not None:
            self._establishing.check.distrust()


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
