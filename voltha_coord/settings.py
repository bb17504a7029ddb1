"""
Every timing and name of a Coordinator, with its default and its bounds.

Pure: a frozen value that refuses combinations which leave no room.  All
durations are float seconds.
"""

from __future__ import annotations

from typing import Any, NoReturn

from attrs import Attribute, field, fields, frozen
from attrs import evolve as evolve

from .errors import ConfigurationError

#: The original coordinator's steps between retries, in seconds.
RETRY_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

#: Ever new changes hold acting on them off for so many soak times at most.
MOST_SOAKS = 4

#: Consul waits this many TTLs before it ends a session.
CONSUL_TTL_MULTIPLIER = 2.0

#: By how much a lease is kept shorter: so much at least, or this share of it.
GUARD_SECONDS = 0.05
GUARD_SHARE = 0.02

#: Stopping work begins such a share of the check's TTL before the lease ends.
GRACE_SHARE = 1 / 6

#: The liveness check is passed every third of its TTL, and so often at least, in
#: seconds: what is left of the TTL after a pass is what an agent that is
#: restarted may take.
LONGEST_PASS_INTERVAL = 1.0

#: What floating point may be wrong by, in seconds.
_NEGLIGIBLE = 1e-9

#: What becomes of work while Consul is out of reach.
STOP, KEEP, TAKEOVER = ISOLATIONS = ("stop", "keep", "takeover")

#: What is done about work that does not stop.
REPORT, EXIT = STUCK_WORK = ("report", "exit")

#: Consul caps the lock-delay at this many seconds.
MAX_LOCK_DELAY = 60.0


def _seconds(low: float, high: float) -> Any:
    def check(instance: Settings, attribute: Attribute[float], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigurationError(
                f"{attribute.name}: {value!r} is not a number of seconds"
            )
        # Also false for NaN; whole numbers beyond a float compare well.
        if not low <= value <= high:
            raise ConfigurationError(
                f"{attribute.name}: {_as_set(value)} is not between {low:g} and "
                f"{high:g} seconds"
            )

    return check


def _prefix(instance: Settings, attribute: Attribute[str], value: object) -> None:
    from .keys import check_prefix

    if not isinstance(value, str):
        raise ConfigurationError(f"{attribute.name}: {value!r} is not a text")
    check_prefix(value)


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _texts(
    instance: Settings, attribute: Attribute[tuple[str, ...]], value: object
) -> None:
    if not isinstance(value, tuple) or not all(
        isinstance(text, str) and text for text in value
    ):
        raise ConfigurationError(
            f"{attribute.name}: {value!r} is not a list of texts that are not empty"
        )


def _optional_text(
    instance: Settings, attribute: Attribute[str | None], value: object
) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigurationError(f"{attribute.name}: {value!r} is not a text")


def _timing(default: float, low: float, high: float, doc: str) -> Any:
    return field(default=default, validator=_seconds(low, high), metadata={"doc": doc})


def _choice(choices: tuple[str, ...], doc: str) -> Any:
    def check(instance: Settings, attribute: Attribute[str], value: object) -> None:
        if value not in choices:
            raise ConfigurationError(
                f"{attribute.name}: {value!r} is none of {', '.join(choices)}"
            )

    return field(default=choices[0], validator=check, metadata={"doc": doc})


def _count(default: int, low: int, high: int, doc: str) -> Any:
    def check(instance: Settings, attribute: Attribute[int], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{attribute.name}: {value!r} is not a number")
        if not low <= value <= high:
            raise ConfigurationError(
                f"{attribute.name}: {value} is not between {low} and {high}"
            )

    return field(default=default, validator=check, metadata={"doc": doc})


def guard_seconds(duration: float) -> float:
    """
    Give by how much a lease is kept shorter than what Consul grants: clocks
    that run apart by a percent, and the time of a last request.
    """
    return max(GUARD_SECONDS, GUARD_SHARE * duration)


def _least(needed: float, share: float) -> float:
    """
    Give the shortest duration of which ``share``, less the guard, is as much as
    is needed.
    """
    return max((needed + GUARD_SECONDS) / share, needed / (share - GUARD_SHARE))


def _brief(seconds: float) -> str:
    """
    Write what was calculated as people read it: to three digits.
    """
    return f"{float(f'{seconds:.3g}'):g}"


def _brief_above(seconds: float) -> str:
    """
    Write a lower bound so that what is read suffices.
    """
    if float(_brief(seconds)) >= seconds - _NEGLIGIBLE:
        return _brief(seconds)
    return _brief(seconds * 1.005)


def _as_set(value: float) -> str:
    """
    Write a number that somebody has set, as short as it can be.
    """
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return repr(value)


@frozen(kw_only=True)
class Settings:
    """
    How one Coordinator behaves.  Every field has a default that works.

    :raises ConfigurationError: when a value, or a combination, leaves no room;
        the text names the fields.
    """

    prefix: str = field(
        default="service/voltha",
        validator=_prefix,
        metadata={"doc": "the keys of this cluster live under it"},
    )
    session_ttl: float = _timing(
        15.0, 10.0, 86400.0, "TTL of the session; Consul ends it after twice that"
    )
    renew_interval: float = _timing(
        3.0, 0.1, 3600.0, "between two renewals of the session"
    )
    renew_timeout: float = _timing(
        2.0,
        0.05,
        60.0,
        "deadline of one renewal, and of one pass of the check",
    )
    lock_delay: float = _timing(
        1.0, 0.0, MAX_LOCK_DELAY, "Consul's lock-delay after a session has ended"
    )
    failure_detection: float = _timing(
        3.0, 0.0, 3600.0, "TTL of the liveness check; 0 is session TTL alone"
    )
    stop_grace: float | None = field(
        default=None,
        metadata={
            "doc": "stopping work begins so long before the lease ends; "
            "default a sixth of failure_detection (of session_ttl without check)"
        },
    )
    node_health: bool = field(
        default=False,
        metadata={"doc": "bind Consul's serfHealth to the session as well"},
    )
    watch_wait: float = _timing(30.0, 1.0, 600.0, "how long one blocking query waits")
    watch_margin: float = _timing(
        5.0, 0.1, 60.0, "client deadline of a blocking query beyond wait x 17/16"
    )
    command_timeout: float = _timing(
        10.0, 0.1, 600.0, "deadline of a read or write that answers at once"
    )
    connect_timeout: float = _timing(2.0, 0.05, 60.0, "deadline of a TCP or TLS set-up")
    soak: float = _timing(
        3.0, 0.0, 600.0, "quiet time after joins and changed work before a plan"
    )
    departed_soak: float = _timing(
        0.5, 0.0, 600.0, "quiet time after a member left before a plan"
    )
    worker_soak: float = _timing(
        0.05, 0.0, 600.0, "quiet time after changed assignments before acting"
    )
    resync_interval: float = _timing(
        10.0, 1.0, 3600.0, "between a leader's consistent snapshots"
    )
    sync_interval: float = _timing(
        5.0,
        0.5,
        600.0,
        "between two passes of the resource leader, and between two reports of what "
        "a member and its items use",
    )
    limit_wait: float = _timing(
        0.0,
        0.0,
        3600.0,
        "at a limit of its CPU or memory for so long, a member counts as throttling",
    )
    candidate_pause: float = _timing(
        5.0, 0.0, 3600.0, "no candidate for so long after failing to establish a term"
    )
    drain_timeout: float = _timing(
        10.0, 0.0, 3600.0, "bound of shutting down, all steps together"
    )
    isolation: str = _choice(
        ISOLATIONS,
        "what becomes of work while Consul is out of reach: it stops; it goes on; "
        "and that of lost members runs here too",
    )
    emergency_timeout: float = _timing(
        10.0, 0.0, 3600.0, "after the lease ended, before an emergency is declared"
    )
    node_recover_timeout: float = _timing(
        120.0,
        0.0,
        86400.0,
        "before the items of a member that is gone are placed anew by the resource "
        "leader; with isolation takeover also: after the lease ended, before the items "
        "of others run here too",
    )
    move_timeout: float = _timing(
        60.0,
        1.0,
        86400.0,
        "for the target of a move to make the item ready, before the move is skipped; "
        "and before it is tried again",
    )
    work_timeout: float = _timing(
        60.0, 0.1, 3600.0, "deadline of a runner's call, but for stop_work"
    )
    stop_timeout: float = _timing(
        30.0, 0.1, 3600.0, "time for stop_work, before the item is killed"
    )
    stuck_work: str = _choice(
        STUCK_WORK,
        "what is done about work that does not stop before the lease is over: it is "
        "reported; the process ends (the default of twistd)",
    )
    concurrent_work: int = _count(
        64, 1, 10_000, "calls that start, prepare or update items, under way at a time"
    )

    allow_command: tuple[str, ...] = field(
        default=(),
        converter=_as_tuple,
        validator=_texts,
        metadata={"doc": "patterns of the commands that the worker process may run"},
    )
    state_directory: str | None = field(
        default=None,
        validator=_optional_text,
        metadata={
            "doc": "where the worker process writes down what runs; default a "
            "directory of this user's, by prefix and instance id"
        },
    )

    def __attrs_post_init__(self) -> None:
        """
        Check what depends on several fields.
        """
        if self.stop_grace is not None:
            _seconds(0.0, 3600.0)(self, fields(Settings).stop_grace, self.stop_grace)
        self._check_renewals()
        self._check_passes()

    def _check_renewals(self) -> None:
        """
        One renewal may hang until its deadline; the next one, at the first
        interval after that, still has to come before the lease ends.
        """
        ttl = self.session_ttl
        second = self.renew_interval * (2 + self.renew_timeout // self.renew_interval)
        if second + self.grace + guard_seconds(ttl) <= ttl + _NEGLIGIBLE:
            return
        if self.stop_grace is None and not self.failure_detection:
            least = _least(second, 1 - GRACE_SHARE)
        else:
            least = _least(second + self.grace, 1)
        room = (
            f"two renewals (renew_interval {self.renew_interval:g} s, renew_timeout "
            f"{self.renew_timeout:g} s: the second comes after {_brief(second)} s)"
        )
        names = ("renew_interval", "renew_timeout")
        self._refuse("session_ttl", room, names, least)

    def _check_passes(self) -> None:
        """
        Two passes, of which one may get lost, have to fit into the lease.
        """
        check = self.failure_detection
        passes = 2 * self.pass_interval
        need = passes + self.grace + guard_seconds(check)
        if not check or need <= check + _NEGLIGIBLE:
            return
        # What is left of it by passes that are a third of it each, or as long as
        # they may be.
        if self.stop_grace is None:
            least = _least(0, 1 / 3 - GRACE_SHARE)
        else:
            longest = LONGEST_PASS_INTERVAL
            least = min(
                _least(self.stop_grace, 1 / 3),
                max(3 * longest, _least(2 * longest + self.stop_grace, 1)),
            )
        room = f"two passes (one each {_brief(self.pass_interval)} s)"
        self._refuse("failure_detection", room, (), least)

    def _refuse(
        self, whole: str, room: str, names: tuple[str, ...], least: float
    ) -> NoReturn:
        """
        Say which timing is too short for what has to go into it.

        The one named first is the one to change: of those that were set, or
        else the short one itself.
        """
        value = getattr(self, whole)
        grace = f"stop_grace {_brief(self.grace)} s"
        if self.stop_grace is not None:
            names = (*names, "stop_grace")
        else:
            source = "failure_detection" if self.failure_detection else "session_ttl"
            grace += f", a sixth of {source}"
            names = (*names, source)
        defaults = {one.name: one.default for one in fields(Settings)}
        changed = [
            name
            for name in dict.fromkeys((whole, *names))
            if getattr(self, name) != defaults[name]
        ]
        blamed = changed[0] if changed else whole
        where = "" if blamed == whole else f" in {whole} ({value:g} s)"
        raise ConfigurationError(
            f"{blamed}: {getattr(self, blamed):g} s leaves no room{where} for {room}, "
            f"for {grace}, and for a guard of {_brief(guard_seconds(value))} s: "
            f"{whole} of at least {_brief_above(least)} s is needed"
        )

    @property
    def pass_interval(self) -> float:
        """
        Seconds between two passes of the liveness check; 0 without one.
        """
        return min(self.failure_detection / 3, LONGEST_PASS_INTERVAL)

    @property
    def pass_timeout(self) -> float:
        """
        Seconds one pass of the liveness check may take: more than an interval,
        since the next one is sent meanwhile, so that a slow agent costs nothing;
        less than the lease, so that trouble is known before the lease ends.
        """
        return min(self.renew_timeout, self.failure_detection / 2)

    @property
    def grace(self) -> float:
        """
        Seconds before the end of the lease at which stopping work begins.
        """
        if self.stop_grace is not None:
            return self.stop_grace
        return (self.failure_detection or self.session_ttl) * GRACE_SHARE

    @property
    def watch_deadline(self) -> float:
        """
        Seconds a blocking query may take: Consul adds up to wait / 16.
        """
        return self.watch_wait * 17 / 16 + self.watch_margin

    @property
    def detection_bound(self) -> float:
        """
        Seconds in which the death of a process is noticed by Consul.
        """
        return self.failure_detection or CONSUL_TTL_MULTIPLIER * self.session_ttl
