"""
Every error this package raises across a module boundary.

One root, :class:`CoordinationError`.  What comes from Consul is a
:class:`ConsulError`, which is also python-consul2's ``ConsulException``: an
application written for the original coordinator goes on catching what it
always caught.  ``retryable`` says whether the same request may succeed later
without anything being changed by us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen
from consul import base as _consul


class CoordinationError(Exception):
    """
    The root of the errors of this package.
    """


class ConfigurationError(CoordinationError, ValueError):
    """
    A setting, or a combination of settings, cannot work; the text names them.
    """


class InvalidIdError(CoordinationError, ValueError):
    """
    An instance id, a work id or the name of a lock holds a character that no key
    may hold.
    """


class DuplicateCoordinatorError(CoordinationError):
    """
    This process already runs a Coordinator of that instance id and prefix.
    """


class LeaseOverError(CoordinationError):
    """
    The lease under which something was to be done has run out.
    """


class NotLeading(CoordinationError):
    """
    Leadership was to be handed over by a member that does not lead.
    """


class TransferRefused(CoordinationError):
    """
    Leadership could not be handed over, and stays where it is; the text says
    why.
    """


class LockBusy(CoordinationError):
    """
    This very lock object is held already, or waits to be: one object, one holder.
    """


class LockNotAcquired(CoordinationError):
    """
    A lock could not be had in the time that was given; the text says who holds
    it.
    """


class LockLost(CoordinationError):
    """
    A lock was to be used that is not held, or no more; the text says why.
    """


class ShutDownError(CoordinationError):
    """
    The Coordinator is shutting down, or has shut down; nothing more is sent.
    """


class StaleMembershipEntryException(CoordinationError):
    """
    The member key is held by another session: an earlier life of this
    instance whose session has not ended yet, or another process with the same
    instance id.  The name is the original coordinator's.
    """


class CaseError(CoordinationError, ValueError):
    """
    A file that is to hold a state of planning does not; says where.
    """


class CommandError(CoordinationError, ValueError):
    """
    A command cannot be run as it is described.
    """


class CommandNotAllowed(CommandError):
    """
    A command may not be run here: no pattern of the operator's allows it.
    """


class ConsulError(CoordinationError, _consul.ConsulException):
    """
    Consul answered with an error, or did not answer.

    :ivar retryable: whether the same request may succeed later.
    :ivar retry_after: seconds it asks to be left alone for; 0 when it does not
        say.
    """

    retryable: ClassVar[bool] = False
    retry_after: float = 0.0


class ConsulUnavailable(ConsulError):
    """
    No usable answer: refused, reset, not resolvable, not trusted (TLS), a 5xx
    that says nothing more precise, or something that is not Consul's
    (truncated, HTML of a proxy, unknown JSON).  Worth a retry.  Whether a
    write was applied is not known.
    """

    retryable = True


class RequestTimedOut(ConsulUnavailable, _consul.Timeout):
    """
    No answer within the request's deadline.  The write may still be applied,
    even later.  Worth a retry.
    """


class ForeignAnswer(ConsulUnavailable):
    """
    Somebody answered that all is well, and not Consul: a proxy in its place.
    Worth a retry.  What Consul did, if anything reached it, is not known.
    """


class NoClusterLeader(ConsulUnavailable):
    """
    The agent answers, but the Consul servers have no leader (or cannot be
    reached by the agent).  Worth a retry.
    """


class RateLimited(ConsulUnavailable):
    """
    429 or 503: too many connections or requests.  Worth a retry, later.
    """

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AccessDenied(ConsulError, _consul.ACLPermissionDenied):
    """
    401 or 403: the token is missing, unknown, expired, or may not do this.
    Not worth a retry until an operator changed something.
    """


class InvalidSession(ConsulError):
    """
    The session does not exist (any more), or never could.  A new session is
    needed; the same request never succeeds.
    """


class InvalidSessionTTL(ConsulError):
    """
    Consul's servers refuse this TTL; the text names the bounds.  Worth a retry
    with another TTL only.

    :ivar minimum: the smallest TTL the servers take, in seconds, when known.
    """

    def __init__(self, message: str, minimum: float | None = None) -> None:
        super().__init__(message)
        self.minimum = minimum


class CheckLost(ConsulError):
    """
    The agent does not know the check, or the catalog has it missing or
    critical: register it again.  Worth a retry after that.
    """


class NodeMissing(CheckLost):
    """
    The catalog does not know the agent's own node: it was deregistered by hand
    or reaped, or a backup without it was restored.  The agent puts it back with
    whatever is registered next, else within a minute or two.
    """


class KeyNotFound(ConsulError, _consul.NotFound):
    """
    404 where something was expected.  Not worth a retry until it is there.
    """


class ValueTooLarge(ConsulError, _consul.ClientError):
    """
    413: a value above 512 KiB, or a transaction with too many operations or
    too large a body.  Never worth a retry.
    """


class BadRequest(ConsulError, _consul.BadRequest):
    """
    400 and the other 4xx: the request is malformed.  Never worth a retry.
    """


@frozen
class Refusal:
    """
    Why one operation of a transaction was refused.

    :ivar position: which operation, counted from 0 in the list that was given.
    :ivar key: the key it was about.
    :ivar what: Consul's words.
    """

    position: int
    key: str
    what: str


class TransactionRefused(ConsulError):
    """
    409: a transaction was rolled back whole.  Never worth a retry as it is.

    :ivar refusals: every operation Consul found fault with.
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        words = "; ".join(
            f"operation {r.position} on {r.key!r}: {r.what}" for r in self.refusals
        )
        super().__init__(f"transaction refused: {words or 'no reason given'}")

    @property
    def lock_delayed(self) -> bool:
        """
        Whether a lock-delay, and nothing else, stands in the way.
        """
        return bool(self.refusals) and all(
            "lock delay" in r.what for r in self.refusals
        )

    @property
    def session_invalid(self) -> bool:
        """
        Whether a session named in the transaction does not exist.
        """
        return any("invalid session" in r.what for r in self.refusals)
