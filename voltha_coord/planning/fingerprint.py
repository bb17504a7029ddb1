"""
A number for a placement: who is to run what.

Two looks at a cluster that give the same number saw the same placement, whoever
looked; so one number tells a calm cluster from one in which work moves to and
fro.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

#: So short that a floating-point number holds it exactly.
DIGEST_BYTES = 6


def fingerprint(assignments: Mapping[str, Mapping[str, object]]) -> int:
    """
    Give the number of a placement.

    :param assignments: by member, then by work id; the order does not matter.
    """
    digest = blake2b(digest_size=DIGEST_BYTES)
    for member in sorted(assignments):
        works = assignments[member]
        if works:
            # No id holds a line end, nor can it be taken for a name of the other
            # kind: members end with one, work begins with a tabulator.
            digest.update(f"{member}\n".encode())
            digest.update("".join(f"\t{work}" for work in sorted(works)).encode())
    return int.from_bytes(digest.digest(), "big")
