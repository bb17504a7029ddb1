"""
The Coordinator: one process of a cluster, and all it does to be one.

It wires the parts together, starts them, says what happens, and shuts them
down in order.  What each part does is told in its own module: the session and
the lease in :mod:`~voltha_coord.session`, the member record in
:mod:`~voltha_coord.membership`, the election in :mod:`~voltha_coord.election`.

# Note [Shutting down]

The order is what makes it safe, and quick for the others: stop leading and
give the leader key back, so that somebody else can move our work; stop our
work, and release it; give the member key back; destroy the session; deregister
the service.  A key that is given back leaves no lock-delay.  Every step has a
bound of its own and survives a failing one before it; once Consul has left a
step unanswered, the next ones are tried only briefly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from random import Random
from typing import Any, ClassVar

import structlog
from twisted.internet.defer import Deferred, fail, inlineCallbacks, maybeDeferred
from twisted.internet.interfaces import IReactorCore, IReactorTime

from ._loops import Tasks, bounded, sleep
from ._types import Steps
from ._version import __version__
from .clock import SteadyReactor, boot_time
from .consul.address import ConnectionSettings, from_environment
from .consul.api import ConsulApi
from .consul.backoff import Backoff
from .consul.client import Consul
from .consul.connect import connect
from .consul.requester import Requester
from .consul.token import TokenSource
from .consul.transport import ITransport
from .election import Election
from .errors import (
    ConsulError,
    CoordinationError,
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
)
from .held import release
from .interfaces import ILeader, IRunner, IWorker
from .keys import Keys, check_instance_id
from .leader import Leader
from .membership import MemberKeeper
from .records import Member
from .role import FOLLOWER, LEADER, RoleCore, RoleMachine
from .session import SessionKeeper, service_for
from .settings import RETRY_STEPS, Settings
from .succession import Succession
from .term import Term
from .view import MembersView
from .worker import Worker

#: A step of shutting down that asks Consul is given so many seconds …
CONSUL_STEP_SECONDS = 2.0

#: … and so many once Consul has left one unanswered.
BRIEF_STEP_SECONDS = 0.5

#: The Coordinators of this process, by prefix and instance id.
_in_this_process: dict[tuple[str, str], Coordinator] = {}


class LeaseView:
    """
    The lease as the application sees it, at the moment it is looked at.

    :ivar token: the fencing token of the term; ``None`` when not leading.
        Hand it to whatever can refuse writes with a lower one.
    :ivar remaining: seconds left; 0 when there is no lease.
    :ivar session_id: the session it rests on; ``None`` without one.
    """

    def __init__(
        self, token: int | None, remaining: float, session_id: str | None
    ) -> None:
        self.token = token
        self.remaining = remaining
        self.session_id = session_id

    def __repr__(self) -> str:
        return (
            f"<lease token={self.token} remaining={self.remaining:.3f} "
            f"session={self.session_id}>"
        )


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
        if connection is None:
            connection = from_environment({}, [consul])
        if transports is None:
            self._requester = connect(
                reactor,
                connection,
                connect_timeout=self.settings.connect_timeout,
                on_outcome=self._request_ended,
                clock=self.steady,
                now=self.steady.seconds,
            )
        else:
            self._requester = Requester(
                transports,
                token=TokenSource(connection.token, connection.token_file),
                datacenter=connection.datacenter,
                namespace=connection.namespace,
                on_outcome=self._request_ended,
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
        self.retries = 0
        self.shutting_down = False
        self.leader: ILeader | None = None
        self._leader_class = leader_class
        self._connection = Connection.SUSPENDED
        self._answered_at: float | None = None
        self._leaving = False
        self._worker_started = False
        self._started_at = self.wall_clock()
        self._tasks = Tasks(self.log)
        self._retrying = Tasks(self.log)
        self._listeners = Listeners(self.log)
        self._leader_waiters: list[Deferred[str]] = []
        self._ready_waiters: list[Deferred[None]] = []
        self._stop_waiters: list[Deferred[None]] = []
        self._stopped = False
        self._wire()
        self.worker: IWorker = self._make_worker(worker_class, runner)
        self._registry[self._registered] = self
        self.log.info("initializing-coordinator", prefix=self.keys.prefix)
        self._starting = reactor.callLater(0, self._start)
        self.log.info("initialized-coordinator", consul=self._requester.address)

    def _make_keys(self) -> Keys:
        """
        Take the keys from the settings, but for constants a subclass set.
        """
        own = {
            "leader": self.LEADER_KEY,
            "members": self.MEMBERSHIP_PREFIX,
            "assignments": self.ASSIGNMENT_PREFIX,
            "work": self.WORKLOAD_PREFIX,
        }
        inherited = {
            "leader": Coordinator.LEADER_KEY,
            "members": Coordinator.MEMBERSHIP_PREFIX,
            "assignments": Coordinator.ASSIGNMENT_PREFIX,
            "work": Coordinator.WORKLOAD_PREFIX,
        }
        overridden = {name: key for name, key in own.items() if key != inherited[name]}
        return Keys(self.settings.prefix, **overridden)

    def _wire(self) -> None:
        """
        Make the parts, each with what it needs and nothing else.
        """
        shared: dict[str, Any] = {"random": self.random, "log": self.log}
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
            **shared,
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
            **shared,
        )
        self._election = Election(
            self.steady,
            self.api,
            self.keys,
            self.settings,
            self.session,
            self.succession,
            instance_id=self.instance_id,
            standing=lambda: self.can_lead and self.is_member and not self._leaving,
            settled=lambda: not self._role_core.halting,
            elected=lambda term: self._role.elected(term),
            deposed=lambda reason: self._role.deposed(),
            leader_changed=self._leader_known,
            **shared,
        )
        self._view = MembersView(
            self.steady,
            self.api,
            self.keys,
            self.settings,
            tell=self._listeners.tell,
            random=self.random,
        )
        self._role_core = RoleCore(
            make_leader=self._begin_term,
            entered=self._role_entered,
            settled=self._election.wake,
            log=self.log,
        )
        self._role_name = self._role_core.name
        self._role = RoleMachine(self._role_core)

    def _make_worker(
        self, worker_class: Callable[..., IWorker], runner: IRunner | None
    ) -> IWorker:
        if runner is None:
            return worker_class(self.instance_id, self)
        return worker_class(self.instance_id, self, runner)

    # What an application asks.

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
        What this member is: candidate, follower, leader, draining or stopped.
        """
        if self._role_core.name == LEADER and not self.is_leader:
            # The lease has just run out; nothing has had time to react yet.
            return (
                FOLLOWER
                if self.leader_id not in (None, self.instance_id)
                else ("candidate")
            )
        return self._role_core.name

    @property
    def connection(self) -> Connection:
        """
        How it stands with Consul.
        """
        return self._connection

    @property
    def is_member(self) -> bool:
        """
        Whether our session holds our member key.
        """
        return self._membership.joined

    @property
    def is_ready(self) -> bool:
        """
        Whether this is a member, and a leader is known.
        """
        lease = self.session.lease
        return (
            self.is_member
            and self.leader_id is not None
            and lease is not None
            and lease.active
        )

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

    def _wait(self, waiters: list[Deferred[Any]]) -> Deferred[Any]:
        if self.shutting_down:
            return fail(ShutDownError("the Coordinator is shutting down"))
        waiting: Deferred[Any] = Deferred(waiters.remove)
        waiters.append(waiting)
        self._tell_waiters()
        return waiting

    @inlineCallbacks
    def get_members(self) -> Steps[tuple[Member, ...]]:
        """
        Read the live members.

        :return: a Deferred that fires with their records, by id, or fails with
            :class:`ConsulError`.
        """
        members: tuple[Member, ...] = yield self._view.refresh()
        return members

    def listen(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """
        Tell a callback of every :data:`~voltha_coord.events.Event`.

        The members are followed from the first call on.

        :return: a function that ends it.
        """
        if not self.shutting_down:
            self._view.follow()
        return self._listeners.add(callback)

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
        return self._retry(self.consul.kv.get, *args, **kw)

    def kv_put(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.put``; otherwise as :meth:`kv_get`.
        """
        return self._retry(self.consul.kv.put, *args, **kw)

    def kv_delete(self, *args: Any, **kw: Any) -> Deferred[Any]:
        """
        ``consul.kv.delete``; otherwise as :meth:`kv_get`.
        """
        return self._retry(self.consul.kv.delete, *args, **kw)

    def _retry(self, call: Callable[..., Any], *args: Any, **kw: Any) -> Deferred[Any]:
        if self.shutting_down:
            return fail(ShutDownError("the Coordinator is shutting down"))
        attempts = self._retrying_attempts(call, args, kw)
        answer: Deferred[Any] = Deferred(lambda _: attempts.cancel())

        def deliver(result: Any) -> None:
            if not answer.called:
                if self.shutting_down and _was_cancelled(result):
                    result = ShutDownError("the Coordinator is shutting down")
                    answer.errback(result)
                else:
                    answer.callback(result)

        attempts.addBoth(deliver)
        self._retrying.spawn("retry", lambda: attempts)
        return answer

    @inlineCallbacks
    def _retrying_attempts(
        self, call: Callable[..., Any], args: Any, kw: Any
    ) -> Steps[Any]:
        backoff = Backoff(self.random)
        while True:
            try:
                result = yield call(*args, **kw)
            except ConsulError as error:
                if not error.retryable:
                    raise
                seconds = backoff.next()
                self.log.error(
                    "consul-not-up", retry_in=round(seconds, 3), error=str(error)
                )
                yield sleep(self.steady, seconds)
            else:
                return result

    # Starting.

    def _start(self) -> None:
        self.session.start()
        self._membership.start()
        self._election.start()

    def _member_record(self) -> bytes:
        return Member(
            id=self.instance_id,
            host_address=self.external_host_address,
            rest_port=self.rest_port or None,
            weight=self.weight,
            can_lead=self.can_lead,
            leaving=self._leaving,
            check=self.session.check_id or None,
            node=self.session.node or None,
            version=__version__,
            started_at=self._started_at,
        ).encode()

    # What the parts tell.

    def _clock_stepped(self, seconds: float) -> None:
        self.log.warning(
            "wall-clock-stepped",
            seconds=round(seconds, 3),
            effect="none: timers run on the lease clock and were set anew",
        )

    def _request_ended(
        self, ok: bool, error: ConsulError | None, seconds: float
    ) -> None:
        """
        Whatever came of a request: this process is awake, and knows more.
        """
        self.steady.resync()
        if ok:
            self._answered_at = self.steady.seconds()
            if self.retries:
                self.log.info("reconnected-to-consul", after_retries=self.retries)
            self.retries = 0
            self._set_connection(Connection.CONNECTED)
        else:
            self.retries += 1
            self._set_connection(self._disconnected())

    def _disconnected(self) -> Connection:
        lease = self.session.lease
        if lease is not None and lease.active:
            return Connection.SUSPENDED
        return Connection.SUSPENDED if self._answered_at is None else Connection.LOST

    def _set_connection(self, connection: Connection) -> None:
        previous, self._connection = self._connection, connection
        if previous is not connection:
            self._listeners.tell(ConnectionChanged(connection, previous))

    def _lease_changed(self) -> None:
        """
        The lease began, is about to end, or ended.
        """
        self._election.wake()
        self._membership.wake()
        self._tell_worker()
        if self._connection is not Connection.CONNECTED:
            self._set_connection(self._disconnected())
        self._tell_waiters()

    def _tell_worker(self) -> None:
        lease_changed = getattr(self.worker, "lease_changed", None)
        if self._worker_started and lease_changed is not None:
            lease_changed()

    def _membership_changed(self) -> None:
        if not self._worker_started and self.is_member and not self.shutting_down:
            self._worker_started = True
            self._tasks.spawn("worker-start", self.worker.start)
        self._tell_worker()
        self._election.wake()
        self._tell_waiters()

    def _leader_known(self, leader_id: str | None) -> None:
        """
        Somebody else holds the leader key, or nobody.
        """
        if leader_id is None or leader_id == self.instance_id:
            self._role.leaderless()
        else:
            self._role.leader_known()
        previous, self._last_leader = self._last_leader, leader_id
        self.log.info("leader-changed", leader_id=leader_id, previous=previous)
        self._listeners.tell(LeaderChanged(leader_id, previous))
        self._tell_waiters()

    _last_leader: str | None = None

    def _tell_waiters(self) -> None:
        if self.leader_id is not None:
            waiting, self._leader_waiters[:] = list(self._leader_waiters), []
            for waiter in waiting:
                waiter.callback(self.leader_id)
        if self.is_ready:
            ready, self._ready_waiters[:] = list(self._ready_waiters), []
            for one in ready:
                one.callback(None)

    def _role_entered(self, name: str) -> None:
        previous, self._role_name = self._role_name, name
        self._listeners.tell(RoleChanged(name, previous))

    def _begin_term(self, term: Term) -> Callable[[], Deferred[None] | None]:
        """
        Make the leader of a term that has begun; give how to halt it.
        """
        try:
            leader = self._leader_class(self)
        except Exception as error:
            self.log.exception("leader-not-made")
            reason = f"leader-not-made: {error}"
            self._tasks.spawn("give-up", self._give_up_later, reason)
            return lambda: None
        self.leader = leader
        self._tasks.spawn("leader-start", self._lead, leader)

        def halt() -> Deferred[None] | None:
            if self.leader is leader:
                self.leader = None
            return leader.halt()

        return halt

    @inlineCallbacks
    def _lead(self, leader: ILeader) -> Steps[None]:
        try:
            yield maybeDeferred(leader.start)
        except Exception as error:
            if self.leader is not leader:
                # Halted meanwhile, which is why it failed.
                return
            self.log.error(
                "could-not-establish-leadership",
                error=str(error),
                effect="another member is offered leadership",
                exc_info=not isinstance(error, CoordinationError),
            )
            self._election.give_up("could-not-establish")

    @inlineCallbacks
    def _give_up_later(self, reason: str) -> Steps[None]:
        yield sleep(self.steady, 0)
        self._election.give_up(reason)

    # What a status page shows.

    def status(self) -> dict[str, Any]:
        """
        Give the state of this member, of what is known now.
        """
        lease = self.lease
        answered = self._answered_at
        last_pass = getattr(self.leader, "last_pass", None)
        errors = dict(getattr(self.worker, "errors", {}))
        if last_pass is not None:
            errors.update(last_pass.errors)
        return {
            "instance_id": self.instance_id,
            "role": self.role,
            "is_leader": self.is_leader,
            "leader_id": self.leader_id,
            "fencing_token": lease.token,
            "session_id": lease.session_id,
            "lease_remaining": round(lease.remaining, 3),
            "liveness": self.session.liveness,
            "members": self._view.describe(),
            "members_age": _rounded(self._view.age),
            "workload": sorted(self.worker.my_workload),
            "assigned": sorted(getattr(self.worker, "assigned", ())),
            "errors": errors,
            "stray_keys": 0 if last_pass is None else len(last_pass.stray),
            "consul": {
                "address": self._requester.address,
                "connection": self._connection.value,
                "last_answer_age": None
                if answered is None
                else round(self.steady.seconds() - answered, 3),
            },
            "waiting_for": self._waiting_for(),
            "app_lease": None,
            "version": __version__,
        }

    def _waiting_for(self) -> str | None:
        """
        Give in words what this member waits for, if it does.
        """
        if self.session_id is None:
            return "a Consul session"
        if not self.is_member:
            holder = self._membership.hindered_by
            if holder is None:
                return "the member key"
            return f"the member key, held by session {holder}"
        if self._election.waiting_for:
            return f"the lease of session {self._election.waiting_for} to be over"
        if self.leader_id is None:
            return "a leader"
        return None

    @inlineCallbacks
    def refresh_status(self) -> Steps[dict[str, Any]]:
        """
        Read the members and how much they have, and give :meth:`status`.

        :return: a Deferred that fires with it; when Consul does not answer,
            with the members as last read, and their age.
        """
        try:
            yield self._view.refresh()
            yield self._view.refresh_items()
        except ConsulError as error:
            self.log.debug("status-not-refreshed", error=str(error))
        return self.status()

    # Shutting down.

    def shutdown(self) -> Deferred[None]:
        """
        Give everything back and end; see Note [Shutting down].

        :return: a Deferred that fires when all is given back, as far as Consul
            answers, within ``Settings.drain_timeout``; never fails.
        """
        waiting: Deferred[None] = Deferred(self._stop_waiters.remove)
        self._stop_waiters.append(waiting)
        if not self.shutting_down:
            self.shutting_down = True
            self.log.info("shutting-down")
            self._shut_down().addBoth(self._shut_down_ended)
        elif self._stopped:
            self._tell_stopped()
        return waiting

    def _shut_down_ended(self, result: Any) -> None:
        if _is_failure(result):
            self.log.error("shutdown-failed", error=result.getErrorMessage())
        self._stopped = True
        self._registry.pop(self._registered, None)
        self._role.stop()
        self.log.info("shut-down")
        self._tell_stopped()

    def _tell_stopped(self) -> None:
        waiting, self._stop_waiters[:] = list(self._stop_waiters), []
        for one in waiting:
            one.callback(None)

    @inlineCallbacks
    def _shut_down(self) -> Steps[None]:
        if self._starting.active():
            self._starting.cancel()
        self._leaving = True
        self._fail_waiters()
        give_up = self.steady.seconds() + self.settings.drain_timeout
        answering = self._connection is Connection.CONNECTED
        self._role.drain()
        yield self._step("stop-leading", self._election.stop, 1.0)
        yield self._step("stop-tasks", self._tasks.stop, 1.0)
        yield self._step("stop-retries", self._retrying.stop, 1.0)
        yield self._step("stop-view", self._view.stop, 1.0)
        if self.session_id is not None:
            answering = yield self._consul_step(
                "release-leadership", self._election.resign, answering
            )
        if self._worker_started:
            left = max(BRIEF_STEP_SECONDS, give_up - self.steady.seconds())
            if not answering:
                left = min(left, CONSUL_STEP_SECONDS)
            yield self._step("stop-work", self.worker.halt, left)
        yield self._step("stop-membership", self._membership.stop, 1.0)
        session = self.session_id
        if session is not None:
            answering = yield self._consul_step(
                "leave",
                lambda: release(self.api, self.membership_record_key, session),
                answering,
            )
        yield self._step("stop-session", self.session.stop, 1.0)
        yield self._consul_step("destroy-session", self.session.destroy, answering)
        yield self._step("close-connections", self._requester.close, 1.0)

    def _fail_waiters(self) -> None:
        for waiters in (self._leader_waiters, self._ready_waiters):
            waiting: list[Deferred[Any]] = list(waiters)
            waiters.clear()
            for one in waiting:
                one.errback(ShutDownError("the Coordinator is shutting down"))

    @inlineCallbacks
    def _consul_step(
        self, name: str, call: Callable[[], Any], answering: bool
    ) -> Steps[bool]:
        """
        Make a step that asks Consul; tell whether Consul answers.
        """
        seconds = CONSUL_STEP_SECONDS if answering else BRIEF_STEP_SECONDS
        done: bool = yield self._step(name, call, seconds)
        return done

    @inlineCallbacks
    def _step(self, name: str, call: Callable[[], Any], seconds: float) -> Steps[bool]:
        """
        Make one step within its bound; a failing one is logged and survived.
        """
        try:
            yield bounded(self.steady, seconds, call)
        except Exception as error:
            self.log.warning(
                "shutdown-step-failed",
                step=name,
                error=str(error) or type(error).__name__,
                effect="goes on; Consul ends the session by itself",
            )
            return False
        return True


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _is_failure(result: Any) -> bool:
    from twisted.python.failure import Failure

    return isinstance(result, Failure)


def _was_cancelled(result: Any) -> bool:
    from twisted.internet.defer import CancelledError

    return _is_failure(result) and result.check(CancelledError) is not None


__all__ = ["Coordinator", "LeaseView", "StaleMembershipEntryException"]
