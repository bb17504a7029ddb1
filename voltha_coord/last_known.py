"""
The cluster as this member saw it last, for when it can see it no more.

Members of the isolation ``takeover`` read all that a leader reads every
``Settings.resync_interval`` seconds, jittered, and keep it.

# Note [What is remembered]

What is remembered was read under a lease that lasted until the answer was
there, and shows this member as its session holds it.  So it was never read in an
outage, nor from keys that have expired in one (field report 77).  A denied
listing is no reading.  Nor is one without any work in which our own key has been
created anew, at no higher an index than before: Consul has lost its memory, and
ours is the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import Tasks, sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry
from .errors import ConsulError
from .interfaces import IPlanner
from .keys import Keys
from .lease import Lease
from .liveness import Troubles
from .planning.state import ClusterState, Snapshot
from .planning.takeover import Takeover, take_over
from .records import Member
from .settings import Settings
from .snapshot import read_snapshot


class LastKnown:
    """
    Remembers the cluster; see Note [What is remembered].

    :param instance_id: of this member.
    :param lease: gives the lease at the moment; it may be over.
    :param reports: whether what members report is to be remembered too.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        api: ConsulApi,
        keys: Keys,
        settings: Settings,
        *,
        instance_id: str,
        lease: Callable[[], Lease | None],
        reports: Callable[[], bool],
        random: Callable[[], float],
        log: Any,
    ) -> None:
        self._reactor = reactor
        self._api = api
        self._keys = keys
        self._interval = settings.resync_interval
        self._our_key = keys.member(instance_id)
        self._lease = lease
        self._reports = reports
        self._random = random
        self._troubles = Troubles(log)
        self._tasks = Tasks(log)
        #: What is remembered; ``None`` for nothing yet.
        self.snapshot: Snapshot | None = None

    def start(self) -> None:
        """
        Begin to look, until :meth:`stop`.
        """
        self._tasks.spawn("last-known", self._run)

    @inlineCallbacks
    def stop(self) -> Steps[None]:
        """
        Look no more.

        :return: a Deferred that fires when nothing is under way; never fails.
        """
        yield self._tasks.stop()

    def takeover(
        self, member: Member, planner: IPlanner, here: Collection[str]
    ) -> Takeover | None:
        """
        Plan what a member runs that takes the others for lost.

        :param here: the ids of the items it runs already.
        :return: ``None`` while nothing is remembered.
        :raises Exception: what the planner raises, which it should not.
        """
        if self.snapshot is None:
            return None
        state = ClusterState.from_snapshot(self.snapshot)
        return take_over(state, member, planner, here, self._reactor.seconds())

    @inlineCallbacks
    def _run(self) -> Steps[None]:
        # Members that start together do not all ask together.
        pause = self._interval * self._random()
        while True:
            yield sleep(self._reactor, pause)
            pause = self._interval * (0.5 + self._random())
            lease = self._lease()
            if lease is not None and lease.active:
                yield self._look(lease)

    @inlineCallbacks
    def _look(self, lease: Lease) -> Steps[None]:
        try:
            found: Snapshot = yield read_snapshot(
                self._api,
                self._keys,
                self._reactor.seconds(),
                consistent=False,
                reports=self._reports(),
            )
        except ConsulError as error:
            # That Consul is away is told by whoever makes the session.
            if not error.retryable:
                self._troubles.say("cluster-not-remembered", error)
            return
        self._troubles.over("cluster-not-remembered")
        ours = self._ours(found)
        if ours is None or ours.session != lease.session_id or not lease.active:
            return
        if not self._emptied(found, ours):
            self.snapshot = found

    def _ours(self, snapshot: Snapshot) -> Entry | None:
        """
        Give our own member key, as a snapshot shows it.
        """
        ours = (entry for entry in snapshot.members if entry.key == self._our_key)
        return next(ours, None)

    def _emptied(self, found: Snapshot, ours: Entry) -> bool:
        """
        Whether this is a Consul that has lost its memory.
        """
        before = self.snapshot
        if found.work or before is None or not before.work:
            return False
        former = self._ours(before)
        assert former is not None
        anew = ours.session != former.session
        return anew and ours.create_index <= former.create_index
