"""
The parts of a worker, and how they are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from .assigned import Assigned, Assignments
from .awaited import CLAIM_PAUSE, Awaited
from .changes import Changes
from .claiming import Claiming
from .collecting import Collector
from .descriptions import Descriptions
from .extras import Extras
from .forgotten import Forgotten
from .interfaces import IRunner
from .item import Item
from .overdue import Overdue
from .ownership import Ownership
from .preparing import Preparing
from .releasing import Releasing
from .reporting import StatusWriter
from .runners.complete import does
from .running import RunningItems
from .standing import Standing
from .stock import Stock
from .telling import Telling
from .usages import Sampling, Usages

if TYPE_CHECKING:
    from .coordinator import Coordinator


class Hears(Protocol):
    """
    Who is told by the parts: the loop of the worker.
    """

    def attend(self) -> None:
        """
        There is something to do.
        """

    def doubt(self) -> None:
        """
        What we own may be something else than we know.
        """

    def item_stopped(self, item: Item) -> None:
        """
        An item has stopped.
        """

    def look_again(self) -> None:
        """
        Consul may be in an older state than it was.
        """

    def assignments_changed(self, before: Mapping[str, Assigned]) -> None:
        """
        Something else is assigned than before.
        """


@frozen
class Parts:
    """
    What a worker is made of.
    """

    standing: Standing
    ownership: Ownership
    assignments: Assignments
    running: RunningItems
    overdue: Overdue
    extras: Extras
    releasing: Releasing
    stock: Stock
    awaited: Awaited
    claiming: Claiming
    preparing: Preparing
    descriptions: Descriptions
    telling: Telling
    reports: StatusWriter


def put_together(
    coordinator: Coordinator, instance_id: str, runner: IRunner, hears: Hears
) -> Parts:
    """
    Make the parts, each with what it needs and nothing else.
    """
    reactor, api, keys = coordinator.steady, coordinator.api, coordinator.keys
    settings, session, log = coordinator.settings, coordinator.session, coordinator.log
    chance: dict[str, Any] = {"random": coordinator.random, "log": log}
    watching: dict[str, Any] = {"retries": coordinator.retry_timers, **chance}

    def tally(name: str) -> dict[str, Any]:
        return {"tally": coordinator.tally.watch(name), **watching}

    def owners_watch(changed: Callable[[], None]) -> Changes:
        return Changes(
            reactor,
            api,
            keys.owners,
            changed,
            name="owners",
            wait=settings.watch_wait,
            pause=CLAIM_PAUSE,
            **tally("owners"),
        )

    standing = Standing(coordinator, instance_id)
    ownership = Ownership(api, keys, instance_id)
    forgotten = Forgotten(
        reactor.seconds,
        api,
        keys,
        ownership,
        session_ttl=settings.session_ttl,
        owned=lambda: assignments.owned,
        begun=lambda: assignments.keep(),
        log=log,
    )
    assignments = Assignments(
        reactor,
        api,
        settings,
        keys.assignments_of(instance_id),
        instance_id=instance_id,
        forgotten=forgotten,
        changed=hears.assignments_changed,
        rewound=lambda sign: hears.look_again(),
        **tally("assignments"),
    )
    running = RunningItems(
        reactor,
        runner,
        settings,
        rights=standing.rights,
        may_begin=standing.may_begin,
        stopped=hears.item_stopped,
        changed=lambda: reports.wake(),
        attend=hears.attend,
        wall_clock=coordinator.wall_clock,
        **chance,
    )
    load = coordinator.load
    usages = Usages(runner, running.items, log)
    reports = StatusWriter(
        reactor,
        api,
        keys,
        session,
        instance_id=instance_id,
        collect=Collector(running.items, usages, load).collect,
        sampling=(
            Sampling(load, usages, settings.sync_interval)
            if load.measures or does(runner, "usage")
            else None
        ),
        **watching,
    )
    overdue = Overdue(
        reactor,
        standing.rights,
        settings,
        running,
        stuck=coordinator.work_stuck,
        log=log,
    )
    releasing = Releasing(
        coordinator.retry_timers,
        ownership,
        released=hears.attend,
        left_alone=hears.doubt,
        **chance,
    )
    stock = Stock(
        ownership,
        running,
        releasing,
        session,
        coordinator.succession,
        forgotten.look,
        log,
    )
    awaited = Awaited(
        reactor,
        owners_watch,
        linger=settings.watch_wait,
        attend=hears.attend,
        random=coordinator.random,
    )
    return Parts(
        standing=standing,
        ownership=ownership,
        assignments=assignments,
        running=running,
        overdue=overdue,
        extras=Extras(standing, running),
        releasing=releasing,
        stock=stock,
        awaited=awaited,
        claiming=Claiming(
            keys,
            ownership,
            standing,
            assignments,
            running,
            releasing,
            stock,
            awaited,
            log,
        ),
        preparing=Preparing(keys, ownership, assignments, running, releasing),
        descriptions=Descriptions(
            reactor,
            api,
            keys,
            ownership,
            running,
            learned=assignments.learn,
            attend=hears.attend,
            wait=settings.watch_wait,
            **tally("work-values"),
        ),
        telling=Telling(ownership, lost=hears.doubt, log=log),
        reports=reports,
    )
