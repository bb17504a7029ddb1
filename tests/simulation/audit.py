"""
The audit of Consul's log: what is accepted, and who sent it.

# Note [What a leader's write is]

Whatever changes ``assignments/``, ``lost/``, ``work/``, what operators want
moved, or the owner record of somebody else, and every change of ``term`` but the
mark that a term is over.  Each one must come from a process whose session holds
the leader key at that index, carry that term's token in ``term``, and have been
sent after the last one of the term that was applied (G2).  When a term begins, no
other process may still believe to lead under a lease that lasts, asleep or not.
When an owner record is cleared, nothing may still run under a lease that lasts.
What holds of placing by resources is looked at by :mod:`.placing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voltha_coord.consul.model import Entry
from voltha_coord.consul.transport import Request
from voltha_coord.embedded.kv import Draft
from voltha_coord.records import OwnerRecord, RecordError, TermRecord

from .cast import BALANCED
from .placing import Placing

if TYPE_CHECKING:
    from .world import Sent, World


class Audit:
    """
    Looks at each change before it is made; see the head of the module.

    :ivar token: the highest fencing token of any term.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._keys = world.keys
        self._acquired = 0
        self._last: tuple[object, int] = (None, 0)
        by_resources = world.schedule.leader != BALANCED
        self._placing = Placing(world) if by_resources else None
        self._leading = (
            self._keys.assignments,
            f"{self._keys.prefix}/lost/",
            self._keys.work,
            f"{self._keys.intent}relocations/",
        )
        self.token = 0

    def owner(self, item: str) -> OwnerRecord | None:
        """
        Give who owns an item, if that can be read.
        """
        return _owner(self._before(self._keys.owner(item)))

    def forget(self) -> None:
        """
        Consul has another memory than before.
        """
        entry = self._world.consul.kv.get(self._keys.leader)
        self._acquired = 0
        if entry is not None:
            # A restored key: which index it was acquired at is in the term.
            term = read_term(self._world.consul.kv.get(self._keys.term))
            if term is not None and term.session == entry.session:
                self._acquired = term.token
            else:
                self._acquired = entry.modify_index
        self._last = (None, 0)
        self.token = 0

    def __call__(self, draft: Draft, cause: Request | None) -> None:
        """
        Look at what an entry of the log is about to change.
        """
        sent = self._world.sender(cause)
        who = "operator" if sent is None else sent.life.title
        self._world.history.note(
            "consul",
            "applies",
            f"[{draft.index}]",
            "session-ended" if cause is None else who,
            f"#{sent.number}" if sent is not None else "",
            ", ".join(
                f"{'delete' if entry is None else 'put'} {key}"
                for key, entry, _ in draft.changes
            ),
        )
        if sent is not None:
            self._look_at(draft, sent)
        if self._placing is not None:
            self._placing.look(draft, sent)
        self._note_acquired(draft)

    def _note_acquired(self, draft: Draft) -> None:
        before, after = self._before(self._keys.leader), draft.get(self._keys.leader)
        held = None if before is None else before.session
        if after is not None and after.session not in (None, held):
            self._acquired = draft.index

    def _before(self, key: str) -> Entry | None:
        return self._world.consul.kv.get(key)

    def _look_at(self, draft: Draft, sent: Sent) -> None:
        keys = self._keys
        leading = []
        for key, entry, whole in draft.changes:
            if key.startswith(self._leading) or whole:
                leading.append(key)
            elif key.startswith(keys.owners) and not self._own(key, entry, sent):
                leading.append(key)
                if entry is None:
                    self._look_at_clearing(key, sent)
        before, after = (
            read_term(self._before(keys.term)),
            read_term(draft.get(keys.term)),
        )
        changed = self._before(keys.term) != draft.get(keys.term)
        released = after is not None and after.released
        if leading or (changed and not released):
            self._look_at_leading(draft, sent, leading, after if changed else None)
            if after is not None and changed and not released:
                same = before is not None and before.token == after.token
                if not same:
                    self._look_at_beginning(after, sent)

    def _own(self, key: str, entry: Entry | None, sent: Sent) -> bool:
        """
        Whether a member writes its own owner record, over none or its own.
        """
        before, name = _owner(self._before(key)), sent.life.name
        mine = before is None or before.owner == name
        if entry is None:
            return mine
        after = _owner(entry)
        return mine and after is not None and after.session in sent.life.sessions

    def _look_at_clearing(self, key: str, sent: Sent) -> None:
        item = key[len(self._keys.owners) :]
        before = _owner(self._before(key))
        if before is None:
            return
        for hold in self._world.floor.on(item):
            life = hold.life
            lease = life.member.session.lease
            if lease is None or lease.session_id != before.session:
                continue
            if life.may_act:
                self._world.laws.break_(
                    "G3",
                    f"{sent.life} clears the owner record of {item}, which {life} runs "
                    f"under a lease that lasts",
                )

    def _look_at_leading(
        self, draft: Draft, sent: Sent, keys: list[str], term: TermRecord | None
    ) -> None:
        laws, life = self._world.laws, sent.life
        what = f"{life} #{sent.number} writes {', '.join(keys) or 'term'}"
        key = self._before(self._keys.leader)
        holder = None if key is None else key.session
        if holder not in life.sessions:
            laws.break_("G2", f"{what} without holding the leader key")
        elif term is None:
            laws.break_("G2", f"{what} without its term's record")
        elif term.session != holder or term.token < self._acquired:
            # A higher one is the key's index after somebody wrote over it.
            laws.break_(
                "G2",
                f"{what} in the term with token {term.token}; the leader key was "
                f"acquired at {self._acquired}",
            )
        else:
            mark, number = self._last
            if mark == (life, term.token) and sent.number <= number:
                laws.break_("G2", f"{what} after its #{number} was applied")
            self._last = ((life, term.token), sent.number)

    def _look_at_beginning(self, term: TermRecord, sent: Sent) -> None:
        laws = self._world.laws
        if term.token <= self.token:
            laws.break_(
                "tokens",
                f"{sent.life} begins a term with token {term.token} after one with "
                f"{self.token}",
            )
        self.token = max(self.token, term.token)
        for life in self._world.lives.values():
            if life is not sent.life and life.member.is_leader:
                laws.break_(
                    "G1",
                    f"{sent.life} takes office while {life} leads"
                    f"{'' if life.awake else ', though asleep'}",
                )


def read_term(entry: Entry | None) -> TermRecord | None:
    """
    Give the term record that an entry holds; ``None`` when it holds none.
    """
    try:
        return None if entry is None else TermRecord.from_entry(entry)
    except RecordError:
        return None


def _owner(entry: Entry | None) -> OwnerRecord | None:
    try:
        return None if entry is None else OwnerRecord.from_entry(entry)
    except RecordError:
        return None
