"""
Where an operator wants an item: said, taken back, and what follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen
from twisted.internet.defer import inlineCallbacks

from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry
from ..errors import CoordinationError
from ..keys import Keys
from .actions import look
from .changing import refuse_missing
from .documents import Document
from .intents import standing_still
from .view import View

#: So many members are named.
MOST_MEMBERS = 10


@frozen
class Relocation:
    """
    What came of saying where an item is wanted.

    :ivar target: the member, empty for any other; ``None`` for nothing wanted.
    :ivar before: what was wanted before.
    :ivar written: whether that was written.
    :ivar view: the cluster as it was.
    """

    id: str
    target: str | None
    before: str | None
    written: bool
    view: View

    def to_json(self) -> Document:
        """
        Give it as the ``--json`` document has it.
        """
        item = self.view.items.get(self.id)
        return {
            "id": self.id,
            "node": None if item is None else item.assigned_to,
            "to": self.target or None,
            "wanted": self.target is not None,
            "was_wanted": self.before is not None,
            "written": self.written,
            "follows": list(follows(self)),
        }


@inlineCallbacks
def relocate(
    api: ConsulApi, keys: Keys, id: str, target: str | None
) -> Steps[Relocation]:
    """
    Say where an item is wanted, if it is not said already.

    :param target: empty for any other member; ``None`` for nothing wanted.
    :raises CoordinationError: when there is no such item, or no such member,
        naming those that there are.
    """
    view: View = yield look(api, keys)
    entry: Entry | None = (yield api.get(keys.relocation(id))).entry
    if target is not None or entry is None:
        refuse_missing(
            [id], {i: item for i, item in view.items.items() if item.work is not None}
        )
    if target and target not in view.live:
        raise CoordinationError(f"no member {target} ({who_is_there(view)})")
    before = view.planned.relocations.get(id)
    written = entry is not None if target is None else before != target
    if written and target is None:
        yield api.delete(keys.relocation(id))
    elif written and target is not None:
        yield api.put(keys.relocation(id), target.encode())
    return Relocation(id, target, before, written, view)


def who_is_there(view: View) -> str:
    """
    Name the members, for an error about one that is not.
    """
    names = sorted(view.live)
    if not names:
        return "there is none"
    more = len(names) - MOST_MEMBERS
    rest = f" and {more} more" if more > 0 else ""
    return f"there are {', '.join(names[:MOST_MEMBERS])}{rest}"


def follows(made: Relocation) -> Iterator[str]:
    """
    Say what follows from where an item is wanted now.
    """
    view, target = made.view, made.target
    if target is None:
        return
    yield "the resource leader moves it once there is room; no other leader does"
    item = view.items[made.id]
    if item.assigned_to is None:
        yield "it has no place yet"
    elif item.assigned_to == target:
        yield f"it is on {target} already"
    refusal = view.planned.refusal(target) if target else ""
    if refusal:
        yield f"{target} is {refusal}, and given nothing for as long as it is"
    if not target and len(view.live) < 2:
        yield "there is no other member"
    yield from standing_still(view)


def relocations(view: View) -> Document:
    """
    Give where operators want items.
    """
    rows = []
    for id, target in sorted(view.planned.relocations.items()):
        item = view.items.get(id)
        rows.append(
            {
                "id": id,
                "node": None if item is None else item.assigned_to,
                "to": target or None,
                "known": item is not None and item.work is not None,
            }
        )
    return {"relocations": rows}
