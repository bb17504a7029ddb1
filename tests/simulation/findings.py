"""
Seeds that find deliberate bugs, as ``make hunt`` has found them.

A change of the product, or of the simulator, may let a seed miss its bug.  Then
another one is looked for: ``make hunt`` names it.
"""

from __future__ import annotations

#: By the name of the bug; see :mod:`.bugs`.
SEEDS: dict[str, int] = {
    "no-session-fence": 109,
    "no-term-cas": 34,
    "reply-clock": 6,
    "release-first": 0,
    "index-not-reset": 804,
    "no-demotion": 8,
    "no-taking-over-rule": 2,
    "timer-on-key": 186,
    "late-pass": 4,
    "prepare-runs": 0,
    "kept-forgotten": 0,
    "order-unheard": 0,
}
