"""
Whether Consul is in an older state than it was.  Pure.

# Note [A Consul that was restored]

Indexes only ever rise.  One that is lower than the one before is of another
history: Consul was restored to an older state, or emptied.

Few would see that soon, though.  ``consul snapshot restore`` answers every
blocking query at once, with what it last saw and the very index that was asked
for; from then on a query for that index sleeps until the new history is as long
as the old one was.  No other query is answered with the index it asked for
before its wait is over.  So an early answer without news is a sign: what it tells
of, a read from the beginning shows.
"""

from __future__ import annotations

from enum import Enum

#: An answer without news is early when it took less than this part of what they
#: usually take; Consul only ever adds to a wait.
EARLY_SHARE = 0.9


class Sign(Enum):
    """
    What an answer says about Consul's history.
    """

    #: Nothing.
    NONE = "none"
    #: It may be another one.
    EARLY = "early"
    #: It is another one.
    LOWER = "lower"


class History:
    """
    Follows the indexes of one watch; see Note [A Consul that was restored].

    :param wait: seconds one query waits at most.  Agents may have a shorter
        limit of their own: what answers without news usually take is learnt.
    """

    def __init__(self, wait: float) -> None:
        self._usual = wait
        self._last = 0

    def note(self, asked: int, found: int, waited: float) -> Sign:
        """
        Note an answer.

        :param asked: the index asked for; 0 for none.
        :param found: the index of the answer.
        :param waited: how long it took, in seconds.
        """
        lower, self._last = found < self._last, found
        if lower:
            return Sign.LOWER
        if not asked or found != asked:
            return Sign.NONE
        early = waited < EARLY_SHARE * self._usual
        self._usual = waited
        return Sign.EARLY if early else Sign.NONE
