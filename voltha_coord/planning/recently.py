"""
What was read a pass ago and is as it was need not be read again.

# Note [What is forgotten]

Values under a prefix are read anew in each pass, and most are as they were.  What
was made of them is kept as long as it is asked for: what was not asked for in one
turn, nor in the one before, is forgotten.  A planner begins a turn with each plan;
so no more is kept than two plans have looked at, however often values change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_MISSING: Any = object()


class Recent(Generic[_T]):
    """
    Remembers what was made of what; see Note [What is forgotten].

    :ivar now: what was asked for in this turn.
    """

    def __init__(self) -> None:
        self.now: dict[Hashable, _T] = {}
        self._before: dict[Hashable, _T] = {}

    def __len__(self) -> int:
        """
        Give how much is remembered.
        """
        return len(self.now) + len(self._before)

    def turn(self) -> None:
        """
        Begin a turn.
        """
        self._before, self.now = self.now, {}

    def get(self, key: Hashable, make: Callable[..., _T], *arguments: Any) -> _T:
        """
        Give what was made of a key, or make it.
        """
        found: _T = self.now.get(key, _MISSING)
        if found is _MISSING:
            found = self._before.pop(key, _MISSING)
            if found is _MISSING:
                found = make(*arguments)
            self.now[key] = found
        return found


_MEMORIES: list[Recent[Any]] = []


def recently(make: Callable[_P, _T]) -> Callable[_P, _T]:
    """
    Have a pure function remember what it gave; its arguments are positional.
    """
    memory: Recent[_T] = Recent()
    _MEMORIES.append(memory)

    @wraps(make)
    def remembered(*arguments: _P.args, **_: _P.kwargs) -> _T:
        # As a rule it is asked for tens of thousands of times in a pass.
        found: _T = memory.now.get(arguments, _MISSING)
        if found is _MISSING:
            return memory.get(arguments, make, *arguments)
        return found

    return remembered


def turn() -> None:
    """
    Begin a turn, for all that is remembered.
    """
    for memory in _MEMORIES:
        memory.turn()


def remembered() -> int:
    """
    Give how much is remembered, all together.
    """
    return sum(map(len, _MEMORIES))
