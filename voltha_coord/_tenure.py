"""
The records that say under which session somebody acts: the term, the owners.

They outlive the session.  Whoever comes after reads in them what has to be
over before it may act itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ._json import Fields, dump, parse_object, present

if TYPE_CHECKING:
    from .consul.model import Entry


@frozen
class TermRecord:
    """
    Who leads, or led last: ``term``.

    :ivar holder: its instance id.
    :ivar session: whose end ends the term.
    :ivar token: the fencing token of the term.
    :ivar check: id of the check bound to the session, ``None`` without one.
    :ivar node: the Consul node of that check.
    :ivar seq: counts the transactions of the term.
    :ivar released: the leader leads no more, by its own word.
    :ivar ttl: seconds of the session's TTL, so that a successor waits by the
        holder's settings and not by its own; ``None`` when not told.
    """

    holder: str
    session: str
    token: int = 0
    check: str | None = None
    node: str | None = None
    seq: int = 0
    released: bool = False
    ttl: float | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_entry(cls, entry: Entry) -> TermRecord:
        """
        Read the term's key.

        :raises RecordError: when its value is not a term.
        """
        fields = Fields(entry.key, parse_object(entry.key, entry.value))
        record = cls(
            holder=fields.required_text("holder"),
            session=fields.required_text("session"),
            token=fields.whole("token"),
            check=fields.optional_text("check"),
            node=fields.optional_text("node"),
            seq=fields.whole("seq"),
            released=fields.truth("released", False),
            ttl=fields.number("ttl", None),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return record

    def encode(self) -> bytes:
        """
        Give the value of the term's key.
        """
        known = {
            "holder": self.holder,
            "session": self.session,
            "token": self.token,
            "check": self.check,
            "node": self.node,
            "seq": self.seq,
            "released": self.released,
        }
        return dump({**self.extra, **known, **present(ttl=self.ttl)})


@frozen
class OwnerRecord:
    """
    Who runs an item: ``owners/<work_id>``.  Equal for all items of one member
    and session.

    :ivar owner: its instance id.
    :ivar session: the item may run only while this session's lease lasts.
    :ivar check: id of the check bound to the session, ``None`` without one.
    :ivar node: the Consul node of that check.
    :ivar ttl: as in :class:`TermRecord`.
    """

    owner: str
    session: str
    check: str | None = None
    node: str | None = None
    ttl: float | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_entry(cls, entry: Entry) -> OwnerRecord:
        """
        Read an owner's key.

        :raises RecordError: when its value is not an owner.
        """
        fields = Fields(entry.key, parse_object(entry.key, entry.value))
        record = cls(
            owner=fields.required_text("owner"),
            session=fields.required_text("session"),
            check=fields.optional_text("check"),
            node=fields.optional_text("node"),
            ttl=fields.number("ttl", None),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return record

    def encode(self) -> bytes:
        """
        Give the value of the owner's key.
        """
        known = {
            "owner": self.owner,
            "session": self.session,
            "check": self.check,
            "node": self.node,
        }
        return dump({**self.extra, **known, **present(ttl=self.ttl)})
