"""
The embedded Consul's sessions, and the timers of their TTLs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from .answers import Problem
from .durations import SECOND, parse_duration

#: Consul ends a session after this many TTLs without a renewal.
TTL_MULTIPLIER = 2

#: No lock-delay is longer, in nanoseconds, whatever the session says.
MAX_LOCK_DELAY = 60 * SECOND

TTL_MINIMUM = 10 * SECOND
TTL_MAXIMUM = 86400 * SECOND

_HEX = re.compile(r"[0-9a-fA-F-]*")


@frozen
class Session:
    """
    A session as the servers keep it.

    :ivar lock_delay: nanoseconds, as it was asked for.
    :ivar ttl: as it was written, empty for none.
    :ivar old_checks: what came in the field of Consul before 1.7.
    """

    id: str
    node: str
    name: str = ""
    behavior: str = "release"
    lock_delay: int = 15 * SECOND
    ttl: str = ""
    node_checks: tuple[str, ...] | None = ("serfHealth",)
    service_checks: tuple[tuple[str, str], ...] | None = None
    old_checks: tuple[str, ...] = ()
    create_index: int = 0

    @property
    def ttl_seconds(self) -> float:
        """
        The TTL in seconds, 0 for none.
        """
        return parse_duration(self.ttl) / SECOND if self.ttl else 0.0

    @property
    def checks(self) -> tuple[str, ...]:
        """
        The ids of all checks that are bound.
        """
        service = tuple(check for check, _ in self.service_checks or ())
        bound = (*(self.node_checks or ()), *self.old_checks, *service)
        return tuple(dict.fromkeys(bound))

    def to_json(self) -> dict[str, Any]:
        """
        Give it as Consul shows it.
        """
        shown: dict[str, Any] = {
            "ID": self.id,
            "Name": self.name,
            "Node": self.node,
            "LockDelay": self.lock_delay,
            "Behavior": self.behavior,
            "TTL": self.ttl,
            "NodeChecks": None if self.node_checks is None else list(self.node_checks),
            "ServiceChecks": None,
            "CreateIndex": self.create_index,
            "ModifyIndex": self.create_index,
        }
        if self.service_checks is not None:
            shown["ServiceChecks"] = [
                {"ID": check, "Namespace": space}
                for check, space in self.service_checks
            ]
        if self.old_checks:
            shown["Checks"] = list(self.old_checks)
        return shown


def check_ttl(text: str) -> None:
    """
    Refuse a TTL the servers do not take.

    :raises Problem: 500, in Consul's words.
    """
    if not text:
        return
    try:
        ttl = parse_duration(text)
    except ValueError as e:
        raise Problem(500, f"Session TTL '{text}' invalid: {e}") from None
    if ttl and not TTL_MINIMUM <= ttl <= TTL_MAXIMUM:
        raise Problem(
            500, f"Invalid Session TTL '{ttl}', must be between [10s=24h0m0s]"
        )


def read_lock_delay(value: object) -> int:
    """
    Give the nanoseconds of a ``LockDelay``: a duration, or a number; below
    1000 nanoseconds it is taken for seconds.

    :raises Problem: 400, if it is neither.
    """
    if isinstance(value, str):
        try:
            delay = parse_duration(value)
        except ValueError as e:
            raise Problem(400, f"Request decode failed: {e}") from None
    elif isinstance(value, int | float):
        delay = int(value)
    else:
        raise Problem(400, "Request decode failed: invalid LockDelay")
    return delay * SECOND if delay < 1000 else delay


class Sessions:
    """
    All sessions, and what tells when their TTLs are over.

    :param expire: called with the id of a session whose time is over.
    """

    def __init__(self, clock: IReactorTime, expire: Callable[[str], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._sessions: dict[str, Session] = {}
        self._timers: dict[str, IDelayedCall] = {}
        self._bound: dict[tuple[str, str], dict[str, None]] = {}
        self.index = 0

    def get(self, session_id: str) -> Session | None:
        """
        Give a session, ``None`` if there is none of that id.

        :raises Problem: 500, if it cannot be an id.
        """
        if len(session_id) != 36:
            raise Problem(
                500, "failed session lookup: index error: UUID must be 36 characters"
            )
        if not _HEX.fullmatch(session_id):
            bad = next(c for c in session_id if not _HEX.fullmatch(c))
            raise Problem(
                500,
                "failed session lookup: index error: Invalid UUID: encoding/hex: "
                f"invalid byte: U+{ord(bad):04X} '{bad}'",
            )
        return self._sessions.get(session_id)

    def require(self, session_id: str) -> None:
        """
        Refuse what needs a session that is alive.

        :raises Problem: 500, in Consul's words.
        """
        if not session_id:
            raise Problem(500, "missing session")
        if self.get(session_id) is None:
            raise Problem(500, f'invalid session "{session_id}"')

    def all(self, node: str | None = None) -> list[Session]:
        """
        Give the sessions, of one node or all, by id.
        """
        return [
            session
            for _, session in sorted(self._sessions.items())
            if node is None or session.node == node
        ]

    def bound_to(self, node: str, check_id: str) -> tuple[str, ...]:
        """
        Give the ids of the sessions that end with a check.
        """
        return tuple(self._bound.get((node, check_id), ()))

    def add(self, session: Session) -> None:
        """
        Let a session begin.
        """
        self._sessions[session.id] = session
        self.index = session.create_index
        for check in session.checks:
            self._bound.setdefault((session.node, check), {})[session.id] = None

    def remove(self, session_id: str, index: int) -> None:
        """
        Let a session be over.
        """
        session = self._sessions.pop(session_id)
        self.index = index
        for check in session.checks:
            bound = self._bound[session.node, check]
            del bound[session_id]
            if not bound:
                del self._bound[session.node, check]
        timer = self._timers.pop(session_id, None)
        if timer is not None and timer.active():
            timer.cancel()

    def renew(self, session: Session) -> None:
        """
        Let the TTL run from now on.
        """
        seconds = session.ttl_seconds * TTL_MULTIPLIER
        timer = self._timers.get(session.id)
        if timer is not None and timer.active():
            timer.reset(seconds)
        elif seconds:
            self._timers[session.id] = self._clock.callLater(
                seconds, self._expire, session.id
            )

    def stop_timers(self) -> None:
        """
        Let no TTL run: there is no leader to watch them.
        """
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()
        self._timers.clear()

    def start_timers(self) -> None:
        """
        Let every TTL run in full, as a new leader does.
        """
        for session in self.all():
            self.renew(session)
