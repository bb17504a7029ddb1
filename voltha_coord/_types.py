"""
Names for types that many modules share.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from twisted.internet.defer import Deferred

_T = TypeVar("_T")

#: What the body of an ``inlineCallbacks`` function returns.
Steps: TypeAlias = Generator[Deferred[Any], Any, _T]
