"""
What an operator asks of the leader, and the leader's answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ._json import Fields, dump, parse_object, present

if TYPE_CHECKING:
    from .consul.model import Entry


@frozen
class TransferRequest:
    """
    That leadership be handed over: ``intent/transfer``.

    It is gone once leadership is with another member.  A leader that does not
    hand over writes the request back with its reason, for whoever asked to read
    and to delete.

    :ivar target: instance id of the member that is to lead; empty for any.
    :ivar token: fencing token of the leader that is asked; no other acts on it.
    :ivar id: which request it is, among all there ever were.
    :ivar refused: why leadership stays where it is; ``None`` while that leader
        has not said.
    """

    target: str
    token: int
    id: str
    refused: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def from_entry(cls, entry: Entry) -> TransferRequest:
        """
        Read the key of the request.

        :raises RecordError: when its value is not a request.
        """
        fields = Fields(entry.key, parse_object(entry.key, entry.value))
        request = cls(
            target=fields.text("target"),
            token=fields.whole("token"),
            id=fields.required_text("id"),
            refused=fields.optional_text("refused"),
            extra=fields.extra,
        )
        fields.refuse_problems()
        return request

    def encode(self) -> bytes:
        """
        Give the value of the request's key.
        """
        known = {"target": self.target, "token": self.token, "id": self.id}
        return dump({**self.extra, **known, **present(refused=self.refused)})
