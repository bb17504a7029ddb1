"""
Work ids as people type them: one by one, or as ranges in braces.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from ..errors import InvalidIdError
from ..keys import check_work_id

#: More ids than this in one command are a slip of the keyboard.
MOST_IDS = 1_000_000

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def _numbers(first: str, last: str) -> list[str]:
    low, high = int(first), int(last)
    if abs(high - low) >= MOST_IDS:
        raise InvalidIdError(
            f"range {{{first}..{last}}}: {abs(high - low) + 1} ids, "
            f"at most {MOST_IDS} at once"
        )
    padded = any(len(end) > 1 and end.startswith("0") for end in (first, last))
    width = max(len(first), len(last)) if padded else 0
    step = 1 if low <= high else -1
    return [str(number).zfill(width) for number in range(low, high + step, step)]


def expand(pattern: str) -> Iterator[str]:
    """
    Give the ids of one pattern: ``x_{08..10}`` is x_08, x_09 and x_10, as in
    the shells that know such braces; without braces it is itself.

    :raises InvalidIdError: for a range too large to be meant.
    """
    pieces = _RANGE.split(pattern)
    texts, firsts, lasts = pieces[::3], pieces[1::3], pieces[2::3]
    ranges = [_numbers(first, last) for first, last in zip(firsts, lasts, strict=True)]
    for numbers in itertools.product(*ranges):
        yield texts[0] + "".join(
            number + text for number, text in zip(numbers, texts[1:], strict=True)
        )


def work_ids(patterns: Iterable[str]) -> tuple[str, ...]:
    """
    Give the valid work ids of several patterns, each once, in the order given.

    :raises InvalidIdError: naming the id and the character that cannot stand
        in it.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        for work_id in expand(pattern):
            found[check_work_id(work_id)] = None
            if len(found) > MOST_IDS:
                raise InvalidIdError(f"more than {MOST_IDS} ids at once")
    return tuple(found)
