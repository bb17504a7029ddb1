"""
How this member stands: what its worker may do at the moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .isolation import Rights
from .item import Item, is_extra
from .lease import Lease
from .records import PREPARE, OwnerRecord
from .settings import STOP

if TYPE_CHECKING:
    from .coordinator import Coordinator


class Standing:
    """
    Asks the session, the membership and the emergency.

    :ivar rights: for how long items may run.
    :ivar halting: whether the worker is being halted.

    :param instance_id: in whose name items are owned.
    """

    def __init__(self, coordinator: Coordinator, instance_id: str) -> None:
        self._coordinator = coordinator
        self._session = coordinator.session
        self._grace = coordinator.settings.grace
        self._instance_id = instance_id
        stops = coordinator.settings.isolation == STOP
        self.rights = Rights(
            coordinator.steady.seconds,
            lambda: self._session.lease,
            None if stops else lambda: coordinator.emergency.work_goes_on,
        )
        self.halting = False

    @property
    def lease(self) -> Lease | None:
        """
        The lease to act under, ``None`` when there is none.
        """
        lease = self._session.lease
        return lease if lease is not None and lease.active else None

    @property
    def permitted(self) -> Lease | None:
        """
        The lease under which work may begin now, ``None`` when there is none.
        """
        lease = self.lease
        if lease is None or not self._coordinator.is_member:
            return None
        return lease if lease.remaining > self._grace else None

    @property
    def extra(self) -> Mapping[str, bytes]:
        """
        What is to run here because of an emergency: the values, by work id.
        """
        return {} if self.halting else self._coordinator.emergency.extra

    def may_begin(self, item: Item) -> bool:
        """
        Whether an item may be started, or made ready, now.
        """
        if is_extra(item):
            return item.id in self.extra
        lease = self.permitted
        return lease is not None and (item.phase == PREPARE or item.lease is lease)

    def owner_record(self, lease: Lease) -> OwnerRecord:
        """
        Make the owner record of what is claimed under a lease.
        """
        return OwnerRecord(
            owner=self._instance_id,
            session=lease.session_id,
            check=self._session.check_id or None,
            node=self._session.node,
            ttl=self._session.session_ttl,
        )
