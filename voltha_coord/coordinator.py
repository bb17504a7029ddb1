"""
The Coordinator: one process of a cluster, and all it does to be one.

It wires the parts together, starts them, says what happens, and shuts them
down in order.  What each part does is told in its own module: the session and
the lease in :mod:`~voltha_coord.session`, the member record in
:mod:`~voltha_coord.membership`, the election in :mod:`~voltha_coord.election`,
the end in :mod:`~voltha_coord.shutdown`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from random import Random
from typing import Any, ClassVar

import structlog
from attrs import frozen
from twisted.internet.defer import (
    Deferred,
    fail,
    inlineCallbacks,
    succeed,
)
from twisted.internet.interfaces import IReactorCore, IReactorTime

from . import _logging
from ._loops import Tasks
from ._types import Steps
from ._version import __version__
from .advice import compare_timing
from .clock import SteadyReactor, boot_time
from .consul.address import ConnectionSettings, from_environment
from .consul.api import ConsulApi
from .consul.client import Consul
from .consul.connect import connect
from .consul.requester import Outcome
from .consul.retries import RetryTimers
from .consul.transport import ITransport
from .election import Election
from .emergency import Emergency
from .errors import (
    ConsulError,
    DuplicateCoordinatorError,
    ShutDownError,
    StaleMembershipEntryException,
)
from .events import (
    Connection,
    ConnectionChanged,
    Event,
    LeaderChanged,
    Listeners,
    RoleChanged,
    WorkStuck,
)
from .handover import HandOver
from .interfaces import ILeader, IRunner, IWorker
from .keys import CONSTANTS, Keys, check_instance_id, overridden
from .last_known import LastKnown
from .leader import Leader
from .leading import Leading
from .leaving import Leaving
from .link import Link
from .membership import MemberKeeper
from .passing import Passing
from .plugins import make_emergency_planner
from .records import Member
from .retrying import Retrying
from .rewinding import Rewinding
from .role import LEADER, RoleCore, RoleMachine
from .session import SessionKeeper, service_for
from .settings import EXIT, RETRY_STEPS, TAKEOVER, Settings
from .shutdown import Kind, Shutdown, Step
from .status import describe
from .succession import Succession
from .tally import Tally
from .term import Term
from .view import MembersView
from .waiters import Waiters
from .worker import Worker

#: The Coordinators of this process, by prefix and instance id.
_in_this_process: dict[tuple[str, str], Coordinator] = {}


@frozen
class LeaseView:
    """
    The lease as the application sees it, at the moment it is looked at.

    :ivar token: the fencing token of the term; ``None`` when not leading.
        Hand it to whatever can refuse writes with a lower one.
    :ivar remaining: seconds left; 0 when there is no lease.
    :ivar session_id: the session it rests on; ``None`` without one.
    """

    token: int | None
    remaining: float
    session_id: str | None


class Coordinator:
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
        on_stuck: Callable[[tuple[str, ...]], object] | None = None,
        now: Callable[[], float] | None = None,
        wall_clock: Callable[[], float] | None = None,
        random: Callable[[], float] | None = None,
        registry: MutableMapping[tuple[str, str], Coordinator] | None = None,
    ) -> None:
        if reactor is None:
            from twisted.internet import reactor as the_reactor

            reactor = IReactorTime(the_reactor)
        real = IReactorCore.providedBy(reactor)
        self.settings = Settings() if settings is None else settings
        self.instance_id = check_instance_id(instance_id)
        self.internal_host_address = internal_host_address
        self.external_host_address = external_host_address
        self.rest_port = rest_port
        self.weight = weight
        self.can_lead = can_lead
        self._on_stuck = on_stuck
        self.keys = self._make_keys()
        self.LEADER_KEY = self.keys.leader
        self.MEMBERSHIP_PREFIX = self.keys.members
        self.ASSIGNMENT_PREFIX = self.keys.assignments
        self.WORKLOAD_PREFIX = self.keys.work
        self.membership_record_key = self.keys.member(self.instance_id)
        self._registry = _in_this_process if registry is None else registry
        self._registered = (self.keys.prefix, self.instance_id)
        if self._registered in self._registry:
            raise DuplicateCoordinatorError(
                f"this process already runs {self.instance_id!r} under "
                f"{self.keys.prefix!r}: shut that Coordinator down first"
            )
        _logging.connect()
        self.log = structlog.get_logger("voltha_coord").bind(
            instance_id=self.instance_id
        )
        if now is None:
            now = boot_time if real else reactor.seconds
        self.steady = SteadyReactor(reactor, now, self._clock_stepped)
        if wall_clock is None:
            wall_clock = time.time if real else reactor.seconds
        self.wall_clock = wall_clock
        self.random = Random().random if random is None else random
        self._made_at = self.steady.seconds()
        #: What this member has counted so far.
        self.tally = Tally()
        if connection is None:
            connection = from_environment({}, [consul])
        self._requester = connect(
            reactor,
            connection,
            transports,
            connect_timeout=self.settings.connect_timeout,
            on_outcome=self._request_ended,
            clock=self.steady,
            now=self.steady.seconds,
        )
        self.api = ConsulApi(
            self._requester,
            command_timeout=self.settings.command_timeout,
            session_timeout=self.settings.renew_timeout,
            watch_margin=self.settings.watch_margin,
        )
        #: python-consul2's endpoints over our transport.
        self.consul = Consul(
            self._requester,
            command_timeout=self.settings.command_timeout,
            watch_margin=self.settings.watch_margin,
        )
        self.version = __version__
        self._leader_class = leader_class
        self._worker_started = False
        self._last_leader: str | None = None
        self._started_at = self.wall_clock()
        self._tasks = Tasks(self.log)
        #: Waits out back-offs, which end early once Consul answers again.
        self.retry_timers = RetryTimers(self.steady, self.random)
        self._retrying = Retrying(self.retry_timers, self.random, self.log)
        self._listeners = Listeners(self.log)
        self.link = Link(
            self.steady.seconds,
            self._leased,
            self._listeners.tell,
            self.log,
            answers_again=self._consul_answers_again,
        )
        self._leader_waiters: Waiters[str] = Waiters()
        self._ready_waiters: Waiters[None] = Waiters()
        self._rest_waiters: Waiters[None] = Waiters()
        self._wire()
        self.worker: IWorker = self._make_worker(worker_class, runner)
        self._registry[self._registered] = self
        self._listeners.add(self._heard)
        if self.settings.stuck_work == EXIT and on_stuck is None:
            self.log.warning(
                "stuck-work-only-reported",
                effect="this process does not end by itself when work does not stop",
                action="give the Coordinator on_stuck",
            )
        self.log.info("initializing-coordinator", prefix=self.keys.prefix)
        self._starting = reactor.callLater(0, self._start)
        self.log.info("initialized-coordinator", consul=self._requester.address)

    def _make_keys(self) -> Keys:
        """
        Take the keys from the settings, but for constants a subclass defines.
        """
        mine = type(self).__mro__[: type(self).__mro__.index(Coordinator)]
        defined = {name for cls in mine for name in vars(cls)}
        return overridden(
            self.settings.prefix,
            {name: getattr(self, name) for name in CONSTANTS if name in defined},
        )

    def _wire(self) -> None:
        """
        Make the parts, each with what it needs and nothing else.
        """
        shared: dict[str, Any] = {"random": self.random, "log": self.log}
        waiting: dict[str, Any] = {"retries": self.retry_timers, **shared}
        self._rewinding = Rewinding(self.steady.seconds, self._look_again, self.log)
        self.session = SessionKeeper(
            self.steady,
            self.api,
            self.settings,
            service=lambda unique: service_for(
                self.instance_id,
                unique,
                self.settings,
                self.external_host_address,
                self.rest_port,
            ),
            session_name=f"voltha-coord {self.instance_id}",
            held_keys=(self.keys.leader, self.membership_record_key),
            changed=self._lease_changed,
            **waiting,
        )
        self.succession = Succession(
            self.steady.seconds, self.api, self.settings.session_ttl
        )
        self._membership = MemberKeeper(
            self.steady,
            self.api,
            self.settings,
            self.session,
            key=self.membership_record_key,
            value=self._member_record,
            changed=self._membership_changed,
            rewound=self._rewinding.noticed,
            tally=self.tally.watch("member"),
            **waiting,
        )
        self._election = Election(
            self.steady,
            self.api,
            self.keys,
            self.settings,
            self.session,
            self.succession,
            instance_id=self.instance_id,
            standing=self._may_lead,
            settled=lambda: not self._role_core.halting,
            elected=lambda term: self._role.elected(term),
            deposed=self._deposed,
            leader_changed=self._leader_known,
            rewound=self._rewinding.noticed,
            tally=self.tally.watch("leader"),
            **waiting,
        )
        self._leaving = Leaving(
            self.steady,
            self.api,
            self.keys,
            self.session,
            self._membership,
            instance_id=self.instance_id,
            record=self._member_record,
            worker=lambda: self.worker,
            log=self.log,
        )
        self._shutdown = Shutdown(
            self.steady,
            self.log,
            budget=self.settings.drain_timeout,
            at_once=self._lead_no_more,
            steps=self._last_steps,
            ended=self._shut_down,
            answering=lambda: self.connection is Connection.CONNECTED,
            lease_remaining=lambda: self.lease.remaining,
        )
        self.hand_over = HandOver(
            self.steady,
            self.api,
            self.keys,
            Passing(
                self.steady,
                self.api,
                self.keys,
                self._election,
                instance_id=self.instance_id,
                **shared,
            ),
            self.log,
        )
        self.view = MembersView(
            self.steady,
            self.api,
            self.keys,
            self.settings,
            tell=self._listeners.tell,
            random=self.random,
            tally=self.tally.watch("members-view"),
            retries=self.retry_timers,
        )
        self._leading = Leading(
            self.steady,
            lambda: self._leader_class(self),
            lambda reason: self._election.give_up(reason),
            self.log,
        )
        self._role_core = RoleCore(
            make_leader=self._leading.begin,
            entered=self._role_entered,
            settled=self._leader_at_rest,
            can_lead=self.can_lead,
            log=self.log,
        )
        self._role_name = self._role_core.name
        self._role = RoleMachine(self._role_core)
        self._last_known = LastKnown(
            self.steady,
            self.api,
            self.keys,
            self.settings,
            instance_id=self.instance_id,
            lease=lambda: self.session.lease,
            **shared,
        )
        self.emergency = Emergency(
            self.steady,
            self.settings,
            lease=lambda: self.session.lease,
            connected=lambda: self.connection is Connection.CONNECTED,
            here=lambda: self.worker.my_workload,
            plan=lambda: self._last_known.takeover(
                self._member(),
                make_emergency_planner(self._leader_class),
                self.worker.my_workload,
            ),
            changed=self._emergency_changed,
            log=self.log,
        )

    def _make_worker(
        self, worker_class: Callable[..., IWorker], runner: IRunner | None
    ) -> IWorker:
        if runner is None:
            return worker_class(self.instance_id, self)
        return worker_class(self.instance_id, self, runner)

    # What an application asks.

    @property
    def uptime(self) -> float:
        """
        Seconds since this Coordinator was made.
        """
        return self.steady.seconds() - self._made_at

    @property
    def session_id(self) -> str | None:
        """
        The id of the Consul session, ``None`` while there is none.
        """
        return self.session.session_id

    @property
    def term(self) -> Term | None:
        """
        The term this member leads, ``None`` when it does not.
        """
        return self._election.term

    @property
    def election(self) -> Election:
        """
        The election, for what it has counted.
        """
        return self._election

    @property
    def is_leader(self) -> bool:
        """
        Whether this member leads at this very instant.

        False from the deadline of the lease on, whatever Consul would say, and
        for ever within that term.
        """
        term = self._election.term
        return term is not None and term.active

    @property
    def i_am_leader(self) -> bool:
        """
        The same as :attr:`is_leader`, by the original's name.
        """
        return self.is_leader

    @property
    def leader(self) -> ILeader | None:
        """
        What leads while this member does, ``None`` while it does not.
        """
        return self._leading.leader

    @property
    def leader_id(self) -> str | None:
        """
        The instance id of who holds the leader key, ``None`` for nobody.
        """
        return self._election.leader_id

    @property
    def lease(self) -> LeaseView:
        """
        The lease as it is now, and the fencing token if there is one.
        """
        lease, term = self.session.lease, self._election.term
        return LeaseView(
            term.token if term is not None and term.active else None,
            lease.remaining if lease is not None else 0.0,
            self.session_id,
        )

    @property
    def role(self) -> str:
        """
        What this member is: candidate, follower, leader, emergency, draining or
        stopped.  A member that may not lead is never a candidate.
        """
        if self._role_core.name == LEADER and not self.is_leader:
            # The lease has just run out; nothing has had time to react yet.
            return self._role_core.unled
        return self._role_core.name

    @property
    def connection(self) -> Connection:
        """
        How it stands with Consul.
        """
        return self.link.connection

    @property
    def retries(self) -> int:
        """
        How many requests in a row went unanswered.
        """
        return self.link.unanswered

    @property
    def consul_address(self) -> str:
        """
        The agent that requests go to at the moment.
        """
        return self._requester.address

    @property
    def member_key_held_by(self) -> str | None:
        """
        The session that holds our member key in our place, ``None`` if none.
        """
        return self._membership.hindered_by

    @property
    def waiting_for_lease_of(self) -> str:
        """
        The session whose lease must be over before our term may begin.
        """
        return self._election.waiting_for

    @property
    def lock_delayed(self) -> bool:
        """
        Whether a lock-delay keeps us from the leader key.
        """
        return self._election.lock_delayed

    @property
    def is_member(self) -> bool:
        """
        Whether our session holds our member key.
        """
        return self._membership.joined

    @property
    def is_ready(self) -> bool:
        """
        Whether this is a member, a leader is known, and it is not on its way
        out.
        """
        if self.shutting_down or not self.is_member:
            return False
        return self.leader_id is not None and self._leased()

    @property
    def work_deadline(self) -> float | None:
        """
        When work must have stopped unless more is acknowledged, on the lease
        clock; ``None`` before the first lease.  May be asked in any thread.
        """
        lease = self.session.lease
        return None if lease is None else lease.deadline

    @property
    def unstopped_work(self) -> Collection[str]:
        """
        The ids of the items that may be running here.  May be asked in any
        thread, but then raises ``RuntimeError`` when they change meanwhile.
        """
        unstopped: Collection[str] | None = getattr(self.worker, "unstopped", None)
        return self.worker.my_workload if unstopped is None else unstopped

    def wait_for_a_leader(self) -> Deferred[str]:
        """
        Wait until a leader is known.

        :return: a Deferred that fires with its instance id, at once if there
            is one; it fails with :class:`ShutDownError` at shutdown.
        """
        return self._wait(self._leader_waiters)

    def when_ready(self) -> Deferred[None]:
        """
        Wait until this is a member and a leader is known.

        :return: a Deferred that fires with ``None``; it fails with
            :class:`ShutDownError` at shutdown.
        """
        return self._wait(self._ready_waiters)

    def _wait(self, waiters: Waiters[Any]) -> Deferred[Any]:
        if self.shutting_down:
            return fail(ShutDownError("the Coordinator is shutting down"))
        waiting = waiters.wait()
        self._tell_waiters()
        return waiting

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
        return self._listeners.add(callback)

    def give_up_leadership(self, reason: str) -> None:
        """
        Lead no more, offer leadership to others, and be no candidate for
        ``Settings.candidate_pause`` seconds.  Nothing happens if we do not lead.

        :param reason: for the log, in kebab-case.
        """
        if self._election.term is not None:
            self._election.give_up(reason)

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
            return fail(ShutDownError("the Coordinator is shutting down"))
        return self.hand_over.transfer(to)

    def set_weight(self, weight: float) -> None:
        """
        Take another share of the work from now on.
        """
        self.weight = weight
        self._membership.wake()

    def reload_token(self) -> bool:
        """
        Read the token file again; tell whether it holds another token.
        """
        return self._requester.token.refresh()

    # Consul, with retries (the original's three).

    def kv_get(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.get``, tried again until Consul answers or we shut down.

        :return: a Deferred that fires with python-consul2's result, or fails
            with :class:`ConsulError` where a retry cannot help, and with
            :class:`ShutDownError` at shutdown.
        """
        return self._retrying.call(self.consul.kv.get, *args, **kw)

    def kv_put(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.put``; otherwise as :meth:`kv_get`.
        """
        return self._retrying.call(self.consul.kv.put, *args, **kw)

    def kv_delete(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.delete``; otherwise as :meth:`kv_get`.
        """
        return self._retrying.call(self.consul.kv.delete, *args, **kw)

    # Starting.

    def _start(self) -> None:
        self.steady.watch()
        self.session.start()
        self._membership.start()
        self._election.start()
        if self.settings.isolation == TAKEOVER:
            self._last_known.start()

    def _member_record(self) -> bytes:
        return self._member().encode()

    def _member(self) -> Member:
        return Member(
            id=self.instance_id,
            host_address=self.external_host_address,
            rest_port=self.rest_port or None,
            weight=self.weight,
            can_lead=self.can_lead,
            leaving=self.shutting_down,
            check=self.session.check_id or None,
            node=self.session.node or None,
            version=__version__,
            started_at=self._started_at,
        )

    # What the parts tell.

    def _clock_stepped(self, seconds: float) -> None:
        self.log.warning(
            "wall-clock-stepped",
            seconds=round(seconds, 3),
            effect="none: timers run on the lease clock and were set anew",
        )

    def _request_ended(self, outcome: Outcome) -> None:
        """
        Whatever came of a request: this process is awake, and knows more.
        """
        self.steady.resync()
        self.tally.requests.ended(outcome)
        self.link.ended(outcome)

    def _consul_answers_again(self) -> None:
        self._requester.give_up_lost()
        self.retry_timers.hasten()

    def _look_again(self) -> None:
        """
        Read everything anew: Consul may be in an older state than it was.
        """
        self._membership.look_again()
        self._election.look_again()
        look_again = getattr(self.worker, "look_again", None)
        if self._worker_started and look_again is not None:
            look_again()

    def _leased(self) -> bool:
        lease = self.session.lease
        return lease is not None and lease.active

    def _lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended.
        """
        self._election.wake()
        self._membership.wake()
        self.emergency.lease_changed()
        self._tell_worker()
        self.link.lease_changed()
        self._tell_waiters()

    def _tell_worker(self) -> None:
        lease_changed = getattr(self.worker, "lease_changed", None)
        if self._worker_started and lease_changed is not None:
            lease_changed()

    def _membership_changed(self) -> None:
        if not self._worker_started and self.is_member and not self.shutting_down:
            self._worker_started = True
            self._tasks.spawn("worker-start", self.worker.start)
            self._tasks.spawn(
                "compare-timing",
                compare_timing,
                self.api,
                self.settings,
                self.session.session_ttl,
                self.log,
            )
        self._tell_worker()
        self._election.wake()
        self._tell_waiters()

    def _may_lead(self) -> bool:
        return self.can_lead and self.is_member and not self.shutting_down

    def _leader_known(self, leader_id: str | None) -> None:
        """
        Somebody else holds the leader key, or nobody.
        """
        self._tell_role()
        previous, self._last_leader = self._last_leader, leader_id
        self.log.info("leader-changed", leader_id=leader_id, previous=previous)
        self._listeners.tell(LeaderChanged(leader_id, previous))
        self._tell_waiters()

    def _tell_role(self) -> None:
        if self.leader_id is None or self.leader_id == self.instance_id:
            self._role.leaderless()
        else:
            self._role.leader_known()

    def _tell_waiters(self) -> None:
        if self.leader_id is not None:
            self._leader_waiters.fire(self.leader_id)
        if self.is_ready:
            self._ready_waiters.fire(None)

    def _role_entered(self, name: str) -> None:
        previous, self._role_name = self._role_name, name
        self._listeners.tell(RoleChanged(name, previous))

    def _deposed(self, reason: str) -> None:
        if self.shutting_down:
            self._role.drain()
        else:
            self._role.deposed()
        self.hand_over.deposed(reason)

    def _leader_at_rest(self) -> None:
        # What was seen of the leader key meanwhile came too early for the role.
        self._tell_role()
        self._election.wake()
        self._rest_waiters.fire(None)

    def _when_at_rest(self) -> Deferred[None]:
        if not self._role_core.halting:
            return succeed(None)
        return self._rest_waiters.wait()

    def _heard(self, event: Event) -> None:
        if isinstance(event, ConnectionChanged):
            self.emergency.connection_changed()

    def _emergency_changed(self) -> None:
        """
        An emergency came, or what goes on in it changed, or it is over.
        """
        if self.emergency.active:
            self._role.alarm()
        elif not self.shutting_down:
            self._role.all_clear()
            self._tell_role()
        emergency_changed = getattr(self.worker, "emergency_changed", None)
        if self._worker_started and emergency_changed is not None:
            emergency_changed()

    def work_stuck(self, items: tuple[str, ...]) -> None:
        """
        Work has not stopped although the lease is over: tell those who listen,
        and end the process where that is wanted.

        :param items: its ids.
        """
        self._listeners.tell(WorkStuck(items))
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

    @property
    def shutting_down(self) -> bool:
        """
        Whether this member is on its way out, or gone.
        """
        return self._shutdown.asked

    def shutdown(self) -> Deferred[None]:
        """
        Give everything back and end; see Note [Shutting down].

        :return: a Deferred that fires when all is given back, as far as Consul
            answers, within ``Settings.drain_timeout`` and the bounds of the
            steps; never fails.
        """
        return self._shutdown.ask()

    def _lead_no_more(self) -> None:
        self._election.retire()
        self.emergency.stop()
        self._role.drain()

    def _last_steps(self) -> Iterable[Step]:
        """
        Give the steps of shutting down; see Note [Shutting down].
        """
        ours, consul, work = Kind.LOCAL, Kind.CONSUL, Kind.WORK
        election, leaving, worker = self._election, self._leaving, self.worker
        return (
            Step(ours, "stop-starting", self._stop_starting),
            Step(ours, "halt-leader", self._when_at_rest),
            Step(ours, "stop-hand-over", self.hand_over.stop),
            Step(ours, "stop-election", election.stop),
            Step(ours, "stop-leading", self._leading.stop),
            Step(ours, "stop-tasks", self._tasks.stop),
            Step(ours, "stop-retries", self._retrying.stop),
            Step(ours, "stop-view", self.view.stop),
            Step(ours, "stop-last-known", self._last_known.stop),
            Step(consul, "release-leadership", election.resign, lambda: election.owes),
            Step(consul, "say-leaving", leaving.say, lambda: self._has_work),
            Step(work, "drain", self._drain, lambda: leaving.can_drain),
            Step(work, "stop-work", worker.halt, lambda: self._worker_started),
            Step(ours, "stop-membership", self._membership.stop),
            Step(consul, "leave", leaving.leave, lambda: self.session_id),
            Step(ours, "stop-session", self.session.stop),
            Step(consul, "destroy-session", self.session.destroy),
            Step(ours, "close-connections", self._requester.close),
        )

    @property
    def _has_work(self) -> bool:
        return self._worker_started and self.is_member and bool(self.worker.my_workload)

    def _stop_starting(self) -> None:
        if self._starting.active():
            self._starting.cancel()
        for waiters in (self._leader_waiters, self._ready_waiters):
            waiters.fail(lambda: ShutDownError("the Coordinator is shutting down"))

    def _drain(self) -> Deferred[None]:
        return self._leaving.drain(self._shutdown.drain_seconds)

    def _shut_down(self) -> None:
        self._registry.pop(self._registered, None)
        self.steady.unwatch()
        self._role.stop()


__all__ = ["Coordinator", "LeaseView", "StaleMembershipEntryException"]
