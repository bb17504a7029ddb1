"""
The contract of session TTLs: specs 4.2.

A TTL is 10 seconds at least, and a session ends after twice that.  All that is
to be seen of it is watched together, once, and on both real backends at the
same time.
"""

from __future__ import annotations

from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks

from voltha_coord._types import Steps

from .backends import Backend, RealBackend, SecureRealBackend
from .base import ContractBase
from .calls import Calls

_TTL = 10.0


@define
class Seen:
    """
    What happened to two sessions, one renewed once and one never.
    """

    before: tuple[bool, bool] = (False, False)
    after: tuple[bool, bool] = (False, False)
    freed_key: int = 0
    early_lock: str = ""
    renewal: int = 0


@inlineCallbacks
def watch_expiry(backend: Backend) -> Steps[Seen]:
    """
    Let one session expire, and renew another half-way.
    """
    calls, seen = Calls(backend), Seen()
    key = f"{backend.prefix}expiry"
    left = yield calls.session(TTL="10s", Behavior="delete", LockDelay="15s")
    kept = yield calls.session(TTL="10s")
    yield calls.put(key, b"v", acquire=left)
    yield backend.wait(_TTL)
    yield calls.ask("PUT", f"/v1/session/renew/{kept}")
    yield backend.wait(_TTL - 0.7)
    seen.before = ((yield calls.alive(left)), (yield calls.alive(kept)))
    yield backend.wait(1.2)
    seen.after = ((yield calls.alive(left)), (yield calls.alive(kept)))
    seen.freed_key = (yield calls.get(key)).status
    seen.early_lock = (yield calls.put(key, b"w", acquire=kept)).text
    seen.renewal = (yield calls.ask("PUT", f"/v1/session/renew/{left}")).status
    return seen


_seen: dict[type[Backend], Seen] = {}


@inlineCallbacks
def _watch_real() -> Steps[None]:
    kinds: list[type[Backend]] = [RealBackend, SecureRealBackend]
    backends = [kind() for kind in kinds]
    watching: list[Deferred[Any]] = [watch_expiry(backend) for backend in backends]
    found = yield gatherResults(watching, consumeErrors=True)
    for kind, backend, seen in zip(kinds, backends, found, strict=True):
        _seen[kind] = seen
        yield backend.tear_down()


class ExpiryContract(ContractBase):
    """
    The end of a session that is not renewed.
    """

    @inlineCallbacks
    def _watch(self) -> Steps[Seen]:
        if not self.backend.real:
            seen: Seen = yield watch_expiry(self.backend)
            return seen
        kind = type(self.backend)
        if kind not in _seen:
            yield _watch_real()
        return _seen[kind]

    @inlineCallbacks
    def test_expires_after_twice_the_ttl(self) -> Steps[None]:
        """
        4.2: a session lives for twice its TTL, and then is over; a renewal
        lets it run anew; after the end it answers 404.
        """
        seen = yield self._watch()

        self.assertEqual(seen.before, (True, True))
        self.assertEqual(seen.after, (False, True))
        self.assertEqual(seen.renewal, 404)

    @inlineCallbacks
    def test_expiry_frees_keys_with_a_delay(self) -> Steps[None]:
        """
        4.2: the end by TTL does to keys what the behaviour says, and starts
        the lock-delay.
        """
        seen = yield self._watch()

        self.assertEqual((seen.freed_key, seen.early_lock), (404, "false"))
