"""
Taking JSON for what it should be, or not at all.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import ForeignAnswer
from .classify import decode, excerpt
from .transport import Response

_T = TypeVar("_T")


def shaped(response: Response, shape: Callable[[Any], _T]) -> _T:
    """
    Decode an answer and give it its shape.

    :raises ForeignAnswer: when it has another.
    """
    data = decode(response)
    try:
        return shape(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ForeignAnswer(
            f"{response.status} with JSON of an unknown shape ({error!r}):"
            f" {excerpt(response.body)}"
        ) from error


def truth(data: Any) -> bool:
    """
    Take true or false.
    """
    if not isinstance(data, bool):
        raise TypeError(f"{type(data).__name__} instead of true or false")
    return data


def text_of(data: Any) -> str:
    """
    Take a text.
    """
    if not isinstance(data, str):
        raise TypeError(f"{type(data).__name__} instead of a text")
    return data


def rows_of(data: Any) -> list[Any]:
    """
    Take a list; ``null`` is Go's empty one.
    """
    if data is None:
        return []
    if not isinstance(data, list):
        raise TypeError(f"{type(data).__name__} instead of a list")
    return data


def record_of(data: Any) -> dict[str, Any]:
    """
    Take an object.
    """
    if not isinstance(data, dict):
        raise TypeError(f"{type(data).__name__} instead of an object")
    return data
