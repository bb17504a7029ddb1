"""
Who leads, and whether that one can hand leadership over.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from attrs import frozen

from ..consul.model import Entry
from ..keys import Keys
from ..prospect import Prospect
from ..records import RecordError, TermRecord, TransferRequest
from .findings import named, one_line
from .view import View

_R = TypeVar("_R")


def refusal(view: View, target: str) -> str:
    """
    Say why leadership cannot be handed over as things are; empty when it can.

    :param target: the member that is to lead, empty for any other.
    """
    leader, member = view.leader_id, view.leading
    if leader is None:
        return "nobody leads: there is nobody to ask"
    if member is None:
        return f"{one_line(leader)}, which holds the leader key, is no member"
    if member.foreign:
        return f"{leader}, which leads, is an original, and cannot be asked"
    if view.term is None:
        return f"{leader} leads without a term record, and cannot be asked"
    if view.fencing_token is None:
        return f"{leader} has not begun its term yet; try again"
    prospect = Prospect(view.leader, view.planned)
    if target:
        why = prospect.unfit(target)
        if why and target not in view.live:
            why += f" (there are {named(view.live)})"
        return f"{target} {why}" if why else ""
    return "" if prospect.heir(leader) else "no other member can lead"


@frozen
class Seen:
    """
    One look at the keys that tell who leads.

    :ivar request: what is asked for now, whoever asks; ``None`` for nothing
        that can be read.
    """

    leader: Entry | None = None
    term: TermRecord | None = None
    request: TransferRequest | None = None

    @classmethod
    def of(cls, keys: Keys, entries: Iterable[Entry]) -> Seen:
        """
        Take apart what was read.
        """
        found = {entry.key: entry for entry in entries}
        term, request = found.get(keys.term), found.get(keys.transfer)
        return cls(
            found.get(keys.leader),
            term and readable(TermRecord.from_entry, term),
            request and readable(TransferRequest.from_entry, request),
        )

    @property
    def holder(self) -> str | None:
        """
        Who holds the leader key.
        """
        if self.leader is None or self.leader.session is None:
            return None
        return self.leader.value.decode("utf-8", "replace")

    def led_by_other_than(self, session: str | None) -> TermRecord | None:
        """
        Give the term of a leader with another session, once it has begun.
        """
        key, term = self.leader, self.term
        if key is None or term is None or key.session in (None, session):
            return None
        return term if term.session == key.session else None


def readable(read: Callable[[Entry], _R], entry: Entry) -> _R | None:
    """
    Give the record of a key, ``None`` where it is none.
    """
    try:
        return read(entry)
    except RecordError:
        return None
