"""
Items that their member runs without owning them, and how it is made to notice.

# Note [Reminding]

A member knows what it owns from what it wrote, and reads no owner record while
all is well.  If somebody deletes one, the member goes on, and the next member
the item is given to would not wait for it to stop.  The leader reads all owner
records anyway.  An item that is assigned and has had none for some time, twice
as long as any claim takes, is assigned anew: its assignment is deleted and put
in one transaction.  That new index makes the worker read what it owns.

One reminder is enough.  It is given again only if the item had an owner record
meanwhile, so that a worker which owns nothing costs no writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from .consul.model import Op
from .keys import Keys
from .planning.state import ClusterState


class Reminders:
    """
    Remembers since when items have no owner record; see Note [Reminding].

    :param patience: seconds after which a member is reminded.
    """

    def __init__(self, keys: Keys, patience: float) -> None:
        self._keys = keys
        self._patience = patience
        self._since: dict[tuple[str, str], float] = {}
        self._reminded: set[tuple[str, str]] = set()

    def due(
        self, state: ClusterState, busy: Collection[str] = ()
    ) -> dict[tuple[str, str], tuple[Op, ...]]:
        """
        Look at the state, and give the writes that are due.

        :param busy: items that are about to be assigned anew anyway.
        :return: the operations that belong together, by session and item; to
            be told to :meth:`made` once they are written.
        """
        since: dict[tuple[str, str], float] = {}
        due: dict[tuple[str, str], tuple[Op, ...]] = {}
        for session, member, work in _unowned(state):
            mark = session, work
            since[mark] = began = self._since.get(mark, state.now)
            waited = state.now - began >= self._patience
            if waited and work not in busy and mark not in self._reminded:
                key = self._keys.assignment(member, work)
                value = state.assignments[member][work]
                due[mark] = (Op.delete(key), Op.set(key, value))
        self._since = since
        self._reminded.intersection_update(since)
        return due

    def made(self, marks: Iterable[tuple[str, str]]) -> None:
        """
        Note that these reminders were written.
        """
        self._reminded.update(marks)


def _unowned(state: ClusterState) -> Iterator[tuple[str, str, str]]:
    """
    Give the session, the member and the item wherever a living member of this
    library has an assignment that nobody owns.
    """
    for name, member in state.members.items():
        if member.foreign or member.session is None:
            continue
        for work in state.assignments.get(name, ()):
            if work in state.work and work not in state.owner_entries:
                yield member.session, name, work
