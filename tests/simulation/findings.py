"""
Seeds that find deliberate bugs, as ``make hunt`` has found them.

A change of the product, or of the simulator, may let a seed miss its bug.  Then
another one is looked for: ``make hunt`` names it.
"""

from __future__ import annotations

#: By the name of the bug; see :mod:`.bugs`.
SEEDS: dict[str, int] = {
    "no-session-fence": 34,
    "no-term-cas": 16,
}
