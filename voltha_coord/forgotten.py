"""
A Consul that comes back empty, and what becomes of the work that ran.

# Note [A Consul that comes back empty]

When Consul loses its data everything under our prefix is gone: the work, who it
is assigned to, who owns it.  For a member that looks like an operator who wants
nothing to run any more, and that is the one thing nobody has said.  There is a
difference: whoever removes work leaves the owner records alone, which are ours
to release.  So where there is no work, no assignment, and none of the owner
records that we wrote and did not release, Consul has forgotten.

A leader may have cleared them, though, if we were away for longer than our lease:
then it wrote the term record with them.  The term record that was there when we
claimed last, if it was written since, speaks of a Consul that remembers.

Then what we own counts as assigned to us: what runs goes on, and is owned anew, by
a claim that is refused where there is an assignment or another owner.  What has
stopped starts again as it was, but one session TTL later: it may have been moved
while we were away, and whoever runs it has claimed it by then, or has stopped.  So
it runs once, as before.  It is not under
``work/``, though: nobody can move it, and nobody knows of it once its member is
gone.  That is for an operator to mend, and said until it is.  As soon as a
leader has assigned anything to anybody, what is assigned counts again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, KeyNames, Reading
from .keys import Keys
from .listing import refuse_denied
from .ownership import Ownership
from .succession import CLOCK_RATE_MARGIN

#: While Consul has forgotten, that is said again after so many seconds, when the
#: watch of the assignments looks.
SAY_AGAIN = 60.0

#: What people are told of each item.
TROUBLE = "Consul has forgotten it: it goes on here, until work/ is restored"


class Forgotten:
    """
    Knows whether Consul has forgotten the cluster; see Note [A Consul that comes
    back empty].

    :ivar active: whether it has, as far as is known.

    :param now: the lease clock, in seconds.
    :param session_ttl: for how long others may go on without their records.
    :param owned: gives what this member owns: what it claimed and has neither
        released nor been relieved of.
    :param begun: called when it turns out that Consul has forgotten.
    """

    def __init__(
        self,
        now: Callable[[], float],
        api: ConsulApi,
        keys: Keys,
        ownership: Ownership,
        *,
        session_ttl: float,
        owned: Callable[[], Collection[str]],
        begun: Callable[[], None],
        log: Any,
    ) -> None:
        self._now = now
        self._api = api
        self._keys = keys
        self._ownership = ownership
        self._owned = owned
        self._begun = begun
        self._log = log
        self._patience = CLOCK_RATE_MARGIN * session_ttl
        self._since = self._said_at = 0.0
        self._claimed_at = self._term_created = 0
        self.active = False

    def claimed(self, index: int, term: Entry | None) -> None:
        """
        Note that we wrote owner records.

        :param index: the ModifyIndex they have.
        :param term: the term record at that moment.
        """
        self._claimed_at = index
        self._term_created = 0 if term is None else term.create_index

    @property
    def pause(self) -> float:
        """
        Seconds until what has stopped may start again.
        """
        return max(0.0, self._since + self._patience - self._now())

    @inlineCallbacks
    def look(self) -> Steps[bool]:
        """
        Find out whether Consul has forgotten: nothing is assigned to us, or no
        owner record is in our name.

        :return: a Deferred that fires with the answer, or fails with
            :class:`ConsulError`, also when what is empty may not be read.
        """
        if not self._owned():
            self.over()
            return False
        if (yield self._remembers()):
            self.over()
            return False
        now = self._now()
        if not self.active or now >= self._said_at + SAY_AGAIN:
            self._said_at = now
            self._log.critical(
                "consul-forgot-the-work",
                items=len(self._owned()),
                effect="it goes on here; nobody can move it, or take it over",
                action=f"voltha-coordctl freeze, restore what was under "
                f"{self._keys.work}, voltha-coordctl unfreeze: what is not "
                "restored stops as soon as anything is assigned",
            )
        if not self.active:
            # From here on nobody moves anything.
            self.active, self._since = True, now
            self._begun()
        return True

    @inlineCallbacks
    def _remembers(self) -> Steps[bool]:
        """
        Whether there is anything left that speaks of the work.
        """
        if not (yield self._empty(self._keys.assignments)):
            return True
        if self.active:
            # Work that is there again has to be assigned, too.
            return False
        left = not (yield self._empty(self._keys.work))
        left = left or bool((yield self._ownership.records()))
        left = left or (yield self._relieved())
        # Another look may have found out meanwhile, and led to new records.
        return left and not self.active

    @inlineCallbacks
    def _relieved(self) -> Steps[bool]:
        """
        Whether a leader has written since our last claim, in a Consul that knew
        it.
        """
        reading: Reading = yield self._api.get(self._keys.term, consistent=True)
        term = reading.entry
        if term is None or term.create_index != self._term_created:
            return False
        return term.modify_index >= self._claimed_at

    def over(self) -> None:
        """
        What is assigned counts, again or as ever.
        """
        if self.active:
            self.active = False
            self._log.warning("consul-knows-work-again", items=len(self._owned()))

    @inlineCallbacks
    def _empty(self, prefix: str) -> Steps[bool]:
        names: KeyNames = yield self._api.keys(prefix, separator="/", consistent=True)
        if not names.names:
            yield refuse_denied(self._api, prefix)
        return not names.names
