"""
What holds of placing by resources, as Consul's log shows it.

# Note [Kept and moved]

An item of a member that is gone is kept for it for ``node_recover_timeout``: no
leader clears its owner record sooner, as long as it is wanted and assigned to
that member and nobody else.  A leader that missed the member earlier, and not
its return, may count from then; so a return counts once it has lasted.

A move is completed when the target has made the item ready since it was told to;
what it was told meanwhile, by whoever writes over its assignment, changes nothing.
That is so as long as the source is there; or else the item is placed anew.  An item
that is ordered to stop needs no making ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voltha_coord.consul.model import Entry
from voltha_coord.embedded.kv import Draft
from voltha_coord.records import PREPARE, RUN, STOP, Assignment

from .cast import APART

if TYPE_CHECKING:
    from .world import Sent, World

#: A member that was there for so long has been seen by every leader, in seconds.
SEEN_SECONDS = 17.0


class Placing:
    """
    Looks at what leaders do about items that are kept, or moved.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._keys = world.keys
        cast = world.schedule.cast
        settings = [cast.settings_of(actor) for actor in cast.actors]
        self._recover = min(one.node_recover_timeout for one in settings)
        self._came: dict[str, float] = {}
        self._went: dict[str, tuple[float, int]] = {}
        self._told: dict[tuple[str, str], float] = {}

    def look(self, draft: Draft, sent: Sent | None) -> None:
        """
        Look at what is about to change.

        :param sent: by whom; ``None`` for operators, and for Consul itself.
        """
        keys = self._keys
        for key, entry, _ in draft.changes:
            if key.startswith(keys.members):
                self._look_at_member(key[len(keys.members) :], key, entry, draft.index)
            elif key.startswith(keys.assignments):
                self._look_at_assignment(key, entry, draft, sent)
            elif key.startswith(keys.owners) and entry is None and sent is not None:
                self._look_at_clearing(key[len(keys.owners) :], sent)

    def _before(self, key: str) -> Entry | None:
        return self._world.consul.kv.get(key)

    def _look_at_member(
        self, name: str, key: str, entry: Entry | None, index: int
    ) -> None:
        before = self._before(key)
        was = before is not None and before.session is not None
        is_there = entry is not None and entry.session is not None
        now = self._world.clock.seconds()
        if is_there and not was:
            self._came[name] = now
        elif was and not is_there:
            if now - self._came.get(name, now) >= SEEN_SECONDS:
                self._went[name] = now, index
            else:
                self._went.setdefault(name, (now, index))

    def _look_at_clearing(self, item: str, sent: Sent) -> None:
        owner = self._world.audit.owner(item)
        if owner is None or owner.owner == sent.life.name:
            return
        name, keys = owner.owner, self._keys
        member = self._before(keys.member(name))
        work = self._before(keys.work_item(item))
        went, index = self._went.get(name, (0.0, 0))
        if name not in self._went or work is None or work.create_index > index:
            return
        if member is not None and member.session is not None:
            return
        has = [
            entry.key
            for entry in self._world.consul.kv.walk(keys.assignments)
            if entry.key.endswith(f"/{item}")
        ]
        gone = self._world.clock.seconds() - went
        if has == [keys.assignment(name, item)] and gone * (1 + APART) < self._recover:
            self._world.laws.break_(
                "kept",
                f"{sent.life} gives {item} up, which is kept for {name}, gone for "
                f"{gone:.3f} s of {self._recover:g}",
            )

    def _look_at_assignment(
        self, key: str, entry: Entry | None, draft: Draft, sent: Sent | None
    ) -> None:
        member, _, item = key[len(self._keys.assignments) :].partition("/")
        before = _assignment(member, item, self._before(key))
        after = _assignment(member, item, entry)
        prepared = before is not None and before.phase == PREPARE
        if after is not None and after.phase == PREPARE:
            if before is None:
                self._told[member, item] = self._world.clock.seconds()
        elif after is not None and after.phase == RUN and prepared and sent is not None:
            assert before is not None
            if before.item is None or before.item.order == STOP:
                return
            done = self._world.floor.ready.get((member, item), -1.0)
            late = done < self._told.get((member, item), 0.0)
            if late and self._source_is_there(item, draft):
                self._world.laws.break_(
                    "moves", f"{sent.life} moves {item} to {member}, which is not ready"
                )

    def _source_is_there(self, item: str, draft: Draft) -> bool:
        """
        Whether an item is taken from a member that everybody has seen.
        """
        keys, now = self._keys, self._world.clock.seconds()
        for key, entry, _ in draft.changes:
            name, _, work = key.removeprefix(keys.assignments).partition("/")
            if work == item and entry is None:
                member = self._before(keys.member(name))
                came = self._came.get(name, now)
                if member is not None and member.session is not None:
                    return now - came >= SEEN_SECONDS
        return False


def _assignment(member: str, item: str, entry: Entry | None) -> Assignment | None:
    return None if entry is None else Assignment.from_value(member, item, entry.value)
