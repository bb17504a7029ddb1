"""
What planning by resources decides about work items, one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import field, frozen


@frozen
class Null:
    """
    All is as it is to be; whatever was wrong is no more.
    """

    work: str


@frozen
class Stop:
    """
    Stop a process, and leave it where it is.
    """

    work: str
    node: str


@frozen
class Reject:
    """
    An item cannot be placed.
    """

    work: str
    reason: str


@frozen
class Delete:
    """
    Stop a process, and take it from its node for good.
    """

    work: str
    node: str


@frozen
class Update:
    """
    Give a process what its item has become.

    :ivar metadata: what has to be changed in it: the new values, ``None`` for
        what is to go.
    :ivar force: start it anew also if nothing else has changed.
    """

    work: str
    node: str
    metadata: Mapping[str, Any] = field(factory=dict)
    force: bool = False


@frozen
class Start:
    """
    Start a process where it is.
    """

    work: str
    node: str


@frozen
class Add:
    """
    Place an item, and start it if its order says so.
    """

    work: str
    node: str
    order: str = "start"


@frozen
class Move:
    """
    Take a process from one node to another.
    """

    work: str
    source: str
    target: str
    order: str = "start"


@frozen
class Skip:
    """
    A process should be moved and cannot be; it stays, and is none the worse.
    """

    work: str
    node: str
    reason: str


@frozen
class Error:
    """
    An item cannot be deployed as it is; where it runs it stays as it was.
    """

    work: str
    reason: str


Action: TypeAlias = (
    Null | Stop | Reject | Delete | Update | Start | Add | Move | Skip | Error
)
