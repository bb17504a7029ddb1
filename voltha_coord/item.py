"""
One work item on this member: what it is, and how far it has come.

# Note [The states of an item]

    waiting ──its turn──▶ starting ──done──▶ running
       ▲                     │
       └── after a back-off ─┤ fails
                             ▼
                           failed
    any of them ──stop──▶ stopping ──has stopped──▶ gone
                             │  ▲
                 by its order▼  │not here any more
                           stopped ──is to run again──▶ waiting

An item that is only to be made ready goes the same way, through *preparing* to
*prepared*; it is not ours, and may come to be run from there.  It counts as
running from before ``start_work`` is called until after ``stop_work`` has
finished, and for as long as it has the right to.  A *stopped* one is ours, and
does not run; what its order means in each state is told in Note [Orders] of
:mod:`~voltha_coord.orders`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define, field
from twisted.internet.defer import Deferred

from .records import RUN, WorkItem

if TYPE_CHECKING:
    from .call import Call
    from .condition import Condition
    from .consul.backoff import Backoff
    from .lease import Lease
    from .stopping import Stopping

WAITING = "waiting"
PREPARING = "preparing"
PREPARED = "prepared"
STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
STOPPED = "stopped"
FAILED = "failed"

#: Every state that an item may be in.
STATES = (
    WAITING,
    PREPARING,
    PREPARED,
    STARTING,
    RUNNING,
    STOPPING,
    STOPPED,
    FAILED,
)


@define(eq=False)
class Item:
    """
    One item; see Note [The states of an item].

    :ivar description: what it is, as the runner was told last.
    :ivar digest: of that.
    :ivar index: the ModifyIndex of our owner record, 0 when there is none.
    :ivar lost: whether that record is gone, with all that Consul knew.
    :ivar lease: the lease it runs under; ``None`` for what runs without one, in
        an emergency, or is only made ready.
    :ivar phase: whether it is to be run, or only made ready.
    :ivar described: the ModifyIndex of the description under ``work/``, 0 when
        there was none; ``None`` when the assignment carries it.
    :ivar assignment: the ModifyIndex of the assignment last heeded.
    :ivar odd: what was wrong with the assignment; empty for nothing.
    :ivar wanted: a newer description, of which the runner is yet to be told.
    :ivar report: what its last owner handed over.
    :ivar report_index: the ModifyIndex of that, 0 when there is none to be
        removed (any more).
    :ivar asked: the lease under which a claim of it was sent last: its owner
        record may name that session without our knowing.
    :ivar restart: the number of the last assignment that asked for it to be
        started anew; 0 for none that did.
    :ivar heeded: the number that was heeded last.
    :ivar condition: how it fares by itself, as its runner said last; ``None``
        for nothing but that it runs.
    :ivar stays: whether it stays here once it has stopped.
    :ivar release: whether to release it once it has stopped.
    :ivar handover: what it gave when it stopped, for whoever starts it next:
        another member, or this one.
    :ivar touched: whether the runner has been asked about it since it stopped
        last.
    :ivar begun: whether it was to start it.
    :ivar turn: what it waits for in the line of those to be called about.
    :ivar call: the last call about it, but for those that stop it.
    """

    description: WorkItem
    index: int = 0
    lost: bool = False
    lease: Lease | None = None
    phase: str = RUN
    described: int | None = None
    assignment: int = 0
    odd: str = ""
    report: bytes | None = None
    report_index: int = 0
    digest: str = field(default=Factory(lambda self: self.description.digest, True))
    wanted: WorkItem | None = None
    state: str = WAITING
    since: float = 0.0
    error: str = ""
    asked: Lease | None = None
    restart: int = 0
    heeded: int = 0
    condition: Condition | None = None
    stays: bool = False
    release: bool = True
    handover: bytes | None = None
    touched: bool = False
    begun: bool = False
    retry_at: float = 0.0
    backoff: Backoff | None = None
    turn: Deferred[None] | None = None
    call: Call | None = None
    stopping: Stopping | None = None

    @property
    def id(self) -> str:
        """
        Its work id.
        """
        return self.description.id

    @property
    def newest(self) -> WorkItem:
        """
        What it is to be, by what is known here.
        """
        return self.wanted or self.description

    @property
    def busy(self) -> bool:
        """
        Whether a call about it has not ended, be it one that was given up.
        """
        return self.call is not None and not self.call.ended

    @property
    def runs(self) -> bool:
        """
        Whether it counts as running, as far as the runner goes.
        """
        return self.phase == RUN and self.state in (STARTING, RUNNING, STOPPING)

    @property
    def shown_state(self) -> str:
        """
        What a report calls its state: one that is tried again has failed until
        it succeeds.
        """
        again = self.error and self.state in (WAITING, PREPARING, STARTING)
        return FAILED if again else self.state

    @property
    def trouble(self) -> str:
        """
        What people are to know: why it does not run, or what in its description
        or its assignment could not be read; empty when all is well.
        """
        by_itself = "" if self.condition is None else self.condition.error
        return self.error or by_itself or self.newest.problem or self.odd

    def enter(self, state: str, now: float) -> None:
        """
        Be in another state.  For people, one that failed is not in another one
        until it succeeds.

        :param now: wall-clock time.
        """
        before = self.shown_state
        self.state = state
        if self.shown_state != before:
            self.since = now

    def told(self, description: WorkItem) -> None:
        """
        Note of what the runner was told.
        """
        if description is not self.description:
            self.description = description
            self.digest = description.digest
        if self.wanted is description:
            self.wanted = None


def is_extra(item: Item) -> bool:
    """
    Whether an item runs here without an owner record, in an emergency.
    """
    return item.lease is None and item.phase == RUN
