"""
The emergency: what becomes of a member that has lost Consul and is not to stop.

With ``Settings.isolation`` ``stop`` a member that is cut off stops its work in
time, and none of this ever happens.  With ``keep`` and ``takeover`` work goes
on, and the price is that it may run elsewhere too until contact is made.

# Note [How an emergency comes and goes]

    quiet ──lease over, Consul silent──▶ cut off ──emergency_timeout──▶ emergency
      ▲                                  │    │                          │    │
      ├────────────── a new lease ───────┴────│──────────────────────────┘    │
      └─ a new lease ── refused ◀── Consul answers, and gives none ───────────┘

*quiet*: there is a lease; or there never was one, since who starts has nothing
to keep; or Consul has said that the session is gone, and still answers: then the
others know it too.  *cut off*: work goes on, and nobody makes a fuss yet: most
outages are over by themselves.  *emergency*: the role is another one, an
operator is told, and with ``takeover`` the work of the others is begun
``node_recover_timeout`` after the lease ended.  *refused*: Consul has answered
for :data:`REFUSED_SECONDS` and there is no session all the same (a token that
was taken back).  That is no outage: the others work, and have taken over what
ran here.  So it stops, as with ``stop``.

Whatever the state, a new lease makes it quiet again, at once: contact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any

from twisted.internet.interfaces import IReactorTime

from ._loops import Timer
from .lease import Lease, LeaseEnd
from .planning.takeover import Takeover
from .settings import KEEP, STOP, TAKEOVER, Settings
from .taking_over import MOST_NAMED, TakingOver
from .wakeful import WakefulTimer

#: Consul has answered for so many seconds without giving a session: it refuses
#: to.  A session that it gives may take the longest pause between two attempts,
#: and the time in which a check reaches the catalog.
REFUSED_SECONDS = 15.0

#: Consul that has just answered is not silent before so many seconds.
SETTLED_SECONDS = 1.0

#: Why an emergency is over.
CONTACT = "contact"
REFUSED = "session-refused"
SHUTTING_DOWN = "shutting-down"

_EFFECTS = {
    KEEP: "the items that run here go on; members that reach Consul may run them too",
    TAKEOVER: "the items that run here go on, and later those of other members run "
    "here as well; members that reach Consul may run them too",
}


class Phase(Enum):
    """
    How it stands; see Note [How an emergency comes and goes].
    """

    QUIET = "quiet"
    CUT_OFF = "cut-off"
    EMERGENCY = "emergency"
    REFUSED = "refused"


class Emergency:
    """
    Tells whether work goes on without a lease, and what else is begun.

    :param reactor: its clock is the lease clock.
    :param lease: gives the lease at the moment; it may be over.
    :param connected: whether Consul answers at the moment.
    :param here: gives the ids of the items that run here.
    :param plan: gives what to take over; ``None`` while nothing is known of the
        cluster.
    :param changed: called whenever :attr:`active`, :attr:`work_goes_on` or
        :attr:`extra` may have changed.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        settings: Settings,
        *,
        lease: Callable[[], Lease | None],
        connected: Callable[[], bool],
        here: Callable[[], Collection[str]],
        plan: Callable[[], Takeover | None],
        changed: Callable[[], None],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._settings = settings
        self._lease = lease
        self._connected = connected
        self._here = here
        self._changed = changed
        self._log = log
        self._phase = Phase.QUIET
        self._never = settings.isolation == STOP
        self._over: Lease | None = None
        self._cut_off_at = 0.0
        self._entered_at = 0.0
        self._heard = False
        self._entering = WakefulTimer(reactor, self._time_to_enter)
        self._refusing = Timer(reactor, self._refused)
        self._taking_over = TakingOver(
            reactor, connected=connected, plan=plan, changed=changed, log=log
        )

    # What others see.

    @property
    def active(self) -> bool:
        """
        Whether this is an emergency.
        """
        return self._phase is Phase.EMERGENCY

    @property
    def work_goes_on(self) -> bool:
        """
        Whether what ran under the lease that is over goes on without one, with
        no deadline: true from the end of the lease on, long before it is an
        emergency.
        """
        return self._phase in (Phase.CUT_OFF, Phase.EMERGENCY)

    @property
    def extra(self) -> Mapping[str, bytes]:
        """
        What runs here only because of the emergency: the values, by work id.
        """
        return self._taking_over.extra

    def describe(self) -> dict[str, Any] | None:
        """
        Give what a status page shows of it; ``None`` without an emergency.
        """
        if not self.active:
            return None
        now = self._reactor.seconds()
        due_in = self._taking_over.due_in
        return {
            "isolation": self._settings.isolation,
            "since_seconds": round(now - self._entered_at, 3),
            "cut_off_seconds": round(now - self._cut_off_at, 3),
            "takes_over_in": None if due_in is None else round(due_in, 3),
            "extra": sorted(self.extra),
        }

    # What it is told.

    def lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended.
        """
        lease = self._lease()
        if self._never or lease is None or lease is self._over:
            return
        if lease.active:
            self._over = None
            self._end(Phase.QUIET, CONTACT)
            return
        self._over = lease
        if self._connected():
            self._hear()
        if lease.ended is not LeaseEnd.SESSION or not self._connected():
            self._cut_off()

    def connection_changed(self) -> None:
        """
        Consul answers, or answers no more.
        """
        if self._never or self._over is None:
            return
        if self._connected():
            self._hear()
            return
        heard, self._heard = self._heard, False
        self._refusing.cancel()
        if self._phase is Phase.QUIET:
            self._cut_off()
        elif self._phase is Phase.CUT_OFF and heard:
            settled = self._reactor.seconds() + SETTLED_SECONDS
            self._entering.at(max(self._due, settled))

    def _hear(self) -> None:
        """
        Consul answers, but there is no lease: there will be one, or none at all.
        """
        self._heard = True
        self._refusing.set(REFUSED_SECONDS)

    def stop(self) -> None:
        """
        End it, whatever it is, and begin none any more.
        """
        self._never = True
        self._end(Phase.QUIET, SHUTTING_DOWN)

    # What comes of it.

    def _cut_off(self) -> None:
        self._phase = Phase.CUT_OFF
        self._cut_off_at = self._reactor.seconds()
        self._entering.at(self._due)
        self._changed()

    @property
    def _due(self) -> float:
        """
        When it is an emergency.
        """
        return self._cut_off_at + self._settings.emergency_timeout

    def _time_to_enter(self) -> None:
        # Where Consul answers, contact or a refusal comes next; or silence, of
        # which we are told.
        if not self._connected():
            self._enter()

    def _enter(self) -> None:
        now = self._reactor.seconds()
        self._phase = Phase.EMERGENCY
        self._entered_at = now
        here = sorted(self._here())
        told: dict[str, Any] = {"items": len(here), "some": here[:MOST_NAMED]}
        if self._settings.isolation == TAKEOVER:
            lost = self._cut_off_at + self._settings.node_recover_timeout
            self._taking_over.begin_at(max(self._due, lost))
            due_in = self._taking_over.due_in
            assert due_in is not None
            told["takes_over_in"] = round(due_in, 3)
        self._log.critical(
            "emergency-entered",
            isolation=self._settings.isolation,
            cut_off_seconds=round(now - self._cut_off_at, 3),
            **told,
            effect=_EFFECTS[self._settings.isolation],
            action="restore the way to Consul; if this work must not run twice, "
            "stop this process until then",
        )
        self._changed()

    def _refused(self) -> None:
        if self.work_goes_on:
            self._log.error(
                "isolation-refused",
                seconds=REFUSED_SECONDS,
                effect="what went on here without a lease stops: Consul answers, "
                "and other members have taken over",
                action="see the session-refused events for what is to be granted",
            )
        self._end(Phase.REFUSED, REFUSED)

    def _end(self, phase: Phase, reason: str) -> None:
        """
        End it, whatever it is.
        """
        before, self._phase = self._phase, phase
        self._entering.cancel()
        self._refusing.cancel()
        extra = self._taking_over.end()
        self._heard = False
        if before is Phase.EMERGENCY:
            self._log.warning(
                "emergency-left",
                reason=reason,
                seconds=round(self._reactor.seconds() - self._entered_at, 3),
                extra=extra,
            )
        if before is not phase:
            self._changed()
