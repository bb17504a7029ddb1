"""
What a member looks at before it gives something to others: leadership, its work.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op
from .consul.transport import Lane
from .keys import Keys
from .planning.state import LEAVE, ClusterState, Snapshot

#: Why nobody moves the work of a member that leaves.
UNMOVED = FROZEN, NO_RECEIVER, ORIGINAL, NO_LEADER = (
    "planning is frozen",
    "no other member can take work",
    "an original coordinator leads",
    "no other member can lead",
)


@frozen
class Prospect:
    """
    The leader key, the members, and what operators want, at one moment.

    :ivar key: the leader key, ``None`` when there is none.
    :ivar state: of the members and the intents; there is no work in it.
    """

    key: Entry | None
    state: ClusterState

    @classmethod
    def of(cls, keys: Keys, entries: Collection[Entry]) -> Prospect:
        """
        Take apart what was read.
        """
        key, members, intent = None, [], []
        for entry in entries:
            if entry.key == keys.leader:
                key = entry
            elif entry.key.startswith(keys.members):
                members.append(entry)
            elif entry.key.startswith(keys.intent):
                intent.append(entry)
        snapshot = Snapshot(keys=keys, members=members, intent=intent)
        return cls(key, ClusterState.from_snapshot(snapshot))

    def unfit(self, instance_id: str) -> str:
        """
        Say why a member cannot be handed leadership; empty when it can.
        """
        member = self.state.members.get(instance_id)
        if member is None:
            return "is no living member"
        if member.foreign:
            return "is an original coordinator, which nobody can hand leadership to"
        if not member.can_lead:
            return "never leads: its can_lead is false"
        if member.leaving:
            return "is leaving"
        if self.state.node_intents.get(instance_id) == LEAVE:
            return "is wanted away by an operator"
        return ""

    def heir(self, instance_id: str, tried: Collection[str] = ()) -> str | None:
        """
        Give the member that is to lead after this one, ``None`` when there is
        none.

        It is the next that can, in the order of the ids, as on a ring: that
        needs no memory, and those who hand over one after the other give
        everybody the same turn.

        :param tried: whom to pass over.
        """
        fit = [
            name
            for name in self.state.members
            if name != instance_id and name not in tried and not self.unfit(name)
        ]
        return min(fit, key=lambda name: (name < instance_id, name), default=None)

    def unmoved(self, instance_id: str) -> str:
        """
        Say why the work of a member that leaves is not moved away from it;
        empty when it is, now or once somebody leads.
        """
        state = self.state
        if state.frozen:
            return FROZEN
        if not state.receivers.keys() - {instance_id}:
            return NO_RECEIVER
        if self.led_by_original:
            return ORIGINAL
        if self._leader in (None, instance_id) and self.heir(instance_id) is None:
            return NO_LEADER
        return ""

    @property
    def led_by_original(self) -> bool:
        """
        Whether an original coordinator leads.
        """
        member = self.state.members.get(self._leader or "")
        return member is not None and member.foreign

    @property
    def _leader(self) -> str | None:
        if self.key is None or self.key.session is None:
            return None
        return self.key.value.decode("utf-8", errors="replace")


@inlineCallbacks
def take_prospect(
    api: ConsulApi, keys: Keys, *, consistent: bool = False
) -> Steps[Prospect]:
    """
    Read the leader key, the members and the intents in one transaction, which
    waits no longer than a request of the session.

    :param consistent: whether the servers confirm that they are up to date.
    :return: a Deferred that fires with the :class:`Prospect`, or fails with
        :class:`ConsulError`.  What the token may not read looks as if it were
        not there.
    """
    entries: tuple[Entry, ...] = yield api.txn(
        tuple(map(Op.get_tree, (keys.leader, keys.members, keys.intent))),
        consistent=consistent,
        lane=Lane.SESSION,
    )
    return Prospect.of(keys, entries)
