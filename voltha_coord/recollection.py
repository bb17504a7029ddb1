"""
What a leader remembers from pass to pass, and no key tells.

# Note [Waiting for members]

A member that is gone may come back, and its items are kept for it for
``node_recover_timeout``.  That counts from when this leader first missed it, on
its own clock, or from what ``lost/`` says, whichever is later: clocks of other
machines are not trusted with more than to delay.  A record that says a time yet
to come says nothing.  So each new leader waits anew, and none waits too short.

The records are for people, and for the next leader.  One is written when a
member is first missed, and removed when it is back, or has nothing any more that
would be kept for it.

# Note [Patience with moves]

A target that has not made an item ready in ``move_timeout`` is not waited for
any longer, and an item whose move was given up is left where it is for as long
again.

# Note [Measured anew]

What members use is known by reports of a few seconds ago.  A member that
something is moved from is to give up more only when a report shows what that has
changed: ``SETTLING`` times ``sync_interval`` after the end of the move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve, frozen

from ._json import Fields, RecordError, dump, parse_object
from .consul.model import Entry, Op
from .keys import Keys
from .planning.actions import Move
from .planning.observe import is_prepared
from .planning.operations import Move as Transfer
from .planning.operations import Plan
from .planning.state import ClusterState, Recalled
from .settings import Settings

#: See Note [Measured anew].
SETTLING = 2


@frozen
class LostRecord:
    """
    Since when a member is missed: ``lost/<id>``.

    :ivar since: wall clock of the leader that missed it first.
    """

    since: float

    @classmethod
    def from_entry(cls, entry: Entry) -> LostRecord | None:
        """
        Read the key of such a record; ``None`` when it says nothing.
        """
        try:
            fields = Fields(entry.key, parse_object(entry.key, entry.value))
        except RecordError:
            return None
        since = fields.number("since", None)
        return None if since is None else cls(since)

    def encode(self) -> bytes:
        """
        Give the value of the key.
        """
        return dump({"since": self.since})


class Recollection:
    """
    Remembers, for one term; see the notes at the head of the module.

    :param now: the lease clock, in seconds.
    :param wall_clock: for what people read.
    """

    def __init__(
        self,
        now: Callable[[], float],
        wall_clock: Callable[[], float],
        keys: Keys,
        settings: Settings,
    ) -> None:
        self._now = now
        self._wall_clock = wall_clock
        self._keys = keys
        self._recover = settings.node_recover_timeout
        self._patience = settings.move_timeout
        self._missed: dict[str, float] = {}
        self._begun: dict[tuple[str, str], float] = {}
        self._held: dict[str, tuple[float, str]] = {}
        self._settle = SETTLING * settings.sync_interval
        self._settling: dict[str, float] = {}

    def recall(self, state: ClusterState) -> ClusterState:
        """
        Give the state with what is remembered, and remember more of it.
        """
        now = self._now()
        self._missed = {name: self._missed_at(state, name) for name in state.missing}
        self._begun = {
            move: self._begun.get(move, now) for move in _being_prepared(state)
        }
        self._held = {
            work: (until, why)
            for work, (until, why) in self._held.items()
            if until > now and work in state.work
        }
        awaited = {n for n, at in self._missed.items() if now - at <= self._recover}
        overdue = {
            work: f"{target} has not made it ready in {self._patience:g} s"
            for (work, target), at in self._begun.items()
            if now - at > self._patience
        }
        held = {work: why for work, (_, why) in self._held.items()}
        self._settling = {
            n: until for n, until in self._settling.items() if until > now
        }
        settling = frozenset(self._settling)
        recalled = Recalled(frozenset(awaited), overdue, held, settling)
        return evolve(state, recalled=recalled)

    def _missed_at(self, state: ClusterState, name: str) -> float:
        """
        Give since when a member is missed; see Note [Waiting for members].
        """
        now = self._now()
        missed = self._missed.get(name, now)
        entry = state.lost.get(name)
        record = None if entry is None else LostRecord.from_entry(entry)
        if record is None:
            return missed
        age = self._wall_clock() - record.since
        return max(missed, now - age) if age >= 0 else missed

    def heed(self, plan: Plan) -> None:
        """
        Remember what a plan gave up, and from where it moves something.
        """
        now = self._now()
        sources = {step.source for step in plan.steps if isinstance(step, Move)}
        placed = plan.placements
        sources.update(placed[work] for work in plan.moving if work in placed)
        sources.update(o.source for o in plan.operations if isinstance(o, Transfer))
        self._settling.update(dict.fromkeys(sources, now + self._settle))
        until = now + self._patience
        for work in plan.given_up:
            why = f"{plan.skipped[work]}; tried again after {self._patience:g} s"
            self._held[work] = until, why

    def writes(self, state: ClusterState) -> list[tuple[Op, ...]]:
        """
        Give the writes that make ``lost/`` say who is missed.
        """
        since = LostRecord(round(self._wall_clock(), 3)).encode()
        groups: list[tuple[Op, ...]] = [
            (Op.cas(self._keys.lost_member(name), since, 0),)
            for name in sorted(self._missed)
            if name not in state.lost
        ]
        groups += [
            (Op.delete_cas(entry.key, entry.modify_index),)
            for name, entry in sorted(state.lost.items())
            if name not in self._missed
        ]
        return groups

    @property
    def missed(self) -> Mapping[str, float]:
        """
        Who is missed, and since when on the lease clock.
        """
        return self._missed


def _being_prepared(state: ClusterState) -> list[tuple[str, str]]:
    return [
        (work, member)
        for member, items in state.assignments.items()
        for work in items
        if is_prepared(state, member, work)
    ]
