"""
The Coordinator: one process of a cluster, and all it does to be one.

Here is what an application makes, asks and tells.  What can be seen of a member is
in :mod:`~voltha_coord.facts`; what parts there are and how they hang together in
:mod:`~voltha_coord.wiring`; what follows from what a part tells in
:mod:`~voltha_coord.consequences`; in which order they begin and end in
:mod:`~voltha_coord.lifetime`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any, ClassVar

import structlog
from twisted.internet.defer import Deferred, fail, inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from . import _logging, lifetime
from ._types import Steps
from ._version import __version__
from .consequences import Consequences
from .consul.address import ConnectionSettings, from_environment
from .consul.client import Consul
from .consul.transport import ITransport
from .doubles import Place
from .errors import ConsulError, StaleMembershipEntryException
from .events import Connection, Event, WorkStuck
from .facts import Facts, LeaseView
from .ground import lay_ground
from .interfaces import ILeader, IMeter, IRunner, IWorker
from .keys import CONSTANTS, Keys, check_instance_id, overridden
from .leader import Leader
from .lock import Lock
from .plugins import make_emergency_planner, wants_measures
from .readiness import shut_down_error
from .records import Member
from .session import service_for
from .settings import EXIT, RETRY_STEPS, Settings
from .shutdown import Shutdown, Step
from .status import describe
from .whole import Whole
from .worker import Worker


class Coordinator(Facts):
    """
    One member of a cluster.  An application makes one, and it starts by itself.

    :param internal_host_address: where members reach each other; only kept.
    :param external_host_address: published in the member record.
    :param instance_id: unique in the cluster; see :mod:`~voltha_coord.keys`.
    :param rest_port: published; this class never listens.
    :param consul: the agent: ``host:port``, a URL, or ``unix://path``.
    :param leader_class: called with the Coordinator when a term begins; what
        it gives provides ``ILeader``.
    :param worker_class: called with the instance id, the Coordinator and, if
        given, the runner; what it gives provides ``IWorker``.
    :param runner: what running a work item means; ``IRunner``.
    :param settings: timings and the prefix.
    :param reactor: default: the global one.
    :param connection: how to reach Consul, in place of ``consul``.
    :param transports: carry the requests, in place of ``connection``.
    :param weight: this member's share of the work.
    :param can_lead: whether it takes part in the election.
    :param meter: measures what there is here and what is used of it; default:
        one of the machine if the leader plans by that, else none.
    :param on_stuck: ends this process; called with the ids of work that has not
        stopped in time where ``Settings.stuck_work`` is ``exit``.  Without it
        such work is reported and nothing more.
    :param now: the lease clock in seconds; default: the boot-time clock, or
        the reactor's own for a reactor that does no I/O.
    :param wall_clock: for records meant for people.
    :param random: for jitter and ids, in [0, 1).
    :param registry: the Coordinators of one process, to refuse doubles.

    :raises InvalidIdError: for an instance id that cannot be a key.
    :raises ConfigurationError: for an address that cannot be one.
    :raises DuplicateCoordinatorError: when this process has one already.
    """

    CONNECT_RETRY_INTERVAL_SEC = 1
    RETRY_BACKOFF: ClassVar[list[float]] = list(RETRY_STEPS)
    LEADER_KEY = "service/voltha/leader"
    MEMBERSHIP_PREFIX = "service/voltha/members/"
    ASSIGNMENT_PREFIX = "service/voltha/assignments/"
    WORKLOAD_PREFIX = "service/voltha/work/"

    def __init__(
        self,
        internal_host_address: str,
        external_host_address: str,
        instance_id: str,
        rest_port: int,
        consul: str = "localhost:8500",
        leader_class: Callable[[Coordinator], ILeader] = Leader,
        *,
        worker_class: Callable[..., IWorker] = Worker,
        runner: IRunner | None = None,
        settings: Settings | None = None,
        reactor: IReactorTime | None = None,
        connection: ConnectionSettings | None = None,
        transports: Sequence[ITransport] | None = None,
        weight: float = 1.0,
        can_lead: bool = True,
        meter: IMeter | None = None,
        on_stuck: Callable[[tuple[str, ...]], object] | None = None,
        now: Callable[[], float] | None = None,
        wall_clock: Callable[[], float] | None = None,
        random: Callable[[], float] | None = None,
        registry: MutableMapping[tuple[str, str], Coordinator] | None = None,
    ) -> None:
        if reactor is None:
            from twisted.internet import reactor as the_reactor

            reactor = IReactorTime(the_reactor)
        settings = Settings() if settings is None else settings
        instance_id = check_instance_id(instance_id)
        keys = self._make_keys(settings.prefix)
        self._place: Place[Coordinator] = Place(keys.prefix, instance_id, registry)
        _logging.connect()
        if meter is None and wants_measures(leader_class):
            from .measuring import MachineMeter

            meter = MachineMeter()
        ground = lay_ground(
            reactor,
            from_environment({}, [consul]) if connection is None else connection,
            transports,
            instance_id=instance_id,
            settings=settings,
            keys=keys,
            log=structlog.get_logger("voltha_coord").bind(instance_id=instance_id),
            now=now,
            wall_clock=wall_clock,
            random=random,
            ended=lambda outcome: consequences.request_ended(outcome),
            meter=meter,
        )
        #: The reactor it was given.
        self.reactor = reactor
        self.internal_host_address = internal_host_address
        self.external_host_address = external_host_address
        self.rest_port = rest_port
        self.weight = weight
        self.can_lead = can_lead
        self.version = __version__
        self._on_stuck = on_stuck
        self._started_at = ground.wall_clock()
        self._shutdown = Shutdown(
            ground.steady,
            ground.log,
            budget=settings.drain_timeout,
            at_once=lambda: lifetime.lead_no_more(self._parts),
            steps=self._last_steps,
            ended=self._shut_down,
            answering=lambda: self.connection is Connection.CONNECTED,
            lease_remaining=lambda: self.lease.remaining,
        )
        consequences = Consequences(ground, self._as_whole(leader_class))
        super().__init__(ground, consequences.parts, lambda: self._shutdown.asked)
        self.LEADER_KEY = keys.leader
        self.MEMBERSHIP_PREFIX = keys.members
        self.ASSIGNMENT_PREFIX = keys.assignments
        self.WORKLOAD_PREFIX = keys.work
        self.membership_record_key = keys.member(instance_id)
        #: python-consul2's endpoints over our transport.
        self.consul = Consul(
            ground.requester,
            command_timeout=settings.command_timeout,
            watch_margin=settings.watch_margin,
        )
        runners = () if runner is None else (runner,)
        self.worker: IWorker = worker_class(instance_id, self, *runners)
        self._place.take(self)
        self._parts.listeners.add(consequences.heard)
        if settings.stuck_work == EXIT and on_stuck is None:
            self.log.warning(
                "stuck-work-only-reported",
                effect="this process does not end by itself when work does not stop",
                action="give the Coordinator on_stuck",
            )
        self.log.info("initializing-coordinator", prefix=keys.prefix)
        self._starting = reactor.callLater(0, lifetime.start, ground, self._parts)
        self.log.info("initialized-coordinator", consul=self.consul_address)

    def _make_keys(self, prefix: str) -> Keys:
        """
        Take the keys from the settings, but for constants a subclass defines.
        """
        mine = type(self).__mro__[: type(self).__mro__.index(Coordinator)]
        defined = {name for cls in mine for name in vars(cls)}
        return overridden(
            prefix,
            {name: getattr(self, name) for name in CONSTANTS if name in defined},
        )

    def _as_whole(self, leader_class: Callable[[Coordinator], ILeader]) -> Whole:
        """
        Give what our parts ask of us.
        """
        return Whole(
            worker=lambda: self.worker,
            can_lead=lambda: self.can_lead,
            is_leader=lambda: self.is_leader,
            is_ready=lambda: self.is_ready,
            leaving=lambda: self.shutting_down,
            record=self._member,
            service=lambda unique: service_for(
                self.instance_id,
                unique,
                self.settings,
                self.external_host_address,
                self.rest_port,
            ),
            make_leader=lambda: leader_class(self),
            make_emergency_planner=lambda: make_emergency_planner(leader_class),
        )

    def _member(self) -> Member:
        return Member(
            id=self.instance_id,
            host_address=self.external_host_address,
            rest_port=self.rest_port or None,
            weight=self.weight,
            resources=self.load.capacity,
            can_lead=self.can_lead,
            leaving=self.shutting_down,
            check=self.session.check_id or None,
            node=self.session.node or None,
            version=__version__,
            started_at=self._started_at,
        )

    # What an application asks, and tells.

    def wait_for_a_leader(self) -> Deferred[str]:
        """
        Wait until a leader is known.

        :return: a Deferred that fires with its instance id, at once if there
            is one; it fails with :class:`ShutDownError` at shutdown.
        """
        return self._parts.readiness.wait_for_a_leader()

    def when_ready(self) -> Deferred[None]:
        """
        Wait until this is a member and a leader is known.

        :return: a Deferred that fires with ``None``; it fails with
            :class:`ShutDownError` at shutdown.
        """
        return self._parts.readiness.when_ready()

    @inlineCallbacks
    def get_members(self) -> Steps[tuple[Member, ...]]:
        """
        Read the live members.

        :return: a Deferred that fires with their records, by id, or fails with
            :class:`ConsulError`.
        """
        members: tuple[Member, ...] = yield self.view.refresh()
        return members

    def listen(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """
        Tell a callback of every :data:`~voltha_coord.events.Event`.

        The members are followed from the first call on.

        :return: a function that ends it.
        """
        if not self.shutting_down:
            self.view.follow()
        return self._parts.listeners.add(callback)

    def give_up_leadership(self, reason: str) -> None:
        """
        Lead no more, offer leadership to others, and be no candidate for
        ``Settings.candidate_pause`` seconds.  Nothing happens if we do not lead.

        :param reason: for the log, in kebab-case.
        """
        if self.election.term is not None:
            self.election.give_up(reason)

    def transfer_leadership(self, to: str | None = None) -> Deferred[None]:
        """
        Hand leadership over to another member, without a moment in between in
        which nobody leads for long or two do; see Note [Handing over].

        :param to: its instance id; without one, the next member that can lead.
            Ours is no error: nothing is to be done.
        :return: a Deferred that fires once this member leads no more.  It fails
            with :class:`TransferRefused` when that cannot be, and this member
            leads on; so it does when :class:`ConsulError` says that the members
            could not be read.  It fails with :class:`NotLeading` when another
            member leads, or none, and with :class:`ShutDownError` at shutdown.
            Cancelling it calls the hand-over off, unless it has been sent.
        """
        if self.shutting_down:
            return fail(shut_down_error())
        return self.hand_over.transfer(to)

    def lock(self, name: str, valid_for: float | None = None) -> Lock:
        """
        Give a named lock of the cluster; see Note [Locks] of
        :mod:`~voltha_coord.locks`.  Nothing is asked of Consul before it is to be
        acquired.

        :param valid_for: its term in seconds, which outlives this member; ``None``
            binds it to the session.
        :raises InvalidIdError: for a name that cannot be a key.
        :raises ConfigurationError: for a term that cannot be one.
        """
        return self._parts.locks.lock(name, valid_for)

    def set_weight(self, weight: float) -> None:
        """
        Take another share of the work from now on.
        """
        self.weight = weight
        self._parts.membership.wake()

    def reload_token(self) -> bool:
        """
        Read the token file again; tell whether it holds another token.
        """
        return self._ground.requester.token.refresh()

    # Consul, with retries (the original's three).

    def kv_get(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.get``, tried again until Consul answers or we shut down.

        :return: a Deferred that fires with python-consul2's result, or fails
            with :class:`ConsulError` where a retry cannot help, and with
            :class:`ShutDownError` at shutdown.
        """
        return self._parts.retrying.call(self.consul.kv.get, *args, **kw)

    def kv_put(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.put``; otherwise as :meth:`kv_get`.
        """
        return self._parts.retrying.call(self.consul.kv.put, *args, **kw)

    def kv_delete(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.delete``; otherwise as :meth:`kv_get`.
        """
        return self._parts.retrying.call(self.consul.kv.delete, *args, **kw)

    def work_stuck(self, items: tuple[str, ...]) -> None:
        """
        Work has not stopped although the lease is over: tell those who listen,
        and end the process where that is wanted.

        :param items: its ids.
        """
        self._parts.listeners.tell(WorkStuck(items))
        if self.settings.stuck_work != EXIT or self._on_stuck is None:
            return
        try:
            self._on_stuck(items)
        except Exception as error:
            # The worker that tells us goes on pressing what is stuck.
            self.log.critical("process-not-ended", error=str(error), exc_info=True)

    # What a status page shows.

    def status(self) -> dict[str, Any]:
        """
        Give the state of this member, of what is known now.
        """
        return describe(self)

    @inlineCallbacks
    def refresh_status(self) -> Steps[dict[str, Any]]:
        """
        Read the members and how much they have, and give :meth:`status`.

        :return: a Deferred that fires with it; when Consul does not answer,
            with the members as last read, and their age.
        """
        try:
            yield self.view.refresh()
            yield self.view.refresh_items()
        except ConsulError as error:
            self.log.debug("status-not-refreshed", error=str(error))
        return self.status()

    # Shutting down.

    def shutdown(self) -> Deferred[None]:
        """
        Give everything back and end; see Note [Shutting down].

        :return: a Deferred that fires when all is given back, as far as Consul
            answers, within ``Settings.drain_timeout`` and the bounds of the
            steps; never fails.
        """
        return self._shutdown.ask()

    def _last_steps(self) -> Iterable[Step]:
        """
        Give the steps of shutting down; see Note [Shutting down].
        """
        return lifetime.last_steps(
            self._ground,
            self._parts,
            stop_starting=self._stop_starting,
            drain_seconds=lambda: self._shutdown.drain_seconds,
        )

    def _stop_starting(self) -> None:
        if self._starting.active():
            self._starting.cancel()
        self._parts.readiness.stop()

    def _shut_down(self) -> None:
        self._place.give_back()
        lifetime.end(self._ground, self._parts)


__all__ = ["Coordinator", "LeaseView", "StaleMembershipEntryException"]
