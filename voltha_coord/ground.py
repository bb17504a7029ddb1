"""
What all parts of a member stand on: its clock, its chance, its log, its counts,
its keys, and the way to Consul.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorCore, IReactorTime

from .clock import SteadyReactor, boot_time
from .consul.address import ConnectionSettings
from .consul.api import ConsulApi
from .consul.connect import connect
from .consul.requester import Outcome, Requester
from .consul.retries import RetryTimers
from .consul.transport import ITransport
from .interfaces import IMeter
from .keys import Keys
from .load import Load
from .settings import Settings
from .tally import Tally


@frozen
class Ground:
    """
    What parts are given, each as much of it as it needs.

    :ivar steady: waits, on the lease clock.
    :ivar wall_clock: for records meant for people.
    :ivar random: for jitter and ids, in [0, 1).
    :ivar tally: what this member has counted so far.
    :ivar load: what it has and uses, if it measures that.
    :ivar api: the requests of this library, made by ``requester``.
    :ivar retry_timers: waits out back-offs, which end early once Consul answers
        again.
    """

    instance_id: str
    settings: Settings
    keys: Keys
    log: Any
    steady: SteadyReactor
    wall_clock: Callable[[], float]
    random: Callable[[], float]
    tally: Tally
    load: Load
    requester: Requester
    api: ConsulApi
    retry_timers: RetryTimers


def lay_ground(
    reactor: IReactorTime,
    connection: ConnectionSettings,
    transports: Sequence[ITransport] | None,
    *,
    instance_id: str,
    settings: Settings,
    keys: Keys,
    log: Any,
    now: Callable[[], float] | None,
    wall_clock: Callable[[], float] | None,
    random: Callable[[], float] | None,
    ended: Callable[[Outcome], None],
    meter: IMeter | None = None,
) -> Ground:
    """
    Make it.  Opens no connection, and sets no timer.

    :param now: the lease clock in seconds; ``None`` for the boot-time clock, or
        the reactor's own for a reactor that does no I/O.
    :param wall_clock: ``None`` for the machine's, or again the reactor's own.
    :param random: ``None`` for a generator of its own.
    :param ended: told what became of each request.
    :param meter: measures what this member has and uses.
    :raises UnusableFile: as :func:`~voltha_coord.consul.connect.connect`.
    """
    real = IReactorCore.providedBy(reactor)

    def stepped(seconds: float) -> None:
        log.warning(
            "wall-clock-stepped",
            seconds=round(seconds, 3),
            effect="none: timers run on the lease clock and were set anew",
        )

    if now is None:
        now = boot_time if real else reactor.seconds
    if wall_clock is None:
        wall_clock = time.time if real else reactor.seconds
    if random is None:
        random = Random().random
    steady = SteadyReactor(reactor, now, stepped)
    requester = connect(
        reactor,
        connection,
        transports,
        connect_timeout=settings.connect_timeout,
        on_outcome=ended,
        clock=steady,
        now=steady.seconds,
    )
    return Ground(
        instance_id=instance_id,
        settings=settings,
        keys=keys,
        log=log,
        steady=steady,
        wall_clock=wall_clock,
        random=random,
        tally=Tally(),
        load=Load(meter, settings.limit_wait, steady.seconds, log),
        requester=requester,
        api=ConsulApi(
            requester,
            command_timeout=settings.command_timeout,
            session_timeout=settings.renew_timeout,
            watch_margin=settings.watch_margin,
        ),
        retry_timers=RetryTimers(steady, random),
    )
