"""
A double of the 2016 original: coordinator, leader and worker in one process.

Written from its described behaviour, for tests of mixed clusters.  What a
neighbour can see of it is kept, faults included:

- a lost session is never made again, and a leader that lost it goes on leading;
- a member is any key directly under ``members/``, whatever its value or session;
- on becoming leader it writes ``device_group_0001`` … ``device_group_0100``;
- assignments are deleted, then put, one by one, unfenced and empty;
- work that was deleted whole is never acted upon, and without any member all
  assignments are deleted, again and again;
- a worker lists its assignments without the slash at the end and installs a
  candidate that is no longer true;
- nothing owns anything, and no watch has a deadline.

What only hurt itself is left out: a loop here can be ended.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import md5
from itertools import pairwise
from typing import Any, Protocol

from twisted.internet.defer import (
    CancelledError,
    Deferred,
    gatherResults,
    inlineCallbacks,
    succeed,
)
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall, deferLater

from voltha_coord._types import Steps
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import Entry, Reading, SessionSpec
from voltha_coord.errors import ConsulError, StaleMembershipEntryException

SESSION_TTL_SECONDS = 10.0
LOCK_DELAY_SECONDS = 1.0
RENEW_EVERY_SECONDS = 3.0
RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LEADER_LOOP_SECONDS = 1.0
TRACK_ERROR_SECONDS = 1.0
LEADER_SOAK_SECONDS = 3.0
WORKER_SOAK_SECONDS = 0.5
LET_LEADER_UPDATE_SECONDS = 5.0
#: It asks without ``wait``; this is what Consul then takes.
WATCH_WAIT_SECONDS = 300.0

DEVICE_GROUPS = tuple(f"device_group_{number:04d}" for number in range(1, 101))


def ring_owner(members: Sequence[str], work_id: str) -> str:
    """
    Give the member that the original's hash ring gives an item to.

    :raises IndexError: when there are no members.
    """

    def words(text: str) -> list[int]:
        digest = md5(text.encode("ascii"), usedforsecurity=False).digest()
        ends = pairwise(range(0, 17, 4))
        return [int.from_bytes(digest[a:b], "little") for a, b in ends]

    points = sorted(
        (point, member)
        for member in members
        for replica in range(40)
        for point in words(f"{member}-{replica}")[:3]
    )
    place = bisect_right([point for point, _ in points], words(work_id)[0])
    return points[place % len(points)][1]


class _Looping:
    """
    Loops and timers that end together.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self.reactor = reactor
        self.halted = False
        self._running: set[Deferred[Any]] = set()

    def run(self, d: Deferred[Any]) -> None:
        """
        Keep a Deferred, to be cancelled at the end.
        """
        self._running.add(d)

        def over(result: object) -> None:
            self._running.discard(d)

        d.addErrback(lambda failure: failure.trap(CancelledError))
        d.addBoth(over)

    def pause(self, seconds: float) -> Deferred[None]:
        """
        Give a Deferred that fires after so many seconds.
        """
        return deferLater(self.reactor, seconds, lambda: None)

    def end(self) -> None:
        """
        Cancel whatever runs.
        """
        self.halted = True
        for d in tuple(self._running):
            d.cancel()


class _Soak:
    """
    A timer that starts anew at each change.
    """

    def __init__(self, reactor: IReactorTime, seconds: float) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._timer: IDelayedCall | None = None

    def restart(self, call: Callable[[], None]) -> None:
        """
        Call ``call`` when nothing restarts the timer in its time.
        """
        self.cancel()
        self._timer = self._reactor.callLater(self._seconds, call)

    def cancel(self) -> None:
        """
        Do not call.
        """
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None


class _Coordinating(Protocol):
    """
    What the leader and the worker use of the coordinator.
    """

    reactor: IReactorTime
    api: ConsulApi
    prefix: str

    def retry(
        self, call: Callable[..., Deferred[Any]], *args: object, **kw: object
    ) -> Deferred[Any]:
        """
        Call until it does not fail.
        """

    def wait_for_a_leader(self) -> Deferred[str]:
        """
        Give a Deferred of the first leader's id.
        """


class OriginalLeader(_Looping):
    """
    What leads: watches work and members, and writes assignments.
    """

    def __init__(self, coordinator: _Coordinating) -> None:
        super().__init__(coordinator.reactor)
        self._coordinator = coordinator
        self._api = coordinator.api
        self._work_prefix = f"{coordinator.prefix}/work/"
        self._member_prefix = f"{coordinator.prefix}/members/"
        self._assignment_prefix = f"{coordinator.prefix}/assignments/"
        self.workload: list[str] = []
        self.members: list[str] = []
        self._soak = _Soak(coordinator.reactor, LEADER_SOAK_SECONDS)

    @inlineCallbacks
    def start(self) -> Steps[None]:
        """
        Write the hundred items, then watch.
        """
        yield gatherResults(
            [
                self._coordinator.retry(
                    self._api.put,
                    self._work_prefix + work_id,
                    f"placeholder for device group {number} data".encode(),
                )
                for number, work_id in enumerate(DEVICE_GROUPS, 1)
            ]
        )
        if not self.halted:
            self.run(self._track(self._work_prefix, self._saw_work))
            self.run(self._track(self._member_prefix, self._saw_members))

    def halt(self) -> None:
        """
        Watch no more; a reassignment that runs is not interrupted.
        """
        self.halted = True
        self._soak.cancel()

    def end(self) -> None:
        """
        End everything, as the end of the process does.
        """
        self.halt()
        super().end()

    @inlineCallbacks
    def _track(self, prefix: str, saw: Callable[[list[str]], None]) -> Steps[None]:
        index = 0
        while not self.halted:
            reading: Reading = yield self._coordinator.retry(
                self._api.list, prefix, index=index, wait=WATCH_WAIT_SECONDS
            )
            index = reading.index
            if self.halted:
                return
            try:
                saw(_names(prefix, reading.entries))
            except TypeError:
                yield self.pause(TRACK_ERROR_SECONDS)
            else:
                yield self.pause(0)

    def _saw_work(self, workload: list[str]) -> None:
        if not workload:
            raise TypeError("the original iterates over None")
        if workload != self.workload:
            self.workload = workload
            self._soak.restart(self._reassign)

    def _saw_members(self, members: list[str]) -> None:
        if members != self.members:
            self.members = members
            self._soak.restart(self._reassign)

    def _reassign(self) -> None:
        self.run(self._reassign_work())

    @inlineCallbacks
    def _reassign_work(self) -> Steps[None]:
        retry, api = self._coordinator.retry, self._api
        members, workload = list(self.members), list(self.workload)
        wanted: dict[str, set[str]] = {}
        for work_id in workload if members else ():
            wanted.setdefault(ring_owner(members, work_id), set()).add(work_id)

        reading: Reading = yield retry(api.list, self._assignment_prefix)
        current: dict[str, set[str]] = {}
        for member, work_id in _pairs(self._assignment_prefix, reading.entries):
            current.setdefault(member, set()).add(work_id)

        for member, held in current.items():
            for work_id in sorted(held - wanted.get(member, set())):
                key = f"{self._assignment_prefix}{member}/{work_id}"
                yield retry(api.delete, key)
        if not members:
            # Here it fails, now that everything is deleted, and soaks anew.
            self._soak.restart(self._reassign)
        for member, due in wanted.items():
            for work_id in sorted(due - current.get(member, set())):
                key = f"{self._assignment_prefix}{member}/{work_id}"
                yield retry(api.put, key, b"")


class OriginalWorker(_Looping):
    """
    What works: knows the items assigned to it, and does nothing with them.

    :ivar my_workload: the ids of the items.
    """

    def __init__(self, instance_id: str, coordinator: _Coordinating) -> None:
        super().__init__(coordinator.reactor)
        self._coordinator = coordinator
        self._instance_id = instance_id
        self.my_workload: set[str] = set()
        self._candidate: set[str] | None = None
        self._soak = _Soak(coordinator.reactor, WORKER_SOAK_SECONDS)

    def start(self) -> None:
        """
        Begin to watch.
        """
        self.run(self._track())

    def halt(self) -> None:
        """
        Forget the soak; the watch goes on, as the original's did.
        """
        self._soak.cancel()

    def end(self) -> None:
        """
        End everything, as the end of the process does.
        """
        self.halt()
        super().end()

    @inlineCallbacks
    def _track(self) -> Steps[None]:
        first = self._coordinator.wait_for_a_leader()
        if not first.called:
            yield first
            yield self.pause(LET_LEADER_UPDATE_SECONDS)
        prefix = f"{self._coordinator.prefix}/assignments/"
        index = 0
        while not self.halted:
            reading: Reading = yield self._coordinator.retry(
                self._coordinator.api.list,
                # Without the slash: voltha-1 sees what is voltha-10's.
                prefix + self._instance_id,
                index=index,
                wait=WATCH_WAIT_SECONDS,
            )
            index = reading.index
            seen = {work_id for _, work_id in _pairs(prefix, reading.entries)}
            if seen != self.my_workload:
                self._candidate = seen
                self._soak.restart(self._update)
            # A change back within the soak leaves the timer, and the candidate.
            yield self.pause(0)

    def _update(self) -> None:
        if self._candidate is not None:
            self.my_workload, self._candidate = self._candidate, None


class OriginalMember(_Looping):
    """
    One process of the 2016 original.

    :param reactor: where its loops wait.
    :param api: how it talks to Consul.
    :param instance_id: its name.
    :param prefix: where its cluster's keys are, without a slash at the end.
    :ivar i_am_leader: true from becoming leader until another's id is read.
    :ivar leader_id: the last leader's id that was read; never cleared.
    :ivar session_id: the one session it ever makes.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        instance_id: str,
        prefix: str = "service/voltha",
    ) -> None:
        super().__init__(reactor)
        self.api = api
        self.instance_id = instance_id
        self.prefix = prefix
        self.session_id: str | None = None
        self.i_am_leader = False
        self.leader_id: str | None = None
        self.leader: OriginalLeader | None = None
        self.worker = OriginalWorker(instance_id, self)
        self.retries = 0
        self._leader_key = f"{prefix}/leader"
        self._member_key = f"{prefix}/members/{instance_id}"
        self._waiting: list[Deferred[str]] = []
        self._abandoned: list[OriginalLeader] = []
        self._renewal = LoopingCall(self._renew)
        self._renewal.clock = reactor

    def start(self) -> None:
        """
        Join: session, member record, candidacy, worker, in that order.
        """
        self.run(self._start())

    @inlineCallbacks
    def shutdown(self) -> Steps[None]:
        """
        Leave as the original does, the session first; then all loops end.

        A session that cannot be destroyed does not keep them from ending.
        """
        try:
            if self.session_id is not None:
                yield self.api.destroy_session(self.session_id)
        except ConsulError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """
        End at once, without a word to Consul, as SIGKILL does.
        """
        if self._renewal.running:
            self._renewal.stop()
        self.worker.end()
        for leader in (*self._abandoned, self.leader):
            if leader is not None:
                leader.end()
        self.leader = None
        self.end()

    def wait_for_a_leader(self) -> Deferred[str]:
        """
        Give a Deferred of a leader's id; maybe of one that is long gone.
        """
        if self.leader_id is not None:
            return succeed(self.leader_id)
        d: Deferred[str] = Deferred()
        self._waiting.append(d)
        return d

    @inlineCallbacks
    def retry(
        self, call: Callable[..., Deferred[Any]], *args: object, **kw: object
    ) -> Steps[Any]:
        """
        Call until it does not fail; all callers share one back-off.
        """
        while True:
            try:
                result = yield call(*args, **kw)
            except (ConsulError, StaleMembershipEntryException):
                step = min(self.retries, len(RETRY_SECONDS) - 1)
                self.retries += 1
                yield self.pause(RETRY_SECONDS[step])
            else:
                self.retries = 0
                return result

    @inlineCallbacks
    def _start(self) -> Steps[None]:
        yield self.pause(0)
        spec = SessionSpec(
            name="",
            ttl=SESSION_TTL_SECONDS,
            lock_delay=LOCK_DELAY_SECONDS,
            behavior="delete",
            node_checks=("serfHealth",),
        )
        self.session_id = yield self.retry(self.api.create_session, spec)
        self.run(self._renewal.start(RENEW_EVERY_SECONDS))
        yield self.retry(self._make_member_record)
        self.run(self._keep_member_record())
        self.run(self._contend())
        self.worker.start()

    @inlineCallbacks
    def _renew(self) -> Steps[None]:
        assert self.session_id is not None
        # The original only logs it, and makes no new session.
        with suppress(ConsulError):
            yield self.api.renew_session(self.session_id)

    @inlineCallbacks
    def _make_member_record(self) -> Steps[None]:
        made = yield self.api.put(self._member_key, b"alive", acquire=self.session_id)
        if not made:
            raise StaleMembershipEntryException(self.instance_id)

    @inlineCallbacks
    def _keep_member_record(self) -> Steps[None]:
        index = 0
        yield self.pause(0)
        while True:
            reading: Reading = yield self.retry(
                self.api.get, self._member_key, index=index, wait=WATCH_WAIT_SECONDS
            )
            index = reading.index
            if reading.entry is None or reading.entry.session != self.session_id:
                yield self.retry(self._make_member_record)

    @inlineCallbacks
    def _contend(self) -> Steps[None]:
        yield self.pause(0)
        while True:
            acquired: bool = yield self.retry(
                self.api.put,
                self._leader_key,
                self.instance_id.encode(),
                acquire=self.session_id,
            )
            reading: Reading = yield self.retry(self.api.get, self._leader_key)
            record = reading.entry
            if record is not None:
                if not acquired:
                    self._follow(record.value.decode())
                elif record.session == self.session_id:
                    yield self._lead()
            last, index = record, reading.index
            while last is not None:
                reading = yield self.retry(
                    self.api.get, self._leader_key, index=index, wait=WATCH_WAIT_SECONDS
                )
                index = reading.index
                if reading.entry != last:
                    break
            yield self.pause(LEADER_LOOP_SECONDS)

    def _lead(self) -> Deferred[None]:
        if self.i_am_leader:
            return succeed(None)
        self.i_am_leader = True
        self._set_leader_id(self.instance_id)
        self.leader = OriginalLeader(self)
        return self.leader.start()

    def _follow(self, leader_id: str) -> None:
        self._set_leader_id(leader_id)
        if self.i_am_leader:
            self.i_am_leader = False
            if self.leader is not None:
                self.leader.halt()
                self._abandoned.append(self.leader)
                self.leader = None

    def _set_leader_id(self, leader_id: str) -> None:
        self.leader_id = leader_id
        waiting, self._waiting = self._waiting, []
        for d in waiting:
            d.callback(leader_id)


def _names(prefix: str, entries: Iterable[Entry]) -> list[str]:
    """
    Give the ids directly under a prefix; deeper keys are not seen.
    """
    found = (re.fullmatch(f"{prefix}([^/]+)", entry.key) for entry in entries)
    return [match.group(1) for match in found if match]


def _pairs(prefix: str, entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """
    Give (member, work id) of the keys exactly two levels under a prefix.
    """
    found = (re.fullmatch(f"{prefix}([^/]+)/([^/]+)", entry.key) for entry in entries)
    return [(match.group(1), match.group(2)) for match in found if match]
