"""
What an operator wants of the cluster: said, taken back, and what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import inlineCallbacks

from .._types import Steps
from ..consul.api import ConsulApi
from ..consul.model import Entry, Reading
from ..errors import CoordinationError
from ..keys import Keys
from ..planning.current import why_nobody
from ..planning.state import LEAVE, MAINTENANCE, ClusterState
from .actions import look
from .findings import counted, frozen_words, named
from .view import View

#: The word for nothing that is wanted of a member.
ONLINE = "online"


@frozen
class NodeChange:
    """
    What came of saying what is wanted of a member.

    :ivar intent: what is wanted now; ``None`` for nothing.
    :ivar before: what was wanted before.
    :ivar written: whether that was written.
    :ivar view: the cluster as it was.
    """

    id: str
    intent: str | None
    before: str | None
    written: bool
    view: View


@inlineCallbacks
def want(
    api: ConsulApi, keys: Keys, id: str, intent: str | None, force: bool = False
) -> Steps[NodeChange]:
    """
    Say what is wanted of a member, if it is not said already.

    :param intent: ``None`` for nothing.
    :param force: also of one that nothing is known of.
    :raises CoordinationError: when nothing is known of it.
    """
    view: View = yield look(api, keys)
    entry: Entry | None = (yield api.get(keys.node_intent(id))).entry
    if entry is None and not force:
        refuse_unknown(view, id)
    before = view.planned.node_intents.get(id)
    written = entry is not None if intent is None else before != intent
    if written:
        yield write_node_intent(api, keys, id, intent)
    return NodeChange(id, intent, before, written, view)


@inlineCallbacks
def write_node_intent(
    api: ConsulApi, keys: Keys, id: str, intent: str | None
) -> Steps[None]:
    """
    Write what is wanted of a member, whatever is written there.
    """
    if intent is None:
        yield api.delete(keys.node_intent(id))
    else:
        yield api.put(keys.node_intent(id), intent.encode())


def refuse_unknown(view: View, id: str) -> None:
    """
    Go on only if something is known of a member: that it is there, that
    something is wanted of it, or that it has work.

    :raises CoordinationError: naming those that are there.
    """
    if id in view.live or id in view.planned.node_intents or view.holdings(id):
        return
    there = f"there are {named(view.live)}" if view.live else "there is none"
    raise CoordinationError(
        f"no member {id} ({there}); --force if one is meant that is away"
    )


def hindrances(view: View, id: str) -> Iterator[str]:
    """
    Say what keeps work from moving away from a member.
    """
    yield from standing_still(view)
    others = {name: m for name, m in view.live.items() if name != id}
    yield from _nobody(evolve(view.planned, members=others), "other ")


def _nobody(planned: ClusterState, other: str = "") -> Iterator[str]:
    if not planned.members:
        yield f"there is no {other}member to take work"
    elif not planned.receivers:
        yield f"no {other}member can take work: {why_nobody(planned)}"


def standing_still(view: View) -> Iterator[str]:
    """
    Say why nothing is planned at the moment, or not as operators want it.
    """
    if view.planned.frozen:
        words = frozen_words(view.planned.freeze_reason)
        yield f"planning is {words}: voltha-coordctl unfreeze ends that"
    if view.leader_id is None:
        yield "nobody leads at the moment"
    elif view.leading is not None and view.leading.foreign:
        yield (
            f"{view.leader_id}, which leads, is a member of the 2016 original, and "
            "does not know what operators want"
        )


def follows(change: NodeChange) -> Iterator[str]:
    """
    Say what follows from what is wanted of a member now.
    """
    view, id = change.view, change.id
    items = counted(len(view.holdings(id)))
    if change.intent == MAINTENANCE:
        yield f"it is given no new work, and keeps what it has: {items}"
        yield "should it die, that moves to the others"
        intents = {**view.planned.node_intents, id: MAINTENANCE}
        yield from _nobody(evolve(view.planned, node_intents=intents))
    elif change.intent == LEAVE:
        yield f"it is given no work, and what it has moves away: {items}"
        yield from hindrances(view, id)
    else:
        yield "it is given work again"
        yield from standing_still(view)
    if id not in view.live:
        yield "it is no member at the moment"
    elif id == view.leader_id and change.intent is not None:
        yield "it leads on; voltha-coordctl transfer hands leadership over"


@frozen
class FreezeChange:
    """
    What came of wanting planning frozen, or not.

    :ivar reason: why it is frozen now; ``None`` when it is not.
    :ivar before: why it was frozen before.
    :ivar written: whether that was written.
    """

    reason: str | None
    before: str | None
    written: bool

    def to_json(self) -> dict[str, Any]:
        """
        Give it as the ``--json`` document has it.
        """
        return {
            "frozen": self.reason is not None,
            "freeze_reason": self.reason or None,
            "was_frozen": self.before is not None,
            "was_freeze_reason": self.before or None,
            "written": self.written,
        }


@inlineCallbacks
def freeze(api: ConsulApi, keys: Keys, reason: str | None) -> Steps[FreezeChange]:
    """
    Let nothing be planned.

    :param reason: for people; ``None`` lets one that is there stay.
    """
    before = yield from _freeze_reason(api, keys)
    wanted = (before or "") if reason is None else reason
    if before != wanted:
        yield api.put(keys.freeze, wanted.encode())
    return FreezeChange(wanted, before, before != wanted)


@inlineCallbacks
def unfreeze(api: ConsulApi, keys: Keys) -> Steps[FreezeChange]:
    """
    Let planning go on.
    """
    before = yield from _freeze_reason(api, keys)
    if before is not None:
        yield api.delete(keys.freeze)
    return FreezeChange(None, before, before is not None)


def _freeze_reason(api: ConsulApi, keys: Keys) -> Steps[str | None]:
    found: Reading = yield api.get(keys.freeze)
    if found.entry is None:
        return None
    return found.entry.value.decode("utf-8", "replace").strip()
