"""
A double of a Coordinator, for what stands above it: service, web face, reload.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from voltha_coord.events import Connection


class RecordingCoordinator:
    """
    Records what it is told, and says what it is told to say.

    :ivar made_with: what it was made with.
    :ivar events: what was asked of it, in order.
    :ivar ending: what ``shutdown`` returns; fired by the test.
    :ivar refreshed: what ``refresh_status`` returns; a fired one by default.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.made_with = (args, kwargs)
        self.events: list[Any] = []
        self.ending: Deferred[None] = Deferred()
        self.refreshed: Deferred[dict[str, Any]] | None = None
        self.connection = Connection.CONNECTED
        self.is_ready = False
        self.token_changes = False
        self.work_deadline: float | None = None
        self.unstopped_work: tuple[str, ...] = ()
        self.told: dict[str, Any] = {
            "instance_id": "m1",
            "role": "candidate",
            "leader_id": None,
            "session_id": None,
            "consul": {"address": "http://127.0.0.1:8500", "connection": "connected"},
        }

    def shutdown(self) -> Deferred[None]:
        """
        End when the test says so.
        """
        self.events.append("shutdown")
        return self.ending

    def status(self) -> dict[str, Any]:
        """
        Say what was last known.
        """
        return dict(self.told)

    def refresh_status(self) -> Deferred[dict[str, Any]]:
        """
        Ask Consul, as it were.
        """
        self.events.append("refresh")
        return succeed(self.status()) if self.refreshed is None else self.refreshed

    def set_weight(self, weight: float) -> None:
        """
        Take another weight.
        """
        self.events.append(("weight", weight))

    def reload_token(self) -> bool:
        """
        Read the token again.
        """
        self.events.append("token")
        return self.token_changes
