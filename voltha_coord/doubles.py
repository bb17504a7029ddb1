"""
The Coordinators of one process, so that none of them is there twice.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Generic, TypeVar

from .errors import DuplicateCoordinatorError

_T = TypeVar("_T")

#: Those of this process, by prefix and instance id.
_in_this_process: dict[tuple[str, str], Any] = {}


class Place(Generic[_T]):
    """
    The place of one Coordinator among those of its process.

    :param registry: who has taken which place; by default, of this process.

    :raises DuplicateCoordinatorError: when another one has taken it.
    """

    def __init__(
        self,
        prefix: str,
        instance_id: str,
        registry: MutableMapping[tuple[str, str], _T] | None = None,
    ) -> None:
        self._registry = _in_this_process if registry is None else registry
        self._name = (prefix, instance_id)
        if self._name in self._registry:
            raise DuplicateCoordinatorError(
                f"this process already runs {instance_id!r} under "
                f"{prefix!r}: shut that Coordinator down first"
            )

    def take(self, who: _T) -> None:
        """
        Take it: that one is made.
        """
        self._registry[self._name] = who

    def give_back(self) -> None:
        """
        Give it back, if it was taken.
        """
        self._registry.pop(self._name, None)
