"""
Keeping a session: renewed, doubted, and found lost.

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

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, Ticker, Wake
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import SessionInfo
from .errors import ConsulError, ForeignAnswer, InvalidSession
from .establishing import Created, Established
from .lease import Lease, LeaseEnd
from .leasing import Leasing
from .liveness import CheckEnd, Troubles
from .settings import Settings, guard_seconds

#: While renewals fail one is sent every so many seconds: an outage may be over
#: long before the next one would be due.
RENEW_AGAIN_SECONDS = 1.0

#: Why a session was lost, where no :class:`CheckEnd` or :class:`LeaseEnd` says.
RENEWAL_REFUSED = "renewal-answered-404"
SESSION_GONE = CheckEnd.SESSION_GONE.value


class Keeping:
    """
    Keeps one session after the other; see the head of the module.

    :ivar session_id: the session; ``None`` from when it is given up until the
        next one begins.
    :ivar node: the Consul node of the last one.
    :ivar leasing: the leases so far, and the one to act under.

    :param requests: owns the requests that are under way.
    :param troubles: says what goes wrong.
    :param changed: called whenever the lease began, is about to end, was
        extended after that, or ended.
    :param distrust: called when somebody answers in the agent's place.
    :param random: for jitter, in [0, 1).
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        settings: Settings,
        *,
        requests: Tasks,
        troubles: Troubles,
        changed: Callable[[], None],
        distrust: Callable[[], None],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._settings = settings
        self._requests = requests
        self._troubles = troubles
        self._distrust = distrust
        self._random = random
        self._log = log
        self._renewing = Ticker(reactor, requests, "renew-session", self._renew_once)
        self._lost_wake = Wake(reactor)
        self._created: Created | None = None
        self._why: str | None = None
        self._confirming = False
        self.session_id: str | None = None
        self.node = ""
        self.leasing = Leasing(
            reactor,
            settings.grace,
            changed=changed,
            ran_out=self._ran_out,
            log=log,
        )

    def begin(self, established: Established) -> None:
        """
        Begin with a session, and with a lease for it.
        """
        created, info = established.created, established.info
        self._created = created
        self._why = None
        self.session_id = created.id
        self.node = info.node
        if created.check is not None:
            created.check.bind(info)
        self._begin_lease(created, created.sent)

    @inlineCallbacks
    def until_lost(self) -> Steps[str]:
        """
        Renew the session until it is over.

        :return: a Deferred that fires with the reason why; it can be cancelled.
        """
        interval = self._settings.renew_interval
        # Members that made their sessions together do not renew together.
        self._renewing.start(interval, first=interval * (1.0 - self._random()))
        try:
            while self._why is None:
                yield self._lost_wake.wait()
        finally:
            self._renewing.stop()
        why: str = self._why
        return why

    def lost(self, why: str) -> None:
        """
        The session, if there is one, is over: end its lease.
        """
        if self.session_id is not None and self._why is None:
            self._why = why
            self.leasing.end(LeaseEnd.SESSION)
            self._lost_wake.set()

    def give_up(self) -> None:
        """
        Have no session any more; it is for others to end it.
        """
        self.session_id = None

    # Doubting it; see Note [What ends a session].

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
            if found is None and session == self.session_id:
                self.lost(why)
        finally:
            self._confirming = False

    # Renewing it.

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
            if isinstance(error, ForeignAnswer):
                self._distrust()
        else:
            self._troubles.over("could-not-renew-session")
            created = self._created
            if created is not None and session == self.session_id and not self._why:
                self._renewed(created, sent)
                self._renewing.pace(self._renewal_pace(created.ttl, info.ttl))

    def _renewal_pace(self, ours: float, theirs: float) -> float:
        """
        Give the seconds between two renewals, for the TTL that was asked for and
        the one Consul answers with.

        A larger one asks us to renew less often (field report 31).  The lease
        goes on resting on the smaller one, which our records name, so two
        renewals must still fit into it.
        """
        usual = self._settings.renew_interval
        room = ours - guard_seconds(ours) - self._settings.grace
        asked = usual * max(1.0, theirs / ours)
        return max(usual, min(asked, (room - self._settings.renew_timeout) / 2))

    # The lease.

    def _renewed(self, created: Created, sent: float) -> None:
        lease = self.leasing.lease
        if lease is None:
            return
        lease.renewed(sent)
        if lease.restorable:
            self._log.warning("lease-restored", session_id=created.id)
            self._begin_lease(created, sent)
        self.leasing.extended()

    def _begin_lease(self, created: Created, renewed: float) -> None:
        self.leasing.begin(
            Lease(
                self._reactor.seconds,
                created.id,
                session_ttl=created.ttl,
                renewed=renewed,
                passes=None if created.check is None else created.check.passes,
            )
        )

    def _ran_out(self, reason: LeaseEnd) -> None:
        if reason is LeaseEnd.CHECK:
            self.lost(reason.value)
