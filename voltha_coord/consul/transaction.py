"""
Any number of operations, in as few transactions as Consul takes.
"""

# Note [What was applied]
#
# Chunks are sent one after the other, so what is applied is always a prefix
# of what was given, counted in operations.  Of the chunk that ended the run:
#
#   refused (409), denied, too large, bad   nothing of it is applied
#   no connection                           nothing of it is applied
#   no usable answer                        the fence knows, or nobody does
#
# A fence whose ``resolve`` says True lets the run go on as if the reply had
# come; its ``applied`` is not called for that chunk, there being no results:
# it has learnt by itself where it stands.  One that says False ends the run
# with nothing of the chunk applied.  Without a fence, or when it cannot tell,
# the chunk is ``unknown``: a fenced one can be sent again under the same fence
# without harm, an unfenced one only if its operations may be repeated.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from zope.interface import Interface

from .._types import Steps
from ..errors import (
    ConsulError,
    ConsulUnavailable,
    Refusal,
    TransactionRefused,
    ValueTooLarge,
)
from .api import ConsulApi
from .encoding import BODY_FRAME_BYTES, encoded_size
from .model import Entry, Op
from .transport import NotConnected

#: So many operations Consul takes in one transaction, up to version 1.13.
MAX_OPERATIONS = 64

#: And so many bytes, values in base64.
MAX_BODY_BYTES = 512 * 1024

#: What is given: operations, and tuples of operations that stay together.
Ops = Sequence[Op | tuple[Op, ...]]

#: Sends one chunk, when it is called.
Send = Callable[[], Deferred[Any]]


class IFence(Interface):
    """
    What every chunk begins with, so that it is refused when its time is over.
    """

    def turn(send: Send) -> Deferred[Any]:  # noqa: N805 (an interface)
        """
        Call, once the next chunk may be sent; nothing else is sent behind the
        fence before the Deferred has fired that comes back.

        :return: a Deferred that fires with what that call gives.  It fails
            when nothing may be sent; then it was not called.
        """

    def ops() -> tuple[Op, ...]:
        """
        Give the operations to lead the next chunk with: always as many, and
        never longer ones than at the first call by more than a few digits.
        """

    def applied(results: Sequence[Entry]) -> None:  # noqa: N805 (an interface)
        """
        Take note of the results of a chunk that was applied, the fence's own
        first.
        """

    def resolve() -> Deferred[bool | None]:
        """
        After a lost reply: say whether the chunk was applied, ``None`` when
        there is no telling.  False must be for good: the request may still be
        under way, and has to be refused when it arrives.
        """


@frozen
class TransactionOutcome:
    """
    What became of a run.

    :ivar applied: so many of the operations given, counted one by one from
        the first, are applied.
    :ivar total: how many were given.
    :ivar unknown: so many after these may be applied or not: the reply was
        lost.
    :ivar refusals: why the next chunk was refused, positions counted in the
        operations given; one of the fence's own has a negative position
        (-1 is its last operation).
    :ivar error: what ended the run early, ``None`` when all is applied.
    """

    applied: int
    total: int
    unknown: int = 0
    refusals: tuple[Refusal, ...] = ()
    error: ConsulError | None = None

    @property
    def complete(self) -> bool:
        """
        Whether all is applied.
        """
        return self.error is None

    @property
    def refused(self) -> bool:
        """
        Whether Consul refused a chunk.
        """
        return isinstance(self.error, TransactionRefused)

    @property
    def fenced_off(self) -> bool:
        """
        Whether it was the fence that was refused: our time is over.
        """
        return any(refusal.position < 0 for refusal in self.refusals)


def reply_lost(error: ConsulError) -> bool:
    """
    Whether a write that failed so may have been applied all the same.
    """
    return isinstance(error, ConsulUnavailable) and not isinstance(error, NotConnected)


#: The fence's room is reckoned once; its indexes may grow by so many bytes.
_FENCE_GROWTH_BYTES = 64


def pack(
    ops: Ops,
    *,
    reserved_operations: int = 0,
    reserved_bytes: int = 0,
) -> list[tuple[Op, ...]]:
    """
    Divide operations into chunks, in order, each as full as it may be.

    :param reserved_operations: left free in every chunk.
    :param reserved_bytes: left free in every body.
    :raises ValueTooLarge: when one operation, or one group that must stay
        together, fits into no chunk.
    """
    room_operations = MAX_OPERATIONS - reserved_operations
    room_bytes = MAX_BODY_BYTES - BODY_FRAME_BYTES - reserved_bytes
    chunks: list[tuple[Op, ...]] = []
    chunk: list[Op] = []
    used = 0
    for item in ops:
        group = (item,) if isinstance(item, Op) else item
        size = sum(map(encoded_size, group))
        if len(group) > room_operations or size > room_bytes:
            raise ValueTooLarge(
                f"{len(group)} operation(s) from {group[0].verb} {group[0].key!r} on,"
                f" {size} bytes, do not fit into one transaction"
                f" ({room_operations} operations, {room_bytes} bytes)"
            )
        if len(chunk) + len(group) > room_operations or used + size > room_bytes:
            chunks.append(tuple(chunk))
            chunk, used = [], 0
        chunk += group
        used += size
    if chunk:
        chunks.append(tuple(chunk))
    return chunks


class Transaction:
    """
    Applies operations chunk by chunk.  A chunk is applied whole or not at
    all; the run is not.

    :param api: writes the chunks.
    :param ops: the operations, and tuples of them that must be applied
        together.
    :param fence: leads every chunk.
    :raises ValueTooLarge: before anything is sent.
    """

    def __init__(
        self, api: ConsulApi, ops: Ops, *, fence: IFence | None = None
    ) -> None:
        self._api = api
        self._fence = fence
        lead = self._lead()
        self._chunks = pack(
            ops,
            reserved_operations=len(lead),
            reserved_bytes=sum(map(encoded_size, lead))
            + (_FENCE_GROWTH_BYTES if lead else 0),
        )
        self._total = sum(map(len, self._chunks))

    def _lead(self) -> tuple[Op, ...]:
        return () if self._fence is None else self._fence.ops()

    @property
    def requests(self) -> int:
        """
        How many chunks there are.
        """
        return len(self._chunks)

    @inlineCallbacks
    def run(self) -> Steps[TransactionOutcome]:
        """
        Send the chunks, one after the other.  Fires with the outcome, also
        when it is a bad one; fails only when cancelled, or as the fence does.
        """
        applied = 0
        for chunk in self._chunks:
            send = partial(self._send, chunk, applied)
            ended: TransactionOutcome | None = yield (
                send() if self._fence is None else self._fence.turn(send)
            )
            if ended is not None:
                return ended
            applied += len(chunk)
        return TransactionOutcome(applied, self._total)

    @inlineCallbacks
    def _send(
        self, chunk: tuple[Op, ...], applied: int
    ) -> Steps[TransactionOutcome | None]:
        """
        Send one chunk; give the outcome of the run if it ends it.
        """
        lead = self._lead()
        try:
            results: tuple[Entry, ...] = yield self._api.txn(lead + chunk)
        except ConsulError as error:
            known: bool | None = yield self._was_applied(error)
            if not known:
                return self._ended(applied, chunk, lead, error, known)
        else:
            if self._fence is not None:
                self._fence.applied(results)
        return None

    @inlineCallbacks
    def _was_applied(self, error: ConsulError) -> Steps[bool | None]:
        if not reply_lost(error):
            return False
        if self._fence is None:
            return None
        try:
            known: bool | None = yield self._fence.resolve()
        except ConsulError:
            return None
        return known

    def _ended(
        self,
        applied: int,
        chunk: tuple[Op, ...],
        lead: tuple[Op, ...],
        error: ConsulError,
        known: bool | None,
    ) -> TransactionOutcome:
        refusals: tuple[Refusal, ...] = ()
        if isinstance(error, TransactionRefused):
            refusals = tuple(_shifted(error.refusals, applied, len(lead)))
        return TransactionOutcome(
            applied,
            self._total,
            unknown=len(chunk) if known is None else 0,
            refusals=refusals,
            error=error,
        )


def _shifted(refusals: Sequence[Refusal], applied: int, lead: int) -> Iterator[Refusal]:
    for refusal in refusals:
        inside = refusal.position - lead
        position = inside if inside < 0 else applied + inside
        yield Refusal(position, refusal.key, refusal.what)
