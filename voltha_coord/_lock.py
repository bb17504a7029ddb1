"""
The records of a named lock: who holds it, and who held it last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ._json import Fields, dump, parse_object, present
from .errors import ConfigurationError

if TYPE_CHECKING:
    from .consul.model import Entry

#: The bounds of a lock's term, in seconds: shorter ones run out while they are
#: renewed, longer ones are kept by no operator's memory.
SHORTEST_TERM, LONGEST_TERM = 1.0, 30 * 86_400.0


def check_valid_for(seconds: float | None) -> float | None:
    """
    Give the term of a lock back if it can be one; ``None`` for none.

    :raises ConfigurationError: when it cannot.
    """
    if seconds is None:
        return None
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not math.isfinite(seconds):
        raise ConfigurationError(f"valid_for: {seconds!r} is no number of seconds")
    if not SHORTEST_TERM <= seconds <= LONGEST_TERM:
        raise ConfigurationError(
            f"valid_for: {seconds:g} is not between {SHORTEST_TERM:g} and "
            f"{LONGEST_TERM:.0f} seconds"
        )
    return float(seconds)


@frozen
class LockRecord:
    """
    Who holds a lock: ``locks/<name>``.

    :ivar owner: its instance id, or who else took it.
    :ivar owner_token: a random text that no two acquisitions share; who knows it
        may renew and release.
    :ivar valid_for: the term in seconds; ``None`` for a lock that is bound to the
        session which holds its key.
    :ivar token: the fencing token; 0 in the record that acquired the lock, whose
        own ModifyIndex it is.
    :ivar seq: counts the renewals, so that each is a change.
    """

    owner: str
    owner_token: str
    valid_for: float | None = None
    token: int = 0
    seq: int = 0
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_entry(cls, entry: Entry) -> LockRecord:
        """
        Read a lock's key.

        :raises RecordError: when its value is not a lock.
        """
        fields = Fields(entry.key, parse_object(entry.key, entry.value))
        record = cls(
            owner=fields.required_text("owner"),
            owner_token=fields.required_text("owner_token"),
            valid_for=fields.number("valid_for", None, LONGEST_TERM),
            token=fields.whole("token"),
            seq=fields.whole("seq"),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return record

    def encode(self) -> bytes:
        """
        Give the value of the lock's key.
        """
        known = {
            "owner": self.owner,
            "owner_token": self.owner_token,
            "seq": self.seq,
            "token": self.token,
        }
        return dump({**self.extra, **known, **present(valid_for=self.valid_for)})


@frozen
class LockTrace:
    """
    Who held a lock last, or holds it: ``locks/<name>/last``.  It outlives the
    session that the lock was bound to.

    :ivar owner: as in :class:`LockRecord`.
    :ivar owner_token: as there.
    :ivar session: whose lease the holder acts under, ``None`` for a lock with a
        term.
    :ivar check: id of the check bound to the session, ``None`` without one.
    :ivar node: the Consul node of that check.
    :ivar ttl: seconds of the session's TTL.
    :ivar released: the holder holds it no more, by its own word.
    :ivar attempt: a random text; another one makes another value.
    """

    owner: str = ""
    owner_token: str = ""
    session: str | None = None
    check: str | None = None
    node: str | None = None
    ttl: float | None = None
    released: bool = False
    attempt: str = ""
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_entry(cls, entry: Entry) -> LockTrace:
        """
        Read the key of who held a lock last.

        :raises RecordError: when its value does not say so.
        """
        fields = Fields(entry.key, parse_object(entry.key, entry.value))
        trace = cls(
            owner=fields.text("owner"),
            owner_token=fields.text("owner_token"),
            session=fields.optional_text("session"),
            check=fields.optional_text("check"),
            node=fields.optional_text("node"),
            ttl=fields.number("ttl", None),
            released=fields.truth("released", False),
            attempt=fields.text("attempt"),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return trace

    def encode(self) -> bytes:
        """
        Give the value of that key.
        """
        known = {
            "owner": self.owner,
            "owner_token": self.owner_token,
            "released": self.released,
            "attempt": self.attempt,
        }
        optional = present(
            session=self.session, check=self.check, node=self.node, ttl=self.ttl
        )
        return dump({**self.extra, **known, **optional})
