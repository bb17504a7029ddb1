"""
Acting: the role that a member has, and those who wait until it leads no more.

The machine of :mod:`~voltha_coord.role` is told what happens; here it is told
what is known of the leader key, as often as that may have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed

from .events import Event, RoleChanged
from .role import LEADER, RoleCore, RoleMachine
from .term import Term
from .waiters import Waiters


class Acting:
    """
    Keeps the role of a member.

    :ivar core: what its states share.

    :param instance_id: of this member.
    :param leader_id: gives who holds the leader key, ``None`` for nobody.
    :param is_leader: whether this member leads at this very instant.
    :param begin: begins to lead a term; gives how to halt it.
    :param at_rest: called when the leader of a term that is over is at rest.
    :param tell: told of :class:`~.events.RoleChanged`.
    :param can_lead: whether it may ever lead.
    """

    def __init__(
        self,
        *,
        instance_id: str,
        leader_id: Callable[[], str | None],
        is_leader: Callable[[], bool],
        begin: Callable[[Term], Callable[[], Deferred[None] | None]],
        at_rest: Callable[[], None],
        tell: Callable[[Event], None],
        can_lead: bool,
        log: Any,
    ) -> None:
        self._instance_id = instance_id
        self._leader_id = leader_id
        self._is_leader = is_leader
        self._at_rest = at_rest
        self._tell = tell
        self._resting: Waiters[None] = Waiters()
        self.core = RoleCore(
            make_leader=begin,
            entered=self._entered,
            settled=self._settled,
            can_lead=can_lead,
            log=log,
        )
        self._told = self.core.name
        self._role = RoleMachine(self.core)

    @property
    def name(self) -> str:
        """
        The role at this very instant.
        """
        if self.core.name == LEADER and not self._is_leader():
            # The lease has just run out; nothing has had time to react yet.
            return self.core.unled
        return self.core.name

    @property
    def settled(self) -> bool:
        """
        Whether the leader of the last term is at rest: a term may begin.
        """
        return not self.core.halting

    def when_at_rest(self) -> Deferred[None]:
        """
        Wait until the leader of the last term is at rest.

        :return: a Deferred that fires with ``None`` then; never fails.
        """
        if self.settled:
            return succeed(None)
        return self._resting.wait()

    # What it is told.

    def look(self) -> None:
        """
        Who holds the leader key may be somebody else, or it may matter again.
        """
        leader_id = self._leader_id()
        if leader_id is None or leader_id == self._instance_id:
            self._role.leaderless()
        else:
            self._role.leader_known()

    def elected(self, term: Term) -> None:
        """
        This member's term has begun.
        """
        self._role.elected(term)

    def deposed(self) -> None:
        """
        This member's term is over.
        """
        self._role.deposed()

    def alarm(self) -> None:
        """
        It is an emergency.
        """
        self._role.alarm()

    def all_clear(self) -> None:
        """
        It is none, or none any more.
        """
        self._role.all_clear()
        self.look()

    def drain(self) -> None:
        """
        This member is on its way out.
        """
        self._role.drain()

    def stop(self) -> None:
        """
        This member has given everything back.
        """
        self._role.stop()

    # What the machine tells.

    def _entered(self, name: str) -> None:
        previous, self._told = self._told, name
        self._tell(RoleChanged(name, previous))

    def _settled(self) -> None:
        # What was seen of the leader key meanwhile came too early for the role.
        self.look()
        self._at_rest()
        self._resting.fire(None)
