"""
A runner that says only what it has to say.
"""

from __future__ import annotations

from typing import Any, cast

from ..errors import ConfigurationError
from ..interfaces import IRunner
from .track import TrackRunner

#: What every runner must have.
NEEDED = ("start_work", "stop_work")

#: What a runner may leave out; then nothing is done.
OPTIONAL = (
    "prepare_work",
    "update_work",
    "report",
    "usage",
    "listen",
    "condition",
)


class _Completed:
    """
    A runner, with nothing to be done where it says nothing.
    """

    def __init__(self, runner: object) -> None:
        self._runner = runner
        self._nothing = TrackRunner()

    def __getattr__(self, name: str) -> Any:
        if name in OPTIONAL and not hasattr(self._runner, name):
            return getattr(self._nothing, name)
        return getattr(self._runner, name)


def complete(runner: object) -> IRunner:
    """
    Give a runner that has everything :class:`~voltha_coord.interfaces.IRunner`
    asks for.

    :raises ConfigurationError: when ``start_work`` or ``stop_work`` is missing.
    """
    for name in NEEDED:
        if not callable(getattr(runner, name, None)):
            raise ConfigurationError(
                f"runner {runner!r}: it has no method {name}; a runner needs "
                f"{' and '.join(NEEDED)}"
            )
    if all(hasattr(runner, name) for name in OPTIONAL):
        return cast(IRunner, runner)
    return cast(IRunner, _Completed(runner))


def does(runner: IRunner, name: str) -> bool:
    """
    Whether a runner has something to say at a step, or leaves it out.
    """
    own = runner._runner if isinstance(runner, _Completed) else runner
    method = getattr(own, name, None)
    nothing = getattr(TrackRunner, name, None)
    return callable(method) and getattr(method, "__func__", method) is not nothing
