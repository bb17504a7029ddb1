"""
Coordination of clustered Twisted applications on Consul.

What applications build on is here.  Each name is imported on its first use:
twistd imports this package to list its plugins, and must stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .condition import Condition as Condition
    from .coordinator import Coordinator as Coordinator
    from .coordinator import LeaseView as LeaseView
    from .errors import AccessDenied as AccessDenied
    from .errors import ConfigurationError as ConfigurationError
    from .errors import ConsulError as ConsulError
    from .errors import ConsulUnavailable as ConsulUnavailable
    from .errors import CoordinationError as CoordinationError
    from .errors import DuplicateCoordinatorError as DuplicateCoordinatorError
    from .errors import InvalidIdError as InvalidIdError
    from .errors import LockBusy as LockBusy
    from .errors import LockLost as LockLost
    from .errors import LockNotAcquired as LockNotAcquired
    from .errors import NotLeading as NotLeading
    from .errors import ShutDownError as ShutDownError
    from .errors import (
        StaleMembershipEntryException as StaleMembershipEntryException,
    )
    from .errors import TransferRefused as TransferRefused
    from .events import Connection as Connection
    from .events import ConnectionChanged as ConnectionChanged
    from .events import LeaderChanged as LeaderChanged
    from .events import MembersChanged as MembersChanged
    from .events import RoleChanged as RoleChanged
    from .events import WorkStuck as WorkStuck
    from .leader import Leader as Leader
    from .lock import Lock as Lock
    from .lock_holding import Held as Held
    from .measuring import MachineMeter as MachineMeter
    from .records import Member as Member
    from .records import WorkItem as WorkItem
    from .service import CoordinatorService as CoordinatorService
    from .settings import Settings as Settings
    from .web.exposing import MemberCollector as MemberCollector
    from .worker import Worker as Worker

_HOMES = {
    "__version__": "_version",
    "AccessDenied": "errors",
    "Condition": "condition",
    "ConfigurationError": "errors",
    "Connection": "events",
    "ConnectionChanged": "events",
    "ConsulError": "errors",
    "ConsulUnavailable": "errors",
    "CoordinationError": "errors",
    "Coordinator": "coordinator",
    "CoordinatorService": "service",
    "DuplicateCoordinatorError": "errors",
    "Held": "lock_holding",
    "InvalidIdError": "errors",
    "Leader": "leader",
    "LeaderChanged": "events",
    "LeaseView": "coordinator",
    "Lock": "lock",
    "LockBusy": "errors",
    "LockLost": "errors",
    "LockNotAcquired": "errors",
    "MachineMeter": "measuring",
    "Member": "records",
    "MemberCollector": "web.exposing",
    "MembersChanged": "events",
    "NotLeading": "errors",
    "RoleChanged": "events",
    "Settings": "settings",
    "ShutDownError": "errors",
    "StaleMembershipEntryException": "errors",
    "TransferRefused": "errors",
    "WorkItem": "records",
    "WorkStuck": "events",
    "Worker": "worker",
}

__all__ = [  # noqa: RUF022 - in the order in which they are met
    "Coordinator",
    "CoordinatorService",
    "Settings",
    "LeaseView",
    "Lock",
    "Held",
    "Leader",
    "Worker",
    "WorkItem",
    "Condition",
    "Member",
    "LeaderChanged",
    "MembersChanged",
    "RoleChanged",
    "Connection",
    "ConnectionChanged",
    "WorkStuck",
    "MemberCollector",
    "MachineMeter",
    "CoordinationError",
    "ConfigurationError",
    "InvalidIdError",
    "DuplicateCoordinatorError",
    "ShutDownError",
    "NotLeading",
    "TransferRefused",
    "LockBusy",
    "LockNotAcquired",
    "LockLost",
    "StaleMembershipEntryException",
    "ConsulError",
    "ConsulUnavailable",
    "AccessDenied",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """
    Import a public name on its first use.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """
    List the public names, imported or not.
    """
    return sorted({*globals(), *__all__})
