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

# Note [A process that slept]

A timer that fires late was set in a process that stood still, or on a machine
that slept.  Consul may be there all the while and has not been asked yet.  So
nothing is concluded from such a timer: it is set once more.
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

#: Consul has answered for so many seconds without giving a session: it refuses
#: to.  A session that it gives may take the longest pause between two attempts,
#: and the time in which a check reaches the catalog.
REFUSED_SECONDS = 15.0

#: Consul that has just answered is not silent before so many seconds.
SETTLED_SECONDS = 1.0

#: A timer that fires so many seconds late tells of a process that slept …
SLEPT_SECONDS = 1.0

#: … and is set once more, so that Consul can answer first: the longest pause
#: between two attempts, and twice the time that one may take.
FIRST_CHANCE_SECONDS = 10.0

#: So many ids are named in a log event at most.
MOST_NAMED = 5

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
        self._plan = plan
        self._changed = changed
        self._log = log
        self._phase = Phase.QUIET
        self._never = settings.isolation == STOP
        self._over: Lease | None = None
        self._cut_off_at = 0.0
        self._entered_at = 0.0
        self._heard = False
        self._due = 0.0
        self._takeover_due: float | None = None
        self._entering = Timer(reactor, self._entering_due)
        self._taking_over = Timer(reactor, self._take_over)
        self._refusing = Timer(reactor, self._refused)
        #: What runs here only because of the emergency: the values, by work id.
        self.extra: Mapping[str, bytes] = {}

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

    def describe(self) -> dict[str, Any] | None:
        """
        Give what a status page shows of it; ``None`` without an emergency.
        """
        if not self.active:
            return None
        now = self._reactor.seconds()
        due = self._takeover_due
        return {
            "isolation": self._settings.isolation,
            "since_seconds": round(now - self._entered_at, 3),
            "cut_off_seconds": round(now - self._cut_off_at, 3),
            "takes_over_in": None if due is None else round(max(0.0, due - now), 3),
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
            left = self._due - self._reactor.seconds()
            self._enter_in(max(left, SETTLED_SECONDS))

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
        self._enter_in(self._settings.emergency_timeout)
        self._changed()

    def _enter_in(self, seconds: float) -> None:
        self._due = self._reactor.seconds() + seconds
        self._entering.set(seconds)

    def _entering_due(self) -> None:
        if self._connected():
            # Contact or a refusal comes next; or silence, of which we are told.
            return
        wait = self._still_to_wait(self._due)
        if wait:
            self._enter_in(wait)
        else:
            self._enter()

    def _still_to_wait(self, due: float) -> float:
        """
        Give the seconds to wait for something all the same that is due; see Note
        [A process that slept].
        """
        slept = self._reactor.seconds() > due + SLEPT_SECONDS
        return FIRST_CHANCE_SECONDS if slept else 0.0

    def _enter(self) -> None:
        now = self._reactor.seconds()
        self._phase = Phase.EMERGENCY
        self._entered_at = now
        here = sorted(self._here())
        told: dict[str, Any] = {"items": len(here), "some": here[:MOST_NAMED]}
        if self._settings.isolation == TAKEOVER:
            timeouts = self._settings
            due = self._cut_off_at + max(
                timeouts.emergency_timeout, timeouts.node_recover_timeout
            )
            due = max(due, now + self._still_to_wait(due))
            self._takeover_due = due
            self._taking_over.set(due - now)
            told["takes_over_in"] = round(due - now, 3)
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

    def _take_over(self) -> None:
        """
        Begin the work of the others.
        """
        assert self._takeover_due is not None
        wait = self._still_to_wait(self._takeover_due)
        if self._connected():
            wait = FIRST_CHANCE_SECONDS
        if wait:
            self._takeover_due = self._reactor.seconds() + wait
            self._taking_over.set(wait)
            return
        self._takeover_due = None
        takeover = self._planned()
        if takeover is None:
            return
        self.extra = takeover.items
        reasons = sorted(set(takeover.left_out.values()))
        self._log.critical(
            "work-taken-over",
            items=len(takeover.items),
            some=list(takeover.items)[:MOST_NAMED],
            left_out=len(takeover.left_out),
            reasons=reasons[:MOST_NAMED],
            known_seconds_ago=round(takeover.age, 3),
            effect="every member that is cut off does this, so an item may run "
            "once on each of them, and once more where Consul is reached; all of "
            "this work ends here upon contact",
        )
        self._changed()

    def _planned(self) -> Takeover | None:
        try:
            planned = self._plan()
        except Exception as error:
            # The planner may be anybody's.
            self._log.exception("takeover-not-planned", error=str(error))
            return None
        if planned is None:
            self._log.error(
                "takeover-not-planned",
                error="nothing was read of the cluster before contact was lost",
                effect="this member goes on with what it runs, and with nothing else",
            )
        return planned

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
        for timer in (self._entering, self._taking_over, self._refusing):
            timer.cancel()
        extra, self.extra = self.extra, {}
        self._takeover_due = None
        self._heard = False
        if before is Phase.EMERGENCY:
            self._log.warning(
                "emergency-left",
                reason=reason,
                seconds=round(self._reactor.seconds() - self._entered_at, 3),
                extra=len(extra),
            )
        if before is not phase:
            self._changed()
