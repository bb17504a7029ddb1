"""
Making very many values at once without the collector looking in between.

Python's cycle collector runs by the number of allocations.  Reading a hundred
thousand rows makes a hundred thousand values, none of which can be garbage
yet, and the collector would walk all of them again and again: half the time of
a large pass.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: From so many values on it pays.
MANY = 5_000


@contextmanager
def collector_resting(values: int) -> Iterator[None]:
    """
    Keep the collector from running while so many values are made, if they are
    many.  For synchronous code that makes no cycles.
    """
    if values < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
