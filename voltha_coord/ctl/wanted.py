"""
What the doctor thinks of what operators want.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..planning.current import why_nobody
from ..records import TransferRequest
from .findings import Finding, frozen_words, named, ok, one_line, warn, wrong
from .view import View


def of_intents(view: View) -> Iterator[Finding]:
    """
    Give the findings about what operators want; none when that is nothing.
    """
    planned = view.planned
    wishes = {id: f"{id} ({intent})" for id, intent in planned.node_intents.items()}
    here = [text for id, text in wishes.items() if id in view.live]
    if here:
        yield ok("intents", f"given no new work, as operators want it: {named(here)}")
    gone = {id: text for id, text in wishes.items() if id not in view.live}
    if gone:
        yield warn(
            "intents",
            f"for members that are not there: {named(gone.values())}",
            "they count should one come back; if none is to: "
            f"voltha-coordctl node {min(gone)} online",
        )
    if view.live and not planned.receivers:
        yield (wrong if _homeless(view) else warn)(
            "intents",
            f"no member can take work: {why_nobody(planned)}",
            "voltha-coordctl node ID online, or start another member",
        )
    if planned.frozen:
        yield warn(
            "freeze",
            f"planning is {frozen_words(planned.freeze_reason)}; work stays as it is",
            "voltha-coordctl unfreeze",
        )
    if view.transfer is not None:
        yield _transfer(view, view.transfer)


def _homeless(view: View) -> bool:
    """
    Whether an item that is wanted is with no member that is there.
    """
    return any(
        item.wanted and item.assigned_to not in view.live
        for item in view.items.values()
    )


def _transfer(view: View, request: TransferRequest) -> Finding:
    delete = f"consul kv delete {view.keys.transfer}"
    target = one_line(request.target) or "any other"
    if request.refused is not None:
        found = f"to {target}, refused: {one_line(request.refused)}"
        return warn("hand-over", found, f"nobody has read that: {delete}")
    if request.token != view.fencing_token:
        found = f"to {target}, asked of a leader that leads no more"
        return warn("hand-over", found, f"no other acts on it: {delete}")
    return warn(
        "hand-over",
        f"to {target}, asked of {view.leader_id}, which has not answered",
        f"look again in some seconds; if it has not then: {delete}",
    )
